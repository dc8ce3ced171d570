"""One contender in a process of its own: reads requests as JSON lines, answers in JSON lines.

    python worker.py ADAPTER VARIANT MODELS THREADS

ADAPTER is a file beside this one with ``PACKAGES`` and ``load(variant, models, threads)``, which gives a function from
a query and its passages to one score a passage in the passages' order (the cross-encoder's logit). The process is bound
to THREADS processors, so that a library whose thread count cannot be set has no more than the others.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    name, variant, models, threads = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    # Libraries print what they please; the answers go out by the real stdout.
    out, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    started = time.perf_counter()
    adapter = importlib.import_module(name)
    score = adapter.load(variant, models, threads)
    score("how many people live here?", ["A town of nine thousand people.", "It rained."])
    loaded = time.perf_counter() - started
    versions = {package: metadata.version(package) for package in adapter.PACKAGES}
    answer(out, load_s=loaded, versions=versions, rss_mib=memory())
    for line in sys.stdin:
        request = json.loads(line)
        callers, repeats = request.get("callers", 1), request.get("repeats", 1)
        answer(out, **measured(score, request["query"], request["passages"], callers, repeats), rss_mib=memory())


def measured(score, query: str, passages: list[str], callers: int, repeats: int) -> dict:
    """Scores, the milliseconds of every call of every caller, and of all of them together."""
    times: list[float] = []
    last: list[list[float]] = []

    def call() -> None:
        for _ in range(repeats):
            started = time.perf_counter()
            last[:] = [score(query, passages)]
            times.append((time.perf_counter() - started) * 1e3)

    started = time.perf_counter()
    if callers == 1:
        call()
    else:
        workers = [threading.Thread(target=call) for _ in range(callers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return {"scores": last[0], "ms": times, "wall_ms": (time.perf_counter() - started) * 1e3}


def memory() -> float:
    """Most resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(out, **fields) -> None:
    out.write(json.dumps(fields) + "\n")
    out.flush()


if __name__ == "__main__":
    main()
