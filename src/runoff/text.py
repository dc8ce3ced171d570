"""Bytes and markup to plain text: paragraphs separated by one blank line, white space folded inside each.

libxml2 (through lxml) reads HTML as a stream of events: it repairs what is malformed and builds no tree. Its one weak
spot, a stray end tag below very many open elements, is bounded by starting afresh where nesting becomes absurd.
"""

from __future__ import annotations

import codecs
import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lxml import etree

_BLOCKS = frozenset(
    (
        "address article aside blockquote caption center dd details dialog dir div dl dt fieldset figcaption figure "
        "footer form h1 h2 h3 h4 h5 h6 header hr legend li main menu nav ol optgroup option p pre section summary "
        "table tbody tfoot thead tr ul"
    ).split()
)
_SPACES = frozenset(("td", "th", "img", "button", "input"))
_HEADINGS = ("h1", "title", "h2", "h3", "h4", "h5", "h6")
_RAW = frozenset(("script", "style", "iframe", "textarea", "title"))
_DROPPED = _RAW | {"template", "noscript", "svg", "head", "select", "annotation", "annotation-xml"}
_OTHER_TAGS = (
    "a abbr acronym area audio b base basefont bdi bdo big body br button canvas cite code col colgroup data datalist "
    "del dfn em embed font frame frameset html i img input ins kbd label link map mark math meta meter nobr object "
    "output param picture progress q rp rt ruby s samp slot small source span strike strong sub sup tbody td th time "
    "track tt u var video wbr"
).split()
_NAME = "|".join(sorted({*_BLOCKS, *_DROPPED, *_OTHER_TAGS}))

# Characters that say nothing: controls but for white space, soft hyphens, marks that turn or hide text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\xad\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_WINDOWS = re.compile("[\x80-\x9f]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_PARAGRAPH = re.compile(r"\n\s*\n|\u2029")
_BREAK = "\u2028"
_BREAKS = re.compile(rf"{_BREAK}\s*{_BREAK}")
_TAG = re.compile(rf"</?(?:{_NAME})(?:[\s/][^<>]*)?>|<!--|<!\[CDATA\[", re.IGNORECASE)
_CLEARLY_TAG = re.compile(rf"</(?:{_NAME})\s*>|<(?:br|hr|img|p)(?:[\s/][^<>]*)?>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")

