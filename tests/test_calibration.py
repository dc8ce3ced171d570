"""Calibration: curves that give back the probabilities that made the labels, and say so of text they never saw."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runoff import calibration, models
from runoff.artifact import Artifact
from runoff.calibration import Calibration, Curve
from runoff.errors import ArtifactDamagedError, ModelError, QueryError
from runoff.ranking import DEFAULT_BLEND


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return models.find(models.DEFAULT_CROSS_ENCODER)


def labelled(slope: float, intercept: float, count: int = 20_000, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(-4, 5, count)
    return scores, rng.random(count) < Curve(slope, intercept)(scores)


def test_a_curve_is_the_logistic_function_even_far_out() -> None:
    curve = Curve(2.0, -1.0)
    np.testing.assert_allclose(curve([0.5, 0.0]), [0.5, 1 / (1 + math.e)])
    np.testing.assert_array_equal(curve([-1e6, 1e6]), [0.0, 1.0])


def test_a_threshold_goes_back_to_a_score() -> None:
    curve = Curve(0.7, -1.5)
    assert float(curve(curve.score_of(0.3))) == pytest.approx(0.3)
    assert (curve.score_of(0.0), curve.score_of(1.0)) == (-math.inf, math.inf)
    with pytest.raises(QueryError, match="between 0 and 1"):
        curve.score_of(1.2)


@pytest.mark.parametrize(("slope", "intercept"), [(0.6, -1.0), (1.5, 3.0), (0.2, -2.0)])
def test_fitting_finds_the_curve_that_made_the_labels(slope: float, intercept: float) -> None:
    found = calibration.fit_curve(*labelled(slope, intercept))
    assert found.slope == pytest.approx(slope, rel=0.1)
    assert found.intercept == pytest.approx(intercept, abs=0.15)


def test_labels_that_a_threshold_separates_give_a_finite_curve() -> None:
    found = calibration.fit_curve([-3.0, -2.0, 2.0, 3.0], [False, False, True, True])
    assert math.isfinite(found.slope)
    assert 0.5 < float(found(2.0)) < 0.9


@pytest.mark.parametrize(
    ("scores", "relevant"),
    [
        ([1.0], [True, False]),
        ([1.0, 2.0], [True, True]),
        ([1.0, 2.0], [False, False]),
        ([1.0, math.nan], [True, False]),
    ],
)
def test_labels_that_teach_nothing_are_refused(scores: list[float], relevant: list[bool]) -> None:
    with pytest.raises(QueryError, match="expected"):
        calibration.fit_curve(scores, relevant)


def test_the_calibration_error_is_small_for_the_truth_and_large_for_a_lie() -> None:
    scores, relevant = labelled(0.6, -1.0)
    truth = Curve(0.6, -1.0)(scores)
    assert calibration.calibration_error(truth, relevant) < 0.02
    assert calibration.calibration_error(np.sqrt(truth), relevant) > 0.1


def test_reliability_by_hand() -> None:
    found = calibration.reliability([0.9, 0.1, 0.2, 0.8], [True, False, True, True], bins=2)
    assert [(each.count, each.found) for each in found] == [(2, 0.5), (2, 1.0)]
    assert [each.said for each in found] == pytest.approx([0.15, 0.85])
    assert calibration.calibration_error([0.9, 0.1, 0.2, 0.8], [True, False, True, True], 2) == pytest.approx(0.25)


@pytest.mark.parametrize(("said", "labels", "bins"), [([], [], 10), ([0.5], [True, False], 10), ([0.5], [True], 0)])
def test_reliability_of_nothing_is_refused(said: list[float], labels: list[bool], bins: int) -> None:
    with pytest.raises(QueryError, match="expected one of both"):
        calibration.reliability(said, labels, bins)


def test_best_scores_with_and_without_the_answer() -> None:
    scores, relevant = np.array([1.0, 5.0, 2.0, 3.0]), np.array([False, True, False, False])
    best, answered = calibration.best_scores(scores, relevant, np.array([0, 0, 1, 1]))
    assert best.tolist() == [5.0, 3.0, 1.0, 3.0]
    assert answered.tolist() == [True, False, False, False]


def made(artifact: Artifact, weight: float = 10.0) -> Calibration:
    scores, relevant = labelled(0.6, -1.0, 2000)
    return calibration.fit(
        scores, relevant, np.arange(2000) // 20, weight=weight, model=artifact.digest, about={"labels": "drawn"}
    )


def test_relevance_rises_with_logit_and_similarity(artifact: Artifact) -> None:
    found = made(artifact)
    assert (np.diff(found.relevance([-9.0, 0.0, 4.0], 0.5)) > 0).all()
    assert (np.diff(found.relevance(0.0, [0.1, 0.5, 0.9])) > 0).all()
    assert found.answerable([-9.0, 3.0], [0.1, 0.2]) == pytest.approx(float(found.query(3.0 + 10 * 0.2)))
    assert found.answerable([]) == 0.0


def test_calibrations_survive_the_disk(artifact: Artifact, tmp_path: Path) -> None:
    path = tmp_path / calibration.FILE
    kept = (made(artifact, 0.0), made(artifact, 10.0))
    calibration.write(path, *kept)
    assert calibration.read(path, artifact) == kept
    assert Calibration.find(replace(artifact, path=tmp_path)) == kept
    path.write_bytes(path.read_bytes().replace(b"drawn", b"drown"))
    with pytest.raises(ArtifactDamagedError):
        calibration.read(path, artifact)


def test_calibrations_of_another_model_are_refused(artifact: Artifact, tmp_path: Path) -> None:
    path = tmp_path / calibration.FILE
    calibration.write(path, replace(made(artifact), model="0" * 64))
    with pytest.raises(ModelError, match="calibrate again"):
        calibration.read(path, artifact)


def test_a_model_without_calibration_has_none(artifact: Artifact, tmp_path: Path) -> None:
    assert Calibration.find(replace(artifact, path=tmp_path)) == ()


def test_the_model_comes_with_calibrations_for_the_blends_in_use(artifact: Artifact) -> None:
    alone, blended = Calibration.find(artifact)
    assert (alone.weight, blended.weight) == (0.0, DEFAULT_BLEND)
    for each in (alone, blended):
        assert each.passage.slope > 0
        assert "nq_passages" in each.fitted["labels"]
