"""How do vector indexes compare: recall, time, build and memory?

Vectors like an encoder's: a mixture of gaussian clusters on the unit sphere, 384 dimensions. Recall@20 is against the
exact scan. Each index in a process of its own, on one thread a search; hnswlib, FAISS and usearch with the same M = 16,
breadth 200 while building and 256 while searching.

    python benchmarks/first_stage.py --sizes 10000 100000 --venvs DIR --json benchmarks/results/first_stage.json
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

DIMENSIONS, CLUSTERS, SPREAD = 384, 2000, 0.6
NEIGHBOURS, BUILD_BREADTH, SEARCH_BREADTH, K = 16, 200, 256, 20
QUERIES, SEED = 200, 20
# Name and the environment (peers/requirements-<environment>.txt) that has it; "" is this one.
INDEXES = {"exact (numpy)": "", "hnswlib": "", "FAISS flat": "st", "FAISS HNSW": "st", "usearch": "st"}


def main() -> None:
    import harness

    options = harness.parser(__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    options.add_argument("--venvs", type=Path, required=True)
    harness.add_work(options)
    chosen = options.parse_args()
    figures = harness.Figures("first_stage", chosen.work, {"queries": QUERIES, "k": K})
    results: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for size in chosen.sizes:
        for name, venv in INDEXES.items():
            python = chosen.venvs / venv / "bin" / "python" if venv else Path(sys.executable)
            try:
                row = figures.take(
                    f"{size}, {name}", lambda name=name, size=size, python=python: run(python, name, size)
                )
                results.setdefault(str(size), {})[name] = row
            except RuntimeError as error:
                missing[name] = str(error)
    harness.finish("first_stage", {"sizes": results, "not run": missing}, {"queries": QUERIES, "k": K}, chosen.json)


def run(python: Path, name: str, size: int) -> dict[str, float]:
    """The figures of one index, from a process of its own."""
    told = subprocess.run(
        [str(python), __file__, "worker", name, str(size)], capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise RuntimeError((told.stderr.strip().splitlines() or ["no word"])[-1])
    found: dict[str, float] = json.loads(told.stdout)
    return found


def worker(name: str, size: int) -> None:
    """Build and search one index; prints what came of it."""
    vectors, queries = data(size)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    exact = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :K]
    gc.collect()
    before = _memory()
    started = time.perf_counter()
    search = build(name, vectors)
    built, grown = time.perf_counter() - started, _memory() - before
    found, times = [], []
    for query in queries:
        started = time.perf_counter()
        found.append(search(query))
        times.append((time.perf_counter() - started) * 1e3)
    recall = np.mean([len(set(a.tolist()) & set(b.tolist())) / K for a, b in zip(found, exact, strict=True)])
    p50, p95 = np.percentile(times, [50, 95])
    told = {"recall@20": recall, "p50_ms": p50, "p95_ms": p95, "build_s": built, "index_mib": grown}
    print(json.dumps({key: float(value) for key, value in told.items()}))


def data(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors and queries: float32, unit length."""
    rng = np.random.default_rng(SEED)
    centres = _unit(rng.normal(size=(CLUSTERS, DIMENSIONS)))
    rows = centres[rng.integers(0, CLUSTERS, size + QUERIES)]
    noisy = _unit(rows + SPREAD * rng.normal(size=rows.shape) / np.sqrt(DIMENSIONS) * 2)
    return noisy[:size], noisy[size:]


def build(name: str, vectors: np.ndarray) -> Any:
    """A function from a query to the rows nearest to it."""
    size = len(vectors)
    if name == "exact (numpy)":
        return lambda query: np.argpartition(-(vectors @ query), K)[:K]
    if name == "hnswlib":
        import hnswlib

        index = hnswlib.Index("ip", DIMENSIONS)
        index.init_index(size, M=NEIGHBOURS, ef_construction=BUILD_BREADTH, random_seed=SEED)
        index.add_items(vectors, num_threads=1)
        index.set_ef(SEARCH_BREADTH)
        return lambda query: index.knn_query(query, K, num_threads=1)[0][0]
    if name == "usearch":
        from usearch.index import Index

        graph = Index(
            ndim=DIMENSIONS,
            metric="ip",
            dtype="f32",
            connectivity=NEIGHBOURS,
            expansion_add=BUILD_BREADTH,
            expansion_search=SEARCH_BREADTH,
        )
        graph.add(np.arange(size), vectors, threads=1)
        return lambda query: graph.search(query, K, threads=1).keys
    import faiss

    faiss.omp_set_num_threads(1)
    if name == "FAISS flat":
        made = faiss.IndexFlatIP(DIMENSIONS)
    else:
        made = faiss.IndexHNSWFlat(DIMENSIONS, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        made.hnsw.efConstruction, made.hnsw.efSearch = BUILD_BREADTH, SEARCH_BREADTH
    made.add(vectors)
    return lambda query: made.search(query[None], K)[1][0]


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _memory() -> float:
    """Resident MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], int(sys.argv[3]))
    else:
        main()
