"""Tests and intervals of paired differences, and the scores that they are made of."""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np
import pytest

from runoff.errors import QueryError
from runoff.evaluate import average_precision, ndcg, precision, recall, reciprocal_rank
from runoff.evaluation import measures, significance
from runoff.evaluation.collection import MOST_GRADE


def p_of(gaps: np.ndarray, *, seed: int) -> float:
    return float(significance.randomisation(gaps[:, None], seed=seed)[0])


def interval(values: np.ndarray, *, seed: int) -> tuple[float, float]:
    (low,), (high,) = significance.intervals(values[:, None], seed=seed)
    return float(low), float(high)


def difference(one: list[float], other: list[float], *, seed: int) -> significance.Difference:
    (found,) = significance.compare(np.array(one)[:, None], np.array(other)[:, None], seed=seed)
    return found


def exact_p(gaps: np.ndarray) -> float:
    """The share of all sign assignments that are at least as far from 0, spelt out."""
    sums = [
        abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True)))
        for signs in product((1, -1), repeat=gaps.size)
    ]
    return float(np.mean([total >= abs(gaps.sum()) - 1e-9 for total in sums]))


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_few_questions_are_tested_exactly(size: int) -> None:
    gaps = np.round(np.random.default_rng(size).normal(0.1, 0.3, size), 2)
    assert p_of(gaps, seed=1) == pytest.approx(exact_p(gaps))


def test_questions_without_a_difference_do_not_change_p() -> None:
    gaps = np.array([0.5, 0.25, -0.125, 1.0])
    padded = np.concatenate([gaps, np.zeros(500)])
    assert p_of(padded, seed=1) == p_of(gaps, seed=1)


def test_drawn_signs_agree_with_the_normal_approximation() -> None:
    gaps = np.random.default_rng(4).normal(0.05, 0.5, 400)
    z = abs(gaps.sum()) / np.sqrt((gaps**2).sum())
    assert p_of(gaps, seed=1) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.02)


