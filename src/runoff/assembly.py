"""Pairs of query and passage as one encoder reads them: ``[CLS] query [SEP] passage [SEP]``.

Only the passage is ever cut to make a pair fit. A query that would leave a passage fewer than ``MIN_PASSAGE`` tokens is
capped, and the result says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _pairs
from .errors import QueryError

Ids = NDArray[np.int64]

SPECIALS = 3
MIN_PASSAGE = 64


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the tokens around and after a text."""

    cls: int = 101
    sep: int = 102
    pad: int = 0


@dataclass(frozen=True, slots=True)
class Passages:
    """Rows of a token cache.

    Attributes:
        ids: uint16 or int32, flat: the word-piece ids of many passages, without special tokens; may be mapped from a
            file and read-only.
        starts: int64, shape [n]: where each passage begins in ``ids``.
        lengths: int32, shape [n]: its number of tokens.
    """

    ids: NDArray[Any]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]

    def __post_init__(self) -> None:
        if self.ids.dtype not in (np.uint16, np.int32) or self.ids.ndim != 1:
            raise ValueError(f"ids: got {self.ids.dtype} of {self.ids.ndim} dimensions; expected flat uint16 or int32")
        if self.starts.shape != self.lengths.shape or self.starts.ndim != 1:
            raise ValueError(f"starts {self.starts.shape} and lengths {self.lengths.shape}; expected equal, one axis")
        if ((self.starts < 0) | (self.lengths < 0) | (self.starts > len(self.ids) - self.lengths)).any():
            raise ValueError(f"starts and lengths reach outside of the {len(self.ids)} cached ids")

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def pack(cls, tokens: Sequence[NDArray[Any]]) -> Passages:
        """Passages from one array of ids each."""
        lengths = np.array([len(ids) for ids in tokens], dtype=np.int32)
        flat = np.concatenate([*tokens, np.empty(0, np.int32)]).astype(np.int32)
        return cls(flat, (np.cumsum(lengths) - lengths).astype(np.int64), lengths)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Assembled pairs, one after the other.

    Attributes:
        ids: int64, flat: token ids.
        types: int64, flat: 0 up to the query's ``[SEP]``, 1 for the passage and its ``[SEP]``, 0 on padding.
        mask: int64, flat: 1 on tokens, 0 on padding.
        offsets: int64, shape [n + 1]: pair i lies at ``[offsets[i], offsets[i + 1])``.
        truncated: bool, shape [n]: whether the passage was cut.
        query_truncated: whether the query was capped.
    """

    ids: Ids
    types: Ids
    mask: Ids
    offsets: Ids
    truncated: NDArray[np.bool_]
    query_truncated: bool

    def __len__(self) -> int:
        return len(self.truncated)

    def batch(self, first: int, last: int) -> tuple[Ids, Ids, Ids]:
        """Ids, types and mask of pairs of equal width as arrays of shape [last - first, width]; views, no copies."""
        low, high = self.offsets[first], self.offsets[last]
        ids, types, mask = (a[low:high].reshape(last - first, -1) for a in (self.ids, self.types, self.mask))
        return ids, types, mask


def packed(query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens) -> Pairs:
    """Pairs without any padding.

    Args:
        query: int32: the query's word-piece ids.
        passages: what to pair it with.
        max_length: most tokens in a pair.

    Raises:
        QueryError: ``max_length`` leaves no room for a query.
    """
    return _assemble(query, passages, max_length, special, pad=False)


def padded(query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens) -> Pairs:
    """Pairs all padded to the longest one."""
    return _assemble(query, passages, max_length, special, pad=True)


def single(texts: Passages, max_length: int, special: SpecialTokens) -> Pairs:
    """Texts alone, ``[CLS] text [SEP]``, without any padding: what a bi-encoder reads."""
    room = max_length - SPECIALS + 1
    lengths = np.minimum(texts.lengths, room).astype(np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths + 2, out=offsets[1:])
    ids = np.empty(offsets[-1], dtype=np.int64)
    ids[offsets[:-1]], ids[offsets[1:] - 1] = special.cls, special.sep
    for at, start, length in zip(offsets.tolist(), texts.starts.tolist(), lengths.tolist(), strict=False):
        ids[at + 1 : at + 1 + length] = texts.ids[start : start + length]
    return Pairs(ids, np.zeros_like(ids), np.ones_like(ids), offsets, texts.lengths > room, False)


def reference(query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens) -> list[list[int]]:
    """The token ids of every pair by plain lists: what ``packed`` is tested against."""
    asked = query[: max_query(max_length)].tolist()
    room = max_length - SPECIALS - len(asked)
    rows = zip(passages.starts.tolist(), passages.lengths.tolist(), strict=True)
    texts = [passages.ids[start : start + min(length, room)].tolist() for start, length in rows]
    return [[special.cls, *asked, special.sep, *text, special.sep] for text in texts]


def max_query(max_length: int) -> int:
    """Most tokens of a query in a pair of ``max_length`` tokens."""
    return max_length - SPECIALS - MIN_PASSAGE


def _assemble(
    query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens, *, pad: bool
) -> Pairs:
    limit = max_query(max_length)
    if limit < 1:
        raise QueryError(f"max_length: got {max_length}; expected at least {SPECIALS + MIN_PASSAGE + 1}")
    asked = np.ascontiguousarray(query[:limit], dtype=np.int32)
    room = max_length - SPECIALS - len(asked)
    lengths = np.minimum(passages.lengths, room).astype(np.int64)
    widths = lengths + (SPECIALS + len(asked))
    if pad and len(widths):
        widths[:] = widths.max()
    offsets = np.zeros(len(widths) + 1, dtype=np.int64)
    np.cumsum(widths, out=offsets[1:])
    ids, types, mask = np.empty((3, offsets[-1]), dtype=np.int64)
    _pairs.assemble(
        asked, passages.ids, passages.starts, lengths, offsets, ids, types, mask, special.cls, special.sep, special.pad
    )
    return Pairs(ids, types, mask, offsets, passages.lengths > room, len(query) > limit)
