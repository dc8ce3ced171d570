"""From candidate passes to figures: means with intervals, differences with tests, and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..evaluate import Stage
from . import configurations, measures, significance
from .candidates import Pass
from .collection import Query
from .configurations import Configuration
from .significance import Difference

QUANTILES = (0.5, 0.95)


@dataclass(frozen=True)
class Outcome:
    """How one configuration did.

    Attributes:
        configuration: which.
        rankings: by question id, document ids, best first.
        stage: scores of every question, and the time of those that this configuration was timed on.
        seed: of the intervals.
    """

    configuration: Configuration
    rankings: Mapping[str, Sequence[str]]
    stage: Stage
    seed: int

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """By measure, the 95% bootstrap interval of the mean."""
        lows, highs = significance.intervals(np.array(list(self.stage.scores.values())).T, seed=self.seed)
        return dict(zip(self.stage.scores, zip(lows.tolist(), highs.tolist(), strict=True), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Means, intervals and times, as ``summary.json`` has them."""
        return {
            "name": self.configuration.name,
            "mode": self.configuration.mode,
            "second": self.configuration.second,
            "means": self.stage.means,
            "intervals": self.intervals,
            **quantiles(self.stage.milliseconds),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of one configuration against another's.

    Attributes:
        name: the configuration.
        against: what it is compared with.
        measure: by which measure.
        difference: mean, interval, p, and how many questions are better and worse.
        p_holm: p adjusted for all comparisons by this measure.
    """

    name: str
    against: str
    measure: str
    difference: Difference
    p_holm: float


def outcomes(
    queries: Sequence[Query],
    passes: Mapping[str, Pass],
    steps: Mapping[str, Sequence[str]],
    weight: float,
    seed: int,
) -> tuple[Outcome, ...]:
    """The outcome of every configuration.

    Args:
        queries: at least one, each with a pass.
        passes: by question id.
        steps: by mode, the timed steps of its first stage.
        weight: of the cosine in a blend.
        seed: of the intervals.

    Raises:
        EvaluationError: ir-measures is not installed.
    """
    judgements = {query.id: query.relevant for query in queries}

    def outcome(each: Configuration) -> Outcome:
        rankings = {query.id: each.documents(passes[query.id], weight) for query in queries}
        scores = measures.scores(rankings, judgements)
        ordered = {name: tuple(values[query.id] for query in queries) for name, values in scores.items()}
        times = (each.milliseconds(passes[query.id], steps[each.mode]) for query in queries)
        return Outcome(each, rankings, Stage(each.name, ordered, tuple(t for t in times if t is not None)), seed)

    return tuple(outcome(each) for each in configurations.for_modes(steps))


def compare(found: Sequence[Outcome], seed: int) -> tuple[Comparison, ...]:
    """Every comparison by every measure."""
    scores = {outcome.configuration: outcome.stage.scores for outcome in found}
    pairs = configurations.comparisons(list(scores))
    asked = [(name, one, other) for name in measures.NAMES for one, other in pairs]
    ones = np.array([scores[one][name] for name, one, _ in asked]).T
    others = np.array([scores[other][name] for name, _, other in asked]).T
    differences = significance.compare(ones, others, seed=seed)
    families = [differences[first : first + len(pairs)] for first in range(0, len(asked), len(pairs))]
    adjusted = [p for family in families for p in significance.holm([each.p for each in family])]
    return tuple(
        Comparison(one.name, other.name, name, difference, p)
        for (name, one, other), difference, p in zip(asked, differences, adjusted, strict=True)
    )


def step_times(passes: Sequence[Pass], steps: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """By step, its times over the questions; the runoff's by the mode whose list it read."""
    names = dict.fromkeys(step for mode_steps in steps.values() for step in mode_steps)
    times = {name: [each.milliseconds[name] for each in passes] for name in names}
    times |= {f"rerank ({mode})": [each.rerank_ms for each in passes if each.timed == mode] for mode in steps}
    return {name: quantiles(values) for name, values in times.items()}


def quantiles(milliseconds: Sequence[float]) -> dict[str, Any]:
    """Number of times, their median and their 95th percentile; None where there are none."""
    stage = Stage("", {}, tuple(milliseconds))
    p50, p95 = (stage.percentile(share) if milliseconds else None for share in QUANTILES)
    return {"timed": len(milliseconds), "p50_ms": p50, "p95_ms": p95}
