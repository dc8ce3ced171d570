"""Markup to plain text: paragraphs separated by one blank line, white space folded inside each.

libxml2 (through lxml) reads the markup as a stream of events. It repairs what is malformed, its time grows with the
length of the input whatever the input is, and the depth of nesting costs nothing.
"""

from __future__ import annotations

import re

from lxml import etree

_BLOCKS = frozenset(
    (
        "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption "
        "figure footer form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol optgroup option p pre section "
        "summary table tbody tfoot thead tr ul"
    ).split()
)
_SPACES = frozenset(("br", "td", "th", "img", "button", "input"))
_TITLES = frozenset(("title", "h1"))
_DROPPED = frozenset("script style template noscript iframe object svg math title textarea select".split())
_INLINE = frozenset(
    (
        "a abbr acronym b bdi bdo big cite code data del em embed font i ins kbd label link mark meta q s samp small "
        "source span strike strong sub sup time tt u var video audio wbr picture param iframe"
    ).split()
)

# What cannot be shown: control characters but for white space, and the marks that turn text around.
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_PARAGRAPH = re.compile(r"\n\s*\n|\u2029")
# A complete tag of HTML, a comment or the like, or an entity; not the "<" of "a < b" or of "List<String>".
_LOOKS_LIKE_MARKUP = re.compile(
    rf"</?(?:{'|'.join(sorted(_BLOCKS | _SPACES | _TITLES | _DROPPED | _INLINE))})(?:[\s/][^<>]{{0,2000}})?>"
    r"|<!(?:--|\[CDATA\[|DOCTYPE)|&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]\w{1,31});",
    re.IGNORECASE,
)


def from_html(markup: str) -> str:
    """Plain text of an HTML fragment or page: tags dropped, entities decoded once, scripts and styles left out.

    Block elements end a paragraph; ``<br>`` and table cells are white space.
    """
    return _join(_parsed(markup).paragraphs())


def title_of(markup: str) -> str:
    """The first non-empty ``<title>`` or first-level heading of an HTML page, else an empty string."""
    titles = (" ".join(clean(title).split()) for title in _parsed(markup).titles)
    return next((title for title in titles if title), "")


def _parsed(markup: str) -> _Target:
    target = _Target()
    parser = etree.HTMLParser(target=target, huge_tree=True, recover=True, encoding="utf-8")
    try:
        parser.feed(clean(markup).encode("utf-8"))
        parser.close()
    except etree.ParserError:
        pass  # nothing but white space or comments
    return target


def from_plain(text: str) -> str:
    """The same form of a text without markup; blank lines are its paragraph borders."""
    return _join(_PARAGRAPH.split(clean(text)))


def from_markup(text: str) -> str:
    """Plain text of what may or may not be HTML, as feeds have it."""
    return from_html(text) if _LOOKS_LIKE_MARKUP.search(text) else from_plain(text)


def line(text: str) -> str:
    """One line of plain text from what may be HTML: for titles and names."""
    return " ".join(from_markup(text).split())


def clean(text: str) -> str:
    """The text without control characters; lone surrogates become U+FFFD."""
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))


class _Target:
    """Collects the text of a document's paragraphs from the parser's events."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._open: list[str] = []
        self._dropped = 0
        self._title: list[str] | None = None
        self.titles: list[str] = []

    def start(self, tag: str, attributes: object) -> None:
        if tag in _TITLES and not self._dropped:  # that of an <svg> is a caption
            self._title = []
        self._dropped += tag in _DROPPED
        self._border(tag)

    def end(self, tag: str) -> None:
        self._dropped = max(0, self._dropped - (tag in _DROPPED))
        if tag in _TITLES and self._title is not None:
            self.titles.append("".join(self._title))
            self._title = None
        self._border(tag)

    def data(self, text: str) -> None:
        if self._title is not None:
            self._title.append(text)
        if not self._dropped:
            self._open.append(text)

    def comment(self, text: str) -> None:
        """Comments are no text."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Nor are processing instructions."""

    def close(self) -> None:
        """Called by the parser at the end."""

    def paragraphs(self) -> list[str]:
        return [*self._done, "".join(self._open)]

    def _border(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._done.append("".join(self._open))
            self._open = []
        elif tag in _SPACES:
            self._open.append(" ")


def _join(paragraphs: list[str]) -> str:
    # Decoded entities may have brought control characters back.
    folded = (" ".join(clean(paragraph).split()) for paragraph in paragraphs)
    return "\n\n".join(paragraph for paragraph in folded if paragraph)
