"""RSS, Atom and RDF through feedparser, which is given bytes only and never an address; and JSON Feed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from . import dates, identity, jsonfeed, languages, text
from .documents import Document
from .errors import SourceError

_FEED_ROOTS = frozenset(("rss", "feed", "rdf:rdf", "rdf"))
_WEAK_CHARSETS = frozenset(("iso-8859-1", "latin-1", "us-ascii", "windows-1252"))
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_DECLARED = re.compile(rb"\A\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)[\"']")
_ELEMENT = re.compile(r"<(?:!doctype\s+(html)\b|([\w:.-]+))", re.IGNORECASE)
_ENTITY = re.compile(r"<!ENTITY\s+(?:(\w+)\s+)?[^\"'<>]*(?:\"([^\"]*)\"|'([^']*)')")
_HARMLESS = re.compile(r"[^<>&%\"]*|&#\w+;")
_ENTRY = re.compile(r"<(?:[\w.-]+:)?(?:item|entry)(?![\w.:-])", re.IGNORECASE)
_ENTRY_END = re.compile(r"</(?:[\w.-]+:)?(?:item|entry)\s*>", re.IGNORECASE)
_MOST_ENTITIES = 100
_MOST_GROWTH = 10_000_000
_FORBIDDEN = re.compile("[\x0b\x0c\x1c-\x1f]")
_REFERENCE = re.compile(r"&#([xX][0-9a-fA-F]+|\d+);?")
_MAIL = re.compile(r"\S+@\S+\s+\((.+)\)|(.+?)\s*(?:<\S+@\S+>|\(\S+@\S+\))")
_LONGEST_AUTHOR = 200
_MOST_TAGS = 1000


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed.

    Attributes:
        documents: its entries, in its own order.
        warnings: what was odd about it.
        complete: whether it has its end.
        ids: for each document's id all that the entry may have; see `identity.Settled`.
    """

    documents: tuple[Document, ...]
    warnings: tuple[str, ...] = ()
    complete: bool = True
    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)


def parse(
    data: bytes, source: str, *, content_type: str | None = None, base: str | None = None, halves: bool = True
) -> ParsedFeed:
    """Read a feed.

    A document's body is the longest, as plain text, of the entry's content and summary; its ``published`` is the date
    of publication, else of creation, else of the last change; its language the entry's, else the feed's. The module
    ``identity`` describes how ids come about.

    Args:
        data: the feed's bytes; malformed XML is read as far as it goes. Of a feed that breaks off inside of an entry
            this one is left out, since half an entry would take the place of a whole one that is stored.
        source: address or path, kept with each document.
        content_type: what the server called it, which may name the encoding.
        base: the address that relative links refer to; by default the source, where that is one.
        halves: whether half an entry counts where it is all that there is.

    Raises:
        SourceError: these are not the bytes of a feed, or no entry can be read.
    """
    base = base or (source if identity.is_web(source) else "")
    charset = _CHARSET.search(content_type or "")
    markup, warnings = text.decode(data, *_charsets(charset[1] if charset else None, data))
    if markup.lstrip().startswith(("{", "[")):
        entries, scope, more = jsonfeed.read(markup, source, base)
        return _finished(entries, scope, [*warnings, *more])
    end, complete = _end_of_entries(markup)
    if halves and not _ENTRY.search(markup, 0, end):
        end = len(markup)
    entries, scope, more = _read_xml(markup[:end], source, base)
    if end < len(markup):
        more.append("it breaks off inside of an entry; that one is left out")
    return replace(_finished(entries, scope, [*warnings, *more]), complete=complete)


def is_feed(data: bytes) -> bool:
    """Whether some bytes begin as a feed does, in XML or JSON."""
    start, _ = text.decode(data[:20_000], *_charsets(None, data))
    return _root(start)[1] in _FEED_ROOTS or (start.lstrip().startswith("{") and "jsonfeed.org/version" in start)


def _end_of_entries(markup: str) -> tuple[int, bool]:
    """Where an entry begins in which a feed breaks off, else its end; and whether it does not break off."""
    _, root = _root(markup)
    if root.rpartition(":")[2] not in _FEED_ROOTS or re.search(rf"</{re.escape(root)}\b", markup, re.IGNORECASE):
        return len(markup), True
    begun = max((match.start() for match in _ENTRY.finditer(markup)), default=-1)
    ended = max((match.start() for match in _ENTRY_END.finditer(markup)), default=-1)
    return begun if begun > ended else len(markup), False


def _charsets(served: str | None, data: bytes) -> Iterator[str]:
    """Encodings to try: the server's word counts less where it is what servers say by default."""
    match = _DECLARED.match(data[:1000])
    declared = match[1].decode("ascii", "ignore") if match else None
    names = [declared, served] if served and served.lower() in _WEAK_CHARSETS else [served, declared]
    return filter(None, names)


