"""The pair kernel against plain lists, over seeded random shapes and the odd ones."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize("out", [np.int64, np.int32])
@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_packed_and_padded_pairs_equal_the_plain_reference(dtype: type, out: type) -> None:
    rng = np.random.default_rng(11)
    for _ in range(300):
        max_length = int(rng.integers(SPECIALS + MIN_PASSAGE + 1, 300))
        query = rng.integers(1000, 30522, size=rng.integers(0, 300)).astype(np.int32)
        passages = random_passages(rng, dtype, 400)
        expected = assembly.reference(query, passages, max_length, SPECIAL)
        asked = min(len(query), assembly.max_query(max_length))
        types = [[0] * (asked + 2) + [1] * (len(row) - asked - 2) for row in expected]
        packed = assembly.packed(query, passages, max_length, SPECIAL, out)
        assert packed.ids.dtype == packed.types.dtype == packed.mask.dtype == out
        assert rows(packed, packed.ids) == expected
        assert rows(packed, packed.types) == types
        assert packed.mask.all()
        padded = assembly.padded(query, passages, max_length, SPECIAL, out)
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
    with pytest.raises(QueryError, match="starts"):
        Passages(np.arange(100, dtype=np.uint16), np.array(starts), np.array(lengths, dtype=np.int32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": np.zeros(3)}, "ids: got float64"),
        ({"ids": np.zeros((3, 3), np.uint16)}, r"ids: got uint16 of shape \(3, 3\)"),
        ({"ids": np.zeros(20, np.uint16)[::2]}, "ids: got uint16 of shape .* with gaps; expected flat uint16 or int32"),
        ({"ids": [1, 2, 3]}, "ids: got list"),
        ({"starts": np.array([0], np.int32)}, "starts: got int32"),
        ({"lengths": np.array([1.0])}, "lengths: got float64"),
    ],
)
def test_arrays_of_another_type_are_refused_by_name(change: dict[str, NDArray[np.int64]], message: str) -> None:
    fields = {"ids": np.zeros(3, np.uint16), "starts": np.array([0]), "lengths": np.array([1], dtype=np.int32)}
    with pytest.raises(QueryError, match=message):
        Passages(**(fields | change))


@pytest.mark.parametrize("query", [np.zeros(3), np.zeros(3, np.int64), np.zeros((2, 2), np.int32), [1, 2], None])
def test_a_query_of_another_type_is_refused_as_by_the_reference(query: NDArray[np.int32]) -> None:
    for assemble in (assembly.packed, assembly.padded, assembly.reference):
        with pytest.raises(QueryError, match="query"):
            assemble(query, Passages.pack([np.arange(5)]), 512, SPECIAL)


def test_a_query_with_gaps_in_memory_is_read_right() -> None:
    query = np.arange(1000, 1040, dtype=np.int32)[::2]
    pairs = assembly.packed(query, Passages.pack([np.arange(5)]), 512, SPECIAL)
    assert rows(pairs, pairs.ids) == assembly.reference(query, Passages.pack([np.arange(5)]), 512, SPECIAL)


@pytest.mark.parametrize("seed", range(40))
def test_rows_that_changed_after_they_were_checked_are_refused_and_never_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.integers(1000, 30522, size=200).astype(np.uint16)
    passages = Passages(ids, np.arange(0, 200, 20), np.full(10, 20, np.int32))
    broken = int(rng.integers(10))
    if seed % 2:
        passages.starts[broken] = rng.choice([-1, 181, 200, 2**62, 2**63 - 1, -(2**63)])
    else:
        passages.lengths[broken] = rng.choice([-1, -9, -1000, -(2**31)])
    for assemble in (assembly.packed, assembly.padded, assembly.reference):
        with pytest.raises(QueryError, match="outside of the"):
            assemble(np.arange(9, dtype=np.int32), passages, 512, SPECIAL)


def test_passages_may_be_mapped_from_a_file(tmp_path: Path) -> None:
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "ids.bin")
    mapped = np.memmap(tmp_path / "ids.bin", dtype=np.uint16, mode="r")
    passages = Passages(mapped, np.array([10, 0, 99]), np.array([5, 0, 1], dtype=np.int32))
    pairs = assembly.packed(np.empty(0, np.int32), passages.take(np.array([2, 0, 1])), 512, SPECIAL)
    assert rows(pairs, pairs.ids) == [[101, 102, 99, 102], [101, 102, *range(10, 15), 102], [101, 102, 102]]


def test_a_maximum_without_room_is_refused() -> None:
    for assemble in (assembly.packed, assembly.padded, assembly.reference):
        with pytest.raises(QueryError, match="max_length"):
            assemble(np.empty(0, np.int32), Passages.pack([]), SPECIALS + MIN_PASSAGE, SPECIAL)


def test_single_texts_are_framed_and_cut() -> None:
    rng = np.random.default_rng(12)
    texts = [rng.integers(1000, 30522, size=n).astype(np.int32) for n in (0, 1, 253, 254, 255, 900)]
    pairs = assembly.single(Passages.pack(texts), 256, SPECIAL)
    assert rows(pairs, pairs.ids) == [[101, *text[:254].tolist(), 102] for text in texts]
    assert pairs.truncated.tolist() == [False, False, False, False, True, True]
    assert len(assembly.single(Passages.pack([]), 256, SPECIAL)) == 0
