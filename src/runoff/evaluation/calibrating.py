"""Calibrations from an evaluation's own labels, for thresholds that mean something on one's own text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .. import calibration
from ..calibration import Calibration
from ..errors import EvaluationError
from .candidates import Pass
from .collection import Query


def fit(
    queries: Sequence[Query], passes: Mapping[str, Pass], mode: str, weights: Sequence[float], model: str, name: str
) -> tuple[Calibration, ...]:
    """A calibration for each weight of the similarity, from the candidates of one mode.

    A chunk counts as relevant where its document has a grade of 1 or more; what nobody judged counts as not relevant.

    Args:
        queries: labelled questions.
        passes: their candidate passes.
        mode: whose list of candidates.
        weights: of the similarity beside the logit.
        model: digest of the cross-encoder.
        name: what was labelled, for the record.

    Raises:
        EvaluationError: no candidate is relevant, or all are.
    """
    found = [
        (number, passes[query.id].chunks[chunk], query)
        for number, query in enumerate(queries)
        for chunk, _ in passes[query.id].lists[mode]
    ]
    numbers = np.array([number for number, _, _ in found], dtype=np.int64)
    relevant = np.array([query.relevant.get(each.document, 0) >= 1 for _, each, query in found], dtype=bool)
    if not 0 < relevant.sum() < len(relevant):
        raise EvaluationError(
            f"{int(relevant.sum())} of {len(relevant)} candidates are relevant; a calibration needs both kinds"
        )
    logits, cosines = (np.array([getattr(each, kind) for _, each, _ in found]) for kind in ("logit", "cosine"))
    about = {"labels": f"{name}: candidates of {mode}", "unjudged": "not relevant"}
    return tuple(
        calibration.fit(logits + weight * cosines, relevant, numbers, weight=weight, model=model, about=about)
        for weight in dict.fromkeys(weights)
    )
