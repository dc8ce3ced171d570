"""A disk that fills or fails: a typed error with the path, the old generation as before, and the next commit works."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from runoff import engine as engines
from runoff.cli import main as command
from runoff.errors import StoreError
from runoff.store import Store

from . import children, kill, trace
from .world import Content, Stages, Step, World, agrees, engine, shrink


def sizes(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Files may not grow beyond a size, of which there are ``count``, from nothing to more than any file needs."""
    shrink()
    world, store = World(folder, seed), folder / "store"
    content = kill.done(store, world.first())
    seen: Counter[str] = Counter()
    for number in range(count):
        step = world.any(content)
        largest = max(path.stat().st_size for path in store.iterdir())
        limit = int(1.3 * largest * number / count)
        outcome = _refused(store, step, lambda limit=limit: _limit(limit))
        content = _judged(store, content, step, outcome)
        seen[(outcome and "refused") or "there was room"] += 1
    assert seen["refused"] > count // 3
    return dict(sorted(seen.items()))


def full(folder: Path, count: int, seed: int) -> dict[str, int]:
    """A disk of its own that is nearly full, with a little more room each time."""
    shrink()
    seen: Counter[str] = Counter()
    with _small_disk(folder / "disk", "400k") as disk:
        if disk is None:
            return {"skipped: no disk can be mounted here": 1}
        world, store, filler = World(folder, seed), disk / "store", disk / "filler"
        content = kill.done(store, world.first())
        for number in range(count):
            step = world.any(content)
            room = int(1.2 * sum(path.stat().st_size for path in store.iterdir()) * number / count)
            _fill(filler, shutil.disk_usage(disk).free - room)
            outcome = _refused(store, step, lambda: None)
            now = content if outcome else step.after
            agrees(Store.open(store).current(), now)
            if outcome:
                filler.unlink()
            content = _judged(store, content, step, outcome)
            filler.unlink(missing_ok=True)
            seen[(outcome and "refused") or "there was room"] += 1
            if number % 5 == 4:  # so that the store itself stays small
                content = kill.done(store, world.delete(content))
                content = kill.done(store, world.compact(content))
    return dict(sorted(seen.items()))


def calls(folder: Path, count: int, seed: int) -> dict[str, int]:
    """The n-th write, sync or rename of an operation fails, as strace makes it."""
    if not trace.available():
        return {"skipped: strace cannot be used here": 1}
    shrink()
    world, store = World(folder, seed), folder / "store"
    content = kill.done(store, world.first())
    seen: Counter[str] = Counter()
    for _ in range(count):
        step = world.any(content)
        call, error = world.rng.choice([("write", "ENOSPC"), ("write", "EIO"), ("fsync", "EIO"), ("rename", "EIO")])
        when = 1 if call == "rename" else world.rng.randint(1, 12)
        outcome = _refused(store, step, lambda call=call, error=error, when=when: _inject(folder, call, error, when))
        if "did not confirm" in outcome:
            content, outcome = step.after, "the folder was not synced"
            agrees(Store.open(store).current(), content)
        else:
            content = _judged(store, content, step, outcome)
        seen[f"{call}: " + ("refused" if outcome else "was not reached")] += 1
    return dict(sorted(seen.items()))


def command_line(folder: Path, count: int, seed: int) -> dict[str, int]:
    """`runoff refresh` and `runoff compact` on a full disk: one line on stderr, nothing on stdout, exit code 1."""
    shrink()
    engines.ModelStages = lambda *_: Stages()  # type: ignore[assignment,misc]
    world, store = World(folder, seed), folder / "store"
    content = kill.done(store, world.first())
    for number in range(count):
        step = world.refresh(content)
        arguments = ["refresh", "--store", str(store), "--json"] if number % 2 else ["refresh", "--store", str(store)]
        limit = world.rng.randint(0, 3_000)

        def job(arguments: list[str] = arguments, limit: int = limit) -> None:
            sys.argv = ["runoff", *arguments]
            _limit(limit)
            command()

        code, out, err = children.printed(job)
        assert code == 1, (code, out, err)
        assert out == "", out
        assert err.startswith("runoff: "), err
        assert str(store) in err, err
        assert err.count("\n") == 1, err
        agrees(Store.open(store).current(), content)
        content = kill.done(store, step)
    return {"refused": count}


def _refused(store: Path, step: Step, prepare: Callable[[], None]) -> str:
    """What a step was refused with under conditions that a child makes for itself, or nothing."""

    def job() -> str:
        opened = engine(store)
        opened.store.current()
        prepare()
        try:
            step.run(opened)
        except StoreError as error:
            return str(error)
        return ""

    return children.run(job)


def _judged(store: Path, before: Content, step: Step, refusal: str) -> Content:
    """Check a store after a step that was refused, or not; do the step again and return the content."""
    agrees(Store.open(store).current(), before if refusal else step.after)
    if refusal:
        assert str(store) in refusal, f"names no path: {refusal}"
        kill.done(store, step)
        agrees(Store.open(store).current(), step.after)
    kill.no_left_overs(store)
    return step.after


def _limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _fill(path: Path, size: int) -> None:
    with path.open("wb") as file, contextlib.suppress(OSError):
        file.write(bytes(max(0, size)))
        file.flush()


@contextlib.contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[Path | None]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _inject(folder: Path, call: str, error: str, when: int) -> None:
    """Let strace attach to this process, wait until it has, and make a call of this process fail once."""
    log = folder / "inject"
    names = "rename,renameat,renameat2" if call == "rename" else call
    command = ["strace", "-qq", "-f", "-o", str(log), "-p", str(os.getpid()), "-e", f"trace={names}"]
    _tracers.append(subprocess.Popen([*command, "-e", f"inject={names}:error={error}:when={when}"]))
    children.wait_until_traced()


_tracers: list[subprocess.Popen[bytes]] = []  # they end with what they trace
