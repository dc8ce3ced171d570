"""One generation of a store, read-only: flat files mapped into memory, nothing parsed until it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import manifest as manifests
from .assembly import Passages
from .documents import Chunk, Document, Kind
from .manifest import FileState, Manifest

KINDS: tuple[Kind, ...] = ("headline", "body")

CHUNK_ROW = np.dtype(
    [
        ("id", "<i8"),
        ("text_offset", "<u8"),
        ("token_offset", "<u8"),
        ("text_bytes", "<u4"),
        ("token_count", "<u4"),
        ("document", "<u4"),
        ("position", "<u4"),
        ("start", "<u4"),
        ("end", "<u4"),
        ("kind", "<u4"),
        ("unused", "<u4"),
    ]
)
DOCUMENT_ROW = np.dtype(
    [
        ("id", "S16"),
        ("record_hash", "V32"),
        ("record_offset", "<u8"),
        ("first_chunk", "<u8"),
        ("record_bytes", "<u4"),
        ("chunk_count", "<u4"),
    ]
)
TOKEN = np.dtype("<u2")
VECTOR = np.dtype("<f4")
DELETED = np.dtype("<u4")


def data_names(epoch: int) -> dict[str, str]:
    """File name of each kind of data in an epoch."""
    return {kind: f"{kind}-{epoch}.bin" for kind in ("records", "documents", "chunks", "texts", "tokens", "vectors")}


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it was stored, with its id (unique in the store, never given twice) and its document's id."""

    id: int
    document_id: str
    kind: Kind
    position: int
    text: str


class Snapshot:
    """What a store held at one generation. Safe to share between threads; stays valid while writers go on.

    Attributes:
        manifest: the generation's manifest.
        chunks: chunk table, dtype ``CHUNK_ROW``, shape [rows], deleted rows included.
        documents: document table, dtype ``DOCUMENT_ROW``, shape [document rows].
        vectors: float32, shape [rows, dimensions], L2-normalised.
        alive: bool, shape [rows]; False where the chunk's document was deleted or replaced.
        document_alive: bool, shape [document rows].
    """

    def __init__(self, manifest: Manifest, files: Mapping[str, NDArray[Any]], dimensions: int) -> None:
        self.manifest = manifest
        self.chunks = files["chunks"].view(CHUNK_ROW)
        self.documents = files["documents"].view(DOCUMENT_ROW)
        self.vectors = files["vectors"].view(VECTOR).reshape(-1, dimensions)
        self.document_alive = np.ones(len(self.documents), dtype=bool)
        self.document_alive[files["deleted"].view(DELETED)] = False
        self.alive = self.document_alive[self.chunks["document"]]
        self._tokens = files["tokens"].view(TOKEN)
        self._texts = files["texts"]
        self._records = files["records"]

    @classmethod
    def open(cls, folder: Path, manifest: Manifest, dimensions: int, *, verify: bool = True) -> Snapshot:
        """Map the files of a generation, after checking them where ``verify`` is set.

        Raises:
            StoreDamagedError: a file is missing, short or different from what was committed.
        """
        if verify:
            for name, state in manifest.files.items():
                manifests.verify_file(folder, name, state)
        names = {**data_names(manifest.epoch), "deleted": deleted_name(manifest) or ""}
        files = {kind: _map(folder / name, manifest.files.get(name, FileState())) for kind, name in names.items()}
        return cls(manifest, files, dimensions)

    @property
    def chunk_count(self) -> int:
        """Number of chunks that can be found."""
        return int(self.alive.sum())

    @property
    def document_count(self) -> int:
        """Number of documents that can be found."""
        return int(self.document_alive.sum())

    def rows_by_document(self) -> dict[str, int]:
        """Row of each live document by its id."""
        rows = np.flatnonzero(self.document_alive)
        ids = self.documents["id"][rows]
        return {bytes(key).decode("ascii"): int(row) for key, row in zip(ids, rows, strict=True)}

    def document(self, row: int) -> Document:
        """The document in a row of the document table."""
        record = self.documents[row]
        start = int(record["record_offset"])
        data = self._records[start : start + int(record["record_bytes"])].tobytes()
        fields = json.loads(data)
        return Document(**{**fields, "tags": tuple(fields["tags"])})

    def text(self, row: int) -> str:
        """The text of a chunk row."""
        record = self.chunks[row]
        start = int(record["text_offset"])
        return self._texts[start : start + int(record["text_bytes"])].tobytes().decode("utf-8")

    def chunk(self, row: int) -> StoredChunk:
        """The chunk in a row of the chunk table."""
        record = self.chunks[row]
        return StoredChunk(
            id=int(record["id"]),
            document_id=self.documents["id"][record["document"]].decode("ascii"),
            kind=KINDS[int(record["kind"])],
            position=int(record["position"]),
            text=self.text(row),
        )

    def chunk_rows(self, document_row: int) -> range:
        """Rows of a document's chunks, in reading order."""
        record = self.documents[document_row]
        first = int(record["first_chunk"])
        return range(first, first + int(record["chunk_count"]))

    def tokens(self, row: int) -> NDArray[np.uint16]:
        """Word-piece ids of a chunk row, uint16, without special tokens."""
        record = self.chunks[row]
        start = int(record["token_offset"])
        return self._tokens[start : start + int(record["token_count"])]

    def passages(self, rows: NDArray[np.int64]) -> Passages:
        """The cached word-piece ids of chunk rows, in that order, without copying them."""
        chosen = self.chunks[rows]
        return Passages(
            ids=self._tokens,
            starts=chosen["token_offset"].astype(np.int64),
            lengths=chosen["token_count"].astype(np.int32),
        )

    def entries(self) -> Iterator[Entry]:
        """Every live document with all that is stored for it, in row order."""
        for row in np.flatnonzero(self.document_alive):
            yield self.entry(int(row))

    def entry(self, document_row: int) -> Entry:
        """One document with its chunks, their ids, vectors and tokens."""
        rows = self.chunk_rows(document_row)
        return Entry(
            document=self.document(document_row),
            chunks=[self._chunk_record(row) for row in rows],
            vectors=self.vectors[rows.start : rows.stop],
            tokens=[self.tokens(row) for row in rows],
            ids=self.chunks["id"][rows.start : rows.stop].tolist(),
        )

    def _chunk_record(self, row: int) -> Chunk:
        record = self.chunks[row]
        return Chunk(
            kind=KINDS[int(record["kind"])],
            position=int(record["position"]),
            text=self.text(row),
            start=int(record["start"]),
            end=int(record["end"]),
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A document and all that ingest made of it.

    Attributes:
        document: the document.
        chunks: its chunks in reading order.
        vectors: float32, shape [chunks, dimensions], L2-normalised.
        tokens: for each chunk its word-piece ids, uint16.
        ids: for each chunk its id, where it has one already; None lets the store give new ones.
    """

    document: Document
    chunks: list[Chunk]
    vectors: NDArray[np.float32]
    tokens: list[NDArray[np.uint16]]
    ids: list[int] | None = None


def deleted_name(manifest: Manifest) -> str | None:
    """Name of the file that lists the deleted document rows of a generation, or None where nothing is deleted."""
    return next((name for name in manifest.files if name.startswith("deleted-")), None)


def _map(path: Path, state: FileState) -> NDArray[np.uint8]:
    if not state.bytes:
        return np.empty(0, dtype=np.uint8)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r", shape=(state.bytes,)))
