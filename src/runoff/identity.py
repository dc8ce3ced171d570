"""Document ids: 16 hexadecimal digits that stay the same from one ingest to the next.

An id is the beginning of the SHA-256 of an identity, and the identity is the first of these that there is:

1. the entry's own id where it is a URI of a scheme that is made to be unique (http, https, tag, urn, doi and the like):
   one entry is one document whatever feed brings it;
2. the entry's own id within its feed, since ``42`` says nothing outside of it. A feed is what it calls itself (Atom's
   ``<id>``, a link to itself), else the address or path it came from;
3. the entry's link where that is a URI as above;
4. its title and text within its feed.

Addresses count as equal when they differ only in http against https, the case of the host, the default port or a slash
at the end.

Entries of one feed that share an identity are told apart by their links where these differ. Those that share the link
as well are one document when title and text are equal; else they are versions: the newest by date (of equal dates the
one with the greatest text hash) has the identity, and each of the others has the identity together with its text hash.
So neither order nor repetition changes an id, and no text is lost.

What shares an identity comes and goes as a feed moves on. So a store first looks whether it has the entry under an id
that these rules would give among other neighbours, the closest first, and keeps that one (`Settled.ids`). Only where an
entry stands alone under an id that was another's, with another link and text, is it taken for an edit of that one.

A file is its absolute path, links resolved. A JSONL record is the id it states, whatever file it stands in; without an
id, its url; without that, its title and text.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit, urlunsplit

from . import text
from .documents import Document

_UNIQUE_SCHEMES = frozenset(("http", "https", "tag", "urn", "doi", "hdl", "info", "ark", "at", "did"))
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True)
class Settled:
    """An entry of a feed with its id.

    Attributes:
        document: the entry, under the id that it has in this feed.
        ids: this id and those that the same entry has where its feed holds others, the one that says most of it first.
            Behind its own id stand those which another entry with another link may have as well.
    """

    document: Document
    ids: tuple[str, ...]


def digest(identity: str) -> str:
    """A document id, 16 hexadecimal digits, from an identity."""
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16]


def address(uri: str) -> str:
    """A URI in the form in which two are compared; an http(s) one loses its scheme and credentials."""
    try:
        parts = urlsplit(uri.strip())
    except ValueError:
        return uri.strip()
    port = _DEFAULT_PORTS.get(parts.scheme)
    if port is None:
        return uri.strip()
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(port)
    return urlunsplit(("", host, parts.path.rstrip("/"), parts.query, parts.fragment))


def is_web(uri: str) -> bool:
    """Whether a text is an http or https address."""
    return uri.lower().startswith(("http://", "https://"))


def absolute(link: str, base: str) -> str | None:
    """A link as an http(s) address, or None where it is none."""
    link = text.clean(link).strip()
    try:
        joined = urljoin(base, link) if link else ""
        return joined if is_web(joined) and urlsplit(joined).hostname else None
    except ValueError:
        return None


def is_unique(uri: str) -> bool:
    """Whether a text is a URI that means the same everywhere."""
    scheme, colon, rest = uri.strip().partition(":")
    return bool(colon and rest.strip("/")) and scheme.lower() in _UNIQUE_SCHEMES


def of_entry(entry_id: str, document: Document, scope: str) -> str:
    """The identity of a feed's entry: rules 1 to 4.

    Args:
        entry_id: the entry's own id, or an empty string.
        document: what was made of it.
        scope: what identifies the feed.
    """
    if is_unique(entry_id):
        return address(entry_id)
    if entry_id.strip():
        return f"{address(scope)}\x00{entry_id.strip()}"
    if document.url and is_unique(document.url):
        return address(document.url)
    return f"{address(scope)}\x00text {document.text_hash}"


def settle(entries: Sequence[tuple[str, Document]]) -> tuple[Settled, ...]:
    """The entries of one feed with their ids, from identities and documents; repetitions are left out."""
    groups: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for identity, document in entries:
        groups[identity, address(document.url or "")].append(document)
    links = Counter(identity for identity, _ in groups)
    return tuple(
        settled
        for (identity, link), documents in groups.items()
        for settled in _versions(identity, link, documents, apart=links[identity] > 1)
    )


def _versions(identity: str, link: str, documents: Sequence[Document], *, apart: bool) -> Iterator[Settled]:
    by_text: dict[str, Document] = {}
    for document in documents:
        key = document.text_hash
        by_text[key] = max(by_text.get(key, document), document, key=_freshness)
    newest = max(by_text.values(), key=_freshness)
    for key, document in by_text.items():
        ids = []
        for name in (f"{identity}\x00link {link}", identity):
            ids.append(digest(f"{name}\x00text {key}"))
            if document is newest:
                ids.append(digest(name))
        own = ids[len(ids) // 2 - 1 if apart else -1]
        yield Settled(replace(document, id=own), tuple(ids))


def _freshness(document: Document) -> tuple[str, str, str, str, tuple[str, ...]]:
    return document.published or "", document.text_hash, document.url or "", document.author or "", document.tags
