"""A store folder: the newest generation for readers, one writer at a time."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import columns, lexical, lock
from . import manifest as manifests
from .columns import Columns
from .conditions import Condition
from .errors import StoreDamagedError, StoreError, StoreMismatchError
from .index import VectorIndex
from .lexical import LexicalIndex
from .lock import folder_lock
from .manifest import FileState, Manifest, Part, map_file
from .snapshot import Mask, Snapshot
from .state import State
from .writer import Writer, load_graph, read_state


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation with its indexes: everything a query needs.

    Attributes:
        snapshot: the tables.
        dense: nearest passages by vector.
        lexical: best passages by BM25.
        columns: metadata of documents, for filters.
        state: what is remembered of sources.
        parts: what was read of each part of an index, which later generations that have the part use again.
        serial: a number that no other generation has that this process read, of whatever store.
    """

    snapshot: Snapshot
    dense: VectorIndex
    lexical: LexicalIndex
    columns: Columns
    state: State
    parts: Mapping[_Key, Any]
    serial: int = field(init=False, default_factory=count().__next__)

    @property
    def number(self) -> int:
        """The generation's number, from 1."""
        return self.snapshot.manifest.generation

    def chosen(self, condition: Condition) -> Mask:
        """Which live chunks meet a condition: bool, shape [chunk rows].

        Raises:
            FilterError: the condition names a field that the store does not have.
        """
        chunks = self.snapshot.chunks
        mask: Mask = condition.mask(self.columns, chunks["document"], chunks["kind"])
        return np.asarray(mask & self.snapshot.chunk_alive)

    def check(self) -> None:
        """Look whether the parts agree with each other, beyond what opening a store checks.

        Raises:
            StoreDamagedError: they do not; says where.
        """
        self.snapshot.check()
        counts = {"lexical": len(self.snapshot.passages), "columns": len(self.snapshot.documents)}
        for kind, parts in (("lexical", self.lexical.segments), ("columns", self.columns.segments)):
            if sum(part.rows for part in parts) != counts[kind]:
                raise StoreDamagedError(f"{kind}: its parts do not cover the {counts[kind]} rows of the store")


