"""Bodies that nobody thought of: never a 500, never a traceback or a path; benchmarks/serve_fuzz.py sends many more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ARTICLES
from runoff import Engine
from runoff.serve.service import Service
from runoff.serve.settings import Settings
from runoff.stages import ModelStages
from serving import Running, running

TRY = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXT = st.text(st.characters(codec=None), max_size=30)  # lone surrogates too, which JSON can say
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
BODIES: dict[str, dict[str, Any]] = {
    "/search": {
        "query": "a",
        "top_n": 1,
        "candidates": 2,
        "rerank": False,
        "timeout_ms": 30000,
        "mode": "hybrid",
        "where": "a = 1",
    },
    "/prompt": {"question": "a", "max_tokens": 500, "candidates": 2, "rerank": False, "backend": None, "trial": None},
    "/ingest": {
        "documents": [{"id": "a", "title": "b", "text": "c", "tags": ["d"], "published": "2024", "fields": {"e": 1}}],
        "urls": [],
    },
    "/trials": {"files": [{"name": "a.txt", "data": "YQ=="}]},
    "/rerank": {"query": "a", "texts": ["b"], "raw_scores": True, "truncate": True, "truncation_direction": "right"},
    "/v1/rerank": {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1, "return_documents": True},
    "/v2/rerank": {"query": "a", "documents": [{"x": "c"}], "rank_fields": ["x"], "max_tokens_per_doc": 5},
    "/embed": {"inputs": ["a"], "normalize": True, "truncate": True},
    "/v1/embeddings": {"input": ["a"], "encoding_format": "base64", "dimensions": 384, "user": "b"},
}
MAY = frozenset((200, 202, 400, 409, 413, 422, 429))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, stages: ModelStages) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("fuzz")
    chosen = Settings(store=folder / "store", body_bytes=100_000)
    engine = Engine(chosen.store, stages)
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"title": title, "text": text}) + "\n" for title, text in ARTICLES))
    engine.ingest(path)
    with running(Service(chosen, engine, folder / "runtime")) as server:
        yield server


def check(server: Running, path: str, content: bytes) -> None:
    response = server.client.post(path, content=content, headers={"content-type": "application/json"})
    assert response.status_code in MAY, (response.status_code, response.text, content)
    assert "Traceback" not in response.text
    assert str(server.service.settings.store.parent) not in response.text
    if response.status_code >= 400:
        assert response.json()["message"]
    json.loads(response.content)


@given(path=st.sampled_from(sorted(BODIES)), content=st.binary(max_size=60))
@TRY
def test_bytes(server: Running, path: str, content: bytes) -> None:
    check(server, path, content)


@given(path=st.sampled_from(sorted(BODIES)), body=JSON)
@TRY
def test_json_of_any_shape(server: Running, path: str, body: Any) -> None:
    check(server, path, json.dumps(body).encode())


@given(data=st.data(), path=st.sampled_from(sorted(BODIES)), value=JSON)
@TRY
def test_one_field_that_is_something_else(server: Running, data: st.DataObject, path: str, value: Any) -> None:
    body = BODIES[path]
    field = data.draw(st.sampled_from(sorted(body)))
    if isinstance(body[field], list) and body[field] and data.draw(st.booleans()):
        value = [*body[field], value]
    check(server, path, json.dumps({**body, field: value}).encode())
