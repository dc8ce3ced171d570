"""How long `exact` and `fast` take: on the candidates of labelled collections, and on passages of known lengths.

Collections are ranked with the heads that early_exit.py fitted without them, workloads with those of the model. Both
efforts take turns at each query.

python benchmarks/early_exit_time.py --collections DATA --cache CACHE --text CORPUS.jsonl.gz \
    --json benchmarks/results/early_exit_time.json

`--only` does some of it and leaves the rest of the file as it is.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import harness
from early_exit import NAMES, Gatherer, Known
from native import Work
from peak import Peak, operations
from runoff import exits, threads
from runoff.exits import ExitHeads
from runoff.ranking import DEFAULT_BLEND
from runoff.reranker import EFFORTS, CrossEncoder

WORKLOADS = ("p60", "mix", "p200")


def collection(gatherer: Gatherer, known: Known, heads: ExitHeads, rounds: int) -> dict[str, Any]:
    """Milliseconds of a query, mean over queries of the better of some rounds, and the share that fast takes."""
    model = gatherer.model
    model.exits = heads
    taken: dict[str, list[float]] = {effort: [] for effort in EFFORTS}
    for number, (query, documents) in enumerate(zip(known.queries, known.documents, strict=True)):
        ids, passages = gatherer.cached(known.data, query, documents)
        offsets = (DEFAULT_BLEND * known.similarities[number]).astype(np.float32)
        best = dict.fromkeys(EFFORTS, float("inf"))
        for _ in range(rounds):
            for effort in EFFORTS:
                started = time.perf_counter()
                model.score(ids, passages, effort=effort, offsets=offsets)
                best[effort] = min(best[effort], (time.perf_counter() - started) * 1e3)
        for effort, least in best.items():
            taken[effort].append(least)
    shares = np.array(taken["fast"]) / np.array(taken["exact"])
    return {
        "queries": len(known.queries),
        **{f"{effort}_ms": float(np.mean(rows)) for effort, rows in taken.items()},
        "ratio": float(shares.mean()),
        "ratio_of_sums": float(np.sum(taken["fast"]) / np.sum(taken["exact"])),
    }


def workload(gatherer: Gatherer, query: str, passages: list[str], rounds: int, threads_used: int) -> dict[str, Any]:
    """Median and p95 of both efforts, with the logits alone and with similarity; the share of the int8 peak."""
    model = CrossEncoder.load(threads=threads_used)
    work = Work(model, query, passages)
    offsets = np.float32(DEFAULT_BLEND) * (gatherer.encoder.encode(passages) @ gatherer.encoder.encode([query])[0])
    peak = Peak()
    before = peak.operations_per_second(threads_used)
    times: dict[str, Any] = harness.alternate(
        {
            "exact": partial(model.score, work.query, work.passages),
            "fast": partial(model.score, work.query, work.passages, effort="fast", offsets=offsets),
            "fast alone": partial(model.score, work.query, work.passages, effort="fast"),
        },
        rounds,
    )
    fastest = max(before, peak.operations_per_second(threads_used))
    lengths = np.diff(work.packed().offsets)
    whole = operations(model.artifact, lengths)
    return {
        **times,
        "tokens": int(lengths.sum()),
        "peak": fastest / 1e9,
        "peak_share": whole / (times["exact"]["median_ms"] / 1e3) / fastest,
        "ratio": times["fast"]["median_ms"] / times["exact"]["median_ms"],
    }


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True)
    options.add_argument("--cache", type=Path, required=True, help="as early_exit.py left it")
    options.add_argument("--text", type=Path, required=True, help="corpus.jsonl.gz that workloads are cut from")
    options.add_argument("--queries", type=int, default=60)
    options.add_argument("--only", nargs="+", default=[*NAMES, *WORKLOADS])
    chosen = options.parse_args()
    count = threads.budget(chosen.threads)
    gatherer = Gatherer(chosen.collections, chosen.cache, count)
    kept = json.loads(chosen.json.read_text("utf-8"))["results"] if chosen.json and chosen.json.exists() else {}
    for name in chosen.only:
        if name in WORKLOADS:
            query, passages = harness.workloads(chosen.text)[name]
            kept[name] = workload(gatherer, query, passages, chosen.rounds, count)
        else:
            heads = ExitHeads.read(chosen.cache / f"{name}.{exits.FILE}", gatherer.model.artifact)
            kept[name] = collection(gatherer, gatherer.known(name, chosen.queries), heads, min(chosen.rounds, 2))
    results = {name: kept[name] for name in (*NAMES, *WORKLOADS) if name in kept}
    harness.finish("early_exit_time", results, {"blend": DEFAULT_BLEND, "threads": count}, chosen.json)


if __name__ == "__main__":
    main()
