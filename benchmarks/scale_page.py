"""Prints docs/scale.md and its plot from benchmarks/results/scale.json.

The words are here, the figures are not.

python benchmarks/scale_page.py            writes the page
python benchmarks/scale_page.py --check    exits 1 when the page or the plot on disk is not what the results give
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runoff.index import SCAN_ROWS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "scale.md"
PLOT = ROOT / "docs" / "scale.svg"

HEAD = """# What a store costs as it grows

Texts are generated: a Markov chain over the words of three real collections, 80 words each, four to a document.
Vectors are synthetic: unit vectors of {dimensions} dimensions in {clusters} clusters, since embedding a million chunks
would measure the encoder. Everything else is the store's own: writer, commits, files, indexes. {queries} queries, one
at a time. Other vector indexes are measured in [benchmarks.md](benchmarks.md).
"""

SEARCH = """## Search

The best {top}, median / 95th percentile in milliseconds. Hybrid reads both lists 100 deep. A filter is told by the
share of chunks that meets it; evaluating it is part of `hybrid with a filter` only. Recall is of the dense list against
`exact`, a scan over all vectors; where at most {scan:,} chunks live or meet a filter, the dense list is a scan, too.
Opening checks every byte against its checksum, from files that the system has cached; resident memory includes the
pages of mapped files that this touched, which the system may take back.

![Milliseconds by size](scale.svg)
"""

CHANGE = """## Ingest and change

Ingest is without embedding. A change adds 100 chunks that are embedded, to a store that is open: lock, look-ups,
commit, and the reader's new generation. Its first one in a process also sorts the keys by which texts are looked up.
"""

SHARED = """\\* On a shared machine: a second of processor time stands for a second, and making the texts is in it.
"""

REPLACED = """## After twenty times a tenth

Twenty rounds of a commit that replaces a tenth of the documents, with the compactions that come by themselves.
recall@20 of the dense list after the last round and where it was lowest, which may be when most rows of the graphs are
dead, beside that of a graph made anew over the vectors that live at the end. A store of 10,000 chunks is scanned, not
walked.
"""

KINDS = (
    "dense",
    "lexical",
    "hybrid",
    "dense, filter of a half",
    "dense, filter of a hundredth",
    "hybrid with a filter",
    "exact",
)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#56B4E9", "#CC79A7", "#E69F00", "#555555")

Steps = Mapping[str, Any]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    check = options.parse_args().check
    for path, text in ((PAGE, page()), (PLOT, plot())):
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path}: differs; run {Path(__file__).name}")


def page() -> str:
    """The page's text."""
    record = _read("scale")
    settings, sizes = record["settings"], record["results"]
    searched = {size: steps["search"] for size, steps in sizes.items() if "search" in steps}
    parts = [
        HEAD.format(**settings),
        SEARCH.format(**settings, scan=SCAN_ROWS),
        *_search(searched),
        CHANGE,
        *_change(sizes),
    ]
    replaced = {size: steps["replaced"] for size, steps in sizes.items() if "replaced" in steps}
    if replaced:
        parts += [REPLACED, *_replaced(replaced)]
    return "\n".join([*parts, _note(record)])


