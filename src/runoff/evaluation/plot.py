"""Quality against latency, one mark a configuration, as SVG and PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from ..errors import EvaluationError
from .summary import Outcome

MEASURE = "nDCG@10"

# Colour tells the first stage and shape the second. The colours are Okabe and Ito's (2008), told apart by colour-blind
# readers as well.
_COLOURS = {"dense": "#0072B2", "lexical": "#D55E00", "hybrid": "#009E73"}
_MARKS = {"none": "o", "logit": "s", "blend": "D"}
_OTHER = "#555555"
# Reranked by logit and blended, a list takes the same time; the two marks stand a little apart so that both are seen.
_APART = {"none": 1.0, "logit": 0.97, "blend": 1.03}


def library() -> Any:
    """The module matplotlib.

    Raises:
        EvaluationError: it is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise EvaluationError("matplotlib is not installed; needed here. Run pip install 'runoff[eval]'.") from error
    return matplotlib


def draw(outcomes: Sequence[Outcome], title: str) -> Any:
    """A matplotlib figure: median milliseconds across, mean nDCG@10 with its 95% interval up.

    Raises:
        EvaluationError: matplotlib is not installed.
    """
    library()
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    for outcome in outcomes:
        if outcome.stage.milliseconds:
            _mark(axes, outcome)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("median milliseconds a question (log scale)")
    axes.set_ylabel(f"mean {MEASURE}, 95% interval")
    axes.set_title(_literal(title), fontsize=10)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def render(figure: Any, kind: str) -> bytes:
    """The figure as ``"svg"`` or ``"png"``, the same bytes for the same figure."""
    target = io.BytesIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",))
    with library().rc_context({"svg.hashsalt": "runoff"}):
        figure.savefig(target, format=kind, dpi=150, metadata=metadata)
    return target.getvalue()


def _mark(axes: Any, outcome: Outcome) -> None:
    each, mean = outcome.configuration, outcome.stage.means[MEASURE]
    low, high = outcome.intervals[MEASURE]
    axes.errorbar(
        outcome.stage.percentile(0.5) * _APART[each.second],
        mean,
        yerr=[[max(mean - low, 0)], [max(high - mean, 0)]],
        fmt=_MARKS[each.second],
        color=_COLOURS.get(each.mode, _OTHER),
        elinewidth=1,
        alpha=0.85,
        markersize=7,
        label=each.name,
    )


def _literal(text: str) -> str:
    """A text in which matplotlib sees no formula, and nothing that its font cannot draw."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known = get_font(findfont(FontProperties())).get_charmap()
    drawn = "".join(letter if ord(letter) in known else "?" for letter in " ".join(text.split()))
    return drawn.replace("$", r"\$")
