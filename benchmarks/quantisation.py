"""What 8 bits cost: logits and vectors of both int8 backends against the same weights in fp32.

The first stage's top 20 of labelled queries are reranked in fp32 (onnxruntime on fp32 artifacts, whose distance from
torch on the golden inputs is reported), by the native encoder and by onnxruntime int8. This takes long, so candidates
and logits are kept in `--cache` query by query; a run that was stopped goes on where it was, and `--known` tells of the
queries that fp32 has scored so far. Another model, or other arithmetic, wants another folder.

Make the fp32 artifacts first (extra `export`, `--precision fp32`; see docs/models.md), FOLDER holding both. Then:

    python benchmarks/quantisation.py --collections DIR --fp32 FOLDER --cache FOLDER \\
        --json benchmarks/results/quantisation.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import collection as collections
import harness
from runoff import backends, models
from runoff.artifact import Artifact
from runoff.encoder import BiEncoder
from runoff.evaluate import ndcg
from runoff.reranker import CrossEncoder

# Collections and how many of their queries; None for all.
QUERIES = {"fiqa_test": None, "nq_passages": 300, "scifact": None}
BACKENDS = ("native", "onnxruntime")
DEPTH, CHUNKS = 20, 1000


def main() -> None:
    options = _parser().parse_args()
    fp32 = {
        name: models.find(options.fp32 / name) for name in (models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER)
    }
    results: dict[str, Any] = {"torch": {name: _golden_error(artifact) for name, artifact in fp32.items()}}
    results["vectors"] = _vectors(options, fp32[models.DEFAULT_BI_ENCODER])
    for name in options.only or QUERIES:
        results[name] = _logits(name, options, fp32[models.DEFAULT_CROSS_ENCODER])
    harness.finish("quantisation", results, {"depth": DEPTH, "chunks": CHUNKS}, options.json)


def _golden_error(artifact: Artifact) -> float:
    """Largest distance of onnxruntime fp32 from torch fp32 on the artifact's golden inputs."""
    backend = backends.OnnxRuntimeBackend.load(artifact)
    tokenizer = BiEncoder.load().tokenizer
    everything = range(len(artifact.golden.inputs))
    return float(artifact.golden.worst(backends.golden_outputs(artifact, backend, everything, tokenizer)))


def _vectors(options: argparse.Namespace, fp32: Artifact) -> dict[str, Any]:
    """Cosines of int8 vectors to fp32 vectors of the same chunks."""
    texts = harness.passages(options.collections / "nq_passages" / "corpus.jsonl.gz", CHUNKS, harness.SEED)
    exact = BiEncoder.load(fp32, backend="onnxruntime", threads=options.threads).encode(texts)
    cosines = {
        name: np.sum(exact * BiEncoder.load(backend=name, threads=options.threads).encode(texts), axis=1)
        for name in BACKENDS
    }
    return {name: {"lowest": float(row.min()), "mean": float(row.mean())} for name, row in cosines.items()}


def _logits(name: str, options: argparse.Namespace, fp32: Artifact) -> dict[str, Any]:
    data = collections.load(options.collections / name)
    path = options.cache / f"{name}.jsonl"
    found = {record["query"]: record["documents"] for record in _lines(path)}
    queries = data.sample(QUERIES[name] or len(data.queries), seed=harness.SEED)
    queries = sorted((q for q in queries if q in found or not options.known), key=lambda query: query not in found)
    queries = queries[: options.limit]
    missing = [query for query in queries if query not in found]
    if missing:
        found |= collections.candidates(data, missing, BiEncoder.load(threads=options.threads), DEPTH)
    candidates = {query: found[query] for query in queries}
    loads: dict[str, Callable[[], CrossEncoder]] = {
        "fp32": lambda: CrossEncoder.load(fp32, threads=options.threads, backend="onnxruntime")
    }
    for backend in BACKENDS:
        loads[backend] = lambda backend=backend: CrossEncoder.load(threads=options.threads, backend=backend)
    scored = {}
    for backend, load in loads.items():
        kept = path if backend == "fp32" else options.cache / f"{name}-{backend}.jsonl"
        scored[backend] = _scored(data, candidates, kept, load)
    return {
        "queries": len(queries),
        "first stage": mean(ndcg(candidates[q], data.relevant[q], 10) for q in queries),
        "ndcg@10": {backend: _quality(data, queries, candidates, rows) for backend, rows in scored.items()},
        **{backend: _differences(scored[backend], scored["fp32"]) for backend in BACKENDS},
    }


def _scored(
    data: collections.Collection, candidates: dict[str, list[str]], path: Path, load: Callable[[], CrossEncoder]
) -> list[np.ndarray]:
    """Logits of the candidates of each query: what the file has, and the rest added to it."""
    known = {record["query"]: record["logits"] for record in _lines(path)}
    missing = [query for query in candidates if query not in known]
    if missing:
        model = load()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for query in missing:
                known[query] = collections.logits(model, data, query, candidates[query]).tolist()
                record = {"query": query, "documents": candidates[query], "logits": known[query]}
                print(json.dumps(record), file=file, flush=True)
    return [np.array(known[query], np.float32) for query in candidates]


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()


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
    parser.add_argument("--collections", type=Path, required=True, help="folder of labelled collections")
    parser.add_argument("--fp32", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="most queries of a collection, those in the cache first")
    parser.add_argument("--known", action="store_true", help="only queries that fp32 has scored already")
    parser.add_argument("--only", action="append", choices=list(QUERIES), help="a collection; all of them by default")
    return parser


if __name__ == "__main__":
    main()
