"""The part of a long passage that a cross-encoder should read when there is no time for all of it.

A window begins where a sentence does, and of all such windows it is the one that holds the weightiest words of the
query, the earliest of equal ones. A word weighs the more, the fewer of the other candidates have it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .assembly import Passages

Ids = NDArray[np.int32]

# The weight of a word that all candidates have; one that a single one of twenty has weighs 2.45.
COMMON = 0.1
# What a window loses for each token that it begins later.
LATER = 0.0001


def narrow(query_ids: Ids, passages: Passages, tokens: int, sentence_ends: Ids) -> Passages:
    """The best window of ``tokens`` tokens of each passage; shorter passages whole.

    Args:
        query_ids: int32: the query's word-piece ids.
        passages: rows of a token cache; windows are rows of the same.
        tokens: length of a window, at least 1.
        sentence_ends: int32: ids of the word pieces that end a sentence.
    """
    long = np.flatnonzero(passages.lengths > tokens)
    if not len(long):
        return passages
    words = np.unique(query_ids)
    rows = [_row(passages, place) for place in range(len(passages))]
    having = np.array([np.isin(words, row) for row in rows]).sum(axis=0)
    weights = np.log1p(len(rows) / np.maximum(having, 1)) - np.log(2.0) + COMMON
    starts = passages.starts.copy()
    for place in long.tolist():
        starts[place] += _best_start(rows[place], words, weights, tokens, sentence_ends)
    return Passages(passages.ids, starts, np.minimum(passages.lengths, np.int32(tokens)))


def _best_start(row: NDArray[np.int64], words: Ids, weights: NDArray[np.float64], tokens: int, ends: Ids) -> int:
    latest = len(row) - tokens
    # A sentence that begins later than the last window that is full can still be read whole, from that window's start.
    begins = np.minimum(np.flatnonzero(np.isin(row[:-1], ends)) + 1, latest)
    begins = np.unique(np.concatenate([[0], begins]))
    matches = np.zeros((len(words), len(row) + 1), dtype=np.int64)
    np.cumsum(words[:, None] == row, axis=1, out=matches[:, 1:])
    covered = matches[:, begins + tokens] > matches[:, begins]
    return int(begins[np.argmax(weights @ covered - LATER * begins)])


def _row(passages: Passages, place: int) -> NDArray[np.int64]:
    start = int(passages.starts[place])
    return passages.ids[start : start + int(passages.lengths[place])].astype(np.int64)
