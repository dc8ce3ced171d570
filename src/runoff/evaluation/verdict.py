"""What an evaluation says in a sentence: is the second stage better than the first here, and what does it cost?"""

from __future__ import annotations

from collections.abc import Sequence

from .summary import Comparison, Outcome

MEASURE = "nDCG@10"
SIGNIFICANT = 0.05


def verdict(outcomes: Sequence[Outcome], comparisons: Sequence[Comparison]) -> list[str]:
    """A sentence for each second stage over the last mode, which is the one that search uses.

    Args:
        outcomes: of every configuration.
        comparisons: among them by every measure.
    """
    named = {outcome.configuration.name: outcome for outcome in outcomes}
    mode = outcomes[-1].configuration.mode
    return [
        _sentence(each, named[each.against], named[each.name])
        for each in comparisons
        if each.measure == MEASURE and each.against == mode and named[each.name].configuration.mode == mode
    ]


def p_value(p: float) -> str:
    """A p as tables show it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _sentence(each: Comparison, first: Outcome, second: Outcome) -> str:
    gap = each.difference
    before, after = (outcome.stage.means[MEASURE] for outcome in (first, second))
    return (
        f"{each.name} against {each.against}: {MEASURE} {before:.3f} to {after:.3f}, {_judged(each)} "
        f"({gap.mean:+.3f}, 95% interval {gap.low:+.3f} to {gap.high:+.3f}, p {p_value(gap.p)}; "
        f"better on {gap.better}, worse on {gap.worse}); {_cost(first, second)}"
    )


def _judged(each: Comparison) -> str:
    if each.difference.p >= SIGNIFICANT:
        return "not shown to be more than chance"
    return "better" if each.difference.mean > 0 else "worse"


def _cost(first: Outcome, second: Outcome) -> str:
    if not (first.stage.milliseconds and second.stage.milliseconds):
        return "its time was not measured: too few questions"
    before, after = (outcome.stage.percentile(0.5) for outcome in (first, second))
    return f"median time {before:.0f} to {after:.0f} ms"
