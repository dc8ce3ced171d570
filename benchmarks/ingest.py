"""From the bytes of feeds to chunks that a search finds: Runoff beside sentence-transformers and FAISS.

Each contender reads the same feed files in a process of its own, models loaded before the clock starts, rounds in turn.
Runoff makes a store on disk (documents with metadata, vectors, a lexical index, token ids, checksums); the peer is
peers/tutorial_ingest.py (texts and an exact FAISS index on disk). Each cuts and cleans in its own way, so that chunks
and words differ a little: the time is for the same bytes. Ends when a first search over vectors has answered.

    python benchmarks/ingest.py --feeds FILE ... --bi-encoder DIR --venvs DIR --json benchmarks/results/ingest.json
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import harness
from runoff import threads

SCRIPT = Path(__file__).parent / "peers" / "tutorial_ingest.py"


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--feeds", type=Path, nargs="+", required=True)
    options.add_argument("--bi-encoder", type=Path, required=True)
    options.add_argument("--venvs", type=Path, required=True)
    options.set_defaults(rounds=2)
    harness.add_work(options)
    chosen = options.parse_args()
    budget = str(threads.budget(chosen.threads))
    size = sum(feed.stat().st_size for feed in chosen.feeds)
    settings = {"feeds": [feed.name for feed in chosen.feeds], "bytes": size, "threads": int(budget)}
    figures = harness.Figures("ingest", chosen.work, settings)
    peer = [str(chosen.venvs / "st" / "bin" / "python"), str(SCRIPT), str(chosen.bi_encoder), budget]
    contenders = {
        "Runoff native": [sys.executable, __file__, "worker", "native", budget],
        "Runoff onnxruntime": [sys.executable, __file__, "worker", "onnxruntime", budget],
        "sentence-transformers and FAISS": peer,
    }
    feeds = [str(feed) for feed in chosen.feeds]
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for number in range(chosen.rounds):
        for name, command in contenders.items():
            row = figures.take(f"round {number}, {name}", lambda command=command: _run([*command], feeds))
            rows[name].append(row)
    results = {}
    for name, each in rows.items():
        found = {key: median(row[key] for row in each) for key in each[0]}
        found |= {"chunks_per_s": found["chunks"] / found["seconds"], "kb_per_s": size / found["seconds"] / 1e3}
        results[name] = {**found, "words_per_s": found["words"] / found["seconds"]}
    harness.finish("ingest", results, {**settings, "rounds": chosen.rounds}, chosen.json)


def _run(command: list[str], feeds: list[str]) -> dict[str, float]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    if command[0] != sys.executable:
        environment["PYTHONPATH"] = ""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([*command, folder, *feeds], stdout=subprocess.PIPE, check=True, env=environment)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def worker(backend: str, budget: int, folder: str, feeds: list[str]) -> None:
    """Ingest into a fresh store; prints what it took."""
    from runoff.engine import Engine

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:budget])
    with Engine.open(Path(folder) / "store", backend=backend, threads=budget) as engine:
        engine.stages.encoder.encode(["the model loads before the clock starts"])
        started = time.perf_counter()
        report = engine.ingest(*feeds)
        engine.search("When does it arrive?", mode="dense", rerank=False)
        taken = time.perf_counter() - started
        if report.failed:
            sys.exit(f"{report.failed[0].source}: {report.failed[0].error}")
        snapshot = engine.store.current().snapshot
        words = sum(len(snapshot.text(row).split()) for row in range(len(snapshot.passages)))
    told = {"seconds": taken, "chunks": report.total("chunks"), "embedded": report.total("embedded"), "words": words}
    print(json.dumps({**told, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
    else:
        main()
