"""Is a difference between two rankings more than chance? A paired test and an interval, both by resampling questions.

Neither assumes a distribution of the scores: most of them are 0 or 1 for a question with one relevant document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError

RESAMPLES = 10_000
CONFIDENCE = 0.95
# Up to this many questions that differ, every assignment of signs is tried, so that p is exact.
EXACT = 14
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one ranking is than another over the same questions.

    Attributes:
        mean: mean of the differences, question by question.
        low: lower end of the 95% interval of that mean.
        high: upper end.
        p: two-sided p of the paired randomisation test, 0 < p <= 1.
        better: number of questions where the first is better.
        worse: number of questions where it is worse.
    """

    mean: float
    low: float
    high: float
    p: float
    better: int
    worse: int


def compare(scores: Sequence[float], baseline: Sequence[float], *, seed: int) -> Difference:
    """The difference of two rankings' scores.

    Args:
        scores: the score of each question, any unit.
        baseline: the other ranking's, for the same questions in the same order.
        seed: of the resampling; the same seed gives the same result.

    Raises:
        QueryError: there is no question, or the counts differ.
    """
    if not scores or len(scores) != len(baseline):
        raise QueryError(f"{len(scores)} and {len(baseline)} scores; expected one a question for both, at least one")
    gaps = np.asarray(scores, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    low, high = interval(gaps, seed=seed)
    return Difference(
        mean=float(gaps.mean()),
        low=low,
        high=high,
        p=randomisation(gaps, seed=seed),
        better=int((gaps > 0).sum()),
        worse=int((gaps < 0).sum()),
    )


def randomisation(gaps: NDArray[np.float64], *, seed: int) -> float:
    """Two-sided p of the paired randomisation test (Fisher's; Smucker, Allan and Carterette, CIKM 2007).

    Were there no difference, each question's gap would as soon have the other sign. p is the share of sign assignments
    whose mean is at least as far from 0 as the one observed: of all assignments where up to ``EXACT`` gaps are not 0,
    else of 10,000 drawn ones with the observed one among them (p = (1 + hits) / (1 + draws), so never 0).

    Args:
        gaps: float64, shape [questions].
        seed: of the draws.
    """
    moved = np.abs(gaps[gaps != 0])
    if not moved.size:
        return 1.0
    # A mean that ties with the observed one must count although its terms were added in another order.
    observed = abs(float(gaps.sum())) - 1e-9
    if moved.size <= EXACT:
        signs = 1.0 - 2.0 * ((np.arange(2**moved.size)[:, None] >> np.arange(moved.size)) & 1)
        return float((np.abs(signs @ moved) >= observed).mean())
    rng = np.random.default_rng(seed)
    hits = sum(
        int((np.abs((1.0 - 2.0 * rng.integers(0, 2, size=(rows, moved.size))) @ moved) >= observed).sum())
        for rows in _blocks()
    )
    return (1 + hits) / (1 + RESAMPLES)


def interval(values: NDArray[np.float64], *, seed: int) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean by percentiles (Efron 1979), from 10,000 resamples of the questions.

    Args:
        values: float64, shape [questions], at least one.
        seed: of the resampling.
    """
    rng = np.random.default_rng(seed)
    means = np.concatenate(
        [values[rng.integers(0, values.size, size=(rows, values.size))].mean(axis=1) for rows in _blocks()]
    )
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def holm(p: Sequence[float]) -> list[float]:
    """p-values of one family adjusted for their number, in the order given (Holm 1979)."""
    adjusted, worst = [0.0] * len(p), 0.0
    for place, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        worst = max(worst, min(1.0, (len(p) - place) * p[index]))
        adjusted[index] = worst
    return adjusted


def _blocks() -> Iterator[int]:
    """Sizes of the blocks in which resamples are drawn, so that memory stays bounded."""
    yield from [_BLOCK] * (RESAMPLES // _BLOCK)
    if RESAMPLES % _BLOCK:
        yield RESAMPLES % _BLOCK
