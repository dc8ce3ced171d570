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
        """Store documents, committing a block at a time but the last, which stays staged.

        Each document is replaced whole or not at all. The caller commits the last block, with what is true only once
        all of them are stored: should the process die before, nothing may say that their source was read.
        """
        counts = Counts()
        seen = 0
        for block in self._blocks(documents):
            if seen:
                writer.commit(index=False)
            self._store_block(writer, block, counts)
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
        writer.prepare(document.id for document, _ in block)
        changed = [(document, chunks) for document, chunks in block if not writer.unchanged(document)]
        missing = writer.missing(c.text for _, chunks in changed for c in chunks)
        if missing:
            tokens = [ids.astype(np.uint16) for ids in self.tokenizer.encode_batch(missing)]
            writer.add_passages(missing, self.encoder.encode(missing), tokens)
        for document, chunks in changed:
            counts.updated += writer.holds(document.id)
            counts.added += not writer.holds(document.id)
            counts.chunks += len(chunks)
            writer.put(Entry(document, chunks))
        counts.unchanged += len(block) - len(changed)
        counts.embedded += len(missing)