def test_p_under_no_difference_is_uniform() -> None:
    rng = np.random.default_rng(5)
    p = [p_of(rng.normal(0, 1, 12), seed=1) for _ in range(400)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(p) == pytest.approx(0.5, abs=0.05)


def test_no_difference_has_p_one_and_a_clear_one_a_small_p_that_is_not_zero() -> None:
    same = difference([0.5, 1.0], [0.5, 1.0], seed=1)
    assert (same.p, same.mean, same.low, same.high, same.better, same.worse) == (1.0, 0, 0, 0, 0, 0)
    clear = difference([1.0] * 100, [0.0] * 100, seed=1)
    assert clear.p == 1 / 10_001
    assert (clear.low, clear.high, clear.better) == (1, 1, 100)


def test_the_direction_turns_the_sign_only() -> None:
    rng = np.random.default_rng(6)
    one, other = rng.random(60).tolist(), rng.random(60).tolist()
    forth, back = difference(one, other, seed=3), difference(other, one, seed=3)
    assert (forth.mean, forth.low, forth.high) == pytest.approx((-back.mean, -back.high, -back.low))
    assert (forth.p, forth.better, forth.worse) == (back.p, back.worse, back.better)
    assert forth == difference(one, other, seed=3)


def test_the_interval_is_that_of_the_mean() -> None:
    values = np.random.default_rng(7).normal(10, 2, 500)
    low, high = interval(values, seed=1)
    half = 1.96 * values.std() / np.sqrt(values.size)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


def test_the_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(100):
        low, high = interval((rng.random(80) < 0.4).astype(float), seed=1)
        covered += low <= 0.4 <= high
    assert 88 <= covered <= 100


def test_holm_by_hand() -> None:
    assert significance.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert significance.holm([0.9, 0.8]) == [1.0, 1.0]
    assert significance.holm([]) == []


def test_pairs_side_by_side_give_what_each_gives_alone() -> None:
    rng = np.random.default_rng(9)
    one, other = rng.random((40, 3)), rng.random((40, 3))
    one[:, 1] = other[:, 1]
    one[5:, 2] = other[5:, 2]
    together = significance.compare(one, other, seed=2)
    alone = [difference(one[:, column].tolist(), other[:, column].tolist(), seed=2) for column in range(3)]
    for found, expected in zip(together, alone, strict=True):
        assert found.p == expected.p
        assert (found.mean, found.low, found.high) == pytest.approx((expected.mean, expected.low, expected.high))


@pytest.mark.parametrize(("rows", "others"), [(0, 0), (1, 2)])
def test_scores_must_be_paired(rows: int, others: int) -> None:
    with pytest.raises(QueryError, match="expected the same questions for both"):
        significance.compare(np.zeros((rows, 1)), np.zeros((others, 1)), seed=1)


def test_the_example_that_trec_eval_is_published_with_for_python() -> None:
    # The figures that the README of pytrec_eval prints for its example: trec_eval's map of two topics.
    judgements = {"q1": {"d1": 0, "d2": 1, "d3": 0}, "q2": {"d2": 1, "d3": 1}}
    found = measures.scores({"q1": ["d3", "d1", "d2"], "q2": ["d1", "d3", "d2"]}, judgements)
    assert found["AP"] == pytest.approx({"q1": 0.3333333333333333, "q2": 0.5833333333333333}, abs=1e-12)
    assert found["nDCG@10"] == pytest.approx({"q1": 0.5, "q2": 0.6934264036172708}, abs=1e-12)


# What trec_eval comes with to test itself: three topics of TREC-6 (test/results.test, test/qrels.test). Which of the
# first twenty places hold a relevant document, how many there are in all, and what its own output says
# (test/out.test.aq and test/out.test.a, four digits): by topic, or of all.
TOPICS = {"301": ({6, 7, 16, 18, 20}, 474), "302": ({*range(1, 20)} - {3, 7, 10}, 77), "303": ({19}, 10)}
BY_TOPIC = {
    "P@5": (0.0, 0.8, 0.0),
    "P@10": (0.2, 0.7, 0.0),
    "P@20": (0.25, 0.8, 0.05),
    "R@20": (0.0105, 0.2078, 0.1),
    "RR": (0.1667, 1.0, 0.0526),
}
OF_ALL = {
    "P@1": 0.3333,
    "P@5": 0.2667,
    "R@20": 0.1061,
    "nDCG@5": 0.2768,
    "nDCG@10": 0.3016,
    "AP@10": 0.0259,
    "AP": 0.0591,
}


def test_the_values_that_trec_eval_publishes_for_its_own_test() -> None:
    rankings = {topic: [str(place) for place in range(1, 21)] for topic in TOPICS}
    judgements = {
        topic: dict.fromkeys(map(str, [*places, *range(21, 21 + count - len(places))]), 1)
        for topic, (places, count) in TOPICS.items()
    }
    assert [sum(grades.values()) for grades in judgements.values()] == [474, 77, 10]
    own = {
        "P@1": partial(precision, k=1),
        "P@5": partial(precision, k=5),
        "P@10": partial(precision, k=10),
        "P@20": partial(precision, k=20),
        "R@20": partial(recall, k=20),
        "RR": reciprocal_rank,
        "nDCG@5": partial(ndcg, k=5),
        "nDCG@10": partial(ndcg, k=10),
        "AP@10": partial(average_precision, k=10),
        "AP": average_precision,  # of twenty places: trec_eval calls it map_cut_20
    }
    found = {name: [measure(rankings[topic], judgements[topic]) for topic in TOPICS] for name, measure in own.items()}
    reported = measures.scores(rankings, judgements)
    shared = {"P@1", "P@5", "R@20", "nDCG@10", "AP"}
    assert shared <= reported.keys()
    for name, values in [*found.items(), *((name, list(reported[name].values())) for name in shared)]:
        if name in BY_TOPIC:
            assert values == pytest.approx(BY_TOPIC[name], abs=6e-5), name
        if name in OF_ALL:
            assert np.mean(values) == pytest.approx(OF_ALL[name], abs=6e-5), name


def test_every_measure_by_hand() -> None:
    judgements = {"q": {"b": 2, "d": 1, "x": 1}}
    found = measures.scores({"q": ["a", "b", "c", "d"]}, judgements)
    assert {name: value["q"] for name, value in found.items()} == pytest.approx(
        {
            "P@1": 0,
            "P@3": 1 / 3,
            "P@5": 2 / 5,
            "R@20": 2 / 3,
            "RR@10": 1 / 2,
            "nDCG@10": (2 / np.log2(3) + 1 / np.log2(5)) / (2 + 1 / np.log2(3) + 1 / np.log2(4)),
            "AP": (1 / 2 + 2 / 4) / 3,
            "context precision@5": (1 / 2 + 2 / 4) / 2,
        }
    )


def test_ids_may_be_any_text_and_grades_as_low_and_high_as_is_allowed() -> None:
    plain = measures.scores({"q": ["x", "y", "z"]}, {"q": {"x": -MOST_GRADE, "y": 1, "z": MOST_GRADE}})
    odd = {"x": "a", "y": "a\0b", "z": "日本 \ud800"}
    grades = {odd["x"]: -MOST_GRADE, odd["y"]: 1, odd["z"]: MOST_GRADE}
    found = measures.scores({"\ud800": list(odd.values())}, {"\ud800": grades})
    assert found == {name: {"\ud800": scores["q"]} for name, scores in plain.items()}
    best = MOST_GRADE + 1 / math.log2(3)
    assert plain["nDCG@10"]["q"] == pytest.approx((1 / math.log2(3) + MOST_GRADE / 2) / best)
    assert plain["AP"]["q"] == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_a_question_without_an_answer_scores_zero() -> None:
    judgements = {"q": {"a": 1}, "r": {"b": 1}}
    found = measures.scores({"q": [], "r": ["b"]}, judgements)
    assert {name: value["q"] for name, value in found.items()} == dict.fromkeys(measures.NAMES, 0.0)
    assert found["RR@10"]["r"] == 1
    assert measures.scores({"q": []}, judgements)["AP"] == {"q": 0.0}
