"""The part of docs/benchmarks.md on other libraries: printed by report.py from what was measured, with what was not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contenders import CONTENDERS

# Of these there is no adapter, since there is nothing to try one with.
NOT_INSTALLED = {
    "flash-rerank": "`pip install flash-rerank` found no distribution where this was run; its Rust crate was not built"
}

RERANK = """## Rerankers over the same 20 passages

Every contender has the same weights, pairs and threads, its own process and its best settings known to us, and takes
turns with the others. They all tokenise the passages in every call; Runoff's search does not have to (see the token
cache above), so this understates what a Runoff user sees. "Times native" is the median by Runoff native's. Tokens are
real ones, without padding; the share is of the machine's int8 peak (above), counting useful operations only, so that
the fp32 contenders are measured by a yardstick that they do not use. The peak was taken once (here {peak:.0f} thousand
million operations a second), and the machine's own speed moved between tables: compare shares within one. With as few
rounds as these, p95 is little below the slowest of them. In the tables of labelled queries the last three columns are
over all queries of that table, the times over the first few: nDCG@10, how many of the first three are those of
sentence-transformers in fp32, and the logits' root mean square distance from its. So few queries tell no two
contenders' nDCG apart, docs/evaluation.md has more; the distance of logits is the finer measure.

Bias: we wrote the adapters (benchmarks/peers), we know our own library best, and only this machine was measured. The
8-bit ONNX file is onnxruntime's dynamic quantisation, per tensor, as the published 8-bit files of this model are; the
cross-encoder's fp32 weights were recovered from one of these (docs/models.md), which a contender in fp32 cannot gain
from. OpenVINO's int8 comes from NNCF's defaults and 40 calibration pairs, and care could bring its logits nearer; on
this CPU, without VNNI, OpenVINO is faster in fp32. On a CPU with other instructions the order may change: ask
`runoff info` what yours has, and rerun.
"""
DETERMINISM = """## Does a score depend on its batch?

Largest change of a logit when the same 20 passages are scored again, in reverse order, one by one, with a long passage
among them, or on one thread; in brackets how many of the first five places then hold another passage.

FlashRank returns the sigmoid instead of the logit, so its smallest changes are partly our way back to a logit.
"""
DEPTH = """## Milliseconds a pair, over depth and length

Passages of 60 words by the number of candidates, then 20 passages by their words; the best of {rounds} rounds. Without
fixed costs and waste, time would be in proportion to a pair's operations: a level line over depth, and over length one
that bends upwards, since attention grows with the square of the length. In brackets is how near to its own line a
contender is: operations a second as a share of its own best in the table.
"""
CONCURRENCY = """## Several callers at once

Queries a second of all callers together and p95 milliseconds of one, each reranking the same 20 passages of 60 words.
With as many threads as processors one caller uses the machine already; what matters is that many do not lose much. A
call that ended in an error counts for nothing and is told. All callers together ask {queries} times, so that p95 is
little below the slowest answer.
"""
FIRST_STAGE = """## Vector indexes

The vectors of docs/scale.md: unit vectors of 384 dimensions in clusters; one thread, the best {k}, recall against the
exact scan. All graphs have M = 16 and breadth 200 while building, and of the breadths 32, 64, 128, 256 and 512 while
searching the least that finds {recall:g} of them ("-": a scan); so they are compared at like recall. Runoff's own
default is 256, and up to 16,384 vectors it scans. Each was built in one process and opened in another; build is
processor time. "MiB" is what that process grew by while opening and searching, vectors included: in half precision for
Runoff, mapped from its file, so that pages never touched are not in it; in single precision for the others.

Bias: Runoff's graph is hnswlib's, its vectors take half the bytes. Made vectors: real embeddings are less clustered
than these, which moves recall and time of every graph.
"""
INGEST = """## Bytes of feeds to a searchable index

{files} feed files, {bytes:,} bytes, models loaded before the clock starts, until a first search over vectors has
answered. Runoff cleans and cuts at sentences, keeps metadata, token ids, a lexical index and checksums, and writes a
store; the peer (benchmarks/peers/tutorial_ingest.py: feedparser, html.parser, sentence-transformers in fp32, FAISS)
cuts every 200 words and writes texts and index. Their chunks differ: compare the seconds, or words a second.

Bias: we wrote the peer's script. It runs fp32, which is what one gets by default; the rows of Runoff on onnxruntime
show how much is due to 8 bits and how much to the native encoder.
"""
END_TO_END = """## Question to prompt

The same questions over the same chunks and vectors through Runoff and through the script of the usual tutorial
(benchmarks/peers/tutorial.py: sentence-transformers, exact FAISS index, CrossEncoder, tiktoken). Medians of {queries}
questions of each stage, p95 in brackets. Runoff reads a store on disk, searches words too, reranks from cached tokens
in 8 bits; the script has everything in memory and in fp32. Like is not compared with like here, but what one gets with
what one gets. 100,000 chunks are those of {collection} and generated ones, whose vectors lie about real chunks' own.
"""


def sections(results: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any], str]]:
    """Words, record and tables of each result that there is."""
    return [
        (
            _filled(words, results[name]["settings"]),
            results[name],
            show(results[name]["results"]) + _missing(results[name]["results"]),
        )
        for name, (words, show) in SECTIONS.items()
        if name in results
    ]


def _filled(words: str, settings: Mapping[str, Any]) -> str:
    """The words with what they tell of the settings."""
    return words.format(**{**settings, "files": len(settings.get("feeds", ()))})


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, ("---",) * len(head), *rows)) + "\n"


def _missing(results: Mapping[str, Any]) -> str:
    """The contenders that did not run, each with the reason, and those that the run left out."""
    reasons = {**results.get("not run", {}), **(NOT_INSTALLED if "workloads" in results else {})}
    known = {name for name, *_ in CONTENDERS}
    taken = known.intersection(*_points(results))
    left = sorted(known - taken - reasons.keys()) if taken else []
    told = [f"Not run: {name} ({reason})." for name, reason in reasons.items()]
    told += [f"Not in this run: {'; '.join(left)}."] if left else []
    return "".join(f"\n{line}\n" for line in told)


def _points(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Each table's figures by contender."""
    return (
        [results["contenders"]]
        if "contenders" in results
        else [row["ms a pair"] for row in results.get("depth", {}).values()]
    )


