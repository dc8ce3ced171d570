"""Fusion of two lists against what its definition says, worked out by hand or in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runoff.errors import QueryError
from runoff.fusion import Convex, Fusion, Ranked, ReciprocalRank, Seats, union


def ranked(*pairs: tuple[int, float]) -> Ranked:
    rows, scores = zip(*pairs, strict=True) if pairs else ((), ())
    return Ranked(np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float32))


DENSE = ranked((4, 0.9), (2, 0.8), (7, 0.5))
LEXICAL = ranked((9, 12.0), (2, 6.0))
SIMILARITIES = {2: 0.8, 4: 0.9, 7: 0.5, 9: 0.1}


def fused(fusion: Fusion, dense: Ranked, lexical: Ranked, count: int) -> Ranked:
    similarities = np.array([SIMILARITIES.get(row, 0.0) for row in union(dense, lexical).tolist()], dtype=np.float32)
    return fusion(dense, lexical, similarities, count)


def test_reciprocal_rank_counts_from_one_and_an_absent_row_as_nothing() -> None:
    found = fused(ReciprocalRank(0.5), DENSE, LEXICAL, 10)
    expected = {2: 1 / 62 + 0.5 / 62, 4: 1 / 61, 7: 1 / 63, 9: 0.5 / 61}
    assert found.rows.tolist() == [2, 4, 7, 9]
    np.testing.assert_allclose(found.scores, [expected[row] for row in found.rows.tolist()], rtol=1e-6)


def test_equal_scores_are_ordered_by_row() -> None:
    found = fused(ReciprocalRank(1.0), ranked((8, 0.3)), ranked((3, 5.0)), 10)
    assert found.rows.tolist() == [3, 8]


def test_convex_adds_a_share_of_the_best_lexical_score() -> None:
    found = fused(Convex(0.2), DENSE, LEXICAL, 3)
    assert found.rows.tolist() == [2, 4, 7]
    np.testing.assert_allclose(found.scores, [0.8 + 0.1, 0.9, 0.5], rtol=1e-6)
    assert fused(Convex(0.9), DENSE, LEXICAL, 1).rows.tolist() == [2]


def test_seats_keep_the_dense_order_and_fill_the_last_places_from_the_lexical_list() -> None:
    assert fused(Seats(0.5), DENSE, LEXICAL, 2).rows.tolist() == [4, 9]
    found = fused(Seats(1 / 3), DENSE, LEXICAL, 3)
    assert found.rows.tolist() == [4, 2, 9]
    np.testing.assert_allclose(found.scores, [0.9, 0.8, 0.1], rtol=1e-6)


def test_places_that_one_list_cannot_fill_go_to_the_other() -> None:
    nothing = ranked()
    assert fused(Seats(0.5), DENSE, nothing, 3).rows.tolist() == [4, 2, 7]
    assert fused(Seats(0.5), nothing, LEXICAL, 3).rows.tolist() == [9, 2]
    assert fused(Seats(0.5), nothing, nothing, 3).rows.tolist() == []


lists = st.lists(
    st.tuples(st.integers(0, 30), st.floats(0.125, 8, width=16)), max_size=15, unique_by=lambda pair: pair[0]
)


@pytest.mark.parametrize("fusion", [ReciprocalRank(0.3), Convex(0.1), Seats(0.2), Seats(0.0), Seats(1.0)])
@given(dense=lists, lexical=lists, count=st.integers(1, 25))
def test_any_two_lists_give_each_row_once_and_as_many_as_there_are(
    fusion: Fusion, dense: list[tuple[int, float]], lexical: list[tuple[int, float]], count: int
) -> None:
    lists = [ranked(*sorted(pairs, key=lambda pair: (-pair[1], pair[0]))) for pairs in (dense, lexical)]
    found = fused(fusion, lists[0], lists[1], count)
    together = {row for row, _ in (*dense, *lexical)}
    assert len(found.rows) == len(set(found.rows.tolist())) == len(found.scores) == min(count, len(together))
    assert set(found.rows.tolist()) <= together
    if not isinstance(fusion, Seats):
        assert (np.diff(found.scores) <= 0).all()


def test_rank_and_score_of_rows_that_a_list_has_and_has_not() -> None:
    wanted = np.array([2, 5, 4])
    assert DENSE.rank_of(wanted).tolist() == [2, 0, 1]
    np.testing.assert_allclose(DENSE.score_of(wanted), [0.8, 0.0, 0.9])
    assert ranked().rank_of(wanted).tolist() == [0, 0, 0]


@pytest.mark.parametrize("fusion", [Convex, ReciprocalRank, Seats])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), "1", True, None])
def test_a_weight_out_of_range_is_refused(fusion: type, value: object) -> None:
    with pytest.raises(QueryError, match=r"lexical_(weight|seats): got .*; expected a number"):
        fusion(value)


def test_there_are_no_more_seats_than_places() -> None:
    with pytest.raises(QueryError, match=r"lexical_seats: got 1\.5; expected a number 0 to 1"):
        Seats(1.5)
