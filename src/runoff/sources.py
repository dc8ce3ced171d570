"""What a source name stands for: a feed, a document, a file of documents, or a folder of these."""

from __future__ import annotations

import gzip
import io
import json
import stat
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import feeds, fetch, text
from .documents import Document
from .errors import DocumentError, SourceError
from .feeds import digest

MAX_BYTES = 500_000_000
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """The documents of one source, and what was odd about it."""

    source: str
    documents: tuple[Document, ...]
    warnings: tuple[str, ...] = ()


def expand(source: str) -> list[str]:
    """The addresses and files that a source stands for: itself, or the readable files of a folder and its subfolders.

    Hidden files and folders are passed over, and links to folders are not followed.

    Raises:
        SourceError: there is no such path, or the folder has nothing that can be read.
    """
    if fetch.is_address(source):
        return [source]
    path = Path(source)
    try:
        if not path.is_dir():
            return [source]
        found = sorted(str(entry) for entry in path.rglob("*") if _is_readable(entry, path))
    except OSError as error:
        raise SourceError(f"{source}: cannot be listed ({error.strerror})") from error
    if not found:
        raise SourceError(f"{source}: a folder without anything to read; expected files ending in {', '.join(READERS)}")
    return found


def load(source: str, settings: fetch.FetchSettings = fetch.DEFAULT) -> Loaded:
    """Read one address or file.

    Raises:
        SourceError: nothing usable is there; the message says what is.
    """
    if fetch.is_address(source):
        fetched = fetch.fetch(source, settings)
        name = fetch.redacted(source)
        data, cut = _decompressed(fetched.body, name)
        return _with_warnings(_loaded(name, feeds.parse(data, name, fetched.content_type)), cut)
    path = Path(source)
    data, cut = _decompressed(_read(path), source)
    return _with_warnings(_reader(path, data)(data, source), cut)


def _loaded(source: str, parsed: feeds.ParsedFeed) -> Loaded:
    return Loaded(source, parsed.documents, parsed.warnings)


def _read_feed(data: bytes, source: str) -> Loaded:
    return _loaded(source, feeds.parse(data, source))


def _read_plain(data: bytes, source: str) -> Loaded:
    decoded, warnings = _decoded(data)
    return _single(source, Path(source).stem, text.from_plain(decoded), warnings)


def _read_markdown(data: bytes, source: str) -> Loaded:
    from markdown_it import MarkdownIt

    decoded, warnings = _decoded(data)
    return _page(source, MarkdownIt("commonmark").enable("table").render(text.clean(decoded)), warnings)


def _read_html(data: bytes, source: str) -> Loaded:
    decoded, warnings = _decoded(data)
    return _page(source, decoded, warnings)


def _page(source: str, markup: str, warnings: list[str]) -> Loaded:
    title = text.title_of(markup) or Path(source).stem
    return _single(source, title, text.from_html(markup), warnings)


def _single(source: str, title: str, body: str, warnings: list[str]) -> Loaded:
    if not body:
        raise SourceError(f"{source}: holds no text; expected a document with some")
    identity = f"file {Path(source).resolve()}"
    return Loaded(source, (Document(digest(identity), title, body, source=source),), tuple(warnings))


def _read_lines(data: bytes, source: str) -> Loaded:
    decoded, warnings = _decoded(data)
    documents: dict[str, Document] = {}
    for number, content in enumerate(decoded.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            document = _record(content, source)
        except DocumentError as error:
            warnings.append(f"line {number}: {error}; left out")
            continue
        if document.id in documents:
            warnings.append(f"line {number}: an id that came before; this line replaces it")
        documents[document.id] = document
    if not documents:
        detail = warnings[0] if warnings else "it is empty"
        raise SourceError(f"{source}: no usable line ({detail}); expected a JSON object with a text on each line")
    return Loaded(source, tuple(documents.values()), tuple(warnings))


def _record(content: str, source: str) -> Document:
    """A document from a line: text or body, and optionally id, title, url, published, author, tags."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not JSON ({error})") from error
    if not isinstance(record, dict):
        raise DocumentError(f"got {type(record).__name__}; expected a JSON object")
    title, body = _string(record, "title"), _string(record, "text") or _string(record, "body")
    title, body = " ".join(text.from_plain(title).split()), text.from_plain(body)
    if not title and not body:
        raise DocumentError("neither title nor text; expected a text, a body or a title")
    url = _string(record, "url") or None
    key = record.get("id")
    if key is not None and (isinstance(key, bool) or not isinstance(key, str | int)):
        raise DocumentError(f"id: got {type(key).__name__}; expected a string or a whole number")
    identity = f"id {key}" if key not in (None, "") else f"url {url}" if url else f"text {title}\x00{body}"
    return Document(
        id=digest(identity),
        title=title,
        body=body,
        url=url,
        source=source,
        published=_string(record, "published") or None,
        author=_string(record, "author") or None,
        tags=_labels(record),
    )


def _string(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise DocumentError(f"{name}: got {type(value).__name__}; expected a string")
    return text.clean(value or "")


def _labels(record: Mapping[str, Any]) -> tuple[str, ...]:
    tags = record.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise DocumentError("tags: expected a list of strings")
    return tuple(text.clean(tag) for tag in tags)


Reader = Callable[[bytes, str], Loaded]

# Ending of the name, without a further .gz, and what reads such a file.
READERS: dict[str, Reader] = {
    ".rss": _read_feed,
    ".atom": _read_feed,
    ".rdf": _read_feed,
    ".xml": _read_feed,
    ".jsonl": _read_lines,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".txt": _read_plain,
    ".html": _read_html,
    ".htm": _read_html,
}


def _suffix(path: Path) -> str:
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()


def _reader(path: Path, data: bytes) -> Reader:
    reader = READERS.get(_suffix(path))
    if reader is None and data[:200].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return _read_feed
    if reader is None:
        raise SourceError(f"{path}: do not know how to read it; expected a feed or a name in {', '.join(READERS)}")
    return reader


def _is_readable(path: Path, below: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(below).parts)
    return not hidden and _suffix(path) in READERS and path.is_file()


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"{path}: not a regular file; expected a feed or document")
        if status.st_size > MAX_BYTES:
            raise SourceError(f"{path}: {status.st_size} bytes; expected at most {MAX_BYTES}. Split it.")
        return path.read_bytes()
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file or folder") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _decompressed(data: bytes, source: str) -> tuple[bytes, tuple[str, ...]]:
    """The bytes, unpacked where they are gzip; of a truncated archive what it still holds, with a warning."""
    if not data.startswith(b"\x1f\x8b"):
        return data, ()
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as archive:
        try:
            while block := archive.read1(1 << 20):
                parts.append(block)
                size += len(block)
                if size > MAX_BYTES:
                    raise SourceError(f"{source}: unpacks to more than {MAX_BYTES} bytes; expected fewer")
        except (EOFError, OSError, zlib.error) as error:
            if not parts:
                raise SourceError(f"{source}: a damaged gzip archive ({error})") from error
            return b"".join(parts), (f"damaged gzip archive ({error}); read as far as it goes",)
    return b"".join(parts), ()


def _decoded(data: bytes) -> tuple[str, list[str]]:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace"), []
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError as error:
        return data.decode("cp1252", "replace"), [f"not UTF-8 (byte {error.start}); read as Windows-1252"]


def _with_warnings(loaded: Loaded, more: tuple[str, ...]) -> Loaded:
    return Loaded(loaded.source, loaded.documents, (*more, *loaded.warnings))
