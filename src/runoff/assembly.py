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

Ids = NDArray[Any]

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

    Raises:
        QueryError: another dtype or shape, or a row that reaches outside of ``ids``.
    """

    ids: NDArray[Any]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]

    def __post_init__(self) -> None:
        _check("ids", self.ids, np.uint16, np.int32)
        _check("starts", self.starts, np.int64)
        _check("lengths", self.lengths, np.int32)
        if self.starts.shape != self.lengths.shape:
            raise QueryError(f"got {len(self.starts)} starts and {len(self.lengths)} lengths; expected as many of both")
        if ((self.starts < 0) | (self.lengths < 0) | (self.starts > len(self.ids) - self.lengths)).any():
            raise QueryError(f"starts and lengths reach outside of the {len(self.ids)} cached ids; expected rows of it")

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, positions: NDArray[np.int64]) -> Passages:
        """The passages at ``positions``, over the same cache."""
        return Passages(self.ids, self.starts[positions], self.lengths[positions])

    @classmethod
    def pack(cls, tokens: Sequence[NDArray[Any]]) -> Passages:
        """Passages from one array of ids each."""
        lengths = np.array([len(ids) for ids in tokens], dtype=np.int32)
        flat = np.concatenate([*tokens, np.empty(0, np.int32)]).astype(np.int32)
        return cls(flat, np.cumsum(lengths, dtype=np.int64) - lengths, lengths)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Assembled pairs, one after the other.

    Attributes:
        ids: int64 or int32, flat: token ids.
        types: likewise: 0 up to the query's ``[SEP]``, 1 for the passage and its ``[SEP]``, 0 on padding.
        mask: likewise: 1 on tokens, 0 on padding.
        offsets: int64, shape [n + 1]: pair i lies at ``[offsets[i], offsets[i + 1])``.
        truncated: bool, shape [n]: whether the passage was cut.
        query_truncated: whether the query was capped.
    """

    ids: Ids
    types: Ids
    mask: Ids
    offsets: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    query_truncated: bool

    def __len__(self) -> int:
        return len(self.truncated)

    @property
    def widths(self) -> NDArray[np.int64]:
        """Tokens of each pair, padding included: int64, shape [n]."""
        return np.diff(self.offsets)

    def batch(self, first: int, last: int) -> tuple[Ids, Ids, Ids]:
        """Ids, types and mask of pairs of equal width as arrays of shape [last - first, width]; views, no copies."""
        low, high = self.offsets[first], self.offsets[last]
        ids, types, mask = (a[low:high].reshape(last - first, -1) for a in (self.ids, self.types, self.mask))
        return ids, types, mask


def packed(
    query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens, dtype: type = np.int64
) -> Pairs:
    """Pairs without any padding.

    Args:
        query: int32, flat: the query's word-piece ids.
        passages: what to pair it with.
        max_length: most tokens in a pair.
        special: ids of ``[CLS]``, ``[SEP]`` and padding.
        dtype: of ids, types and mask: int64 (ONNX graphs) or int32.

    Raises:
        QueryError: ``max_length`` leaves no room for a query, or the query is no flat array of int32.
    """
    return _assemble(query, passages, max_length, special, dtype, pad=False)


def padded(
    query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens, dtype: type = np.int64
) -> Pairs:
    """Pairs all padded to the longest one; arguments and errors as for ``packed``."""
    return _assemble(query, passages, max_length, special, dtype, pad=True)


def single(texts: Passages, max_length: int, special: SpecialTokens, dtype: type = np.int64) -> Pairs:
    """Texts alone, ``[CLS] text [SEP]``, without any padding: what a bi-encoder reads; arguments as for ``packed``."""
    room = max_length - SPECIALS + 1
    lengths = np.minimum(texts.lengths, room).astype(np.int64)
    offsets = _offsets(lengths + 2)
    ids = np.empty(offsets[-1], dtype=dtype)
    ids[offsets[:-1]], ids[offsets[1:] - 1] = special.cls, special.sep
    for at, start, length in zip(offsets.tolist(), texts.starts.tolist(), lengths.tolist(), strict=False):
        ids[at + 1 : at + 1 + length] = texts.ids[start : start + length]
    return Pairs(ids, np.zeros_like(ids), np.ones_like(ids), offsets, texts.lengths > room, False)


def reference(query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens) -> list[list[int]]:
    """The token ids of every pair by plain lists: what ``packed`` is tested against, errors included."""
    if max_query(max_length) < 1:
        raise QueryError("max_length: no room for a query")
    if not isinstance(query, np.ndarray) or query.dtype != np.int32 or query.ndim != 1:
        raise QueryError("query: not a flat array of int32")
    asked = query[: max_query(max_length)].tolist()
    room = max_length - SPECIALS - len(asked)
    pairs = []
    for start, length in zip(passages.starts.tolist(), passages.lengths.tolist(), strict=True):
        if start < 0 or length < 0 or start + length > len(passages.ids):
            raise QueryError("passages: outside of the cache")
        text = passages.ids[start : start + min(length, room)].tolist()
        pairs.append([special.cls, *asked, special.sep, *text, special.sep])
    return pairs


def max_query(max_length: int) -> int:
    """Most tokens of a query in a pair of ``max_length`` tokens."""
    return max_length - SPECIALS - MIN_PASSAGE


def _assemble(
    query: NDArray[np.int32], passages: Passages, max_length: int, special: SpecialTokens, dtype: type, *, pad: bool
) -> Pairs:
    limit = max_query(max_length)
    if limit < 1:
        raise QueryError(f"max_length: got {max_length}; expected at least {SPECIALS + MIN_PASSAGE + 1}")
    _check("query", query, np.int32, contiguous=False)
    asked = np.ascontiguousarray(query[:limit])
    room = max_length - SPECIALS - len(asked)
    lengths = np.minimum(passages.lengths, room).astype(np.int64)
    widths = lengths + (SPECIALS + len(asked))
    if pad and len(widths):
        widths[:] = widths.max()
    offsets = _offsets(widths)
    ids, types, mask = np.empty((3, max(0, offsets[-1])), dtype=dtype)
    written = _pairs.assemble(
        asked, passages.ids, passages.starts, lengths, offsets, ids, types, mask, special.cls, special.sep, special.pad
    )
    if written < len(passages):
        raise QueryError(f"passages: row {written} reaches outside of the {len(passages.ids)} cached ids")
    return Pairs(ids, types, mask, offsets, passages.lengths > room, len(query) > limit)


def _offsets(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(widths) + 1, dtype=np.int64)
    np.cumsum(widths, out=offsets[1:])
    return offsets


def _check(name: str, array: object, *dtypes: type, contiguous: bool = True) -> None:
    wanted = " or ".join(dtype.__name__ for dtype in dtypes)
    if not isinstance(array, np.ndarray):
        raise QueryError(f"{name}: got {type(array).__name__}; expected an array of {wanted}")
    if array.ndim != 1 or array.dtype not in dtypes or (contiguous and not array.flags.c_contiguous):
        layout = "" if array.flags.c_contiguous else " with gaps"
        raise QueryError(f"{name}: got {array.dtype} of shape {array.shape}{layout}; expected flat {wanted}")
