"""Measures by hand, and against ir_measures on random runs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count, repeat
from typing import Any

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, RR, P, R, nDCG

from runoff.errors import QueryError
from runoff.evaluate import (
    MEASURES,
    Question,
    Run,
    average_precision,
    context_precision,
    evaluate,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
    summarize,
)

RANKING = ["a", "b", "c", "d"]
JUDGEMENTS = {"b": 1, "d": 2, "x": 1, "c": 0}
ALL: dict[str, Callable[..., float]] = {
    "precision": precision,
    "recall": recall,
    "reciprocal_rank": reciprocal_rank,
    "average_precision": average_precision,
    "context_precision": context_precision,
    "ndcg": ndcg,
}


@pytest.mark.parametrize(
    ("name", "k", "expected"),
    [
        ("precision", 1, 0),
        ("precision", 2, 1 / 2),
        ("precision", 4, 2 / 4),
        ("precision", 10, 2 / 10),
        ("recall", 1, 0),
        ("recall", 4, 2 / 3),
        ("recall", 10, 2 / 3),
        ("reciprocal_rank", 1, 0),
        ("reciprocal_rank", None, 1 / 2),
        ("average_precision", None, (1 / 2 + 2 / 4) / 3),
        ("average_precision", 2, (1 / 2) / 3),
        ("context_precision", None, (1 / 2 + 2 / 4) / 2),
        ("context_precision", 2, 1 / 2),
        ("context_precision", 1, 0),
        ("ndcg", None, (1 / math.log2(3) + 2 / math.log2(5)) / (2 + 1 / math.log2(3) + 1 / math.log2(4))),
        ("ndcg", 2, (1 / math.log2(3)) / (2 + 1 / math.log2(3))),
        ("ndcg", 1, 0),
    ],
)
def test_by_hand(name: str, k: int | None, expected: float) -> None:
    assert ALL[name](RANKING, JUDGEMENTS, k) == pytest.approx(expected, abs=1e-15)


def test_the_example_of_context_precision_with_relevant_contexts_at_ranks_one_and_three() -> None:
    assert context_precision([1, 2, 3], {1: 1, 3: 1}) == pytest.approx((1 + 2 / 3) / 2)


def test_context_precision_ignores_what_was_not_retrieved() -> None:
    assert context_precision(["a"], {"a": 1, "b": 1}) == 1
    assert average_precision(["a"], {"a": 1, "b": 1}) == 1 / 2


def test_a_perfect_ranking_scores_one() -> None:
    judgements = {"a": 3, "b": 2, "c": 1}
    for name in ("reciprocal_rank", "average_precision", "context_precision", "ndcg"):
        assert ALL[name](["a", "b", "c"], judgements) == pytest.approx(1)
    assert precision(["a", "b", "c"], judgements, 3) == recall(["a", "b", "c"], judgements, 3) == 1


def test_the_gain_is_linear_in_the_grade() -> None:
    exponential = (2**1 - 1 + (2**3 - 1) / math.log2(3)) / (2**3 - 1 + (2**1 - 1) / math.log2(3))
    assert ndcg(["a", "b"], {"a": 1, "b": 3}) == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))
    assert ndcg(["a", "b"], {"a": 1, "b": 3}) > exponential


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("judgements", [{}, {"a": 0}, {"a": -1, "b": 0}, {"x": 1}])
def test_zero_without_a_relevant_id_in_reach(name: str, judgements: Mapping[str, int]) -> None:
    assert ALL[name](RANKING, judgements, 4) == 0
    assert ALL[name]([], judgements, 4) == 0


@pytest.mark.parametrize("name", ALL)
def test_an_id_twice_is_an_error(name: str) -> None:
    with pytest.raises(QueryError, match="'a' is in it twice"):
        ALL[name](["b", "a", "a"], JUDGEMENTS, 2)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("k", [0, -3])
def test_k_below_one_is_an_error(name: str, k: int) -> None:
    with pytest.raises(QueryError, match=rf"k={k}: expected 1 or more"):
        ALL[name](RANKING, JUDGEMENTS, k)


def random_topics(rng: random.Random) -> list[tuple[list[str], dict[str, int]]]:
    pool = [f"d{number}" for number in range(40)]
    return [
        (
            rng.sample(pool, rng.randint(1, 30)),
            {item: rng.choice([-1, 0, 0, 1, 1, 2, 3]) for item in rng.sample(pool, rng.randint(1, 25))},
        )
        for _ in range(300)
    ]


def test_ir_measures_agrees() -> None:
    topics = random_topics(random.Random(2))
    ours: dict[Any, Callable[[Sequence[str], Mapping[str, int]], float]] = {
        RR: reciprocal_rank,
        AP: average_precision,
        nDCG: ndcg,
    }
    for k in (1, 3, 5, 10, 20, 100):
        ours[P @ k] = lambda ranking, judgements, k=k: precision(ranking, judgements, k)  # type: ignore[misc]
        ours[R @ k] = lambda ranking, judgements, k=k: recall(ranking, judgements, k)  # type: ignore[misc]
        ours[RR @ k] = lambda ranking, judgements, k=k: reciprocal_rank(ranking, judgements, k)  # type: ignore[misc]
        ours[AP @ k] = lambda ranking, judgements, k=k: average_precision(ranking, judgements, k)  # type: ignore[misc]
        ours[nDCG @ k] = lambda ranking, judgements, k=k: ndcg(ranking, judgements, k)  # type: ignore[misc]
    qrels = [
        ir_measures.Qrel(str(topic), item, grade)
        for topic, (_, judgements) in enumerate(topics)
        for item, grade in judgements.items()
    ]
    run = [
        ir_measures.ScoredDoc(str(topic), item, 1000.0 - rank)
        for topic, (ranking, _) in enumerate(topics)
        for rank, item in enumerate(ranking)
    ]
    compared = 0
    for metric in ir_measures.iter_calc(list(ours), qrels, run):
        ranking, judgements = topics[int(metric.query_id)]
        assert ours[metric.measure](ranking, judgements) == pytest.approx(metric.value, abs=1e-9), metric
        compared += 1
    assert compared == len(ours) * len(topics)


QUESTIONS = [Question("first?", {"a": 1}), Question("second?", {"b": 1}), Question("third?", {"z": 1})]


def ticking(*steps: float) -> Callable[[], float]:
    """A clock that shows the given times, in seconds."""
    return iter(steps).__next__


def test_evaluate_reports_means_and_time_of_each_stage() -> None:
    asked: list[tuple[str, str]] = []

    def ranker(name: str, ranking: list[str]) -> Callable[[str], list[str]]:
        return lambda question: asked.append((name, question)) or ranking  # type: ignore[func-returns-value]

    clock = ticking(0, 0.010, 1, 1.100, 2, 2.020, 3, 3.200, 4, 4.030, 5, 5.300)
    report = evaluate(
        QUESTIONS, {"dense": ranker("dense", ["a", "b"]), "rerank": ranker("rerank", ["b", "a"])}, clock=clock
    )
    assert report.questions == 3
    dense, rerank = report.stages
    assert dense.milliseconds == pytest.approx((10, 20, 30))
    assert rerank.milliseconds == pytest.approx((100, 200, 300))
    assert dense.scores["mrr@10"] == (1, 1 / 2, 0)
    assert rerank.means["mrr@10"] == pytest.approx(1 / 2)
    assert dense.means["precision@5"] == pytest.approx(2 / 15)
    assert set(dense.means) == set(MEASURES)
    assert report.stage("rerank") is rerank
    assert asked[:3] == [("dense", "first?"), ("rerank", "first?"), ("dense", "second?")]


def test_the_default_clock_moves_forward() -> None:
    report = evaluate(QUESTIONS, {"dense": lambda _: ["a"]})
    assert all(time >= 0 for time in report.stage("dense").milliseconds)


def test_summarize_takes_times_and_measures_of_the_caller() -> None:
    runs = [Run(["a"], 5), Run(["a", "b"], 7), Run([], 1)]
    report = summarize(QUESTIONS, {"dense": runs}, measures={"hits": lambda r, j: sum(item in j for item in r)})
    assert report.stage("dense").scores == {"hits": (1, 1, 0)}
    assert report.stage("dense").milliseconds == (5, 7, 1)


def test_percentiles_are_observed_times() -> None:
    rng = random.Random(3)
    for size in (1, 2, 3, 19, 20, 21, 100):
        times = [rng.random() * 100 for _ in range(size)]
        questions = list(repeat(QUESTIONS[0], size))
        stage = summarize(questions, {"s": [Run(["a"], time) for time in times]}).stage("s")
        for share in (0, 0.5, 0.9, 0.95, 0.99, 1):
            assert stage.percentile(share) == np.percentile(times, share * 100, method="inverted_cdf")


@pytest.mark.parametrize("share", [-0.1, 1.5, 95, math.nan])
def test_a_percentile_is_a_share(share: float) -> None:
    stage = evaluate(QUESTIONS, {"s": lambda _: ["a"]}, clock=count().__next__).stage("s")
    with pytest.raises(QueryError, match="expected a share between 0 and 1"):
        stage.percentile(share)


def test_what_cannot_be_evaluated_is_an_error() -> None:
    with pytest.raises(QueryError, match="no questions"):
        evaluate([], {"s": lambda _: ["a"]})
    with pytest.raises(QueryError, match=r"stage 's': 1 runs for 3 questions"):
        summarize(QUESTIONS, {"s": [Run(["a"], 1)]})
    with pytest.raises(QueryError, match="id 'a' is in it twice"):
        evaluate(QUESTIONS, {"s": lambda _: ["a", "a"]})
    with pytest.raises(QueryError, match="stage 'other': expected one of s"):
        evaluate(QUESTIONS, {"s": lambda _: ["a"]}).stage("other")
