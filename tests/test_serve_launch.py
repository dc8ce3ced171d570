"""The command: starting, refusing to start, several workers, and the end on SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from runoff import Engine
from serving import ended, until

DRAIN_SECONDS = 10


HASTY = """
import sys
from pathlib import Path
from runoff.serve import launch
from runoff.serve.settings import Settings

launch.run(Settings(store=Path(sys.argv[-1]), port=0, drain_seconds=1))
"""


@contextmanager
def command(
    *words: str, call: tuple[str, ...] = ("-m", "runoff", "serve", "--port", "0"), **variables: str
) -> Iterator[tuple[subprocess.Popen[str], str, list[dict[str, Any]]]]:
    """``runoff serve`` in a process: the process, its address, and its log as it grows."""
    process = subprocess.Popen(
        [sys.executable, *call, *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    assert process.stderr is not None
    log: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: log.extend(json.loads(line) for line in process.stderr or ()))
    try:
        log.append(json.loads(process.stderr.readline()))
        reader.start()
        url = log[0]["url"].rstrip("/")
        until(lambda: _ready(url))
        yield process, url, log
    finally:
        process.kill()
        process.wait(30)
        if reader.ident is not None:
            reader.join(30)
        process.stderr.close()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=30).status_code == 200
    except httpx.TransportError:
        return False


def test_sigterm_finishes_what_runs_and_leaves_nothing(engine: Engine, articles: Path, tmp_path: Path) -> None:
    engine.ingest(articles)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with command("--store", str(engine.folder), TMPDIR=str(temporary)) as (process, url, log):
        answers: list[httpx.Response] = []
        body = {"query": "payouts", "documents": ["word " * 400] * 8}
        asking = threading.Thread(target=lambda: answers.append(httpx.post(f"{url}/v2/rerank", json=body, timeout=60)))
        asking.start()
        until(lambda: "runoff_running 1.0" in httpx.get(f"{url}/metrics").text or bool(answers))
        process.send_signal(signal.SIGTERM)
        assert process.wait(DRAIN_SECONDS) == 0
        asking.join(30)
    assert [answer.status_code for answer in answers] == [200]
    assert not list(temporary.iterdir())
    assert log[-1]["message"] == "stopped"


def test_the_caches_can_be_turned_off(tmp_path: Path) -> None:
    with command("--store", str(tmp_path / "store"), "--cache-mb", "0") as (_, url, _log):
        assert [cache["bound"] for cache in httpx.get(f"{url}/info").json()["caches"].values()] == [0, 0, 0]


def test_sigterm_does_not_wait_for_what_takes_too_long(tmp_path: Path) -> None:
    with command(str(tmp_path / "store"), call=("-c", HASTY)) as (process, url, _):
        answers: list[httpx.Response] = []
        body = {"query": "payouts", "documents": ["word " * 400] * 1000, "timeout_ms": 100_000}
        asking = threading.Thread(target=lambda: answers.append(httpx.post(f"{url}/v2/rerank", json=body, timeout=60)))
        asking.start()
        until(lambda: "runoff_running 1.0" in httpx.get(f"{url}/metrics").text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DRAIN_SECONDS) == 0
        asking.join(30)
    assert (answers[0].status_code, answers[0].json()["error"]["code"]) == (503, "stopping")


def test_workers_share_port_store_jobs_and_metrics(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    with command("--store", str(engine.folder), "--workers", "2") as (process, url, log):
        until(lambda: len({row.get("message") for row in log} & {"Application startup complete."}) == 1)
        record = {"id": "new", "text": "Otters hold hands while they sleep."}
        # A connection each time, so that both workers get their share of the requests.
        job = httpx.post(f"{url}/ingest", json={"documents": [record]}).raise_for_status().json()
        with httpx.Client(base_url=url, headers={"connection": "close"}) as client:
            assert ended(client, job)["state"] == "done"
            for _ in range(8):
                found = client.post("/search", json={"query": "otters sleep", "candidates": 2}, timeout=60).json()
                assert found["hits"][0]["text"] == record["text"]
            text = client.get("/metrics").text
        assert 'runoff_requests_total{method="POST",route="/search",status="200"} 8.0' in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(DRAIN_SECONDS) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "could use the service without a key"),
        (["--host", "203.0.113.1", "--api-key", "k"], "cannot be listened on"),
        (["--port", "99999"], "cannot be listened on"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    call = [sys.executable, "-m", "runoff", "serve", "--store", str(tmp_path / "store"), *words]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
