"""Is it better to read a part of many candidates or all of a few?

The first twenty chunks of every query, by the search of the product itself over one store of all collections, are
scored whole and by windows of several lengths; then rankings in which only the first of them are reranked are judged,
beside the work that they take.

    python benchmarks/windows.py --collections DIR --work FOLDER --json benchmarks/results/windows.json

The store is that of deadlines.py. Figures are kept in the work folder query by query, so that a run can be continued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import deadlines
import harness
from runoff import evaluation, windows
from runoff.assembly import SPECIALS, Passages
from runoff.candidates import find
from runoff.engine import Engine
from runoff.evaluate import ndcg
from runoff.evaluation.collection import Query
from runoff.ranking import DEFAULT_BLEND
from runoff.reranker import SENTENCE_ENDS

DEPTH = deadlines.CANDIDATES
SIZES = (None, 192, 128, 96, 64, 48, 32)
COUNTS = (2, 4, 6, 8, 12, 16, 20)
# What a squared token of a pair costs beside a token, about; only shares of work are told.
SQUARE = 0.001

Cells = dict[str, tuple[float, float]]


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True, help="folder of the labelled collections")
    options.add_argument("--work", type=Path, required=True, help="folder for the store and the figures")
    options.add_argument("--queries", type=int, default=240, help="drawn from all collections")
    chosen = options.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    data = {name: evaluation.load(chosen.collections / name) for name in deadlines.NAMES}
    kept = deadlines.Kept(chosen.work / "windows.jsonl")
    asked = deadlines.drawn(data, chosen.queries)
    with Engine.open(chosen.work / "store", threads=chosen.threads, cache_bytes=0) as engine:
        for name, each in data.items():
            deadlines.store(engine, name, each)
        owners = {name: deadlines.owners(name, each) for name, each in data.items()}
        for name, query in asked:
            key = f"{name} {query.id}"
            if key not in kept.rows:
                kept.add(key, dict(study(engine, owners[name], query)))
    rows = {name: [kept.rows[f"{where} {query.id}"] for where, query in asked if where == name] for name in data}
    results = {name: _grid(figures) for name, figures in rows.items()}
    harness.finish("windows", results, {"queries": chosen.queries, "depth": DEPTH}, chosen.json)


def study(engine: Engine, owners: Mapping[str, str], query: Query) -> Iterator[tuple[str, tuple[float, float]]]:
    """nDCG@10, and the share of the work of reading all, for each window and number of candidates."""
    stages, generation = engine.stages, engine.store.current()
    model, ids = stages.scorer, stages.tokenizer.encode(query.text)
    found = find(generation, query.text, stages.encoder.encode([query.text])[0], DEPTH)
    rows = [generation.snapshot.chunk_of(row, None) for row in found.rows.tolist()]
    keys = [generation.snapshot.chunk(row).document_id for row in rows]
    documents = [owners.get(key, key) for key in keys]
    whole, ends = generation.snapshot.token_cache(found.rows), stages.tokenizer.encode(SENTENCE_ENDS)
    everything = _work(whole, len(ids)).sum()
    yield "first stage", (ndcg(list(dict.fromkeys(documents)), query.relevant, 10), 0.0)
    for size in SIZES:
        read = whole if size is None else windows.narrow(ids, whole, size, ends)
        values = model.score(ids, read).logits + np.float32(DEFAULT_BLEND) * found.similarities
        work = _work(read, len(ids))
        for count in COUNTS:
            best = np.argsort(-values[:count], kind="stable").tolist()
            ranking = dict.fromkeys(documents[place] for place in [*best, *range(len(best), len(documents))])
            share = float(work[:count].sum() / everything)
            yield f"{size or 'all'}, {count}", (ndcg(list(ranking), query.relevant, 10), share)


def _work(passages: Passages, query: int) -> np.ndarray:
    tokens = passages.lengths.astype(np.int64) + query + SPECIALS
    return tokens + SQUARE * tokens**2


def _grid(figures: list[Cells]) -> dict[str, Any]:
    def cell(size: int | None, count: int) -> dict[str, float]:
        quality, work = np.mean([row[f"{size or 'all'}, {count}"] for row in figures], axis=0).tolist()
        return {"ndcg@10": quality, "work": work}

    grid = {str(size or "all"): {str(count): cell(size, count) for count in COUNTS} for size in SIZES}
    first = float(np.mean([row["first stage"][0] for row in figures]))
    return {"queries": len(figures), "first stage": first, "grid": grid}


if __name__ == "__main__":
    main()
