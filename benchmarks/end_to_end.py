"""From documents to an index and from a question to a prompt: Runoff beside the script of the usual tutorial.

Both take the same chunks of a corpus (Runoff's own, so that neither gains by cutting otherwise) and the same questions,
on the same threads: peers/tutorial.py is sentence-transformers, an exact FAISS index, CrossEncoder and tiktoken.
Runoff ingests into a store on disk and uses its default search (hybrid, blended); the script keeps all in memory.

    python benchmarks/end_to_end.py --collection DIR --models DIR --bi-encoder DIR --venvs DIR --json FILE
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import collection as collections
import harness
from runoff import evaluation, threads
from runoff.engine import Engine
from runoff.evaluation import collection
from runoff.prompt import PromptPassage, build

SCRIPT = Path(__file__).parent / "peers" / "tutorial.py"
TOP = 5


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collection", type=Path, required=True)
    options.add_argument("--models", type=Path, required=True)
    options.add_argument("--bi-encoder", type=Path, required=True)
    options.add_argument("--venvs", type=Path, required=True)
    options.add_argument("--documents", type=int, default=300)
    options.add_argument("--queries", type=int, default=15)
    chosen = options.parse_args()
    budget = threads.budget(chosen.threads)
    data = collections.load(chosen.collection)
    questions = [data.queries[key] for key in data.sample(chosen.queries, harness.SEED)]
    documents = [each for _, each in collection.as_documents(evaluation.load(chosen.collection))][: chosen.documents]
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(Path(folder) / "store", threads=chosen.threads, cache_bytes=0) as engine,
    ):
        engine.stages.encoder.encode(["the model loads before the clock starts"])
        started = time.perf_counter()
        chunks = engine.add(documents).chunks
        ingested = time.perf_counter() - started
        snapshot = engine.store.current().snapshot
        texts = [snapshot.text(row) for row in range(len(snapshot.passages))]
        script = _Script(chosen, budget, texts)
        ours, theirs = [], []
        for number, question in enumerate([questions[0], *questions]):
            mine, other = _prompt(engine, question), script.ask(question)
            if number:
                ours.append(mine)
                theirs.append(other)
        script.process.kill()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    results = {
        "Runoff": _summary(ours, ingested, len(texts), memory),
        "tutorial script": _summary(theirs, script.ingested, len(texts), script.memory),
    }
    settings = {"collection": data and chosen.collection.name, "documents": len(documents), "chunks": chunks}
    settings |= {"queries": len(questions), "threads": budget}
    harness.finish("end_to_end", results, settings, chosen.json)


def _prompt(engine: Engine, question: str) -> dict[str, float]:
    """Milliseconds of each stage of one question."""
    result = engine.search(question, TOP)
    started = time.perf_counter()
    passages = [PromptPassage(title=hit.title, url=hit.url, text=hit.text) for hit in result.hits]
    build(question, passages, max_tokens=6000, counter=engine.stages.counter)
    times = result.timings_ms
    laps = {"embed": times.tokenize + times.embed, "retrieve": times.retrieve, "rerank": times.rerank}
    return {**laps, "prompt": (time.perf_counter() - started) * 1e3}


class _Script:
    """The tutorial's script in a process of its own."""

    def __init__(self, chosen: Any, budget: int, texts: list[str]) -> None:
        python = chosen.venvs / "st" / "bin" / "python"
        self.memory = 0.0
        self.process = subprocess.Popen(
            [str(python), str(SCRIPT), str(chosen.models.resolve()), str(chosen.bi_encoder.resolve()), str(budget)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""},
        )
        self.ingested: float = self._send(texts)["ingest_s"]

    def ask(self, question: str) -> dict[str, float]:
        """Milliseconds of each stage of one question."""
        found = self._send(question)
        self.memory = found["rss_mib"]
        times: dict[str, float] = found["ms"]
        return times

    def _send(self, value: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


def _summary(rows: list[dict[str, float]], ingested: float, chunks: int, memory: float) -> dict[str, Any]:
    totals = [sum(row.values()) for row in rows]
    stages = {stage: harness.percentile([row[stage] for row in rows], 50) for stage in rows[0]}
    return {
        "p50_ms": harness.percentile(totals, 50),
        "p95_ms": harness.percentile(totals, 95),
        "stages p50_ms": stages,
        "chunks_per_s": chunks / ingested,
        "rss_mib": memory,
    }


if __name__ == "__main__":
    main()
