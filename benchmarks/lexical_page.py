"""Prints docs/decisions/lexical.md from benchmarks/results/lexical.json. The words are here, the figures are not.

python benchmarks/lexical_page.py            writes the page
python benchmarks/lexical_page.py --check    exits 1 when the page on disk is not what the results give
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "lexical.json"
PAGE = ROOT / "docs" / "decisions" / "lexical.md"

SIZES = (100_000, 1_000_000)
NAMES = {"runoff": "own segments", "fts5": "SQLite FTS5", "tantivy": "tantivy", "bm25s": "bm25s"}

HEAD = """# The lexical index: own segments

**Decision.** Runoff keeps BM25 in segments of its own (`runoff.lexical`, kernel in `src/_native/bm25.h`): immutable
blocks of bytes that the store writes, names in its manifest and maps, as it does its other files.

**Asked for.** Scores after deletes equal to those of a rebuild; adding a hundred chunks to a million at the price of
a hundred; one generation with vectors, texts and metadata, so that a crash or a reader never sees one without the
other; the best hundred of a million chunks in a few milliseconds on one core; words of any script findable.

**Found.** Each of the three that were measured lacks at least one of these.

- *SQLite FTS5* is right after deletes, cheap to add to and safe in a crash. It scores every chunk with any of the
  words, one call each, and is the slowest by far where many chunks have them. Its commit is its own: between it and
  the manifest's rename a crash leaves two generations. Its bigrams for scripts without spaces would need a tokenizer
  in C or text that is cut before it goes in.
- *tantivy* is the smallest and skips what cannot reach the top. Its counts of rows and words contain deleted rows
  until a merge happens to drop them, so the same live chunks rank differently from day to day. It has a commit of its
  own, too, merges in threads of its own, and is a compiled dependency.
- *bm25s* stores finished scores, which any change of the collection changes: each add or delete builds it anew. Saving
  over a saved index is not atomic.
- *Own segments* cost about {lines} lines of C, Cython and Python and {times_tantivy:.1f} times tantivy's disk at
  {largest} chunks, since postings are plain arrays: 5 bytes each, and nothing to decode at query time.

Should disk ever count for more than simplicity, postings can be packed in blocks of 128 without a change of anything
above them.
"""

SPEED = """## Search

The best 100 for queries of three and of ten words without stop words, each query's words drawn from one chunk (so
common words are common in them). Milliseconds of processor time, median / 95th percentile of {queries} queries; one
thread, a fresh process, each query run once before. Memory is what opening and searching added, mapped files included.
"""

BUILD = """## Build, size, change

Build is processor time from texts to a durable index. Add and delete take 100 chunks, durable and seen by the next
search: processor time, median of 7. bm25s has no change but a build. FTS5 holds the texts, which this version of SQLite
needs for deletes ({sqlite}).
"""

CORRECT = """## Deletes and crashes

5,000 chunks, three in ten deleted, against an index of the others: how many of 100 queries give the same 100 rows
in the same order, and the largest relative difference of a score at the same rank. Then {kills} kills of a process
that adds hundreds: what opened again held all batches that were acknowledged (or one more, whose acknowledgement was
not out yet), or it did not. Own segments are not killed here: a file that no manifest names does not exist, and the
store's tests kill the store.
"""

QUALITY = """## Quality

BM25 alone on the labelled collections, recall@20 / nDCG@10, and the same with one thing changed. Porter's stemmer is
in because of this table; k1 and b are at their usual values because it shows nothing to gain elsewhere that all three
collections agree on.
"""

BIAS = """## Against this page

The chunks are generated: a first-order Markov chain over the words of the three labelled collections, with two in a
hundred words made up, 80 words each. Real text repeats a topic's words inside a chunk; this does less, which favours
nobody in particular. FTS5 and tantivy analyse with their own tokenizers and English stems, bm25s with a regular
expression and the same stems. bm25s ran on NumPy; with numba it searches faster and builds no differently. tantivy
ran without positions, as it needs none here; its time has the look-up of 100 stored row numbers in it. The machine is a
shared one with two cores, busy with other work during these runs: so the page shows processor time, and the results
file has the (longer) times by the clock.
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    page = build(json.loads(RESULTS.read_text(encoding="utf-8")))
    if options.parse_args().check:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page else f"{PAGE}: differs; run {Path(__file__).name}")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")


