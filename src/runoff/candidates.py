"""The first stage: the passages of one generation that the runoff gets to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .errors import QueryError
from .fusion import Convex, Fusion, Ranked, union
from .store import Generation

Mode = Literal["hybrid", "dense", "lexical"]
MODES: tuple[Mode, ...] = ("hybrid", "dense", "lexical")

# Chosen by the study in docs/decisions/fusion.md.
DEFAULT_FUSION: Fusion = Convex(0.2)
# How deep each list is read before they are fused, at least.
DEPTH = 100

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Passages in the first stage's order, with all that is known of each.

    Attributes:
        rows: int64, shape [n]: passage rows, best first.
        scores: float32: what they were ordered by.
        similarities: float32, -1..1: cosine similarity of query and passage, whichever list found it.
        dense: the dense list as far as it was read.
        lexical: the lexical list as far as it was read.
    """

    rows: Rows
    scores: Scores
    similarities: Scores
    dense: Ranked
    lexical: Ranked


def check_mode(mode: str) -> None:
    """Raises: QueryError: there is no such mode."""
    if mode not in MODES:
        raise QueryError(f"mode: got {mode!r}; expected one of {', '.join(MODES)}")


def find(
    generation: Generation,
    query: str,
    vector: Scores,
    count: int,
    *,
    mode: Mode = "hybrid",
    allowed: Mask | None = None,
    fusion: Fusion = DEFAULT_FUSION,
) -> Candidates:
    """The ``count`` best passages for a query.

    Args:
        generation: what is searched.
        query: the query's text, for the lexical list.
        vector: float32, shape [dimensions], L2-normalised: its embedding, for the dense list.
        count: number of passages wanted, at least 1; fewer where fewer can be found.
        mode: which lists count. A lexical search finds only passages that share a word with the query.
        allowed: bool, shape [passage rows]: others are passed over by both lists.
        fusion: how two lists become one.
    """
    nothing = Ranked(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
    depth = max(count, DEPTH) if mode == "hybrid" else count
    dense = Ranked(*generation.dense.search(vector, depth, allowed)) if mode != "lexical" else nothing
    lexical = Ranked(*generation.lexical.search(query, depth, allowed)) if mode != "dense" else nothing
    if mode == "hybrid":
        rows = union(dense, lexical)
        fused = fusion(dense, lexical, generation.dense.similarities(vector, rows), count)
    else:
        fused = dense if mode == "dense" else lexical
    similarities = generation.dense.similarities(vector, fused.rows)
    return Candidates(fused.rows, fused.scores, similarities, dense, lexical)
