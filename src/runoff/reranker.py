"""The runoff: a cross-encoder reads the query and each candidate together and decides."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from . import backends, costs, cpu, exits, models
from .artifact import Artifact
from .assembly import Passages
from .backends import Backend, LayeredBackend, Scores, Selected, StartedPairs
from .calibration import Calibration
from .deadlines import Deadline, Report, check_deadline
from .encoder import as_texts, open_as
from .errors import BackendError, QueryError
from .exits import ExitHeads
from .threads import budget
from .timed import Clocked, Timed
from .tokenizer import Tokenizer

# The logit of a passage without a single token: below what any model of this kind gives, and finite.
BLANK_LOGIT = -30.0
SENTENCE_ENDS = ". ! ?"
EXACT, FAST = EFFORTS = ("exact", "fast")


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked passage.

    Attributes:
        text: the passage.
        index: its place in the list that was given.
        logit: the cross-encoder's output, or what it was predicted to be; finite. None where a deadline left no time
            for the passage.
        score: the logit's sigmoid, 0..1; 0 without a logit.
        truncated: whether only the passage's beginning was read.
        query_truncated: whether only the query's beginning was read.
        exit_layer: layer after which the pair left with a predicted logit; None where the logit is final.
        windowed: whether only a window of the passage was read, for want of time.
    """

    text: str
    index: int
    logit: float | None
    score: float
    truncated: bool
    query_truncated: bool = False
    exit_layer: int | None = None
    windowed: bool = False


class Ranking(list[Hit]):
    """Hits, best first, and what it took to rank them.

    Attributes:
        scored: how many of the passages have a logit that is the model's own, of the passage or of a window of it.
        time: what became of the deadline.
    """

    def __init__(self, hits: Iterable[Hit], scored: int, time: Report) -> None:
        super().__init__(hits)
        self.scored = scored
        self.time = time


