"""The report: one HTML file with its tables, plot and style inside it, which opens from disk and asks for nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import measures
from .changes import Change, Place
from .summary import Comparison, Outcome
from .verdict import MEASURE, p_value, verdict

# With this policy a browser would run no script and fetch nothing even if some text had slipped through unescaped.
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #ddd; vertical-align: top; }}
th:first-child, td:first-child, td.text, th.text {{ text-align: left; }}
.best {{ font-weight: 600; }} .up {{ color: #00694d; }} .down {{ color: #a33c00; }} .relevant {{ font-weight: 600; }}
.scroll {{ overflow-x: auto; }} svg {{ max-width: 100%; height: auto; }} small {{ color: #555; }}
details {{ border-top: 1px solid #ddd; padding: .4rem 0; }} summary {{ cursor: pointer; }}
ol {{ margin: .2rem 0; }} .pair {{ display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem; }}
</style>
</head>
<body>
"""


def page(
    title: str,
    facts: Mapping[str, Any],
    outcomes: Sequence[Outcome],
    comparisons: Sequence[Comparison],
    steps: Mapping[str, Mapping[str, Any]],
    changes: Mapping[str, Sequence[Change]],
    svg: str,
    warnings: Sequence[str] = (),
    shown: int = 10,
) -> str:
    """The page's text.

    Args:
        title: name of what was evaluated.
        facts: names and values that describe the run.
        outcomes: of every configuration.
        comparisons: every difference.
        steps: by step, its times.
        changes: by the name of a comparison, the questions whose score changed, the most helped first.
        svg: the plot.
        warnings: what makes the figures worse than the rankings are.
        shown: most questions that are shown as helped, and as hurt, by a comparison.
    """
    named = html.escape(f"Retrieval on {title}")
    parts = [_HEAD.format(title=named), f"<h1>{named}</h1>"]
    parts += [f"<p>{html.escape(sentence)}.</p>" for sentence in verdict(outcomes, comparisons)]
    parts += [f"<p><strong>Warning: {html.escape(warning)}.</strong></p>" for warning in warnings]
    parts.append(_table(("", ""), facts.items(), texts=2))
    parts += ["<h2>Quality</h2>", _quality(outcomes), _QUALITY_NOTE]
    parts += [
        "<h2>Quality against latency</h2>",
        _inline(svg),
        "<h2>Latency</h2>",
        _latency(outcomes),
        _steps(steps),
        _LATENCY_NOTE,
    ]
    main = [each for each in comparisons if each.measure == MEASURE]
    others = [each for each in comparisons if each.measure != MEASURE]
    parts += ["<h2>Differences</h2>", _differences(main), _DIFFERENCE_NOTE]
    parts.append(f"<details><summary>By the other measures</summary>{_differences(others)}</details>")
    for name, found in changes.items():
        parts.append(_changes(name, found, shown))
    return "\n".join([*parts, "</body>\n</html>\n"])


_QUALITY_NOTE = (
    "<p><small>Means over the questions, 0 to 1; the best of each column is bold. Measures are those of trec_eval by "
    "ir-measures; context precision is that of RAGAS with labels for a judge. Hover over a figure for its 95% interval."
    "</small></p>"
)
_LATENCY_NOTE = (
    "<p><small>Wall time of a question. Every ranking embeds the question, the lexical one too. The runoff is timed "
    "over one first stage's list a question, taking turns, so that a first stage has a third of the questions; with "
    "fewer than three questions some are not timed.</small></p>"
)
_DIFFERENCE_NOTE = (
    "<p><small>Mean difference over the same questions with its 95% bootstrap interval; p of a two-sided paired "
    "randomisation test, and p adjusted by Holm's method for all comparisons by the same measure.</small></p>"
)


