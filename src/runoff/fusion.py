"""Puts the dense and the lexical list together: which passages the runoff gets to see.

Each function takes the two lists, best first, and returns the rows of both with a fused score, best first, ties by row.
A row that stands in both lists appears once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import QueryError

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]

RRF_RANK = 60


@dataclass(frozen=True, slots=True)
class Ranked:
    """One list: rows best first, int64, and their scores, float32, of the same shape."""

    rows: Rows
    scores: Scores

    def rank_of(self, rows: Rows) -> NDArray[np.int64]:
        """Rank from 1 of each row, 0 where the list does not have it."""
        return _places(self.rows, rows) + 1

    def score_of(self, rows: Rows) -> Scores:
        """Score of each row, 0 where the list does not have it."""
        places = _places(self.rows, rows)
        padded = np.concatenate([self.scores, np.zeros(1, dtype=np.float32)])
        return np.asarray(padded[places])

    def first(self, count: int) -> Ranked:
        """The list's beginning."""
        return Ranked(self.rows[:count], self.scores[:count])


class Fusion(Protocol):
    """A way to fuse.

    Args:
        dense: the dense list.
        lexical: the lexical list.
        similarities: cosine similarity to the query of every row of either list, also of those that only the lexical
            list has, float32, in the order of ``union(dense, lexical)``.
        count: number of rows wanted.
    """

    def __call__(self, dense: Ranked, lexical: Ranked, similarities: Scores, count: int) -> Ranked: ...


def union(*lists: Ranked) -> Rows:
    """The rows of all lists, each once, ascending."""
    return np.unique(np.concatenate([ranked.rows for ranked in lists]))


@dataclass(frozen=True, slots=True)
class ReciprocalRank:
    """Weighted reciprocal rank fusion: the sum of weight / (60 + rank) over the lists that have the row, rank from 1.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009, with a weight for the lexical list; the dense one weighs 1.

    Raises:
        QueryError: the weight is no finite number of at least 0.
    """

    lexical_weight: float = 1.0

    def __post_init__(self) -> None:
        _check_number("lexical_weight", self.lexical_weight)

    def __call__(self, dense: Ranked, lexical: Ranked, similarities: Scores, count: int) -> Ranked:
        """The first ``count`` rows."""
        rows = union(dense, lexical)
        scores = _reciprocal(dense, rows) + self.lexical_weight * _reciprocal(lexical, rows)
        return best(rows, scores.astype(np.float32), count)


@dataclass(frozen=True, slots=True)
class Convex:
    """Cosine similarity plus weight x (BM25 score / the query's best BM25 score), 0 where a row was not found by BM25.

    A linear combination of normalised scores: Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid
    retrieval", ACM TOIS 42(1), 2023.

    Raises:
        QueryError: the weight is no finite number of at least 0.
    """

    lexical_weight: float

    def __post_init__(self) -> None:
        _check_number("lexical_weight", self.lexical_weight)

    def __call__(self, dense: Ranked, lexical: Ranked, similarities: Scores, count: int) -> Ranked:
        """The first ``count`` rows."""
        rows = union(dense, lexical)
        top = lexical.scores[:1].max(initial=0)
        share = lexical.score_of(rows) / top if top > 0 else np.zeros(len(rows), dtype=np.float32)
        return best(rows, similarities + np.float32(self.lexical_weight) * share, count)


@dataclass(frozen=True, slots=True)
class Seats:
    """The dense list in its order, but for the last places, which go to the best of the lexical list not yet seated.

    ``lexical_seats`` is the share of the places that are the lexical list's, 0..1. The score is the cosine similarity.
    Places that one list cannot fill go to the other.

    Raises:
        QueryError: the share is out of range.
    """

    lexical_seats: float

    def __post_init__(self) -> None:
        _check_number("lexical_seats", self.lexical_seats, most=1)

    def __call__(self, dense: Ranked, lexical: Ranked, similarities: Scores, count: int) -> Ranked:
        """The first ``count`` rows."""
        seats = round(self.lexical_seats * count)
        seated = dense.rows[: count - seats]
        others = lexical.rows[~np.isin(lexical.rows, seated)]
        rest = dense.rows[count - seats :]
        rows = np.concatenate([seated, others[: max(seats, count - len(dense.rows))]])
        rows = np.concatenate([rows, rest[~np.isin(rest, rows)]])[:count]
        return Ranked(rows, similarities[_places(union(dense, lexical), rows)])


def check_fusion(fusion: object) -> None:
    """Raises: QueryError: it is none of the fusions of this module."""
    if not isinstance(fusion, ReciprocalRank | Convex | Seats):
        raise QueryError(f"fusion: got {fusion!r:.80}; expected ReciprocalRank, Convex or Seats of runoff.fusion")


def _check_number(name: str, value: float, most: float = math.inf) -> None:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most and value < math.inf
    if not sound:
        bound = "of at least 0" if most == math.inf else f"0 to {most:g}"
        raise QueryError(f"{name}: got {value!r}; expected a number {bound}")


def best(rows: Rows, scores: Scores, count: int) -> Ranked:
    """The ``count`` rows with the highest scores, ties by row."""
    order = np.lexsort((rows, -scores))[:count]
    return Ranked(rows[order], scores[order])


def _reciprocal(ranked: Ranked, rows: Rows) -> NDArray[np.float64]:
    ranks = ranked.rank_of(rows)
    return np.where(ranks > 0, 1.0 / (RRF_RANK + ranks), 0.0)


def _places(rows: Rows, wanted: Sequence[int] | Rows) -> NDArray[np.int64]:
    """Position in ``rows`` of each wanted row, -1 where it is missing."""
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    places = np.minimum(np.searchsorted(rows[order], wanted), len(rows) - 1)
    found = order[places]
    return np.where(rows[found] == wanted, found, -1)
