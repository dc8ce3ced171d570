"""Two processes and one store: one writes at a time, nothing is lost, and readers see what was written."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from runoff import sources
from runoff.engine import Engine
from runoff.errors import StoreLockedError
from runoff.store import Store

from . import children, kill
from .world import World, agrees, article, engine, shrink


def locked(folder: Path, count: int, seed: int) -> dict[str, float]:
    """A second writer is told within a second who holds the lock; which dies with its holder."""
    shrink()
    world, store = World(folder, seed), folder / "store"
    content = kill.done(store, world.first())
    slowest = 0.0
    for _ in range(count):

        def hold() -> None:
            with Store.open(store).writer():
                children.say("held")
                time.sleep(60)

        holder = children.Child(hold)
        assert holder.line() == b"held\n", holder.wait()
        step = world.add(content)
        started = time.perf_counter()
        told = children.run(lambda step=step: _refusal(engine(store), step.run))
        slowest = max(slowest, time.perf_counter() - started)
        assert re.search(rf"locked by pid {holder.pid} since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told), told
        holder.kill()
        holder.wait()
        content = kill.done(store, step)
    agrees(Store.open(store).current(), content)
    return {"rounds": count, "slowest refusal, seconds": round(slowest, 3)}


def two(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Two writers with ``count`` refreshes each, and deletions between, try again when locked: all of it is there."""
    shrink()
    store = folder / "store"

    def work(who: int) -> int:
        opened, retries = engine(store), 0
        path = folder / f"source{who}.jsonl"
        for number in range(count):
            records = [article(10_000 * who + 3 * number + more, 1) for more in range(3)]
            path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
            retries += _persistent(partial(opened.refresh if number else opened.ingest, path))
            if number % 10 == 9:
                (gone,) = (one.id for one in sources.load(str(path)).documents[:1])
                retries += _persistent(partial(opened.delete, gone))
        return retries

    workers = [children.Child(lambda who=who: work(who)) for who in (1, 2)]
    ends = [worker.wait() for worker in workers]
    assert all(code == 0 for code, _ in ends), ends
    generation = Store.open(store).current()
    generation.check()
    found = {entry.document.url for entry in generation.snapshot.entries()}
    numbers = {10_000 * who + number for who in (1, 2) for number in range(3 * count)}
    deleted = {10_000 * who + 3 * number for who in (1, 2) for number in range(9, count, 10)}
    assert found == {f"https://a.example/{number}" for number in numbers - deleted}, "something was lost"
    assert len(generation.state.removed) == len(deleted), "a deletion was forgotten"
    assert len(generation.state.sources) == 2, "a source was forgotten"
    return {
        "refreshes": 2 * count,
        "deletions": len(deleted),
        "times that one was locked": sum(int(n) for _, n in ends),
    }


def seen(folder: Path, count: int, seed: int) -> dict[str, float]:
    """A reader that is running answers from a generation of another process within a second."""
    shrink()
    world, store = World(folder, seed), folder / "store"
    content = kill.done(store, world.first())
    reader, slowest = Store.open(store), 0.0
    for number in range(count):
        step = world.any(content)
        before = reader.current().number
        content = kill.done(store, step)
        started = time.monotonic()
        newest = Store.open(store).current().number
        while reader.current().number < newest:
            assert time.monotonic() < started + 1, "not seen within a second"
            time.sleep(0.001)
        slowest = max(slowest, time.monotonic() - started)
        assert newest >= before
        if number % 10 == 9:
            agrees(reader.current(), content)
    return {"generations": reader.current().number, "slowest, seconds": round(slowest, 3)}


def _refusal(opened: Engine, write: Callable[..., object]) -> str:
    try:
        write(opened)
    except StoreLockedError as error:
        return str(error)
    return "was not refused"


def _persistent(write: Callable[..., object]) -> int:
    """Do a thing until no other process holds the lock; returns how often one did."""
    for attempt in range(10_000):
        try:
            report = write()
        except StoreLockedError:
            time.sleep(0.002)
        else:
            assert not getattr(report, "failed", ()), report
            return attempt
    raise AssertionError("locked for ever")
