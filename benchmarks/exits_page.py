"""The sections on early exit and on probabilities, as tables of their committed results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from native_page import Table

QUALITY = """## What does `effort="fast"` cost, and save?

Twenty candidates of each query, whole documents by dense search. Heads are fitted on the other two collections, whose
labels are not used, so that each row is text that its heads never saw. Order is by logit + weight x cosine. Work is
multiply-adds of finished and abandoned layers, peeks included, as a share of finishing all; the rest is quality beside
`exact` on the same candidates.
"""

TIME = """The same heads on the real encoder at the default weight of the blend, both efforts taking turns at each
query: mean milliseconds of the better of several turns.
"""

ERROR = """## What are the probabilities worth?

Platt's curve for logit + weight x cosine, fitted on the judgements of {fitted_on}; expected calibration error (mean
distance between what was said and what was found, ten bins of equal size) on each collection. Beside it what the plain
sigmoid of the logit is off. What nobody judged counts as not relevant. Probabilities are too low for text with more
relevant passages for a question than the fitted collection has (about one), and too high for text with fewer.

![Reliability](reliability.svg)
"""

ANSWERABLE = """Queries that have relevant candidates, each asked with them and again after all of them were taken out:
how often `answerable` says yes to the first and no to the second. A fixed number of hits is right for half of them.
"""

LEAST = """What a least probability keeps of the twenty candidates, at weight {weight}.
"""


def exits(record: Mapping[str, Any]) -> list[Table]:
    """Quality by collection and weight; time, where it was taken."""
    head = ("collection", "queries", "weight", "work", "nDCG@10 exact", "nDCG@10 fast", "same top 1", "top 3 agreement")
    rows: list[tuple[object, ...]] = [
        (
            name,
            row["queries"],
            weight,
            f"{found['share_of_work']:.2f}",
            f"{found['ndcg@10_exact']:.4f}",
            f"{found['ndcg@10_fast']:.4f}",
            f"{found['top1_same']:.3f}",
            f"{found['top3_agreement']:.3f}",
        )
        for name, row in record["results"].items()
        for weight, found in row["quality"].items()
    ]
    times: list[tuple[object, ...]] = [
        (
            name,
            row["time"]["queries"],
            f"{row['time']['exact_ms']:.0f}",
            f"{row['time']['fast_ms']:.0f}",
            f"{row['time']['ratio']:.2f}",
        )
        for name, row in record["results"].items()
        if "time" in row
    ]
    timed = [(TIME, ("collection", "queries", "exact, ms", "fast, ms", "ratio"), times)] if times else []
    return [(QUALITY, head, rows), *timed]


def calibration(record: Mapping[str, Any]) -> list[Table]:
    """Calibration error, `answerable` and least probabilities on every collection."""
    settings, results = record["settings"], record["results"]
    found = [(weight, name, row[name]) for weight, row in results.items() for name in settings["collections"]]
    errors = [
        (weight, name, f"{row['relevant']:.3f}", f"{row['error']:.3f}", f"{row['error_of_sigmoid']:.3f}")
        for weight, name, row in found
    ]
    answers = [
        (
            weight,
            name,
            each["queries"],
            f"{each['right_with']:.2f}",
            f"{each['right_without']:.2f}",
            f"{each['right']:.2f}",
        )
        for weight, name, row in found
        for each in (row["answerable"],)
    ]
    last = list(results)[-1]
    least = [
        (name, at, f"{each['passages']:.1f}", f"{each['recall']:.2f}", f"{each['precision']:.2f}")
        for weight, name, row in found
        if weight == last
        for at, each in row["min_score"].items()
    ]
    error_head = ("weight", "collection", "share relevant", "calibration error", "of the plain sigmoid")
    answer_head = ("weight", "collection", "queries", "yes with", "no without", "right")
    return [
        (ERROR.format(**settings), error_head, errors),
        (ANSWERABLE, answer_head, answers),
        (LEAST.format(weight=last), ("collection", "at least", "kept of 20", "recall", "precision"), least),
    ]