def _finished(entries: Sequence[tuple[str, Document]], scope: str, warnings: list[str]) -> ParsedFeed:
    """From entry ids and documents without ids, which may be blank."""
    usable = [(entry_id, document) for entry_id, document in entries if document.title or document.body]
    if not entries:
        warnings.append("the feed has no entries")
    if len(usable) < len(entries):
        warnings.append(f"{len(entries) - len(usable)} of {len(entries)} entries have neither title nor text; left out")
    short = [(entry_id, _shortened(document)) for entry_id, document in usable]
    if short != usable:
        warnings.append(f"an author of more than {_LONGEST_AUTHOR} characters, or more than {_MOST_TAGS} tags; cut")
    settled = identity.settle([(identity.of_entry(key, document, scope), document) for key, document in short])
    if len(settled) < len(usable):
        warnings.append(f"{len(usable) - len(settled)} of {len(usable)} entries repeat another one; left out")
    ids = {one.document.id: one.ids for one in settled}
    return ParsedFeed(tuple(one.document for one in settled), tuple(warnings), ids=ids)


def _shortened(document: Document) -> Document:
    author = document.author[:_LONGEST_AUTHOR] if document.author else None
    return replace(document, author=author, tags=document.tags[:_MOST_TAGS])


def _read_xml(markup: str, source: str, base: str) -> tuple[list[tuple[str, Document]], str, list[str]]:
    """Entry ids with documents, what identifies the feed, and warnings."""
    _, root = _root(markup)
    if root in ("", "html"):
        raise SourceError(f"{source}: got {_what_came(markup, root)}; expected an RSS, Atom, RDF or JSON feed")
    feed = _feedparser(_prepared(markup), source, base)
    if not feed.get("version") and not feed.entries:
        raise SourceError(f"{source}: got {_what_came(markup, root)}; expected an RSS, Atom, RDF or JSON feed")
    warnings = [_malformed(feed.bozo_exception)] if feed.get("bozo") else []
    if warnings and not feed.entries:
        raise SourceError(f"{source}: {warnings[0]} and no entry can be read; expected a complete feed")
    own = _own_name(feed.feed)
    base = base or next(filter(identity.is_web, (str(feed.feed.get("link") or ""), own)), "")
    language = str(feed.feed.get("language") or "")
    return [_entry(entry, source, base, language) for entry in feed.entries], own or source, warnings


@cache
def _bounded_feedparser() -> Any:
    """feedparser without its search for mail addresses in long names, and for repetitions in long lists of tags.

    They take the square of the length, and the former holds the interpreter lock while it does. For what else in the
    process uses feedparser nothing changes, names and lists of such a length apart.
    """
    import feedparser
    from feedparser.mixin import _FeedParserMixin

    search, add = _FeedParserMixin._sync_author_detail, _FeedParserMixin._add_tag

    def bounded_search(self: Any, key: str = "author") -> None:
        if len(str(self._get_context().get(key) or "")) <= _LONGEST_AUTHOR:
            search(self, key)

    def bounded_add(self: Any, term: Any, scheme: Any, label: Any) -> None:
        if len(self._get_context().get("tags") or ()) <= _MOST_TAGS:
            add(self, term, scheme, label)

    _FeedParserMixin._sync_author_detail, _FeedParserMixin._add_tag = bounded_search, bounded_add
    return feedparser


def _feedparser(data: bytes, source: str, base: str) -> Any:
    headers = {"content-type": "application/xml; charset=utf-8", "content-location": base}
    try:
        return _bounded_feedparser().parse(
            io.BytesIO(data), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
        )
    except Exception as error:  # its lenient parser lets errors of many types through
        raise SourceError(f"{source}: cannot be read as a feed ({type(error).__name__}: {error})") from error


def _prepared(markup: str) -> bytes:
    """UTF-8 that feedparser reads well: nothing that XML forbids, and of the head only harmless entities.

    What else may stand before the first element can keep feedparser busy for hours, or make it fill the memory.
    """
    markup = _REFERENCE.sub(_checked_reference, _FORBIDDEN.sub(" ", text.clean(markup)))
    start, _ = _root(markup)
    entities = _entities(markup[:start], markup.count("&", start))
    head = f"<!DOCTYPE feed [\n{entities}]>\n" if entities else ""
    return f"{head}{markup[start:]}".encode()


def _entities(head: str, references: int) -> str:
    """Declarations, a line each, of the entities that stand for a short text without markup."""
    found = {match[1]: match[2] or match[3] or "" for match in _ENTITY.finditer(head)}
    plain = {name: value for name, value in found.items() if name and not re.search('[<>&%"]', value)}
    longest = max(map(len, plain.values()), default=0)
    if len(found) > _MOST_ENTITIES or longest * references > _MOST_GROWTH:
        return ""
    return "".join(f'<!ENTITY {name} "{value}">\n' for name, value in plain.items())


def _checked_reference(match: re.Match[str]) -> str:
    """A character reference as it is, or U+FFFD where no XML document may hold such a character."""
    digits = match[1].lower()
    if len(digits) > 10:
        return "\ufffd"
    code = int(digits[1:], 16) if digits.startswith("x") else int(digits)
    allowed = code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    return match[0] if allowed else "\ufffd"


