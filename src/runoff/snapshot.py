"""One generation of a store, read-only: flat files mapped into memory, nothing parsed until it is asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import dates
from . import manifest as manifests
from .assembly import Passages
from .documents import KINDS, Chunk, Document, Kind
from .errors import StoreDamagedError
from .keys import Keys
from .manifest import FileState, Manifest, map_file

DOCUMENT_ROW = np.dtype(
    [
        ("id", "S16"),
        ("record_hash", "V32"),
        ("record_offset", "<u8"),
        ("first_chunk", "<u8"),
        ("first_seen", "<i8"),
        ("record_bytes", "<u4"),
        ("chunk_count", "<u4"),
    ]
)
CHUNK_ROW = np.dtype(
    [
        ("id", "<i8"),
        ("document", "<u4"),
        ("passage", "<u4"),
        ("position", "<u4"),
        ("start", "<u4"),
        ("end", "<u4"),
        ("kind", "<u4"),
    ]
)
PASSAGE_ROW = np.dtype(
    [
        ("key", "<u8"),
        ("text_offset", "<u8"),
        ("token_offset", "<u8"),
        ("text_bytes", "<u4"),
        ("token_count", "<u4"),
        ("first_chunk", "<u4"),
        ("unused", "<u4"),
    ]
)
TOKEN = np.dtype("<u2")
VECTOR = np.dtype("<f2")
DELETED = np.dtype("<u4")

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


def data_names(epoch: int) -> dict[str, str]:
    """File name of each kind of data in an epoch."""
    kinds = ("records", "documents", "chunks", "passages", "texts", "tokens", "vectors")
    return {kind: f"{kind}-{epoch}.bin" for kind in kinds}


def text_key(text: str) -> int:
    """64 bits by which a passage is looked up: the beginning of the SHA-256 of its text."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "little")