class Store:
    """Gives readers the newest generation of a folder and lets one writer make the next.

    Thread-safe: any number of threads may read while another writes.
    """

    def __init__(self, folder: Path, generation: Generation, seen: _Seen) -> None:
        self.folder = folder
        self._generation = generation
        self._seen = seen
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, *, verify: bool = True, identity: Mapping[str, Any] | None = None) -> Store:
        """Open an existing store.

        Args:
            verify: check every byte against the manifest before use; without it only the manifest is checked.
            identity: models and settings that are to be used with it, as for ``require``; looked at before any data,
                which other settings may not be able to read.

        Raises:
            StoreMissingError: no store there.
            StoreDamagedError: bytes differ from what was committed.
            StoreMismatchError: written in a format that this release cannot read, or with another identity.
        """
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder}: is a file; expected a store folder. Choose another path with --store.")
        if identity is not None:
            _require(folder, manifests.read(folder).identity, identity)
        seen = _look(folder)  # before it is read, so that what comes after is noticed
        return cls(folder, _load(folder, verify=verify), seen)

    @classmethod
    def create(cls, folder: Path, identity: Mapping[str, Any]) -> Store:
        """Make an empty store in a new or empty folder.

        Raises:
            StoreError: the path is a file, holds other things, or cannot be written.
            StoreMismatchError: another process has just made it with other models or settings.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = {path.name for path in folder.iterdir()}
        except OSError as error:
            raise StoreError(f"{folder}: cannot become a store ({error.strerror}). Choose another path.") from error
        strangers = sorted(found.difference(_FIRST_FILES))
        if strangers and manifests.NAME not in found:  # with one, another process has just made the store
            raise StoreError(
                f"{folder}: holds {strangers[0]!r} and no Runoff store; expected a new or empty folder. "
                "Choose another path with --store."
            )
        with folder_lock(folder):
            if not (folder / manifests.NAME).exists():
                manifests.write(folder, Manifest(generation=1, identity=dict(identity)))
                with suppress(OSError):  # the folder above may not be ours to open
                    manifests.sync_folder(folder.parent)
        return cls.open(folder, identity=identity)

    @property
    def identity(self) -> Mapping[str, Any]:
        """What the stored data depends on: models, tokenizer and chunk settings."""
        return self._generation.snapshot.manifest.identity

    def require(self, identity: Mapping[str, Any]) -> None:
        """Refuse to go on with other models or settings than the store was made with.

        Raises:
            StoreMismatchError: names the first field that differs, with both values.
        """
        _require(self.folder, self.identity, identity)

    def current(self) -> Generation:
        """The newest generation; loads it when a writer of another process has made one since the last call.

        While one thread loads it, others go on with the one before.
        """
        if _stamp(self.folder) != self._seen.stamp and self._lock.acquire(blocking=False):
            try:
                self._load_newer()
            finally:
                self._lock.release()
        return self._generation

    def _newest(self) -> Generation:
        with self._lock:
            self._load_newer()
        return self._generation

    def _load_newer(self) -> None:
        if _stamp(self.folder) != self._seen.stamp:
            seen = _look(self.folder)
            self._generation = _load(self.folder, verify=False, before=self._generation)
            self._seen = seen

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """The store's only writer, while the block lasts. What it did not commit is dropped.

        Raises:
            StoreLockedError: another process is writing.
            StoreError: the folder cannot be written.
        """
        with folder_lock(self.folder):
            try:
                yield Writer(self.folder, self._newest().snapshot)
            finally:
                self._newest()


# All that a first save which died may leave: the manifest comes before any data. Data without one is somebody's loss.
_FIRST_FILES = (manifests.NAME, f"{manifests.NAME}.new", lock.NAME)


def _require(folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for key, value in wanted.items():
        if stored.get(key) != value:
            raise StoreMismatchError(
                f"{folder}: made with {key} = {stored.get(key)!r}, asked to use {value!r}. Use the settings it was "
                "made with, or ingest the sources into a new folder."
            )


def _load(folder: Path, *, verify: bool, before: Generation | None = None) -> Generation:
    while True:
        manifest = manifests.read(folder)
        try:
            return _load_generation(folder, manifest, verify, before)
        except StoreDamagedError:
            # A writer may have moved on and cleaned up between the two steps; then there is a newer manifest.
            if manifests.read(folder).generation == manifest.generation:
                raise


# A part never changes, but a folder may be emptied and filled anew with parts of the same names.
_Key = tuple[Part, FileState]
_Read = Callable[[Part], Any]


def _load_generation(folder: Path, manifest: Manifest, verify: bool, before: Generation | None) -> Generation:
    snapshot = Snapshot.open(folder, manifest, verify=verify, base=before.snapshot if before else None)
    known = before.parts if before else {}
    parts: dict[_Key, Any] = {}

    def read(kind: Sequence[Part], parse: _Read) -> list[Any]:
        keys = [(part, manifest.files[part.name]) for part in kind]
        parts.update((key, known[key] if key in known else parse(key[0])) for key in keys)
        return [parts[key] for key in keys]

    def mapped(part: Part) -> NDArray[np.uint8]:
        return map_file(folder / part.name, manifest.files[part.name])

    graphs = read(manifest.graphs, lambda part: load_graph(folder, manifest, part))
    postings = read(manifest.lexical, lambda part: lexical.Segment.parse(mapped(part)))
    fields = read(manifest.columns, lambda part: columns.Segment(mapped(part), part.name))
    return Generation(
        snapshot=snapshot,
        dense=VectorIndex(snapshot.vectors, snapshot.alive, graphs),
        lexical=LexicalIndex(postings, snapshot.alive),
        columns=Columns(fields),
        state=read_state(folder, manifest),
        parts=parts,
    )


Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The manifest file that was there. It stays mapped, so that no file after it can have its inode number."""

    stamp: Stamp
    held: mmap.mmap | None = None


def _look(folder: Path) -> _Seen:
    try:
        with (folder / manifests.NAME).open("rb") as file:
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return _Seen(_stamp_of(os.fstat(file.fileno())), held)
    except (OSError, ValueError):  # the latter: it is empty
        return _Seen(_NOTHING)


def _stamp(folder: Path) -> Stamp:
    try:
        return _stamp_of((folder / manifests.NAME).stat())
    except OSError:
        return _NOTHING


def _stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_ino, status.st_size)


_NOTHING: Stamp = (0, 0, 0)
