"""The examples run as they are, and stay as short as they are said to be."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from runoff import Engine

httpx = pytest.importorskip("httpx", reason="the extra `test` is not installed")
pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def client_of(app: Any) -> Any:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://service")


def test_the_service_answers(engine: Engine, articles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.ingest(articles)
    monkeypatch.setenv("STORE", str(engine.folder))
    app = load("service").app

    async def main() -> tuple[Any, Any]:
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            return await client.get("/prompt", params={"question": "Who signs webhooks?"}), await client.get("/prompt")

    answer, refused = asyncio.run(main())
    assert answer.status_code == 200
    assert "HMAC" in answer.json()["prompt"]
    assert answer.json()["sources"][0].startswith("https://blog.example/")
    assert refused.status_code == 422


def test_the_service_says_when_it_is_busy(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from runoff import DeadlineError, OverloadedError

    monkeypatch.setenv("STORE", str(engine.folder))
    app = load("service").app
    failures = [OverloadedError("full", 2.0), DeadlineError("late")]

    async def fail(*_: object, **__: object) -> None:
        raise failures.pop(0)

    async def main() -> list[Any]:
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            monkeypatch.setattr(app.state.engine, "prompt", fail)
            return [await client.get("/prompt", params={"question": "a"}) for _ in range(2)]

    busy, late = asyncio.run(main())
    assert (busy.status_code, busy.headers["retry-after"], late.status_code) == (429, "3", 504)


def test_the_service_is_25_lines() -> None:
    source = (EXAMPLES / "service.py").read_text(encoding="utf-8")
    lines = {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt | ast.expr)}
    assert len(lines) <= 25
