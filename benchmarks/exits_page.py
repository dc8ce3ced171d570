"""The sections on early exit and on probabilities, as tables of their committed results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from native_page import Table

QUALITY = """## What does `effort="fast"` cost, and save?

Twenty candidates of each query, whole documents by dense search. Heads are fitted on the other two collections, whose
labels are not used, so that each row is text that its heads never saw. Order is by logit + weight x cosine; with weight
0 the heads see no similarity either, as when plain strings are ranked, and keep the wider of their two margins ({alone}
spreads, {blended} otherwise). Work is multiply-adds of finished and abandoned layers, peeks included, as a share of
finishing all; the rest is quality beside `exact` on the same candidates. Where exits are, and the margins, were chosen
by looking at these tables; the heads' weights were not.
"""

TIME = """Mean milliseconds of a query with the same heads and candidates on the real encoder, at the default weight of
{blend:g}; both efforts take turns at each query, and the better of two turns counts. The ratio is the mean of the
queries' own.
"""

WORKLOADS = """The workloads of the native encoder's table, whose passages have nothing to do with their query, with the
heads that go with the model: median milliseconds, alone (weight 0) and with similarity. The peak is measured in the
same run ({peak:.0f} to {most:.0f} thousand million operations a second); shares are of the operations that `exact`
needs, for both.
"""


ERROR = """## What are the probabilities worth?

Platt's curve for logit + weight x cosine, fitted on the judgements of {fitted_on}; expected calibration error (mean
distance between what was said and what was found, ten bins of equal size) on each collection. Beside it what the plain
sigmoid of the logit is off. What nobody judged counts as not relevant. The rows of {fitted_on} only show that the fit
worked. Probabilities are too low for text with more
relevant passages for a question than the fitted collection has (about one), and too high for text with fewer.

![Reliability](reliability.svg)
"""

ANSWERABLE = """Queries that have relevant candidates, each asked of the whole store, and of one that everything
relevant to it was taken out of, so that the next documents take its places: how often `answerable` is at least 0.5 for
the first and less for the second. A fixed number of hits is right for half of them: it always has an answer.
"""

LEAST = """What a least probability keeps of the twenty candidates, at weight {weight}.
"""


def exits(record: Mapping[str, Any]) -> list[Table]:
    """Quality and work by collection and weight."""
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
    margins = next(iter(record["results"].values()))["margins"]
    return [(QUALITY.format(**{name: f"{margin:g}" for name, margin in margins.items()}), head, rows)]


def exit_times(record: Mapping[str, Any]) -> list[Table]:
    """Time by collection, and by workload."""
    results = record["results"]
    ranked: list[tuple[object, ...]] = [
        (name, row["queries"], f"{row['exact_ms']:.0f}", f"{row['fast_ms']:.0f}", f"{row['ratio']:.2f}")
        for name, row in results.items()
        if "queries" in row
    ]
    works = {name: row for name, row in results.items() if "tokens" in row}
    timed: list[tuple[object, ...]] = [
        (
            name,
            row["tokens"],
            *(f"{row[effort]['median_ms']:.0f}" for effort in ("exact", "fast alone", "fast")),
            f"{row['ratio']:.2f}",
            f"{row['peak_share']:.0%}",
            f"{row['peak_share'] / row['ratio']:.0%}",
        )
        for name, row in works.items()
    ]
    peaks = [row["peak"] for row in works.values()]
    times = (TIME.format(**record["settings"]), ("collection", "queries", "exact, ms", "fast, ms", "ratio"), ranked)
    head = ("workload", "tokens", "exact, ms", "fast alone, ms", "fast, ms", "ratio", "exact, share of peak", "fast")
    return [times, *([(WORKLOADS.format(peak=min(peaks), most=max(peaks)), head, timed)] if works else [])]


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
