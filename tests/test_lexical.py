"""The lexical index against BM25 by hand; deletes against rebuilds, merges against builds; damage; threads."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from runoff import lexical, words
from runoff.errors import QueryError, StoreDamagedError
from runoff.lexical import LexicalIndex

VOCABULARY = [f"w{number}" for number in range(60)]


def random_texts(rng: np.random.Generator, count: int, longest: int = 30) -> list[str]:
    """Texts whose words are as unevenly common as those of a language; some are empty."""
    ranks = [np.minimum(rng.zipf(1.3, rng.integers(0, longest)), len(VOCABULARY)) - 1 for _ in range(count)]
    return [" ".join(VOCABULARY[rank] for rank in row) for row in ranks]


def segment(first_row: int, texts: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer(lexical.build(first_row, texts), np.uint8)


def segmented(texts: Sequence[str], cuts: Sequence[int]) -> list[NDArray[np.uint8]]:
    """Segments that end at each cut and at the end of the texts."""
    borders = [0, *sorted(cuts), len(texts)]
    return [segment(start, texts[start:end]) for start, end in pairwise(borders)]


def index_of(texts: Sequence[str], cuts: Sequence[int] = (), alive: NDArray[np.bool_] | None = None) -> LexicalIndex:
    return LexicalIndex(segmented(texts, cuts), np.ones(len(texts), bool) if alive is None else alive)


def by_hand(texts: Sequence[str], query: str) -> dict[int, float]:
    """Every row's score above 0, straight from the formula."""
    rows = [words.terms(text) for text in texts]
    average = sum(map(len, rows)) / max(1, len(rows))
    scores: dict[int, float] = {}
    for term in words.query_terms(query):
        having = sum(term in row for row in rows)
        idf = math.log(1 + (len(rows) - having + 0.5) / (having + 0.5))
        for number, row in enumerate(rows):
            if tf := row.count(term):
                norm = lexical.K1 * (1 - lexical.B + lexical.B * len(row) / average)
                scores[number] = scores.get(number, 0) + idf * (lexical.K1 + 1) * tf / (tf + norm)
    return scores


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_those_of_the_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = random_texts(rng, 200)
    index = index_of(texts, rng.integers(0, 200, 3).tolist())
    for query in ("w0", "w1 w5 w59", "w2 w2 w30 nowhere", " ".join(VOCABULARY)):
        rows, scores = index.search(query, 200)
        expected = by_hand(texts, query)
        assert rows.dtype == np.int64
        assert scores.dtype == np.float32
        assert set(rows.tolist()) == set(expected)
        np.testing.assert_allclose(scores, [expected[row] for row in rows.tolist()], rtol=1e-5)
        assert (np.lexsort((rows, -scores)) == np.arange(len(rows))).all()


@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_equals_plain_numpy_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = random_texts(rng, int(rng.integers(1, 3000)))
    alive = rng.random(len(texts)) < rng.choice([0.1, 0.9, 1.0])
    allowed = rng.random(len(texts)) < rng.choice([0.02, 0.5])
    index = index_of(texts, rng.integers(0, len(texts) + 1, 4).tolist(), alive)
    for k in (1, 7, 100, 5000):
        query = " ".join(rng.choice(VOCABULARY, rng.integers(1, 12)))
        for mask in (None, allowed):
            rows, scores = index.search(query, k, mask)
            plain_rows, plain_scores = index.reference(query, k, mask)
            assert rows.tolist() == plain_rows.tolist()
            assert scores.tolist() == plain_scores.tolist()


def test_rows_in_many_blocks_equal_plain_numpy() -> None:
    rng = np.random.default_rng(5)
    index = index_of(random_texts(rng, 40_000, longest=8), [30_000])
    for query in ("w0 w1 w2", "w0 w40 w50", "w7 w58 w59 w3 w4"):
        for k in (1, 20, 1000):
            rows, scores = index.search(query, k)
            plain_rows, plain_scores = index.reference(query, k)
            assert rows.tolist() == plain_rows.tolist()
            assert scores.tolist() == plain_scores.tolist()


texts_strategy = st.lists(
    st.lists(st.sampled_from(["ab", "cd", "ef", "東京都", "ไทย"]), max_size=6).map(" ".join), max_size=25
)


