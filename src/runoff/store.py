"""A store folder: the newest generation for readers, one writer at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import lock
from . import manifest as manifests
from .errors import StoreDamagedError, StoreError, StoreMismatchError
from .index import VectorIndex, load_graph
from .lock import folder_lock
from .manifest import Manifest
from .snapshot import Snapshot
from .writer import Writer, graph_name


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation with its index: everything a query needs."""

    snapshot: Snapshot
    index: VectorIndex

    @property
    def number(self) -> int:
        """The generation's number, from 1."""
        return self.snapshot.manifest.generation


class Store:
    """Gives readers the newest generation of a folder and lets one writer make the next.

    Thread-safe: any number of threads may read while another writes.
    """

    def __init__(self, folder: Path, generation: Generation) -> None:
        self.folder = folder
        self._generation = generation
        self._stamp = _stamp(folder)
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, *, verify: bool = True) -> Store:
        """Open an existing store.

        Args:
            verify: check every byte against the manifest before use; without it only the manifest is checked.

        Raises:
            StoreMissingError: no store there.
            StoreDamagedError: bytes differ from what was committed.
            StoreMismatchError: written in a format that this release cannot read.
        """
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder}: is a file; expected a store folder. Choose another path with --store.")
        return cls(folder, _load(folder, verify=verify))

    @classmethod
    def create(cls, folder: Path, identity: Mapping[str, Any]) -> Store:
        """Make an empty store in a new or empty folder.

        Raises:
            StoreError: the path is a file, holds other things, or cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            strangers = sorted(path.name for path in folder.iterdir() if path.name not in _FIRST_FILES)
        except OSError as error:
            raise StoreError(f"{folder}: cannot become a store ({error.strerror}). Choose another path.") from error
        if strangers:
            raise StoreError(
                f"{folder}: holds {strangers[0]!r} and no Runoff store; expected a new or empty folder. "
                "Choose another path with --store."
            )
        with folder_lock(folder):
            if not (folder / manifests.NAME).exists():
                manifests.write(folder, Manifest(generation=1, identity=dict(identity)))
        return cls.open(folder)

    @property
    def identity(self) -> Mapping[str, Any]:
        """What the stored data depends on: models, tokenizer and chunk settings."""
        return self._generation.snapshot.manifest.identity

    def require(self, identity: Mapping[str, Any]) -> None:
        """Refuse to go on with other models or settings than the store was made with.

        Raises:
            StoreMismatchError: names the first field that differs, with both values.
        """
        for key, wanted in identity.items():
            if (stored := self.identity.get(key)) != wanted:
                raise StoreMismatchError(
                    f"{self.folder}: made with {key} = {stored!r}, asked to use {wanted!r}. Use the settings it was "
                    "made with, or ingest the sources into a new folder."
                )

    def current(self) -> Generation:
        """The newest generation; loads it when another writer has made one since the last call."""
        if _stamp(self.folder) == self._stamp:
            return self._generation
        with self._lock:
            stamp = _stamp(self.folder)
            if stamp != self._stamp:
                self._generation = _load(self.folder, verify=False)
                self._stamp = stamp
        return self._generation

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """The store's only writer, while the block lasts. What it did not commit is dropped.

        Raises:
            StoreLockedError: another process is writing.
            StoreError: the folder cannot be written.
        """
        with folder_lock(self.folder):
            yield Writer(self.folder, self.current().snapshot)


# All that a first save which died may leave: the manifest comes before any data. Data without one is somebody's loss.
_FIRST_FILES = (manifests.NAME, f"{manifests.NAME}.new", lock.NAME)


def _load(folder: Path, *, verify: bool) -> Generation:
    while True:
        manifest = manifests.read(folder)
        try:
            return _load_generation(folder, manifest, verify=verify)
        except (StoreDamagedError, FileNotFoundError):
            # A writer may have moved on and cleaned up between the two steps; then there is a newer manifest.
            if manifests.read(folder).generation == manifest.generation:
                raise


def _load_generation(folder: Path, manifest: Manifest, *, verify: bool) -> Generation:
    dimensions = int(manifest.identity["dimensions"])
    snapshot = Snapshot.open(folder, manifest, dimensions, verify=verify)
    graph, rows = None, manifest.indexed_rows
    if rows:
        graph = load_graph(folder / graph_name(manifest), dimensions, rows, snapshot.alive)
    return Generation(snapshot, VectorIndex(snapshot.vectors, snapshot.alive, graph, rows))


def _stamp(folder: Path) -> tuple[int, int, int]:
    try:
        status = (folder / manifests.NAME).stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_ino, status.st_size)
