"""Prints the figures of docs/deadlines.md from benchmarks/results, and draws docs/deadlines.svg.

python benchmarks/deadlines_page.py            writes them
python benchmarks/deadlines_page.py --check    exits 1 when the page on disk is not what the results give
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE, PLOT = ROOT / "docs" / "deadlines.md", ROOT / "docs" / "deadlines.svg"
_MARKS = re.compile(r"(<!-- figures: [^\n]* -->\n).*?(<!-- end of figures -->)", re.DOTALL)

KEPT = """
## Are they kept?

{queries} queries of {collections} over one store of all their documents, {candidates} candidates, every query under
every deadline in turn; {cpu}, {threads} threads. Overshoot is how far the slowest hundredth ran over. "Windows" counts
those of the twenty that were read in part.
"""
CALLERS = {"one": "one", "two": "two at once"}

QUALITY = """
## What do they cost?

nDCG@10 by one caller, beside the first stage alone and exact reranking without a deadline, which were asked on a busy
machine, so that their times say nothing.{below}

![nDCG@10 by deadline](deadlines.svg)
"""

STUDY = """
## How much to read of how many

nDCG@10 of {queries} queries of the three collections, over the same store, when only the first of twenty candidates are
reranked and only a window of each is read, the rest following in the first stage's order; in brackets the work as a
share of reading all of all. The first stage alone stands at {first}.
"""

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 300, 60, 40
COLOURS = {"fiqa_test": "#b5532a", "nq_passages": "#2a6fb5", "scifact": "#3a8f4d"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="compare only")
    check = options.parse_args().check
    record, study = (json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("deadlines", "windows"))
    figures, text, drawn = page(record, study), PAGE.read_text("utf-8"), plot(record["results"])
    wanted = _MARKS.sub(lambda match: f"{match[1]}{figures}{match[2]}", text)
    if check and (wanted != text or PLOT.read_text("utf-8") != drawn):
        sys.exit(f"{PAGE.name} is not what the results give; run python benchmarks/deadlines_page.py")
    PAGE.write_text(wanted, encoding="utf-8")
    PLOT.write_text(drawn, encoding="utf-8")


def page(record: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    """All sections."""
    results, settings, machine = record["results"], record["settings"], record["machine"]
    about = {**settings, "collections": ", ".join(settings["collections"])}
    rows = [
        (
            f"{deadline} ms",
            shown,
            f"{row['met']:.3f}",
            f"{row['p99 overshoot']:.1%}",
            *(f"{row[f'p{point}_ms']:.0f}" for point in (50, 95, 99)),
            f"{row['scored']:.1f}",
            f"{row['windowed']:.1f}",
        )
        for part, shown in CALLERS.items()
        for deadline, row in results[part].items()
    ]
    head = ("deadline", "callers", "met", "p99 overshoot", "p50, ms", "p95, ms", "p99, ms", "scored", "windows")
    kept = KEPT.format(**about, cpu=machine["cpu"], threads=machine["threads"]) + "\n" + _table(head, rows)
    bases, names = results["bases"], settings["collections"]
    ways = {
        "first stage": bases["first stage"],
        **{f"{deadline} ms": row for deadline, row in results["one"].items()},
        "exact": bases["exact"],
    }
    quality = [(way, *(f"{row['ndcg@10'][name]:.4f}" for name in (*names, "mean"))) for way, row in ways.items()]
    costs = QUALITY.format(below=_below(results)) + "\n" + _table(("", *names, "mean"), quality)
    return f"{kept}{costs}{_study(study)}\n`python benchmarks/deadlines.py` and `windows.py` measure this again.\n\n"


def _below(results: Mapping[str, Any]) -> str:
    """Which deadlines are too short for reranking to help."""
    first = results["bases"]["first stage"]["ndcg@10"]["mean"]
    short = [f"{deadline} ms" for deadline, row in results["one"].items() if row["ndcg@10"]["mean"] < first]
    if not short:
        return ""
    return (
        f" At {', '.join(short)} this\nprocessor has too little time for twenty candidates, and the mean is below the "
        "first stage's: who cannot wait longer\nis better off with `rerank=False` here."
    )


def _study(study: Mapping[str, Any]) -> str:
    first = ", ".join(f"{found['first stage']:.3f} ({name})" for name, found in study["results"].items())
    parts = [STUDY.format(**study["settings"], first=first)]
    for name, found in study["results"].items():
        counts = list(found["grid"]["all"])
        rows = [
            (window, *(f"{cell['ndcg@10']:.3f} ({cell['work']:.2f})" for cell in row.values()))
            for window, row in found["grid"].items()
        ]
        parts += ["\n" + _table((f"{name}: window", *(f"first {count}" for count in counts)), rows)]
    return "".join(parts)


def plot(results: Mapping[str, Any]) -> str:
    """nDCG@10 against the deadline as SVG, a line a collection, dashes for the first stage and for exact reranking."""
    deadlines = [float(deadline) for deadline in results["one"]]
    rows = [*results["one"].values(), *results["bases"].values()]
    names = [name for name in rows[0]["ndcg@10"] if name != "mean"]
    values = [row["ndcg@10"][name] for row in rows for name in names]
    low, high = min(values) - 0.01, max(values) + 0.01

    def x(deadline: float) -> float:
        return LEFT + (WIDTH - LEFT - 120) * deadline / max(deadlines)

    def y(value: float) -> float:
        return (HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - 20) * (value - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">\n',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n',
        f'<path d="M{LEFT},{HEIGHT - BOTTOM}H{x(max(deadlines)):.0f}" stroke="#888"/>\n',
        f'<text x="{LEFT}" y="{HEIGHT - 4}">deadline, ms; dashes: first stage alone (short) and exact (long)</text>\n',
    ]
    for deadline in deadlines:
        parts.append(
            f'<text x="{x(deadline):.0f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{deadline:g}</text>\n'
        )
    for step in range(5):
        value = low + (high - low) * step / 4
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.0f}" text-anchor="end">{value:.2f}</text>\n')
    for name in names:
        colour = COLOURS.get(name, "#444")
        points = " ".join(
            f"{x(deadline):.1f},{y(row['ndcg@10'][name]):.1f}"
            for deadline, row in zip(deadlines, results["one"].values(), strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>\n')
        for way, dashes in (("first stage", "2 4"), ("exact", "10 5")):
            at = y(results["bases"][way]["ndcg@10"][name])
            parts.append(
                f'<line x1="{LEFT}" y1="{at:.1f}" x2="{x(max(deadlines)):.0f}" y2="{at:.1f}" stroke="{colour}" '
                f'stroke-dasharray="{dashes}"/>\n'
            )
        end = y(list(results["one"].values())[-1]["ndcg@10"][name])
        parts.append(f'<text x="{x(max(deadlines)) + 8:.0f}" y="{end + 4:.1f}" fill="{colour}">{name}</text>\n')
    return "".join([*parts, "</svg>\n"])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
