"""Columns: what goes in comes out, merging equals building, damage is told."""

from __future__ import annotations

import operator
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import as_bytes, conditions, documents, segment, segments
from runoff import columns, where
from runoff.columns import Columns, Segment
from runoff.comparisons import FIELDS, Comparison
from runoff.conditions import Condition, Not
from runoff.documents import Document
from runoff.errors import FilterError, StoreDamagedError
from runoff.metadata import ValueType

FULL = Document(
    "0123456789abcdef",
    "Payouts",
    "Two days.",
    url="https://shop.example/1",
    source="https://shop.example/feed",
    published="2026-03-02T09:00:00Z",
    author="Ada",
    tags=("fx", "payouts"),
    language="en",
    fields={"price": 3, "weight": 0.5, "sold": True, "rooms": ("hall", "attic"), "town": "Ulm"},
)
BARE = Document("f" * 16, "", "text")
ORDER = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
CUTS = st.lists(st.integers(0, 20), max_size=4)
EVERY = settings(derandomize=True, deadline=None, max_examples=100)


def test_types_of_fields() -> None:
    assert Columns([segment(0, [FULL, BARE])]).types == {
        **{name: {ValueType.TEXT} for name in ("id", "title", "url", "source", "author", "language", "town")},
        **{"tags": {ValueType.LIST}, "rooms": {ValueType.LIST}, "published": {ValueType.DATE}},
        **{"price": {ValueType.WHOLE}, "weight": {ValueType.REAL}, "sold": {ValueType.TRUTH}},
    }


def test_nothing_at_all() -> None:
    assert Columns([]).rows == 0
    empty = Columns([segment(0, [])])
    assert (empty.rows, empty.types) == (0, {})
    assert where.parse('title = "x"').mask(empty, np.empty(0, np.uint32), np.empty(0, np.uint32)).tolist() == []


