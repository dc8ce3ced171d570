"""BM25 over immutable segments of neighbouring rows.

A row's score for a query is the sum, over the query's terms, of

    idf * (k1 + 1) * tf / (tf + k1 * (1 - b + b * length / average)),  idf = ln(1 + (N - n + 0.5) / (n + 0.5))

with tf the term's count in the row, length the row's words, and N (rows), n (rows with the term) and average (words
in a row) over the live rows; so deleted rows weigh nothing, and results equal those of an index built without them.
This is BM25 of Robertson and Zaragoza (The Probabilistic Relevance Framework, 2009) with an idf that is never
negative.

A segment is one block of bytes, little-endian, each part beginning at a multiple of 8:

    header          8 bytes RUNOFFBM; uint32 format version, uint32 version of the analyser (`words.VERSION`);
                    int64 first row, rows, terms, bytes of text, postings
    lengths         int32[rows]      words in each row
    term ends       int64[terms]     where each term ends in the text
    posting ends    int64[terms]     where the postings of each term end
    posting rows    int32[postings]  rows of each term, ascending, counted from the segment's first
    posting counts  uint8[postings]  how often the term is in the row, at most 255
    text            uint8            the terms in UTF-8, one after the other, ascending by bytes
"""

from __future__ import annotations

import math
import struct
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from . import _bm25, words
from .errors import QueryError, StoreDamagedError
from .stemming import stem

K1, B = 1.2, 0.75
VERSION = 1

_MAGIC = b"RUNOFFBM"
_HEADER = struct.Struct("<8sIIqqqqq")
_MOST = 2**31 - 1

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Segment:
    """The parts of a segment, as views of its bytes, see the module for what each holds; and the words of all rows."""

    first_row: int
    lengths: NDArray[np.int32]
    term_ends: NDArray[np.int64]
    posting_ends: NDArray[np.int64]
    posting_rows: NDArray[np.int32]
    posting_counts: Bytes
    text: Bytes
    words: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", int(self.lengths.sum(dtype=np.int64)))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.lengths)

    @property
    def terms(self) -> list[bytes]:
        """All terms, ascending."""
        text, ends = self.text.tobytes(), self.term_ends.tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    @classmethod
    def parse(cls, data: Bytes) -> Segment:
        """Views of the bytes of a segment; they are copied only where they are not aligned to 8.

        Raises:
            StoreDamagedError: they are no segment of this format, or a part reaches outside of them or of another part.
        """
        if data.ctypes.data % 8 or not data.flags.c_contiguous:
            data = data.copy()
        first, counts = _parse_header(data)
        parts, at = [], _aligned(_HEADER.size)
        for kind, count in zip(_KINDS, counts, strict=True):
            size = count * np.dtype(kind).itemsize
            parts.append(data[at : at + size].view(kind))
            at += _aligned(size)
        segment = cls(first, *parts)
        segment._check()
        return segment

    def write(self) -> bytes:
        """The bytes of the segment."""
        counts = (self.rows, len(self.term_ends), len(self.text), len(self.posting_rows))
        parts = [_HEADER.pack(_MAGIC, VERSION, words.VERSION, self.first_row, *counts)]
        for name, kind in zip(_PARTS, _KINDS, strict=True):
            parts.append(getattr(self, name).astype(kind, copy=False).tobytes())
        return b"".join(part + bytes(_aligned(len(part)) - len(part)) for part in parts)

    def native(self, *, complete: bool = True) -> _bm25.Part:
        """The segment as the kernel takes it; ``complete`` says that all of its rows live."""
        return (
            self.first_row,
            self.lengths,
            self.term_ends,
            self.posting_ends,
            self.text,
            self.posting_rows,
            self.posting_counts,
            complete,
        )

    def _check(self) -> None:
        """Refuse offsets by which a reader would leave the segment. Postings are checked as they are read."""
        for name, ends, size in (
            ("terms", self.term_ends, len(self.text)),
            ("postings", self.posting_ends, len(self.posting_rows)),
        ):
            last = int(ends[-1]) if len(ends) else 0
            if last != size or (len(ends) and ends[0] < 0) or (ends[1:] < ends[:-1]).any():
                raise StoreDamagedError(f"lexical segment: the ends of its {name} do not ascend to {size}. {_WAY_OUT}")
        if self.rows and self.lengths.min() < 0:
            raise StoreDamagedError(f"lexical segment: a row has a length below 0. {_WAY_OUT}")


