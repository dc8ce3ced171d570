"""The manifest of a store: which bytes of which files make up one generation.

Data files only ever grow, and parts (pieces of an index over neighbouring rows) never change once they are written. A
generation is the manifest that names, for each file, how many of its bytes count and their CRC-32 (which can be
continued as a file grows, so a commit never reads old data again). Replacing the manifest by a rename is the only step
that makes a new generation visible; bytes beyond it are left-overs of a writer that died.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from . import threads
from .errors import StoreDamagedError, StoreError, StoreMismatchError, StoreMissingError

NAME = "manifest.json"
FORMAT = "runoff-store"
VERSION = 3
READABLE = (2, VERSION)  # 2 has graphs as hnswlib writes them
PARTS = ("graphs", "lexical", "columns")
_BLOCK = 1 << 24


@dataclass(frozen=True, slots=True)
class FileState:
    """How much of a data file belongs to a generation: its length in bytes and the CRC-32 of them."""

    bytes: int = 0
    crc32: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A file with one piece of an index, over the rows from ``first`` up to and without ``last``."""

    name: str
    first: int
    last: int

    @property
    def rows(self) -> int:
        """Number of rows that the part covers."""
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of a store.

    Attributes:
        generation: 1 for the first commit, one more with each.
        identity: what the stored data depends on (models, tokenizer, chunk and BM25 settings); two stores with
            different identities cannot be mixed.
        epoch: number in the names of the data files; compaction writes a new set under the next.
        files: state of each file by name.
        graphs: HNSW graphs over passage rows, in order; later rows are scanned exactly.
        lexical: postings over passage rows, in order; they cover every row.
        columns: metadata over document rows, in order; they cover every row.
        next_chunk_id: smallest id that no chunk ever had.
    """

    generation: int
    identity: Mapping[str, Any]
    epoch: int = 0
    files: Mapping[str, FileState] = field(default_factory=dict)
    graphs: tuple[Part, ...] = ()
    lexical: tuple[Part, ...] = ()
    columns: tuple[Part, ...] = ()
    next_chunk_id: int = 0

    @property
    def indexed_rows(self) -> int:
        """Number of passage rows that the graphs cover."""
        return self.graphs[-1].last if self.graphs else 0

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of what the store holds, by the checksums of its files."""
        states = {name: (state.bytes, state.crc32) for name, state in self.files.items()}
        return hashlib.sha256(json.dumps(states, sort_keys=True).encode()).hexdigest()

    def named(self, kind: str) -> str | None:
        """Name of the only file of a kind that is written anew when it changes, or None where there is none."""
        return next((name for name in self.files if name.startswith(f"{kind}-")), None)


def read(folder: Path) -> Manifest:
    """Read and check the manifest in ``folder``.

    Raises:
        StoreMissingError: there is none.
        StoreDamagedError: its bytes are not what was written.
        StoreMismatchError: it is of a format version that this release cannot read.
    """
    path = folder / NAME
    content = _parse(path, _read_bytes(path))
    if content.get("version") not in READABLE:
        raise StoreMismatchError(
            f"{path}: store format version {content.get('version')!r}; this release reads "
            f"{' and '.join(map(str, READABLE))}. "
            "Ingest the sources into a new folder."
        )
    files = {name: FileState(**state) for name, state in content["files"].items()}
    return Manifest(
        generation=content["generation"],
        identity=content["identity"],
        epoch=content["epoch"],
        files=files,
        **{kind: tuple(Part(**part) for part in content[kind]) for kind in PARTS},
        next_chunk_id=content["next_chunk_id"],
    )


