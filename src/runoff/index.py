"""Nearest passages by inner product: HNSW graphs over most rows, an exact scan over the newest and over narrow filters.

A graph covers neighbouring rows and never changes once it is saved, so that a refresh never rewrites it for a few
passages: rows behind the last graph are scanned, and once ``TAIL_ROWS`` have piled up a commit makes a graph of them,
continued from the graphs before it that are not much larger. There are never more than a handful. Dead rows stay in
their graph; a search asks for as many more as it takes to find the live ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import _scan
from .graph import Graph
from .manifest import Part

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Vectors = NDArray[np.float16]
Mask = NDArray[np.bool_]

TAIL_ROWS = 8192
GROWTH = 4
SEARCH_BREADTH = 256
# Where the wanted rows are at most so many, scanning them is faster than walking a graph, and exact.
SCAN_ROWS = 16384
# A walk that has to pass by so many rows costs more than a scan.
MOST_WALKED = 4096
_SPARE = 16
_KERNEL = _scan.best()


class VectorIndex:
    """Searches the live rows of a store. Any number of threads may search at once.

    Args:
        vectors: float16, shape [rows, dimensions], L2-normalised.
        alive: bool, shape [rows]; dead rows are never returned.
        graphs: graphs over the first rows, in order and without gaps.
    """

    def __init__(self, vectors: Vectors, alive: Mask, graphs: Sequence[Graph] = ()) -> None:
        self._bits = np.ascontiguousarray(vectors, dtype=np.float16).view(np.uint16)
        self._alive = alive
        self._graphs = graphs
        self._indexed = graphs[-1].last if graphs else 0

    @property
    def method(self) -> str:
        """How rows are searched where no filter is narrow: ``"exact"`` or ``"hnsw"``."""
        return "hnsw" if self._graphs else "exact"

    def search(self, query: Scores, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """The ``k`` live rows nearest to ``query``, or all there are.

        Args:
            query: float32, shape [dimensions], L2-normalised.
            k: number of rows wanted, at least 1.
            allowed: bool, shape [rows]; other rows are passed over.

        Returns:
            Rows (int64) and inner products (float32, -1..1), best first, ties by row.
        """
        chosen = self._alive if allowed is None else self._alive & allowed
        if not self._graphs or np.count_nonzero(chosen) <= SCAN_ROWS:
            return self._exact(query, k, chosen)
        found = [self._walk(graph, query, k, chosen) for graph in self._graphs]
        found.append(self._scan(query, k, chosen, self._indexed, len(chosen)))
        return self._best(query, np.concatenate(found), k)

    def exact(self, query: Scores, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """The same by a scan over all rows: the reference for ``search``."""
        return self._exact(query, k, self._alive if allowed is None else self._alive & allowed)

    def similarities(self, query: Scores, rows: Rows) -> Scores:
        """Inner products of rows with ``query``: float32, shape [rows].

        A row's value does not depend on the others that are asked for, nor on threads.
        """
        scores = np.empty(len(rows), dtype=np.float32)
        _scan.gather(
            self._bits, np.ascontiguousarray(query, dtype=np.float32), np.ascontiguousarray(rows), scores, _KERNEL
        )
        return scores

    def _exact(self, query: Scores, k: int, chosen: Mask) -> tuple[Rows, Scores]:
        return self._best(query, self._scan(query, k, chosen, 0, len(chosen)), k)

    def _scan(self, query: Scores, k: int, chosen: Mask, first: int, last: int) -> Rows:
        rows = np.flatnonzero(chosen[first:last]) + first
        if 4 * rows.size < last - first:
            scores = self.similarities(query, rows)
        else:
            whole = np.empty(last - first, dtype=np.float32)
            _scan.scan(self._bits, np.ascontiguousarray(query, dtype=np.float32), first, whole, _KERNEL)
            scores = whole if rows.size == whole.size else whole[rows - first]
        return np.asarray(rows[_largest(scores, k)])

    def _walk(self, graph: Graph, query: Scores, k: int, chosen: Mask) -> Rows:
        part = chosen[graph.first : graph.last]
        there = int(np.count_nonzero(part))
        wanted = min(k, there)
        share = there / len(part)
        reach = wanted if share == 1 else int(1.25 * wanted / share) + _SPARE if share else 0
        while 0 < reach <= min(MOST_WALKED, len(part)):
            rows: Rows = graph.walk(self._bits, query, max(SEARCH_BREADTH, reach), _KERNEL)
            rows = np.extract(chosen[rows], rows)
            if rows.size >= wanted:
                return rows
            reach *= 2
        return self._scan(query, k, chosen, graph.first, graph.last)

    def _best(self, query: Scores, rows: Rows, k: int) -> tuple[Rows, Scores]:
        scores = self.similarities(query, rows)
        order = np.lexsort((rows, -scores))[:k]
        return rows[order], scores[order]


def plan_graph(graphs: Sequence[Part], rows: int) -> tuple[tuple[Part, ...], Part | None, int] | None:
    """How the next graph is made once ``rows`` are there, or None while the rows behind the last graph are few.

    Returns:
        The graphs that stay, the graph that is continued (or None) and the first row that the new graph covers.
    """
    kept = list(graphs)
    first = kept[-1].last if kept else 0
    if rows - first < TAIL_ROWS:
        return None
    continued: Part | None = None
    while kept and kept[-1].rows <= GROWTH * (rows - first):
        continued = kept.pop()
        first = continued.first
    return tuple(kept), continued, first


def _largest(scores: Scores, k: int) -> Rows:
    """Positions of the ``k`` largest scores and of all that equal the least of them."""
    if k >= len(scores):
        return np.arange(len(scores))
    floor = np.partition(scores, len(scores) - k)[len(scores) - k]
    return np.flatnonzero(scores >= floor)