@settings(max_examples=150, deadline=None)
@given(texts_strategy, st.data())
def test_deletes_equal_a_rebuild_and_merges_equal_a_build(texts: list[str], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(texts)), max_size=4))
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))), bool)
    kept = [text for text, lives in zip(texts, alive, strict=True) if lives]
    segments = segmented(texts, cuts)
    assert lexical.merge(segments) == lexical.build(0, texts)
    assert lexical.merge(segments, alive) == lexical.build(0, kept)
    deleted, rebuilt = LexicalIndex(segments, alive), index_of(kept)
    for query in ("ab", "cd ef", "東京 ไท ab"):
        rows, scores = deleted.search(query, 30)
        again, same = rebuilt.search(query, 30)
        assert rows.tolist() == np.flatnonzero(alive)[again].tolist()
        assert scores.tolist() == same.tolist()


def test_scores_do_not_depend_on_the_segments() -> None:
    texts = random_texts(np.random.default_rng(3), 500)
    whole = index_of(texts).search("w0 w3 w9 w27", 500)
    for cuts in ([1], [250], [0, 0, 499], list(range(0, 500, 4))):
        rows, scores = index_of(texts, cuts).search("w0 w3 w9 w27", 500)
        assert rows.tolist() == whole[0].tolist()
        assert scores.tolist() == whole[1].tolist()


def test_a_filter_chooses_rows_and_leaves_scores_alone() -> None:
    texts = random_texts(np.random.default_rng(4), 300)
    index = index_of(texts, [100])
    rows, scores = index.search("w0 w2 w4", 300)
    allowed = np.arange(300) % 7 == 3
    some, same = index.search("w0 w2 w4", 300, allowed)
    assert some.tolist() == [row for row in rows.tolist() if row % 7 == 3]
    assert same.tolist() == scores[allowed[rows]].tolist()
    assert index.search("w0", 5, np.zeros(300, bool))[0].tolist() == []


def test_segments_may_begin_anywhere_when_they_merge() -> None:
    texts = random_texts(np.random.default_rng(6), 90)
    parts = [segment(500 + start, texts[start : start + 30]) for start in (0, 30, 60)]
    assert lexical.merge(parts) == lexical.build(500, texts)
    assert lexical.merge([np.frombuffer(lexical.merge(parts[:2]), np.uint8), parts[2]]) == lexical.build(500, texts)
    kept = np.arange(90) % 3 > 0
    moved = lexical.merge(parts, kept, first_row=7)
    assert moved == lexical.build(7, [text for text, stays in zip(texts, kept, strict=True) if stays])


def test_unspaced_scripts_and_decomposed_words_are_found() -> None:
    texts = ["東京都庁は新宿にある", "ภาษาไทยเขียนติดกัน", "Cafe\u0301 society", "서울시청에서"]
    index = index_of(texts)
    for query, row in (("新宿", 0), ("ไทย", 1), ("CAFÉ", 2), ("시청", 3)):
        assert index.search(query, 4)[0].tolist() == [row]


def test_nothing_is_found_where_nothing_can_be() -> None:
    for index in (LexicalIndex([], np.ones(0, bool)), index_of(["", "..."]), index_of(["ab"], alive=np.zeros(1, bool))):
        for query in ("ab", "", "?"):
            rows, scores = index.search(query, 5)
            assert (rows.tolist(), scores.tolist()) == ([], [])
            assert index.reference(query, 5)[0].tolist() == []


def test_a_word_in_every_row_still_scores() -> None:
    rows, scores = index_of(["ab"] * 1000).search("ab", 3)
    assert rows.tolist() == [0, 1, 2]
    assert (scores > 0).all()


def test_counts_stop_at_255() -> None:
    rows, scores = index_of(["ab " * 255, "ab " * 10_000, "cd"]).search("ab", 3)
    assert rows.tolist() == [0, 1]
    assert scores[0] > scores[1]


def test_wrong_arguments_are_refused() -> None:
    index = index_of(["ab", "cd"])
    with pytest.raises(QueryError, match="k: got 0"):
        index.search("ab", 0)
    for allowed in (np.ones(3, bool), np.ones(2, np.int8)):
        with pytest.raises(QueryError, match="allowed: got"):
            index.search("ab", 1, allowed)


def test_segments_that_do_not_cover_the_rows_are_refused() -> None:
    first, second = segment(0, ["ab", "cd"]), segment(2, ["ef"])
    for segments, rows in (
        ([first], 3),
        ([first, second], 2),
        ([second], 1),
        ([second, first], 3),
        ([first, first], 4),
    ):
        with pytest.raises(StoreDamagedError, match="row"):
            LexicalIndex(segments, np.ones(rows, bool))
    with pytest.raises(StoreDamagedError, match="row"):
        lexical.merge([second, first])