def write(folder: Path, manifest: Manifest) -> None:
    """Make ``manifest`` the current generation of ``folder``, durably and in one step.

    Raises:
        StoreError: the disk refused; the previous generation stays, unless the message says that the new one is there.
    """
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    content.update((entry.name, getattr(manifest, entry.name)) for entry in fields(manifest))
    content["files"] = {name: {"bytes": state.bytes, "crc32": state.crc32} for name, state in manifest.files.items()}
    for kind in PARTS:
        content[kind] = [{"name": part.name, "first": part.first, "last": part.last} for part in content[kind]]
    content["checksum"] = _checksum(content)
    temporary = folder / f"{NAME}.new"
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(content, sort_keys=True).encode())
            file.flush()
            sync(file.fileno())
        temporary.replace(folder / NAME)
    except OSError as error:
        raise unwritten(temporary, error) from error
    try:
        sync_folder(folder)
    except OSError as error:
        raise StoreError(
            f"{folder}: generation {manifest.generation} is there, but the disk did not confirm that it will last "
            f"({error.strerror}). Check the disk, then do the same again."
        ) from error


def verify(folder: Path, manifest: Manifest) -> None:
    """Check that each file holds the bytes that were committed.

    Raises:
        StoreDamagedError: a file is missing, short or different; names the first such file.
    """
    # The largest first, so that no thread is left with one of them at the end.
    names = sorted(manifest.files, key=lambda name: (-manifest.files[name].bytes, name))
    with ThreadPoolExecutor(threads.budget(None)) as pool:
        for check in [pool.submit(verify_file, folder / name, manifest.files[name]) for name in names]:
            check.result()


def verify_file(path: Path, state: FileState) -> None:
    """Check that a file holds the bytes that were committed.

    Raises:
        StoreDamagedError: it is missing, short or different.
    """
    data, crc = map_file(path, state), 0
    for start in range(0, state.bytes, _BLOCK):
        crc = checksum(data[start : start + _BLOCK], crc)
    if crc != state.crc32:
        raise StoreDamagedError(
            f"{path}: {state.bytes} bytes with checksum {crc:08x}; expected {state.crc32:08x}. {_WAY_OUT}"
        )


def map_file(path: Path, state: FileState) -> NDArray[np.uint8]:
    """The first ``state.bytes`` of a file, mapped read-only: uint8, flat.

    Raises:
        StoreDamagedError: the file is missing or shorter.
    """
    if not state.bytes:
        return np.empty(0, dtype=np.uint8)
    try:
        with path.open("rb") as file:
            actual = os.fstat(file.fileno()).st_size
            if actual < state.bytes:
                raise StoreDamagedError(f"{path}: holds {actual} bytes; expected {state.bytes}. {_WAY_OUT}")
            return np.asarray(np.memmap(file, dtype=np.uint8, mode="r", shape=(state.bytes,)))
    except FileNotFoundError:
        raise StoreDamagedError(f"{path}: missing; the manifest lists {state.bytes} bytes. {_WAY_OUT}") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from error


def append(path: Path, state: FileState, blocks: Iterable[bytes]) -> FileState:
    """Write blocks behind the first ``state.bytes`` of a file, durably; returns the file's new state.

    Raises:
        StoreError: the disk refused.
    """
    try:
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.truncate(state.bytes)
            file.seek(state.bytes)
            for data in blocks:
                file.write(data)
                state = FileState(state.bytes + len(data), checksum(data, state.crc32))
            file.flush()
            sync(file.fileno())
    except OSError as error:
        raise unwritten(path, error) from error
    return state


def unwritten(path: Path, error: OSError) -> StoreError:
    """What to raise where the disk refused to take a file before a generation was made of it."""
    return StoreError(f"{path}: cannot be written ({error.strerror}); the store is as it was before")


def checksum(data: Any, crc: int = 0) -> int:
    """CRC-32 of bytes, or of what ``crc`` stands for and these bytes after it."""
    return int(isal_zlib.crc32(data, crc))


def sync(descriptor: int) -> None:
    """Wait until what was written to an open file is on the disk."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


_WAY_OUT = "Restore it from a copy, or ingest the sources into a new folder."


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreMissingError(f"{path.parent}: no Runoff store here. Make one with `runoff ingest SOURCE`.") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from error


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
        sound = content.get("format") == FORMAT and content.get("checksum") == _checksum(content)
    except (ValueError, AttributeError, TypeError):
        sound = False
    if not sound:
        raise StoreDamagedError(f"{path}: not a sound Runoff manifest (checksum differs). {_WAY_OUT}")
    return dict(content)


def _checksum(content: Mapping[str, Any]) -> str:
    bare = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()
