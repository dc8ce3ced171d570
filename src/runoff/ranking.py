"""The final order: both rounds count."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .backends import Scores
from .calibration import Calibration
from .candidates import Candidates
from .errors import QueryError
from .fusion import Ranked
from .reranker import sigmoid
from .results import FirstStage, ListPlace, SearchHit
from .snapshot import Mask, Snapshot

# Chosen on one collection and shown on others in docs/decisions/fusion.md.
DEFAULT_BLEND = 20.0


def check_blend(blend: float) -> None:
    """Raises: QueryError: not a finite number of at least 0."""
    sound = isinstance(blend, int | float) and not isinstance(blend, bool) and math.isfinite(blend) and blend >= 0
    if not sound:
        raise QueryError(f"blend: got {blend!r}; expected a number of at least 0")


def blended(logits: NDArray[np.float32], similarities: NDArray[np.float32], blend: float) -> NDArray[np.float64]:
    """logit + blend x cosine similarity: float64, shape [n]."""
    return logits.astype(np.float64) + blend * similarities.astype(np.float64)


def hits(
    snapshot: Snapshot,
    found: Candidates,
    scores: Scores | None,
    top_n: int,
    *,
    blend: float = DEFAULT_BLEND,
    chosen: Mask | None = None,
    calibration: Calibration | None = None,
    min_score: float | None = None,
) -> tuple[SearchHit, ...]:
    """The best ``top_n`` of the candidates: by blended score where there are logits, ties by chunk id.

    Candidates that there was no time for come after all others, in the first stage's order.

    Args:
        snapshot: what was searched.
        found: the first stage's candidates.
        scores: the runoff's logits in the same order, or None without a runoff.
        top_n: number of hits wanted.
        blend: weight of the similarity beside the logit.
        chosen: bool, shape [chunk rows]: the chunks that a filter lets through, or None.
        calibration: turns blended scores into probabilities; None leaves these out.
        min_score: least probability of a hit; None keeps all. Without a probability nothing reaches it.
    """
    rows = np.array([snapshot.chunk_of(row, chosen) for row in found.rows.tolist()], dtype=np.int64)
    values = None if scores is None else blended(scores.logits, found.similarities, blend)
    order = np.arange(len(rows)) if scores is None else scores.order(values, snapshot.chunks["id"][rows])
    probabilities = np.full(len(rows), np.nan)
    if scores is not None and values is not None and calibration is not None:
        probabilities[scores.reach] = calibration.passage(values[scores.reach])
    if min_score is not None:
        order = order[probabilities[order] >= min_score]
    ranks = [ranked.rank_of(found.rows) for ranked in (found.dense, found.lexical)]
    return tuple(
        _hit(snapshot, found, int(rows[i]), rank, i, scores, values, probabilities, ranks)
        for rank, i in enumerate(order[:top_n].tolist(), start=1)
    )


def _hit(
    snapshot: Snapshot,
    found: Candidates,
    row: int,
    rank: int,
    i: int,
    scores: Scores | None,
    values: NDArray[np.float64] | None,
    probabilities: NDArray[np.float64],
    ranks: list[NDArray[np.int64]],
) -> SearchHit:
    chunk = snapshot.chunk(row)
    document = snapshot.document(int(snapshot.chunks["document"][row]))
    scored = scores is not None and values is not None and scores.has_logit(i)
    logit = float(scores.logits[i]) if scores is not None and scored else None
    return SearchHit(
        rank=rank,
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        kind=chunk.kind,
        title=document.title,
        url=document.url,
        source=document.source,
        published=document.published,
        text=chunk.text,
        logit=logit,
        blended=float(values[i]) if values is not None and scored else None,
        score=float(found.scores[i]) if logit is None else sigmoid(logit),
        first_stage=FirstStage(
            rank=i + 1,
            score=float(found.scores[i]),
            similarity=float(found.similarities[i]),
            dense=_place(found.dense, int(ranks[0][i])),
            lexical=_place(found.lexical, int(ranks[1][i])),
        ),
        truncated=scores is not None and bool(scores.truncated[i]),
        exit_layer=None if scores is None else scores.exit_layer(i),
        windowed=scores is not None and scores.is_windowed(i),
        probability=None if np.isnan(probabilities[i]) else float(probabilities[i]),
    )


def _place(ranked: Ranked, rank: int) -> ListPlace | None:
    return ListPlace(rank, float(ranked.scores[rank - 1])) if rank else None
