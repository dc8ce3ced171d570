"""Prints docs/benchmarks.md from the committed results. The words are here, the figures are not.

python benchmarks/report.py            writes the page
python benchmarks/report.py --check    exits 1 when the page on disk is not what the results give
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import exits_page
import native_page
import report_peers

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Every figure on this page is printed from a file under `benchmarks/results/` by `python benchmarks/report.py`, and each
table names the command that makes its file. The machines are shared virtual ones with two cores: absolute times move by
a factor of two or more from hour to hour, ratios inside one run much less. Read the ratios. Processors with and without
AVX-512 share a name; the line below a table tells which it was, and no time compares with one of the other kind.
"""

RERANK = """## Does planning pay?

Twenty pairs through the same cross-encoder on onnxruntime, the same threads, one process, alternating: Runoff's plan
(one unpadded pair a run, each run on one thread, longest first) against one padded batch with all threads inside the
run. Both ways run over two graphs of the same weights: Runoff's own, and the one that onnxruntime's `quantize_dynamic`
writes ("stock"), which is what rerankers commonly ship. Times are median milliseconds. Workloads: p60 is 20 passages of
60 words, mix is 5 of 12 words and 15 of 40 to 200, p200 is 20 of 200.

The last column is how far a padded batch moved a logit from the value that the pair has alone: dynamic quantisation
scales activations over the whole batch. The plan's own shift is zero, by a test.

Bias: the padded contender is onnxruntime with default settings apart from its thread count; a reranker that sorts by
length before it batches would lose less on mix.
"""

ASSEMBLY = """## What does the token cache save?

Assembling 20 pairs from cached ids, against tokenising the 20 passages at query time instead.
"""

FIRST = """## How long until a fresh process answers?

Over the demo store. Import, load and search are measured inside the process; the command line adds its own parsing and
printing.
"""

ABSENT = """## What is not measured here

- rerankers' and sentence-transformers' GPU paths, and ARM: this machine has neither.
- More vectors in other libraries' indexes than the table above has: docs/store.md has Runoff's own stores by size.
"""


COLLECTIONS = ("nq_passages", "fiqa_test", "scifact")
NATIVE = {
    "native_vnni": native_page.earlier,
    "native": native_page.speed,
    "embedding": native_page.embedding,
    "footprint": native_page.footprint,
    "quantisation": native_page.quantisation,
    "early_exit": exits_page.exits,
    "early_exit_time": exits_page.exit_times,
    "calibration": exits_page.calibration,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    page = build()
    if options.parse_args().check:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page else f"{PAGE}: differs; run {Path(__file__).name}")
    PAGE.write_text(page, encoding="utf-8")


def build() -> str:
    """The page's text."""
    parts = [HEAD, _rerank(_read("rerank_plan"))]
    found = {path.stem: _read(path.stem) for path in RESULTS.glob("*.json")}
    parts += [_tables(found[name], tables) for name, tables in NATIVE.items() if name in found]
    parts += [_assembly(_read("assembly")), _first(_read("first_answer"))]
    parts += ["\n".join([words, tables, _note(record)]) for words, record, tables in report_peers.sections(found)]
    return "\n".join([*parts, ABSENT + _lacking(found)])


def _lacking(found: Mapping[str, Any]) -> str:
    """What has a benchmark, but no committed result."""
    names = [name for name in (*NATIVE, *report_peers.SECTIONS) if name not in found]
    lines = [f"- What `{name}.py` asks: no result is committed." for name in names]
    ranked = found["rerank_peers"]["results"]["workloads"] if "rerank_peers" in found else {}
    lines += [f"- Other libraries over candidates of {name}." for name in COLLECTIONS if f"real {name}" not in ranked]
    return "".join(f"{line}\n" for line in lines)


def _read(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return record


_RATIOS = ("planned / padded", "the same, stock", "planned / stock padded")


def _rerank(record: Mapping[str, Any]) -> str:
    head = ("workload", "tokens", "planned", "padded", "stock planned", "stock padded", *_RATIOS, "shift")
    rows = [
        (
            name,
            row["tokens"],
            _ms(row["planned"]),
            _ms(row["padded"]),
            _ms(row["planned, stock graph"]),
            _ms(row["padded, stock graph"]),
            *(f"{row[name]:.2f}" for name in ("ratio", "ratio, both stock", "ratio to stock")),
            f"{row['largest logit shift by the batch']:.2f}",
        )
        for name, row in record["results"].items()
    ]
    return _section(RERANK, record, head, rows)


def _assembly(record: Mapping[str, Any]) -> str:
    rows = [(name, f"{row['assemble_us']:.0f}", f"{row['tokenise_us']:.0f}") for name, row in record["results"].items()]
    return _section(ASSEMBLY, record, ("workload", "assembling, microseconds", "tokenising, microseconds"), rows)


def _first(record: Mapping[str, Any]) -> str:
    rows = [(name, f"{value:.0f}") for name, value in record["results"].items()]
    return _section(FIRST, record, ("step", "median ms"), rows)


def _tables(record: Mapping[str, Any], tables: Callable[[Mapping[str, Any]], list[native_page.Table]]) -> str:
    """Several tables of one record, and its machine once."""
    return "\n".join(
        [*("\n".join([words, *_lines(head, rows)]) for words, head, rows in tables(record)), _note(record)]
    )


def _section(words: str, record: Mapping[str, Any], head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    return "\n".join([words, *_lines(head, rows), _note(record)])


def _lines(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    table = [head, ("---",) * len(head), *rows] if head else []
    return ["| " + " | ".join(map(str, row)) + " |" for row in table] + [""] * bool(head)


def _note(record: Mapping[str, Any]) -> str:
    """Machine, versions and how to rerun."""
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    vectors = "AVX-512 VNNI" if "avx512_vnni" in machine["features"] else "no AVX-512"
    return (
        f"{machine['cpu']} ({vectors}), {machine['threads']} threads, Python {machine['python']}, {versions}. "
        f"`python benchmarks/{record['benchmark']}.py --help` tells how to rerun it.\n"
    )


def _ms(times: Mapping[str, float]) -> str:
    return f"{times['median_ms']:.0f}"


if __name__ == "__main__":
    main()