_PARTS = ("lengths", "term_ends", "posting_ends", "posting_rows", "posting_counts", "text")
_KINDS = ("<i4", "<i8", "<i8", "<i4", "u1", "u1")
_WAY_OUT = "Restore the store from a copy, or ingest the sources into a new folder."


class LexicalIndex:
    """Searches the live rows of some segments. It never changes, and any number of threads may search it at once.

    Args:
        segments: the bytes of each, uint8, or what was parsed of them, such that their rows follow one another from 0
            on.
        alive: bool, shape [rows]: whether a row lives. Neither may be written to while the index is in use.

    Raises:
        StoreDamagedError: a segment is damaged, or the segments do not cover the rows one after the other.
    """

    def __init__(self, segments: Sequence[Bytes | Segment], alive: NDArray[np.bool_]) -> None:
        self.segments = [data if isinstance(data, Segment) else Segment.parse(data) for data in segments]
        _check_neighbours(self.segments, 0, len(alive))
        self.alive = np.ascontiguousarray(alive)
        self._live = int(np.count_nonzero(self.alive))
        parts, total = [], 0
        for segment in self.segments:
            alive = self.alive[segment.first_row : segment.first_row + segment.rows]
            complete = bool(alive.all())
            total += segment.words if complete else int(segment.lengths[alive].sum(dtype=np.int64))
            parts.append(segment.native(complete=complete))
        average = max(total / max(1, self._live), 1e-9)
        self._base, self._slope = np.float32(K1 * (1 - B)), np.float32(K1 * B / average)
        self._native = _bm25.Segments(parts, self.alive.view(np.uint8), self._base, self._slope)

    def search(
        self, query: str, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The ``k`` live rows that score best among those with a term of the query.

        Args:
            query: plain text.
            k: most rows, at least 1.
            allowed: bool, shape [rows]: rows to choose from. Scores do not depend on it.

        Returns:
            rows: int64, best first, equal scores by row; fewer than ``k`` where fewer rows match.
            scores: float32, all greater than 0.

        Raises:
            QueryError: ``k`` is below 1, or ``allowed`` is of another shape or type.
            StoreDamagedError: postings that the query needs are damaged.
        """
        self._check(k, allowed)
        numbers, weights = self._plan(query)
        places = min(k, self._live)
        rows, scores = np.empty(places, np.int64), np.empty(places, np.float32)
        if not places or not len(weights):
            return rows[:0], scores[:0]
        mask = None if allowed is None else np.ascontiguousarray(allowed).view(np.uint8)
        found = self._native.search(numbers, weights, mask, rows, scores)
        if found < 0:
            raise StoreDamagedError(f"lexical segment: postings out of order or outside of its rows. {_WAY_OUT}")
        return rows[:found], scores[:found]

    def reference(
        self, query: str, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """What ``search`` returns, by plain NumPy: every posting is scored, every row sorted."""
        self._check(k, allowed)
        numbers, weights = self._plan(query)
        scores = np.zeros(len(self.alive), np.float32)
        for found, weight in zip(numbers, weights, strict=True):
            for number, segment in zip(found.tolist(), self.segments, strict=True):
                start, end = (0, *segment.posting_ends.tolist())[number : number + 2] if number >= 0 else (0, 0)
                rows = segment.first_row + segment.posting_rows[start:end]
                counts = segment.posting_counts[start:end].astype(np.float32)
                norms = self._base + self._slope * segment.lengths[rows - segment.first_row].astype(np.float32)
                scores[rows] += weight * counts / (counts + norms)
        scores[~self.alive if allowed is None else ~(self.alive & allowed)] = 0
        order = np.argsort(-scores, kind="stable")[:k]
        order = order[scores[order] > 0]
        return order, scores[order]

    def _plan(self, query: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """For each term that is found: its number in each segment, and its weight; the rarest first.

        Neither order nor weights depend on how rows are spread over segments, so that sums do not either.
        """
        plan = []
        for term, count in Counter(words.query_terms(query)).items():
            numbers = np.empty(len(self.segments), np.int64)
            live = self._native.find(term.encode(), numbers) if self._live else 0
            if live < 0:
                raise StoreDamagedError(f"lexical segment: a posting outside of its rows. {_WAY_OUT}")
            if live:
                plan.append((-count * (K1 + 1) * _idf(self._live, live), term, numbers))
        plan.sort(key=lambda entry: entry[:2])
        weights = np.array([-weight for weight, _, _ in plan], np.float32)
        return np.array([numbers for _, _, numbers in plan], np.int64).reshape(len(plan), len(self.segments)), weights

    def _check(self, k: int, allowed: NDArray[np.bool_] | None) -> None:
        if k < 1:
            raise QueryError(f"k: got {k}; expected at least 1")
        if allowed is not None and (allowed.dtype != np.bool_ or allowed.shape != self.alive.shape):
            raise QueryError(
                f"allowed: got {allowed.dtype} of shape {allowed.shape}; expected bool of shape {self.alive.shape}"
            )


def build(first_row: int, texts: Sequence[str]) -> bytes:
    """The segment of rows ``first_row`` and on, one for each text. The same texts give the same bytes."""
    numbers = _Numbers()
    found, ends = array("i"), np.empty(len(texts), np.int64)
    for row, text in enumerate(texts):
        found.extend(map(numbers.__getitem__, words.split(text)))
        ends[row] = len(found)
    terms = sorted(numbers.terms)
    ranks = np.empty(len(terms), np.int32)
    ranks[[numbers.terms[term] for term in terms]] = np.arange(len(terms))
    ranked = ranks[np.frombuffer(found, np.int32)] if terms else np.empty(0, np.int32)
    posting_ends, rows, counts = _invert(ranked, ends, len(terms))
    lengths = np.diff(ends, prepend=0).astype(np.int32)
    joined, term_ends = _joined([term.encode() for term in terms])
    return Segment(first_row, lengths, term_ends, posting_ends, rows, counts, joined).write()


def merge(segments: Sequence[Bytes], kept: NDArray[np.bool_] | None = None, *, first_row: int | None = None) -> bytes:
    """One segment of neighbouring ones: byte for byte what ``build`` makes of all their texts.

    Args:
        segments: the bytes of each, at least one, in the order of their rows.
        kept: bool, shape [rows of all]: rows that stay; the others are left out and those behind move up.
        first_row: first row of the new segment; None takes that of the first one.

    Raises:
        StoreDamagedError: a segment is damaged, or they are no neighbours.
    """
    parts = [Segment.parse(data) for data in segments]
    first = parts[0].first_row
    rows = sum(part.rows for part in parts)
    _check_neighbours(parts, first, rows)
    if kept is None:
        kept = np.ones(rows, np.bool_)
    renumbered = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    own = [renumbered[part.first_row - first :][: part.rows] for part in parts]
    terms, places, frequencies = _common(parts, own)
    ends = np.cumsum(frequencies)
    next_ = ends - frequencies
    postings = int(frequencies.sum())
    posting_rows, counts = np.empty(postings, np.int32), np.empty(postings, np.uint8)
    for part, numbers, place in zip(parts, own, places, strict=True):
        at = np.where(place >= 0, next_[place], -1) if len(terms) else np.full(len(place), -1)
        _move(part, numbers, at, posting_rows, counts)
        next_[place[place >= 0]] = at[place >= 0]
    lengths = np.concatenate([part.lengths for part in parts])[kept]
    text, term_ends = _joined(terms)
    first_row = first if first_row is None else first_row
    return Segment(first_row, lengths, term_ends, ends, posting_rows, counts, text).write()


class _Numbers(dict[str, int]):
    """The number of each word's term, in order of arrival; several words may share a term."""

    def __init__(self) -> None:
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        number = self[word] = self.terms.setdefault(stem(word), len(self.terms))
        return number


def _invert(
    numbers: NDArray[np.int32], ends: NDArray[np.int64], terms: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], Bytes]:
    """Where each term's postings end, their rows and their counts, from the terms of all words, row by row."""
    frequencies = np.zeros(terms, np.int64)
    _bm25.count(numbers, ends, np.full(terms, -1, np.int32), frequencies)
    posting_ends = np.cumsum(frequencies)
    rows, counts = np.empty(frequencies.sum(), np.int32), np.empty(frequencies.sum(), np.uint8)
    _bm25.fill(numbers, ends, np.full(terms, -1, np.int32), posting_ends - frequencies, rows, counts)
    return posting_ends, rows, counts


