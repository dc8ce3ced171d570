"""Prints the figures of docs/caches.md from benchmarks/results/caches.json, between their marks.

python benchmarks/caches_page.py            writes them
python benchmarks/caches_page.py --check    exits 1 when the page on disk is not what the results give
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
RESULTS = ROOT / "benchmarks" / "results" / "caches.json"
PAGE = ROOT / "docs" / "caches.md"
_MARKS = re.compile(r"(<!-- figures: [^\n]* -->\n).*?(<!-- end of figures -->)", re.DOTALL)

TIME = """
## What was measured

Milliseconds of `Engine.search`, and of `Engine.prompt` where it says so, by {queries} queries of {collections} over a
store of their {documents:,} documents, exact, twenty candidates, {threads} threads ({cpu}). A refresh edits
{changed:.0%} of the documents; after it {new:.2f} pairs a query had to be scored. What a prompt takes beside its search
is cutting passages to the budget and counting tokens.
"""

STREAM = """
{draws:,} draws by a Zipf law (exponent {exponent:g}) over {queries:,} queries, {refreshes} such refreshes on the way:
the shares of what each cache was asked for that it had. What `results` has, no other is asked for. "Pairs not scored"
is the share of twenty candidates a draw.
"""

WAYS = {
    "computed": "nothing kept",
    "asked again": "asked again",
    "asked again, other top_n": "asked again with another `top_n`",
    "after a refresh": "asked again after a refresh",
    "computed, prompt": "prompt, nothing kept",
    "asked again, prompt": "prompt, asked again",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="compare only")
    check = options.parse_args().check
    figures, text = page(json.loads(RESULTS.read_text("utf-8"))), PAGE.read_text("utf-8")
    wanted = _MARKS.sub(lambda match: f"{match[1]}{figures}{match[2]}", text)
    if check and wanted != text:
        sys.exit(f"{PAGE.name} is not what the results give; run python benchmarks/caches_page.py")
    PAGE.write_text(wanted, encoding="utf-8")


def page(record: Mapping[str, Any]) -> str:
    """Both sections."""
    time, stream = (record["results"][part] for part in ("time", "stream"))
    settings = {**time["settings"], "collections": ", ".join(time["settings"]["collections"])}
    new = time["after a refresh"]["new pairs a query"]
    head = TIME.format(**settings, cpu=record["machine"]["cpu"], new=new)
    rows = [
        (shown, *(f"{time[name][f'{point}_ms']:.3g}" for point in ("p50", "p95", "p99")), f"{time[name]['calls']:,}")
        for name, shown in WAYS.items()
    ]
    found = _table(("call", "p50", "p95", "p99", "calls"), rows)
    runs = {bound: run for bound, run in stream.items() if bound != "settings"}
    shares = [
        (
            bound,
            *(f"{run[name]['share']:.3f}" for name in ("results", "embeddings", "pairs")),
            f"{run['share of pairs not scored']:.3f}",
            f"{sum(run[name]['most_bytes'] for name in ('results', 'embeddings', 'pairs')) / 1e6:.2f} MB",
        )
        for bound, run in runs.items()
    ]
    hits = _table(("bound", "results", "embeddings", "pairs", "pairs not scored", "most bytes held"), shares)
    how = "\n`python benchmarks/caches.py` measures this again.\n\n"
    return f"{head}\n{found}{STREAM.format(**stream['settings'])}\n{hits}{how}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
