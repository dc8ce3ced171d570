"""Graphs of neighbours (HNSW) over neighbouring rows of vectors: made by hnswlib, kept and walked without it.

hnswlib's own file holds a copy of every vector in single precision, has to be read whole, and is trusted by what reads
it. Here a graph is its links alone; the vectors are those of the store, the file is mapped, and a walk checks each link
before it follows it. Little-endian, each part beginning at a multiple of 64:

    header      8 bytes RUNOFFGR; uint32 format version, levels; int64 first row, rows, entry (a row)
    counts      int64[levels]           rows on each level, the ground first
    widths      int64[levels]           most neighbours of a row there
    then of each level
    rows        int32[rows]             ascending; left out for the ground, which has all
    links       int32[rows, width]      the neighbours of each, filled up with -1

Rows are counted from the graph's first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _hnsw
from .errors import StoreDamagedError

VERSION = 1
NEIGHBOURS = 16
BUILD_BREADTH = 200

_MAGIC = b"RUNOFFGR"
_HEADER = struct.Struct("<8sIIqqq")
_ALIGNMENT = 64
_BLOCK_ROWS = 8192
_SEED = 20

Vectors = NDArray[np.float16]
Links = NDArray[np.int32]
Rows = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Level:
    """Rows that a level has, int32, ascending, and the neighbours of each: int32, shape [rows, width]."""

    rows: Links
    links: Links


class Graph:
    """A graph over the rows from ``first`` on. It never changes, and any number of threads may walk it at once.

    Args:
        first: the first row.
        entry: where walks begin, counted from the first row.
        levels: its levels, the ground first.

    Raises:
        StoreDamagedError: they are no levels of one graph.
    """

    def __init__(self, first: int, entry: int, levels: list[Level]) -> None:
        self.first, self.entry, self.levels = first, entry, levels
        self.last = first + len(levels[0].links)
        try:
            self._native = _hnsw.Levels([(level.rows, level.links) for level in levels], entry)
        except ValueError as error:
            raise StoreDamagedError(f"graph: {error}. {_WAY_OUT}") from error

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last - self.first

    def walk(
        self, bits: NDArray[np.uint16], query: NDArray[np.float32], breadth: int, kernel: int
    ) -> NDArray[np.int64]:
        """About the ``breadth`` rows with the largest inner products with ``query``, best first: int64.

        Args:
            bits: half-precision vectors of all rows of the store as uint16, shape [rows, dimensions].
            query: float32, shape [dimensions].
            breadth: rows wanted; more of them are nearer to the truth, and take longer. Fewer come where the graph
                reaches fewer.
            kernel: number of a kernel of ``runoff._scan``.

        Raises:
            StoreDamagedError: a link leads out of the graph.
        """
        rows = np.empty(min(breadth, self.rows), dtype=np.int64)
        found = self._native.walk(bits[self.first : self.last], np.ascontiguousarray(query), rows, kernel)
        if found < 0:
            raise StoreDamagedError(f"graph: a link leads out of it. {_WAY_OUT}")
        return rows[:found] + self.first

    def write(self) -> Iterator[bytes]:
        """The bytes of the graph, piece by piece."""
        counts = np.array([len(level.links) for level in self.levels], dtype="<i8")
        widths = np.array([level.links.shape[1] for level in self.levels], dtype="<i8")
        yield _aligned(_HEADER.pack(_MAGIC, VERSION, len(self.levels), self.first, self.rows, self.entry))
        yield _aligned(counts.tobytes() + widths.tobytes())
        for number, level in enumerate(self.levels):
            if number:
                yield _aligned(level.rows.astype("<i4").tobytes())
            yield _aligned(level.links.astype("<i4").tobytes())

    @classmethod
    def parse(cls, data: Bytes) -> Graph:
        """A view of the bytes of a graph.

        Raises:
            StoreDamagedError: they are no graph of this format.
        """
        if len(data) < _HEADER.size or data[: len(_MAGIC)].tobytes() != _MAGIC:
            raise StoreDamagedError(f"graph: does not begin as one. {_WAY_OUT}")
        _, version, levels, first, rows, entry = _HEADER.unpack(data[: _HEADER.size].tobytes())
        if version != VERSION:
            raise StoreDamagedError(f"graph: format version {version}; this release reads {VERSION}. {_WAY_OUT}")
        cursor = _Cursor(data, _HEADER.size + -_HEADER.size % _ALIGNMENT)
        sizes = cursor.take("<i8", 2 * levels).tolist()
        found = []
        for number, (count, width) in enumerate(zip(sizes[:levels], sizes[levels:], strict=True)):
            own = cursor.take("<i4", count if number else 0)
            if min(count, width) < 1 or (number and (own[1:] <= own[:-1]).any()):
                raise StoreDamagedError(f"graph: the rows of level {number} do not ascend. {_WAY_OUT}")
            found.append(Level(own, cursor.take("<i4", count * width).reshape(count, width)))
        if not found or len(found[0].links) != rows:
            raise StoreDamagedError(f"graph: does not have all of its {rows} rows. {_WAY_OUT}")
        return cls(first, entry, found)


def load(data: Bytes, path: Path, first: int, dimensions: int) -> Graph:
    """The graph in a mapped file, whose bytes must have been checked; files of hnswlib, which stores had before, too.

    Raises:
        StoreDamagedError: it cannot be read.
    """
    if data[: len(_MAGIC)].tobytes() == _MAGIC:
        return Graph.parse(data)
    index = _new(dimensions)
    try:
        index.load_index(str(path))
    except RuntimeError as error:
        raise StoreDamagedError(f"{path}: cannot be loaded ({error})") from error
    return _taken(index, first)


def build(vectors: Vectors, first: int, continued: Graph | None = None) -> Graph:
    """A graph over the rows from ``first`` to the last, going on from one that begins there where there is one.

    Rows are added by one thread, so that the same rows make the same graph.
    """
    start = first if continued is None else continued.last
    if continued is None:
        index = _new(vectors.shape[1])
        index.init_index(len(vectors) - first, M=NEIGHBOURS, ef_construction=BUILD_BREADTH, random_seed=_SEED)
    else:
        index = _given(continued, vectors)
        index.resize_index(len(vectors) - first)
    for at in range(start, len(vectors), _BLOCK_ROWS):
        block = vectors[at : at + _BLOCK_ROWS].astype(np.float32)
        index.add_items(block, np.arange(at, at + len(block)), num_threads=1)
    return _taken(index, first)


def _new(dimensions: int) -> Any:
    import hnswlib

    return hnswlib.Index(space="ip", dim=dimensions)


def _taken(index: Any, first: int) -> Graph:
    """The links of an hnswlib index, whose rows came one after the other."""
    (state,) = index.__getstate__()
    rows, most = state["cur_element_count"], state["max_M"]
    ground = state["data_level0"].view(np.int32).reshape(-1, state["size_data_per_element"] // 4)[:rows]
    levels = [Level(np.empty(0, dtype=np.int32), _links(ground[:, : 1 + state["max_M0"]]))]
    tops = state["element_levels"][:rows]
    higher = np.flatnonzero(tops)
    starts = np.cumsum(tops[higher]) - tops[higher]
    lists = state["link_lists"].view(np.int32).reshape(-1, 1 + most)
    for level in range(1, state["max_level"] + 1):
        there = tops[higher] >= level
        levels.append(Level(higher[there].astype(np.int32), _links(lists[starts[there] + level - 1])))
    return Graph(first, state["enterpoint_node"], levels)


def _links(lists: Links) -> Links:
    """Neighbours, filled up with -1, of hnswlib's lists: a count in the lower 16 bits of a number, then places."""
    counts = lists[:, :1] & 0xFFFF
    return np.where(np.arange(lists.shape[1] - 1) < counts, lists[:, 1:], np.int32(-1))