def _common(
    parts: Sequence[Segment], renumbered: Sequence[NDArray[np.int32]]
) -> tuple[list[bytes], list[NDArray[np.int64]], NDArray[np.int64]]:
    """The terms that stay, the place of each segment's terms among them (-1: goes), and in how many rows each is."""
    own = [part.terms for part in parts]
    union = sorted(set().union(*own))
    rank = {term: place for place, term in enumerate(union)}
    places = [np.fromiter(map(rank.__getitem__, terms), np.int64, len(terms)) for terms in own]
    frequencies = np.zeros(len(union), np.int64)
    for part, numbers, place in zip(parts, renumbered, places, strict=True):
        counted = np.zeros(len(place), np.int64)
        _move(part, numbers, counted, np.empty(0, np.int32), np.empty(0, np.uint8))
        frequencies[place] += counted
    stays = frequencies > 0
    moved = np.where(stays, np.cumsum(stays) - 1, -1)
    terms = [term for term, stay in zip(union, stays.tolist(), strict=True) if stay]
    return terms, [moved[place] for place in places], frequencies[stays]


def _move(
    part: Segment, renumbered: NDArray[np.int32], at: NDArray[np.int64], rows: NDArray[np.int32], counts: Bytes
) -> None:
    if not _bm25.move(part.native(), renumbered, at, rows, counts):
        raise StoreDamagedError(f"lexical segment: a posting outside of its rows. {_WAY_OUT}")


