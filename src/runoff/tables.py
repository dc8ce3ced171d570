"""Turns entries and passages into the bytes that the tables of a store gain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import KINDS
from .manifest import FileState, Manifest
from .snapshot import CHUNK_ROW, DOCUMENT_ROW, PASSAGE_ROW, TOKEN, VECTOR, Entry, data_names, record_of, text_key


class Tables:
    """Collects rows behind those of a generation.

    Args:
        manifest: the generation.
        passages: row of each stored passage that entries will have, by its text.
    """

    def __init__(self, manifest: Manifest, passages: Mapping[str, int]) -> None:
        self._sizes = {kind: _size(manifest, name) for kind, name in data_names(manifest.epoch).items()}
        self._document_row = self._sizes["documents"] // DOCUMENT_ROW.itemsize
        self._chunk_row = self._sizes["chunks"] // CHUNK_ROW.itemsize
        self._passage_row = self._sizes["passages"] // PASSAGE_ROW.itemsize
        self._passages = dict(passages)
        self._new: dict[int, NDArray[Any]] = {}
        self._named: set[int] = set()
        self._data: dict[str, list[bytes]] = {kind: [] for kind in self._sizes}
        self.next_chunk_id = manifest.next_chunk_id

    def add_passage(self, text: str, vector: NDArray[np.float32], tokens: NDArray[np.uint16]) -> None:
        """Append a passage, which an entry added later must have."""
        data = text.encode("utf-8")
        row = np.zeros((), dtype=PASSAGE_ROW)
        row["key"] = text_key(text)
        row["text_offset"], row["text_bytes"] = self._put("texts", data), len(data)
        row["token_offset"] = self._put("tokens", tokens.astype(TOKEN).tobytes()) // TOKEN.itemsize
        row["token_count"] = len(tokens)
        self._put("vectors", np.ascontiguousarray(vector, dtype=VECTOR).tobytes())
        self._new[self._passage_row] = row
        self._passages[text] = self._passage_row
        self._passage_row += 1

    def add_entry(self, entry: Entry) -> None:
        """Append a document with its chunks, whose passages are there already."""
        ids = entry.ids if entry.ids is not None else self._new_ids(len(entry.chunks))
        for number, (chunk, chunk_id) in enumerate(zip(entry.chunks, ids, strict=True)):
            row = np.zeros((), dtype=CHUNK_ROW)
            passage = self._passages[chunk.text]
            row["id"], row["document"], row["passage"] = chunk_id, self._document_row, passage
            row["position"], row["start"], row["end"] = chunk.position, chunk.start, chunk.end
            row["kind"] = KINDS.index(chunk.kind)
            self._put("chunks", row.tobytes())
            self._name_first_chunk(passage, self._chunk_row + number)
        self._add_document(entry)

    def columns(self) -> Iterable[tuple[str, bytes]]:
        """The kinds of table that gained bytes, with those bytes."""
        self._data["passages"] = [row.tobytes() for _, row in sorted(self._new.items())]
        return [(kind, b"".join(parts)) for kind, parts in self._data.items() if parts]

    def _name_first_chunk(self, passage: int, chunk_row: int) -> None:
        row = self._new.get(passage)
        if row is not None and passage not in self._named:
            row["first_chunk"] = chunk_row
            self._named.add(passage)

    def _add_document(self, entry: Entry) -> None:
        record = record_of(entry.document)
        row = np.zeros((), dtype=DOCUMENT_ROW)
        row["id"], row["record_hash"] = entry.document.id.encode("ascii"), np.void(hashlib.sha256(record).digest())
        row["record_offset"], row["record_bytes"] = self._put("records", record), len(record)
        row["first_chunk"], row["chunk_count"] = self._chunk_row, len(entry.chunks)
        row["first_seen"] = entry.first_seen or 0
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


def _size(manifest: Manifest, name: str) -> int:
    return manifest.files.get(name, FileState()).bytes
