"""Plans: every pair runs once, longest first, within the bound, with work for every worker."""

from __future__ import annotations

import numpy as np
import pytest

from runoff import planner


@pytest.mark.parametrize("seed", range(20))
def test_every_pair_runs_once_longest_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 513, size=rng.integers(0, 60)).astype(np.int64)
    workers, bound = int(rng.integers(1, 5)), int(rng.integers(1, 3000))
    for plan in (planner.one_by_one(lengths), planner.batched(lengths, workers, bound)):
        assert sorted(plan.order.tolist()) == list(range(len(lengths)))
        assert (np.diff(lengths[plan.order]) <= 0).all()
        assert [place for first, last in plan.runs for place in range(first, last)] == list(range(len(lengths)))
    for first, last in planner.batched(lengths, workers, bound).runs:
        assert last - first == 1 or (last - first) * lengths[plan.order[first]] <= bound
    assert len(plan.runs) >= min(workers, len(lengths))


def test_runs_hold_similar_lengths_within_the_bound() -> None:
    lengths = np.array([10, 100, 11, 98, 12, 300])
    plan = planner.batched(lengths, workers=2, max_tokens=200)
    assert [plan.order[first:last].tolist() for first, last in plan.runs] == [[5], [1, 3], [4, 2, 0]]


def test_equal_lengths_keep_their_order() -> None:
    assert planner.one_by_one(np.array([5, 9, 5, 9])).order.tolist() == [1, 3, 0, 2]