def _quality(outcomes: Sequence[Outcome]) -> str:
    best = {name: max(outcome.stage.means[name] for outcome in outcomes) for name in measures.NAMES}
    rows = []
    for outcome in outcomes:
        cells = [f"<td>{html.escape(outcome.configuration.name)}</td>"]
        for name in measures.NAMES:
            mean, (low, high) = outcome.stage.means[name], outcome.intervals[name]
            mark = ' class="best"' if mean == best[name] else ""
            cells.append(f'<td{mark} title="{low:.3f} to {high:.3f}">{mean:.3f}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = ["ranking", *(measures.HEADINGS.get(name, name) for name in measures.NAMES)]
    return _raw_table(heads, rows)


def _latency(outcomes: Sequence[Outcome]) -> str:
    rows = [(outcome.configuration.name, *_times(outcome.to_dict())) for outcome in outcomes]
    return _table(("ranking", "p50, ms", "p95, ms", "timed questions"), rows)


def _steps(steps: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(name, *_times(found)) for name, found in steps.items()]
    return _table(("step", "p50, ms", "p95, ms", "timed questions"), rows)


def _times(found: Mapping[str, Any]) -> tuple[str, str, int]:
    p50, p95 = ("not timed" if found[name] is None else f"{found[name]:.1f}" for name in ("p50_ms", "p95_ms"))
    return p50, p95, found["timed"]


def _differences(comparisons: Sequence[Comparison]) -> str:
    rows = [
        (
            f"{each.name} against {each.against}",
            measures.HEADINGS.get(each.measure, each.measure),
            f"{each.difference.mean:+.3f}",
            f"{each.difference.low:+.3f} to {each.difference.high:+.3f}",
            p_value(each.difference.p),
            p_value(each.p_holm),
            each.difference.better,
            each.difference.worse,
        )
        for each in comparisons
    ]
    return _table(("", "measure", "mean", "95% interval", "p", "p, Holm", "better", "worse"), rows)


def _changes(name: str, changes: Sequence[Change], shown: int) -> str:
    helped = [change for change in changes if change.gain > 0]
    hurt = [change for change in reversed(changes) if change.gain < 0]
    parts = [f"<h2>What changed: {html.escape(name)}</h2>"]
    for word, found in (("Helped", helped), ("Hurt", hurt)):
        parts.append(f"<h3>{word}: {len(found)}{f', the first {shown}' if len(found) > shown else ''}</h3>")
        parts += map(_change, found[:shown])
    return "\n".join(parts)


def _change(change: Change) -> str:
    sign = "up" if change.gain > 0 else "down"
    moves = "; ".join(f"{key}: {_rank(before)} → {_rank(after)}" for key, (before, after) in change.relevant.items())
    return (
        f'<details><summary>{html.escape(change.question)} <span class="{sign}">{change.before:.2f} → '
        f"{change.after:.2f}</span></summary><p><small>Rank of each relevant document: {html.escape(moves)}</small></p>"
        f'<div class="pair"><div>Before{_places(change.top_before)}</div><div>After{_places(change.top_after)}</div>'
        "</div></details>"
    )


def _rank(rank: int | None) -> str:
    return "not found" if rank is None else str(rank)


def _places(places: Sequence[Place]) -> str:
    items = (
        f"<li{' class=relevant' if place.grade >= 1 else ''}>{html.escape(place.text)}"
        f"{f' <small>(grade {place.grade})</small>' if place.grade else ''}</li>"
        for place in places
    )
    return f"<ol>{''.join(items)}</ol>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]], texts: int = 1) -> str:
    """A table of plain values; the first ``texts`` columns are aligned to the left."""
    return _raw_table(
        heads,
        [
            "<tr>"
            + "".join(
                f"<td{' class=text' if column < texts else ''}>{html.escape(str(value))}</td>"
                for column, value in enumerate(row)
            )
            + "</tr>"
            for row in rows
        ],
    )


def _raw_table(heads: Sequence[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _inline(svg: str) -> str:
    """The picture without the declarations that only a file of its own may have."""
    return svg[svg.index("<svg") :]
