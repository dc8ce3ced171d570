"""The service over a real socket: its own endpoints, the APIs that are not ours, bounds, load and what it lets out."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from conftest import ARTICLES
from runoff import Engine, Reranker
from runoff.errors import QueryError
from runoff.identity import digest
from runoff.serve import limits
from runoff.serve.jobs import Jobs
from runoff.serve.logs import JsonFormatter, PlainFormatter
from runoff.serve.service import Service
from runoff.serve.settings import Settings
from runoff.stages import ModelStages
from serving import Running, ended, running, until

DOCUMENTS = [
    {"id": f"a{number}", "title": title, "text": text, "url": f"https://blog.example/{number}"}
    for number, (title, text) in enumerate(ARTICLES)
]
QUESTION = "How long does a payout to another country take?"
IDS = [digest(f"record a{number}") for number in range(len(ARTICLES))]
COMPUTING = {
    "/search": {"query": QUESTION},
    "/prompt": {"question": QUESTION},
    "/rerank": {"query": QUESTION, "texts": ["a"]},
    "/v1/rerank": {"query": QUESTION, "documents": ["a"]},
    "/v2/rerank": {"query": QUESTION, "documents": ["a"]},
    "/embed": {"inputs": "a"},
    "/v1/embeddings": {"input": "a"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, stages: ModelStages) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "articles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DOCUMENTS), encoding="utf-8")
    settings = Settings(
        store=folder / "store",
        running=2,
        waiting=2,
        body_bytes=200_000,
    )
    engine = Engine(settings.store, stages)
    (folder / "missing.md").write_text("# Gone\n\nThis file is about to go.")
    engine.ingest(folder / "articles.jsonl", folder / "missing.md")
    (folder / "missing.md").unlink()
    with running(Service(settings, engine, folder / "runtime")) as server:
        yield server


@pytest.fixture
def client(server: Running) -> httpx.Client:
    return server.client


def make(tmp_path: Path, stages: ModelStages, **settings: Any) -> Service:
    chosen = Settings(store=tmp_path / "store", **settings)
    return Service(chosen, Engine(chosen.store, stages), tmp_path / "runtime")


def problem(response: httpx.Response, status: int, field: str | None = None) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    assert body["message"] == body["error"]["message"]
    assert body["error"]["param"] == field
    return body["error"]


def test_search_gives_what_the_engine_gives(server: Running, client: httpx.Client) -> None:
    found = client.post("/search", json={"query": QUESTION, "top_n": 3, "candidates": 10}).raise_for_status().json()
    wanted = server.service.engine.search(QUESTION, 3, 10).to_dict()
    for hit in wanted["hits"]:
        assert hit["source"].startswith("/")
        hit["source"] = hit["source"].rpartition("/")[2]  # clients see the name of the file alone
    assert found["hits"] == json.loads(json.dumps(wanted["hits"]))
    assert found["reranked"] is True
    assert found["timings_ms"]["total"] > 0
    plain = client.post("/search", json={"query": QUESTION, "rerank": False}).json()
    assert all(hit["logit"] is None for hit in plain["hits"])


def test_a_search_takes_the_options_of_the_engine(server: Running, client: httpx.Client) -> None:
    options: dict[str, Any] = {"mode": "lexical", "blend": 3, "where": 'url = "https://blog.example/3"'}
    found = client.post("/search", json={"query": "webhook signature", **options}).raise_for_status().json()
    assert {hit["title"] for hit in found["hits"]} == {"Signing webhooks"}
    assert (found["mode"], found["blend"]) == ("lexical", 3)
    answer = client.post("/prompt", json={"question": "webhook signature", **options}).raise_for_status().json()
    assert answer["search"]["hits"] == found["hits"]
    fast = client.post("/search", json={"query": QUESTION, "effort": "fast"}).raise_for_status().json()
    assert fast["effort"] == "fast"
    sure = client.post("/search", json={"query": QUESTION, "min_score": 0.5}).raise_for_status().json()
    assert all(hit["probability"] >= 0.5 for hit in sure["hits"])
    problem(client.post("/search", json={"query": QUESTION, "min_score": 0.5, "blend": 3}), 422, "min_score")
    error = problem(client.post("/search", json={"query": "a", "where": "tags ~~ 3"}), 422, "where")
    assert error["code"] == "filter"


def test_prompt_gives_the_prompt_and_its_search(server: Running, client: httpx.Client) -> None:
    answer = client.post("/prompt", json={"question": QUESTION, "max_tokens": 300}).raise_for_status().json()
    built, _ = server.service.engine.prompt(QUESTION, max_tokens=300)
    assert answer["prompt"]["text"] == built.text
    assert answer["prompt"]["tokens"] == built.tokens <= 300
    assert len(answer["search"]["hits"]) > len(answer["prompt"]["used"])
    error = problem(client.post("/prompt", json={"question": QUESTION, "max_tokens": 5}), 422, "max_tokens")
    assert "tokens" in error["message"]


@pytest.mark.parametrize("backend", ["native", "onnxruntime"])
def test_a_request_may_choose_the_backend(client: httpx.Client, backend: str) -> None:
    response = client.post("/search", json={"query": QUESTION, "backend": backend})
    if response.status_code == 503:
        pytest.skip(f"{backend} does not run on this machine")
    assert response.json()["backend"] == backend


def test_documents_come_and_go(client: httpx.Client) -> None:
    record = {"id": "new", "title": "Otters", "text": "Otters hold hands while they sleep.", "tags": ["sea"]}
    record |= {"fields": {"stars": 5, "colours": ["brown"]}}
    job = ended(client, client.post("/ingest", json={"documents": [record]}).raise_for_status().json())
    assert (job["state"], job["done"], job["total"]) == ("done", 1, 1)
    assert job["report"][0]["added"] == 1
    key = digest("record new")
    assert client.get(f"/documents/{key}").json()["body"] == record["text"]
    hit = client.post("/search", json={"query": "What do otters do when they sleep?"}).json()["hits"][0]
    assert hit["document_id"] == key
    hits = client.post("/search", json={"query": "sleep", "where": "stars >= 4"}).json()["hits"]
    assert {hit["document_id"] for hit in hits} == {key}
    assert client.delete(f"/documents/{key}").json() == {"id": key, "deleted": True}
    problem(client.get(f"/documents/{key}"), 404, "document_id")
    problem(client.delete(f"/documents/{key}"), 404, "document_id")
    hits = client.post("/search", json={"query": "What do otters do when they sleep?"}).json()["hits"]
    assert key not in {hit["document_id"] for hit in hits}


def test_refresh_reads_the_sources_of_the_operator_and_shows_no_folder(server: Running, client: httpx.Client) -> None:
    job = ended(client, client.post("/refresh").raise_for_status().json())
    good, bad = job["report"]
    assert (good["source"], good["not_modified"]) == ("articles.jsonl", True)
    assert bad["source"] == "missing.md"
    assert "no such file" in bad["error"]
    assert str(server.service.settings.store.parent) not in json.dumps(job)


def test_a_document_shows_the_name_of_its_file_alone(client: httpx.Client) -> None:
    assert client.get(f"/documents/{IDS[0]}").json()["source"] == "articles.jsonl"


def test_files_can_be_tried_without_touching_the_store(server: Running, client: httpx.Client) -> None:
    before = server.service.engine.store.current().number
    files = [
        {"name": "../../Otters & co.txt", "data": base64.b64encode(b"Otters hold hands while they sleep.").decode()},
        {"name": "b.jsonl", "data": base64.b64encode(b'{"title": "Bees", "text": "Bees dance."}').decode()},
    ]
    job = ended(client, client.post("/trials", json={"files": files}).raise_for_status().json())
    assert job["state"] == "done", job
    assert "runtime" not in json.dumps(job["report"])
    answer = client.post("/prompt", json={"question": "What do otters do?", "trial": job["trial"]}).json()
    assert {hit["title"] for hit in answer["search"]["hits"]} == {"Otters _ co", "Bees"}
    assert server.service.engine.store.current().number == before
    problem(client.post("/search", json={"query": "a", "trial": "0" * 32}), 404, "trial")
    problem(client.post("/trials", json={"files": [{"name": "a.exe", "data": ""}]}), 422, "files.0.name")
    problem(client.post("/trials", json={"files": [{"name": "a.txt", "data": "?"}]}), 422, "files.0.data")
    packed = base64.b64encode(gzip.compress(b"a" * 1000)).decode()
    problem(client.post("/trials", json={"files": [{"name": "a.txt", "data": packed}]}), 422, "files.0.data")


def test_only_the_newest_trials_are_kept(server: Running, client: httpx.Client) -> None:
    trials = server.service.trials
    made = [trials.create([("a.txt", b"text")]) for _ in range(12)]
    kept = [trial for trial in made if trials.files(trial).exists()]
    assert 0 < len(kept) <= 8
    problem(client.post("/search", json={"query": "a", "trial": made[0]}), 404, "trial")


def test_another_writer_is_seen_without_restart(server: Running, client: httpx.Client, stages: ModelStages) -> None:
    other = Engine(server.service.settings.store, stages)
    before = client.get("/readyz").json()["store"]
    other.delete(IDS[4])
    assert client.get("/readyz").json()["store"] != before
    hits = client.post("/search", json={"query": "bread, flour and salt", "top_n": 50}).json()["hits"]
    assert IDS[4] not in {hit["document_id"] for hit in hits}
    other.ingest(server.service.settings.store.parent / "articles.jsonl")
    hits = client.post("/search", json={"query": "bread, flour and salt"}).json()["hits"]
    assert hits[0]["document_id"] == IDS[4]


def test_a_store_that_is_yet_to_be_made(tmp_path: Path, stages: ModelStages) -> None:
    with running(make(tmp_path, stages)) as server:
        client = server.client
        assert client.get("/readyz").json() == {"status": "ok", "store": "none yet"}
        error = problem(client.post("/search", json={"query": "a"}), 409)
        assert error["code"] == "store_missing"
        assert str(tmp_path) not in error["message"]
        problem(client.post("/refresh"), 409)
        assert client.post("/rerank", json={"query": "a", "texts": ["b"]}).status_code == 200
        ended(client, client.post("/ingest", json={"documents": DOCUMENTS[:1]}).json())
        assert client.post("/search", json={"query": QUESTION}).json()["hits"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_rerank_as_cohere_and_jina_have_it(client: httpx.Client, stages: ModelStages, version: str) -> None:
    texts = [text for _, text in ARTICLES]
    wanted = Reranker(stages.scorer).rank(QUESTION, texts, top_n=len(texts))
    body = {"model": "any", "query": QUESTION, "documents": texts, "top_n": 2, "unknown": 1}
    answer = client.post(f"/{version}/rerank", json=body).raise_for_status().json()
    assert [(row["index"], row["relevance_score"]) for row in answer["results"]] == [
        (hit.index, hit.score) for hit in wanted[:2]
    ]
    assert "document" not in answer["results"][0]
    objects = [{"text": text, "n": n} for n, text in enumerate(texts)]
    answer = client.post(
        f"/{version}/rerank", json={"query": QUESTION, "documents": objects, "return_documents": True}
    ).json()
    assert [row["document"]["n"] for row in answer["results"]] == [hit.index for hit in wanted]
    fields = {"query": "n", "documents": objects, "rank_fields": ["n", "text"]}
    assert len(client.post(f"/{version}/rerank", json=fields).json()["results"]) == len(texts)
    problem(client.post(f"/{version}/rerank", json={"query": "a", "documents": [{"t": 1}]}), 422, "documents.0.text")


def test_rerank_as_text_embeddings_inference_has_it(client: httpx.Client, stages: ModelStages) -> None:
    texts = [text for _, text in ARTICLES]
    wanted = Reranker(stages.scorer).rank(QUESTION, texts, top_n=len(texts))
    rows = client.post("/rerank", json={"query": QUESTION, "texts": texts}).raise_for_status().json()
    assert rows == [{"index": hit.index, "score": hit.score} for hit in wanted]
    body = {"query": QUESTION, "texts": texts, "raw_scores": True, "return_text": True}
    rows = client.post("/rerank", json=body).json()
    assert rows == [{"index": hit.index, "score": hit.logit, "text": hit.text} for hit in wanted]
    long = ["short", "word " * 600]
    error = problem(client.post("/rerank", json={"query": "a", "texts": long}), 413, "texts.1")
    assert "at most 512" in error["message"]
    assert len(client.post("/rerank", json={"query": "a", "texts": long, "truncate": True}).json()) == 2


def test_long_documents_are_told_of(client: httpx.Client) -> None:
    answer = client.post("/v2/rerank", json={"query": "a", "documents": ["word " * 600, "b"]}).json()
    assert answer["meta"]["warnings"] == ["1 documents are longer than the model reads: only their beginning counts"]
    short = {"query": "a", "documents": ["word " * 600, "b"], "max_tokens_per_doc": 20}
    assert client.post("/v2/rerank", json=short).json()["meta"]["warnings"] == []


def test_embeddings_as_openai_has_them(client: httpx.Client, stages: ModelStages) -> None:
    texts = ["Payouts take two days.", "Bread.", ""]
    wanted = stages.encoder.encode(texts)
    answer = client.post("/v1/embeddings", json={"model": "any", "input": texts}).raise_for_status().json()
    assert np.array_equal(np.array([row["embedding"] for row in answer["data"]], np.float32), wanted)
    assert [row["index"] for row in answer["data"]] == [0, 1, 2]
    packed = client.post("/v1/embeddings", json={"input": texts, "encoding_format": "base64"}).json()["data"]
    assert np.array_equal([np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in packed], wanted)
    tokens = [stages.counter.encode(text) for text in texts[:2]]
    rows = client.post("/v1/embeddings", json={"input": tokens}).json()["data"]
    assert np.array_equal(np.array([row["embedding"] for row in rows], np.float32), wanted[:2])
    one = client.post("/v1/embeddings", json={"input": tokens[1], "dimensions": 384}).json()["data"]
    assert np.array_equal(np.array(one[0]["embedding"], np.float32), wanted[1])
    problem(client.post("/v1/embeddings", json={"input": "a", "dimensions": 1536}), 422, "dimensions")
    assert {row["id"] for row in client.get("/v1/models").json()["data"]} == {a.name for a in stages.artifacts}


def test_embed_as_text_embeddings_inference_has_it(client: httpx.Client, stages: ModelStages) -> None:
    rows = client.post("/embed", json={"inputs": ["a", "b"]}).raise_for_status().json()
    assert np.array_equal(np.array(rows, np.float32), stages.encoder.encode(["a", "b"]))
    assert len(client.post("/embed", json={"inputs": "a"}).json()) == 1
    problem(client.post("/embed", json={"inputs": ["a", "word " * 300]}), 413, "inputs.1")
    assert client.post("/embed", json={"inputs": "word " * 300, "truncate": True}).status_code == 200
    problem(client.post("/embed", json={"inputs": "a", "normalize": False}), 422, "normalize")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/search", {}, "query"),
        ("/search", {"query": ""}, "query"),
        ("/search", {"query": "  "}, "query"),
        ("/search", {"query": 3}, "query"),
        ("/search", {"query": "a" * (limits.QUERY_CHARACTERS + 1)}, "query"),
        ("/search", {"query": "a", "top_n": 0}, "top_n"),
        ("/search", {"query": "a", "top_n": "3"}, "top_n"),
        ("/search", {"query": "a", "top_n": 10**30}, "top_n"),
        ("/search", {"query": "a", "candidates": limits.CANDIDATES + 1}, "candidates"),
        ("/search", {"query": "a", "timeout_ms": 0}, "timeout_ms"),
        ("/search", {"query": "a", "backend": "cuda"}, "backend"),
        ("/search", {"query": "a", "topn": 3}, "topn"),
        ("/search", {"query": "a", "trial": "../x"}, "trial"),
        ("/search", {"query": "a", "mode": "psychic"}, "mode"),
        ("/search", {"query": "a", "blend": -1}, "blend"),
        ("/search", {"query": "a", "where": "(("}, "where"),
        ("/search", [], "body"),
        ("/prompt", {"question": "a", "max_tokens": limits.PROMPT_TOKENS + 1}, "max_tokens"),
        ("/rerank", {"query": "a", "texts": []}, "texts"),
        ("/rerank", {"query": "a", "texts": ["a"] * (limits.RERANK_DOCUMENTS + 1)}, "texts"),
        ("/v2/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, "top_n"),
        ("/v1/embeddings", {"input": []}, None),
        ("/v1/embeddings", {"input": [-1]}, None),
        ("/ingest", {}, "documents"),
        ("/ingest", {"documents": [{"text": "a"}, {"text": " "}]}, "documents.1"),
        ("/ingest", {"documents": [{"text": "a", "fields": {"title": "b"}}]}, "documents.0"),
        ("/ingest", {"documents": [{"txt": "a"}]}, "documents.0.txt"),
        ("/trials", {"files": []}, "files"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(
    client: httpx.Client, path: str, body: object, field: str | None
) -> None:
    response = client.post(path, json=body)
    if field is None:
        assert response.status_code == 422
        assert response.json()["error"]["param"].startswith("input")
    else:
        problem(response, 422, field)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"query": "\\ud800"}', b"[" * 50_000, b'{"query": ' + b"9" * 5000 + b"}", b'{"query": NaN}'],
)
def test_what_is_no_json_is_the_clients_fault(client: httpx.Client, body: bytes) -> None:
    response = client.post("/search", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422), response.text
    assert "Traceback" not in response.text


def test_a_body_needs_its_content_type(client: httpx.Client) -> None:
    response = client.post("/search", content=b'{"query": "a"}', headers={"content-type": "text/plain"})
    assert "application/json" in problem(response, 422, "body")["message"]


def test_addresses_and_methods_that_are_not_there(client: httpx.Client) -> None:
    problem(client.get("/nothing"), 404)
    problem(client.get("/page/../app.py"), 404)
    problem(client.get("/page/%2e%2e%2fapp.py"), 404)
    response = client.get("/search")
    problem(response, 405)
    assert response.headers["allow"] == "POST"


def test_bodies_over_the_cap_are_refused_however_they_come(server: Running, client: httpx.Client) -> None:
    most = server.service.settings.body_bytes
    headers = {"content-type": "application/json"}
    big = json.dumps({"query": "a", "x": "b" * most}).encode()
    problem(client.post("/search", content=big, headers=headers), 413, "body")
    problem(client.post("/search", content=iter([big[:1000], big[1000:]]), headers=headers), 413, "body")
    packed = {**headers, "content-encoding": "gzip"}
    problem(client.post("/search", content=gzip.compress(big), headers=packed), 413, "body")
    bomb = gzip.compress(b" " * 500 * most)
    assert len(bomb) < most
    problem(client.post("/search", content=bomb, headers=packed), 413, "body")
    small = gzip.compress(json.dumps({"query": QUESTION}).encode())
    assert client.post("/search", content=small, headers=packed).status_code == 200
    problem(client.post("/search", content=small[:-20], headers=packed), 422, "body")
    problem(client.post("/search", content=b"no gzip", headers=packed), 422, "body")
    problem(client.post("/search", content=b"a", headers={**headers, "content-encoding": "br"}), 415)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_is_still_sending_gets_the_refusal(server: Running, chunked: bool) -> None:
    size = 4 * server.service.settings.body_bytes
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    head = f"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\n{framing}\r\n\r\n"
    head += f"{size:x}\r\n" if chunked else ""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as eager:
        eager.settimeout(30)
        eager.sendall(head.encode("ascii"))
        for _ in range(0, size, 1 << 16):
            eager.sendall(b" " * (1 << 16))
        answer = b"".join(iter(lambda: eager.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"body_too_large"' in answer


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path, stages: ModelStages) -> None:
    with running(make(tmp_path, stages, body_seconds=0.05)) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(b"POST /rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
            slow.settimeout(30)
            assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_all_bodies_together_are_bounded(tmp_path: Path, stages: ModelStages) -> None:
    with running(make(tmp_path, stages, buffered_bytes=1000)) as server:
        response = server.client.post("/rerank", json={"query": "a" * 1000, "texts": ["b"]})
        assert problem(response, 429)["code"] == "overloaded"
        assert server.client.post("/rerank", json={"query": "a", "texts": ["b"]}).status_code == 200


@pytest.mark.parametrize("path", COMPUTING)
def test_one_too_many_is_refused_at_once(server: Running, client: httpx.Client, path: str) -> None:
    with server.busy(4):
        response = client.post(path, json=COMPUTING[path])
        assert problem(response, 429)["code"] == "overloaded"
        assert int(response.headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200
    assert client.post(path, json=COMPUTING[path]).status_code == 200


def test_a_refusal_does_not_wait_for_the_body(server: Running) -> None:
    port = int(server.url.rpartition(":")[2])
    with server.busy(4), socket.create_connection(("127.0.0.1", port)) as early:
        early.sendall(b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n")
        early.settimeout(30)
        assert early.recv(100).startswith(b"HTTP/1.1 429")


def test_the_deadline_of_a_request_holds_while_it_waits(server: Running, client: httpx.Client) -> None:
    with server.busy(2):
        response = client.post("/search", json={"query": QUESTION, "timeout_ms": 20})
    assert problem(response, 504)["code"] == "deadline_exceeded"


def test_a_client_that_goes_away_is_not_computed(server: Running, client: httpx.Client) -> None:
    def scored() -> float:
        return server.service.metrics.registry.get_sample_value("runoff_candidates_scored_total") or 0.0

    before = scored()
    with server.busy(2):
        for path in ("/search", "/v2/rerank"):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{server.url}{path}", json=COMPUTING[path], timeout=0.3)
        until(lambda: server.service.admission.waiting == 0)
    assert client.get("/healthz").status_code == 200
    assert scored() == before
    assert (server.service.metrics.registry.get_sample_value("runoff_abandoned_total") or 0) >= 2


def test_jobs_are_bounded_and_stop_at_the_end(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    states: list[str] = []

    def work(progress: Any) -> list[dict[str, Any]]:
        states.append("began")
        until(lambda: progress("a", 1, 2) or False)
        return []

    first = jobs.submit("ingest", work)
    until(lambda: bool(states))
    waiting = [jobs.submit("ingest", work) for _ in range(8)]
    with pytest.raises(Exception, match="8 jobs wait"):
        jobs.submit("ingest", work)
    assert jobs.get(first.id).state == "running"
    jobs.close(30)
    assert jobs.get(first.id).state == "stopped"
    assert jobs.get(waiting[0].id).state == "queued"
    with pytest.raises(Exception, match="jobs wait"):
        jobs.submit("ingest", work)


def test_a_job_that_fails_tells_no_path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs(tmp_path)

    def work(progress: Any) -> list[dict[str, Any]]:
        raise OSError("/secret/place")

    job = jobs.submit("ingest", work)
    until(lambda: jobs.get(job.id).finished is not None)
    jobs.close(30)
    assert jobs.get(job.id).state == "failed"
    assert "secret" not in (jobs.get(job.id).error or "")
    assert "secret" in caplog.text


def test_a_failure_inside_is_500_without_a_word_of_it(
    server: Running, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("/secret/place")

    monkeypatch.setattr(server.service.engine, "search", fail)
    error = problem(client.post("/search", json={"query": "a"}), 500)
    assert error["code"] == "internal"
    until(lambda: "secret" in caplog.text)  # the answer is out before the error is logged


def test_the_key_is_asked_for(tmp_path: Path, stages: ModelStages) -> None:
    with running(make(tmp_path, stages, api_key="open sesame")) as server:
        client, body = server.client, {"query": "a", "texts": ["b"]}
        for path in ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/page/style.css"):
            assert client.get(path).status_code == 200, path
        for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "open"}, {"authorization": "Bearer"}):
            assert problem(client.post("/rerank", json=body, headers=headers), 401)["type"] == "authentication"
        for path in ("/metrics", "/info", "/jobs/1", "/documents/1"):
            problem(client.get(path), 401)
        for headers in ({"authorization": "Bearer open sesame"}, {"x-api-key": "open sesame"}):
            assert client.post("/rerank", json=body, headers=headers).status_code == 200


def test_other_sites_pages_have_no_access(client: httpx.Client) -> None:
    assert problem(client.get("/info", headers={"host": "evil.example"}), 421)["code"] == "unknown_host"
    for origin in ("https://evil.example", "null", "http://[", "http://127.0.0.1:1"):
        problem(client.post("/refresh", headers={"origin": origin}), 403)
    own = str(client.base_url).rstrip("/")
    assert client.post("/search", json={"query": "a"}, headers={"origin": own}).status_code == 200


def test_the_network_is_served_only_where_that_is_meant() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        assert Settings(host=host).hosts
    with pytest.raises(QueryError, match="allow-anonymous"):
        Settings(host="0.0.0.0")
    assert Settings(host="0.0.0.0", api_key="k").hosts is None
    assert Settings(host="0.0.0.0", allow_anonymous=True).hosts is None
    with pytest.raises(QueryError, match="blank"):
        Settings(api_key=" ")
    assert "k3y" not in repr(Settings(api_key="k3y"))


def test_addresses_are_read_only_where_that_is_allowed(client: httpx.Client) -> None:
    problem(client.post("/ingest", json={"urls": ["https://blog.example/feed"]}), 403, "urls")


def test_private_addresses_are_never_read(tmp_path: Path, stages: ModelStages) -> None:
    with running(make(tmp_path, stages, allow_urls=True)) as server:
        client = server.client
        urls = [f"{server.url}/docs", "http://[::1]/", "http://169.254.169.254/latest/", "http://localhost/"]
        job = ended(client, client.post("/ingest", json={"urls": urls}).raise_for_status().json())
        assert job["state"] == "failed"
        assert all("not a public address" in row["error"] for row in job["report"])
        problem(client.post("/ingest", json={"urls": ["file:///etc/passwd"]}), 422, "urls.0")


def test_metrics_tell_of_requests_and_stages(client: httpx.Client) -> None:
    client.post("/search", json={"query": QUESTION})
    until(lambda: 'route="/search",status="200"' in client.get("/metrics").text)
    text = client.get("/metrics").text
    for name in (
        'runoff_requests_total{method="POST",route="/search",status="200"}',
        'runoff_stage_seconds_count{stage="rerank"}',
        'runoff_stage_seconds_count{stage="wait"}',
        'runoff_token_cache_total{outcome="hit"}',
        "runoff_queue_depth 0.0",
        "runoff_store_generation",
        'runoff_truncations_total{what="passage"}',
        'runoff_cache_bytes{cache="embeddings"}',
        'runoff_cache_entries{cache="pairs"}',
    ):
        assert name in text


def test_a_repeated_query_comes_from_the_cache_and_counts_there_alone(server: Running, client: httpx.Client) -> None:
    def counted(name: str, **labels: str) -> float:
        return server.service.metrics.registry.get_sample_value(name, labels) or 0.0

    def counts() -> list[float]:
        return [counted(f"runoff_cache_{what}_total", cache="results") for what in ("hits", "misses")]

    query = {"query": "Which bread is baked in the office?"}
    (hits, misses), scored = counts(), counted("runoff_candidates_scored_total")
    first, again = (client.post("/search", json=query).raise_for_status().json() for _ in range(2))
    assert (first.pop("cached"), again.pop("cached")) == (False, True)
    assert 0 < again["timings_ms"]["total"] == sum(again.pop("timings_ms").values())
    first.pop("timings_ms")
    assert first.pop("spent_ms") > again.pop("spent_ms")
    assert first == again
    assert counts() == [hits + 1, misses + 1]
    assert counted("runoff_candidates_scored_total") == scored + 20
    assert client.post("/search", json={**query, "backend": "auto"}).json()["cached"]
    facts = client.get("/info").raise_for_status().json()["caches"]
    assert facts["results"]["hits"] == hits + 2
    assert sum(one["bound"] for one in facts.values()) == server.service.engine.caches.bound


def test_one_line_a_request_without_texts(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "runoff.serve")
    response = client.post("/search", json={"query": "secret words"}, headers={"x-request-id": "my-id:1"})
    assert response.headers["x-request-id"] == "my-id:1"
    until(lambda: any(record.message == "request" for record in caplog.records))
    (record,) = [record for record in caplog.records if record.message == "request"]
    line = json.loads(JsonFormatter().format(record))
    assert (line["request"], line["path"], line["status"]) == ("my-id:1", "/search", 200)
    assert line["stages_ms"].keys() >= {"wait", "embed", "retrieve", "rerank"}
    for formatter in (JsonFormatter(), PlainFormatter()):
        assert "\n" not in formatter.format(record)
        assert "secret" not in formatter.format(record)
    response = client.get("/healthz", headers={"x-request-id": "bad id"})
    assert response.headers["x-request-id"] != "bad id"


def test_queries_are_in_the_log_where_that_is_asked_for(
    tmp_path: Path, stages: ModelStages, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "runoff.serve")
    with running(make(tmp_path, stages, log_texts=True)) as server:
        server.client.post("/rerank", json={"query": "plain words", "texts": ["a"]})
    assert "plain words" in "".join(JsonFormatter().format(record) for record in caplog.records)


def test_every_answer_is_guarded_against_what_it_carries(client: httpx.Client) -> None:
    for path in ("/", "/docs", "/healthz", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_description_has_an_example_that_works_for_every_body(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    tried = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" not in operation:
                continue
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            (example,) = schemas[reference.rpartition("/")[2]]["examples"]
            response = client.request(method, path, json=example)
            assert response.is_success, (path, response.text)
            if response.status_code == 202:
                ended(client, response.json())
            tried.add(path)
    assert tried == {*COMPUTING, "/ingest", "/trials"}
    client.delete(f"/documents/{digest('record payouts-1')}").raise_for_status()


def test_info_tells_machine_models_and_bounds_but_no_path(server: Running, client: httpx.Client) -> None:
    facts = client.get("/info").raise_for_status().json()
    assert facts["store"]["documents"] >= len(ARTICLES)
    assert facts["limits"]["waiting"] == 2
    assert str(server.service.settings.store.parent) not in json.dumps(facts)


def test_a_search_keeps_its_deadline_or_says_that_it_did_not(server: Running, client: httpx.Client) -> None:
    def counted(outcome: str) -> float:
        value = server.service.metrics.registry.get_sample_value("runoff_deadlines_total", {"outcome": outcome})
        return value or 0.0

    met, missed = counted("met"), counted("missed")
    query = {"query": "Who may sign a webhook?"}
    late = client.post("/search", json={**query, "deadline_ms": 0.001}).raise_for_status().json()
    first = client.post("/search", json={**query, "rerank": False}).raise_for_status().json()
    assert (late["deadline_met"], late["scored"], late["complete"]) == (False, 0, False)
    assert [hit["chunk_id"] for hit in late["hits"]] == [hit["chunk_id"] for hit in first["hits"]]
    kept = client.post("/search", json={**query, "deadline_ms": 20_000}).raise_for_status().json()
    plain = client.post("/search", json=query).raise_for_status().json()
    assert kept["deadline_met"] is True
    assert not kept["cached"]
    assert kept["hits"] == plain["hits"]
    assert (counted("met"), counted("missed")) == (met + 1, missed + 1)
    built = client.post("/prompt", json={"question": query["query"], "deadline_ms": 0.001}).raise_for_status().json()
    assert built["search"]["deadline_met"] is False
    assert built["prompt"]["used"]
    problem(client.post("/search", json={**query, "deadline_ms": 0}), 422, "deadline_ms")


def test_a_rerank_keeps_its_deadline_or_says_that_it_did_not(client: httpx.Client) -> None:
    texts = [text for _, text in ARTICLES]
    body = {"query": QUESTION, "documents": texts}
    plain = client.post("/v2/rerank", json=body).raise_for_status().json()
    assert "deadline" not in plain["meta"]
    kept = client.post("/v2/rerank", json={**body, "deadline_ms": 20_000}).raise_for_status().json()
    assert kept["results"] == plain["results"]
    assert kept["meta"]["deadline"]["deadline_met"] is True
    assert kept["meta"]["deadline"]["scored"] == len(texts)
    late = client.post("/v2/rerank", json={**body, "deadline_ms": 0.001}).raise_for_status().json()
    assert [(row["index"], row["relevance_score"]) for row in late["results"]] == [(i, 0.0) for i in range(len(texts))]
    assert late["meta"]["deadline"]["deadline_met"] is False
    answer = client.post("/rerank", json={"query": QUESTION, "texts": texts, "deadline_ms": 0.001, "raw_scores": True})
    assert [row["index"] for row in answer.json()] == list(range(len(texts)))
    assert answer.headers["x-runoff-deadline-met"] == "False"
    assert answer.headers["x-runoff-scored"] == "0"