def _given(graph: Graph, vectors: Vectors) -> Any:
    """The hnswlib index that a graph was taken from."""
    index = _new(vectors.shape[1])
    index.init_index(graph.rows, M=NEIGHBOURS, ef_construction=BUILD_BREADTH, random_seed=_SEED)
    (state,) = index.__getstate__()
    record = np.zeros((graph.rows, state["size_data_per_element"] // 4), dtype=np.int32)
    ground = graph.levels[0].links
    width = ground.shape[1]
    record[:, : 1 + width] = _lists(ground)
    for at in range(0, graph.rows, _BLOCK_ROWS):
        block = vectors[graph.first + at : min(graph.first + at + _BLOCK_ROWS, graph.last)].astype(np.float32)
        record[at : at + len(block), 1 + width : 1 + width + vectors.shape[1]] = block.view(np.int32)
    labels = np.arange(graph.first, graph.last, dtype=np.uint64)
    record[:, -2:] = labels.view(np.int32).reshape(-1, 2)
    tops = np.zeros(graph.rows, dtype=np.int32)
    for number, level in enumerate(graph.levels[1:], 1):
        tops[level.rows] = number
    starts = np.cumsum(tops) - tops
    lists = np.zeros((int(tops.sum()), 1 + state["max_M"]), dtype=np.int32)
    for number, level in enumerate(graph.levels[1:]):
        lists[starts[level.rows] + number] = _lists(level.links)
    state.update(
        cur_element_count=graph.rows,
        ep_added=True,
        max_level=len(graph.levels) - 1,
        enterpoint_node=graph.entry,
        label_lookup_external=labels,
        label_lookup_internal=np.arange(graph.rows, dtype=np.uint32),
        element_levels=tops,
        data_level0=record.view(np.int8).ravel(),
        link_lists=lists.view(np.int8).ravel(),
    )
    return type(index)(params=state)


def _lists(links: Links) -> Links:
    """Lists as hnswlib has them."""
    counts = np.count_nonzero(links >= 0, axis=1).astype(np.int32)
    return np.column_stack([counts, np.where(links >= 0, links, np.int32(0))])


class _Cursor:
    """Takes one array after the other out of a file."""

    def __init__(self, data: Bytes, at: int) -> None:
        self._data, self._at = data, at

    def take(self, kind: str, count: int) -> NDArray[Any]:
        end = self._at + count * np.dtype(kind).itemsize
        if count < 0 or end > len(self._data):
            raise StoreDamagedError(f"graph: {len(self._data)} bytes; expected at least {end}. {_WAY_OUT}")
        found = self._data[self._at : end].view(kind)
        self._at = end + -end % _ALIGNMENT
        return found


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


_WAY_OUT = "Restore the store from a copy, or ingest the sources into a new folder."
