"""Queries and their candidates from text without labels, as a model meets them in use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .assembly import Passages
from .chunking import ChunkSettings, chunk
from .documents import Document
from .errors import SourceError
from .ingest import TextEncoder, TextTokenizer

QUERY_FIELDS = ("text", "question", "query")
FEWEST_WORDS = 3

_QUESTION = re.compile(r"(?:^|(?<=[.!?]\s)|(?<=\n))[^.!?\n]{8,200}\?")

Pair = tuple[NDArray[np.int32], Passages, NDArray[np.float32]]


def headlines(documents: Iterable[Document]) -> list[str]:
    """Titles of at least three words, each once."""
    return list(dict.fromkeys(document.title for document in documents if _enough(document.title)))


def questions(documents: Iterable[Document]) -> list[str]:
    """Sentences of the bodies that end in a question mark, each once."""
    found = (match.strip() for document in documents for match in _QUESTION.findall(document.body))
    return list(dict.fromkeys(question for question in found if _enough(question)))


def read_queries(path: Path) -> list[str]:
    """Queries of a file, each once: a line each, as text or as a JSON object with ``text``, ``question`` or ``query``.

    Raises:
        SourceError: the file cannot be read or has no query.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: cannot be read ({error}); expected UTF-8 text, a query a line") from error
    found = list(dict.fromkeys(query for query in map(_query, lines) if query))
    if not found:
        raise SourceError(f"{path}: no query; expected one a line, as text or JSON with {' or '.join(QUERY_FIELDS)}")
    return found


def pairs(
    queries: Sequence[str],
    documents: Iterable[Document],
    encoder: TextEncoder,
    tokenizer: TextTokenizer,
    candidates: int,
    chunking: ChunkSettings,
) -> list[Pair]:
    """Token ids of each query, its nearest chunks and their cosine similarity, nearest first.

    Args:
        queries: what is asked.
        documents: what is searched, cut as an engine cuts it.
        encoder: the bi-encoder.
        tokenizer: the cross-encoder's.
        candidates: chunks for each query; fewer where there are fewer.
        chunking: how bodies are cut.

    Raises:
        SourceError: the documents have no text.
    """
    texts = list(dict.fromkeys(piece.text for document in documents for piece in chunk(document, chunking)))
    if not texts:
        raise SourceError("the documents have no text; expected some")
    similarities = encoder.encode(queries) @ encoder.encode(texts).T
    nearest = np.argsort(-similarities, axis=1, kind="stable")[:, :candidates]
    cached = Passages.pack(tokenizer.encode_batch(texts))
    return [
        (ids, cached.take(rows.astype(np.int64)), row[rows])
        for ids, rows, row in zip(tokenizer.encode_batch(queries), nearest, similarities, strict=True)
    ]


def draw(pool: Sequence[str], count: int, seed: int) -> list[str]:
    """At most ``count`` of them without repetition, in their order; the same for the same seed."""
    chosen = np.random.default_rng(seed).permutation(len(pool))[:count]
    return [pool[place] for place in sorted(chosen.tolist())]


def _enough(text: str) -> bool:
    return len(text.split()) >= FEWEST_WORDS


def _query(line: str) -> str:
    stripped = line.strip()
    if not stripped.startswith("{"):
        return stripped
    try:
        record = json.loads(stripped)
    except ValueError:
        return stripped
    return next(_strings(record), "")


def _strings(record: dict[str, object]) -> Iterator[str]:
    for name in QUERY_FIELDS:
        value = record.get(name)
        if isinstance(value, str) and value.strip():
            yield value.strip()