def test_every_single_flip_and_cut_is_an_error_or_harmless() -> None:
    """The manifest's checksum finds damage; without it nothing may be read out of bounds."""
    texts = random_texts(np.random.default_rng(8), 40)
    sound = segment(0, texts)
    alive = np.arange(40) % 5 > 0
    refused = 0
    rng = np.random.default_rng(9)
    for place in range(len(sound)):
        damaged = sound.copy()
        damaged[place] ^= rng.integers(1, 256)
        try:
            LexicalIndex([damaged], alive).search(" ".join(VOCABULARY), 40)
            lexical.merge([damaged])
        except StoreDamagedError:
            refused += 1
    assert refused > len(sound) / 3
    for size in range(0, len(sound), 7):
        with pytest.raises(StoreDamagedError, match="lexical segment"):
            LexicalIndex([sound[:size]], alive)


def test_postings_outside_of_the_rows_are_refused_when_read() -> None:
    sound = lexical.Segment.parse(segment(0, random_texts(np.random.default_rng(2), 50)))
    for bad in (-1, 50, 2**31 - 1, -(2**31)):
        rows = sound.posting_rows.copy()
        rows[len(rows) // 2] = bad
        data = lexical.Segment(
            0, sound.lengths, sound.term_ends, sound.posting_ends, rows, sound.posting_counts, sound.text
        ).write()
        damaged = np.frombuffer(data, np.uint8)
        for alive in (np.ones(50, bool), np.arange(50) > 0):
            with pytest.raises(StoreDamagedError, match="outside of its rows"):
                LexicalIndex([damaged], alive).search(" ".join(VOCABULARY), 5)
        with pytest.raises(StoreDamagedError, match="outside of its rows"):
            lexical.merge([damaged])


def test_another_format_or_analyser_is_refused() -> None:
    sound = lexical.build(0, ["ab"])
    for place in (0, 8, 12):
        changed = bytearray(sound)
        changed[place] += 1
        with pytest.raises(StoreDamagedError, match="expected b'RUNOFFBM', 1, 1"):
            LexicalIndex([np.frombuffer(changed, np.uint8)], np.ones(1, bool))


def test_absurd_sizes_in_the_header_are_refused() -> None:
    sound = lexical.build(0, ["ab"])
    for place in range(16, 56, 8):
        for size in (-1, 2**31, 2**62, 2**63 - 1):
            changed = bytearray(sound)
            struct.pack_into("<q", changed, place, size)
            with pytest.raises(StoreDamagedError, match="lexical segment"):
                LexicalIndex([np.frombuffer(changed, np.uint8)], np.ones(1, bool))


def test_the_format_is_what_it_is_said_to_be() -> None:
    data = lexical.build(7, ["cd ab cd", "", "ab"])
    assert struct.unpack_from("<8sII5q", data) == (b"RUNOFFBM", 1, words.VERSION, 7, 3, 2, 4, 3)
    arrays = [
        np.array([3, 0, 1, 0], "<i4"),
        np.array([2, 4], "<i8"),
        np.array([2, 3], "<i8"),
        np.array([0, 2, 0, 0], "<i4"),
        np.array([1, 1, 2, 0, 0, 0, 0, 0], "u1"),
    ]
    assert data[56:] == b"".join(array.tobytes() for array in arrays) + b"abcd\0\0\0\0"


def test_segments_may_lie_anywhere_in_memory() -> None:
    data = lexical.build(0, ["ab cd", "ab"])
    shifted = np.frombuffer(b"x" + data, np.uint8)[1:]
    spread = np.repeat(np.frombuffer(data, np.uint8), 2)[::2]
    for held in (shifted, spread):
        assert LexicalIndex([held], np.ones(2, bool)).search("cd", 2)[0].tolist() == [0]


def test_threads_share_an_index() -> None:
    texts = random_texts(np.random.default_rng(10), 3000)
    index = index_of(texts, range(0, 3000, 100), np.arange(3000) % 9 > 0)
    queries = [f"w{number} w{number // 2} w{number // 7}" for number in range(60)]
    expected = [index.search(query, 50) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for (rows, scores), (again, same) in zip(
                expected, pool.map(lambda query: index.search(query, 50), queries), strict=True
            ):
                assert rows.tolist() == again.tolist()
                assert scores.tolist() == same.tolist()
