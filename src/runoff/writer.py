"""Makes the next generation of a store: appends to the data files, adds parts to the indexes, swaps the manifest."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from . import columns, compaction, lexical, lock
from . import graph as graphs
from . import index as vector_index
from . import manifest as manifests
from .documents import Document
from .manifest import FileState, Manifest, Part, append, map_file
from .snapshot import DELETED, Entry, Snapshot, data_names, record_of
from .state import SourceState, State
from .tables import Tables

_KINDS = "records|documents|chunks|passages|texts|tokens|vectors|deleted|hnsw|lexical|columns|state"
_OWN = re.compile(rf"(manifest\.json(\.new)?|lock|({_KINDS})-\d+(-\d+-\d+)?\.bin)")
COMPACT_ROWS = 1024
# Parts of an index up to this size are merged when a neighbour is not much larger; more rows than that in one commit
# are written as several parts, so that no refresh ever rewrites much.
PART_ROWS = 8192
_SIMILAR = 2

Vectors = NDArray[np.float32]
Tokens = Sequence[NDArray[np.uint16]]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]


class Merge(Protocol):
    """Makes one part of an index of several, without the rows that are not kept."""

    def __call__(
        self, parts: Sequence[Bytes], kept: Mask | None = None, /, *, first_row: int | None = None
    ) -> bytes: ...


class Writer:
    """Collects changes to a store and commits them as one generation.

    Made by ``Store.writer``, which holds the lock; not thread-safe. Nothing is visible to readers before ``commit``.

    Args:
        folder: the store folder.
        snapshot: its newest generation.
        clock: gives the time in seconds since 1970, for ``first_seen``.
    """

    def __init__(self, folder: Path, snapshot: Snapshot, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._reset(snapshot)
        _remove_left_overs(folder, snapshot.manifest)

    def _reset(self, snapshot: Snapshot) -> None:
        self._snapshot = self._latest = snapshot
        self._known: dict[str, int | None] = {}
        self._staged: dict[str, Entry] = {}
        self._passages: dict[str, tuple[Vectors, NDArray[np.uint16]]] = {}
        self._deleted: set[int] = set()
        self.state = self._stored_state = read_state(self._folder, snapshot.manifest)

    def prepare(self, ids: Iterable[str]) -> None:
        """Look many documents up at once, which is faster than one after the other."""
        missing = [key for key in ids if key not in self._known]
        if missing:
            found = self._snapshot.find_documents(missing)
            self._known.update((key, found.get(key)) for key in missing)

    def stored(self, document_id: str) -> Entry | None:
        """What the store holds for a document: staged, else committed, else None."""
        if document_id in self._staged:
            return self._staged[document_id]
        row = self._row(document_id)
        return None if row is None else self._snapshot.entry(row)

    def holds(self, document_id: str) -> bool:
        """Whether a document of that id is staged or stored."""
        return document_id in self._staged or self._row(document_id) is not None

    def unchanged(self, document: Document) -> bool:
        """Whether exactly this record is stored already."""
        if document.id in self._staged:
            return self._staged[document.id].document == document
        row = self._row(document.id)
        return row is not None and self._snapshot.documents["record_hash"][row].tobytes() == _hash(record_of(document))

    def missing(self, texts: Iterable[str]) -> list[str]:
        """The texts that no stored or staged passage has, each once, in order of appearance."""
        wanted = [text for text in dict.fromkeys(texts) if text not in self._passages]
        stored = self._snapshot.find_passages(wanted)
        return [text for text in wanted if text not in stored]

    def add_passages(self, texts: Sequence[str], vectors: Vectors, tokens: Tokens) -> None:
        """Stage passages: what ``missing`` named, with a vector and the word-piece ids of each."""
        self._passages.update(zip(texts, zip(vectors, tokens, strict=True), strict=True))

    def put(self, entry: Entry) -> None:
        """Stage a document, replacing the one of the same id whole. Its passages must be stored or staged."""
        key = entry.document.id
        if entry.first_seen is None:
            old = self.stored(key)
            entry = replace(entry, first_seen=old.first_seen if old else int(self._clock()))
        self.delete(key)
        self._staged[key] = entry

    def delete(self, document_id: str) -> bool:
        """Stage the removal of a document; False when there is none of that id."""
        row = self._row(document_id)
        self._known[document_id] = None
        if row is not None:
            self._deleted.add(row)
        return self._staged.pop(document_id, None) is not None or row is not None

    def remember(self, name: str, state: SourceState, *, source: str | None = None) -> None:
        """Stage how a feed or document was when it was read, and which source of the user's it belongs to."""
        sources = self.state.sources
        if source is not None and source not in sources:
            sources = (*sources, source)
        self.state = replace(self.state, sources=sources, files={**self.state.files, name: state})

    def forget(self, source: str) -> bool:
        """Stage that a source is not refreshed any more; its documents stay. False when it was not remembered."""
        if source not in self.state.sources:
            return False
        self.state = self.state.without(source)
        return True

    def bar(self, *, removed: Iterable[str] = (), restored: Iterable[str] = ()) -> None:
        """Stage which documents a refresh must not bring back, and which it may again."""
        self.state = replace(self.state, removed=self.state.removed.union(removed).difference(restored))

    @property
    def staged(self) -> bool:
        """Whether anything is staged."""
        return bool(self._staged or self._deleted) or self.state != self._stored_state

    def commit(self, *, index: bool = True) -> bool:
        """Make what was staged the newest generation, durably; False when there was nothing to do.

        Args:
            index: whether passages that are scanned may become a graph. Without it a long ingest commits block by
                block and makes one graph at the end.

        Raises:
            StoreError: the disk refused; the previous generation stays as it was.
        """
        manifest = self._snapshot.manifest
        plan = vector_index.plan_graph(manifest.graphs, len(self._snapshot.passages)) if index else None
        if not self.staged and plan is None:
            return False
        self._write(lambda: self._next(index))
        return True

    def compact(self) -> bool:
        """Make a generation without what was deleted and with as few parts as there can be; False when it is so."""
        snapshot = self._snapshot
        waste = len(snapshot.alive) - snapshot.passage_count + len(snapshot.documents) - snapshot.document_count
        if not waste and not any(_mergeable(parts) for parts in (snapshot.manifest.lexical, snapshot.manifest.columns)):
            return False
        self._write(self._compacted)
        return True

    def _write(self, make: Callable[[], Manifest]) -> None:
        try:
            manifest = make()
        except BaseException:
            self._latest = self._snapshot
            _remove_left_overs(self._folder, self._snapshot.manifest)  # on a full disk they take the room of the next
            raise
        manifests.write(self._folder, manifest)
        self._reset(self._reopen(manifest))
        _remove_left_overs(self._folder, manifest)

    def _row(self, document_id: str) -> int | None:
        if document_id not in self._known:
            self.prepare([document_id])
        return self._known[document_id]

    def _next(self, index: bool) -> Manifest:
        base = self._snapshot
        deleted = np.array(sorted(self._deleted), dtype=np.int64)
        live_rows = base.passages_without(deleted)
        if len(base.passages) - live_rows > max(COMPACT_ROWS, live_rows):
            kept = base.document_alive.copy()
            kept[deleted] = False
            manifest = self._append(self._reopen(self._compact_to(np.flatnonzero(kept))))
        else:
            manifest = self._mark_deleted(self._append(base), deleted)
        return self._finish(manifest, index)

    def _compacted(self) -> Manifest:
        return self._finish(self._compact_to(np.flatnonzero(self._snapshot.document_alive)), index=True)

    def _compact_to(self, documents: NDArray[np.int64]) -> Manifest:
        """The chosen documents in new files, under parts that were merged from the old ones."""
        old = self._snapshot
        manifest, kept = compaction.compact(self._folder, old, documents)
        for kind, merge in (("lexical", lexical.merge), ("columns", _merge_columns)):
            manifest = self._merge_all(manifest, kind, merge, kept[kind])
        return manifest

    def _merge_all(self, manifest: Manifest, kind: str, merge: Merge, kept: Mask) -> Manifest:
        """Old parts in new ones of up to ``PART_ROWS`` old rows, without the rows that went."""
        old = self._snapshot.manifest
        files, parts, first = dict(manifest.files), [], 0
        for group in _groups(getattr(old, kind)):
            data = [map_file(self._folder / part.name, old.files[part.name]) for part in group]
            keep = kept[group[0].first : group[-1].last]
            count = int(np.count_nonzero(keep))
            if not count:
                continue
            name = f"{kind}-{old.generation + 1}-{first}-{first + count}.bin"
            files[name] = append(self._folder / name, FileState(), [merge(data, keep, first_row=first)])
            parts.append(Part(name, first, first + count))
            first += count
        return _with_parts(manifest, kind, files, parts)

    def _finish(self, manifest: Manifest, index: bool) -> Manifest:
        manifest = self._save_state(manifest)
        manifest = replace(manifest, generation=self._snapshot.manifest.generation + 1)
        snapshot = self._reopen(manifest)
        manifest = self._extend(manifest, "lexical", len(snapshot.passages), _lexical_part(snapshot), lexical.merge)
        manifest = self._extend(manifest, "columns", len(snapshot.documents), _columns_part(snapshot), _merge_columns)
        return self._index(manifest, snapshot) if index else manifest

    def _append(self, base: Snapshot) -> Manifest:
        texts = dict.fromkeys(chunk.text for entry in self._staged.values() for chunk in entry.chunks)
        stored = base.find_passages(text for text in texts if text not in self._passages)
        tables = Tables(base.manifest, stored)
        for text in texts:
            if text not in stored:
                tables.add_passage(text, *self._passage(text))
        for entry in self._staged.values():
            tables.add_entry(entry)
        names = data_names(base.manifest.epoch)
        files = dict(base.manifest.files)
        for kind, data in tables.columns():
            state = files.get(names[kind], FileState())
            files[names[kind]] = append(self._folder / names[kind], state, [data])
        return replace(base.manifest, files=files, next_chunk_id=tables.next_chunk_id)

    def _passage(self, text: str) -> tuple[Vectors, NDArray[np.uint16]]:
        """Vector and tokens of a passage that is staged, or was dropped by a compaction just now."""
        if text in self._passages:
            return self._passages[text]
        row = self._snapshot.find_passages([text])[text]
        return self._snapshot.vectors[row], self._snapshot.tokens(row)

    def _mark_deleted(self, manifest: Manifest, rows: NDArray[np.int64]) -> Manifest:
        if not len(rows):
            return manifest
        dead = ~self._snapshot.document_alive
        dead[rows] = True
        return self._replace_file(manifest, "deleted", np.flatnonzero(dead).astype(DELETED).tobytes())

    def _save_state(self, manifest: Manifest) -> Manifest:
        if self.state == self._stored_state and manifest.named("state") is not None:
            return manifest
        return self._replace_file(manifest, "state", b"" if self.state == State() else self.state.to_bytes())

    def _replace_file(self, manifest: Manifest, kind: str, data: bytes) -> Manifest:
        files = {name: state for name, state in manifest.files.items() if not name.startswith(f"{kind}-")}
        if data:
            name = f"{kind}-{self._snapshot.manifest.generation + 1}.bin"
            files[name] = append(self._folder / name, FileState(), [data])
        return replace(manifest, files=files)

    def _extend(
        self,
        manifest: Manifest,
        kind: str,
        rows: int,
        build: Callable[[int, int], bytes],
        merge: Merge,
    ) -> Manifest:
        """Cover rows that came behind the last part of an index, merging small parts that are next to each other."""
        parts: list[Part] = list(getattr(manifest, kind))
        files = dict(manifest.files)
        covered = parts[-1].last if parts else 0
        for first in range(covered, rows, PART_ROWS):
            last = min(first + PART_ROWS, rows)
            absorbed = _absorbed(parts, last - first)
            data = build(first, last)
            if absorbed:
                old = [map_file(self._folder / part.name, files.pop(part.name)) for part in absorbed]
                data = merge([*old, np.frombuffer(data, dtype=np.uint8)])
                del parts[-len(absorbed) :]
                first = absorbed[0].first  # the merged part begins there
            name = f"{kind}-{manifest.generation}-{first}-{last}.bin"
            files[name] = append(self._folder / name, FileState(), [data])
            parts.append(Part(name, first, last))
        return _with_parts(manifest, kind, files, parts)

    def _index(self, manifest: Manifest, snapshot: Snapshot) -> Manifest:
        plan = vector_index.plan_graph(manifest.graphs, len(snapshot.passages))
        if plan is None:
            return manifest
        kept, continued, first = plan
        old = load_graph(self._folder, manifest, continued) if continued else None
        graph = graphs.build(snapshot.vectors, first, old)
        names = {part.name for part in kept}
        files = {k: v for k, v in manifest.files.items() if not k.startswith("hnsw-") or k in names}
        name = f"hnsw-{manifest.generation}.bin"
        files[name] = append(self._folder / name, FileState(), graph.write())
        return replace(manifest, files=files, graphs=(*kept, Part(name, first, len(snapshot.passages))))

    def _reopen(self, manifest: Manifest) -> Snapshot:
        self._latest = Snapshot.open(self._folder, manifest, verify=False, base=self._latest)
        return self._latest