def _rerank(results: Mapping[str, Any]) -> str:
    parts = []
    for name, found in results["workloads"].items():
        real = "queries" in found
        rows = []
        for contender, row in found["contenders"].items():
            times = (f"{row['median_ms']:.0f}", f"{row['p95_ms']:.0f}", f"{row['ratio']:.2f}")
            told = [contender, *times, f"{row['tokens_per_s']:.0f}", f"{row['peak share']:.0%}"]
            if real:
                told.append(f"{row['ndcg@10']:.3f}")
                told += [f"{row[name]:.2f}" if name in row else "-" for name in ("top 3 as fp32", "rms to fp32")]
            rows.append(told)
        asked = f"{found['queries']} queries, {found['timed']} of them timed" if real else f"{found['timed']} rounds"
        head = ("contender", "p50 ms", "p95 ms", "times native", "tokens/s", "share of the peak")
        head += ("nDCG@10", "top 3", "rms") if real else ()
        parts.append(f"**{name}**, {found['tokens']} tokens, {asked}\n\n{table(head, rows)}")
    facts = [
        (
            name,
            f"{row['load_s']:.1f}",
            f"{row['rss_mib']:.0f}",
            f"{row['most_mib']:.0f}",
            ", ".join(f"{k} {v}" for k, v in row["versions"].items()),
        )
        for name, row in results["contenders"].items()
    ]
    head = ("contender", "load s", "MiB when loaded", "MiB at most, after p200", "versions")
    return "\n".join([*parts, table(head, facts)])


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
    return "\n".join(_line(results[axis], unit) for axis, unit in (("depth", "pairs"), ("words", "words")))


def _line(points: Mapping[str, Any], unit: str) -> str:
    """Milliseconds a pair along an axis, with each contender's operations a second as a share of its best."""
    rows = []
    for name in next(iter(points.values()))["ms a pair"]:
        speeds = {point: row["operations"] / row["ms a pair"][name] for point, row in points.items()}
        best = max(speeds.values())
        cells = (f"{row['ms a pair'][name]:.1f} ({speeds[point] / best:.0%})" for point, row in points.items())
        rows.append((name, *cells))
    heads = (f"{point} {unit}, {row['tokens']:.0f} tokens each" for point, row in points.items())
    return table(("contender", *heads), rows)


def _concurrency(results: Mapping[str, Any]) -> str:
    callers = list(next(iter(results["contenders"].values())))
    rows = [(name, *(_caller(row[count]) for count in callers)) for name, row in results["contenders"].items()]
    return table(("callers", *callers), rows)


def _caller(row: Mapping[str, Any]) -> str:
    failed = f", {row['failed']} failed" if row["failed"] else ""
    return f"{row['queries_per_s']:.2f} ({row['p95_ms']:.0f}){failed}"


def _first_stage(results: Mapping[str, Any]) -> str:
    rows = [
        (
            f"{int(size):,}",
            name,
            f"{row['breadth']:.0f}" if row["breadth"] else "-",
            f"{row['recall@20']:.3f}",
            f"{row['p50_ms']:.2f}",
            f"{row['p95_ms']:.2f}",
            f"{row['build_processor_s']:.1f}",
            f"{row['load_s']:.2f}",
            f"{row['index_mib']:.0f}",
        )
        for size, found in results["sizes"].items()
        for name, row in found.items()
    ]
    head = ("vectors", "index", "breadth", "recall@20", "p50 ms", "p95 ms", "build s", "open s", "MiB")
    return table(head, rows)


def _ingest(results: Mapping[str, Any]) -> str:
    rows = [
        (
            name,
            f"{row['seconds']:.1f}",
            f"{row['chunks']:.0f}",
            f"{row['words']:.0f}",
            f"{row['chunks_per_s']:.1f}",
            f"{row['words_per_s']:.0f}",
            f"{row['kb_per_s']:.0f}",
            f"{row['peak_mib']:.0f}",
        )
        for name, row in results.items()
    ]
    return table(("", "seconds", "chunks", "words", "chunks/s", "words/s", "kB of feed/s", "MiB at most"), rows)


def _end_to_end(results: Mapping[str, Any]) -> str:
    stages = ("embed", "retrieve", "rerank", "prompt")
    rows = [
        (name, side, *(_spread(row["stages"][stage]) for stage in stages), _spread(row), f"{row['rss_mib']:.0f}")
        for name, sides in results.items()
        for side, row in sides.items()
    ]
    return table(("store", "", *(f"{stage} ms" for stage in stages), "all ms", "MiB at most"), rows)


def _spread(row: Mapping[str, float]) -> str:
    return f"{row['p50_ms']:.1f} ({row['p95_ms']:.1f})"


SECTIONS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "rerank_peers": (RERANK, _rerank),
    "determinism": (DETERMINISM, _determinism),
    "depth": (DEPTH, _depth),
    "concurrency": (CONCURRENCY, _concurrency),
    "first_stage": (FIRST_STAGE, _first_stage),
    "ingest": (INGEST, _ingest),
    "end_to_end": (END_TO_END, _end_to_end),
}
