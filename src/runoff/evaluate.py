"""Measures of a ranking against labelled questions: quality, and the time it took.

A ranking is a sequence of ids, best first, each at most once. Judgements map ids to grades: a grade of 1 or more is
relevant, an id without one is not. The measures are those of trec_eval (as in ir_measures, whose results the tests
compare) but for ``context_precision``, which is that of RAGAS. All are between 0 and 1, and 0 for a question that has
no relevant id.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from .errors import QueryError

Ranking = Sequence[Hashable]
Judgements = Mapping[Any, float]
Measure = Callable[[Ranking, Judgements], float]
Ranker = Callable[[str], Ranking]


def precision(ranking: Ranking, judgements: Judgements, k: int) -> float:
    """Share of relevant ids among the first ``k`` places; places that the ranking leaves empty count as not relevant.

    Raises:
        QueryError: ``k`` is below 1, or an id is in the ranking twice.
    """
    return sum(_relevance(ranking, judgements, k)) / k


def recall(ranking: Ranking, judgements: Judgements, k: int) -> float:
    """Share of the relevant ids that is among the first ``k``.

    Raises:
        QueryError: ``k`` is below 1, or an id is in the ranking twice.
    """
    return _share(sum(_relevance(ranking, judgements, k)), _relevant(judgements))


def reciprocal_rank(ranking: Ranking, judgements: Judgements, k: int | None = None) -> float:
    """1 / the rank of the first relevant id, 0 where none is among the first ``k``. Its mean over questions is MRR.

    Raises:
        QueryError: ``k`` is below 1, or an id is in the ranking twice.
    """
    hits = _relevance(ranking, judgements, k)
    return 1 / (hits.index(True) + 1) if True in hits else 0.0


def average_precision(ranking: Ranking, judgements: Judgements, k: int | None = None) -> float:
    """Sum of the precisions at each relevant id among the first ``k``, over the number of all relevant ids.

    Raises:
        QueryError: ``k`` is below 1, or an id is in the ranking twice.
    """
    return _share(sum(_precisions(_relevance(ranking, judgements, k))), _relevant(judgements))


def context_precision(ranking: Ranking, judgements: Judgements, k: int | None = None) -> float:
    """Mean of the precisions at each relevant id among the first ``k``: are the relevant ones first?

    As RAGAS defines it (https://docs.ragas.io/en/stable/concepts/metrics/available_metrics/context_precision/), with
    labels in place of a judging model: unlike ``average_precision`` it does not ask what was not retrieved.

    Raises:
        QueryError: ``k`` is below 1, or an id is in the ranking twice.
    """
    precisions = _precisions(_relevance(ranking, judgements, k))
    return _share(sum(precisions), len(precisions))


def ndcg(ranking: Ranking, judgements: Judgements, k: int | None = None) -> float:
    """Discounted cumulative gain over the first ``k``, as a share of the best possible.

    The gain is the grade itself (linear, as in trec_eval's ndcg_cut and in ir_measures; not 2^grade - 1), the discount
    1 / log2(rank + 1): Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4),
    2002, in the form that trec_eval gives it. Grades below 0 gain nothing.

    Raises:
        QueryError: ``k`` is below 1, or an id is in the ranking twice.
    """
    gains = [judgements.get(item, 0) for item in _first(ranking, k)]
    return _share(_dcg(gains), _dcg(sorted(judgements.values(), reverse=True)[:k]))


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "precision@5": partial(precision, k=5),
        "recall@20": partial(recall, k=20),
        "mrr@10": partial(reciprocal_rank, k=10),
        "ndcg@10": partial(ndcg, k=10),
        "context_precision@5": partial(context_precision, k=5),
    }
)
"""What ``evaluate`` measures by default."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what answers it: grades by id."""

    text: str
    judgements: Judgements


@dataclass(frozen=True, slots=True)
class Run:
    """One stage's answer to one question: ids, best first, and the milliseconds it took."""

    ranking: Ranking
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Stage:
    """How one stage did.

    Attributes:
        name: the stage's name.
        scores: for each measure the score of each question, in their order, 0..1.
        milliseconds: time of each question, in their order.
    """

    name: str
    scores: Mapping[str, tuple[float, ...]]
    milliseconds: tuple[float, ...]

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure over the questions, 0..1."""
        return {name: sum(scores) / len(scores) for name, scores in self.scores.items()}

    def percentile(self, share: float) -> float:
        """The smallest time (milliseconds) within which at least ``share`` (0..1) of the questions were answered.

        Raises:
            QueryError: ``share`` is not between 0 and 1.
        """
        if not 0 <= share <= 1:
            raise QueryError(f"percentile {share}: expected a share between 0 and 1, such as 0.95.")
        rank = max(math.ceil(share * len(self.milliseconds)), 1)
        return sorted(self.milliseconds)[rank - 1]


@dataclass(frozen=True, slots=True)
class Report:
    """How several stages did on the same questions."""

    questions: int
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage:
        """The stage of that name.

        Raises:
            QueryError: there is none.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise QueryError(f"stage {name!r}: expected one of {', '.join(stage.name for stage in self.stages)}.")


def evaluate(
    questions: Sequence[Question],
    rankers: Mapping[str, Ranker],
    *,
    measures: Mapping[str, Measure] = MEASURES,
    clock: Callable[[], float] = time.perf_counter,
) -> Report:
    """Ask every ranker every question, and measure rankings and time.

    The rankers take turns at each question, so that a slow moment of the machine meets all of them.

    Args:
        questions: at least one.
        rankers: by stage name; each takes a question's text and returns ids, best first.
        measures: by name; each takes a ranking and judgements and returns a score, 0..1.
        clock: seconds on any scale that does not go back.

    Raises:
        QueryError: there is no question, or a ranker returned an id twice.
    """
    runs: dict[str, list[Run]] = {name: [] for name in rankers}
    for question in questions:
        for name, ranker in rankers.items():
            runs[name].append(_timed(ranker, question.text, clock))
    return summarize(questions, runs, measures=measures)


def summarize(
    questions: Sequence[Question],
    runs: Mapping[str, Sequence[Run]],
    *,
    measures: Mapping[str, Measure] = MEASURES,
) -> Report:
    """The report on answers that were made and timed elsewhere.

    Args:
        questions: at least one.
        runs: by stage name, one for each question, in the same order.
        measures: by name; each takes a ranking and judgements and returns a score, 0..1.

    Raises:
        QueryError: there is no question, the counts differ, or an id is in a ranking twice.
    """
    if not questions:
        raise QueryError("no questions: expected at least one. Give labelled questions.")
    return Report(len(questions), tuple(_stage(name, questions, runs[name], measures) for name in runs))


def _timed(ranker: Ranker, question: str, clock: Callable[[], float]) -> Run:
    start = clock()
    ranking = ranker(question)
    return Run(ranking, (clock() - start) * 1000)


def _stage(name: str, questions: Sequence[Question], runs: Sequence[Run], measures: Mapping[str, Measure]) -> Stage:
    if len(runs) != len(questions):
        raise QueryError(f"stage {name!r}: {len(runs)} runs for {len(questions)} questions; expected one for each.")
    pairs = list(zip(questions, runs, strict=True))
    scores = {
        measure: tuple(score(run.ranking, question.judgements) for question, run in pairs)
        for measure, score in measures.items()
    }
    return Stage(name, scores, tuple(run.milliseconds for run in runs))


def _first(ranking: Ranking, k: int | None) -> Ranking:
    """The first ``k`` ids of a checked ranking; None takes all."""
    if k is not None and k < 1:
        raise QueryError(f"k={k}: expected 1 or more.")
    if len(set(ranking)) != len(ranking):
        twice = next(item for place, item in enumerate(ranking) if item in ranking[:place])
        raise QueryError(f"ranking: id {twice!r} is in it twice; expected each id once. Keep its best place.")
    return ranking[:k]


def _relevance(ranking: Ranking, judgements: Judgements, k: int | None) -> list[bool]:
    return [judgements.get(item, 0) >= 1 for item in _first(ranking, k)]


def _relevant(judgements: Judgements) -> int:
    return sum(grade >= 1 for grade in judgements.values())


def _precisions(relevance: Sequence[bool]) -> list[float]:
    """The precision at the place of each relevant id."""
    places = [place for place, hit in enumerate(relevance, start=1) if hit]
    return [hits / place for hits, place in enumerate(places, start=1)]


def _dcg(gains: Sequence[float]) -> float:
    return sum(max(gain, 0) / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
