"""Prints the service's figures into docs/serve.md and README.md from the committed results, between their marks.

python benchmarks/serve_report.py            writes them
python benchmarks/serve_report.py --check    exits 1 when what is on disk is not what the results give
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
_MARKS = re.compile(r"(<!-- figures: [^\n]* -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_WAYS = {"in process": "`Engine.search`", "AsyncEngine": "`AsyncEngine.search`", "http": "`POST /search`"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="compare only")
    check = options.parse_args().check
    load, fuzz = (json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("serve", "serve_fuzz"))
    for path, figures in {"docs/serve.md": page(load, fuzz), "README.md": latency(load)}.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        wanted = _MARKS.sub(lambda match, figures=figures: f"{match[1]}{figures}{match[2]}", text)
        if check and wanted != text:
            sys.exit(f"{path} is not what the results give; run python benchmarks/serve_report.py")
        (ROOT / path).write_text(wanted, encoding="utf-8")


def page(load: Mapping[str, Any], fuzz: Mapping[str, Any]) -> str:
    """The figures of the page on serving."""
    results, settings, machine = load["results"], load["settings"], load["machine"]
    memory, calm, bodies = results["resident_mb"], results["calm_seconds"], results["bodies"]
    rows = [_scenario(name, results[name]) for name in ("overload", "overload again", "hang-up")]
    table = _table(("scenario", "answered (200)", "refused (429)", "refusal p99", "/healthz p99", "hung up"), rows)
    sizes = ", ".join(f"{name} {size:.0f}" for name, size in memory.items())
    refused = ", ".join(f"{name} {status}" for name, status in bodies.items())
    return f"""
### What was measured

{settings["clients"]} clients on one keep-alive connection each, which ask the demo's questions of the demo's store
without a pause for {settings["seconds"]:g} seconds (a third of that in the later rows); one that is refused tries again
after {settings["pause"]:g} seconds on average, ignoring the longer `Retry-After`. In the last row half of the clients
close their connection after 20 to 200 ms. There were no other statuses than those shown. Times are milliseconds, seen
by clients that run on the same {machine["threads"]} cores ({machine["cpu"]}, Python {machine["python"]}).

{table}
After the last client had its last answer (the line is empty then, so this says little), a question took no longer than
twice its idle time within
{calm["after overload"]:.1f} s (overload) and {calm["after hang-ups"]:.1f} s (hang-ups). Resident memory in MB:
{sizes}. Bodies over the cap: {refused}.

One question at a time:

{latency(load)}
{fuzz["results"]["bodies"]:,} generated bodies, half of them against the service's own description: \
{len(fuzz["results"]["failures"])} answers of 500, with a traceback or a path, or not as described.

`python benchmarks/serve.py` and `python benchmarks/serve_fuzz.py` measure this again.

"""


def latency(load: Mapping[str, Any]) -> str:
    """The time of one question by each way to ask it."""
    idle = load["results"]["idle"]
    rows = [(way, f"{idle[name]['median_ms']:.0f}", f"{idle[name]['p95_ms']:.0f}") for name, way in _WAYS.items()]
    return _table(("way", "median, ms", "p95, ms"), rows)


def _scenario(name: str, seen: Mapping[str, Any]) -> tuple[object, ...]:
    answers = dict(seen["answers"])
    good, refused = answers.pop("200"), answers.pop("429")
    if answers:
        raise SystemExit(f"{name}: statuses {', '.join(answers)} beside 200 and 429")
    return (
        name,
        good["count"],
        refused["count"],
        f"{refused['p99_ms']:.0f}",
        f"{seen['healthz']['p99_ms']:.0f}",
        seen["hung_up"],
    )


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    return "".join("| " + " | ".join(map(str, row)) + " |\n" for row in (head, ("---",) * len(head), *rows))


if __name__ == "__main__":
    main()
