"""Makes the next generation of a store: appends to the data files, then swaps the manifest."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import manifest as manifests
from .documents import Document
from .errors import StoreError
from .index import TAIL_ROWS, grow_graph
from .manifest import FileState, Manifest
from .snapshot import CHUNK_ROW, DELETED, DOCUMENT_ROW, KINDS, TOKEN, VECTOR, Entry, Snapshot, data_names

_OWN = re.compile(
    r"(manifest\.json(\.new)?|lock|(records|documents|chunks|texts|tokens|vectors|deleted|hnsw)-\d+\.bin)"
)
_COMPACT_ROWS = 1024


class Writer:
    """Collects changes to a store and commits them as one generation.

    Made by ``Store.writer``, which holds the lock; not thread-safe. Nothing is visible to readers before ``commit``.
    """

    def __init__(self, folder: Path, snapshot: Snapshot) -> None:
        self._folder = folder
        self._reset(snapshot)
        _remove_strays(folder, snapshot.manifest)

    def _reset(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rows = snapshot.rows_by_document()
        self._staged: dict[str, Entry] = {}
        self._deleted: set[int] = set()

    def stored(self, document_id: str) -> Entry | None:
        """What the store holds for a document: staged, else committed, else None."""
        if document_id in self._staged:
            return self._staged[document_id]
        row = self._rows.get(document_id)
        return None if row is None else self._snapshot.entry(row)

    def unchanged(self, document: Document) -> bool:
        """Whether exactly this record is stored already."""
        if document.id in self._staged:
            return self._staged[document.id].document == document
        row = self._rows.get(document.id)
        return row is not None and self._snapshot.documents["record_hash"][row].tobytes() == _record(document)[1]

    def put(self, entry: Entry) -> None:
        """Stage a document, replacing the one of the same id whole."""
        self.delete(entry.document.id)
        self._staged[entry.document.id] = entry

    def delete(self, document_id: str) -> bool:
        """Stage the removal of a document; False when there is none of that id."""
        row = self._rows.pop(document_id, None)
        if row is not None:
            self._deleted.add(row)
        return self._staged.pop(document_id, None) is not None or row is not None

    def commit(self) -> bool:
        """Make what was staged the newest generation, durably; False when there was nothing to do.

        Raises:
            StoreError: the disk refused; the previous generation stays as it was.
        """
        if not self._staged and not self._deleted:
            return False
        try:
            manifest = self._append_all()
            manifests.write(self._folder, manifest)
        except OSError as error:
            where = error.filename or self._folder
            raise StoreError(f"{where}: cannot be written ({error.strerror}); the store is as it was before") from error
        self._reset(self._reopen(manifest))
        return True

    def _append_all(self) -> Manifest:
        snapshot = self._snapshot
        dead = ~snapshot.document_alive
        dead[list(self._deleted)] = True
        dead_chunks = int(dead[snapshot.chunks["document"]].sum())
        if dead_chunks > max(_COMPACT_ROWS, len(snapshot.chunks) - dead_chunks):
            return self._compacted()
        manifest = self._append(snapshot.manifest, self._staged.values())
        manifest = self._mark_deleted(manifest, np.flatnonzero(dead))
        return self._index(replace(manifest, generation=manifest.generation + 1))

    def _append(self, manifest: Manifest, entries: Iterable[Entry]) -> Manifest:
        packed = _Pack(manifest)
        for entry in entries:
            packed.add(entry)
        names = data_names(manifest.epoch)
        files = dict(manifest.files)
        for kind, data in packed.columns():
            files[names[kind]] = _append(self._folder / names[kind], files.get(names[kind], FileState()), data)
        return replace(manifest, files=files, next_chunk_id=packed.next_chunk_id)

    def _mark_deleted(self, manifest: Manifest, rows: NDArray[np.int64]) -> Manifest:
        files = {name: state for name, state in manifest.files.items() if not name.startswith("deleted-")}
        if rows.size:
            name = f"deleted-{manifest.generation + 1}.bin"
            files[name] = _append(self._folder / name, FileState(), rows.astype(DELETED).tobytes())
        return replace(manifest, files=files)

    def _compacted(self) -> Manifest:
        """All live and staged documents in a new set of files."""
        old = self._snapshot
        manifest = replace(old.manifest, epoch=old.manifest.epoch + 1, files={}, indexed_rows=0)
        live = [old.entry(row) for row in sorted(self._rows.values())]
        manifest = self._append(manifest, [*live, *self._staged.values()])
        return self._index(replace(manifest, generation=manifest.generation + 1))

    def _index(self, manifest: Manifest) -> Manifest:
        vectors = self._reopen(manifest).vectors
        if len(vectors) - manifest.indexed_rows < TAIL_ROWS:
            return manifest
        old = self._folder / graph_name(manifest) if manifest.indexed_rows else None
        graph = grow_graph(old, manifest.indexed_rows, vectors)
        files = {name: state for name, state in manifest.files.items() if not name.startswith("hnsw-")}
        name = f"hnsw-{manifest.generation}.bin"
        files[name] = _save_graph(graph, self._folder / name)
        return replace(manifest, files=files, indexed_rows=len(vectors))

    def _reopen(self, manifest: Manifest) -> Snapshot:
        return Snapshot.open(self._folder, manifest, int(manifest.identity["dimensions"]), verify=False)


class _Pack:
    """Turns entries into the bytes that each file gains."""

    def __init__(self, manifest: Manifest) -> None:
        sizes = {kind: _size(manifest, name) for kind, name in data_names(manifest.epoch).items()}
        self._sizes = sizes
        self._chunk_row = sizes["chunks"] // CHUNK_ROW.itemsize
        self._document_row = sizes["documents"] // DOCUMENT_ROW.itemsize
        self._data: dict[str, list[bytes]] = {kind: [] for kind in sizes}
        self.next_chunk_id = manifest.next_chunk_id

    def add(self, entry: Entry) -> None:
        """Append one document with its chunks."""
        ids = entry.ids if entry.ids is not None else self._new_ids(len(entry.chunks))
        for chunk, tokens, chunk_id in zip(entry.chunks, entry.tokens, ids, strict=True):
            text = chunk.text.encode("utf-8")
            row = np.zeros((), dtype=CHUNK_ROW)
            row["id"], row["document"], row["kind"] = chunk_id, self._document_row, KINDS.index(chunk.kind)
            row["position"], row["start"], row["end"] = chunk.position, chunk.start, chunk.end
            row["text_offset"], row["text_bytes"] = self._put("texts", text), len(text)
            row["token_offset"] = self._put("tokens", tokens.astype(TOKEN).tobytes()) // TOKEN.itemsize
            row["token_count"] = len(tokens)
            self._put("chunks", row.tobytes())
        self._put("vectors", np.ascontiguousarray(entry.vectors, dtype=VECTOR).tobytes())
        self._add_document(entry)

    def columns(self) -> Iterable[tuple[str, bytes]]:
        """The kinds that gained bytes, with those bytes."""
        return [(kind, b"".join(parts)) for kind, parts in self._data.items() if parts]

    def _add_document(self, entry: Entry) -> None:
        record, digest = _record(entry.document)
        row = np.zeros((), dtype=DOCUMENT_ROW)
        row["id"], row["record_hash"] = entry.document.id.encode("ascii"), np.void(digest)
        row["record_offset"], row["record_bytes"] = self._put("records", record), len(record)
        row["first_chunk"], row["chunk_count"] = self._chunk_row, len(entry.chunks)
        self._put("documents", row.tobytes())
        self._document_row += 1
        self._chunk_row += len(entry.chunks)

    def _new_ids(self, count: int) -> list[int]:
        first, self.next_chunk_id = self.next_chunk_id, self.next_chunk_id + count
        return list(range(first, first + count))

    def _put(self, kind: str, data: bytes) -> int:
        offset = self._sizes[kind]
        self._data[kind].append(data)
        self._sizes[kind] = offset + len(data)
        return offset


def graph_name(manifest: Manifest) -> str:
    """Name of the file that holds a generation's HNSW graph."""
    return next(name for name in manifest.files if name.startswith("hnsw-"))