def _root(markup: str) -> tuple[int, str]:
    """Where the first element begins, and its name in lower case; the end and no name where there is none."""
    at = markup.find("<")
    while at >= 0:
        if match := _ELEMENT.match(markup, at):
            return at, (match[1] or match[2]).lower()
        for opening, closing in (("<!--", "-->"), ("<?", "?>")):
            if markup.startswith(opening, at):
                at = markup.find(closing, at)
                break
        else:
            entity = _ENTITY.match(markup, at)
            at = entity.end() if entity else at + 1
        at = markup.find("<", at) if at >= 0 else at
    return len(markup), ""


def _what_came(markup: str, root: str) -> str:
    if not markup.strip("\ufeff\x00 \t\r\n"):
        return "an empty document"
    if root in ("html", "head", "body", "div", "p", "h1"):
        return "an HTML page"
    if root:
        return f"XML with a root element <{root[:40]}>"
    return "XML without any element" if markup.lstrip().startswith("<") else f"no XML ({markup.strip()[:40]!r})"


def _malformed(error: Exception) -> str:
    reason = str(getattr(error, "getMessage", lambda: error)())
    where = getattr(error, "getLineNumber", lambda: None)()
    return f"malformed XML ({reason}{f', line {where}' if where else ''})"


def _own_name(feed: Mapping[str, Any]) -> str:
    """What the feed calls itself, or an empty string."""
    own = (str(link.get("href") or "") for link in feed.get("links") or () if link.get("rel") == "self")
    return text.clean(str(feed.get("id") or "") or next((href for href in own if identity.is_web(href)), ""))


def _entry(entry: dict[str, Any], source: str, base: str, language: str) -> tuple[str, Document]:
    document = Document(
        id="",
        title=_title(entry),
        body=_body(entry),
        url=_link(entry, base),
        source=source,
        published=_date(entry),
        author=_author(entry),
        tags=_tags(entry),
        language=_language(entry, language),
    )
    return text.clean(str(entry.get("id") or "")).strip(), document


def _title(entry: dict[str, Any]) -> str:
    return " ".join(_plain(entry.get("title_detail") or {"value": entry.get("title")}).split())


def _body(entry: dict[str, Any]) -> str:
    parts = [*(entry.get("content") or ()), entry.get("summary_detail") or {"value": entry.get("summary")}]
    return max(map(_plain, parts), key=len)


def _language(entry: dict[str, Any], of_feed: str) -> str | None:
    """What the entry says, else its texts (where ``xml:lang`` of what they stand in counts), else the feed."""
    parts = [*(entry.get("content") or ()), entry.get("summary_detail") or {}, entry.get("title_detail") or {}]
    stated = (dict.get(entry, "language"), *(part.get("language") for part in parts), of_feed)
    return next(filter(None, (languages.normal(str(tag or "")) for tag in stated)), None)


def _plain(part: Mapping[str, Any]) -> str:
    """Plain text of a text construct, HTML or not, declared or not; of binary content nothing."""
    value, kind = str(part.get("value") or ""), str(part.get("type") or "text/html")
    if kind == "text/plain":
        return text.from_markup(value) if text.is_markup(value) else text.from_plain(value)
    return text.from_markup(value) if kind.startswith("text/") or kind.endswith(("xml", "html")) else ""


def _link(entry: dict[str, Any], base: str) -> str | None:
    """The entry's address on the web: where it was before a feed service replaced it, else its link."""
    links = [str(link.get("href") or "") for link in entry.get("links") or () if link.get("rel") == "alternate"]
    for link in (entry.get("feedburner_origlink"), entry.get("link"), *links):
        found = identity.absolute(str(link or ""), base)
        if found:
            return found
    return None


def _author(entry: dict[str, Any]) -> str | None:
    """The names of the authors; of a single one as it was written, since feedparser knows few domains by their ends."""
    authors = entry.get("authors") or ()
    names = [str(author.get("name") or "") for author in authors] if len(authors) > 1 else []
    lines = dict.fromkeys(filter(None, map(text.line, names)))
    return ", ".join(lines) or _without_mail(text.line(str(entry.get("author") or ""))) or None


def _without_mail(author: str) -> str:
    """The name where an author is ``address (name)``, ``name (address)`` or ``name <address>``."""
    match = _MAIL.fullmatch(author) if len(author) <= _LONGEST_AUTHOR else None
    return next(filter(None, match.groups())).strip() if match else author


def _date(entry: dict[str, Any]) -> str | None:
    # dict.get, as feedparser's own look-up answers with another date where there is none. And its own reading of dates
    # completes them from today's, and turns 30 February into 1 March.
    stamps = (dates.utc(str(dict.get(entry, name) or "")) for name in ("published", "created", "updated"))
    return next(filter(None, stamps), None)


def _tags(entry: dict[str, Any]) -> tuple[str, ...]:
    terms = (text.line(str(tag.get("label") or tag.get("term") or "")) for tag in entry.get("tags") or ())
    return tuple(dict.fromkeys(filter(None, terms)))