_LONGEST_COMPOSED = 1000
_BLOCK_BYTES = 4096
_DEEPEST = 500

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What the names stand for in practice: supersets, as in browsers.
_SUPERSETS = {
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_NOT_ENCODINGS = frozenset(("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "mbcs", "oem"))


@dataclass(frozen=True, slots=True)
class Page:
    """What is left of a page.

    Attributes:
        title: one line, may be empty.
        body: the text in paragraphs, in which the title is not repeated.
        language: what the page states as its language, may be empty.
    """

    title: str
    body: str
    language: str = ""


def from_html(markup: str) -> str:
    """Plain text of an HTML fragment or page: tags dropped, entities decoded once, scripts and styles left out.

    Block elements and two ``<br>`` in a row end a paragraph; a single ``<br>`` and table cells are white space. Where
    there is neither, blank lines end paragraphs.
    """
    return "\n\n".join(_parsed(markup).paragraphs())


def from_plain(text: str) -> str:
    """The same form of a text without markup; blank lines are its paragraph borders."""
    return "\n\n".join(_folded(_PARAGRAPH.split(clean(text.replace("\r\n", "\n").replace("\r", "\n")))))


def from_markup(text: str) -> str:
    """Plain text of what may or may not be HTML, as feeds have it.

    A text without the tag of any HTML element keeps its angle brackets: ``List<String>`` is text.
    """
    if _TAG.search(text):
        return from_html(text)
    return from_plain(html.unescape(text) if _ENTITY.search(text) else text)


def is_markup(text: str) -> bool:
    """Whether a text that is declared plain is HTML all the same: it closes an element or has an entity."""
    return _CLEARLY_TAG.search(text) is not None or _ENTITY.search(text) is not None


def page(markup: str) -> Page:
    """Title and text of an HTML page. The title is its first ``<h1>``, else its ``<title>``, else its first heading."""
    target = _parsed(markup)
    title = next((target.headings[tag] for tag in _HEADINGS if tag in target.headings), "")
    paragraphs = target.paragraphs()
    body = "\n\n".join(paragraphs[1:] if paragraphs[:1] == [title] else paragraphs)
    return Page(title, body, target.language)


def line(text: str) -> str:
    """One line of plain text from what may be HTML: for titles and names."""
    return " ".join(from_markup(text).split())


def clean(text: str) -> str:
    """The text without unseen characters; lone surrogates become U+FFFD, C1 controls what Windows means by them."""
    if text.isascii() and text.isprintable():
        return text
    text = _SURROGATES.sub("\ufffd", _UNSEEN.sub("", text))
    return _WINDOWS.sub(lambda match: match[0].encode("latin-1").decode("cp1252", "ignore"), text)


def decode(data: bytes, *declared: str | None) -> tuple[str, tuple[str, ...]]:
    """The text of some bytes, and warnings about its encoding.

    Tried in this order: the byte order mark, UTF-16 without one, the declared encodings, UTF-8, UTF-8 with a few bad
    bytes, Windows-1252.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), ()
    if wide := _wide(data):
        return data.decode(wide, "replace"), (f"UTF-16 without a byte order mark, read as {wide}",)
    names = [name for name in declared if name]
    for encoding in [*filter(None, map(_codec, names)), "utf-8"]:
        try:
            decoded = data.decode(encoding)
        except (UnicodeError, LookupError):  # the latter: base64 and its like, which are no encodings of text
            continue
        if names and encoding != _codec(names[0]) and not data.isascii():
            return decoded, (f"declared as {clean(names[0])[:40]}, read as {encoding}",)
        return decoded, ()
    return _decode_damaged(data)


def _decode_damaged(data: bytes) -> tuple[str, tuple[str, ...]]:
    decoded = data.decode("utf-8", "replace")
    bad = decoded.count("\ufffd") - data.count("\ufffd".encode())
    strange = sum(not part.isascii() for part in decoded.split("\ufffd"))
    if bad * 10 <= len(decoded) - len(decoded.encode("ascii", "ignore")) and strange:
        return decoded, (f"{bad} places are not UTF-8; replaced by U+FFFD",)
    return data.decode("cp1252", "replace"), ("not UTF-8, read as Windows-1252",)


def _codec(name: str) -> str | None:
    """The name that Python knows an encoding by; None where it is none, or needs a byte order mark that is missing."""
    try:
        found = codecs.lookup(name.strip()).name
    except (LookupError, ValueError):
        return None
    if found in _NOT_ENCODINGS or found.startswith(("utf-16", "utf-32")):
        return None
    return _SUPERSETS.get(found, found)


def _wide(data: bytes) -> str | None:
    """UTF-16's byte order where every other byte is mostly NUL."""
    even, odd = data[:2000:2], data[1:2000:2]
    if len(odd) < 4:
        return None
    shares = even.count(0) / len(even), odd.count(0) / len(odd)
    if max(shares) < 0.4 or min(shares) > 0.1:
        return None
    return "utf-16-be" if shares[0] > shares[1] else "utf-16-le"


def _parsed(markup: str) -> _Target:
    """The events of the markup, collected."""
    target = _Target()
    if "<![CDATA[" in markup:
        markup = markup.replace("<![CDATA[", "").replace("]]>", "")
    data = clean(markup).encode("utf-8")
    parser = _parser(target)
    for block in _blocks(data):
        if target.depth > _DEEPEST and not target.in_raw:
            _close(parser)
            parser = _parser(target)
        parser.feed(block)
    _close(parser)
    return target


def _blocks(data: bytes) -> Iterator[bytes]:
    """The markup in pieces that begin with a tag."""
    start = 0
    while start < len(data):
        end = data.find(b"<", start + _BLOCK_BYTES)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end


def _parser(target: _Target) -> etree.HTMLParser:
    return etree.HTMLParser(target=target, huge_tree=True, recover=True, encoding="utf-8")


def _close(parser: etree.HTMLParser) -> None:
    try:
        parser.close()
    except etree.ParserError:
        pass  # nothing but white space or comments
    except etree.XMLSyntaxError:
        pass  # nothing at all


class _Target:
    """Collects paragraphs and headings from the parser's events, in which each start has its end."""

    def __init__(self) -> None:
        self.depth = 0
        self.headings: dict[str, str] = {}
        self.language = ""
        self._done: list[str] = []
        self._open: list[str] = []
        self._dropped: list[str] = []
        self._heading: list[str] | None = None
        self._has_blocks = False

    @property
    def in_raw(self) -> bool:
        """Whether what comes is no markup."""
        return bool(self._dropped) and self._dropped[-1] in _RAW

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.depth += 1
        if tag == "html":
            self.language = self.language or attributes.get("lang") or attributes.get("xml:lang") or ""
        if tag in _DROPPED:
            self._dropped.append(tag)
        if tag in _HEADINGS and self._dropped in ([], ["title"], ["head", "title"]):
            self._heading = []
        if tag == "br":
            self._open.append(_BREAK)
        self._border(tag)

    def end(self, tag: str) -> None:
        self.depth -= 1
        if self._dropped and self._dropped[-1] == tag:
            self._dropped.pop()
        if tag in _HEADINGS and self._heading is not None:
            self._keep_heading(tag, self._heading)
            self._heading = None
        self._border(tag)

    def data(self, text: str) -> None:
        if self._heading is not None:
            self._heading.append(text)
        if not self._dropped:
            self._open.append(text)

    def comment(self, text: str) -> None:
        """Comments are no text."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Nor are processing instructions."""

    def close(self) -> None:
        """Called by the parser at the end."""

    def paragraphs(self) -> list[str]:
        """What is not blank, folded."""
        parts = [*self._done, "".join(self._open)]
        borders = _BREAKS if self._has_blocks or any(_BREAK in part for part in parts) else _PARAGRAPH
        return list(_folded(piece for part in parts for piece in borders.split(part)))

    def _border(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._has_blocks = True
            self._done.append("".join(self._open))
            self._open = []
        elif tag in _SPACES:
            self._open.append(" ")

    def _keep_heading(self, tag: str, parts: list[str]) -> None:
        title = " ".join(_folded(["".join(parts)]))
        if title:
            self.headings.setdefault(tag, title)


def _folded(paragraphs: Iterator[str] | list[str]) -> Iterator[str]:
    """What is not blank of the paragraphs, its white space folded, in Unicode's composed form (NFC)."""
    for paragraph in paragraphs:
        # Decoded entities may have brought unseen characters back.
        words = clean(paragraph).split()
        if words:
            yield " ".join(words if paragraph.isascii() else map(_composed, words))


def _composed(word: str) -> str:
    """NFC, whose time grows with the square of a run of combining marks: absurdly long words stay as they are."""
    return unicodedata.normalize("NFC", word) if len(word) <= _LONGEST_COMPOSED else word
