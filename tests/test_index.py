"""The vector index against an exact search over the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import _scan
from runoff import index as vector_index
from runoff.graph import Graph, build
from runoff.index import VectorIndex, plan_graph
from runoff.manifest import Part

DIMENSIONS = 32


def unit(rows: int, seed: int) -> NDArray[np.float16]:
    vectors = np.random.default_rng(seed).standard_normal((rows, DIMENSIONS)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float16)


def queries(count: int, seed: int) -> NDArray[np.float32]:
    return unit(count, seed).astype(np.float32)


def expected(vectors: NDArray[np.float16], alive: NDArray[np.bool_], query: NDArray[np.float32], k: int) -> list[int]:
    scores = {row: float(vectors[row].astype(np.float32) @ query) for row in np.flatnonzero(alive).tolist()}
    return sorted(scores, key=lambda row: (-scores[row], row))[:k]


@pytest.mark.parametrize("k", [1, 7, 60, 500])
def test_exact_search_agrees_with_sorting_all_scores(k: int) -> None:
    vectors, alive = unit(100, 1), np.random.default_rng(2).random(100) < 0.7
    index = VectorIndex(vectors, alive)
    for query in queries(20, 3):
        rows, scores = index.search(query, k)
        assert rows.tolist() == expected(vectors, alive, query, k)
        np.testing.assert_allclose(scores, vectors[rows].astype(np.float32) @ query, atol=1e-6)


def test_equal_scores_are_ordered_by_row() -> None:
    vectors = np.repeat(unit(1, 4), 9, axis=0)
    rows, _ = VectorIndex(vectors, np.ones(9, dtype=bool)).search(vectors[0].astype(np.float32), 4)
    assert rows.tolist() == [0, 1, 2, 3]


def graphs(vectors: NDArray[np.float16], *ends: int) -> list[Graph]:
    """Graphs that end at the given rows, each made by itself."""
    return [build(vectors[:last], first) for first, last in zip((0, *ends), ends, strict=False)]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan that is only taken for very few rows, so that small tests walk graphs."""
    monkeypatch.setattr(vector_index, "SCAN_ROWS", 20)


def recall(index: VectorIndex, alive: NDArray[np.bool_], allowed: NDArray[np.bool_] | None = None) -> float:
    found = []
    for query in queries(50, 7):
        rows = index.search(query, 20, allowed)[0]
        assert alive[rows].all()
        assert allowed is None or allowed[rows].all()
        found.append(len(set(rows.tolist()) & set(index.exact(query, 20, allowed)[0].tolist())) / 20)
    return float(np.mean(found))


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("ends", [(2500,), (1000, 2500), (1000, 1500, 2000)])
def test_graphs_and_tail_together_find_what_exact_search_finds(ends: tuple[int, ...]) -> None:
    vectors = unit(3000, 5)
    alive = np.random.default_rng(6).random(3000) < 0.8
    index = VectorIndex(vectors, alive, graphs(vectors, *ends))
    assert index.method == "hnsw"
    assert recall(index, alive) >= 0.98


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_a_filter_gets_as_many_rows_as_there_are_whatever_its_width(share: float) -> None:
    vectors = unit(3000, 5)
    alive = np.random.default_rng(6).random(3000) < 0.8
    allowed = np.random.default_rng(7).random(3000) < share
    index = VectorIndex(vectors, alive, graphs(vectors, 2000, 2800))
    assert recall(index, alive, allowed) >= 0.98
    for k in (1, 20, 5000):
        rows, scores = index.search(vectors[0].astype(np.float32), k, allowed)
        assert len(rows) == min(k, int((alive & allowed).sum()))
        assert (np.diff(scores) <= 0).all()


@pytest.mark.usefixtures("narrow")
def test_a_graph_that_was_continued_finds_what_exact_search_finds() -> None:
    vectors, alive = unit(3000, 5), np.ones(3000, dtype=bool)
    continued = build(vectors, 500, build(vectors[:2000], 500))
    index = VectorIndex(vectors, alive, [*graphs(vectors, 500), continued])
    assert recall(index, alive) >= 0.98


