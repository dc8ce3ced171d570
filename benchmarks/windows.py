"""Is it better to read a part of many candidates or all of a few?

Every query's first twenty documents by dense search are scored whole and by windows of several lengths; then rankings
in which only the first of them are reranked are judged, beside the work that they take.

    python benchmarks/windows.py --collections DIR --json benchmarks/results/windows.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import collection as collections
import harness
from runoff import windows
from runoff.assembly import SPECIALS, Passages
from runoff.encoder import BiEncoder
from runoff.evaluate import ndcg
from runoff.ranking import DEFAULT_BLEND
from runoff.reranker import SENTENCE_ENDS, CrossEncoder

NAMES = ("fiqa_test", "nq_passages", "scifact")
DEPTH = 20
SIZES = (None, 128, 64, 32)
COUNTS = (2, 4, 6, 10, 15, 20)
# What a squared token of a pair costs beside a token, about; only shares of work are told.
SQUARE = 0.001


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True, help="folder of the labelled collections")
    options.add_argument("--queries", type=int, default=60, help="of each collection")
    chosen = options.parse_args()
    encoder, model = BiEncoder.load(threads=chosen.threads), CrossEncoder.load(threads=chosen.threads)
    results = {
        name: _study(collections.load(chosen.collections / name), encoder, model, chosen.queries) for name in NAMES
    }
    harness.finish("windows", results, {"queries": chosen.queries, "depth": DEPTH}, chosen.json)


def _study(data: collections.Collection, encoder: BiEncoder, model: CrossEncoder, count: int) -> dict[str, Any]:
    queries, ids = data.sample(count, harness.SEED), list(data.documents)
    vectors = encoder.encode(list(data.documents.values()))
    similarities = encoder.encode([data.queries[query] for query in queries]) @ vectors.T
    ends = model.tokenizer.encode(SENTENCE_ENDS)
    found: dict[tuple[int | None, int], list[tuple[float, float]]] = {}
    for query, row in zip(queries, similarities, strict=True):
        order = np.argsort(-row, kind="stable")[:DEPTH]
        documents, offsets = [ids[place] for place in order], DEFAULT_BLEND * row[order]
        query_ids = model.tokenizer.encode(data.queries[query])
        whole = Passages.pack(model.tokenizer.encode_batch([data.documents[key] for key in documents]))
        everything = _work(whole, len(query_ids), model).sum()
        for size in SIZES:
            read = whole if size is None else windows.narrow(query_ids, whole, size, ends)
            values, work = model.score(query_ids, read).logits + offsets, _work(read, len(query_ids), model)
            for reranked in COUNTS:
                best = np.argsort(-values[:reranked], kind="stable")
                ranking = [*(documents[place] for place in best), *documents[reranked:]]
                cell = ndcg(ranking, data.relevant[query], 10), float(work[:reranked].sum() / everything)
                found.setdefault((size, reranked), []).append(cell)
    means = {key: np.mean(cells, axis=0) for key, cells in found.items()}
    grid = {
        str(size or "all"): {
            str(reranked): {"ndcg@10": float(means[size, reranked][0]), "work": float(means[size, reranked][1])}
            for reranked in COUNTS
        }
        for size in SIZES
    }
    return {"queries": len(queries), "grid": grid}


def _work(passages: Passages, query: int, model: CrossEncoder) -> np.ndarray:
    tokens = np.minimum(passages.lengths.astype(np.int64) + query + SPECIALS, model.artifact.max_length)
    return tokens + SQUARE * tokens**2


if __name__ == "__main__":
    main()
