"""Graphs of neighbours: what hnswlib makes is kept whole, and a walk finds what hnswlib finds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import _hnsw, _scan
from runoff import graph as graphs
from runoff.errors import StoreDamagedError
from runoff.graph import Graph, Level, build, load

DIMENSIONS, FIRST = 24, 100


def unit(rows: int, seed: int) -> NDArray[np.float16]:
    vectors = np.random.default_rng(seed).standard_normal((rows, DIMENSIONS)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float16)


VECTORS = unit(2100, 1)
QUERIES = unit(60, 2).astype(np.float32)


def hnswlib_index(vectors: NDArray[np.float16]) -> Any:
    import hnswlib

    index = hnswlib.Index(space="ip", dim=DIMENSIONS)
    index.init_index(2000, M=16, ef_construction=200, random_seed=20)
    index.add_items(vectors[FIRST:].astype(np.float32), np.arange(FIRST, len(vectors)), num_threads=1)
    return index


@pytest.fixture(scope="module")
def made() -> Graph:
    return build(VECTORS, FIRST)


def written(graph: Graph) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(graph.write()), dtype=np.uint8).copy()


def walked(graph: Graph, query: NDArray[np.float32], breadth: int, kernel: int = 0) -> list[int]:
    return graph.walk(VECTORS.view(np.uint16), query, breadth, kernel).tolist()


@pytest.mark.parametrize("breadth", [40, 256])
def test_a_walk_finds_what_hnswlib_finds(made: Graph, breadth: int) -> None:
    index = hnswlib_index(VECTORS)
    index.set_ef(breadth)
    labels, distances = index.knn_query(QUERIES, breadth, num_threads=1)
    same = 0
    for query, theirs, distance in zip(QUERIES, labels.tolist(), distances, strict=True):
        rows = walked(made, query, breadth)
        same += len(set(rows) & set(theirs))
        np.testing.assert_allclose(VECTORS[rows[0]].astype(np.float32) @ query, 1 - distance[0], atol=1e-5)
    assert same >= 0.999 * labels.size  # single precision adds up in another order, which may turn a step


def test_every_kernel_walks_the_same_way(made: Graph) -> None:
    for query in QUERIES:
        ways = [walked(made, query, 64, kernel) for kernel in range(_scan.best() + 1)]
        assert all(way == ways[0] for way in ways)


def test_rows_come_best_first_and_all_of_them_where_as_many_are_wanted(made: Graph) -> None:
    for query in QUERIES[:5]:
        rows = walked(made, query, 5000)
        assert sorted(rows) == list(range(FIRST, len(VECTORS)))
        scores = np.empty(len(rows), dtype=np.float32)
        _scan.gather(VECTORS.view(np.uint16), query, np.array(rows), scores, 0)
        assert rows == [row for _, row in sorted(zip(-scores, rows, strict=True))]


def test_what_is_written_is_read_and_the_same_rows_give_the_same_bytes(made: Graph) -> None:
    data = written(made)
    read = load(data, Path("never-opened"), FIRST, DIMENSIONS)
    assert (read.first, read.last, len(read.levels)) == (FIRST, len(VECTORS), len(made.levels))
    assert len(read.levels) > 1
    assert written(read).tobytes() == data.tobytes() == written(build(VECTORS, FIRST)).tobytes()
    assert [walked(read, query, 30) for query in QUERIES] == [walked(made, query, 30) for query in QUERIES]


def test_a_file_of_hnswlib_is_read_as_the_graph_that_it_holds(made: Graph, tmp_path: Path) -> None:
    path = tmp_path / "old"
    hnswlib_index(VECTORS).save_index(str(path))
    read = load(np.fromfile(path, dtype=np.uint8), path, FIRST, DIMENSIONS)
    assert written(read).tobytes() == written(made).tobytes()


def test_hnswlib_gets_back_what_was_taken_from_it(made: Graph) -> None:
    given = graphs._given(made, VECTORS)
    assert written(graphs._taken(given, FIRST)).tobytes() == written(made).tobytes()
    given.set_ef(256)
    index = hnswlib_index(VECTORS)
    index.set_ef(256)
    np.testing.assert_array_equal(given.knn_query(QUERIES, 20)[0], index.knn_query(QUERIES, 20)[0])


def test_a_graph_is_continued(made: Graph) -> None:
    half = build(VECTORS[:1100], FIRST)
    whole = build(VECTORS, FIRST, half)
    assert (whole.first, whole.last) == (FIRST, len(VECTORS))
    assert written(whole).tobytes() == written(build(VECTORS, FIRST, build(VECTORS[:1100], FIRST))).tobytes()
    exact = np.argsort(-(QUERIES @ VECTORS[FIRST:].astype(np.float32).T), axis=1)[:, :20] + FIRST
    found = [len(set(walked(whole, q, 256)[:20]) & set(e)) / 20 for q, e in zip(QUERIES, exact.tolist(), strict=True)]
    assert np.mean(found) >= 0.98


def test_damaged_graphs_are_refused_or_stay_inside(made: Graph) -> None:
    """Whatever bytes say, a walk gives rows of the graph or a typed error; no checksum stands before it here."""
    data, rng, refused = written(made), np.random.default_rng(3), 0
    for _ in range(300):
        bad = data.copy()
        place = int(rng.integers(256)) if rng.random() < 0.5 else int(rng.integers(len(bad)))
        bad[place] ^= np.uint8(1 << rng.integers(8))
        try:
            graph = Graph.parse(bad)
            if (graph.first, graph.last) != (FIRST, len(VECTORS)):
                raise StoreDamagedError("what the manifest says of the part is another thing")
            for query in QUERIES[:2]:
                assert all(FIRST <= row < len(VECTORS) for row in walked(graph, query, 50))
        except StoreDamagedError:
            refused += 1
    assert refused > 20
    for size in (0, 7, 39, 64, 100, len(data) // 2, len(data) - 200):
        with pytest.raises(StoreDamagedError):
            Graph.parse(data[:size])


def level(links: list[list[int]], *rows: int) -> Level:
    return Level(np.array(rows, dtype=np.int32), np.array(links, dtype=np.int32))


@pytest.mark.parametrize(
    ("entry", "levels"),
    [
        (3, [level([[1], [0], [-1]])]),
        (-1, [level([[1], [0], [-1]])]),
        (0, [level([[3], [0], [-1]])]),
        (0, [level([[1], [0], [-1]]), level([[0]], 1)]),
        (0, [level([[1], [0], [-1]]), level([[2**31 - 1]], 0)]),
    ],
)
def test_links_out_of_a_graph_are_not_followed(entry: int, levels: list[Level]) -> None:
    bits = VECTORS[:3].view(np.uint16)
    for query, breadth in itertools.product(QUERIES[:9], (1, 3)):
        with pytest.raises(StoreDamagedError, match="a link leads out of it"):
            Graph(0, entry, levels).walk(bits, query, breadth, 0)


def test_shapes_that_do_not_fit_are_refused(made: Graph) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        made.walk(VECTORS.view(np.uint16)[:-1], QUERIES[0], 5, 0)
    with pytest.raises(ValueError, match="do not fit"):
        made.walk(VECTORS.view(np.uint16), QUERIES[0][:-1].copy(), 5, 0)
    with pytest.raises(StoreDamagedError, match="too many neighbours"):
        Graph(0, 0, [level([[0] * (_hnsw.WIDEST + 1)])])
    assert walked(made, QUERIES[0], 0) == []