class CrossEncoder:
    """Scores tokenised passages against a tokenised query. Thread-safe.

    Attributes:
        artifact: the model.
        tokenizer: its tokenizer.
        backend: name of what runs it.
        backend_reason: why that was chosen.
        exits: heads for early exit, or None where the model has none.
        calibrations: what its scores are worth as probabilities, one for each weight of the similarity; may be none.
        identity: what an exact logit depends on beside the pair.
    """

    def __init__(
        self,
        artifact: Artifact,
        tokenizer: Tokenizer,
        selected: Selected,
        heads: ExitHeads | None = None,
        threads: int | None = None,
        calibrations: tuple[Calibration, ...] = (),
    ) -> None:
        self.artifact = artifact
        self.tokenizer = tokenizer
        self.backend = selected.backend.name
        self.backend_reason = selected.reason
        self.exits = heads
        self.calibrations = calibrations
        self.identity = backends.identity(artifact, selected.backend)
        self._backend: Backend = selected.backend
        self._threads = threads
        self._guard = threading.Lock()
        self._clocked: Clocked | None = None

    @classmethod
    def load(
        cls,
        model: str | Artifact = models.DEFAULT_CROSS_ENCODER,
        *,
        backend: str = backends.AUTO,
        threads: int | None = None,
        exits: bool = True,
    ) -> CrossEncoder:
        """Load a cross-encoder by name, folder or artifact, with its heads for early exit unless ``exits`` is False.

        Raises:
            ModelError: there is no such model, it is damaged, or no cross-encoder; or its heads or calibrations are
                another model's.
            BackendError: the backend cannot run it here.
        """
        artifact = open_as(model, "cross-encoder")
        tokenizer = Tokenizer.load(artifact.tokenizer_path, limit=threads)
        selected = backends.select(artifact, backend, threads, tokenizer=tokenizer)
        heads = ExitHeads.find(artifact) if exits else None
        return cls(artifact, tokenizer, selected, heads, threads, Calibration.find(artifact))

    @property
    def kernel(self) -> str:
        """Name of the native backend's kernel; empty on another backend."""
        return backends.kernel(self._backend)

    def start(self, query_ids: NDArray[np.int32], passages: Passages) -> StartedPairs:
        """Pairs before their first layer, to be taken on a few layers at a time.

        Raises:
            BackendError: the backend cannot stop between layers.
        """
        if not isinstance(self._backend, LayeredBackend):
            raise BackendError(f"{self.backend} cannot stop between layers; expected the native backend to run here")
        return self._backend.start(query_ids, passages)

    @property
    def efforts(self) -> tuple[str, ...]:
        """What this model does on this backend: ``exact``, and ``fast`` where there are heads and layers to stop at."""
        layered = self.exits is not None and isinstance(self._backend, LayeredBackend)
        return EFFORTS if layered else EFFORTS[:1]

    def score(
        self,
        query_ids: NDArray[np.int32],
        passages: Passages,
        *,
        effort: str = EXACT,
        top_n: int = exits.PROTECTED,
        offsets: NDArray[np.float32] | None = None,
    ) -> Scores:
        """Logits of a query with each passage.

        An exact logit depends on nothing but the pair. With ``effort="fast"`` passages that cannot reach the top any
        more stop early and get a predicted logit; all others get the exact one, and which they are depends on the query
        and the passages alone. Where ``efforts`` has no ``fast``, all logits are exact.

        Args:
            query_ids: int32: the query's word-piece ids, without special tokens.
            passages: rows of a token cache.
            effort: ``exact`` or ``fast``.
            top_n: places at the top that matter most; ``fast`` protects as many, up to 5.
            offsets: float32, shape [n]: what will be added to each logit to rank the passages; None adds nothing.

        Raises:
            QueryError: there is no such effort.
            BackendError: the model gave a number that is not finite.
        """
        check_effort(effort)
        if not len(passages):
            return Scores(np.empty(0, np.float32), np.empty(0, bool), False)
        scores = self._scores(query_ids, passages, effort, top_n, offsets)
        return self._sound(scores, passages)

    def score_within(
        self,
        query_ids: NDArray[np.int32],
        passages: Passages,
        deadline: Deadline,
        *,
        effort: str = EXACT,
        top_n: int = exits.PROTECTED,
        offsets: NDArray[np.float32] | None = None,
    ) -> Timed:
        """Logits of as many passages as a deadline leaves time for, the first ones first.

        Where time is short, passages leave early once they are unlikely to win, then windows of passages are read
        instead of all of them, and then the last passages are not read at all; see docs/deadlines.md. Where there is
        time enough, the scores are those of ``score``.

        Args:
            deadline: when the answer is wanted; a deadline that has passed leaves no time.
            query_ids, passages, effort, top_n, offsets: as for ``score``.

        Raises:
            QueryError, BackendError: as for ``score``.
        """
        check_effort(effort)
        added = np.zeros(len(passages), np.float32) if offsets is None else offsets
        prune = effort == FAST
        timed = self.clocked.score(query_ids, passages, deadline, prune=prune, offsets=added, top_n=top_n)
        return replace(timed, scores=self._sound(timed.scores, passages))

    @property
    def clocked(self) -> Clocked:
        """What keeps deadlines. The first use on a machine takes half a second, in which costs are measured."""
        with self._guard:
            if self._clocked is None:
                artifact, threads = self.artifact, budget(self._threads)
                key = f"{artifact.digest} {self.backend} {self.kernel} {threads} threads, {cpu.model_name()}"
                measured = costs.known(key, partial(costs.measure, self._backend.score, threads))
                ends = self.tokenizer.encode(SENTENCE_ENDS)
                self._clocked = Clocked(self._backend, self.exits, measured, artifact.layers, artifact.max_length, ends)
            return self._clocked

    def _sound(self, scores: Scores, passages: Passages) -> Scores:
        if not np.isfinite(scores.logits).all():
            raise BackendError(f"{self.backend} gave a logit of {self.artifact.name} that is not finite")
        return replace(scores, logits=np.where(passages.lengths == 0, np.float32(BLANK_LOGIT), scores.logits))

    def _scores(
        self,
        query_ids: NDArray[np.int32],
        passages: Passages,
        effort: str,
        top_n: int,
        offsets: NDArray[np.float32] | None,
    ) -> Scores:
        if effort == EXACT or self.exits is None or not isinstance(self._backend, LayeredBackend):
            return self._backend.score(query_ids, passages)
        added = np.zeros(len(passages), np.float32) if offsets is None else offsets
        return exits.score(self._backend, self.exits, query_ids, passages, added, min(top_n, exits.PROTECTED))


