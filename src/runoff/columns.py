"""The metadata of documents, column by column, so that a filter reads only what it asks about.

A segment holds the values of consecutive document rows and never changes. It is one flat run of bytes, little-endian,
each array at a multiple of 8:

    header      of type ``HEADER``; the checksum is CRC-32 of what precedes it, the directory and the names
    directory   for each column, in the order of name and type: an entry of type ``ENTRY``
    names       of the columns, in UTF-8
    columns     for each column:
      rows        u4, rising: the row of each value, counted within the segment; left out where each row has one value;
                  of a list each item is a value, so that rows repeat
      values      texts, in lists or not: u4, the place in the dictionary; dates: i8, seconds since 1970 in UTC; whole
                  numbers: i8; other numbers: f8; truth values: u1, 0 or 1
      starts      i8, texts and lists only: where each text of the dictionary begins and, at last, the end
      dictionary  the distinct texts in UTF-8, rising by their bytes (which is the order of code points), each ended
                  by a byte 0xFF, which UTF-8 never has

An empty text and an empty list count as no value. A name has a column for each type that its values have.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import Document
from .errors import StoreDamagedError
from .metadata import DOCUMENT_FIELDS, ValueType, value

Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

FORMAT = 1
HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("format", "<u4"),
        ("columns", "<u4"),
        ("first_row", "<u8"),
        ("rows", "<u8"),
        ("name_bytes", "<u4"),
        ("checksum", "<u4"),
    ]
)
ENTRY = np.dtype(
    [
        ("offset", "<u8"),
        ("rows", "<u8"),
        ("values", "<u8"),
        ("texts", "<u8"),
        ("text_bytes", "<u8"),
        ("name_bytes", "<u4"),
        ("type", "<u4"),
    ]
)
_MAGIC = b"RUNOFFCS"
_END = b"\xff"
_ALIGNMENT = 8
_SEARCHES_A_PASS = 100  # a search in a dictionary takes about as long as reading so many of its texts
_DTYPES: dict[ValueType, np.dtype[Any]] = {
    ValueType.TEXT: np.dtype("<u4"),
    ValueType.LIST: np.dtype("<u4"),
    ValueType.DATE: np.dtype("<i8"),
    ValueType.WHOLE: np.dtype("<i8"),
    ValueType.REAL: np.dtype("<f8"),
    ValueType.TRUTH: np.dtype("<u1"),
}
_BYTE, _ROW, _PLACE = np.dtype("u1"), np.dtype("<u4"), np.dtype("<i8")


def encode(text: str) -> bytes:
    """UTF-8, whose order is that of code points; lone surrogates are let through."""
    return text.encode("utf-8", "surrogatepass")


def build(first_row: int, documents: Sequence[Document]) -> bytes:
    """The segment of documents that have consecutive rows, the first of them ``first_row``."""
    found: dict[tuple[str, ValueType], tuple[list[int], list[Any]]] = defaultdict(lambda: ([], []))
    for row, document in enumerate(documents):
        for name in (*DOCUMENT_FIELDS, *document.fields):
            typed = value(document, name)
            if typed is not None:
                rows, values = found[name, typed[0]]
                rows.append(row)
                values.append(typed[1])
    parts = {(name, kind): _parts(kind, rows, values) for (name, kind), (rows, values) in found.items()}
    return _segment(first_row, len(documents), parts)


def merge(segments: Sequence[Segment], keep: Mask | None = None, *, first_row: int | None = None) -> bytes:
    """One segment in place of several that follow each other: the same bytes that `build` gives for all the documents.

    Args:
        segments: at least one, in the order of their rows.
        keep: bool, shape [rows of all segments]: rows to keep; those that stay move together. None keeps all.
        first_row: first row of the new segment; None takes that of the first one.

    Raises:
        ValueError: the segments do not follow each other, or ``keep`` has another length.
        StoreDamagedError: a segment is not sound.
    """
    if problem := _check_order(segments, segments[0].first_row):
        raise ValueError(problem)
    total = sum(segment.rows for segment in segments)
    keep = np.ones(total, dtype=bool) if keep is None else keep
    if keep.shape != (total,):
        raise ValueError(f"keep: got shape {keep.shape}; expected ({total},)")
    moved = np.cumsum(keep) - 1
    found: dict[tuple[str, ValueType], list[_Parts]] = defaultdict(list)
    start = 0
    for segment in segments:
        window = slice(start, start + segment.rows)
        for column in chain.from_iterable(segment.columns.values()):
            found[column.name, column.type].append(column.kept(keep[window], moved[window]))
        start = window.stop
    parts = {key: _joined(pieces) for key, pieces in found.items() if any(len(piece.rows) for piece in pieces)}
    return _segment(segments[0].first_row if first_row is None else first_row, int(keep.sum()), parts)


class Columns:
    """The metadata of all documents of a store, from segments that cover their rows without gap or overlap.

    Safe to share between threads. A segment may be shared with other instances, and keeps what it has checked.

    Attributes:
        segments: in the order of their rows.
        rows: number of document rows.
        types: the types of the values of each field.

    Raises:
        StoreDamagedError: the segments do not follow each other from row 0.
    """

    def __init__(self, segments: Iterable[Segment]) -> None:
        self.segments = sorted(segments, key=lambda segment: (segment.first_row, segment.rows))
        if problem := _check_order(self.segments, 0):
            raise StoreDamagedError(f"columns: {problem}")
        self.rows = sum(segment.rows for segment in self.segments)
        types: dict[str, set[ValueType]] = defaultdict(set)
        for segment in self.segments:
            for name, columns in segment.columns.items():
                types[name].update(column.type for column in columns)
        self.types: Mapping[str, set[ValueType]] = dict(types)

    def mask(self, name: str, test: Callable[[Column], Mask | None]) -> Mask:
        """bool, shape [rows]: where a field has a value that passes a test.

        Args:
            name: the field.
            test: gives for a column a bool for each of its rows that have a value, or None for none of them.

        Raises:
            StoreDamagedError: a column is not sound.
        """
        mask = np.zeros(self.rows, dtype=bool)
        for segment in self.segments:
            for column in segment.columns.get(name, ()):
                column.verify()
                hits = test(column)
                if hits is not None:
                    column.mark(mask[segment.first_row : segment.first_row + segment.rows], hits)
        return mask


class Segment:
    """A segment's directory; its columns are checked when they are first used.

    Attributes:
        first_row: the document row of its first row.
        rows: number of rows.
        columns: by name, one for each type of value.

    Args:
        data: uint8, the segment's bytes, not to be changed.
        where: the file that it stands in, for messages.

    Raises:
        StoreDamagedError: it is no segment, or arrays that it names lie outside of it.
    """

    def __init__(self, data: Bytes, where: str = "columns") -> None:
        cursor = _Cursor(data, where)
        header = cursor.take(HEADER, 1)[0]
        if header["magic"] != _MAGIC or header["format"] != FORMAT:
            raise StoreDamagedError(f"{where}: expected columns of format {FORMAT}")
        directory = cursor.take(ENTRY, int(header["columns"]))
        names = cursor.take(_BYTE, int(header["name_bytes"])).tobytes()
        if header["checksum"] != _checksum(header, directory, names):
            raise StoreDamagedError(f"{where}: the checksum of its directory differs")
        self.first_row, self.rows = int(header["first_row"]), int(header["rows"])
        self.columns: dict[str, list[Column]] = {}
        start = 0
        for *sizes, name_bytes, kind in directory.tolist():
            name = names[start : start + name_bytes].decode("utf-8", "surrogatepass")
            start += name_bytes
            self.columns.setdefault(name, []).append(Column(data, name, ValueType(kind), sizes, self.rows, where))


class Column:
    """The values of one name and type in a segment.

    Attributes:
        name: the field.
        type: the type of its values.
        values: of all rows, in their order; texts as their places in the dictionary.
    """

    def __init__(
        self, data: Bytes, name: str, kind: ValueType, sizes: Sequence[int], segment_rows: int, where: str
    ) -> None:
        offset, rows, values, texts, text_bytes = sizes
        cursor = _Cursor(data, where, offset)
        self.name, self.type = name, kind
        self._segment_rows, self._where = segment_rows, where
        self._rows = cursor.take(_ROW, rows)
        self.values = cursor.take(_DTYPES[kind], values)
        self._starts = cursor.take(_PLACE, texts + 1 if kind in (ValueType.TEXT, ValueType.LIST) else 0)
        self._dictionary = cursor.take(_BYTE, text_bytes)
        self._bytes = self._dictionary.data

    def verify(self) -> None:
        """Check all of the column, once; nothing else that it offers is to be used before.

        Raises:
            StoreDamagedError: it is not sound.
        """
        if not self._is_sound:
            raise StoreDamagedError(f"{self._where}: the column {self.name!r} is not sound")

    @property
    def text_count(self) -> int:
        """Number of texts in the dictionary."""
        return max(len(self._starts) - 1, 0)

    def text(self, place: int) -> bytes:
        """A text of the dictionary, in UTF-8."""
        return bytes(self._bytes[self._starts.item(place) : self._starts.item(place + 1) - 1])

    def place(self, text: bytes) -> int:
        """How many texts of the dictionary come before this one."""
        return bisect_left(range(self.text_count), text, key=self.text)

    def between(self, low: Any, high: Any) -> Mask:
        """Values from ``low`` up to, and without, ``high``: bool, shape [values]. None is no bound."""
        hits: Mask = self.values >= low if low is not None else np.ones(len(self.values), dtype=bool)
        if high is not None:
            hits &= self.values < high
        return hits

    def within(self, ranges: Sequence[tuple[Any, Any]]) -> Mask:
        """The same for several ranges, which rise and do not touch."""
        borders = np.array(ranges, dtype=self.values.dtype).ravel()
        hits: Mask = np.searchsorted(borders, self.values, side="right") % 2 == 1
        return hits

    def places(self, texts: Sequence[bytes]) -> list[int]:
        """The places of those texts that are in the dictionary."""
        if len(texts) * _SEARCHES_A_PASS < self.text_count:
            found = [(self.place(text), text) for text in texts]
            return [place for place, text in found if place < self.text_count and self.text(place) == text]
        wanted = set(texts)
        every = self._dictionary.tobytes().split(_END)
        return [place for place, text in enumerate(every[:-1]) if text in wanted]

    def containing(self, part: bytes) -> Mask:
        """Texts that have a part, in UTF-8: bool, shape [values]."""
        data = self._dictionary.tobytes()
        found = []
        at = data.find(part)
        while at >= 0:
            found.append(at)
            at = data.find(part, data.find(_END, at))
        texts = np.zeros(self.text_count, dtype=bool)
        texts[np.searchsorted(self._starts, np.array(found, dtype=_PLACE), side="right") - 1] = True
        hits: Mask = texts[self.values]
        return hits

    def mark(self, mask: Mask, hits: Mask) -> None:
        """Set the rows, in a mask of the segment's, of which a value is among the hits (bool, shape [values])."""
        if len(self._rows):
            mask[self._rows[np.flatnonzero(hits)]] = True
        else:
            mask |= hits

    def kept(self, keep: Mask, moved: NDArray[np.int64]) -> _Parts:
        """What is left of the column where only some of the segment's rows are kept, and where they move."""
        self.verify()
        values = self.values
        rows = self._rows if len(self._rows) else np.arange(len(values))
        chosen = keep[rows]
        rows, values = moved[rows[chosen]], values[chosen]
        if not len(self._starts):
            return _Parts(rows, values)
        used, values = np.unique(values, return_inverse=True)
        return _Parts(rows, values, [self.text(place) for place in used.tolist()])

    @cached_property
    def _is_sound(self) -> bool:
        count, rows, starts, dictionary = len(self.values), self._rows, self._starts, self._dictionary
        if len(rows):
            if len(rows) != count or (rows[1:] < rows[:-1]).any() or int(rows[-1]) >= self._segment_rows:
                return False
        elif count != self._segment_rows:
            return False
        if not len(starts):
            return True
        if int(starts[0]) or int(starts[-1]) != len(dictionary) or (starts[1:] <= starts[:-1]).any():
            return False
        ended = (dictionary[starts[1:] - 1] == _END[0]).all()
        return bool(ended and (not count or self.values.max() < self.text_count))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a column is made of; ``values`` are places in ``texts``, which rise, where there are any."""

    rows: NDArray[Any]
    values: NDArray[Any]
    texts: list[bytes] | None = None


class _Cursor:
    """Takes one array after the other out of a segment."""

    def __init__(self, data: Bytes, where: str, offset: int = 0) -> None:
        self._data, self._where, self._offset = data, where, offset

    def take(self, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """The next ``count`` elements, without copying them.

        Raises:
            StoreDamagedError: there are not so many.
        """
        start, end = self._offset, self._offset + count * dtype.itemsize
        if end > len(self._data):
            raise StoreDamagedError(f"{self._where}: holds {len(self._data)} bytes; expected at least {end}")
        self._offset = end + -end % _ALIGNMENT
        return self._data[start:end].view(dtype)


def _parts(kind: ValueType, rows: Sequence[int], values: Sequence[Any]) -> _Parts:
    if kind is ValueType.LIST:
        rows = [row for row, items in zip(rows, values, strict=True) for _ in items]
        values = list(chain.from_iterable(values))
    if kind in (ValueType.TEXT, ValueType.LIST):
        texts, places = _dictionary([encode(text) for text in values])
        return _Parts(np.array(rows), places, texts)
    return _Parts(np.array(rows), np.array(values, dtype=_DTYPES[kind]))


def _dictionary(texts: Sequence[bytes]) -> tuple[list[bytes], NDArray[Any]]:
    distinct = sorted(set(texts))
    places = {text: place for place, text in enumerate(distinct)}
    return distinct, np.array([places[text] for text in texts], dtype=_DTYPES[ValueType.TEXT])


def _joined(pieces: Sequence[_Parts]) -> _Parts:
    """One column from the columns of segments that follow each other."""
    rows = np.concatenate([piece.rows for piece in pieces])
    if pieces[0].texts is None:
        return _Parts(rows, np.concatenate([piece.values for piece in pieces]))
    texts = sorted(set().union(*(piece.texts or () for piece in pieces)))
    places = {text: place for place, text in enumerate(texts)}
    moved = [np.array([places[text] for text in piece.texts or ()], dtype=np.int64) for piece in pieces]
    values = [new[piece.values] for new, piece in zip(moved, pieces, strict=True)]
    return _Parts(rows, np.concatenate(values), texts)


def _segment(first_row: int, rows: int, parts: Mapping[tuple[str, ValueType], _Parts]) -> bytes:
    parts = dict(sorted(parts.items()))
    names = [encode(name) for name, _ in parts]
    header = np.array([(_MAGIC, FORMAT, len(parts), first_row, rows, len(b"".join(names)), 0)], dtype=HEADER)[0]
    directory = np.zeros(len(parts), dtype=ENTRY)
    offset = HEADER.itemsize + directory.nbytes + len(_aligned(b"".join(names)))
    blocks = []
    for place, ((_, kind), part) in enumerate(parts.items()):
        block, sizes = _column(kind, part, rows)
        directory[place] = (offset, *sizes, len(names[place]), kind)
        blocks.append(block)
        offset += len(block)
    header["checksum"] = _checksum(header, directory, b"".join(names))
    return b"".join((header.tobytes(), directory.tobytes(), _aligned(b"".join(names)), *blocks))


def _column(kind: ValueType, part: _Parts, segment_rows: int) -> tuple[bytes, tuple[int, ...]]:
    """The bytes of a column, and the sizes that the directory tells."""
    stored = part.rows[:0] if np.array_equal(part.rows, np.arange(segment_rows)) else part.rows
    starts, dictionary = np.empty(0, dtype=_PLACE), b""
    if part.texts is not None:
        starts = np.cumsum([0, *(len(text) + 1 for text in part.texts)])
        dictionary = b"".join(text + _END for text in part.texts)
    arrays = (
        stored.astype(_ROW).tobytes(),
        part.values.astype(_DTYPES[kind]).tobytes(),
        starts.astype(_PLACE).tobytes(),
        dictionary,
    )
    sizes = (len(stored), len(part.values), max(len(starts) - 1, 0), len(dictionary))
    return b"".join(map(_aligned, arrays)), sizes


def _checksum(header: np.void, directory: NDArray[Any], names: bytes) -> int:
    start = header.tobytes()[: -HEADER["checksum"].itemsize]
    return zlib.crc32(names, zlib.crc32(directory.tobytes(), zlib.crc32(start)))


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


def _check_order(segments: Sequence[Segment], first_row: int) -> str | None:
    """What is wrong with the order of segments that should follow each other from a row."""
    for segment in segments:
        if segment.first_row != first_row:
            return f"a segment begins at row {segment.first_row}; expected {first_row}"
        first_row += segment.rows
    return None
