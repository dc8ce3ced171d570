"""What a source name stands for: a feed on the web, a feed or document in a file, or a folder of these."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from . import feeds, fetch, identity, languages, records, text
from .documents import Document
from .errors import SourceError
from .state import SourceState

MAX_BYTES = 500_000_000
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_META_CHARSET = re.compile(
    rb"<meta\s[^>]*?charset\s*=\s*[\"']?([\w.:-]+)|<\?xml[^>]*?encoding=[\"']([\w.:-]+)", re.IGNORECASE
)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:[ \t]*(.*)$", re.MULTILINE)
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


class Found(NamedTuple):
    """What a reader makes of bytes: as in ``Loaded``."""

    documents: tuple[Document, ...]
    warnings: tuple[str, ...] = ()
    ids: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Loaded:
    """The documents of one source.

    Attributes:
        source: the address or path.
        documents: what it holds; nothing where it is ``unchanged``.
        warnings: what was odd about it.
        state: how it is now, for the next ``load``.
        unchanged: whether it is as ``known`` says, byte for byte or by its server's word.
        ids: for the id of each entry of a feed all that it may have; see `identity.Settled`.
    """

    source: str
    documents: tuple[Document, ...]
    warnings: tuple[str, ...] = ()
    state: SourceState = field(default_factory=SourceState)
    unchanged: bool = False
    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)


def expand(source: str) -> list[str]:
    """The addresses and files that a source stands for: itself, or the readable files of a folder and its subfolders.

    In a folder the ending of a name decides. Hidden files and folders are passed over, and links to folders are not
    followed; a subfolder that cannot be listed is among the results, so that loading it says so.

    Raises:
        SourceError: the name is no path or http(s) address, or the folder has nothing that can be read.
    """
    if identity.is_web(source):
        return [source]
    if not source.strip() or _SCHEME.match(source):
        name = fetch.redacted(source) if source.strip() else "an empty name"
        raise SourceError(f"{name}: expected a path or an http or https address")
    if not os.path.isdir(source):  # noqa: PTH112 # it takes what is no path, such as NUL bytes, for no folder
        return [source]
    found = sorted(_walk(source))
    if not found:
        raise SourceError(f"{source}: a folder without anything to read; expected files ending in {', '.join(READERS)}")
    return found


def load(source: str, settings: fetch.FetchSettings = fetch.DEFAULT, known: SourceState | None = None) -> Loaded:
    """Read one address or file.

    An address has to lead to a feed. A file is what its content says where that is a feed, else what its name says;
    either may be compressed by gzip. A page's title is its first heading, else the name of the file.

    Args:
        source: the address or path.
        settings: bounds of a fetch.
        known: how the source was when it was last read. Its server is asked for what changed since, and nothing is
            parsed where nothing did.

    Raises:
        SourceError: nothing usable is there; the message says what is.
    """
    known = known or SourceState()
    if identity.is_web(source):
        return _load_address(source, settings, known)
    return _load_file(source, known)


def stated(source: str) -> str:
    """The source as its documents name it: an address without credentials, a whole path with links resolved."""
    return fetch.redacted(source) if identity.is_web(source) else text.clean(os.path.realpath(source))


def _walk(folder: str) -> Iterator[str]:
    unlisted: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=lambda error: unlisted.append(str(error.filename))):
        folders[:] = (name for name in folders if not name.startswith("."))
        for name in names:
            if not name.startswith(".") and _suffix(name) in READERS:
                yield str(Path(parent, name))
    yield from unlisted


def _load_address(url: str, settings: fetch.FetchSettings, known: SourceState) -> Loaded:
    fetched = fetch.fetch(url, settings, etag=known.etag, last_modified=known.last_modified)
    if fetched.not_modified:
        return Loaded(url, (), state=known, unchanged=True)
    state = SourceState(_digest(fetched.body), fetched.etag, fetched.last_modified)
    if state.digest == known.digest:
        return Loaded(url, (), state=state, unchanged=True)
    name = stated(url)
    data, warnings = _unpacked(fetched.body, name, settings.max_bytes)
    first = known.digest is None
    feed = feeds.parse(data, name, content_type=fetched.content_type, base=fetched.final_url, halves=first)
    if not feed.complete:  # asked again without conditions: the server may not know that something was lost
        state = SourceState(state.digest)
    return Loaded(url, feed.documents, (*warnings, *feed.warnings), state, ids=feed.ids)


def _load_file(source: str, known: SourceState) -> Loaded:
    path = Path(source)
    data = _read(path)
    state = SourceState(_digest(data))
    if state.digest == known.digest:
        return Loaded(source, (), state=state, unchanged=True)
    name = stated(source)
    data, warnings = _unpacked(data, name, MAX_BYTES)
    found = _reader(path.name, data)(data, name)
    return Loaded(source, found.documents, (*warnings, *found.warnings), state, ids=found.ids)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _reader(name: str, data: bytes) -> Reader:
    suffix = _suffix(name)
    if suffix not in (".jsonl", ".ndjson") and feeds.is_feed(data):
        return _read_feed
    reader = READERS.get(suffix)
    if reader is None and suffix in ("", ".json"):
        return _read_feed  # which says what it is
    if reader is None:
        raise SourceError(
            f"{text.clean(name)}: got a name ending in {suffix}; expected a feed, or one of {', '.join(READERS)}"
        )
    return reader


def _read_feed(data: bytes, name: str) -> Found:
    feed = feeds.parse(data, name)
    return Found(feed.documents, feed.warnings, feed.ids)


def _read_records(data: bytes, name: str) -> Found:
    lines, warnings = _decoded(data, name)
    documents, more = records.parse(lines, name)
    return Found(documents, (*warnings, *more))


def _read_plain(data: bytes, name: str) -> Found:
    decoded, warnings = _decoded(data, name)
    return Found(_document(name, text.Page("", text.from_plain(decoded))), warnings)


def _read_html(data: bytes, name: str) -> Found:
    match = _META_CHARSET.search(data[:4096])
    charset = (match[1] or match[2]).decode("ascii", "ignore") if match else None
    decoded, warnings = _decoded(data, name, charset)
    return Found(_document(name, text.page(decoded)), warnings)


def _read_markdown(data: bytes, name: str) -> Found:
    from markdown_it import MarkdownIt

    decoded, warnings = _decoded(data, name)
    title, decoded = _without_front_matter(text.clean(decoded).replace("\r\n", "\n"))
    markup = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(decoded)
    page = text.page(markup)
    if title and title != page.title:
        page = text.Page(title, text.from_html(markup))  # the heading stays, since it is not the title
    return Found(_document(name, page), warnings)


def _without_front_matter(markdown: str) -> tuple[str, str]:
    """The title that a block of YAML at the beginning states, if any, and the text behind it."""
    match = _FRONT_MATTER.match(markdown)
    if match is None:
        return "", markdown
    title = _FRONT_TITLE.search(match[1] or "")
    return text.line(title[1].strip().strip("\"'")) if title else "", markdown[match.end() :]


def _document(name: str, page: text.Page) -> tuple[Document, ...]:
    if not page.body and not page.title:
        raise SourceError(f"{name}: holds no text; expected some")
    title = page.title or _stem(name)
    language = languages.normal(page.language)
    return (Document(identity.digest(f"file {name}"), title, page.body, source=name, language=language),)


Reader = Callable[[bytes, str], Found]

# Ending of the name, without a further .gz, and what reads such a file.
READERS: dict[str, Reader] = {
    ".rss": _read_feed,
    ".atom": _read_feed,
    ".rdf": _read_feed,
    ".xml": _read_feed,
    ".jsonl": _read_records,
    ".ndjson": _read_records,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".txt": _read_plain,
    ".html": _read_html,
    ".htm": _read_html,
}


def _plain_name(name: str) -> Path:
    path = Path(name)
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def _suffix(name: str) -> str:
    return _plain_name(name).suffix.lower()


def _stem(name: str) -> str:
    return " ".join(_plain_name(name).stem.split())


def _read(path: Path) -> bytes:
    name = text.clean(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            list(os.scandir(path))  # says why it was not expanded
        if not stat.S_ISREG(mode):
            raise SourceError(f"{name}: not a regular file; expected a feed or document")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SourceError(f"{name}: no such file or folder") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if len(data) > MAX_BYTES:
        raise SourceError(f"{name}: more than {MAX_BYTES} bytes; expected a smaller file. Split it.")
    return data


def _unpacked(data: bytes, name: str, max_bytes: int) -> tuple[bytes, tuple[str, ...]]:
    """The bytes, unpacked where they are gzip; of a truncated archive what it still holds, with a warning."""
    if not data.startswith(b"\x1f\x8b"):
        return data, ()
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as archive:
        try:
            while block := archive.read1(1 << 16):
                parts.append(block)
                size += len(block)
                if size > max_bytes:
                    raise SourceError(f"{name}: unpacks to more than {max_bytes} bytes; expected fewer")
        except (EOFError, OSError, zlib.error) as error:
            if not parts:
                raise SourceError(f"{name}: a damaged gzip archive ({error}); expected a whole one") from error
            return b"".join(parts), (f"a damaged gzip archive ({error}); read as far as it goes",)
    return b"".join(parts), ()


def _decoded(data: bytes, name: str, charset: str | None = None) -> tuple[str, tuple[str, ...]]:
    decoded, warnings = text.decode(data, charset)
    start = decoded[:4000]
    if len(_CONTROLS.findall(start)) > 0.05 * len(start):
        raise SourceError(f"{name}: holds many control characters, so it is no text; expected a text file")
    return decoded, warnings