class Reranker:
    """Ranks plain strings, without a store.

    >>> Reranker.load().rank("how many people live in Berlin?", passages, top_n=3)  # doctest: +SKIP
    """

    def __init__(self, encoder: CrossEncoder) -> None:
        self.encoder = encoder

    @classmethod
    def load(
        cls,
        model: str | Artifact = models.DEFAULT_CROSS_ENCODER,
        *,
        backend: str = backends.AUTO,
        threads: int | None = None,
    ) -> Reranker:
        """Load a reranker; arguments and errors as for ``CrossEncoder.load``."""
        return cls(CrossEncoder.load(model, backend=backend, threads=threads))

    @property
    def backend(self) -> str:
        """Name of what runs the model."""
        return self.encoder.backend

    def rank(
        self,
        query: str,
        passages: Sequence[str],
        top_n: int = 5,
        *,
        effort: str = EXACT,
        deadline_ms: float | None = None,
    ) -> Ranking:
        """The ``top_n`` passages that answer the query best, by logit, ties in the order given.

        Args:
            query: what is asked; text that is not blank.
            passages: candidates; blank ones rank last; none gives an empty list.
            top_n: number of hits wanted, at least 1.
            effort: ``exact``, or ``fast``, which stops early at passages that cannot be among the best any more; see
                ``CrossEncoder.score``.
            deadline_ms: milliseconds in which the ranking is wanted, or None. Passages that there is no time for come
                last, as they were given, so give the most promising first; see docs/deadlines.md.

        Raises:
            QueryError: the query is blank, ``top_n`` is below 1, there is no such effort, a passage is not a string, or
                the deadline is not above 0.
        """
        arrived = time.perf_counter()
        check_query(query)
        check_deadline("deadline_ms", deadline_ms)
        check_count("top_n", top_n)
        passages = as_texts("passages", passages)
        tokenizer = self.encoder.tokenizer
        cached = Passages.pack(tokenizer.encode_batch(passages))
        query_ids, planned = tokenizer.encode(query), None
        if deadline_ms is None:
            scores = self.encoder.score(query_ids, cached, effort=effort, top_n=top_n)
        else:
            deadline = Deadline(deadline_ms, arrived)
            timed = self.encoder.score_within(query_ids, cached, deadline, effort=effort, top_n=top_n)
            scores, planned = timed.scores, timed.planned_ms
        return ranking(passages, scores, top_n, deadline_ms, arrived, planned)


def ranking(
    passages: Sequence[str],
    scores: Scores,
    top_n: int,
    deadline_ms: float | None,
    arrived: float,
    planned_ms: float | None,
) -> Ranking:
    """The ``top_n`` best passages by their scores, ties in the order given."""
    hits = [_hit(passages[i], i, scores) for i in scores.order()[:top_n].tolist()]
    return Ranking(hits, int(scores.final.sum()), Report.now(deadline_ms, arrived, planned_ms))


def sigmoid(logit: float) -> float:
    """Logistic function, 0..1, without overflow."""
    if logit >= 0:
        return 1.0 / (1.0 + math.exp(-logit))
    power = math.exp(logit)
    return power / (1.0 + power)


def check_query(query: object) -> None:
    """Refuse a query that is not text, or blank.

    Raises:
        QueryError: says what came.
    """
    if not isinstance(query, str) or not query.strip():
        raise QueryError(f"query: got {query!r}; expected text with at least one visible character")


def check_count(name: str, value: object) -> None:
    """Refuse what is not a whole number of at least 1.

    Raises:
        QueryError: names the setting and its value.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise QueryError(f"{name}: got {value!r}; expected a whole number of at least 1")


def check_effort(effort: object) -> None:
    """Refuse an effort that there is not.

    Raises:
        QueryError: names it.
    """
    if effort not in EFFORTS:
        raise QueryError(f"effort: got {effort!r}; expected {' or '.join(EFFORTS)}")


def _hit(text: str, index: int, scores: Scores) -> Hit:
    logit = float(scores.logits[index]) if scores.has_logit(index) else None
    return Hit(
        text=text,
        index=index,
        logit=logit,
        score=0.0 if logit is None else sigmoid(logit),
        truncated=bool(scores.truncated[index]),
        query_truncated=scores.query_truncated,
        exit_layer=scores.exit_layer(index),
        windowed=scores.is_windowed(index),
    )
