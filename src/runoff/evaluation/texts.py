"""What the ids in a ranking stand for, read from the store when a report wants to show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..snapshot import Snapshot


@dataclass(frozen=True)
class Texts:
    """Titles and texts of a snapshot by id.

    Attributes:
        snapshot: where they are.
        stored: stored id by the name that rankings have for a document; without one the name is the id.
    """

    snapshot: Snapshot
    stored: Mapping[str, str]

    @cached_property
    def _chunk_rows(self) -> dict[int, int]:
        rows = np.flatnonzero(self.snapshot.chunk_alive)
        return dict(zip(self.snapshot.chunks["id"][rows].tolist(), rows.tolist(), strict=True))

    @cached_property
    def _document_rows(self) -> dict[str, int]:
        return document_rows(self.snapshot)

    def chunk(self, chunk_id: int) -> str:
        """The text of a chunk."""
        return self.snapshot.chunk(self._chunk_rows[chunk_id]).text

    def label(self, document_id: str, characters: int = 200) -> str:
        """Title and beginning of a document, in one line; says so where the store does not have it."""
        row = self._document_rows.get(self.stored.get(document_id, document_id))
        if row is None:
            return "(not in the store)"
        document = self.snapshot.document(row)
        whole = " ".join(f"{document.title}: {document.body}".removeprefix(": ").split())
        return whole if len(whole) <= characters else f"{whole[:characters].rstrip()}…"


def document_rows(snapshot: Snapshot) -> dict[str, int]:
    """Row of each live document by its id."""
    rows = np.flatnonzero(snapshot.document_alive)
    return {
        key.decode("ascii"): row
        for key, row in zip(snapshot.documents["id"][rows].tolist(), rows.tolist(), strict=True)
    }
