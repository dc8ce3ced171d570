"""What do the caches save? Time of a query that was asked before, and how often caches have what a stream of them asks.

Queries and documents of some labelled collections, in one store. Two parts, which can be run apart; each puts its
section into the file of results:

--part time      milliseconds of a search that computes all, of the same search again, and of the same search after a
                 refresh that changed a share of the documents
--part stream    all queries, drawn by a Zipf law, with such refreshes on the way: shares of hits by the bound of the
                 caches. It counts and takes no time, so it needs no quiet machine, and no cross-encoder: logits do not
                 change which pairs are asked for, nor how large results are

    python benchmarks/caches.py --collections DIR ... --store DIR --part time --json FILE
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import harness
from runoff import Document, Engine, evaluation, models, threads
from runoff.assembly import Passages
from runoff.backends import Scores
from runoff.caching import Caches
from runoff.evaluation import collection
from runoff.results import SearchResult, Timings
from runoff.stages import ModelStages

DEFAULTS = (models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER)
EXPONENT = 1.0
CHANGED = 0.01
BOUNDS_MB = (4, 16, 64)


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, nargs="+", required=True)
    options.add_argument("--store", type=Path, required=True, help="made where it is not there")
    options.add_argument("--part", choices=("time", "stream"), required=True)
    options.add_argument("--queries", type=int, default=40, help="of the part time")
    options.add_argument("--draws", type=int, default=6000)
    options.add_argument("--refreshes", type=int, default=3)
    chosen = options.parse_args()
    data = [evaluation.load(folder) for folder in chosen.collections]
    documents = [each for one in data for _, each in collection.as_documents(one)]
    rng = np.random.default_rng(harness.SEED)
    pool = [query.text for one in data for query in one.queries]
    count = chosen.queries if chosen.part == "time" else len(pool)
    queries = [pool[place] for place in rng.choice(len(pool), count, replace=False).tolist()]
    if not chosen.store.exists():
        with Engine.open(chosen.store) as engine:
            engine.add(documents)
    if chosen.part == "time":
        found = timed(chosen, queries, documents, rng)
    else:
        found = {f"{bound:g} MB": stream(chosen, queries, documents, bound) for bound in BOUNDS_MB}
    settings = {
        "collections": [folder.name for folder in chosen.collections],
        "documents": len(documents),
        "queries": len(queries),
        "refreshes": chosen.refreshes,
        "changed": CHANGED,
        "threads": threads.budget(chosen.threads),
    }
    settings |= {"draws": chosen.draws, "exponent": EXPONENT} if chosen.part == "stream" else {"rounds": chosen.rounds}
    sections = _sections(chosen.json) | {chosen.part: found | {"settings": settings}}
    harness.finish("caches", sections, {"seed": harness.SEED}, chosen.json)


def timed(chosen: Any, queries: list[str], documents: list[Document], rng: np.random.Generator) -> dict[str, Any]:
    """Milliseconds of each way to come to the same results."""
    with _copy(chosen, 0) as nothing, _copy(chosen, 64_000_000) as kept:
        for engine in (nothing, kept):
            engine.prompt("What loads before the clock starts?")
        wanted = {query: nothing.search(query) for query in queries}
        again = queries * chosen.rounds
        laps = {
            "computed": _laps(nothing.search, queries),
            "computed, prompt": _laps(nothing.prompt, queries),
            "first time": _laps(kept.search, queries),
            "asked again": _laps(kept.search, again),
        }
        for query in queries:
            result = kept.search(query)
            assert result.cached
            assert _bare(result) == _bare(wanted[query])
            kept.prompt(query)
        laps["asked again, prompt"] = _laps(kept.prompt, again)
        laps["asked again, other top_n"] = _laps(partial(kept.search, top_n=4), queries)
        laps["after a refresh"], new = [], 0
        for number in range(chosen.refreshes):
            _refresh(kept, documents, rng, number)
            before = kept.cache_stats()["pairs"].misses
            laps["after a refresh"] += _laps(kept.search, queries)
            new += kept.cache_stats()["pairs"].misses - before
    summary: dict[str, Any] = {name: _summary(times) for name, times in laps.items()}
    summary["after a refresh"]["new pairs a query"] = new / len(laps["after a refresh"])
    return summary


def stream(chosen: Any, queries: list[str], documents: list[Document], megabytes: float) -> dict[str, Any]:
    """Shares of hits, and the most bytes that were held, over draws by a Zipf law with refreshes on the way."""
    rng = np.random.default_rng(harness.SEED)
    weights = np.arange(1, len(queries) + 1) ** -EXPONENT
    draws = rng.choice(len(queries), chosen.draws, p=weights / weights.sum()).tolist()
    pause = len(draws) // (chosen.refreshes + 1)
    most = dict.fromkeys(("embeddings", "pairs", "results"), 0)
    stages = _Unscored(*(models.find(name) for name in DEFAULTS), "auto", chosen.threads)
    with _copy(chosen, round(megabytes * 1e6), stages) as engine:
        for place, number in enumerate(draws):
            if place and place % pause == 0:
                _refresh(engine, documents, rng, place // pause)
            engine.search(queries[number])
            for name, stats in engine.cache_stats().items():
                assert stats.bytes <= stats.bound
                most[name] = max(most[name], stats.bytes)
        found = engine.cache_stats()
    pairs = 20 * len(draws)
    return {
        name: {
            "hits": stats.hits,
            "misses": stats.misses,
            "share": stats.hits / (stats.hits + stats.misses),
            "entries": stats.entries,
            "most_bytes": most[name],
            "bound": stats.bound,
        }
        for name, stats in found.items()
    } | {"different": len(set(draws)), "share of pairs not scored": 1 - found["pairs"].misses / pairs}


class _Zeros:
    """Gives every pair the logit 0."""

    identity = "zeros"

    def score(self, query_ids: Any, passages: Passages, **options: Any) -> Scores:
        return Scores(np.zeros(len(passages), np.float32), np.zeros(len(passages), np.bool_), False)


class _Unscored(ModelStages):
    """The real stages, but for the cross-encoder."""

    scorer = _Zeros()  # type: ignore[assignment]


@contextmanager
def _copy(chosen: Any, cache_bytes: int, stages: ModelStages | None = None) -> Iterator[Engine]:
    """An engine over a copy of the store, which may be changed."""
    stages = stages or ModelStages(*(models.find(name) for name in DEFAULTS), "auto", chosen.threads)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        shutil.copytree(chosen.store, store)
        with Engine(store, stages, caches=Caches(cache_bytes)) as engine:
            yield engine


def _refresh(engine: Engine, documents: list[Document], rng: np.random.Generator, number: int) -> None:
    """Edit a share of the documents, as a refresh would that found them edited."""
    places = rng.choice(len(documents), round(CHANGED * len(documents)), replace=False).tolist()
    note = f"\n\nEdited in round {number}."
    edited = [replace(documents[place], body=documents[place].body + note) for place in places]
    report = engine.add(edited)
    assert report.updated == len(edited)


def _laps(call: Callable[[str], object], queries: list[str]) -> list[float]:
    times = []
    for query in queries:
        started = time.perf_counter()
        call(query)
        times.append((time.perf_counter() - started) * 1e3)
    return times


def _summary(times: list[float]) -> dict[str, float]:
    p50, p95, p99 = (harness.percentile(times, percent) for percent in (50, 95, 99))
    return {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "most_ms": max(times), "calls": len(times)}


def _bare(result: SearchResult) -> SearchResult:
    return replace(result, timings_ms=Timings(0, 0, 0, 0, 0), cached=False, spent_ms=0.0)


def _sections(path: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["results"] if path and path.exists() else {}
    return found


if __name__ == "__main__":
    main()
