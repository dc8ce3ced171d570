"""The promises by name, with their full counts; all of them one after the other, with a record of what was seen."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runoff import __version__, cpu

from . import children, cost, damage, disk, kill, readers, same, trace, writers

PROMISES: dict[str, Callable[[Path, int, int], dict[str, Any]]] = {
    "kill": kill.moments,
    "first_save": kill.first_saves,
    "acknowledged": kill.acknowledged,
    "trace": trace.order,
    "disk_sizes": disk.sizes,
    "disk_full": disk.full,
    "disk_calls": disk.calls,
    "disk_command": disk.command_line,
    "flips": damage.flips,
    "truncations": damage.truncations,
    "swaps": damage.swaps,
    "verify": damage.verify,
    "locked": writers.locked,
    "two_writers": writers.two,
    "seen": writers.seen,
    "readers": readers.consistent,
    "same_answers": same.answered,
    "same_candidates": same.found,
    "cost": cost.written,
}
FULL = {
    "kill": 170,
    "first_save": 30,
    "acknowledged": 100,
    "trace": 60,
    "disk_sizes": 50,
    "disk_full": 30,
    "disk_calls": 40,
    "disk_command": 20,
    "flips": 300,
    "truncations": 60,
    "swaps": 60,
    "verify": 40,
    "locked": 20,
    "two_writers": 50,
    "seen": 50,
    "readers": 60,
    "same_answers": 5,
    "same_candidates": 5,
    "cost": 2_000,
}
MOST_SLOWER = 3  # p99 of queries while a store is written to, over that while it is not


def one(name: str, count: int, seed: int) -> dict[str, Any]:
    """What keeping a promise ``count`` times showed; raises AssertionError where it was broken."""
    with tempfile.TemporaryDirectory(prefix="runoff-torture-") as folder:
        return PROMISES[name](Path(folder), count, seed)


def forked(name: str, count: int, seed: int) -> dict[str, Any]:
    """The same in a child: ``seen`` with the figures, or ``error`` with the text of what went wrong."""
    code, text = children.Child(lambda: json.dumps(one(name, count, seed))).wait()
    return {"error": text or f"exit code {code}"} if code else {"seen": json.loads(text)}


def all_of(names: list[str], seed: int, path: Path) -> bool:
    """Run promises at their full counts, each in a process of its own, into a record; whether all were kept."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"promises": {}}
    record["machine"] = {"cpu": cpu.model_name(), "system": platform.system(), "python": platform.python_version()}
    record["version"], record["seed"] = __version__, seed
    for name in names:
        record["promises"][name] = _timed(name, seed)
        print(name, json.dumps(record["promises"][name]), flush=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return all(record["promises"][name]["kept"] for name in names)


def _timed(name: str, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-W", "error", "-m", "torture", name, str(FULL[name]), "--seed", str(seed)]
    started = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    seconds = round(time.perf_counter() - started, 1)
    if done.returncode:
        return {"kept": False, "count": FULL[name], "seconds": seconds, "error": done.stderr.strip().splitlines()[-1]}
    figures = json.loads(done.stdout)
    kept = figures.get("p99 busy / idle", 0) <= MOST_SLOWER
    return {"kept": kept, "count": FULL[name], "seconds": seconds, "seen": figures}