def plot() -> str:
    """The 95th percentile of each kind of search against size, both on logarithmic scales, as SVG."""
    sizes = {int(size): steps["search"] for size, steps in _read("scale")["results"].items() if "search" in steps}
    left, top, width, height, right = 60, 20, 420, 300, 230
    low, high = (math.log10(edge) for edge in (min(sizes), max(sizes)))
    values = [steps[kind]["p95 ms"] for steps in sizes.values() for kind in KINDS]
    bottom, roof = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def across(size: float) -> float:
        return left + width * (math.log10(size) - low) / max(high - low, 1e-9)

    def up(value: float) -> float:
        return top + height * (roof - math.log10(value)) / (roof - bottom)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + right} {top + height + 50}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{left + width + right}" height="{top + height + 50}" fill="white"/>',
    ]
    for power in range(bottom, roof + 1):
        y = up(10.0**power)
        parts.append(f'<path d="M{left} {y:.1f}H{left + width}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for size in sizes:
        x = across(size)
        parts.append(f'<path d="M{x:.1f} {top}V{top + height}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{size:,}</text>')
    for place, (kind, colour) in enumerate(zip(KINDS, COLOURS, strict=True)):
        points = [(across(size), up(steps[kind]["p95 ms"])) for size, steps in sizes.items()]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        y = top + 14 + 20 * place
        parts.append(f'<circle cx="{left + width + 22}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{left + width + 32}" y="{y}">{kind}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">chunks</text>')
    parts.append(
        f'<text transform="translate(14 {top + height / 2}) rotate(-90)" text-anchor="middle">p95, milliseconds</text>'
    )
    return "\n".join([*parts, "</svg>\n"])


def _search(sizes: Steps) -> list[str]:
    rows = [(kind, *(f"{_ms(s[kind]['p50 ms'])} / {_ms(s[kind]['p95 ms'])}" for s in sizes.values())) for kind in KINDS]
    rows.append(("recall@20", *(f"{steps['recall@20 of dense']:.3f}" for steps in sizes.values())))
    rows.append(("open, s", *(f"{steps['open seconds']:.2f}" for steps in sizes.values())))
    rows.append(("resident, MB", *(f"{steps['resident MB']:,.0f}" for steps in sizes.values())))
    return _table(("chunks", *_named(sizes)), rows)


def _change(sizes: Steps) -> list[str]:
    lines = {
        "ingest: tables and words, chunks/s": ("ingest", "tables and words, chunks/s", "{:,.0f}"),
        "ingest: graph, chunks/s": ("ingest", "graph, chunks/s", "{:,.0f}"),
        "size on disk, bytes a chunk": ("ingest", "bytes", "{:,.0f}"),
        "add 100, median ms": ("change", "median ms", "{:.1f}"),
        "add 100, median ms of processor time": ("change", "median processor ms", "{:.1f}"),
        "the first of a process, ms": ("change", "first ms", "{:.0f}"),
        "add 100, median bytes written": ("change", "median bytes written", "{:,.0f}"),
        "add 100, most bytes written": ("change", "most bytes written", "{:,.0f}"),
    }
    rows = []
    for name, (step, key, form) in lines.items():
        cells = []
        for size, steps in sizes.items():
            value = steps.get(step, {}).get(key)
            share = value / int(size) if value is not None and key == "bytes" else value
            text = "not measured" if share is None else form.format(share)
            cells.append(f"{text} *" if share is not None and step == "ingest" and steps[step].get("shared") else text)
        rows.append((name, *cells))
    shared = any(steps.get("ingest", {}).get("shared") for steps in sizes.values())
    return [*_table(("chunks", *_named(sizes)), rows), *([SHARED] if shared else [])]


def _replaced(sizes: Steps) -> list[str]:
    rows = [
        ("recall@20", *(f"{steps['recall@20']:.4f}" for steps in sizes.values())),
        ("lowest after any round", *(f"{steps['lowest recall@20']:.4f}" for steps in sizes.values())),
        ("recall@20 of a fresh build", *(f"{steps['recall@20 of a fresh build']:.4f}" for steps in sizes.values())),
        ("compactions", *(str(steps["compactions"]) for steps in sizes.values())),
    ]
    return _table(("chunks", *_named(sizes)), rows)


def _named(sizes: Steps) -> list[str]:
    return [f"{int(size):,}" for size in sizes]


def _ms(value: float) -> str:
    return f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]


def _read(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return record


def _note(record: Mapping[str, Any]) -> str:
    machine = record["machine"]
    versions = ", ".join(f"{name} {machine['versions'][name]}" for name in ("numpy", "hnswlib", "runoff"))
    return (
        f"{machine['cpu']}, {machine['threads']} threads, Python {machine['python']}, {versions}.\n\n"
        "`python benchmarks/scale.py --collections FOLDER --work FOLDER --json benchmarks/results/scale.json`\n"
    )


if __name__ == "__main__":
    main()
