"""JSONL to documents: one JSON object a line, as other programs write them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from . import dates, identity, languages, text
from .documents import MOST_FIELDS, Document, FieldValue, field_problem
from .errors import DocumentError, SourceError

_WARNINGS = 20
_MOST_NAMES = 200
_KNOWN = frozenset(("id", "title", "text", "body", "url", "published", "author", "tags", "language"))


def parse(lines: str, source: str) -> tuple[tuple[Document, ...], tuple[str, ...]]:
    """Documents and warnings from JSON Lines.

    Fields of a line, all plain text: ``text`` (or ``body``) and ``title``, of which one is needed; ``id`` (a string or
    whole number; the document's identity, see the module ``identity``), ``url``, ``published`` (ISO 8601), ``author``,
    ``tags`` (a list of strings), ``language`` (a BCP 47 tag). Other fields become the document's own, where they are
    strings, numbers, truth values or lists of strings; what is not, or goes beyond a bound (see `documents`; 200 names
    in all), is passed over with a warning. A line that cannot be read is left out with a warning; of lines with the
    same identity the last one counts.

    Raises:
        SourceError: no line can be read.
    """
    documents: dict[str, Document] = {}
    warnings: list[str] = []
    own = _OwnFields()
    for number, line in enumerate(lines.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document, odd = _document(line, source, own)
        except DocumentError as error:
            warnings.append(f"line {number}: {error}; left out")
            continue
        warnings.extend(f"line {number}: {warning}" for warning in odd)
        if document.id in documents:
            warnings.append(f"line {number}: has the identity of an earlier line and replaces it")
        documents[document.id] = document
    if not documents:
        detail = warnings[0] if warnings else "it is empty"
        raise SourceError(f"{source}: no usable line ({detail}); expected a JSON object with a text on each line")
    return tuple(documents.values()), _capped([*own.warnings(), *warnings])


def _capped(warnings: list[str]) -> tuple[str, ...]:
    more = len(warnings) - _WARNINGS
    return tuple(warnings) if more <= 0 else (*warnings[:_WARNINGS], f"and {more} more such warnings")


def _document(line: str, source: str, own: _OwnFields) -> tuple[Document, list[str]]:
    record = _object(line)
    title = " ".join(text.from_plain(_string(record, "title")).split())
    body = text.from_plain(_string(record, "text") or _string(record, "body"))
    if not title and not body:
        raise DocumentError("neither text nor title; expected one of them")
    stamp, url = _string(record, "published"), _string(record, "url").strip() or None
    published = dates.utc(stamp)
    tag = _string(record, "language")
    language = languages.normal(tag)
    document = Document(
        id="",
        title=title,
        body=body,
        url=url,
        source=source,
        published=published,
        author=" ".join(_string(record, "author").split()) or None,
        tags=_tags(record),
        language=language,
    )
    document = replace(_identified(document, _key(record)), fields=own.read(record))
    odd = [f"published: got {stamp[:40]!r}; expected an ISO 8601 date"] if stamp.strip() and not published else []
    if tag.strip() and not language:
        odd.append(f"language: got {tag[:40]!r}; expected a tag such as en or pt-BR")
    return document, odd


class _OwnFields:
    """Reads the fields of lines that are not ours, and counts those that it passes over."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._passed: dict[str, tuple[str, int]] = {}

    def read(self, record: Mapping[str, Any]) -> dict[str, FieldValue]:
        """The own fields of a line."""
        found: dict[str, FieldValue] = {}
        for name, value in record.items():
            value = _folded(value)
            if name in _KNOWN or value in (None, "", ()):
                continue
            if problem := self._problem(name, value, len(found)):
                first, count = self._passed.get(name, (problem, 0))
                self._passed[name] = first, count + 1
            else:
                self._names.add(name)
                found[name] = value
        return found

    def warnings(self) -> Iterator[str]:
        """What was passed over, by field."""
        for name, (problem, count) in self._passed.items():
            lines = "a line" if count == 1 else f"{count} lines"
            yield f"field {text.clean(name)[:80]!r}: {problem}; passed over in {lines}"

    def _problem(self, name: str, value: object, count: int) -> str | None:
        if count >= MOST_FIELDS:
            return f"more than {MOST_FIELDS} fields in a line"
        if name not in self._names and len(self._names) >= _MOST_NAMES:
            return f"more than {_MOST_NAMES} names of fields in a source"
        return field_problem(name, value)


def _folded(value: Any) -> Any:
    """A value as a document holds it, white space folded as in tags; a list of other things as it is."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(filter(None, (" ".join(text.clean(one).split()) for one in value)))
    return " ".join(text.clean(value).split()) if isinstance(value, str) else value


def _identified(document: Document, key: str) -> Document:
    if key:
        name = f"record {key}"
    elif document.url:
        name = f"url {identity.address(document.url)}"
    else:
        name = f"text {document.text_hash}"
    return replace(document, id=identity.digest(name))


def _object(line: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise DocumentError(f"got {type(record).__name__}; expected a JSON object")
    return record


def _key(record: Mapping[str, Any]) -> str:
    value = record.get("id")
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise DocumentError(f"id: got {type(value).__name__}; expected a string or a whole number")
    return "" if value is None else text.clean(str(value)).strip()


def _string(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise DocumentError(f"{name}: got {type(value).__name__}; expected a string")
    return text.clean(value or "")


def _tags(record: Mapping[str, Any]) -> tuple[str, ...]:
    tags = record.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise DocumentError("tags: expected a list of strings")
    folded = (" ".join(text.clean(tag).split()) for tag in tags)
    return tuple(dict.fromkeys(filter(None, folded)))
