"""What a refresh writes follows the size of the change, not that of the store."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from runoff import lock
from runoff.documents import Document
from runoff.engine import Engine

from .world import CHUNKING, Stages

CHANGES = 20
BLOCK = 5_000


def written(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Add 100 chunks, twenty times, to a store of ``count`` passages and to one of ten times as many."""
    small, large = (_measured(folder / str(size), size) for size in (count, 10 * count))
    assert large["bytes, mean"] <= 1.5 * small["bytes, mean"], (small, large)
    assert large["bytes, most"] <= 4_000_000, (small, large)
    return {f"{count} passages": small, f"{10 * count} passages": large}


def _measured(folder: Path, size: int) -> dict[str, Any]:
    engine = Engine(folder, Stages(), CHUNKING)  # type: ignore[arg-type]
    for start in range(0, size, BLOCK):
        engine.add(map(_document, range(start, min(start + BLOCK, size))))
    figures, seconds = [], []
    for start in range(size, size + 100 * CHANGES, 100):
        before = _sizes(folder)
        started = time.perf_counter()
        engine.add(map(_document, range(start, start + 100)))
        seconds.append(time.perf_counter() - started)
        after = _sizes(folder)
        graph = any(name.startswith("hnsw") for name in after.keys() - before.keys())
        if not graph:  # one in eighty such changes, see docs/store.md
            figures.append(sum(now - _kept(before, name, now) for name, now in after.items()))
    return {
        "bytes, mean": round(statistics.mean(figures)),
        "bytes, most": max(figures),
        "milliseconds, median": round(1e3 * statistics.median(seconds), 1),
        "graphs made": CHANGES - len(figures),
        "bytes in all": sum(_sizes(folder).values()),
    }


def _document(number: int) -> Document:
    """A document of one chunk."""
    text = (
        f"Account m{number % 997} of group g{number} was settled in round {number // 7}. The ledger has page {number}."
    )
    return Document(f"{number:016x}", "", text, tags=(f"t{number % 10}",))


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.name != lock.NAME}


def _kept(before: dict[str, int], name: str, now: int) -> int:
    """Bytes of a file that were there already; a manifest is written anew."""
    return 0 if name.startswith("manifest") else before.get(name, 0)
