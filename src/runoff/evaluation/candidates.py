"""One candidate pass a question: everything that all rankings need, computed and timed once.

Each first stage lists its candidates; the cross-encoder scores their union. A pair's logit depends on nothing but the
pair, so that every ranking of every list follows from one pass. What can only be timed list by list is the runoff: the
pass times it over one mode's list and scores the remaining chunks off the clock. The modes take turns over the
questions, so that a slow moment of the machine meets all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..candidates import DEFAULT_FUSION, DEPTH, Rows, Scores
from ..engine import Engine
from ..fusion import Ranked, union
from ..reranker import check_count, check_query
from ..store import Generation


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that some first stage found.

    Attributes:
        document: id of its document.
        logit: the cross-encoder's output.
        cosine: inner product of query and chunk vector, -1..1.
    """

    document: str
    logit: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Pass:
    """What one question gave.

    Attributes:
        chunks: candidates of all modes by chunk id.
        lists: by mode, chunk ids and first-stage scores, best first.
        milliseconds: wall time of each step before the runoff.
        timed: the mode whose list the runoff was timed over.
        rerank_ms: that time, with the query's tokenisation.
    """

    chunks: Mapping[int, Candidate]
    lists: Mapping[str, tuple[tuple[int, float], ...]]
    milliseconds: Mapping[str, float]
    timed: str
    rerank_ms: float


class CandidateSource(Protocol):
    """Gives each question its pass.

    Attributes:
        steps: by mode, the steps of ``Pass.milliseconds`` that its first stage consists of.
    """

    @property
    def steps(self) -> Mapping[str, tuple[str, ...]]: ...

    def candidates(self, question: str, timed: str) -> Pass: ...


# The engine embeds the query in every mode, since blending needs its similarity to whatever was found.
STEPS: Mapping[str, tuple[str, ...]] = {
    "dense": ("embed", "dense"),
    "lexical": ("embed", "lexical"),
    "hybrid": ("embed", "dense", "lexical", "fuse"),
}


class EngineCandidates:
    """Candidate passes over an engine's store, as its search makes them.

    Args:
        engine: whose stages and store are used.
        depth: chunks that each first stage hands over, at least 1.
        names: what to call documents by stored id; those without a name keep the id.
    """

    def __init__(self, engine: Engine, depth: int, names: Mapping[str, str] | None = None) -> None:
        check_count("candidates", depth)
        self._names = names or {}
        self._engine = engine
        self._depth = depth

    @property
    def steps(self) -> Mapping[str, tuple[str, ...]]:
        """``STEPS``."""
        return STEPS

    def candidates(self, question: str, timed: str) -> Pass:
        """The pass of a question, its runoff timed over the list of mode ``timed``.

        Raises:
            QueryError: the question is blank.
            StoreError: there is no store, or it is damaged.
        """
        check_query(question)
        generation, encoder, clock = self._engine.store.current(), self._engine.stages.encoder, _Clock()
        vector = encoder.encode([question])[0]
        clock.lap("embed")
        lists = self._lists(generation, question, vector, clock)
        rows = _union(lists, timed)
        logits, rerank_ms = self._score(question, generation, rows, len(lists[timed].rows))
        cosines = generation.dense.similarities(vector, rows)
        chunks = {row: self._chunk(generation, row) for row in rows.tolist()}
        found = zip(chunks.values(), logits.tolist(), cosines.tolist(), strict=True)
        return Pass(
            chunks={chunk: Candidate(document, logit, cosine) for (chunk, document), logit, cosine in found},
            lists={
                mode: tuple((chunks[row][0], score) for row, score in zip(*_plain(ranked), strict=True))
                for mode, ranked in lists.items()
            },
            milliseconds=clock.laps,
            timed=timed,
            rerank_ms=rerank_ms,
        )

    def _lists(self, generation: Generation, question: str, vector: Scores, clock: _Clock) -> dict[str, Ranked]:
        """The first ``depth`` passages of each mode."""
        deep = max(self._depth, DEPTH)
        dense = Ranked(*generation.dense.search(vector, deep))
        clock.lap("dense")
        lexical = Ranked(*generation.lexical.search(question, deep))
        clock.lap("lexical")
        similarities = generation.dense.similarities(vector, union(dense, lexical))
        hybrid = DEFAULT_FUSION(dense, lexical, similarities, self._depth)
        clock.lap("fuse")
        return {"dense": dense.first(self._depth), "lexical": lexical.first(self._depth), "hybrid": hybrid}

    def _score(self, question: str, generation: Generation, rows: Rows, timed: int) -> tuple[Scores, float]:
        """Logits of passage rows, and the milliseconds that the first ``timed`` of them took."""
        scorer, tokenizer, snapshot = self._engine.stages.scorer, self._engine.stages.tokenizer, generation.snapshot
        clock = _Clock()
        query_ids = tokenizer.encode(question)
        first = scorer.score(query_ids, snapshot.token_cache(rows[:timed])).logits
        clock.lap("rerank")
        rest = scorer.score(query_ids, snapshot.token_cache(rows[timed:])).logits
        return np.concatenate([first, rest]), clock.laps["rerank"]

    def _chunk(self, generation: Generation, row: int) -> tuple[int, str]:
        """Id of the chunk that stands for a passage, and the name of its document."""
        chunk = generation.snapshot.chunk(generation.snapshot.chunk_of(row))
        return chunk.id, self._names.get(chunk.document_id, chunk.document_id)


class _Clock:
    """Measures consecutive steps in milliseconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.laps[step] = (now - self._last) * 1e3
        self._last = now


def _union(lists: Mapping[str, Ranked], first: str) -> Rows:
    """Each row of any list once, those of mode ``first`` at the head."""
    ordered = [lists[first].rows, *(ranked.rows for mode, ranked in lists.items() if mode != first)]
    return np.fromiter(dict.fromkeys(row for rows in ordered for row in rows.tolist()), dtype=np.int64)


def _plain(ranked: Ranked) -> tuple[list[int], list[float]]:
    return ranked.rows.tolist(), ranked.scores.tolist()
