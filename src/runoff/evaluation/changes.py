"""Which questions a second stage helped and which it hurt, with what stood at the top before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .collection import Query
from .summary import Outcome
from .texts import Texts

MEASURE = "nDCG@10"
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A document in a ranking: rank from 1, id, grade (0 where it is not judged) and the beginning of its text."""

    rank: int
    document: str
    grade: int
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A question whose score changed.

    Attributes:
        id: the question's id.
        question: its text.
        before: nDCG@10 of the baseline, 0..1.
        after: nDCG@10 of the other.
        top_before: the baseline's first documents.
        top_after: the other's.
        relevant: every relevant document, with its rank before and after; None where it is not in the ranking.
    """

    id: str
    question: str
    before: float
    after: float
    top_before: tuple[Place, ...]
    top_after: tuple[Place, ...]
    relevant: Mapping[str, tuple[int | None, int | None]]

    @property
    def gain(self) -> float:
        """How much better the question is answered, -1..1."""
        return self.after - self.before


def between(baseline: Outcome, other: Outcome, queries: Sequence[Query], texts: Texts) -> tuple[Change, ...]:
    """The questions whose score changed, the most helped first and the most hurt last."""
    pairs = zip(queries, baseline.stage.scores[MEASURE], other.stage.scores[MEASURE], strict=True)
    changed = [
        Change(
            id=query.id,
            question=query.text,
            before=before,
            after=after,
            top_before=_top(baseline.rankings[query.id], query, texts),
            top_after=_top(other.rankings[query.id], query, texts),
            relevant={
                key: (_rank(baseline.rankings[query.id], key), _rank(other.rankings[query.id], key))
                for key, grade in query.relevant.items()
                if grade >= 1
            },
        )
        for query, before, after in pairs
        if before != after
    ]
    return tuple(sorted(changed, key=lambda change: (-change.gain, change.id)))


def _top(ranking: Sequence[str], query: Query, texts: Texts) -> tuple[Place, ...]:
    first = enumerate(ranking[:SHOWN], start=1)
    return tuple(Place(rank, key, query.relevant.get(key, 0), texts.label(key)) for rank, key in first)


def _rank(ranking: Sequence[str], key: str) -> int | None:
    return ranking.index(key) + 1 if key in ranking else None