def load_graph(folder: Path, manifest: Manifest, part: Part) -> graphs.Graph:
    """A graph of a generation.

    Raises:
        StoreDamagedError: its bytes differ from what was committed.
    """
    path = folder / part.name
    manifests.verify_file(path, manifest.files[part.name])
    return graphs.load(
        map_file(path, manifest.files[part.name]), path, part.first, int(manifest.identity["dimensions"])
    )


def read_state(folder: Path, manifest: Manifest) -> State:
    """What a generation remembers of its sources."""
    name = manifest.named("state")
    return State.from_bytes(map_file(folder / name, manifest.files[name]).tobytes() if name else b"")


def is_own_file(name: str) -> bool:
    """Whether a file name is one that a store writes."""
    return _OWN.fullmatch(name) is not None


def _lexical_part(snapshot: Snapshot) -> Callable[[int, int], bytes]:
    return lambda first, last: lexical.build(first, [snapshot.text(row) for row in range(first, last)])


def _columns_part(snapshot: Snapshot) -> Callable[[int, int], bytes]:
    return lambda first, last: columns.build(first, [snapshot.document(row) for row in range(first, last)])


def _with_parts(manifest: Manifest, kind: str, files: Mapping[str, FileState], parts: Sequence[Part]) -> Manifest:
    if kind == "lexical":
        return replace(manifest, files=files, lexical=tuple(parts))
    return replace(manifest, files=files, columns=tuple(parts))


