"""What to spend a budget of milliseconds on: how much of each candidate is read, and how many are read.

A window of 128 tokens ranks as well as the whole chunk for two thirds of the work, and the first few of twenty do
nearly as well as all; windows so narrow that twenty fit where time is short rank worse than the first stage does
(the study is in docs/deadlines.md). So windows narrow to 128 first; then candidates are left out, the last of the first
stage first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .assembly import SPECIALS
from .costs import Costs

# Tokens of a passage that may be read, from most to fewest; None reads all.
WINDOWS: tuple[int | None, ...] = (None, 192, 128)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be read.

    Attributes:
        count: candidates, from the first.
        window: most tokens of each, or None for all.
        milliseconds: what it should take.
    """

    count: int
    window: int | None
    milliseconds: float


def choose(
    costs: Costs, query: int, lengths: NDArray[np.int32], longest: int, budget: float, share: float = 1.0
) -> Plan:
    """The plan that reads most within a budget; its count is 0 where not even one candidate fits.

    Args:
        costs: what pairs cost.
        query: tokens of the query.
        lengths: int32, shape [n]: tokens of the candidates, in the first stage's order.
        longest: most tokens of a pair that the model reads.
        budget: milliseconds.
        share: part of the work that has to be affordable, since those who leave early spare the rest.
    """
    for window in WINDOWS:
        read = lengths if window is None else np.minimum(lengths, window)
        work = costs.pairs(np.minimum(read.astype(np.int64) + query + SPECIALS, longest)) * share
        count = costs.fitting(work, budget)
        if count == len(work):
            break
    return Plan(count, window, costs.wall(work[:count]))
