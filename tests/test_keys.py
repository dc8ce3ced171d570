"""Rows found by keys, in runs that grow, against a plain dictionary."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from runoff.keys import Keys


def none() -> Keys:
    return Keys(np.empty(0, dtype=np.uint64))


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_those_of_a_dictionary_however_they_came(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**64 - 1, 3000, dtype=np.uint64)
    values[rng.integers(0, 3000, 900)] = values[rng.integers(0, 3000, 900)]  # some keys come several times
    ends = np.sort(rng.integers(0, 3000, 25))
    keys = Keys(values[: ends[0]])
    for start, end in zip(ends, [*ends[1:], 3000], strict=True):
        keys = keys.extended(values[start:end])
    assert keys.rows == 3000
    rows: dict[int, list[int]] = {}
    for row, value in enumerate(values.tolist()):
        rows.setdefault(value, []).append(row)
    wanted = [*rng.choice(values, 50).tolist(), 0, 1, 2**64 - 1, 2**63]
    expected = sorted(row for value in set(wanted) for row in rows.get(value, []))
    assert keys.find(wanted).tolist() == expected
    assert keys.find(np.array(wanted, dtype=np.uint64)).tolist() == expected
    assert keys.find([]).tolist() == none().find(wanted).tolist() == []


def test_what_is_extended_stays_as_it_was() -> None:
    before = Keys(np.array([5, 3], dtype=np.uint64))
    after = before.extended(np.array([3, 9, 9], dtype=np.uint64))
    assert before.find([3, 9]).tolist() == [1]
    assert after.find([3, 9]).tolist() == [1, 2, 3, 4]


def test_a_row_is_sorted_again_a_few_times_only() -> None:
    keys = none()
    for _ in range(1000):
        keys = keys.extended(np.zeros(10, dtype=np.uint64))
        sizes = [len(rows) for _, rows in keys._runs]
        assert sum(sizes) == keys.rows
        assert all(large > 2 * small for large, small in itertools.pairwise(sizes))
