"""Which documents of a source a refresh may store."""

from __future__ import annotations

from collections.abc import Iterable

from . import fetch
from .documents import Document
from .writer import Writer


def admitted(writer: Writer, documents: Iterable[Document]) -> list[Document]:
    """The documents that a refresh stores.

    Left out are documents that were removed by hand, and those that another source brought which is still refreshed:
    such a document changes hands only for a later date of publication. So two feeds that carry different versions of
    one entry do not take turns at replacing it.
    """
    found = [document for document in documents if document.id not in writer.state.removed]
    writer.prepare(document.id for document in found)
    owners = {fetch.redacted(name) for name in writer.state.files}
    return [document for document in found if not _belongs_elsewhere(writer, document, owners)]


def _belongs_elsewhere(writer: Writer, document: Document, owners: set[str]) -> bool:
    if writer.unchanged(document):
        return False
    entry = writer.stored(document.id)
    if entry is None or entry.document.source == document.source or entry.document.source not in owners:
        return False
    return (document.published or "") <= (entry.document.published or "")