def record_of(document: Document) -> bytes:
    """A document as the store keeps it: JSON in UTF-8, equal bytes for equal documents."""
    return json.dumps(document.to_record(), ensure_ascii=False, sort_keys=True).encode("utf-8")


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

    A *passage* is a text that is stored, embedded and searched once, however many chunks of however many documents
    have it.

    Attributes:
        manifest: the generation's manifest.
        documents: document table, dtype ``DOCUMENT_ROW``, shape [document rows], deleted rows included.
        chunks: chunk table, dtype ``CHUNK_ROW``, shape [chunk rows].
        passages: passage table, dtype ``PASSAGE_ROW``, shape [passage rows].
        vectors: float16, shape [passage rows, dimensions], L2-normalised.
        document_alive: bool, shape [document rows]; False where the document was deleted or replaced.
        chunk_alive: bool, shape [chunk rows]; False where the chunk's document was deleted or replaced.
        uses: uint32, shape [passage rows]; how many live chunks have the passage.
        alive: bool, shape [passage rows]; True where a live chunk has the passage.
        raw: bytes of each kind of file, uint8, flat.
    """

    def __init__(
        self, manifest: Manifest, files: Mapping[str, NDArray[Any]], dimensions: int, base: Snapshot | None = None
    ) -> None:
        self.manifest = manifest
        self.documents = files["documents"].view(DOCUMENT_ROW)
        self.chunks = files["chunks"].view(CHUNK_ROW)
        self.passages = files["passages"].view(PASSAGE_ROW)
        self.vectors = files["vectors"].view(VECTOR).reshape(-1, dimensions)
        self.document_alive = np.ones(len(self.documents), dtype=bool)
        self.document_alive[files["deleted"].view(DELETED)] = False
        self.raw = files
        self._tokens = files["tokens"].view(TOKEN)
        self._texts = files["texts"]
        self._records = files["records"]
        self._document_keys: Keys | None = None
        self._passage_keys: Keys | None = None
        if base is None or not self._follow(base):
            self.chunk_alive = self.document_alive[self.chunks["document"]]
            used = self.chunks["passage"][self.chunk_alive]
            self.uses = np.bincount(used, minlength=len(self.passages)).astype(np.uint32)
            self.alive = self.uses > 0

    @classmethod
    def open(cls, folder: Path, manifest: Manifest, *, verify: bool = True, base: Snapshot | None = None) -> Snapshot:
        """Map the files of a generation, after checking them where ``verify`` is set.

        Args:
            base: a generation of the same folder. What it knows is carried on where this one only added to its files,
                so that this costs what the change does; where it did not, that is found, and no harm is done.

        Raises:
            StoreDamagedError: a file is missing, short or different from what was committed.
        """
        if verify:
            manifests.verify(folder, manifest)
        names = {**data_names(manifest.epoch), "deleted": manifest.named("deleted") or ""}
        files = {kind: map_file(folder / name, manifest.files.get(name, FileState())) for kind, name in names.items()}
        if base is not None and not _continues(base.manifest, manifest, files):
            base = None
        return cls(manifest, files, int(manifest.identity["dimensions"]), base)

    def _follow(self, base: Snapshot) -> bool:
        """Carry on what a generation before knows, looking only at rows that were added or died since.

        Of the one before only what lies in memory is used: a writer may have cut its files off.
        """
        known = len(base.document_alive)
        if (self.document_alive[:known] & ~base.document_alive).any():
            return False
        fresh = self.document_alive[self.chunks["document"][len(base.chunk_alive) :]]
        died = self.chunk_rows(np.flatnonzero(base.document_alive & ~self.document_alive[:known]))
        added = self.chunks["passage"][len(base.chunk_alive) :][fresh]
        self.chunk_alive, self.uses, self.alive = base.chunk_alive, base.uses, base.alive
        if len(fresh) or len(died):
            self.chunk_alive = np.concatenate([base.chunk_alive, fresh])
            self.chunk_alive[died] = False
            self.uses = np.concatenate([base.uses, np.zeros(len(self.passages) - len(base.uses), dtype=np.uint32)])
            np.add.at(self.uses, added, 1)
            np.subtract.at(self.uses, self.chunks["passage"][died], 1)
            self.alive = self.uses > 0
        if base._document_keys is not None:
            self._document_keys = base._document_keys.extended(_keys(self.documents["id"][known:]))
        if base._passage_keys is not None:
            self._passage_keys = base._passage_keys.extended(self.passages["key"][len(base.uses) :])
        return True

    @property
    def document_count(self) -> int:
        """Number of documents that can be found."""
        return int(np.count_nonzero(self.document_alive))

    @property
    def chunk_count(self) -> int:
        """Number of chunks that can be found."""
        return int(np.count_nonzero(self.chunk_alive))

    @property
    def passage_count(self) -> int:
        """Number of different texts that can be found."""
        return int(np.count_nonzero(self.alive))

    def chunk_rows(self, documents: Rows) -> Rows:
        """Rows of the chunks of some document rows, which lie next to each other for each."""
        first, count = (self.documents[name][documents].astype(np.int64) for name in ("first_chunk", "chunk_count"))
        starts = np.cumsum(count) - count
        return np.asarray(np.arange(int(count.sum())) + np.repeat(first - starts, count))

    def passages_without(self, documents: Rows) -> int:
        """Number of passages that could be found if some live documents could not."""
        passages, uses = np.unique(self.chunks["passage"][self.chunk_rows(documents)], return_counts=True)
        return self.passage_count - int(np.count_nonzero(self.uses[passages] == uses))

    def passages_of(self, chunks: Mask) -> Mask:
        """Which passages some of the chosen chunks have: bool, shape [passage rows], from bool, shape [chunk rows]."""
        chosen = np.zeros(len(self.passages), dtype=bool)
        chosen[self.chunks["passage"][chunks]] = True
        return chosen

    def chunk_of(self, passage: int, chosen: Mask | None = None) -> int:
        """Row of the chunk that stands for a passage: of the live (and chosen) ones that have it, the first."""
        allowed = self.chunk_alive if chosen is None else chosen
        first = int(self.passages["first_chunk"][passage])
        if allowed[first]:
            return first
        repeats = self._repeats
        rows = repeats[self.chunks["passage"][repeats] == passage]
        return int(rows[allowed[rows]][0])

    @cached_property
    def _repeats(self) -> Rows:
        """Rows of the chunks whose passage came with another chunk."""
        origin = self.passages["first_chunk"][self.chunks["passage"]]
        return np.flatnonzero(origin != np.arange(len(self.chunks)))

    def find_documents(self, ids: Iterable[str]) -> dict[str, int]:
        """Row of each live document among ``ids``."""
        wanted = {key: None for key in ids if len(key) == DOCUMENT_ROW["id"].itemsize and key.isascii()}
        names = np.array(list(wanted), dtype=DOCUMENT_ROW["id"])
        if self._document_keys is None:
            self._document_keys = Keys(_keys(self.documents["id"]))
        rows = self._document_keys.find(_keys(names))
        found = {self.documents["id"][row].decode("ascii"): row for row in rows[self.document_alive[rows]].tolist()}
        return {key: row for key, row in found.items() if key in wanted}

    def find_passages(self, texts: Iterable[str]) -> dict[str, int]:
        """Row of each passage, live or not, among ``texts``."""
        keys = {text_key(text): text for text in texts}
        if self._passage_keys is None:
            self._passage_keys = Keys(self.passages["key"])
        rows = self._passage_keys.find(keys)
        found = {int(self.passages["key"][row]): row for row in rows.tolist()}
        return {keys[key]: row for key, row in found.items() if self.text(row) == keys[key]}

    def document(self, row: int) -> Document:
        """The document in a row of the document table."""
        record = self.documents[row]
        start = int(record["record_offset"])
        return Document.from_record(json.loads(self._records[start : start + int(record["record_bytes"])].tobytes()))

    def first_seen(self, row: int) -> str:
        """UTC time when a document's id came first, as ``YYYY-MM-DDTHH:MM:SSZ``."""
        return dates.from_seconds(int(self.documents["first_seen"][row]))

    def text(self, passage: int) -> str:
        """The text of a passage row."""
        record = self.passages[passage]
        start = int(record["text_offset"])
        return self._texts[start : start + int(record["text_bytes"])].tobytes().decode("utf-8")

    def tokens(self, passage: int) -> NDArray[np.uint16]:
        """Word-piece ids of a passage row, uint16, without special tokens."""
        record = self.passages[passage]
        start = int(record["token_offset"])
        return self._tokens[start : start + int(record["token_count"])]

    def token_cache(self, passages: Rows) -> Passages:
        """The cached word-piece ids of passage rows, in that order, without copying them."""
        chosen = self.passages[passages]
        return Passages(
            ids=self._tokens,
            starts=chosen["token_offset"].astype(np.int64),
            lengths=chosen["token_count"].astype(np.int32),
        )

    def chunk(self, row: int) -> StoredChunk:
        """The chunk in a row of the chunk table."""
        record = self.chunks[row]
        return StoredChunk(
            id=int(record["id"]),
            document_id=self.documents["id"][record["document"]].decode("ascii"),
            kind=KINDS[int(record["kind"])],
            position=int(record["position"]),
            text=self.text(int(record["passage"])),
        )

    def entries(self) -> Iterator[Entry]:
        """Every live document with all that is stored for it, in row order."""
        for row in np.flatnonzero(self.document_alive):
            yield self.entry(int(row))

    def entry(self, document_row: int) -> Entry:
        """One document with its chunks and their ids."""
        record = self.documents[document_row]
        first = int(record["first_chunk"])
        rows = range(first, first + int(record["chunk_count"]))
        return Entry(
            document=self.document(document_row),
            chunks=[self._plain_chunk(row) for row in rows],
            ids=self.chunks["id"][rows.start : rows.stop].tolist(),
            first_seen=int(record["first_seen"]),
        )

    def check(self) -> None:
        """Look whether rows and offsets stay inside of what they point at, and vectors are unit vectors.

        Raises:
            StoreDamagedError: one does not; names the table.
        """
        documents, chunks, passages = self.documents, self.chunks, self.passages
        sound = {
            "documents": _within(documents["record_offset"], documents["record_bytes"], len(self._records))
            and _within(documents["first_chunk"], documents["chunk_count"], len(chunks)),
            "chunks": _within(chunks["document"], 1, len(documents)) and _within(chunks["passage"], 1, len(passages)),
            "passages": _within(passages["text_offset"], passages["text_bytes"], len(self._texts))
            and _within(passages["token_offset"], passages["token_count"], len(self._tokens))
            and _within(passages["first_chunk"], 1, len(chunks)),
            "vectors": len(self.vectors) == len(passages)
            and bool(np.allclose(np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float32), 1, atol=1e-2)),
        }
        for table, holds in sound.items():
            if not holds:
                raise StoreDamagedError(f"{table}: does not fit the other tables, though its bytes are as written")

    def _plain_chunk(self, row: int) -> Chunk:
        record = self.chunks[row]
        return Chunk(
            kind=KINDS[int(record["kind"])],
            position=int(record["position"]),
            text=self.text(int(record["passage"])),
            start=int(record["start"]),
            end=int(record["end"]),
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A document and its chunks.

    Attributes:
        document: the document.
        chunks: its chunks in reading order.
        ids: for each chunk its id, where it has one already; None lets the store give new ones.
        first_seen: when its id came first, in seconds since 1970 UTC; None lets the store say.
    """

    document: Document
    chunks: list[Chunk]
    ids: list[int] | None = None
    first_seen: int | None = None


def _within(starts: NDArray[Any], lengths: NDArray[Any] | int, size: int) -> bool:
    return not len(starts) or int((starts.astype(np.int64) + lengths).max()) <= size


def _keys(names: NDArray[np.bytes_]) -> NDArray[np.uint64]:
    """One number for the 16 bytes of each name; ids that are alike at the beginning or the end differ in it."""
    halves = np.ascontiguousarray(names).view(np.uint64).reshape(-1, 2)
    return np.asarray(halves[:, 0] * np.uint64(0x9E3779B97F4A7C15) + halves[:, 1])


def _continues(base: Manifest, manifest: Manifest, files: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the tables of a generation begin with all of another's: their CRC-32 go on from its."""
    if base.epoch != manifest.epoch:
        return False
    for kind in ("documents", "chunks", "passages"):
        name = data_names(manifest.epoch)[kind]
        before, now = (one.files.get(name, FileState()) for one in (base, manifest))
        if before.bytes > now.bytes or manifests.checksum(files[kind][before.bytes :], before.crc32) != now.crc32:
            return False
    return True
