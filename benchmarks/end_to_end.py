"""From a question to a prompt: Runoff beside the script of the usual tutorial.

Both sides hold the same chunks and vectors and are asked the same questions in turn, each in a process of its own on
the same threads: peers/tutorial.py is sentence-transformers, an exact FAISS index, CrossEncoder and tiktoken. Runoff
runs its default search (hybrid, blended) over a store on disk; the script keeps all in memory. Two stores: that of
`runoff demo`, and one of 100,000 chunks, made of a labelled collection's and of generated ones, whose vectors lie about
those of real chunks. `--prepare` makes the stores and stops; that needs no quiet machine.

    python benchmarks/end_to_end.py --collection DIR --models DIR --bi-encoder DIR --venvs DIR --work DIR --json FILE
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import collection as collections
import generated
import harness
from runoff import demo, evaluation, threads
from runoff.documents import Chunk, Document
from runoff.engine import Engine
from runoff.evaluation import collection
from runoff.prompt import PromptPassage, build
from runoff.snapshot import Entry

SCRIPT = Path(__file__).parent / "peers" / "tutorial.py"
DEMO = Path(demo.__file__).parent
TOP, BLOCK = 5, 5000
# Length of the noise that is added to a real chunk's vector, of length 1, to make a generated chunk's.
SPREAD = 0.8


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collection", type=Path, required=True)
    options.add_argument("--models", type=Path, required=True)
    options.add_argument("--bi-encoder", type=Path, required=True)
    options.add_argument("--venvs", type=Path, required=True)
    options.add_argument("--chunks", type=int, default=100_000, help="of the large store")
    options.add_argument("--queries", type=int, default=10)
    options.add_argument("--prepare", action="store_true", help="make the stores and stop")
    harness.add_work(options)
    chosen = options.parse_args()
    if chosen.work is None:
        sys.exit("end_to_end: --work names the folder for its stores")
    budget = threads.budget(chosen.threads)
    data = collections.load(chosen.collection)
    lines = (DEMO / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    asked = {
        "demo": [json.loads(line)["question"] for line in lines][: chosen.queries],
        f"{chosen.chunks:,} chunks": [data.queries[key] for key in data.sample(chosen.queries, harness.SEED)],
    }
    folders = dict(zip(asked, (chosen.work / "store-demo", chosen.work / f"store-{chosen.chunks}"), strict=True))
    for name, folder in folders.items():
        if not Path(f"{folder}.npy").exists():
            with Engine.open(folder, threads=budget) as engine:
                engine.ingest(DEMO / "feed.xml") if name == "demo" else _fill(engine, chosen, data)
                _export(engine, folder)
    if chosen.prepare:
        return
    figures = harness.Figures("end_to_end", chosen.work, {"threads": budget, "queries": chosen.queries})
    results = {name: _contest(figures, name, folders[name], asked[name], chosen, budget) for name in asked}
    settings = {"collection": chosen.collection.name, "queries": chosen.queries, "threads": budget}
    harness.finish("end_to_end", results, settings, chosen.json)


def _fill(engine: Engine, chosen: argparse.Namespace, data: collections.Collection) -> None:
    """The collection's chunks, then generated ones up to the wanted number."""
    engine.add([document for _, document in collection.as_documents(evaluation.load(chosen.collection))])
    snapshot = engine.store.current().snapshot
    real, count = np.asarray(snapshot.vectors, np.float32), chosen.chunks - snapshot.chunk_count
    rng = np.random.default_rng(harness.SEED)
    texts = generated.texts(list(data.documents.values()), count, harness.SEED)
    with engine.store.writer() as writer:
        for first in range(0, count, BLOCK):
            some = list(itertools.islice(texts, BLOCK))
            noise = rng.standard_normal((len(some), real.shape[1]), np.float32) / np.sqrt(real.shape[1])
            vectors = real[rng.integers(0, len(real), len(some))] + SPREAD * noise
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            writer.prepare(f"{first + place:016x}" for place in range(len(some)))
            writer.add_passages(some, vectors, engine.stages.tokenizer.encode_batch(some))
            for place, text in enumerate(some):
                document = Document(f"{first + place:016x}", f"Text {first + place}", "", source="generated")
                writer.put(Entry(document, [Chunk("body", 0, text, 0, len(text))]))
            writer.commit(index=False)
        writer.commit()


def _export(engine: Engine, folder: Path) -> None:
    """Texts and vectors of the store, as the script reads them."""
    snapshot = engine.store.current().snapshot
    texts = [snapshot.text(row) for row in range(snapshot.passage_count)]
    Path(f"{folder}.json").write_text(json.dumps(texts), encoding="utf-8")
    np.save(f"{folder}.npy", np.asarray(snapshot.vectors, np.float32))


def _contest(
    figures: harness.Figures, name: str, folder: Path, questions: list[str], chosen: argparse.Namespace, budget: int
) -> dict[str, Any]:
    python = str(chosen.venvs / "st" / "bin" / "python")
    models = (str(chosen.models.resolve()), str(chosen.bi_encoder.resolve()))
    commands = {
        "Runoff": [sys.executable, __file__, "worker", str(folder), str(budget), "exact"],
        "Runoff, fast": [sys.executable, __file__, "worker", str(folder), str(budget), "fast"],
        "tutorial script": [python, str(SCRIPT), *models, str(budget), str(folder)],
    }
    sides = {side: _Side(command) for side, command in commands.items()}
    rows: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for number, question in enumerate([questions[0], *questions]):
        for side, process in sides.items():
            told = figures.take(f"{name}, {number}, {side}", lambda p=process, q=question: p.ask(q))
            if number:  # the first question warms up
                rows[side].append(told)
    for process in sides.values():
        process.stop()
    return {side: _summary(each) for side, each in rows.items()}


class _Side:
    """A process that starts when it is first asked: a question a line, stages' milliseconds and memory a line."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def ask(self, question: str) -> dict[str, Any]:
        """Milliseconds of each stage of one question, and resident MiB."""
        if self._process is None:
            environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
            if self._command[0] != sys.executable:
                environment["PYTHONPATH"] = ""
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._process = subprocess.Popen(self._command, env=environment, **pipes)
            self.ask(question)  # before any clock runs: models load, caches fill
        time.sleep(harness.PAUSE_SECONDS)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def worker(folder: Path, budget: int, effort: str) -> Iterator[dict[str, Any]]:
    """Runoff's side."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:budget])
    with Engine.open(folder, threads=budget, cache_bytes=0) as engine:
        for line in sys.stdin:
            question = json.loads(line)
            result = engine.search(question, TOP, effort=effort)
            started = time.perf_counter()
            passages = [PromptPassage(title=hit.title, url=hit.url, text=hit.text) for hit in result.hits]
            build(question, passages, max_tokens=6000, counter=engine.stages.counter)
            laps = {"prompt": (time.perf_counter() - started) * 1e3}
            times = result.timings_ms
            laps |= {"embed": times.tokenize + times.embed, "retrieve": times.retrieve, "rerank": times.rerank}
            yield {"ms": laps, "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    totals = [sum(row["ms"].values()) for row in rows]
    return {
        "p50_ms": harness.percentile(totals, 50),
        "p95_ms": harness.percentile(totals, 95),
        "stages": {
            stage: {
                f"p{percent}_ms": harness.percentile([row["ms"][stage] for row in rows], percent)
                for percent in (50, 95)
            }
            for stage in rows[0]["ms"]
        },
        "rss_mib": max(row["rss_mib"] for row in rows),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        for told in worker(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]):
            print(json.dumps(told), flush=True)
    else:
        main()
