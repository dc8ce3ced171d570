"""Threads that ask while a store is changed: every answer is from one generation, and none takes long."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from runoff.documents import Document
from runoff.engine import Engine
from runoff.store import Store

from . import children
from .world import CHUNKING, Stages

THREADS = 4
GROUP = 5


def group(number: int, generation: int) -> list[Document]:
    """Documents that one commit writes together, each of which names the commit."""
    return [
        Document(
            f"{GROUP * number + member:016x}",
            f"Group {number}",
            f"Account m{member} of group g{number} was settled in round {generation}. The ledger has page {number}.",
            tags=(f"g{number}",),
        )
        for member in range(GROUP)
    ]


def consistent(folder: Path, seconds: int, seed: int, *, groups: int = 60) -> dict[str, float]:
    """Four threads ask for groups of documents while another process writes them anew, deletes and compacts.

    A group is written by one commit, so an answer with several rounds of it, or with a part of it, is of no generation.
    """
    store, stop = folder / "store", folder / "stop"
    Engine(store, Stages(), CHUNKING).add(one for number in range(groups) for one in group(number, 0))  # type: ignore[arg-type]
    idle = _ask(store, seconds / 3, groups, seed)
    writer = children.Child(lambda: _write(store, stop, groups, seed))
    busy = _ask(store, seconds, groups, seed)
    stop.touch()
    code, commits = writer.wait()
    assert code == 0, commits
    Store.open(store).current().check()
    assert busy.generations > 2, "no generation came"
    return {
        "passages": groups * GROUP * 2,
        "commits": int(commits),
        "generations answered from": busy.generations,
        "answers": len(busy.seconds),
        "idle p50, ms": idle.percentile(50),
        "idle p99, ms": idle.percentile(99),
        "busy p50, ms": busy.percentile(50),
        "busy p99, ms": busy.percentile(99),
        "busy most, ms": busy.percentile(100),
        "idle p99 of processor time, ms": percentile(idle.processor, 99),
        "busy p99 of processor time, ms": percentile(busy.processor, 99),
        "p99 busy / idle": round(busy.percentile(99) / idle.percentile(99), 2),
    }


class _Asked:
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.processor: list[float] = []  # of the thread that asked, which a busy machine moves less
        self.numbers: set[int] = set()
        self.errors: list[BaseException] = []

    @property
    def generations(self) -> int:
        return len(self.numbers)

    def percentile(self, share: float) -> float:
        return percentile(self.seconds, share)


def percentile(seconds: list[float], share: float) -> float:
    """In milliseconds."""
    return round(float(np.percentile(seconds, share)) * 1e3, 3)


def _ask(store: Path, seconds: float, groups: int, seed: int) -> _Asked:
    asked, engine = _Asked(), Engine(store, Stages(), CHUNKING)  # type: ignore[arg-type]
    engine.search("account", rerank=False)
    gc.collect()
    deadline = time.monotonic() + seconds

    def work(rng: np.random.Generator) -> None:
        try:
            for turn in itertools.count():
                if time.monotonic() > deadline:
                    return
                _check(engine, int(rng.integers(groups)), turn, asked)
        except BaseException as error:
            asked.errors.append(error)

    threads = [threading.Thread(target=work, args=(rng,)) for rng in np.random.default_rng(seed).spawn(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if asked.errors:
        raise asked.errors[0]
    return asked


def _check(engine: Engine, number: int, turn: int, asked: _Asked) -> None:
    mode, where = (("lexical", None), ("hybrid", f"'g{number}' in tags"), ("dense", f"'g{number}' in tags"))[turn % 3]
    started, worked = time.perf_counter(), time.thread_time()
    result = engine.search(f"g{number} settled account", 2 * GROUP, 40, rerank=False, mode=mode, where=where)  # type: ignore[arg-type]
    asked.processor.append(time.thread_time() - worked)
    asked.seconds.append(time.perf_counter() - started)
    asked.numbers.add(result.generation or 0)
    hits = [hit for hit in result.hits if f"of group g{number} " in hit.text]
    rounds = {hit.text.split("round ")[1].split(".")[0] for hit in hits}
    assert len(hits) in (0, GROUP), f"{len(hits)} of {GROUP} documents of a group"
    assert len(rounds) <= 1, f"a group of rounds {sorted(rounds)}"
    assert not hits or int(rounds.pop()) < (result.generation or 0), "a text from a later generation"


def _write(store: Path, stop: Path, groups: int, seed: int) -> int:
    engine, rng, commits = Engine(store, Stages(), CHUNKING), np.random.default_rng(seed), 0  # type: ignore[arg-type]
    change: list[Callable[[int], object]] = [
        lambda number: engine.add(group(number, engine.store.current().number)),
        lambda number: engine.delete(*(one.id for one in group(number, 0))),
    ]
    while not stop.exists():
        change[int(rng.random() < 0.3)](int(rng.integers(groups)))
        if commits % 20 == 19:
            engine.compact()
        commits += 1
    return commits
