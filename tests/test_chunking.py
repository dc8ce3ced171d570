"""Chunks: nothing lost, nothing doubled, bounded, and cut where a reader would."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runoff import chunking, text
from runoff.chunking import LONGEST_WORD, ChunkSettings, chunk
from runoff.documents import Chunk, Document
from runoff.errors import QueryError

property_test = settings(derandomize=True, deadline=None, max_examples=300)

PARTS = (
    *(
        "word",
        "Payouts",
        "e.g.",
        "Dr.",
        "end.",
        "Why?",
        "3.14",
        "…",
        "(a)",
        "x" * 60,
        "https://shop.example/" + "a" * 40,
    ),
    *(" ", " ", " ", "\n", "\n\n", "\t", "\u3000", "\u2028"),
    *(
        "支払いは二日。",
        "한국어 문장",
        "ภาษาไทย",
        "हिन्दी वाक्य।",
        "日",
        "👨‍👩‍👧",
        "👍🏽",
        "e\u0301",
        "\u0301",
        "\u200d",
        "\ufe0f",
    ),
)
texts = st.lists(st.sampled_from(PARTS), max_size=60).map("".join) | st.text(max_size=80)
sizes = st.integers(1, 12)


@st.composite
def overlapping(draw: st.DrawFn) -> ChunkSettings:
    size = draw(st.integers(2, 12))
    return ChunkSettings(size, draw(st.integers(1, size - 1)))


def document(body: str, title: str = "") -> Document:
    return Document("0" * 16, title, body)


def pieces(body: str, size: int, overlap: int = 0) -> list[str]:
    return [piece.text for piece in chunk(document(body), ChunkSettings(size, overlap))]


def of_kind(kind: str, chunks: list[Chunk]) -> list[Chunk]:
    return [piece for piece in chunks if piece.kind == kind]


@property_test
@given(texts, texts, sizes)
def test_slices_tile_the_text(title: str, body: str, size: int) -> None:
    chunks = chunk(document(body, title), ChunkSettings(size))
    for kind, original in (("headline", title), ("body", body)):
        place = 0
        for piece in of_kind(kind, chunks):
            assert not original[place : piece.start].strip()
            assert piece.text == original[piece.start : piece.end]
            place = piece.end
        assert not original[place:].strip()


@property_test
@given(texts, texts, sizes, st.data())
def test_chunks_are_numbered_stripped_and_never_empty(title: str, body: str, size: int, data: st.DataObject) -> None:
    chunks = chunk(document(body, title), ChunkSettings(size, data.draw(st.integers(0, size - 1))))
    assert [piece.position for piece in chunks] == list(range(len(chunks)))
    assert [piece.kind for piece in chunks] == sorted((piece.kind for piece in chunks), reverse=True)
    for piece in chunks:
        assert piece.text
        assert piece.text == piece.text.strip()
    assert bool(chunks) is bool(title.strip() or body.strip())


@property_test
@given(texts, sizes, st.data())
def test_no_chunk_has_more_than_size_words(body: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    for piece in pieces(body, size, overlap):
        assert len(piece.split()) <= size


@property_test
@given(texts, sizes)
def test_characters_are_bounded(body: str, size: int) -> None:
    for piece in pieces(text.from_plain(body), size):
        # White space is folded to at most two characters; marks that combine may double a word.
        assert len(piece) <= size * (2 * LONGEST_WORD + 2)


@property_test
@given(texts, overlapping())
def test_an_overlap_repeats_the_words_before(body: str, setting: ChunkSettings) -> None:
    chunks = chunk(document(body), setting)
    assert "".join(body.split()) == "".join(_new(body, chunks).split())
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert not body[before.end : max(before.end, after.start)].strip()
        repeated = body[after.start : before.end]
        assert before.text.endswith(repeated)
        assert after.text.startswith(repeated)
        assert len(repeated.split()) <= setting.overlap


def _new(body: str, chunks: list[Chunk]) -> str:
    """What each chunk adds to those before it."""
    place, added = 0, []
    for piece in chunks:
        added.append(body[max(place, piece.start) : piece.end])
        place = piece.end
    return "".join(added)


def test_an_overlap_has_exactly_as_many_words() -> None:
    numbers = [str(number) for number in range(100)]
    assert pieces(" ".join(numbers), 10, 3) == [" ".join(numbers[at : at + 10]) for at in range(0, 92, 7)]


SETTINGS: list[dict[str, Any]] = [
    *({"size": size} for size in (0, -1, True, 2.0, "9", None)),
    *({"size": 5, "overlap": overlap} for overlap in (5, 6, -1, True, 1.0, None)),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_settings_out_of_range(setting: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=r"chunk (size|overlap): got .*; expected"):
        ChunkSettings(**setting)


def test_settings_in_range() -> None:
    assert ChunkSettings() == ChunkSettings(200, 0)
    assert ChunkSettings(1).size == 1
    assert ChunkSettings(5, 4).overlap == 4


def test_a_paragraph_border_goes_before_a_sentence_border() -> None:
    body = "One two three four five six.\n\nSeven eight. Nine ten eleven twelve."
    assert pieces(body, 10) == ["One two three four five six.", "Seven eight. Nine ten eleven twelve."]


def test_a_sentence_border_goes_before_a_word_border() -> None:
    body = "One two three four five six. Seven eight nine ten eleven twelve."
    assert pieces(body, 10) == ["One two three four five six.", "Seven eight nine ten eleven twelve."]


def test_a_word_border_goes_before_the_inside_of_a_word() -> None:
    body = "one two three " + "x" * 60
    assert pieces(body, 10)[0] == "one two three"


def test_an_early_paragraph_border_does_not_make_a_crumb() -> None:
    body = "One.\n\nTwo three four five six seven. Eight nine ten eleven."
    assert pieces(body, 10) == ["One.\n\nTwo three four five six seven.", "Eight nine ten eleven."]


def test_what_fits_is_one_chunk() -> None:
    body = "One two.\n\nThree four. Five six."
    assert pieces(body, 6) == [body]


@pytest.mark.parametrize(
    "first",
    [
        "It costs, e.g.",
        "Ask Dr.",
        "See Fig.",
        "Paid by Acme Inc.",
        "A note of J.",
        "At 9 a.m.",
        "Beware (cf.",
        "Wait ... and",
        "Version 2.5",
    ],
)
def test_no_sentence_ends_at(first: str) -> None:
    body = f"Start here now. {first} Lovelace went on and on for long."
    assert pieces(body, 3 + len(first.split()) + 1)[0] == "Start here now."


@pytest.mark.parametrize(
    "first",
    ["Really?", "Never!", 'He said "no."', "Well (maybe).", "Then… ", "He left.”", "支払いは二日。", "यह वाक्य है।"],
)
def test_a_sentence_ends_at(first: str) -> None:
    size = chunking.words(first) + 2
    assert pieces(f"{first.strip()} Next one goes on for some more words than fit.", size)[0] == first.strip()


def test_the_headline_comes_first() -> None:
    headline, body = chunk(document("The body.", "The title"))
    assert (headline.kind, headline.text, headline.position) == ("headline", "The title", 0)
    assert (body.kind, body.text, body.position) == ("body", "The body.", 1)


@pytest.mark.parametrize(
    ("title", "body", "kinds"),
    [("", "b", ["body"]), ("t", "", ["headline"]), ("t", " \n ", ["headline"]), ("", "", []), (" ", "\n\n", [])],
)
def test_missing_parts_give_no_chunk(title: str, body: str, kinds: list[str]) -> None:
    assert [piece.kind for piece in chunk(document(body, title))] == kinds


@pytest.mark.parametrize("unit", ["word ", "x"], ids=["words", "one word"])
def test_a_title_of_a_megabyte_is_bounded_and_kept(unit: str) -> None:
    title = (unit * (1_000_000 // len(unit))).strip()
    chunks = chunk(document("body", title))
    headlines = of_kind("headline", chunks)
    assert max(len(piece.text) for piece in headlines) <= 200 * (LONGEST_WORD + 1)
    assert re.sub(r"\s", "", title) == "".join(re.sub(r"\s", "", piece.text) for piece in headlines)
    assert chunks[-1].text == "body"


def test_a_word_of_100_kilobytes_is_bounded_and_kept() -> None:
    body = "x" * 100_000
    found = pieces(body, 200)
    assert "".join(found) == body
    assert max(map(len, found)) <= 200 * LONGEST_WORD


@pytest.mark.parametrize("unit", ["界", "ไทย", "한", "𠀀"])
def test_scripts_without_spaces_are_bounded(unit: str) -> None:
    body = unit * 10_000
    found = pieces(body, 200)
    assert "".join(found) == body
    assert max(map(len, found)) <= 450


def test_cjk_is_cut_behind_its_stops() -> None:
    sentence = "加盟店への支払いは二日かかる。"
    for piece in pieces(sentence * 50, 20):
        assert piece.endswith("。")


@pytest.mark.parametrize("mark", ["\u0301", "\u200d👧", "🏽", "\ufe0f"], ids=ascii)
def test_marks_stay_with_their_character(mark: str) -> None:
    for piece in pieces(f"👩{mark}" * 200, 3):
        assert piece.startswith("👩")


def test_marks_without_end_are_bounded() -> None:
    body = "a" + "\u0301" * 100_000
    found = pieces(body, 10)
    assert "".join(found) == body
    assert max(map(len, found)) <= 10 * 2 * LONGEST_WORD


@pytest.mark.parametrize("unit", ["word. ", "x", "a\n\n", "。", "\n \n", "日", '."', "e.g. ", "👩\u200d"], ids=ascii)
def test_chunks_grow_with_the_text(unit: str) -> None:
    few, many = (len(pieces(unit * count, 200, 100)) for count in (20_000, 40_000))
    assert many <= 2 * few + 1


def test_words_counts_long_runs_in_parts() -> None:
    assert chunking.words("one two  three\n") == 3
    assert chunking.words("") == 0
    assert chunking.words("x" * LONGEST_WORD) == 1
    assert chunking.words("x" * (LONGEST_WORD + 1)) > 1
    assert chunking.words("支払い") == 2


def work(body: str, setting: ChunkSettings) -> int:
    """How many lines of the module run while a text is cut."""
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != chunking.__file__:
            return None
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        chunk(document(body), setting)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("unit", ["word. ", "x", "a\n\n", "。", "日本", "e.g. A", "👩\u200d", "\u0301"], ids=ascii)
def test_work_grows_with_the_text(unit: str) -> None:
    few, many = (work(unit * count, ChunkSettings(50, 10)) for count in (2_000, 4_000))
    assert few > 100
    assert many < 2.2 * few
