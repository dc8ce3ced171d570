"""Finds rows by 64-bit keys, in runs of sorted keys, so that neither a look-up nor more rows cost a pass over all.

Runs are merged with neighbours of about their size, as in a log-structured merge tree (O'Neil et al., "The
log-structured merge-tree", Acta Informatica 33, 1996), so a row is sorted again only when its run has grown by half.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.uint64]
Rows = NDArray[np.int64]

_SIMILAR = 2


class Keys:
    """Which rows have a key; a key may have several. It never changes, and threads may share it."""

    def __init__(self, values: Values) -> None:
        """Rows from 0 on, each with its key: uint64, shape [rows]."""
        self.rows = len(values)
        self._runs = [_sorted(values, np.arange(len(values)))] if len(values) else []

    def extended(self, values: Values) -> Keys:
        """With the keys of rows that come behind."""
        more = Keys(np.empty(0, dtype=np.uint64))
        more.rows, more._runs = self.rows + len(values), list(self._runs)
        if len(values):
            last, rows = values, np.arange(self.rows, more.rows)
            while more._runs and len(more._runs[-1][0]) <= _SIMILAR * len(last):
                before = more._runs.pop()
                last, rows = np.concatenate([before[0], last]), np.concatenate([before[1], rows])
            more._runs.append(_sorted(last, rows))
        return more

    def find(self, wanted: Iterable[int] | Values) -> Rows:
        """Rows that have one of some keys, ascending."""
        values = np.unique(np.fromiter(wanted, dtype=np.uint64))
        found = [np.empty(0, dtype=np.int64)]
        for run, rows in self._runs:
            low = np.searchsorted(run, values, side="left")
            high = np.searchsorted(run, values, side="right")
            found.extend(rows[start:end] for start, end in zip(low.tolist(), high.tolist(), strict=True) if start < end)
        return np.sort(np.concatenate(found))


def _sorted(values: Values, rows: Rows) -> tuple[Values, Rows]:
    order = np.argsort(values)
    return values[order], rows[order]
