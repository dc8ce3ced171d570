"""What a generation answers, in a form that can be stored and compared with a later reading of the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from runoff.candidates import MODES, find
from runoff.store import Generation
from runoff.where import parse

from .world import FILTERS, TOPICS, vector_of

QUERIES = (*TOPICS[:3], "case 3 and its part two", "漢")


def answers(generation: Generation) -> dict[str, Any]:
    """Documents, state, and the first hits of some queries in each mode, with and without a filter."""
    snapshot = generation.snapshot
    documents = [snapshot.document(int(row)) for row in np.flatnonzero(snapshot.document_alive)]
    return {
        "generation": generation.number,
        "identity": dict(snapshot.manifest.identity),
        "documents": {one.id: [one.title, one.body, one.url, one.author, list(one.tags)] for one in documents},
        "removed": sorted(generation.state.removed),
        "sources": list(generation.state.sources),
        "digests": {name: state.digest for name, state in generation.state.files.items()},
        "hits": [
            {"query": query, "mode": mode, "where": where, "found": _found(generation, query, mode, where)}
            for query in QUERIES
            for mode in MODES
            for where in (None, FILTERS[1])
        ],
    }


def _found(generation: Generation, query: str, mode: Any, where: str | None) -> list[list[Any]]:
    """The first hits as document, position, kind and score to five digits."""
    snapshot = generation.snapshot
    chosen = None if where is None else generation.chosen(parse(where))
    allowed = None if chosen is None else snapshot.passages_of(chosen)
    ranked = find(generation, query, vector_of(query), 6, mode=mode, allowed=allowed)
    chunks = [snapshot.chunk(snapshot.chunk_of(int(row), chosen)) for row in ranked.rows]
    return [
        [chunk.document_id, chunk.position, chunk.kind, round(float(score), 5)]
        for chunk, score in zip(chunks, ranked.scores, strict=True)
    ]
