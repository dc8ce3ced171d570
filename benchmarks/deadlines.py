"""Are deadlines kept, and what do they cost in quality?

Queries of labelled collections over one store of all their documents, twenty candidates, each query under every
deadline in turn, by one caller, and by two at once. nDCG@10 stands beside the first stage alone and exact reranking.

    python benchmarks/deadlines.py --collections DIR --work FOLDER --json benchmarks/results/deadlines.json

Figures are kept in the work folder query by query, so that a run can be continued; `--seconds` bounds one run.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import harness
from runoff import evaluation, identity
from runoff.engine import Engine
from runoff.evaluate import ndcg
from runoff.evaluation.collection import Collection, Query, as_documents
from runoff.results import SearchResult

NAMES = ("fiqa_test", "nq_passages", "scifact")
DEADLINES = (50, 100, 150, 250)
CANDIDATES = 20
BLOCK = 256
# What is asked of each query beside its deadlines, once.
BASES: dict[str, dict[str, Any]] = {"first stage": {"rerank": False}, "exact": {}}


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True, help="folder of the labelled collections")
    options.add_argument("--work", type=Path, required=True, help="folder for the store and the figures")
    options.add_argument("--queries", type=int, default=500, help="drawn from all collections")
    options.add_argument("--seconds", type=float, default=1e9, help="stop after so long, to be continued")
    options.add_argument("--part", choices=("bases", "one", "two"), help="only this part")
    chosen = options.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + chosen.seconds
    data = {name: evaluation.load(chosen.collections / name) for name in NAMES}
    with Engine.open(chosen.work / "store", threads=chosen.threads, cache_bytes=0) as engine:
        for name, each in data.items():
            store(engine, name, each)
        queries = drawn(data, chosen.queries)
        for _ in range(5):  # models load, costs are known, the pace is found
            engine.search(queries[0][1].text, deadline_ms=DEADLINES[-1])
        kept = {part: Kept(chosen.work / f"{part}.jsonl") for part in ("bases", "one", "two")}
        for part, figures in kept.items():
            if chosen.part in (None, part):
                _measure(engine, data, queries, figures, part, until)
        missing = {part: len(queries) - len(figures) for part, figures in kept.items()}
    if any(missing.values()):
        print(f"to be continued; queries left: {missing}")
        return
    results = {"bases": _bases(kept["bases"]), "one": _timed(kept["one"]), "two": _timed(kept["two"])}
    settings = {"collections": NAMES, "queries": len(queries), "candidates": CANDIDATES, "deadlines": DEADLINES}
    harness.finish("deadlines", results, settings, chosen.json)


def store(engine: Engine, name: str, data: Collection) -> None:
    """Store the documents of a collection, those that are missing, under ids that no other collection has."""
    documents = [replace(document, id=_id(name, key)) for key, document in as_documents(data)]
    for first in range(0, len(documents), BLOCK):
        engine.add(documents[first : first + BLOCK])


def owners(name: str, data: Collection) -> dict[str, str]:
    """A collection's documents by the ids that the store has them under."""
    return {_id(name, key): key for key in data.documents}


def _id(name: str, key: str) -> str:
    return identity.digest(f"{name} {key}")


class Kept:
    """Figures by query, on disk as soon as they are known."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.rows: dict[str, dict[str, Any]] = {}
        for line in lines:
            record = json.loads(line)
            self.rows[record["key"]] = record["figures"]

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, key: str, figures: dict[str, Any]) -> None:
        """Keep the figures of a query."""
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "figures": figures}) + "\n")
            self.rows[key] = figures


Asked = tuple[str, Query]  # with the name of its collection


def drawn(data: Mapping[str, Collection], count: int) -> list[Asked]:
    """Labelled queries of all collections alike, in a seeded order."""
    rng = np.random.default_rng(harness.SEED)
    found: list[Asked] = []
    for name, each in data.items():
        places = rng.permutation(len(each.queries))[: -(-count // len(data))]
        found += [(name, each.queries[place]) for place in places]
    return [found[place] for place in rng.permutation(len(found))[:count]]


def _measure(
    engine: Engine, data: Mapping[str, Collection], queries: list[Asked], kept: Kept, part: str, until: float
) -> None:
    names = {name: owners(name, each) for name, each in data.items()}
    waiting = iter([each for each in queries if f"{each[0]} {each[1].id}" not in kept.rows])
    lock = threading.Lock()

    def work() -> None:
        while time.monotonic() < until:
            with lock:
                query = next(waiting, None)
            if query is None:
                return
            kept.add(f"{query[0]} {query[1].id}", dict(_ask(engine, names[query[0]], query[1], part)))

    callers = [threading.Thread(target=work) for _ in range(2 if part == "two" else 1)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


def _ask(engine: Engine, names: Mapping[str, str], query: Query, part: str) -> Iterator[tuple[str, Any]]:
    ways = BASES if part == "bases" else {str(deadline): {"deadline_ms": deadline} for deadline in DEADLINES}
    for way, options in ways.items():
        result = engine.search(query.text, CANDIDATES, CANDIDATES, **options)
        found = dict.fromkeys(names.get(hit.document_id, hit.document_id) for hit in result.hits)
        yield way, {"ndcg": ndcg(list(found), query.relevant, 10), **_facts(result)}


def _facts(result: SearchResult) -> dict[str, Any]:
    return {
        "ms": result.spent_ms,
        "planned": result.planned_ms,
        "met": result.deadline_met,
        "scored": result.scored,
        "windowed": sum(hit.windowed for hit in result.hits),
    }


def _bases(kept: Kept) -> dict[str, Any]:
    return {
        way: {"ndcg@10": _by_collection(kept, way), **_times([row[way]["ms"] for row in kept.rows.values()])}
        for way in BASES
    }


def _timed(kept: Kept) -> dict[str, Any]:
    found = {}
    for deadline in map(str, DEADLINES):
        rows = [row[deadline] for row in kept.rows.values()]
        over = [row["ms"] / float(deadline) - 1 for row in rows]
        found[deadline] = {
            "met": float(np.mean([row["met"] for row in rows])),
            "p99 overshoot": max(0.0, harness.percentile(over, 99)),
            "ndcg@10": _by_collection(kept, deadline),
            "scored": float(np.mean([row["scored"] for row in rows])),
            "windowed": float(np.mean([row["windowed"] for row in rows])),
            "planned_ms": float(np.mean([row["planned"] for row in rows])),
            **_times([row["ms"] for row in rows]),
        }
    return found


def _by_collection(kept: Kept, way: str) -> dict[str, float]:
    found = {name: [row[way]["ndcg"] for key, row in kept.rows.items() if key.startswith(f"{name} ")] for name in NAMES}
    means = {name: float(np.mean(values)) for name, values in found.items() if values}
    return {**means, "mean": float(np.mean(list(means.values())))}


def _times(values: list[float]) -> dict[str, float]:
    return {f"p{point}_ms": harness.percentile(values, point) for point in (50, 95, 99)}


if __name__ == "__main__":
    main()
