"""The records that travel from a source to the store."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from . import dates
from .errors import DocumentError

Kind = Literal["headline", "body"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FieldValue: TypeAlias = str | bool | int | float | tuple[str, ...]

# Names that a document's own fields cannot have, since they mean something already.
RESERVED = frozenset(
    "id title body text url source published author tags language kind first_seen".split()  # noqa: SIM905
)
MOST_FIELDS = 50
LONGEST_FIELD_NAME = 64
LONGEST_FIELD_TEXT = 1000
MOST_FIELD_ITEMS = 100
LARGEST_WHOLE = 2**63 - 2
_ID = re.compile("[0-9a-f]{16}")


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
        language: BCP 47 tag of at most language, script and region, such as ``en`` or ``pt-BR``; None where the source
            states none.
        fields: what else the source states, by name: a text, a whole number of 64 bits, a finite number, a truth value
            or texts. `field_problem` tells the bounds. Not to be changed.

    Raises:
        DocumentError: a field's name or value is not as above.
    """

    id: str
    title: str
    body: str
    url: str | None = None
    source: str = ""
    published: str | None = None
    author: str | None = None
    tags: tuple[str, ...] = ()
    language: str | None = None
    fields: Mapping[str, FieldValue] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.fields:
            return
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in self.fields.items()}
        problems = (f"{name!s:.80}: {problem}" for name in fields if (problem := field_problem(name, fields[name])))
        if problem := next(problems, None):
            raise DocumentError(f"field {problem}")
        if len(fields) > MOST_FIELDS:
            raise DocumentError(f"got {len(fields)} fields; expected at most {MOST_FIELDS}")
        object.__setattr__(self, "fields", fields)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Document:
        """The document of a JSON object that `to_record` gave."""
        return cls(**{**record, "tags": tuple(record["tags"])})

    def to_record(self) -> dict[str, Any]:
        """A JSON object that holds all of the document."""
        return asdict(self)

    @property
    def text_hash(self) -> str:
        """SHA-256 (hexadecimal) of title and body: equal hashes need no new embedding."""
        return hashlib.sha256(f"{self.title}\x00{self.body}".encode()).hexdigest()


def document_problem(document: Document) -> str | None:
    """Why a document that a caller made cannot be stored, or None where it can: what came and what was expected."""
    if not (isinstance(document.id, str) and _ID.fullmatch(document.id)):
        return f"id: got {document.id!r:.80}; expected 16 hexadecimal digits, such as runoff.identity.digest gives"
    for name in ("title", "body", "source", "url", "author", "language", "published"):
        value = getattr(document, name)
        if not isinstance(value, str) and (value is not None or name in ("title", "body", "source")):
            return f"{name}: got {type(value).__name__}; expected a text"
    if isinstance(document.tags, str) or not all(isinstance(tag, str) for tag in document.tags):
        return "tags: expected a tuple of texts"
    if document.published is not None and dates.utc(document.published) != document.published:
        return f"published: got {document.published!r:.80}; expected UTC as in 2026-01-31T10:00:00Z"
    try:
        json.dumps(document.to_record(), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"got half of a surrogate pair ({error.reason}); expected texts that UTF-8 can hold"
    return None


def is_field_name(name: object) -> bool:
    """Whether this can name a field."""
    return isinstance(name, str) and 1 <= len(name) <= LONGEST_FIELD_NAME and name.isprintable()


def field_problem(name: object, value: object) -> str | None:
    """Why this cannot be one of a document's own fields, or None where it can: what came and what was expected."""
    if not is_field_name(name):
        return f"expected a name of 1 to {LONGEST_FIELD_NAME} printable characters"
    if name in RESERVED:
        return "the name is taken; expected another"
    return _value_problem(value)


def _value_problem(value: object) -> str | None:
    if type(value) is int:
        return None if abs(value) <= LARGEST_WHOLE else "got a larger number; expected one of 64 bits"
    if type(value) is float:
        return None if math.isfinite(value) else f"got {value}; expected a finite number"
    if type(value) is tuple and len(value) > MOST_FIELD_ITEMS:
        return f"got {len(value)} texts; expected at most {MOST_FIELD_ITEMS}"
    texts = value if type(value) is tuple else (value,)
    if type(value) is not bool and not all(type(one) is str for one in texts):
        return f"got {_named(value)}; expected a text, a number, true, false or a list of texts"
    if any(len(one) > LONGEST_FIELD_TEXT for one in texts if isinstance(one, str)):
        return f"got a text of more than {LONGEST_FIELD_TEXT} characters; expected a shorter one"
    return None


def _named(value: object) -> str:
    return "a list of other things" if isinstance(value, list | tuple) else type(value).__name__


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
