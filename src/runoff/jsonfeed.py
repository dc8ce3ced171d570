"""JSON Feed 1.0 and 1.1 (https://jsonfeed.org/version/1.1): fields of a wrong type count as absent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from . import dates, identity, languages, text
from .documents import Document
from .errors import SourceError


def read(markup: str, source: str, base: str) -> tuple[list[tuple[str, Document]], str, list[str]]:
    """Item ids with documents that lack theirs, what identifies the feed, and warnings.

    Args:
        markup: the feed.
        source: address or path, kept with each document.
        base: the address that relative links refer to, or an empty string.

    Raises:
        SourceError: it is not JSON, or not a feed.
    """
    try:
        feed = json.loads(markup, strict=False)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{source}: got JSON that is damaged or cut off ({error}); expected a whole feed") from error
    items = feed.get("items") if isinstance(feed, dict) else None
    if not isinstance(items, list):
        raise SourceError(f"{source}: got JSON without a list of items; expected an RSS, Atom, RDF or JSON feed")
    base = base or _string(feed, "home_page_url")
    language = languages.normal(_string(feed, "language"))
    entries = [_entry(item, source, base, language) for item in items if isinstance(item, dict)]
    odd = len(items) - len(entries)
    warnings = [f"{odd} of {len(items)} items are no JSON objects; left out"] if odd else []
    own = _string(feed, "feed_url")
    return entries, own if identity.is_web(own) else source, warnings


def _entry(item: Mapping[str, Any], source: str, base: str, language: str | None) -> tuple[str, Document]:
    links = (identity.absolute(_string(item, name), base) for name in ("url", "external_url"))
    moments = (dates.utc(_string(item, name)) for name in ("date_published", "date_modified"))
    document = Document(
        id="",
        title=text.line(_string(item, "title")),
        body=_body(item),
        url=next(filter(None, links), None),
        source=source,
        published=next(filter(None, moments), None),
        author=_author(item),
        tags=tuple(dict.fromkeys(_tags(item.get("tags")))),
        language=languages.normal(_string(item, "language")) or language,
    )
    return _key(item.get("id")), document


def _body(item: Mapping[str, Any]) -> str:
    plain = (text.from_plain(_string(item, name)) for name in ("content_text", "summary"))
    return max(text.from_html(_string(item, "content_html")), *plain, key=len)


def _key(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return text.clean(value) if isinstance(value, str) else ""


def _author(item: Mapping[str, Any]) -> str | None:
    authors = item.get("authors") if isinstance(item.get("authors"), list) else [item.get("author")]
    names = (text.line(_string(author, "name")) for author in authors or () if isinstance(author, dict))
    return ", ".join(dict.fromkeys(filter(None, names))) or None


def _tags(values: object) -> Iterator[str]:
    if isinstance(values, list):
        yield from filter(None, (text.line(text.clean(value)) for value in values if isinstance(value, str)))


def _string(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return text.clean(value) if isinstance(value, str) else ""
