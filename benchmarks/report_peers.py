"""The part of docs/benchmarks.md on other libraries: printed by report.py from what was measured, with what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RERANK = """## Rerankers over the same 20 passages

Every contender has the same weights, pairs and threads, its own process and its best settings known to us, and takes
turns with the others. They all tokenise the passages in every call; Runoff's search does not have to (see the token
cache above), so this understates what a Runoff user sees. Times are medians. "As fp32" is how many of the first three
are those of sentence-transformers in fp32, "useful GOPS" is 2 x multiply-adds over real tokens by the time.

Bias: we wrote the adapters (benchmarks/peers), we know our own library best, and only this machine was measured. The
8-bit ONNX file is onnxruntime's dynamic quantisation, per tensor, as the published 8-bit files of this model are. On a
CPU with other instructions the order may change: ask `runoff info` what yours has, and rerun.
"""
DETERMINISM = """## Does a score depend on its batch?

Largest change of a logit when the same 20 passages are scored again, in reverse order, one by one, with a long passage
among them, or on one thread; in brackets how many of the first five places then hold another passage.

FlashRank returns the sigmoid instead of the logit, so its smallest changes are partly our way back to a logit.
"""
DEPTH = """## Milliseconds a pair, over depth and length

Passages of 60 words by the number of candidates, then 20 passages by their words. A reranker without fixed costs would
show a level line over depth. Attention grows with the square of the length, so a line over words must bend upwards.
"""
CONCURRENCY = """## Several callers at once

Queries a second of all callers together and p95 milliseconds of one, each reranking the same 20 passages of 60 words.
With as many threads as processors one caller uses the machine already; what matters is that many do not lose much.
"""
FIRST_STAGE = """## Vector indexes

Unit vectors of 384 dimensions in clusters, one thread, recall@20 against the exact scan. Made vectors: real embeddings
are more alike than these, which moves recall and time of every graph.
"""
END_TO_END = """## Documents to index, question to prompt

The same chunks and questions through Runoff and through the script of the usual tutorial (benchmarks/peers/tutorial.py:
sentence-transformers, exact FAISS index, CrossEncoder, tiktoken; fp32). Runoff commits to disk with checksums, keeps a
lexical index too, and works in 8 bits; the script has everything in memory and in fp32. Like is not compared with like
here, but what one gets with what one gets.
"""


def sections(results: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any], str]]:
    """Words, record and tables of each result that there is."""
    made = {
        "rerank_peers": (RERANK, _rerank),
        "determinism": (DETERMINISM, _determinism),
        "depth": (DEPTH, _depth),
        "concurrency": (CONCURRENCY, _concurrency),
        "first_stage": (FIRST_STAGE, _first_stage),
        "end_to_end": (END_TO_END, _end_to_end),
    }
    return [
        (words, results[name], show(results[name]["results"]) + _missing(results[name]["results"]))
        for name, (words, show) in made.items()
        if name in results
    ]


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, ("---",) * len(head), *rows)) + "\n"


def _missing(results: Mapping[str, Any]) -> str:
    """The contenders that did not run, each with the reason."""
    return "".join(f"\nNot run: {name} ({reason}).\n" for name, reason in results.get("not run", {}).items())


def _rerank(results: Mapping[str, Any]) -> str:
    parts = []
    for name, found in results["workloads"].items():
        real = "queries" in found
        extra = ("nDCG@10", "top 3 as fp32") if real else ("tokens/s", "useful GOPS")
        rows = []
        for contender, row in found["contenders"].items():
            told = (
                (f"{row['ndcg@10']:.3f}", f"{row['top 3 as fp32']:.2f}" if "top 3 as fp32" in row else "-")
                if real
                else (f"{row['tokens_per_s']:.0f}", f"{row['useful_gops']:.0f}")
            )
            rows.append((contender, f"{row['median_ms']:.0f}", f"{row['p95_ms']:.0f}", f"{row['ratio']:.2f}", *told))
        title = f"**{name}**, {found['queries']} queries" if real else f"**{name}**, {found['tokens']} tokens"
        parts.append(f"{title}\n\n{table(('contender', 'p50 ms', 'p95 ms', 'to the first', *extra), rows)}")
    facts = [
        (
            name,
            f"{row['load_s']:.1f}",
            f"{row['rss_mib']:.0f}",
            ", ".join(f"{k} {v}" for k, v in row["versions"].items()),
        )
        for name, row in results["contenders"].items()
    ]
    parts.append(table(("contender", "load s", "resident MiB", "versions"), facts))
    return "\n".join(parts)


def _determinism(results: Mapping[str, Any]) -> str:
    names = ("again", "reversed", "one by one", "with a long passage", "one thread")
    rows = [
        (
            contender,
            *(f"{row[name]['largest']:.2g} ({row[name]['top 5 flips']})" if name in row else "-" for name in names),
        )
        for contender, row in results["contenders"].items()
    ]
    return table(("contender", *names), rows)


def _depth(results: Mapping[str, Any]) -> str:
    return "\n".join(
        table(
            ("contender", *results[axis]),
            [
                (name, *(f"{row[name]:.1f}" for row in results[axis].values()))
                for name in next(iter(results[axis].values()))
            ],
        )
        for axis in ("depth", "words")
    )


def _concurrency(results: Mapping[str, Any]) -> str:
    callers = list(next(iter(results["contenders"].values())))
    rows = [
        (name, *(f"{row[count]['queries_per_s']:.2f} ({row[count]['p95_ms']:.0f})" for count in callers))
        for name, row in results["contenders"].items()
    ]
    return table(("contender", *(f"{count} callers" for count in callers)), rows)


def _first_stage(results: Mapping[str, Any]) -> str:
    rows = [
        (
            f"{int(size):,}",
            name,
            f"{row['recall@20']:.3f}",
            f"{row['p50_ms']:.2f}",
            f"{row['p95_ms']:.2f}",
            f"{row['build_s']:.1f}",
            f"{row['index_mib']:.0f}",
        )
        for size, found in results["sizes"].items()
        for name, row in found.items()
    ]
    return table(("vectors", "index", "recall@20", "p50 ms", "p95 ms", "build s", "MiB beside the vectors"), rows)


def _end_to_end(results: Mapping[str, Any]) -> str:
    stages = ("embed", "retrieve", "rerank", "prompt")
    rows = [
        (
            name,
            f"{row['p50_ms']:.0f}",
            f"{row['p95_ms']:.0f}",
            *(f"{row['stages p50_ms'][stage]:.1f}" for stage in stages),
            f"{row['chunks_per_s']:.0f}",
            f"{row['rss_mib']:.0f}",
        )
        for name, row in results.items()
    ]
    return table(
        ("", "p50 ms", "p95 ms", *(f"{stage} ms" for stage in stages), "ingest, chunks/s", "resident MiB"), rows
    )
