"""The rerankers that are compared, each in a process of its own (peers/worker.py) and in the environment it needs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import harness
from runoff import threads

PEERS = Path(__file__).parent / "peers"
# A session that spins after its run would be charged to whoever comes next.
PAUSE_SECONDS = 0.1

# Name, environment (peers/requirements-<environment>.txt; "" is this one), adapter, variant.
CONTENDERS: tuple[tuple[str, str, str, str], ...] = (
    ("Runoff native", "", "runoff_adapter", "native"),
    ("Runoff onnxruntime", "", "runoff_adapter", "onnxruntime"),
    ("onnxruntime int8, one padded batch", "ort", "onnxruntime_adapter", "padded"),
    ("onnxruntime int8, fours by length", "ort", "onnxruntime_adapter", "sorted"),
    ("OpenVINO int8 (NNCF), pairs by length", "ov", "openvino_adapter", "int8"),
    ("OpenVINO, pairs by length", "ov", "openvino_adapter", "fp32"),
    ("FlashRank int8", "ort", "flashrank_adapter", ""),
    ("fastembed int8", "ort", "fastembed_adapter", ""),
    ("sentence-transformers, torch fp32", "st", "sentence_transformers_adapter", "torch"),
    ("sentence-transformers, ONNX int8", "st", "sentence_transformers_adapter", "onnx-int8"),
    ("sentence-transformers, OpenVINO int8", "st-ov", "sentence_transformers_adapter", "openvino-int8"),
    ("rerankers, torch fp32", "st", "rerankers_adapter", ""),
)
REFERENCE = "sentence-transformers, torch fp32"


@dataclass
class Contender:
    """A running worker.

    Attributes:
        name: what tables call it.
        facts: what it said once it was loaded: ``load_s``, ``versions``, ``rss_mib``.
    """

    name: str
    process: subprocess.Popen[str]
    facts: dict[str, Any]

    def ask(self, query: str, passages: Sequence[str], callers: int = 1, repeats: int = 1) -> dict[str, Any]:
        """Scores and times of a query, asked ``repeats`` times by each of ``callers`` threads."""
        request = {"query": query, "passages": list(passages), "callers": callers, "repeats": repeats}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        found = _line(self.process)
        self.facts["rss_mib"] = found["rss_mib"]
        return found


def options(description: str | None) -> argparse.ArgumentParser:
    """Options that every comparison takes."""
    made = harness.parser(description)
    made.add_argument("--text", type=Path, required=True, help="corpus.jsonl.gz that passages are cut from")
    made.add_argument("--models", type=Path, required=True, help="folder that peers/prepare.py made")
    made.add_argument("--venvs", type=Path, required=True, help="folder of the environments that `make peers` made")
    made.add_argument("--only", nargs="*", help="names of contenders; default: all")
    return made


@contextlib.contextmanager
def running(chosen: argparse.Namespace) -> Iterator[tuple[list[Contender], dict[str, str]]]:
    """The contenders that start here, and the reasons of those that do not."""
    found: list[Contender] = []
    missing: dict[str, str] = {}
    budget = threads.budget(chosen.threads)
    try:
        for name, venv, adapter, variant in CONTENDERS:
            if chosen.only and name not in chosen.only:
                continue
            try:
                found.append(_start(name, venv, (adapter, variant, str(chosen.models.resolve()), str(budget)), chosen))
            except RuntimeError as error:
                missing[name] = str(error)
        yield found, missing
    finally:
        for each in found:
            each.process.kill()
            each.process.wait()


def rounds(found: Sequence[Contender], query: str, passages: Sequence[str], count: int) -> dict[str, list[float]]:
    """Milliseconds of each contender, in turn; the first round warms up and is dropped."""
    times: dict[str, list[float]] = {each.name: [] for each in found}
    for number in range(count + 1):
        for each in found:
            time.sleep(PAUSE_SECONDS)
            answer = each.ask(query, passages)
            if number:
                times[each.name] += answer["ms"]
    return times


def spread(times: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median and p95 of each contender's times, and the ratio of its median to the first one's."""
    first = median(next(iter(times.values())))
    return {
        name: {"median_ms": median(row), "p95_ms": harness.percentile(row, 95), "ratio": median(row) / first}
        for name, row in times.items()
    }


def top(scores: Sequence[float], count: int) -> list[int]:
    """Places of the highest scores, best first."""
    return np.argsort(-np.asarray(scores), kind="stable")[:count].tolist()


def _start(name: str, venv: str, args: Sequence[str], chosen: argparse.Namespace) -> Contender:
    python = Path(sys.executable) if not venv else chosen.venvs / venv / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"no environment {venv!r}")
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    process = subprocess.Popen(
        [str(python), str(PEERS / "worker.py"), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **offline, **({"PYTHONPATH": ""} if venv else {})},
    )
    facts = _line(process)
    print(f"{name}: loaded in {facts['load_s']:.1f} s", file=sys.stderr)
    return Contender(name, process, facts)


def _line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        told = process.stderr.read().strip().splitlines() or ["it ended without a word"]
        raise RuntimeError(told[-1])
    found: dict[str, Any] = json.loads(line)
    return found
