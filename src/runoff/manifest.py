"""The manifest of a store: which bytes of which files make up one generation.

Data files only ever grow. A generation is the manifest that names, for each file, how many of its bytes count and
their CRC-32 (which can be continued as a file grows, so a commit never reads old data again). Replacing the manifest
by a rename is the only step that makes a new generation visible; bytes beyond it are left-overs of a writer that died.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .errors import StoreDamagedError, StoreError, StoreMismatchError, StoreMissingError

NAME = "manifest.json"
FORMAT = "runoff-store"
VERSION = 1
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileState:
    """How much of a data file belongs to a generation: its length in bytes and the CRC-32 of them."""

    bytes: int = 0
    crc32: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of a store.

    Attributes:
        generation: 1 for the first commit, one more with each.
        identity: what the stored data depends on (models, tokenizer, chunk settings); two stores with different
            identities cannot be mixed.
        epoch: number in the names of the data files; compaction writes a new set under the next.
        files: state of each file by name.
        indexed_rows: chunk rows that the HNSW file covers; later rows are scanned exactly.
        next_chunk_id: smallest id that no chunk ever had.
    """

    generation: int
    identity: Mapping[str, Any]
    epoch: int = 0
    files: Mapping[str, FileState] = field(default_factory=dict)
    indexed_rows: int = 0
    next_chunk_id: int = 0


def read(folder: Path) -> Manifest:
    """Read and check the manifest in ``folder``.

    Raises:
        StoreMissingError: there is none.
        StoreDamagedError: its bytes are not what was written.
        StoreMismatchError: it is of a format version that this release cannot read.
    """
    path = folder / NAME
    content = _parse(path, _read_bytes(path))
    if content.get("version") != VERSION:
        raise StoreMismatchError(
            f"{path}: store format version {content.get('version')!r}; this release reads {VERSION}. "
            "Ingest the sources into a new folder."
        )
    files = {name: FileState(**state) for name, state in content["files"].items()}
    return Manifest(
        generation=content["generation"],
        identity=content["identity"],
        epoch=content["epoch"],
        files=files,
        indexed_rows=content["indexed_rows"],
        next_chunk_id=content["next_chunk_id"],
    )


def write(folder: Path, manifest: Manifest) -> None:
    """Make ``manifest`` the current generation of ``folder``, durably and in one step.

    Raises:
        StoreError: the disk refused; the previous generation stays.
    """
    content = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    content["checksum"] = _checksum(content)
    temporary = folder / f"{NAME}.new"
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(content, indent=1, sort_keys=True).encode())
            sync(file.fileno())
        temporary.replace(folder / NAME)
        sync_folder(folder)
    except OSError as error:
        raise StoreError(f"{temporary}: cannot write the manifest ({error.strerror}); nothing changed") from error


def verify_file(folder: Path, name: str, state: FileState) -> None:
    """Check that the first ``state.bytes`` of a file are the bytes that were committed.

    Raises:
        StoreDamagedError: the file is missing, short or different.
    """
    path = folder / name
    try:
        actual = _crc_of(path, state.bytes)
    except FileNotFoundError:
        raise StoreDamagedError(f"{path}: missing; the manifest lists {state.bytes} bytes. {_WAY_OUT}") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from error
    if actual != state:
        raise StoreDamagedError(
            f"{path}: holds {actual.bytes} bytes with checksum {actual.crc32:08x}; expected {state.bytes} bytes "
            f"with {state.crc32:08x}. {_WAY_OUT}"
        )


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


def _crc_of(path: Path, length: int) -> FileState:
    crc, left = 0, length
    with path.open("rb") as file:
        while left and (block := file.read(min(left, _BLOCK))):
            crc = zlib.crc32(block, crc)
            left -= len(block)
    return FileState(length - left, crc)
