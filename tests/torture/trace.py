"""Reads from a trace of system calls whether data are on the disk before the manifest is renamed, its folder after."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from runoff import lock, manifest, writer
from runoff.store import Store

from .world import World, engine, shrink

CALLS = "openat,write,writev,pwrite64,ftruncate,truncate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat"
_CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)\)\s+= (-?\d+)")
_DESCRIPTOR = re.compile(r"^\d+<([^>]*)>")
_PATH = re.compile(r'"([^"]*)"')
_WRITES = {"write", "writev", "pwrite64", "ftruncate"}


class _Checker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unsynced: set[str] = set()
        self._renamed = False
        self.renames = 0
        self.problems: list[str] = []

    def see(self, call: str, arguments: str, result: int) -> None:
        if result < 0:
            return
        if call == "write" and arguments.startswith("1<"):
            self._expect_synced_folder("before success is told")
        target = _DESCRIPTOR.match(arguments)
        path = Path(target[1]) if target else None
        if call.startswith("rename"):
            self._see_rename([Path(name) for name in _PATH.findall(arguments)])
        elif path is None:
            return
        elif call in ("fsync", "fdatasync") and path == self._folder:
            self._renamed = False
        elif path.parent == self._folder and path.name != lock.NAME:
            self._see_file(call, path.name)

    def end(self) -> None:
        self._expect_synced_folder("at the end")
        if not self.renames:
            self.problems.append("no manifest was renamed")

    def _see_file(self, call: str, name: str) -> None:
        if call in _WRITES:
            self._unsynced.add(name)
        elif call in ("fsync", "fdatasync"):
            self._unsynced.discard(name)

    def _see_rename(self, paths: list[Path]) -> None:
        if paths[-1] != self._folder / manifest.NAME:
            return
        self.renames += 1
        if self._unsynced:
            self.problems.append(f"{sorted(self._unsynced)} not synced before the manifest was renamed")
        self._expect_synced_folder("before the next rename")
        self._renamed = True

    def _expect_synced_folder(self, when: str) -> None:
        if self._renamed:
            self.problems.append(f"the folder was not synced {when}")


def checked(lines: list[str], folder: Path) -> _Checker:
    """What a trace (of ``strace -f -y``) shows of the order of things in a store folder."""
    checker = _Checker(folder)
    for line in lines:
        if match := _CALL.match(line):
            checker.see(match[1], match[2], int(match[3]))
    checker.end()
    return checker


def available() -> bool:
    """Whether system calls can be traced here."""
    command = shutil.which("strace")
    return command is not None and subprocess.run([command, "-o", "/dev/null", "true"], check=False).returncode == 0


def order(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Trace operations, none of which may break the order; then some with a step left out, which must be found."""
    if not available():
        return {"skipped: strace cannot be used here": 1}
    lines, checker = _traced(folder / "sound", count, seed)
    assert not checker.problems, checker.problems
    left_out = {"sync": "not synced before", "sync_folder": "folder was not synced", "graph": "hnsw"}
    for broken, expected in left_out.items():
        _, found = _traced(folder / broken, 12, seed, broken)
        assert any(expected in problem for problem in found.problems), f"{broken} left out: not found"
    return {"operations": count, "calls": len(lines), "manifests renamed": checker.renames}


def operate(folder: Path, count: int, seed: int, broken: str = "") -> None:
    """Run operations one after the other and say so; with one of the steps that make them durable left out."""
    shrink()
    if broken == "graph":
        sync = manifest.sync
        writer.manifests.sync = lambda descriptor: None if "hnsw" in _name(descriptor) else sync(descriptor)
    elif broken:
        setattr(manifest, broken, lambda *_: None)
    world, store = World(folder, seed), folder / "store"
    opened, step = engine(store), world.first()
    for _ in range(count):
        step.run(opened)
        os.write(1, b"OK\n")
        step = world.any(step.after)
    assert Store.open(store).current().snapshot.manifest.graphs, "no graph was made"


def _name(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _traced(folder: Path, count: int, seed: int, broken: str = "") -> tuple[list[str], _Checker]:
    folder.mkdir()
    output = folder / "trace"
    arguments = f"Path({str(folder)!r}), {count}, {seed}, {broken!r}"
    code = f"from pathlib import Path; from torture import trace; trace.operate({arguments})"
    command = ["strace", "-f", "-y", "-s", "0", "-o", str(output), "-e", f"trace={CALLS}", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = output.read_text(encoding="utf-8").splitlines()
    return lines, checked(lines, folder / "store")
