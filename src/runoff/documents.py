"""The records that travel from a source to the store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Kind = Literal["headline", "body"]


@dataclass(frozen=True, slots=True)
class Document:
    """One entry of a feed, one file or one JSONL record, as plain text.

    Attributes:
        id: 16 hexadecimal digits derived from the entry's identity; stable across runs.
        title: one line of text, white space folded; may be empty.
        body: paragraphs separated by one blank line, white space folded inside each; may be empty.
        url: address of the original, or None.
        source: the feed address or file path that the document came from.
        published: UTC time as ``YYYY-MM-DDTHH:MM:SSZ``, or None where the source names none.
        author: name of the author, or None.
        tags: the source's own labels, in its order.
    """

    id: str
    title: str
    body: str
    url: str | None = None
    source: str = ""
    published: str | None = None
    author: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def text_hash(self) -> str:
        """SHA-256 (hexadecimal) of title and body: equal hashes need no new embedding."""
        return hashlib.sha256(f"{self.title}\x00{self.body}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document that is embedded, found and reranked as one.

    Attributes:
        kind: ``"headline"`` (the title) or ``"body"``.
        position: rank inside the document, from 0; the headline, where there is one, comes first.
        text: the chunk's own text, without surrounding white space, never empty.
        start: first character of the chunk in the document's title or body.
        end: one past its last character.
    """

    kind: Kind
    position: int
    text: str
    start: int
    end: int
