"""How long until a fresh process has its first answer, and where that time goes: import, open, load, search.

python benchmarks/first_answer.py --json benchmarks/results/first_answer.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import harness
from runoff.demo import tour
from runoff.engine import Engine

CHILD = """
import json, sys, time
marks = {"start": time.perf_counter()}
def mark(name):
    marks[name] = time.perf_counter()
from runoff.engine import Engine
mark("import")
engine = Engine.open(sys.argv[1], backend=sys.argv[3], cache_bytes=0)
mark("open store")
engine.stages.tokenizer, engine.stages.encoder, engine.stages.scorer
mark("load models")
engine.search(sys.argv[2])
mark("first search")
engine.search(sys.argv[2])
mark("second search")
print(json.dumps({**marks, "backend": engine.stages.backend}))
"""


def main() -> None:
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        with Engine.open(store, backend=options.backend) as engine:
            engine.ingest(tour.feed_path())
            chunks = engine.store.current().snapshot.chunk_count
        rounds = [_round(store, options.backend) for _ in range(options.rounds)]
        command = [_command(store, options.backend) for _ in range(options.rounds)]
    names = [name for name in rounds[0] if name != "backend"]
    results = {name: median(round_[name] for round_ in rounds) for name in names}
    results["runoff search, whole command"] = median(command)
    settings = {"rounds": options.rounds, "chunks": chunks, "backend": rounds[0]["backend"]}
    harness.finish("first_answer", results, settings, options.json)


def _round(store: Path, backend: str) -> dict[str, float | str]:
    launched = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(store), tour.QUESTION, backend], capture_output=True, text=True, check=True
    )
    marks = json.loads(done.stdout)
    backend = marks.pop("backend")
    # perf_counter is the system's monotonic clock here, so the parent's reading and the child's compare.
    times = [launched, *marks.values()]
    names = ["interpreter", *list(marks)[1:]]
    spans = {name: (b - a) * 1e3 for name, a, b in zip(names, times[:-1], times[1:], strict=True)}
    return {**spans, "to first answer": (marks["first search"] - launched) * 1e3, "backend": backend}


def _command(store: Path, backend: str) -> float:
    started = time.perf_counter()
    command = [str(Path(sys.executable).parent / "runoff"), "search", tour.QUESTION, "--store", str(store)]
    subprocess.run([*command, "--backend", backend], capture_output=True, check=True)
    return (time.perf_counter() - started) * 1e3


def _parser() -> argparse.ArgumentParser:
    parser = harness.parser(__doc__)
    parser.add_argument("--backend", default="auto")
    return parser


if __name__ == "__main__":
    main()
