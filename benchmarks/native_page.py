"""The sections of docs/benchmarks.md about the native encoder. The words are here, the figures are in the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Table = tuple[str, tuple[str, ...], list[tuple[object, ...]]]

SPEED = """## What does the native encoder gain?

Twenty pairs through the same cross-encoder weights, the same threads, alternating in one run; median milliseconds, and
in brackets native's share of that time. "Planned" is onnxruntime by Runoff's plan, "padded" one padded batch with all
threads inside the run, over Runoff's graph and over the one that `quantize_dynamic` wrote ("stock"). OpenVINO runs int8
by NNCF's static quantisation, in a process of its own, pairs sorted by length, one stream a thread, at the batch size
that was fastest of 1, 2 and 4.
"""

PEAK = """### How near to the machine's limit?

The peak is measured in the same run: {peak:.0f} thousand million operations a second on {threads} threads, with the
instruction that multiplies most bytes ({how}). Useful operations are two for each multiply-add of linear layers and
attention over real tokens. {limit}The other columns are milliseconds of processor time, over all threads.
"""

LIMIT = """A sum of more than two products takes an addition for each
instruction as well: a loop of nothing but both reaches {share:.0%} of the peak. """

HOW = {
    "avx512vnni": "`vpdpbusd`, which also adds them in 32 bits",
    "avx2": "`vpmaddubsw`, which adds no more than two products, in 16 bits",
}

SCALING = """On p200, {threads} threads were {speed_up:.2f} times as fast as one. Kernel: {kernels}.
"""

EMBEDDING = """## How fast are chunks embedded?

{chunks} chunks of 40 to 200 words, {tokens} tokens, through the int8 bi-encoder; onnxruntime by the plan that was
fastest on a sample ({best}). The lowest cosine between both backends' vectors of a chunk was {cosine:.4f}. The gain is
smaller than the cross-encoder's on a CPU without VNNI: the bi-encoder has a scale per column, so its weights fill all 8
bits: some have to be taken in 16, and the others widened often (docs/native.md).
"""

FOOTPRINT = """## What does a process cost?

Both encoders loaded in a fresh process, memory after each has answered once, load from before the first import. The
peer holds the same models in fp32 on torch.
"""

QUANTISATION = """## What do 8 bits cost?

The first stage's top {depth} of labelled queries, reranked in fp32 and by both int8 backends: nDCG@10, the share of
the top 3 kept, and the distance of the logits from fp32. The cross-encoder's fp32 weights are themselves recovered
from 8 bits (docs/models.md), so this shows what 8-bit activations cost, not what rounding the weights did. fp32 runs
on onnxruntime; on the golden inputs its logits were within {torch:.1g} of torch's.
"""


EARLIER = """## What did the native encoder gain with AVX-512 VNNI?

Taken with an earlier form of the benchmark on a processor that has these instructions, when the encoder was new; the
sections that follow were taken on whatever their last lines name.
"""


def earlier(record: Mapping[str, Any]) -> list[Table]:
    """Native beside planned onnxruntime, from the record of the earlier form."""
    rows = [
        (name, f"{row['native']['median_ms']:.0f}", f"{row['onnxruntime']['median_ms']:.0f}", f"{row['ratio']:.2f}")
        for name, row in record["results"].items()
    ]
    return [(EARLIER, ("workload", "native, ms", "onnxruntime planned, ms", "ratio"), rows)]


def speed(record: Mapping[str, Any]) -> list[Table]:
    """What rivals take, the share of the peak, and the time by part."""
    works = {name: row for name, row in record["results"].items() if "parts" in row}
    settings, first = record["settings"], next(iter(works.values()))
    rivals = list(first["ratio"])
    times: list[tuple[object, ...]] = [
        (
            name,
            row["tokens"],
            _ms(row["native"]),
            *(f"{_ms(row[rival])} ({row['ratio'][rival]:.2f})" for rival in rivals),
        )
        for name, row in works.items()
    ]
    parts: list[tuple[object, ...]] = [
        (name, f"{row['peak share']:.0%}", *(f"{value:.1f}" for value in row["parts"].values()))
        for name, row in works.items()
    ]
    scaling, kernels = record["results"]["scaling"], record["results"]["kernels"]
    told = SCALING.format(
        threads=settings["threads"],
        speed_up=scaling["speed-up"],
        kernels=", ".join(f"{name} {_ms(row)} ms" for name, row in kernels.items()),
    )
    share = settings["summed peak"] / settings["peak"]
    limit = LIMIT.format(share=share) if share < 0.95 else ""
    peak = PEAK.format(peak=settings["peak"], threads=settings["threads"], how=HOW[settings["kernel"]], limit=limit)
    return [
        (SPEED, ("workload", "tokens", "native", *rivals), times),
        (peak, ("workload", "share of the peak", *first["parts"]), parts),
        (told, (), []),
    ]


def embedding(record: Mapping[str, Any]) -> list[Table]:
    """Tokens per second."""
    results = record["results"]
    words = EMBEDDING.format(
        chunks=record["settings"]["chunks"],
        tokens=results["tokens"],
        best=results["best plan"],
        cosine=results["lowest cosine"],
    )
    rows: list[tuple[object, ...]] = [
        (name, f"{value:.0f}", f"{value / results['tokens per second']['onnxruntime']:.2f}")
        for name, value in results["tokens per second"].items()
    ]
    return [(words, ("backend", "tokens per second", "against onnxruntime"), rows)]


def footprint(record: Mapping[str, Any]) -> list[Table]:
    """Memory and load time."""
    rows: list[tuple[object, ...]] = [
        (name, f"{row['resident_mib']:.0f}", f"{row['peak_mib']:.0f}", f"{row['load_ms']:.0f}")
        for name, row in record["results"].items()
    ]
    return [(FOOTPRINT, ("process", "resident, MiB", "at most, MiB", "load, ms"), rows)]


def quantisation(record: Mapping[str, Any]) -> list[Table]:
    """nDCG and agreement with fp32, vectors' cosines."""
    results = dict(record["results"])
    torch, vectors = results.pop("torch"), results.pop("vectors")
    rows: list[tuple[object, ...]] = [
        (
            name,
            row["queries"],
            f"{row['first stage']:.4f}",
            *(f"{row['ndcg@10'][kind]:.4f}" for kind in ("fp32", "native", "onnxruntime")),
            *(f"{row[kind]['top 3 agreement']:.1%}" for kind in ("native", "onnxruntime")),
            *(f"{row[kind]['rms logit']:.3f}" for kind in ("native", "onnxruntime")),
        )
        for name, row in results.items()
    ]
    head = ("collection", "queries", "first stage", "fp32", "native", "onnxruntime", "top 3, native")
    told = "Cosine of the bi-encoder's int8 vectors to fp32, over {} chunks: {}.\n".format(
        record["settings"]["chunks"],
        "; ".join(f"{name} at least {row['lowest']:.4f}, mean {row['mean']:.4f}" for name, row in vectors.items()),
    )
    words = QUANTISATION.format(depth=record["settings"]["depth"], torch=max(torch.values()))
    return [
        (words, (*head, "top 3, onnxruntime", "rms, native", "rms, onnxruntime"), rows),
        (told, (), []),
    ]


def _ms(times: Mapping[str, float]) -> str:
    return f"{times['median_ms']:.0f}"
