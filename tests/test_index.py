"""The vector index against an exact search over the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff.index import VectorIndex, grow_graph, load_graph

DIMENSIONS = 32


def unit(rows: int, seed: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((rows, DIMENSIONS)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def expected(vectors: NDArray[np.float32], alive: NDArray[np.bool_], query: NDArray[np.float32], k: int) -> list[int]:
    scores = {row: float(vectors[row] @ query) for row in np.flatnonzero(alive).tolist()}
    return sorted(scores, key=lambda row: (-scores[row], row))[:k]


@pytest.mark.parametrize("k", [1, 7, 60, 500])
def test_exact_search_agrees_with_sorting_all_scores(k: int) -> None:
    vectors, alive = unit(100, 1), np.random.default_rng(2).random(100) < 0.7
    index = VectorIndex(vectors, alive)
    for query in unit(20, 3):
        rows, scores = index.search(query, k)
        assert rows.tolist() == expected(vectors, alive, query, k)
        np.testing.assert_allclose(scores, vectors[rows] @ query, atol=1e-6)


def test_equal_scores_are_ordered_by_row() -> None:
    vectors = np.repeat(unit(1, 4), 9, axis=0)
    rows, _ = VectorIndex(vectors, np.ones(9, dtype=bool)).search(vectors[0], 4)
    assert rows.tolist() == [0, 1, 2, 3]


def test_graph_and_tail_together_find_what_exact_search_finds(tmp_path: Path) -> None:
    vectors = unit(3000, 5)
    alive = np.random.default_rng(6).random(3000) < 0.8
    path = tmp_path / "graph"
    grow_graph(None, 0, vectors[:1000]).save_index(str(path))
    grow_graph(path, 1000, vectors[:2500]).save_index(str(path))
    index = VectorIndex(vectors, alive, load_graph(path, DIMENSIONS, 2500, alive), 2500)
    assert index.method == "hnsw"
    recall = []
    for query in unit(50, 7):
        found = set(index.search(query, 20)[0].tolist())
        assert alive[list(found)].all()
        recall.append(len(found & set(index.exact(query, 20)[0].tolist())) / 20)
    assert np.mean(recall) >= 0.98


def test_the_same_rows_make_the_same_graph(tmp_path: Path) -> None:
    vectors = unit(800, 8)
    for name in "ab":
        grow_graph(None, 0, vectors).save_index(str(tmp_path / name))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_more_neighbours_than_live_rows_gives_all_of_them(tmp_path: Path) -> None:
    vectors = unit(50, 9)
    alive = np.zeros(50, dtype=bool)
    alive[[3, 30]] = True
    path = tmp_path / "graph"
    grow_graph(None, 0, vectors).save_index(str(path))
    index = VectorIndex(vectors, alive, load_graph(path, DIMENSIONS, 50, alive), 50)
    assert sorted(index.search(vectors[0], 20)[0].tolist()) == [3, 30]
    alive[:] = False
    assert VectorIndex(vectors, alive, load_graph(path, DIMENSIONS, 50, alive), 50).search(vectors[0], 3)[0].size == 0