def is_own_file(name: str) -> bool:
    """Whether a file name is one that a store writes."""
    return _OWN.fullmatch(name) is not None


def _record(document: Document) -> tuple[bytes, bytes]:
    data = json.dumps(asdict(document), ensure_ascii=False, sort_keys=True).encode("utf-8")
    return data, hashlib.sha256(data).digest()


def _size(manifest: Manifest, name: str) -> int:
    return manifest.files.get(name, FileState()).bytes


def _append(path: Path, state: FileState, data: bytes) -> FileState:
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(state.bytes)
        file.seek(state.bytes)
        file.write(data)
        file.flush()
        manifests.sync(file.fileno())
    return FileState(state.bytes + len(data), zlib.crc32(data, state.crc32))


def _save_graph(graph: Any, path: Path) -> FileState:
    try:
        graph.save_index(str(path))
    except RuntimeError as error:
        raise StoreError(f"{path}: the index cannot be written ({error}); the store is as it was before") from error
    with path.open("rb+") as file:
        manifests.sync(file.fileno())
        data = file.read()
    return FileState(len(data), zlib.crc32(data))


def _remove_strays(folder: Path, manifest: Manifest) -> None:
    keep = {manifests.NAME, "lock", *manifest.files}
    for path in folder.iterdir():
        if is_own_file(path.name) and path.name not in keep:
            path.unlink(missing_ok=True)