def build(record: Mapping[str, Any]) -> str:
    """The page's text."""
    results, versions = record["results"], record["settings"]["versions"]
    largest = max((size for size, row in results["build"].items() if {"runoff", "tantivy"} <= row.keys()), key=int)
    sizes = {name: row["megabytes"] for name, row in results["build"][largest].items()}
    head = HEAD.format(lines=_lines(), times_tantivy=sizes["runoff"] / sizes["tantivy"], largest=f"{int(largest):,}")
    parts = [head, SPEED.format(queries=record["settings"]["queries"]), _speed(results)]
    parts += [BUILD.format(sqlite=versions["sqlite"]), _build(results)]
    parts += [CORRECT.format(kills=results["crash"]["0"]["fts5"]["kills"]), _correct(results)]
    parts += [QUALITY, _quality(results["quality"]), BIAS, *_missing(results)]
    machine = record["machine"]
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts.append(f"{machine['cpu']}, {machine['system']}, Python {machine['python']}, {shown}.\n")
    parts.append(
        "`python benchmarks/lexical.py --collections FOLDER --work FOLDER --json benchmarks/results/lexical.json`\n"
    )
    return "\n".join(parts)


def _missing(results: Mapping[str, Any]) -> list[str]:
    """What a run that was cut short leaves open, for all to see."""
    missing = [
        f"{step} of {name} at {size:,}"
        for size in SIZES
        for step in ("build", "search", "change")
        for key, name in NAMES.items()
        if key not in results.get(step, {}).get(str(size), {})
    ]
    return [f"**Not measured yet:** {', '.join(missing)}.\n"] if missing else []


def _lines() -> int:
    """Lines of the index, to the nearest fifty."""
    files = ["_native/bm25.h", "_native/bm25.pyx", "runoff/lexical.py", "runoff/words.py", "runoff/stemming.py"]
    return round(sum(len((ROOT / "src" / name).read_text(encoding="utf-8").splitlines()) for name in files) / 50) * 50


def _speed(results: Mapping[str, Any]) -> str:
    rows = []
    for size, name, row in _each(results.get("search", {})):
        cells = (row["3 words"], row["10 words"])
        words = [" / ".join(_short(cell[point]) for point in ("p50_cpu_ms", "p95_cpu_ms")) for cell in cells]
        rows.append((size, name, *words, f"{row['open_cpu_ms']:.0f}", f"{row['resident_mb']:.0f}"))
    return _table(("chunks", "index", "3 words, ms", "10 words, ms", "open, ms", "memory, MB"), rows)


def _short(milliseconds: float) -> str:
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:,.0f}"


def _build(results: Mapping[str, Any]) -> str:
    rows = []
    for size, name, row in _each(results["build"]):
        change = results.get("change", {}).get(size.replace(",", ""), {}).get(_key(name)) or {}
        cells = (f"{row['cpu_seconds']:.0f}", f"{row['peak_mb']:.0f}", f"{row['megabytes']:.0f}")
        added = [
            f"{change[key]:.0f}" if change else "a build" if name == "bm25s" else "?"
            for key in ("add_cpu_ms", "added_kb", "delete_cpu_ms")
        ]
        rows.append((size, name, *cells, *added))
    head = ("chunks", "index", "build, s", "peak, MB", "disk, MB", "add 100, ms", "grows by, kB", "delete 100, ms")
    return _table(head, rows)


def _correct(results: Mapping[str, Any]) -> str:
    rows = []
    for _, name, row in _each(results["deletes"]):
        kills = results["crash"]["0"][_key(name)]
        sound = f"{kills['kills'] - kills['lost or damaged']} of {kills['kills']}" if kills else "by the store"
        rows.append((name, f"{row['same_rankings']} of {row['queries']}", f"{row['largest_difference']:.2g}", sound))
    return _table(("index", "same rankings after deletes", "largest difference", "sound after a kill"), rows)


def _quality(quality: Mapping[str, Any]) -> str:
    names = list(next(iter(quality.values())))
    rows = []
    for variant, row in quality.items():
        cells = [row[name] for name in names]
        mean = {key: sum(cell[key] for cell in cells) / len(cells) for key in cells[0]}
        rows.append((variant, *(f"{cell['recall@20']:.3f} / {cell['nDCG@10']:.3f}" for cell in [*cells, mean])))
    return _table(("", *names, "mean"), rows)


def _each(steps: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Any]]:
    """Size, name and figures of each contender, sizes ascending."""
    return [
        (f"{int(size):,}", shown, steps[size][name])
        for size in sorted(steps, key=int)
        for name, shown in NAMES.items()
        if name in steps[size]
    ]


def _key(shown: str) -> str:
    return next(name for name, entry in NAMES.items() if entry == shown)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
