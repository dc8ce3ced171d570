"""What becomes a term, and which spellings fall together."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runoff import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Fox, the fox!", ["the", "fox", "the", "fox"]),
        ("snake_case and kebab-case", ["snake", "case", "and", "kebab", "case"]),
        ("in 2007. 2nd of 1,250,000 at 2.50, v3.10.2", ["in", "2007", "2nd", "of", "1250000", "at", "2.50", "v3.10.2"]),
        ("1,25 and 12,3456", ["1", "25", "and", "12", "3456"]),
        ("The bank's rate isn\u2019t what we'd like", ["the", "bank", "rate", "isn", "what", "we", "like"]),
        ("l'arbre d'or O'Brien", ["l", "arbre", "d", "or", "o", "brien"]),
        ("café CAFÉ cafe\u0301", ["cafe", "cafe", "cafe"]),
        ("Straße STRASSE Łódź Ærø œuvre İzmir", ["strasse", "strasse", "lodz", "aero", "oeuvre", "izmir"]),
        ("\ufb01nance \uff21\uff22\uff11 x\u00b2", ["finance", "ab1", "x2"]),
        ("Ώρα ώρα ΟΔΟΣ οδός", ["ωρα", "ωρα", "οδοσ", "οδοσ"]),
        ("Ёлка елка", ["елка", "елка"]),
        ("مُحَمَّد محمد مـحمد", ["محمد", "محمد", "محمد"]),
        ("שָׁלוֹם שלום", ["שלום", "שלום"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("co\u00adoperate zero\u200bwidth", ["cooperate", "zerowidth"]),
        ("\U0001f600 -- ... \u20ac", []),
        ("", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]) -> None:
    assert words.split(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京都", ["東京", "京都"]),
        ("字", ["字"]),
        ("東京のiPhone用ケース", ["東京", "京の", "iphone", "用ケ", "ケー", "ース"]),
        ("人々、日本・中国", ["人々", "日本", "中国"]),
        ("ﾊﾟﾝ パン", ["パン", "パン"]),
        ("한국어 검색", ["한국", "국어", "검색"]),
        ("ไทยดี", ["ไท", "ทย", "ยด", "ดี"]),
        ("ລາວ", ["ລາ", "າວ"]),
        ("ខ្មែរ", ["ខ្", "្ម", "មែ", "ែរ"]),
        ("မြန်", ["မြ", "ြန", "န်"]),
    ],
)
def test_scripts_without_spaces_become_pairs_of_characters(text: str, expected: list[str]) -> None:
    assert words.split(text) == expected


def test_any_piece_of_a_run_is_among_its_pairs() -> None:
    run = "機械学習による検索エンジンの評価"
    pairs = words.split(run)
    for start in range(len(run) - 1):
        for end in range(start + 2, len(run) + 1):
            piece = words.split(run[start:end])
            assert piece == pairs[start : end - 1]


def test_queries_lose_stop_words_unless_nothing_is_left() -> None:
    assert words.query_terms("What is the café's opening time?") == ["cafe", "open", "time"]
    assert words.query_terms("to be or not to be") == ["to", "be", "or", "not", "to", "be"]
    assert words.query_terms("?!") == []


def test_stop_words_are_words_as_they_come_out_of_a_text() -> None:
    assert all(words.split(word) == [word] for word in words.STOP_WORDS)


def test_very_long_words_are_cut() -> None:
    assert words.split("x" * 1000 + " end") == ["x" * words.LONGEST, "end"]


@given(st.text())
def test_composed_and_decomposed_forms_are_equal(text: str) -> None:
    found = words.split(text)
    for form in ("NFC", "NFD"):
        assert words.split(unicodedata.normalize(form, text)) == found
    assert all(0 < len(word) <= words.LONGEST for word in found)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_terms_can_be_stored(text: str) -> None:
    assert all(term.encode().decode() == term for term in words.terms(text))


def test_a_run_of_marks_is_cut_before_it_is_ordered() -> None:
    """Ordering takes the square of a run's length: without the cut this test takes hours."""
    assert words.split("น" + "\u0e38\u0e49" * 300_000) == words.split("น" + "\u0e38\u0e49" * 4)
    assert words.split("a" + "\u0323\u0301" * 300_000) == ["a"]
