"""The same store gives the same query the same answer, whatever process asks, with whatever hash seed and threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from runoff.candidates import MODES
from runoff.documents import Document
from runoff.engine import Engine
from runoff.store import Store

from . import damage, kill
from .world import World, shrink

SETTINGS = [
    {"PYTHONHASHSEED": "0", "RUNOFF_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "1", "RUNOFF_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
    {"PYTHONHASHSEED": "4294967295", "RUNOFF_THREADS": "4", "OPENBLAS_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "7", "RUNOFF_THREADS": "1", "OPENBLAS_NUM_THREADS": "4"},
    {"PYTHONHASHSEED": "random", "RUNOFF_THREADS": "3", "OPENBLAS_NUM_THREADS": "3"},
]
SUBJECTS = ["payout", "refund", "dispute", "webhook", "ledger", "card", "bank", "invoice"]
PLACES = ["Lisbon", "Osaka", "Tartu", "Quito", "Cork", "Pune", "Lagos", "Graz"]
QUERIES = [
    "How long does a refund take in Osaka?",
    "ledger that does not balance",
    "Which bank pays in Graz on Monday?",
]


def answered(folder: Path, count: int, seed: int) -> dict[str, int]:
    """With the real models: search in each mode with and without the runoff, in ``count`` other processes."""
    with Engine.open(folder / "store", cache_bytes=0) as engine:
        engine.add(
            Document(f"{number:016x}", f"The {subject} desk in {place}", _text(number, subject, place))
            for number, (subject, place) in enumerate((s, p) for s in SUBJECTS for p in PLACES)
        )
        expected = ask(engine)
    for number in range(count):
        assert (
            _elsewhere("same.ask(Engine.open(folder, cache_bytes=0))", folder / "store", SETTINGS[number % 5])
            == expected
        )
    return {"processes": count, "answers": len(expected)}


def found(folder: Path, count: int, seed: int) -> dict[str, int]:
    """With parts, graphs and deletions of all ages: candidates in each mode, with and without filters."""
    shrink()
    world, store = World(folder, seed), folder / "store"
    step = world.first()
    for _ in range(10):
        kill.done(store, step)
        step = world.any(step.after)
    expected = damage.answers(Store.open(store).current())
    for number in range(count):
        assert _elsewhere("same.reopened(folder)", store, SETTINGS[number % 5]) == expected
    return {"processes": count, "answers": len(expected)}


def ask(engine: Engine) -> list[Any]:
    """Everything of the answers that is not a time."""
    told: list[Any] = []
    for query in QUERIES:
        for mode in MODES:
            for rerank in (False, True):
                result = engine.search(query, 10, rerank=rerank, mode=mode)
                told.append([result.generation, [repr(hit) for hit in result.hits]])
    return told


def reopened(folder: Path) -> list[Any]:
    shrink()
    return damage.answers(Store.open(folder).current())


def _text(number: int, subject: str, place: str) -> str:
    return (
        f"Every {subject} that comes from {place} is looked at within {1 + number % 5} days by two people. "
        f"On page {number} of the ledger stands which bank was asked and what it said."
    )


def _elsewhere(expression: str, folder: Path, settings: dict[str, str]) -> list[Any]:
    code = (
        "import json; from pathlib import Path; from runoff.engine import Engine; from torture import same\n"
        f"folder = Path({str(folder)!r})\nprint(json.dumps({expression}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: list[Any] = json.loads(done.stdout)
    return told