def _merge_columns(parts: Sequence[Bytes], kept: Mask | None = None, *, first_row: int | None = None) -> bytes:
    return columns.merge([columns.Segment(part) for part in parts], kept, first_row=first_row)


def _absorbed(parts: Sequence[Part], rows: int) -> list[Part]:
    """The last parts that are merged with a new one of ``rows`` rows: none much larger than all that follows it."""
    absorbed: list[Part] = []
    for part in reversed(parts):
        if part.rows > _SIMILAR * rows or part.rows + rows > PART_ROWS:
            break
        absorbed.insert(0, part)
        rows += part.rows
    return absorbed


def _groups(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts that are merged by a compaction: neighbours of together at most ``PART_ROWS`` rows."""
    groups: list[list[Part]] = []
    for part in parts:
        if groups and sum(one.rows for one in groups[-1]) + part.rows <= PART_ROWS:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _mergeable(parts: Sequence[Part]) -> bool:
    return len(_groups(parts)) < len(parts)


def _hash(record: bytes) -> bytes:
    return hashlib.sha256(record).digest()


def _remove_left_overs(folder: Path, manifest: Manifest) -> None:
    """Remove what a writer that died or failed has left: files of no generation, and bytes behind those that count.

    What cannot be removed now does no harm, and is left to the next writer.
    """
    kept = {manifests.NAME, lock.NAME, *manifest.files}
    grow = [name for name in data_names(manifest.epoch).values() if name in manifest.files]
    with suppress(OSError):
        for path in folder.iterdir():
            if path.name not in kept and is_own_file(path.name):
                path.unlink()
        for name in grow:
            if (folder / name).stat().st_size > manifest.files[name].bytes:
                os.truncate(folder / name, manifest.files[name].bytes)
