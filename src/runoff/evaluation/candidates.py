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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine
from ..reranker import check_count, check_query


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


class EngineCandidates:
    """Candidate passes over an engine's store.

    Args:
        engine: whose stages and store are used.
        depth: chunks that each first stage hands over, at least 1.
        names: what to call documents by stored id; those without a name keep the id.
    """

    steps: Mapping[str, tuple[str, ...]] = {"dense": ("embed", "dense")}

    def __init__(self, engine: Engine, depth: int, names: Mapping[str, str] | None = None) -> None:
        check_count("candidates", depth)
        self._names = names or {}
        self._engine = engine
        self._depth = depth

    def candidates(self, question: str, timed: str) -> Pass:
        """The pass of a question, its runoff timed over the list of mode ``timed``.

        Raises:
            QueryError: the question is blank.
            StoreError: there is no store, or it is damaged.
        """
        check_query(question)
        generation, stages = self._engine.store.current(), self._engine.stages
        encoder, clock = stages.encoder, _Clock()
        vector = encoder.encode([question])[0]
        clock.lap("embed")
        rows, similarities = generation.index.search(vector, self._depth)
        clock.lap("dense")
        lists = {"dense": (rows, similarities)}
        union = _union(lists, timed)
        logits, rerank_ms = self._score(question, union, len(lists[timed][0]))
        snapshot = generation.snapshot
        cosines = snapshot.vectors[union] @ vector
        ids = snapshot.chunks["id"]
        stored = [bytes(key).decode("ascii") for key in snapshot.documents["id"][snapshot.chunks["document"][union]]]
        documents = [self._names.get(key, key) for key in stored]
        found = zip(ids[union].tolist(), documents, logits.tolist(), cosines.tolist(), strict=True)
        return Pass(
            chunks={chunk: Candidate(document, logit, cosine) for chunk, document, logit, cosine in found},
            lists={mode: tuple(zip(ids[r].tolist(), s.tolist(), strict=True)) for mode, (r, s) in lists.items()},
            milliseconds=clock.laps,
            timed=timed,
            rerank_ms=rerank_ms,
        )

    def _score(self, question: str, rows: NDArray[np.int64], timed: int) -> tuple[NDArray[np.float32], float]:
        """Logits of chunk rows, and the milliseconds that the first ``timed`` of them took."""
        stages, snapshot = self._engine.stages, self._engine.store.current().snapshot
        scorer, tokenizer = stages.scorer, stages.tokenizer
        clock = _Clock()
        query_ids = tokenizer.encode(question)
        first = scorer.score(query_ids, snapshot.passages(rows[:timed])).logits
        clock.lap("rerank")
        rest = scorer.score(query_ids, snapshot.passages(rows[timed:])).logits
        return np.concatenate([first, rest]), clock.laps["rerank"]


class _Clock:
    """Measures consecutive steps in milliseconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.laps[step] = (now - self._last) * 1e3
        self._last = now


def _union(lists: Mapping[str, tuple[NDArray[np.int64], Any]], first: str) -> NDArray[np.int64]:
    """Each row of any list once, those of mode ``first`` at the head."""
    ordered = [lists[first][0], *(rows for mode, (rows, _) in lists.items() if mode != first)]
    return np.fromiter(dict.fromkeys(row for rows in ordered for row in rows.tolist()), dtype=np.int64)