@pytest.mark.parametrize("published", ["yesterday", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00", ""])
def test_a_date_that_is_none_is_absent(published: str) -> None:
    document = Document("0" * 16, "t", "", published=published)
    assert "published" not in Columns([segment(0, [document])]).types


@EVERY
@given(st.lists(documents, max_size=8), CUTS, conditions, st.integers(0, 9))
def test_a_mask_is_what_each_document_says(
    some: list[Document], cuts: list[int], condition: Condition, seed: int
) -> None:
    stored = Columns(segments(some, cuts))
    draw = np.random.default_rng(seed)
    rows = draw.integers(0, max(len(some), 1), 3 * len(some)).astype(np.uint32)
    kinds = draw.integers(0, 2, len(rows)).astype(np.uint32)
    if not makes_sense(condition, stored):
        with pytest.raises(FilterError, match=r"no document has|this store has"):
            condition.mask(stored, rows, kinds)
        return
    mask = condition.mask(stored, rows, kinds)
    assert mask.dtype == bool
    pairs = zip(rows, kinds, strict=True)
    assert mask.tolist() == [condition.matches(some[row], ("headline", "body")[kind]) for row, kind in pairs]


def makes_sense(condition: Condition, stored: Columns) -> bool:
    """Whether the store has every field that is named, with values of a type that is asked for."""
    if isinstance(condition, Comparison):
        return condition.name in FIELDS or bool(stored.types.get(condition.name, set()) & set(condition.types))
    parts = [condition.condition] if isinstance(condition, Not) else condition.conditions
    return all(makes_sense(part, stored) for part in parts)


NUMBERS = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 2, -(2**63 - 2), 2**63 - 513]
NUMBERS += [-0.0, 0.5, 5e-324, 2.0**53, -(2.0**53), 2.0**62, 2.0**63, 1e300, -1e300, float(2**53 + 2)]


@pytest.mark.parametrize("sign", ["=", "!=", "<", "<=", ">", ">="])
def test_numbers_compare_by_value_whole_or_not(sign: str) -> None:
    some = [Document("0" * 16, "t", "", fields={"n": number}) for number in NUMBERS]
    stored, rows = Columns([segment(0, some)]), np.arange(len(some), dtype=np.uint32)
    for number in NUMBERS:
        mask = where.parse(f"n {sign} {number!r}").mask(stored, rows, rows % 2)
        assert mask.tolist() == [ORDER[sign](other, number) for other in NUMBERS], number


@EVERY
@given(st.lists(documents, min_size=1, max_size=8), CUTS, st.integers(0, 5), st.integers(0, 255))
def test_merging_equals_building(some: list[Document], cuts: list[int], first_row: int, kept: int) -> None:
    parts = segments(some, cuts, first_row)
    assert columns.merge(parts) == columns.build(first_row, some)
    keep = np.array([bool(kept >> row & 1) for row in range(len(some))])
    left = [document for document, stays in zip(some, keep, strict=True) if stays]
    assert columns.merge(parts, keep) == columns.build(first_row, left)


def test_the_format_is_for_ever() -> None:
    stored = (Path(__file__).parent / "fixtures" / "columns-1.bin").read_bytes()
    assert columns.build(0, [FULL, BARE]) == stored
    condition = where.parse(
        'author = "Ada" and "attic" in rooms and published = 2026-03-02 and price = 3 and weight < 1'
    )
    rows = np.arange(2, dtype=np.uint32)
    assert condition.mask(Columns([Segment(as_bytes(stored))]), rows, rows).tolist() == [True, False]


def test_what_cannot_be_merged() -> None:
    first, second = segment(0, [FULL]), segment(1, [BARE])
    with pytest.raises(ValueError, match="row 0; expected 2"):
        columns.merge([second, first])
    with pytest.raises(ValueError, match="shape"):
        columns.merge([first, second], np.ones(3, dtype=bool))


def test_segments_follow_each_other() -> None:
    first, second, third = segment(0, [FULL]), segment(1, [BARE, FULL]), segment(3, [FULL])
    assert Columns([third, first, second]).rows == 4
    for wrong in ([second, third], [first, third], [first, first, second], [first, second, segment(2, [FULL])]):
        with pytest.raises(StoreDamagedError, match="expected"):
            Columns(wrong)


def test_rows_and_kinds_out_of_range_are_damage() -> None:
    stored = Columns([segment(0, [FULL, BARE])])
    condition = where.parse('kind = "body" and title is present')
    for row, kind in ((2, 0), (0, 2), (2**32 - 1, 1)):
        with pytest.raises(StoreDamagedError, match="out of range"):
            condition.mask(stored, np.array([row], np.uint32), np.array([kind], np.uint32))


QUESTIONS = [
    where.parse(text)
    for text in (
        'source startswith "https" and published >= 2026-01-01 and not ("fx" in tags)',
        '"o" in title or author in ("Ada", "Bob") or language is missing or url > "b" or id <= "f"',
        'price >= 3 or weight < 1 or sold = true or "attic" in rooms or town != "Ulm"',
    )
]


def ask(data: np.ndarray) -> None:
    """All there is to ask; the answer may be wrong where a value was damaged, but must be one or a typed error."""
    stored = Columns([Segment(data, "columns-1.bin")])
    rows = np.arange(min(stored.rows, 1000), dtype=np.uint32)
    for question in QUESTIONS:
        try:
            mask = question.mask(stored, rows, rows % 2)
        except FilterError:
            continue
        assert mask.shape == rows.shape
    columns.merge(stored.segments)


def test_a_flipped_byte_is_damage_or_another_value() -> None:
    sound = columns.build(0, [FULL, BARE, FULL, Document("1" * 16, "Fees", "", tags=("fx",))])
    told = 0
    for at in range(len(sound)):
        for bit in (0x01, 0x80, 0xFF):
            data = as_bytes(sound).copy()
            data[at] ^= bit
            try:
                ask(data)
            except StoreDamagedError:
                told += 1
    assert told > len(sound)


def test_a_cut_segment_is_damage() -> None:
    sound = as_bytes(columns.build(0, [FULL, BARE]))
    for end in range(len(sound) - 8):
        with pytest.raises(StoreDamagedError, match=r"columns-1\.bin"):
            ask(sound[:end])


def test_noise_is_damage_or_other_values() -> None:
    draw = random.Random(7)
    sound = columns.build(0, [FULL, BARE])
    for _ in range(300):
        data = bytearray(sound)
        for at in draw.sample(range(len(data)), 8):
            data[at] = draw.randrange(256)
        with suppress(StoreDamagedError):
            ask(as_bytes(bytes(data)))


def test_bytes_at_an_odd_address() -> None:
    sound = columns.build(0, [FULL, BARE])
    ask(as_bytes(b"x" + sound)[1:])
