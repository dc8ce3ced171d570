"""Documents that repeat another's title and text to the letter: search shows such a text once, under one of its ids.

A label on any of them is a label on the one that is shown; else a ranking that answers would count as one that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from ..snapshot import Snapshot
from .collection import Query


def shown(snapshot: Snapshot) -> dict[str, str]:
    """For each document that repeats an earlier one, the id under which search shows its text."""
    first: dict[tuple[int, ...], str] = {}
    found: dict[str, str] = {}
    for row in np.flatnonzero(snapshot.document_alive).tolist():
        passages = snapshot.chunks["passage"][snapshot.chunk_rows(np.array([row]))]
        if passages.size and snapshot.uses[passages].min() > 1:
            key = snapshot.documents["id"][row].decode("ascii")
            earlier = first.setdefault(tuple(passages.tolist()), key)
            if earlier != key:
                found[key] = earlier
    return found


def relabel(queries: Iterable[Query], ids: Mapping[str, str]) -> tuple[Query, ...]:
    """The queries with the labels of some documents moved to others; the highest of two grades stays.

    Args:
        queries: labelled questions.
        ids: where the labels of a document id go.
    """
    return tuple(replace(query, relevant=_moved(query.relevant, ids)) for query in queries)


def _moved(relevant: Mapping[str, int], ids: Mapping[str, str]) -> dict[str, int]:
    grades: dict[str, int] = {}
    for key, grade in relevant.items():
        to = ids.get(key, key)
        grades[to] = max(grade, grades.get(to, grade))
    return grades