def _joined(terms: Sequence[bytes]) -> tuple[Bytes, NDArray[np.int64]]:
    """Terms as one text, and where each ends."""
    ends = np.cumsum(np.fromiter(map(len, terms), np.int64, len(terms)))
    return np.frombuffer(b"".join(terms), np.uint8), ends


def _parse_header(data: Bytes) -> tuple[int, tuple[int, ...]]:
    """First row, and the sizes of the parts in their order."""
    if len(data) < _HEADER.size:
        raise StoreDamagedError(f"lexical segment: {len(data)} bytes; expected at least {_HEADER.size}. {_WAY_OUT}")
    magic, version, analyser, first, rows, terms, text, postings = _HEADER.unpack(data[: _HEADER.size].tobytes())
    if (magic, version, analyser) != (_MAGIC, VERSION, words.VERSION):
        raise StoreDamagedError(
            f"lexical segment: begins with {magic!r}, format {version}, analyser {analyser}; "
            f"expected {_MAGIC!r}, {VERSION}, {words.VERSION}. {_WAY_OUT}"
        )
    counts = (rows, terms, terms, postings, postings, text)
    sizes = [count * np.dtype(kind).itemsize for kind, count in zip(_KINDS, counts, strict=True)]
    expected = _aligned(_HEADER.size) + sum(map(_aligned, sizes))
    if min(first, *counts) < 0 or max(first + rows, terms) > _MOST or expected != len(data):
        raise StoreDamagedError(f"lexical segment: {len(data)} bytes; its header asks for {expected}. {_WAY_OUT}")
    return first, counts


def _check_neighbours(segments: Sequence[Segment], first: int, rows: int) -> None:
    at = first
    for segment in segments:
        if segment.first_row != at:
            raise StoreDamagedError(
                f"lexical segments: one begins at row {segment.first_row}; expected {at}. {_WAY_OUT}"
            )
        at += segment.rows
    if at != first + rows:
        raise StoreDamagedError(f"lexical segments: they end at row {at}; expected {first + rows}. {_WAY_OUT}")


def _idf(rows: int, with_term: int) -> float:
    return math.log(1 + (rows - with_term + 0.5) / (with_term + 0.5))


def _aligned(size: int) -> int:
    return (size + 7) // 8 * 8
