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
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import harness
from runoff import threads
from runoff.tokenizer import Tokenizer

PEERS = Path(__file__).parent / "peers"
# Special tokens of a pair, and how many tokens a pair is cut to.
SPECIAL, LONGEST = 3, 512

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


class Contender:
    """A worker that starts when it is first asked."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._command, self._environment = command, environment
        self._process: subprocess.Popen[str] | None = None
        self._warm = False

    def start(self) -> dict[str, Any]:
        """Start afresh; what it says once it is loaded: ``load_s``, ``versions``, ``rss_mib``.

        Raises:
            RuntimeError: it does not start here; its last words.
        """
        self.stop()
        if not Path(self._command[0]).exists():
            raise RuntimeError(f"no environment {Path(self._command[0]).parents[1].name!r}")
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(self._command, env=self._environment, **pipes)
        facts = self._line()
        print(f"{self.name}: loaded in {facts['load_s']:.1f} s", file=sys.stderr)
        return facts

    def ask(self, query: str, passages: Sequence[str], callers: int = 1, repeats: int = 1) -> dict[str, Any]:
        """Scores and times of a query, asked ``repeats`` times by each of ``callers`` threads."""
        if self._process is None:
            self.start()
        time.sleep(harness.PAUSE_SECONDS)
        request = {"query": query, "passages": list(passages), "callers": callers, "repeats": repeats}
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self._warm = True
        return self._line()

    def warm_up(self, query: str, passages: Sequence[str]) -> None:
        """Ask once, unless this process was asked before. Later shapes are new to it, as they are in use."""
        if not self._warm:
            self.ask(query, passages)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._warm = False

    def _line(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            told = self._process.stderr.read().strip().splitlines() or ["it ended without a word"]
            raise RuntimeError(told[-1])
        found: dict[str, Any] = json.loads(line)
        return found


def options(description: str | None) -> argparse.ArgumentParser:
    """Options that every comparison takes."""
    made = harness.parser(description)
    made.add_argument("--text", type=Path, required=True, help="corpus.jsonl.gz that passages are cut from")
    made.add_argument("--models", type=Path, required=True, help="folder that peers/prepare.py made")
    made.add_argument("--venvs", type=Path, required=True, help="folder of the environments that `make peers` made")
    made.add_argument("--only", nargs="*", help="names of contenders; default: all")
    harness.add_work(made)
    return made


@contextlib.contextmanager
def running(chosen: argparse.Namespace, figures: harness.Figures) -> Iterator[tuple[list[Contender], dict[str, str]]]:
    """The contenders that start here, and the reasons of those that do not."""
    found: list[Contender] = []
    missing: dict[str, str] = {}
    budget = threads.budget(chosen.threads)
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    try:
        for name, venv, adapter, variant in CONTENDERS:
            if chosen.only and name not in chosen.only:
                continue
            python = str(chosen.venvs / venv / "bin" / "python") if venv else sys.executable
            command = (python, str(PEERS / "worker.py"), adapter, variant, str(chosen.models.resolve()), str(budget))
            environment = {**os.environ, **offline, **({"PYTHONPATH": ""} if venv else {})}
            each = Contender(name, command, environment)
            try:
                figures.take(f"versions, {budget} threads, {name}", lambda each=each: each.start()["versions"])
                found.append(each)
            except RuntimeError as error:
                missing[name] = str(error)
        yield found, missing
    finally:
        for each in found:
            each.stop()


def rounds(
    figures: harness.Figures, found: Sequence[Contender], name: str, query: str, passages: Sequence[str], count: int
) -> dict[str, list[float]]:
    """Milliseconds of each contender over the workload of that name, in turn; what is kept is not asked again."""

    def timed(each: Contender) -> float:
        each.warm_up(query, passages)
        taken: float = each.ask(query, passages)["ms"][0]
        return taken

    times: dict[str, list[float]] = {each.name: [] for each in found}
    for number in range(count):
        for each in found:
            figure = figures.take(f"{name}, round {number}, {each.name}", lambda each=each: timed(each))
            times[each.name].append(figure)
    return times


def spread(times: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median and p95 of each contender's times, and the ratio of its median to the first one's."""
    first = median(next(iter(times.values())))
    return {
        name: {"median_ms": median(row), "p95_ms": harness.percentile(row, 95), "ratio": median(row) / first}
        for name, row in times.items()
    }


def pair_lengths(tokenizer: Tokenizer, query: str, passages: Sequence[str]) -> np.ndarray:
    """Tokens of each pair as every contender reads it, int64."""
    asked = len(tokenizer.encode(query)) + SPECIAL
    return np.array([min(asked + len(ids), LONGEST) for ids in tokenizer.encode_batch(passages)])


def top(scores: Sequence[float], count: int) -> list[int]:
    """Places of the highest scores, best first."""
    return np.argsort(-np.asarray(scores), kind="stable")[:count].tolist()
