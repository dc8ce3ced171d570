"""Copies what is live in a generation into a new set of data files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .manifest import FileState, Manifest, append
from .snapshot import TOKEN, Mask, Rows, Snapshot, data_names

_BLOCK_ROWS = 4096


def compact(folder: Path, snapshot: Snapshot, documents: Rows) -> tuple[Manifest, dict[str, Mask]]:
    """New files with the chosen documents, their chunks and passages, and a manifest without any index over them.

    Ids, order and bytes stay as they are; only rows and offsets change.

    Args:
        folder: the store folder.
        snapshot: the generation to copy from.
        documents: document rows to keep, ascending.

    Returns:
        The manifest, and which rows of the old indexes stay: ``lexical`` (passages) and ``columns`` (documents).
    """
    chosen = np.zeros(len(snapshot.documents), dtype=bool)
    chosen[documents] = True
    chunks = np.flatnonzero(chosen[snapshot.chunks["document"]])
    used = snapshot.passages_of(chosen[snapshot.chunks["document"]])
    passages = np.flatnonzero(used)
    raw = snapshot.raw
    contents = {
        "documents": _tables(_documents(snapshot, documents)),
        "chunks": _tables(_chunks(snapshot, documents, chunks, passages)),
        "passages": _tables(_passages(snapshot, chunks, passages)),
        "records": _gathered(raw["records"], snapshot.documents[documents], "record_offset", "record_bytes", 1),
        "texts": _gathered(raw["texts"], snapshot.passages[passages], "text_offset", "text_bytes", 1),
        "tokens": _gathered(raw["tokens"], snapshot.passages[passages], "token_offset", "token_count", TOKEN.itemsize),
        "vectors": (snapshot.vectors[rows].tobytes() for rows in _blocks(passages)),
    }
    epoch = snapshot.manifest.epoch + 1
    names = data_names(epoch)
    kept = snapshot.manifest.named("state")
    files = {kept: snapshot.manifest.files[kept]} if kept else {}
    files |= {names[kind]: append(folder / names[kind], FileState(), blocks) for kind, blocks in contents.items()}
    manifest = replace(snapshot.manifest, epoch=epoch, files=files, graphs=(), lexical=(), columns=())
    return manifest, {"lexical": used, "columns": chosen}


def _documents(snapshot: Snapshot, documents: Rows) -> NDArray[Any]:
    table = snapshot.documents[documents]
    table["record_offset"] = _starts(table["record_bytes"])
    # The chunks of a document lie next to each other, in the order of documents.
    table["first_chunk"] = _starts(table["chunk_count"])
    return table


def _chunks(snapshot: Snapshot, documents: Rows, chunks: Rows, passages: Rows) -> NDArray[Any]:
    table = snapshot.chunks[chunks]
    table["document"] = np.searchsorted(documents, table["document"])
    table["passage"] = np.searchsorted(passages, table["passage"])
    return table


def _passages(snapshot: Snapshot, chunks: Rows, passages: Rows) -> NDArray[Any]:
    table = snapshot.passages[passages]
    table["text_offset"] = _starts(table["text_bytes"])
    table["token_offset"] = _starts(table["token_count"])
    owners = np.searchsorted(passages, snapshot.chunks["passage"][chunks])
    # Of repeated places the last assignment counts, so the first chunk of each passage is assigned last.
    table["first_chunk"][owners[::-1]] = np.arange(len(chunks))[::-1]
    return table


def _starts(lengths: NDArray[Any]) -> NDArray[np.uint64]:
    return np.asarray(np.cumsum(lengths, dtype=np.uint64) - lengths)


def _blocks(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), _BLOCK_ROWS):
        yield rows[start : start + _BLOCK_ROWS]


def _tables(table: NDArray[Any]) -> Iterator[bytes]:
    yield table.tobytes()


def _gathered(data: NDArray[np.uint8], table: NDArray[Any], start: str, length: str, item: int) -> Iterator[bytes]:
    """The pieces of ``data`` that rows of a table point at, one behind the other, a block of rows at a time."""
    for first in range(0, len(table), _BLOCK_ROWS):
        rows = table[first : first + _BLOCK_ROWS]
        pieces = zip((rows[start] * item).tolist(), (rows[length] * np.uint32(item)).tolist(), strict=True)
        yield b"".join(data[at : at + size].tobytes() for at, size in pieces)
