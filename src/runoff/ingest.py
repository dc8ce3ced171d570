"""Turns documents into stored entries, embedding only texts that the store has no vector for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .chunking import ChunkSettings, chunk
from .documents import Chunk, Document
from .snapshot import Entry
from .writer import Writer

Vectors = NDArray[np.float32]
Progress = Callable[[int, int], None]

BLOCK_CHUNKS = 2048


class TextEncoder(Protocol):
    """Gives each text a vector: float32, shape [texts, dimensions], L2-normalised."""

    def encode(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> Vectors: ...


class TextTokenizer(Protocol):
    """Gives each text its word-piece ids, int32, without special tokens."""

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int32]]: ...


@dataclass(slots=True)
class Counts:
    """Running totals of one ingest, as in ``SourceReport``."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    chunks: int = 0
    embedded: int = 0


@dataclass(frozen=True, slots=True)
class Ingestor:
    """Cuts, tokenises and embeds documents and stages them with a writer.

    Attributes:
        encoder: the bi-encoder.
        tokenizer: the cross-encoder's tokenizer, whose ids are cached.
        settings: how bodies are cut.
    """

    encoder: TextEncoder
    tokenizer: TextTokenizer
    settings: ChunkSettings

    def store(self, writer: Writer, documents: Sequence[Document], progress: Progress | None = None) -> Counts:
        """Store documents, committing a block at a time; each document is replaced whole or not at all."""
        counts = Counts()
        seen = 0
        for block in self._blocks(documents):
            self._store_block(writer, block, counts)
            writer.commit()
            seen += len(block)
            if progress is not None:
                progress(seen, len(documents))
        return counts

    def _blocks(self, documents: Iterable[Document]) -> Iterator[list[tuple[Document, list[Chunk]]]]:
        block: list[tuple[Document, list[Chunk]]] = []
        ids: set[str] = set()
        size = 0
        for document in documents:
            chunks = chunk(document, self.settings)
            if block and (document.id in ids or size + len(chunks) > BLOCK_CHUNKS):
                yield block
                block, ids, size = [], set(), 0
            block.append((document, chunks))
            ids.add(document.id)
            size += len(chunks)
        if block:
            yield block

    def _store_block(self, writer: Writer, block: list[tuple[Document, list[Chunk]]], counts: Counts) -> None:
        changed = [(document, chunks) for document, chunks in block if not writer.unchanged(document)]
        counts.unchanged += len(block) - len(changed)
        old = {document.id: writer.stored(document.id) for document, _ in changed}
        known = {text: vector for entry in old.values() if entry for text, vector in _vectors_by_text(entry)}
        missing = list(dict.fromkeys(c.text for _, chunks in changed for c in chunks if c.text not in known))
        known.update(zip(missing, self.encoder.encode(missing), strict=True) if missing else ())
        for document, chunks in changed:
            writer.put(self._entry(document, chunks, known))
            counts.updated += old[document.id] is not None
            counts.added += old[document.id] is None
            counts.chunks += len(chunks)
        counts.embedded += len(missing)

    def _entry(self, document: Document, chunks: list[Chunk], vectors: dict[str, Vectors]) -> Entry:
        texts = [c.text for c in chunks]
        tokens = [ids.astype(np.uint16) for ids in self.tokenizer.encode_batch(texts)]
        rows = [vectors[text] for text in texts]
        return Entry(document, chunks, np.stack(rows) if rows else np.empty((0, 0), np.float32), tokens)


def _vectors_by_text(entry: Entry) -> Iterator[tuple[str, Vectors]]:
    for stored, vector in zip(entry.chunks, entry.vectors, strict=True):
        yield stored.text, np.array(vector)
