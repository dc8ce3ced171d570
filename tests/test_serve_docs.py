"""What the documents say of the service is what it has, and their figures are those of the committed results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")


def test_the_figures_are_what_the_results_give() -> None:
    subprocess.run([sys.executable, str(ROOT / "benchmarks/serve_report.py"), "--check"], check=True)


def test_every_endpoint_is_in_the_table(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    from runoff.serve import embeddings, health, rerank, routes

    table = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    named = set(re.findall(r"`(?:[A-Z]+ )?(/[^`]*)`", table))
    for router in (routes.router, rerank.router, embeddings.router, health.router):
        for route in router.routes:
            path = re.sub(r"\{\w+\}", "{id}", route.path)  # type: ignore[attr-defined]
            assert path in named, path
