"""Under which ids the documents of a source are stored, and which of them a refresh may store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from . import identity, sources
from .documents import Document
from .writer import Writer


def placed(writer: Writer, documents: Sequence[Document], ids: Mapping[str, Sequence[str]]) -> list[Document]:
    """The documents of a source under the ids that the store has them by, or had them by until they were removed.

    Args:
        writer: of the store.
        documents: in their source's order.
        ids: for the id of a document all that it may have; see `identity.Settled`.
    """
    writer.prepare(chain((document.id for document in documents), *ids.values()))
    return [replace(document, id=_known(writer, document, ids.get(document.id, ()))) for document in documents]


def _known(writer: Writer, document: Document, ids: Sequence[str]) -> str:
    own = ids.index(document.id) + 1 if ids else 0
    entries = ((key, writer.stored(key)) for key in ids[own:])
    theirs = (key for key in ids[:own] if writer.holds(key) or key in writer.state.removed)
    shared = (key for key, entry in entries if entry is not None and _link(entry.document) == _link(document))
    return next(chain(theirs, shared), document.id)


def _link(document: Document) -> str:
    return identity.address(document.url or "")


def admitted(writer: Writer, documents: Iterable[Document]) -> list[Document]:
    """The documents that a refresh stores.

    Left out are documents that were removed by hand, and those that another source brought which is still refreshed:
    such a document changes hands only for a later date of publication. So two feeds that carry different versions of
    one entry do not take turns at replacing it.
    """
    found = [document for document in documents if document.id not in writer.state.removed]
    writer.prepare(document.id for document in found)
    others = {document.id: owner for document in found if (owner := _other_source(writer, document)) is not None}
    owners = set(map(sources.stated, writer.state.files)) if others else set()
    return [document for document in found if others.get(document.id) not in owners]


def _other_source(writer: Writer, document: Document) -> str | None:
    """Whose document this is, if it has another source and is not older."""
    entry = None if writer.unchanged(document) else writer.stored(document.id)
    if entry is None or entry.document.source == document.source:
        return None
    return entry.document.source if (document.published or "") <= (entry.document.published or "") else None
