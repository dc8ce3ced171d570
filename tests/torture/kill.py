"""A writer that is killed leaves the generation before or the one after, and nothing for good."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from runoff import manifest
from runoff.errors import StoreMissingError
from runoff.store import Store

from . import children
from .world import Content, Step, World, agrees, engine, shrink


def moments(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Kill refreshes, additions, deletions and compactions; half at a line of code, half after a time."""
    shrink()
    world, store = World(folder, seed), folder / "store"
    seen: Counter[str] = Counter()
    content = done(store, world.first())
    for number in range(count):
        step = world.any(content)
        before = Store.open(store).current().number
        killed = _killed(world, store, step, by_line=number % 2 == 0)
        content, outcome = _outcome(store, content, step, before)
        seen[f"{step.name}, {outcome}" if killed else "ended before it was killed"] += 1
        if number % 4 == 0:
            no_left_overs(store)
            agrees(Store.open(store).current(), content)
    assert sum(seen.values()) == count
    return dict(sorted(seen.items()))


def first_saves(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Kill first saves. What is there then is no store, an empty one or all; the next save makes it whole."""
    shrink()
    world = World(folder, seed)
    step, seen = world.first(), Counter[str]()
    for number in range(count):
        store = folder / f"store{number}"
        killed = _killed(world, store, step, by_line=number % 2 == 0)
        try:
            _, outcome = _outcome(store, Content(), step, 1)
        except StoreMissingError:
            outcome = "no store"
        seen[f"first save, {outcome}" if killed else "ended before it was killed"] += 1
        content = done(store, step)
        agrees(Store.open(store).current(), content)
        no_left_overs(store)
        shutil.rmtree(store)
    return dict(sorted(seen.items()))


def acknowledged(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Kill a process as soon as it has said that an operation is done: nothing of it is lost."""
    shrink()
    world, store = World(folder, seed), folder / "store"
    content = done(store, world.first())
    seen: Counter[str] = Counter()
    for _ in range(count):
        step = world.rng.choice([world.refresh, world.delete, world.add])(content)

        def job(step: Step = step) -> None:
            with engine(store) as opened:
                step.run(opened)
                children.say("OK")
                time.sleep(60)

        child = children.Child(job)
        assert child.line() == b"OK\n", child.wait()
        child.kill()
        child.wait()
        content = step.after
        agrees(Store.open(store).current(), content)
        seen[step.name] += 1
    return dict(sorted(seen.items()))


def no_left_overs(store: Path) -> None:
    """After a writer has come and gone there is nothing in the folder but the newest generation."""
    opened = Store.open(store)
    with opened.writer():
        pass
    states = opened.current().snapshot.manifest.files
    found = {path.name: path.stat().st_size for path in store.iterdir() if path.name not in (manifest.NAME, "lock")}
    assert found == {name: state.bytes for name, state in states.items()}, "left-overs stay"


def done(store: Path, step: Step) -> Content:
    """What a store holds after a step that a child has done undisturbed."""
    children.run(_job(store, step))
    return step.after


def _job(store: Path, step: Step) -> Callable[[], None]:
    def job() -> None:
        step.run(engine(store))

    return job


def _killed(world: World, store: Path, step: Step, *, by_line: bool) -> bool:
    copy = store.with_name("copy")
    if store.exists():
        shutil.copytree(store, copy)
    length = (children.count_steps if by_line else children.duration)(_job(copy, step))
    shutil.rmtree(copy)
    kill = children.killed_at_step if by_line else children.killed_after
    return kill(_job(store, step), world.rng.random() * length)


def _outcome(store: Path, before: Content, step: Step, number: int) -> tuple[Content, str]:
    """Which generation there is after a step was killed: the one of that number, or the next, and just that."""
    generation = Store.open(store).current()
    assert generation.number in (number, number + 1), f"after {step.name}: generation {generation.number}"
    content, name = (before, "old") if generation.number == number else (step.after, "new")
    agrees(generation, content)
    return content, name
