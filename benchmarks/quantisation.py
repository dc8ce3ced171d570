"""What 8-bit weights cost: the first stage's top 20 of labelled queries, reranked by the int8 and the fp32 artifact.

Make the fp32 artifact first (extra `export`; see docs/models.md), then:

    python benchmarks/quantisation.py --collection DIR --fp32 FOLDER --json benchmarks/results/quantisation.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean

import numpy as np

import collection as collections
import harness
from runoff import models
from runoff.encoder import BiEncoder
from runoff.evaluate import ndcg
from runoff.reranker import CrossEncoder


def main() -> None:
    options = _parser().parse_args()
    data = collections.load(options.collection)
    queries = data.sample(options.queries, seed=harness.SEED)
    candidates = collections.candidates(data, queries, BiEncoder.load(threads=options.threads), depth=20)
    int8 = CrossEncoder.load(threads=options.threads, backend=options.backend)
    fp32 = CrossEncoder.load(models.find(options.fp32), threads=options.threads, backend="onnxruntime")
    scored = {
        name: [collections.logits(model, data, query, candidates[query]) for query in queries]
        for name, model in (("int8", int8), ("fp32", fp32))
    }
    results = {name: {"ndcg@10": _quality(data, queries, candidates, rows)} for name, rows in scored.items()}
    results["first stage"] = {"ndcg@10": mean(ndcg(candidates[q], data.relevant[q], 10) for q in queries)}
    results["difference"] = _differences(scored["int8"], scored["fp32"])
    settings = {"collection": options.collection.name, "queries": len(queries), "depth": 20, "backend": int8.backend}
    harness.finish("quantisation", results, settings, options.json)


def _quality(data, queries, candidates, rows) -> float:
    rankings = [collections.reorder(candidates[query], logits) for query, logits in zip(queries, rows, strict=True)]
    return mean(ndcg(ranking, data.relevant[query], 10) for query, ranking in zip(queries, rankings, strict=True))


def _differences(int8: list[np.ndarray], fp32: list[np.ndarray]) -> dict[str, float]:
    gaps = np.concatenate([np.abs(a - b) for a, b in zip(int8, fp32, strict=True)])
    top = [len(set(_top(a)) & set(_top(b))) / 3 for a, b in zip(int8, fp32, strict=True)]
    same = [_top(a)[0] == _top(b)[0] for a, b in zip(int8, fp32, strict=True)]
    return {
        "largest logit": float(gaps.max()),
        "rms logit": float(np.sqrt(np.mean(gaps**2))),
        "top 3 agreement": mean(top),
        "top 1 agreement": mean(same),
    }


def _top(logits: np.ndarray) -> list[int]:
    return np.argsort(-logits, kind="stable")[:3].tolist()


def _parser() -> argparse.ArgumentParser:
    parser = harness.parser(__doc__)
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--fp32", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--backend", default="auto")
    return parser


if __name__ == "__main__":
    main()
