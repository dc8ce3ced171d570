"""Which pairs run together, and in what order.

Runs are sorted longest first, so that workers who take them one by one end at about the same time (Graham 1969, list
scheduling by longest processing time: at most 4/3 of the best possible).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Plan:
    """Order of pairs and the runs they fall into.

    Attributes:
        order: int64, shape [n]: positions of the pairs, longest first, equal lengths by position.
        runs: (first, last) pairs of places in ``order``; run r holds ``order[first:last]``.
    """

    order: NDArray[np.int64]
    runs: tuple[tuple[int, int], ...]


def one_by_one(lengths: NDArray[np.int64]) -> Plan:
    """Each pair a run of its own: no padding, and no score that depends on its neighbours."""
    return Plan(_longest_first(lengths), tuple((i, i + 1) for i in range(len(lengths))))


def batched(lengths: NDArray[np.int64], workers: int, max_tokens: int) -> Plan:
    """Pairs of similar length together, padded to the longest of the run.

    Args:
        lengths: int64, shape [n]: tokens of each pair.
        workers: at least as many runs are made where there are as many pairs, so that none is idle.
        max_tokens: most tokens in a run, padding included; a longer pair is a run of its own.
    """
    order = _longest_first(lengths)
    share = -(-len(lengths) // max(1, workers))
    runs, first = [], 0
    while first < len(order):
        size = max(1, min(share, max_tokens // max(1, int(lengths[order[first]]))))
        runs.append((first, min(first + size, len(order))))
        first = runs[-1][1]
    return Plan(order, tuple(runs))


def _longest_first(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.argsort(-lengths, kind="stable")
