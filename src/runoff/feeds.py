"""RSS, Atom and RDF to documents, through feedparser, which is given bytes only and never an address."""

from __future__ import annotations

import hashlib
import io
import re
from calendar import timegm
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from . import text
from .documents import Document
from .errors import SourceError

_ABSOLUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:\S")
_HARMLESS = ("CharacterEncodingOverride", "NonXMLContentType")


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """The documents of a feed in its own order, and what was odd about it."""

    documents: tuple[Document, ...]
    warnings: tuple[str, ...] = ()


def parse(data: bytes, source: str, content_type: str | None = None) -> ParsedFeed:
    """Read a feed.

    A document's id is derived from the entry's identity: its id where that is an absolute URI, so that one entry is one
    document whatever feed brings it; else its id within this feed; else its link; else its title and text. Entries of
    one feed that share an identity are one document when their texts are equal; otherwise they are told apart by link,
    else by title, else by text, whichever differs between all of them.

    Args:
        data: the feed's bytes; malformed XML is read as far as it goes.
        source: address or path, kept with each document.
        content_type: what the server called it, which may name the encoding.

    Raises:
        SourceError: these are not the bytes of a feed, or no entry can be read.
    """
    feed = _feedparser(data, source, content_type)
    warnings = _malformed(feed)
    if not feed.get("version") and not feed.entries:
        raise SourceError(f"{source}: got {_what_came(data)}; expected an RSS, Atom or RDF feed")
    if not feed.entries and warnings:
        raise SourceError(f"{source}: {warnings[0]} before the first entry; expected a complete feed")
    scope = feed.feed.get("id") or feed.feed.get("link") or source
    entries = [_Entry.of(entry, source, scope) for entry in feed.entries]
    usable = [entry for entry in entries if entry.document.title or entry.document.body]
    if not feed.entries:
        warnings.append("the feed has no entries")
    if len(usable) < len(entries):
        warnings.append(f"{len(entries) - len(usable)} of {len(entries)} entries have neither title nor text; left out")
    return ParsedFeed(tuple(_told_apart(usable)), tuple(warnings))


def digest(identity: str) -> str:
    """A document id, 16 hexadecimal digits, from an identity."""
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16]


def normalised(address: str) -> str:
    """An address in the form that identities use: no scheme or fragment, host in lower case, no trailing slash."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return address
    if parts.scheme.lower() not in ("http", "https"):
        return address.strip()
    return urlunsplit(("", parts.netloc.lower(), parts.path.rstrip("/"), parts.query, ""))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A document whose id is not settled, with the identity it comes from."""

    document: Document
    identity: str

    @classmethod
    def of(cls, entry: dict[str, Any], source: str, scope: str) -> _Entry:
        link = text.clean(str(entry.get("link") or "")).strip()
        document = Document(
            id="",
            title=_title(entry),
            body=_body(entry),
            url=link or None,
            source=source,
            published=_date(entry),
            author=text.line(str(entry.get("author") or "")) or None,
            tags=_tags(entry),
        )
        return cls(document, _identity(str(entry.get("id") or "").strip(), link, document, scope))


def _identity(entry_id: str, link: str, document: Document, scope: str) -> str:
    if _ABSOLUTE.match(entry_id):
        return normalised(entry_id)
    if entry_id:
        return f"{normalised(scope)}\x00{entry_id}"
    return normalised(link) if link else f"{normalised(scope)}\x00{document.text_hash}"


def _told_apart(entries: Sequence[_Entry]) -> list[Document]:
    groups: dict[str, dict[str, _Entry]] = defaultdict(dict)
    for entry in entries:
        groups[entry.identity].setdefault(entry.document.text_hash, entry)
    ids = {identity: _suffixes([entry.document for entry in group.values()]) for identity, group in groups.items()}
    return [
        replace(entry.document, id=digest(identity + ids[identity](entry.document)))
        for identity, group in groups.items()
        for entry in group.values()
    ]


def _suffixes(documents: Sequence[Document]) -> Callable[[Document], str]:
    """What to add to the identity of documents that share it."""
    if len(documents) == 1:
        return lambda document: ""
    ways: tuple[Callable[[Document], str], ...] = (
        lambda document: f"\x00link {normalised(document.url or '')}",
        lambda document: f"\x00title {document.title}",
    )
    distinct = (way for way in ways if max(Counter(map(way, documents)).values()) == 1)
    return next(distinct, lambda document: f"\x00text {document.text_hash}")


def _feedparser(data: bytes, source: str, content_type: str | None) -> Any:
    import feedparser

    headers = {"content-type": content_type} if content_type else {}
    if urlsplit(source).scheme in ("http", "https"):
        headers["content-location"] = source
    try:
        return feedparser.parse(io.BytesIO(data), response_headers=headers)
    except Exception as error:  # its readers of odd encodings and dates let various errors through
        raise SourceError(f"{source}: cannot be read as a feed ({type(error).__name__}: {error})") from error


def _malformed(feed: Any) -> list[str]:
    error = feed.get("bozo_exception")
    if not feed.get("bozo") or type(error).__name__ in _HARMLESS:
        return []
    reason = getattr(error, "getMessage", lambda: str(error))()
    return [f"malformed XML ({reason})"]


def _what_came(data: bytes) -> str:
    start = data[:2000].lstrip(b"\xef\xbb\xbf \t\r\n\x00").lower()
    if not data.strip(b"\x00 \t\r\n"):
        return "an empty document"
    if start.startswith((b"<!doctype html", b"<html")) or b"<html" in start:
        return "an HTML page"
    if start.startswith((b"{", b"[")):
        return "JSON"
    return "XML of another kind" if start.startswith(b"<") else "something that is not XML"


def _title(entry: Mapping[str, Any]) -> str:
    detail = entry.get("title_detail") or {}
    title = str(entry.get("title") or "")
    plain = text.from_plain(title) if detail.get("type") == "text/plain" else text.from_markup(title)
    return " ".join(plain.split())


def _body(entry: Mapping[str, Any]) -> str:
    parts = [*(entry.get("content") or ()), entry.get("summary_detail") or {"value": entry.get("summary")}]
    return max((_plain(part) for part in parts), key=len)


def _plain(part: Mapping[str, Any]) -> str:
    return text.from_markup(str(part.get("value") or ""))


def _date(entry: dict[str, Any]) -> str | None:
    # dict.get, as feedparser's own look-up warns where it would answer with another date.
    for name in ("published_parsed", "updated_parsed", "created_parsed"):
        parsed = dict.get(entry, name)
        if parsed:
            try:
                moment = datetime.fromtimestamp(timegm(parsed), timezone.utc)
            except (ValueError, OverflowError, OSError):
                continue
            return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return None


def _tags(entry: Mapping[str, Any]) -> tuple[str, ...]:
    terms = (text.line(str(tag.get("term") or tag.get("label") or "")) for tag in entry.get("tags") or ())
    return tuple(dict.fromkeys(term for term in terms if term))