def test_graphs_are_made_of_piled_up_rows_and_continued_from_those_not_much_larger() -> None:
    few = vector_index.TAIL_ROWS
    assert plan_graph((), few - 1) is None
    assert plan_graph((), few) == ((), None, 0)
    small = Part("a", 0, few)
    assert plan_graph((small,), 2 * few - 1) is None
    assert plan_graph((small,), 2 * few) == ((), small, 0)
    large = Part("b", 0, 9 * few)
    assert plan_graph((large,), 10 * few) == ((large,), None, 9 * few)
    behind = Part("c", 9 * few, 11 * few)
    assert plan_graph((large, behind), 12 * few) == ((), large, 0)


@pytest.mark.usefixtures("narrow")
def test_more_neighbours_than_live_rows_gives_all_of_them() -> None:
    vectors = unit(500, 9)
    alive = np.zeros(500, dtype=bool)
    alive[:30] = True
    index = VectorIndex(vectors, alive, graphs(vectors, 500))
    assert sorted(index.search(vectors[0].astype(np.float32), 40)[0].tolist()) == list(range(30))
    alive[:] = False
    assert index.search(vectors[0].astype(np.float32), 3)[0].size == 0


def test_a_similarity_is_the_same_whatever_rows_stand_beside_it() -> None:
    vectors = unit(1000, 10)
    index = VectorIndex(vectors, np.ones(1000, dtype=bool))
    query = queries(1, 11)[0]
    alone = np.concatenate([index.similarities(query, np.array([row])) for row in range(1000)])
    np.testing.assert_array_equal(alone, index.similarities(query, np.arange(1000)))
    np.testing.assert_array_equal(alone[::-1], index.similarities(query, np.arange(1000)[::-1]))


@pytest.mark.parametrize("dimensions", [1, 8, 15, 16, 17, 384])
def test_every_scan_kernel_gives_the_same_bits_and_what_numpy_gives(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    vectors = rng.standard_normal((50, dimensions)).astype(np.float16)
    vectors[0] = 0
    vectors[1] = np.float16(6e-8)  # the smallest number of half precision
    vectors[2] = np.float16(-65504)  # and the largest
    query = rng.standard_normal(dimensions).astype(np.float32)
    found = []
    for kernel in range(_scan.best() + 1):
        whole, some = np.empty(40, np.float32), np.empty(3, np.float32)
        _scan.scan(vectors.view(np.uint16), query, 10, whole, kernel)
        _scan.gather(vectors.view(np.uint16), query, np.array([49, 0, 12]), some, kernel)
        assert (some[0], some[1], some[2]) == (whole[39], 0, whole[2])
        extremes = np.empty(2, np.float32)
        _scan.scan(vectors.view(np.uint16), query, 1, extremes, kernel)
        np.testing.assert_allclose(extremes, vectors[1:3].astype(np.float64) @ query, rtol=1e-4)
        np.testing.assert_allclose(whole, vectors[10:].astype(np.float64) @ query, rtol=1e-4, atol=1e-4)
        found.append(np.concatenate([whole, extremes]).tobytes())
    assert len(set(found)) == 1


def test_a_scan_never_leaves_its_vectors() -> None:
    vectors, query = np.zeros((4, 8), np.uint16), np.zeros(8, np.float32)
    with pytest.raises(ValueError, match="do not fit"):
        _scan.scan(vectors, query, 3, np.empty(2, np.float32), 0)
    with pytest.raises(ValueError, match="do not fit"):
        _scan.scan(vectors, query[:7].copy(), 0, np.empty(2, np.float32), 0)
    for row in (-1, 4):
        with pytest.raises(IndexError, match=f"row {row}; expected one of 4"):
            _scan.gather(vectors, query, np.array([row]), np.empty(1, np.float32), 0)
