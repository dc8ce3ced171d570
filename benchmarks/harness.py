"""What every benchmark shares: options, workloads drawn from real text, the machine, alternating rounds, results."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from runoff import cpu, threads

SEED = 20
# A default onnxruntime session spins on for a while after its run, which would be charged to whoever comes next.
PAUSE_SECONDS = 0.1
PACKAGES = ("numpy", "onnxruntime", "tokenizers", "hnswlib", "tiktoken", "runoff")

# Lengths in words of the 20 passages of each workload.
HEADLINE_WORDS, SHORTEST, LONGEST = 12, 40, 200


class _Threads(argparse.Action):
    """Bounds the threads of this process and of all that it starts, and so what ``machine`` tells of them."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        os.environ[threads.VARIABLE] = str(values)
        namespace.threads = values


def parser(description: str | None) -> argparse.ArgumentParser:
    """Options that every benchmark takes."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="write the results to this file")
    options.add_argument("--rounds", type=int, default=9, help="rounds that are timed, where a benchmark has rounds")
    options.add_argument("--threads", type=int, action=_Threads, help="most threads to use; default: all granted")
    return options


class Figures:
    """Figures that outlive the run that took them, so that a run that was stopped goes on with those it lacks.

    They are appended to ``folder/<benchmark>.jsonl``, below a line with the machine and settings that they hold for.
    Without a folder nothing is kept.
    """

    def __init__(self, name: str, folder: Path | None, settings: Mapping[str, Any]) -> None:
        self._path = folder / f"{name}.jsonl" if folder else None
        self._kept: dict[str, Any] = {}
        identity = {"machine": machine(), "settings": dict(settings)}
        if self._path is None:
            return
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._append("identity", identity)
        for line in self._path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # a line that was cut short
                self._kept.update([json.loads(line)])
        if self._kept["identity"] != identity:
            sys.exit(f"{self._path}: taken on another machine or with other settings; remove it to begin anew")

    def take(self, name: str, measure: Callable[[], Any]) -> Any:
        """The figure of that name: the kept one, or what ``measure`` gives, kept from now on."""
        if name not in self._kept:
            self._kept[name] = measure()
            self._append(name, self._kept[name])
        return self._kept[name]

    def _append(self, name: str, value: Any) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps([name, value])}\n")


def add_work(options: argparse.ArgumentParser) -> None:
    """The option of benchmarks that can be continued."""
    options.add_argument("--work", type=Path, help="folder that figures are kept in; a later run goes on from there")


def workloads(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Query and 20 passages of each workload, cut from the texts of a ``corpus.jsonl.gz``: p60, mix, p200.

    The words of consecutive documents run together, so that passages of any length are real text.
    """
    rng = np.random.default_rng(SEED)
    words = _words(path)
    mix = [HEADLINE_WORDS] * 5 + rng.integers(SHORTEST, LONGEST + 1, size=15).tolist()
    lengths = {"p60": [60] * 20, "mix": mix, "p200": [200] * 20}

    def passage(length: int) -> str:
        start = int(rng.integers(0, len(words) - length))
        return " ".join(words[start : start + length])

    return {name: (passage(9), [passage(length) for length in sizes]) for name, sizes in lengths.items()}


def passages(path: Path, count: int, seed: int) -> list[str]:
    """Passages of SHORTEST to LONGEST words, cut from the same texts."""
    rng = np.random.default_rng(seed)
    words = _words(path)
    lengths = rng.integers(SHORTEST, LONGEST + 1, size=count).tolist()
    starts = rng.integers(0, len(words) - LONGEST, size=count).tolist()
    return [" ".join(words[start : start + length]) for start, length in zip(starts, lengths, strict=True)]


def _words(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return " ".join(json.loads(line)["text"] for line in file).split()


def alternate(contenders: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Median and p95 milliseconds of each contender, run in turn with a pause; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            time.sleep(PAUSE_SECONDS)
            started = time.perf_counter()
            run()
            if number:
                times[name].append((time.perf_counter() - started) * 1e3)
    return {name: {"median_ms": median(rows), "p95_ms": percentile(rows, 95)} for name, rows in times.items()}


def percentile(values: list[float], percent: float) -> float:
    """A percentile by linear interpolation."""
    return float(np.percentile(values, percent))


def finish(name: str, results: Mapping[str, Any], settings: Mapping[str, Any], path: Path | None) -> None:
    """Print the results, and write them with the machine beside them where a path is given."""
    record = {"benchmark": name, "machine": machine(), "settings": settings, "results": _rounded(results)}
    print(json.dumps(record["results"], indent=1))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Processor, thread budget and versions."""
    return {
        "cpu": cpu.model_name(),
        "features": list(cpu.features()),
        "threads": threads.budget(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "openblas": {key: value for key, value in os.environ.items() if key.startswith("OPENBLAS_")},
        "versions": {package: metadata.version(package) for package in PACKAGES},
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    return value
