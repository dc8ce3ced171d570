"""Is a difference between two rankings more than chance? A paired test and an interval, both by resampling questions.

Neither assumes a distribution of the scores: most of them are 0 or 1 for a question with one relevant document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError

Table: TypeAlias = NDArray[np.float64]
Row: TypeAlias = NDArray[np.float64]

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


def compare(scores: Table, baseline: Table, *, seed: int) -> list[Difference]:
    """The difference of two rankings' scores, or of several pairs of rankings over the same questions.

    Args:
        scores: float64, shape [questions, pairs], any unit.
        baseline: the other rankings', of the same shape, the same question in the same row.
        seed: of the resampling; the same seed gives the same result.

    Returns:
        For each column its difference, which does not depend on the other columns.

    Raises:
        QueryError: there is no question, or the shapes differ.
    """
    if not len(scores) or scores.shape != baseline.shape:
        raise QueryError(f"scores of shapes {scores.shape} and {baseline.shape}; expected the same questions for both")
    gaps = scores - baseline
    lows, highs = intervals(gaps, seed=seed)
    p, better, worse = randomisation(gaps, seed=seed), (gaps > 0).sum(axis=0), (gaps < 0).sum(axis=0)
    columns = (each.tolist() for each in (gaps.mean(axis=0), lows, highs, p, better, worse))
    return [Difference(*figures) for figures in zip(*columns, strict=True)]


def randomisation(gaps: Table, *, seed: int) -> Row:
    """Two-sided p of the paired randomisation test (Fisher's; Smucker, Allan and Carterette, CIKM 2007).

    Were there no difference, each question's gap would as soon have the other sign. p is the share of sign assignments
    whose mean is at least as far from 0 as the one observed: of all assignments where up to ``EXACT`` gaps are not 0,
    else of 10,000 drawn ones with the observed one among them (p = (1 + hits) / (1 + draws), so never 0).

    Args:
        gaps: float64, shape [questions, pairs].
        seed: of the draws.

    Returns:
        float64, shape [pairs].
    """
    # A mean that ties with the observed one must count although its terms were added in another order.
    observed = np.abs(gaps.sum(axis=0)) - 1e-9
    hits = np.zeros(gaps.shape[1])
    rng = np.random.default_rng(seed)
    for rows in _blocks():
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(rows, len(gaps)), dtype=np.int8)
        hits += (np.abs(signs @ gaps) >= observed).sum(axis=0)
    p = (1 + hits) / (1 + RESAMPLES)
    few = np.flatnonzero((gaps != 0).sum(axis=0) <= EXACT)
    p[few] = [_exact(column[column != 0], seen) for column, seen in zip(gaps.T[few], observed[few], strict=True)]
    return np.asarray(p)


def intervals(values: Table, *, seed: int) -> tuple[Row, Row]:
    """95% bootstrap intervals of means by percentiles (Efron 1979), from 10,000 resamples of the questions.

    Args:
        values: float64, shape [questions, columns], at least one question.
        seed: of the resampling.

    Returns:
        Lower and upper ends: float64, shape [columns] each.
    """
    size = len(values)
    rng = np.random.default_rng(seed)
    means = []
    for rows in _blocks():
        drawn = rng.integers(0, size, size=(rows, size)) + size * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        means.append(counts @ values / size)
    low, high = np.quantile(np.concatenate(means), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return low, high


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


def _exact(moved: Row, observed: float) -> float:
    """The share of all sign assignments of a few gaps that are as far from 0 as observed."""
    signs = 1.0 - 2.0 * ((np.arange(2**moved.size)[:, None] >> np.arange(moved.size)) & 1)
    return float((np.abs(signs @ moved) >= observed).mean())
