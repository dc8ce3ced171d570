"""The pair kernel against plain lists, over seeded random shapes and the odd ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import assembly
from runoff.assembly import MIN_PASSAGE, SPECIALS, Pairs, Passages, SpecialTokens
from runoff.errors import QueryError

SPECIAL = SpecialTokens()


def random_passages(rng: np.random.Generator, dtype: type, most: int) -> Passages:
    lengths = rng.integers(0, most, size=rng.integers(0, 12)).astype(np.int32)
    ids = rng.integers(1000, 30522, size=int(lengths.sum()) + 5).astype(dtype)
    starts = (np.cumsum(lengths) - lengths + rng.integers(0, 5)).astype(np.int64)
    order = rng.permutation(len(starts))
    return Passages(ids, starts[order], lengths[order])


def rows(pairs: Pairs, array: NDArray[np.int64]) -> list[list[int]]:
    return [array[a:b].tolist() for a, b in zip(pairs.offsets[:-1], pairs.offsets[1:], strict=True)]


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_packed_and_padded_pairs_equal_the_plain_reference(dtype: type) -> None:
    rng = np.random.default_rng(11)
    for _ in range(300):
        max_length = int(rng.integers(SPECIALS + MIN_PASSAGE + 1, 300))
        query = rng.integers(1000, 30522, size=rng.integers(0, 300)).astype(np.int32)
        passages = random_passages(rng, dtype, 400)
        expected = assembly.reference(query, passages, max_length, SPECIAL)
        asked = min(len(query), assembly.max_query(max_length))
        types = [[0] * (asked + 2) + [1] * (len(row) - asked - 2) for row in expected]
        packed = assembly.packed(query, passages, max_length, SPECIAL)
        assert rows(packed, packed.ids) == expected
        assert rows(packed, packed.types) == types
        assert packed.mask.all()
        padded = assembly.padded(query, passages, max_length, SPECIAL)
        width = max(map(len, expected), default=0)
        blank = [[0] * (width - len(row)) for row in expected]
        assert rows(padded, padded.ids) == [row + rest for row, rest in zip(expected, blank, strict=True)]
        assert rows(padded, padded.types) == [row + rest for row, rest in zip(types, blank, strict=True)]
        assert rows(padded, padded.mask) == [[1] * len(r) + b for r, b in zip(expected, blank, strict=True)]


def test_only_the_passage_is_cut_and_the_cut_is_told() -> None:
    passages = Passages.pack([np.full(500, 7, np.int32), np.full(10, 8, np.int32)])
    query = np.arange(1000, 1020, dtype=np.int32)
    pairs = assembly.packed(query, passages, 512, SPECIAL)
    assert pairs.truncated.tolist() == [True, False]
    assert np.diff(pairs.offsets).tolist() == [512, 33]
    assert not pairs.query_truncated
    assert pairs.ids[1:21].tolist() == query.tolist()


def test_an_overlong_query_is_capped_and_leaves_the_passage_its_minimum() -> None:
    passages = Passages.pack([np.full(500, 7, np.int32)])
    pairs = assembly.packed(np.full(5000, 9, np.int32), passages, 512, SPECIAL)
    assert pairs.query_truncated
    assert len(pairs.ids) == 512
    assert int((pairs.ids == 7).sum()) == MIN_PASSAGE


def test_the_cache_may_be_read_only() -> None:
    ids = np.arange(100, dtype=np.uint16)
    ids.setflags(write=False)
    passages = Passages(ids, np.array([90]), np.array([10], dtype=np.int32))
    pairs = assembly.packed(np.empty(0, np.int32), passages, 512, SPECIAL)
    assert pairs.ids.tolist() == [101, 102, *range(90, 100), 102]


@pytest.mark.parametrize(
    ("starts", "lengths"), [([95], [10]), ([-1], [3]), ([0], [-1]), ([2**62], [1]), ([2**63 - 1], [1]), ([0, 1], [1])]
)
def test_rows_outside_of_the_cache_are_refused(starts: list[int], lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="starts"):
        Passages(np.arange(100, dtype=np.uint16), np.array(starts), np.array(lengths, dtype=np.int32))


def test_ids_of_another_type_are_refused() -> None:
    with pytest.raises(ValueError, match="float64"):
        Passages(np.zeros(3), np.array([0]), np.array([1], dtype=np.int32))


def test_a_maximum_without_room_is_refused() -> None:
    with pytest.raises(QueryError, match="max_length: got 67"):
        assembly.packed(np.empty(0, np.int32), Passages.pack([]), SPECIALS + MIN_PASSAGE, SPECIAL)


def test_single_texts_are_framed_and_cut() -> None:
    rng = np.random.default_rng(12)
    texts = [rng.integers(1000, 30522, size=n).astype(np.int32) for n in (0, 1, 253, 254, 255, 900)]
    pairs = assembly.single(Passages.pack(texts), 256, SPECIAL)
    assert rows(pairs, pairs.ids) == [[101, *text[:254].tolist(), 102] for text in texts]
    assert pairs.truncated.tolist() == [False, False, False, False, True, True]
    assert len(assembly.single(Passages.pack([]), 256, SPECIAL)) == 0
