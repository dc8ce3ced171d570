"""Scores that mean something: how probable it is that a passage is relevant, and that a query has an answer at all.

A logit orders passages; it is no probability. Platt's method puts a logistic curve through labelled scores. Two curves
are kept: one for a passage, on its score, and one for a query, on its best score, fitted on queries with and without
their relevant passages. ``calibration.json`` beside a model holds them with the source of the labels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .artifact import Artifact, blank_head, seal, unseal
from .errors import ModelError, QueryError

FILE = "calibration.json"
FORMAT_VERSION = 1
BINS = 10

_STEPS, _ENOUGH = 100, 1e-10

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """A logistic curve: probability = 1 / (1 + exp(-(slope * score + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, scores: ArrayLike) -> Doubles:
        """Probabilities of scores, float64 of the same shape, 0..1."""
        return _sigmoid(self.slope * np.asarray(scores, dtype=np.float64) + self.intercept)

    def score_of(self, probability: float) -> float:
        """The score that has a probability: what a threshold on probabilities is on scores.

        Raises:
            QueryError: the probability is not between 0 and 1.
        """
        if not 0 <= probability <= 1:
            raise QueryError(f"probability: got {probability!r}; expected a number between 0 and 1")
        if probability in (0, 1):
            return math.inf if probability else -math.inf
        return (math.log(probability / (1 - probability)) - self.intercept) / self.slope


@dataclass(frozen=True, slots=True)
class Calibration:
    """The curves of one model and one weight of the first stage's similarity.

    Attributes:
        weight: a passage's score is its logit plus this times its cosine similarity.
        passage: probability that a passage with such a score is relevant.
        query: probability that a query whose best passage has such a score finds anything relevant.
        model: digest of the model whose logits these are.
        fitted: on which labels, with what result; for people.
    """

    weight: float
    passage: Curve
    query: Curve
    model: str
    fitted: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def find(cls, artifact: Artifact) -> tuple[Calibration, ...]:
        """The calibrations beside a model, one for each weight; none where it has none. Errors as for ``read``."""
        path = artifact.path / FILE
        return read(path, artifact) if path.exists() else ()

    @classmethod
    def of(cls, scorer: object, weight: float) -> Calibration | None:
        """A scorer's calibration for a weight of the similarity; None where it has none for that, or none at all."""
        return next((each for each in getattr(scorer, "calibrations", ()) if each.weight == weight), None)

    def relevance(self, logits: ArrayLike, similarities: ArrayLike = 0.0) -> Doubles:
        """Probability that each passage is relevant, float64, 0..1, rising with logit and similarity."""
        return self.passage(self.scores(logits, similarities))

    def answerable(self, logits: ArrayLike, similarities: ArrayLike = 0.0) -> float:
        """Probability, 0..1, that there is a relevant passage among these; 0 where there is none at all."""
        scores = self.scores(logits, similarities)
        return float(self.query(scores.max())) if scores.size else 0.0

    def scores(self, logits: ArrayLike, similarities: ArrayLike = 0.0) -> Doubles:
        """What the curves read: logits plus ``weight`` times similarities."""
        return np.asarray(logits, np.float64) + self.weight * np.asarray(similarities, np.float64)


@dataclass(frozen=True, slots=True)
class Bin:
    """Passages of similar probability: how many, what was said on average, and what share was relevant."""

    count: int
    said: float
    found: float


def fit_curve(scores: ArrayLike, relevant: ArrayLike) -> Curve:
    """The logistic curve that makes the labels most likely.

    Platt, "Probabilistic outputs for support vector machines", 1999, with its targets a little inside of 0 and 1, by
    Newton's method with halved steps as in Lin, Lin and Weng, "A note on Platt's probabilistic outputs", Machine
    Learning 68(3), 2007.

    Args:
        scores: finite numbers, shape [n].
        relevant: True where a score is a relevant passage's, shape [n].

    Raises:
        QueryError: the shapes differ, a score is not finite, or all labels are the same.
    """
    x, labels = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool)
    _check(x, labels)
    yes, no = int(labels.sum()), int((~labels).sum())
    targets = np.where(labels, (yes + 1) / (yes + 2), 1 / (no + 2))
    features = np.stack([x, np.ones_like(x)])
    at = np.array([0.0, math.log((yes + 1) / (no + 1))])
    loss = _loss(at @ features, targets)
    for _ in range(_STEPS):
        said = _sigmoid(at @ features)
        gradient = features @ (said - targets)
        curvature = (features * (said * (1 - said))) @ features.T + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        at, before, loss = _descend(at, step, features, targets, loss)
        if before - loss <= _ENOUGH * max(1.0, before):
            break
    return Curve(float(at[0]), float(at[1]))


def reliability(probabilities: ArrayLike, relevant: ArrayLike, bins: int = BINS) -> list[Bin]:
    """Passages in bins of (almost) equal size by probability, lowest first; empty bins are left out.

    Raises:
        QueryError: the shapes differ, or there is no passage or no bin.
    """
    said, labels = np.asarray(probabilities, dtype=np.float64), np.asarray(relevant, dtype=bool)
    if said.shape != labels.shape or said.ndim != 1 or not said.size or bins < 1:
        raise QueryError(f"got shapes {said.shape} and {labels.shape} for {bins} bins; expected one of both, not empty")
    parts = np.array_split(np.argsort(said, kind="stable"), bins)
    return [Bin(len(rows), float(said[rows].mean()), float(labels[rows].mean())) for rows in parts if len(rows)]


def calibration_error(probabilities: ArrayLike, relevant: ArrayLike, bins: int = BINS) -> float:
    """Expected calibration error, 0..1: mean difference of what was said and found, over bins of equal size.

    Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning", AAAI 2015, with
    bins of equal size in place of equal width. Errors as for ``reliability``.
    """
    found = reliability(probabilities, relevant, bins)
    return sum(each.count * abs(each.said - each.found) for each in found) / sum(each.count for each in found)


def fit(
    scores: NDArray[Any],
    relevant: NDArray[np.bool_],
    queries: NDArray[np.int64],
    *,
    weight: float,
    model: str,
    about: Mapping[str, Any],
) -> Calibration:
    """Both curves from labelled passages.

    The query's curve sees each query twice: as it is, and with its relevant passages taken out.

    Args:
        scores: float, shape [n]: logit plus ``weight`` times similarity.
        relevant: bool, shape [n].
        queries: int64, shape [n]: number of each passage's query.
        weight: of the similarity in the scores.
        model: digest of the model.
        about: where the labels came from.

    Raises:
        QueryError: as for ``fit_curve``.
    """
    best, answered = best_scores(scores, relevant, queries)
    curves = fit_curve(scores, relevant), fit_curve(best, answered)
    counts = {"queries": len(np.unique(queries)), "passages": len(scores), "relevant": int(np.sum(relevant))}
    return Calibration(weight, *curves, model, {**about, **counts})


def best_scores(
    scores: NDArray[Any], relevant: NDArray[np.bool_], queries: NDArray[np.int64]
) -> tuple[Doubles, NDArray[np.bool_]]:
    """Best score of each query as it is, then of each without its relevant passages; and whether it has any."""
    best, answered = [], []
    for keep in (np.ones(len(scores), dtype=bool), ~np.asarray(relevant, dtype=bool)):
        for query in np.unique(queries[keep]):
            rows = keep & (queries == query)
            best.append(float(np.max(scores[rows])))
            answered.append(bool(np.any(relevant[rows])))
    return np.array(best), np.array(answered)


def read(path: Path, artifact: Artifact) -> tuple[Calibration, ...]:
    """Calibrations that were written by ``write``.

    Raises:
        ArtifactDamagedError: the file differs from its own digest.
        ModelError: it is of another model or format.
    """
    said = json.loads(unseal(path, path.read_bytes()))
    if said.get("format_version") != FORMAT_VERSION or said.get("model_digest") != artifact.digest:
        raise ModelError(
            f"{path}: of format {said.get('format_version')!r} for model {str(said.get('model_digest'))[:12]}...; "
            f"expected {FORMAT_VERSION} for {artifact.digest[:12]}... ({artifact.name}); calibrate again, or "
            "remove the file"
        )
    try:
        return tuple(
            Calibration(
                float(entry["weight"]),
                Curve(**entry["passage"]),
                Curve(**entry["query"]),
                artifact.digest,
                entry["fitted"],
            )
            for entry in said["calibrations"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: not as expected ({error!r}); calibrate again") from error


def write(path: Path, *calibrations: Calibration) -> None:
    """Write calibrations of one model as JSON that carries its own SHA-256, one a line."""
    entries = ",\n".join(
        json.dumps(
            {
                "weight": each.weight,
                "passage": asdict(each.passage),
                "query": asdict(each.query),
                "fitted": dict(each.fitted),
            },
            ensure_ascii=False,
        )
        for each in calibrations
    )
    head = f'"format_version": {FORMAT_VERSION},\n"model_digest": "{calibrations[0].model}",\n'
    path.write_bytes(seal(blank_head() + f'{head}"calibrations": [\n{entries}\n]}}\n'.encode()))


def _check(scores: Doubles, labels: NDArray[np.bool_]) -> None:
    if scores.shape != labels.shape or scores.ndim != 1 or not np.isfinite(scores).all():
        raise QueryError(f"got scores {scores.shape} and labels {labels.shape}; expected finite scores, a label each")
    if not 0 < labels.sum() < len(labels):
        raise QueryError(f"{int(labels.sum())} of {len(labels)} labels are relevant; expected some of both kinds")


def _descend(
    at: Doubles, step: Doubles, features: Doubles, targets: Doubles, loss: float
) -> tuple[Doubles, float, float]:
    """The first of ever shorter steps that lowers the loss: where it leads, the loss before, and after."""
    for halvings in range(40):
        to = at - step / 2**halvings
        reached = _loss(to @ features, targets)
        if reached < loss:
            return to, loss, reached
    return at, loss, loss


def _loss(values: Doubles, targets: Doubles) -> float:
    """Cross-entropy of logistic curves, without overflow."""
    return float(np.sum(np.logaddexp(0, values) - targets * values))


def _sigmoid(values: Doubles) -> Doubles:
    power = np.exp(-np.abs(values))
    return np.where(values >= 0, 1.0, power) / (1.0 + power)
