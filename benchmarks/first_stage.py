"""How do vector indexes compare: recall, time, build and memory?

Vectors like an encoder's: those of scale.py, clusters of unit vectors in 384 dimensions. Recall@20 is against the exact
scan. Each index is built in one process and loaded and searched in another, on one thread; all graphs with the same
M = 16 and breadth 200 while building, and of the breadths while searching the least that finds 0.98.

    python benchmarks/first_stage.py --venvs DIR --work DIR --json benchmarks/results/first_stage.json

What was built stays in the work folder, so that a run can be continued, and the search alone needs a quiet machine:
`--build` builds and does no more. 1,000,000 vectors take an hour to build and 9 GB of disk.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DIMENSIONS, NEIGHBOURS, BUILD_BREADTH, K, SEED = 384, 16, 200, 20, 20
BREADTHS = (32, 64, 128, 256, 512)
RECALL = 0.98
# Name and the environment (peers/requirements-<environment>.txt) that has it; "" is this one.
INDEXES = {"Runoff": "", "FAISS HNSW": "st", "usearch": "st", "hnswlib": "", "exact (numpy)": "", "FAISS flat": "st"}
GRAPHS = ("Runoff", "FAISS HNSW", "usearch", "hnswlib")

Search = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    import harness

    options = harness.parser(__doc__)
    options.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--venvs", type=Path, required=True)
    options.add_argument("--work", type=Path, required=True, help="folder for vectors and indexes")
    options.add_argument("--build", action="store_true", help="build what is not there, and end")
    chosen = options.parse_args()
    results: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    for size in chosen.sizes:
        folder = chosen.work / f"peers-{size}"
        _draw(folder, size)
        for name, venv in INDEXES.items():
            python = chosen.venvs / venv / "bin" / "python" if venv else Path(sys.executable)
            try:
                built = _ran(python, "build", name, folder)
                if not chosen.build:
                    results.setdefault(str(size), {})[name] = {**built, **_ran(python, "search", name, folder)}
            except subprocess.CalledProcessError as error:
                missing[name] = (error.stderr.strip().splitlines() or ["no word"])[-1]
    if not chosen.build:
        harness.finish("first_stage", {"sizes": results, "not run": missing}, {"k": K, "recall": RECALL}, chosen.json)


def _ran(python: Path, step: str, name: str, folder: Path) -> dict[str, float]:
    """The figures of a step, taken unless that was done before."""
    told = folder / f"{step} {name}.json"
    if not told.exists():
        command = [str(python), __file__, step, name, str(folder)]
        told.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return dict(json.loads(told.read_text()))


def _draw(folder: Path, size: int) -> None:
    """Vectors, queries and what an exact scan finds for them."""
    import harness
    import scale

    if (folder / "exact.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    drawn = scale.Vectors(harness.SEED)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (size, DIMENSIONS))
    for first in range(0, size, scale.BLOCK):
        vectors[first : first + scale.BLOCK] = drawn.draw(min(scale.BLOCK, size - first))
    queries = scale.Vectors(harness.SEED + 2).draw(scale.QUERIES)
    np.save(folder / "queries.npy", queries)
    np.save(folder / "exact.npy", np.array([np.argsort(-(vectors @ query), kind="stable")[:K] for query in queries]))


def build(name: str, folder: Path) -> dict[str, float]:
    """Build an index and save it."""
    vectors = np.load(folder / "vectors.npy")
    started, worked = time.perf_counter(), time.process_time()
    index = _made(name, vectors)
    seconds = {"build_s": time.perf_counter() - started, "build_processor_s": time.process_time() - worked}
    _save(name, index, folder)
    return seconds


def search(name: str, folder: Path) -> dict[str, float]:
    """Load an index and ask it, with each breadth until enough is found."""
    queries, exact = np.load(folder / "queries.npy"), np.load(folder / "exact.npy")
    before = _memory()
    started = time.perf_counter()
    index = _loaded(name, folder)
    told = {"load_s": time.perf_counter() - started}
    for breadth in BREADTHS if _walks(name, folder) else (0,):
        ask = _asking(name, index, breadth)
        found, times = [], []
        for query in queries:
            started = time.perf_counter()
            found.append(ask(query))
            times.append((time.perf_counter() - started) * 1e3)
        recall = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, exact, strict=True)])
        p50, p95 = np.percentile(times, [50, 95])
        told |= {"breadth": breadth, "recall@20": recall, "p50_ms": p50, "p95_ms": p95}
        if recall >= RECALL:
            break
    return {key: float(value) for key, value in {**told, "index_mib": _memory() - before}.items()}


def _walks(name: str, folder: Path) -> bool:
    """Whether an index of this size is a graph that is walked."""
    if name == "Runoff":
        from runoff.index import SCAN_ROWS

        return len(np.load(folder / "vectors.npy", mmap_mode="r")) > SCAN_ROWS
    return name in GRAPHS


def _made(name: str, vectors: np.ndarray) -> Any:
    size = len(vectors)
    if name == "exact (numpy)":
        return vectors
    if name == "Runoff":
        from runoff import graph

        return graph.build(vectors.astype(np.float16), 0)
    if name == "hnswlib":
        import hnswlib

        index = hnswlib.Index("ip", DIMENSIONS)
        index.init_index(size, M=NEIGHBOURS, ef_construction=BUILD_BREADTH, random_seed=SEED)
        index.add_items(vectors, num_threads=1)
        return index
    if name == "usearch":
        index = _usearch()
        index.add(np.arange(size), vectors, threads=1)
        return index
    import faiss

    faiss.omp_set_num_threads(1)
    if name == "FAISS flat":
        made = faiss.IndexFlatIP(DIMENSIONS)
    else:
        made = faiss.IndexHNSWFlat(DIMENSIONS, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        made.hnsw.efConstruction = BUILD_BREADTH
    made.add(vectors)
    return made


def _usearch() -> Any:
    from usearch.index import Index

    return Index(ndim=DIMENSIONS, metric="ip", dtype="f32", connectivity=NEIGHBOURS, expansion_add=BUILD_BREADTH)


def _save(name: str, index: Any, folder: Path) -> None:
    path = str(folder / name)
    if name == "hnswlib":
        index.save_index(path)
    elif name == "Runoff":
        Path(path).write_bytes(b"".join(index.write()))
        np.save(f"{path}.npy", np.load(folder / "vectors.npy", mmap_mode="r").astype(np.float16))
    elif name == "usearch":
        index.save(path)
    elif name.startswith("FAISS"):
        import faiss

        faiss.write_index(index, path)


def _loaded(name: str, folder: Path) -> Any:
    path = str(folder / name)
    if name == "exact (numpy)":
        return np.load(folder / "vectors.npy")
    if name == "Runoff":
        from runoff import graph
        from runoff.index import VectorIndex

        vectors = np.load(f"{path}.npy", mmap_mode="r")
        links = graph.Graph.parse(np.memmap(path, dtype=np.uint8, mode="r"))
        return VectorIndex(vectors, np.ones(len(vectors), dtype=bool), [links])
    if name == "hnswlib":
        import hnswlib

        index = hnswlib.Index("ip", DIMENSIONS)
        index.load_index(path)
        return index
    if name == "usearch":
        index = _usearch()
        index.load(path)
        return index
    import faiss

    faiss.omp_set_num_threads(1)
    return faiss.read_index(path)


def _asking(name: str, index: Any, breadth: int) -> Search:
    """A function from a query to the rows nearest to it."""
    if name == "exact (numpy)":
        return lambda query: np.argpartition(-(index @ query), K)[:K]
    if name == "Runoff":
        from runoff import index as own

        own.SEARCH_BREADTH = breadth
        return lambda query: index.search(query, K)[0]
    if name == "hnswlib":
        index.set_ef(breadth)
        return lambda query: index.knn_query(query, K, num_threads=1)[0][0]
    if name == "usearch":
        index.expansion_search = breadth
        return lambda query: index.search(query, K, threads=1).keys
    if breadth:
        index.hnsw.efSearch = breadth
    return lambda query: index.search(query[None], K)[1][0]


def _memory() -> float:
    """Resident MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    if sys.argv[1] in ("build", "search"):
        print(json.dumps({"build": build, "search": search}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))))
    else:
        main()
