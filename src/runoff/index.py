"""Nearest chunks by inner product: an HNSW graph over most rows, an exact scan over the newest and over small stores.

Rows that came after the graph was saved are scanned, so that a refresh never has to rewrite the graph for a few
chunks; once ``TAIL_ROWS`` have piled up the next commit adds them. Below that many rows there is no graph at all.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]

TAIL_ROWS = 8192
NEIGHBOURS = 16
BUILD_BREADTH = 200
SEARCH_BREADTH = 256
_SEED = 20


class VectorIndex:
    """Searches the live rows of a store.

    Args:
        vectors: float32, shape [rows, dimensions], L2-normalised.
        alive: bool, shape [rows]; dead rows are never returned.
        graph: an hnswlib index whose labels are the rows [0, graph_rows), or None.
        graph_rows: number of rows that the graph covers.
    """

    def __init__(self, vectors: Scores, alive: NDArray[np.bool_], graph: Any = None, graph_rows: int = 0) -> None:
        self._vectors = vectors
        self._alive = alive
        self._graph = graph
        self._graph_rows = graph_rows
        self._graph_live = int(alive[:graph_rows].sum())
        self._lock = threading.Lock()

    @property
    def method(self) -> str:
        """How rows are searched: ``"exact"`` or ``"hnsw"``."""
        return "exact" if self._graph is None else "hnsw"

    def search(self, query: Scores, k: int) -> tuple[Rows, Scores]:
        """The ``k`` live rows nearest to ``query``, or all there are.

        Args:
            query: float32, shape [dimensions], L2-normalised.
            k: number of rows wanted, at least 1.

        Returns:
            Rows (int64) and inner products (float32, -1..1), best first, ties by row.
        """
        tail = self._scan(query, self._graph_rows, k)
        if self._graph is None or not self._graph_live:
            return tail
        return _merge(self._walk(query, k), tail, k)

    def exact(self, query: Scores, k: int) -> tuple[Rows, Scores]:
        """The same by a scan over all rows: the reference for ``search``."""
        return self._scan(query, 0, k)

    def _scan(self, query: Scores, first: int, k: int) -> tuple[Rows, Scores]:
        rows = np.flatnonzero(self._alive[first:]) + first
        if not rows.size:
            return rows, np.empty(0, dtype=np.float32)
        whole = self._vectors[first:] @ query
        return _top(rows, whole[rows - first], k)

    def _walk(self, query: Scores, k: int) -> tuple[Rows, Scores]:
        wanted = min(k, self._graph_live)
        with self._lock:
            self._graph.set_ef(max(SEARCH_BREADTH, 2 * wanted))
            try:
                labels, _ = self._graph.knn_query(query, k=wanted, num_threads=1)
            except RuntimeError:  # the graph reached fewer than were asked for
                return self._scan(query, 0, k)
        rows = labels[0].astype(np.int64)
        return _top(rows, self._vectors[rows] @ query, k)


def load_graph(path: Path, dimensions: int, rows: int, alive: NDArray[np.bool_]) -> Any:
    """Load a saved graph (its bytes must have been checked) and mark its dead rows."""
    graph = _new_graph(dimensions)
    graph.load_index(str(path), max_elements=rows)
    for row in np.flatnonzero(~alive[:rows]):
        graph.mark_deleted(int(row))
    return graph


def grow_graph(path: Path | None, covered: int, vectors: Scores) -> Any:
    """A graph over all rows of ``vectors``, continued from the saved one over the first ``covered``.

    Rows are added by one thread, so that the same rows make the same graph.
    """
    rows, dimensions = vectors.shape
    graph = _new_graph(dimensions)
    if path is None:
        graph.init_index(max_elements=rows, M=NEIGHBOURS, ef_construction=BUILD_BREADTH, random_seed=_SEED)
        covered = 0
    else:
        graph.load_index(str(path), max_elements=rows)
    graph.add_items(np.asarray(vectors[covered:]), np.arange(covered, rows), num_threads=1)
    return graph


def _new_graph(dimensions: int) -> Any:
    import hnswlib

    return hnswlib.Index(space="ip", dim=dimensions)


def _merge(a: tuple[Rows, Scores], b: tuple[Rows, Scores], k: int) -> tuple[Rows, Scores]:
    rows, first = np.unique(np.concatenate([a[0], b[0]]), return_index=True)
    return _top(rows, np.concatenate([a[1], b[1]])[first], k)


def _top(rows: Rows, scores: Scores, k: int) -> tuple[Rows, Scores]:
    if k < len(rows):
        # Keep everything that ties with the k-th, so that the cut between equals is made by row below.
        floor = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= floor
        rows, scores = rows[kept], scores[kept]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]
