"""The runoff against the clock: the candidates that a deadline leaves time for, where they change the ranking most.

A plan is made from the costs of the pairs, and corrected while it is carried out: before each step the clock says how
many may go on. What was not reached keeps the first stage's order below the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from . import exits, plans, windows
from .assembly import MIN_PASSAGE, SPECIALS, Passages
from .backends import Backend, LayeredBackend, Scores, StartedPairs
from .costs import Costs, Milliseconds, Pace
from .deadlines import Deadline
from .exits import ExitHeads

# What is kept back: what turning scores into a result takes at most, and a share of the deadline, since the last step
# is as uncertain as it is long.
RESERVE_MS, RESERVE_SHARE = 3.0, 0.03
# A further share for another caller at work: how the cores are dealt out is then for the system to say.
COMPANY_SHARE = 0.08
# Steps shorter than this say nothing about the pace.
SHORTEST_MS = 1.0
# What pairs that can leave early take of the work of finishing them all, about.
SHARE = 0.75
# What a layer of which only [CLS] is wanted costs of one: keys and values for all tokens, the rest for one.
PEEK = 0.2
# The share of the time left that a step without a look at the clock may be expected to take, unless it is the last.
STEP = 0.6

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Timed:
    """What became of the candidates.

    Attributes:
        scores: with ``reached`` and ``windowed`` set.
        planned_ms: when the plan was to be done, from the arrival of the call.
    """

    scores: Scores
    planned_ms: float


class Clocked:
    """Scores pairs of one model within deadlines. Thread-safe.

    Args:
        backend: runs the model.
        heads: for early exit, or None.
        costs: what its pairs cost on this machine.
        layers: the model's layers.
        max_length: most tokens that it reads.
        sentence_ends: int32: ids of the word pieces that end a sentence.
    """

    def __init__(
        self,
        backend: Backend,
        heads: ExitHeads | None,
        costs: Costs,
        layers: int,
        max_length: int,
        sentence_ends: NDArray[np.int32],
    ) -> None:
        self.costs = costs
        self.pace = Pace()
        self._backend = backend
        self._heads = heads if isinstance(backend, LayeredBackend) else None
        self._layers, self._max_length = layers, max_length
        self._sentence_ends = sentence_ends

    def score(
        self,
        query_ids: NDArray[np.int32],
        passages: Passages,
        deadline: Deadline,
        *,
        prune: bool,
        offsets: Floats,
        top_n: int,
    ) -> Timed:
        """Logits of as many passages as there is time for, the first ones first.

        Args:
            query_ids: int32: the query's word-piece ids.
            passages: in the first stage's order.
            deadline: when the answer is wanted.
            prune: whether passages that cannot be among the best leave early even where there is time.
            offsets: float32, shape [n]: what will be added to each logit to rank the passages.
            top_n: places at the top that matter most.
        """
        with self.pace:
            query = min(len(query_ids), self._max_length - MIN_PASSAGE - SPECIALS)
            share = SHARE if self._heads is not None else 1.0
            factor = self.pace.factor
            reserve = _reserve(deadline, self.pace)
            budget = max(0.0, deadline.remaining() - reserve) / factor
            plan = plans.choose(self.costs, query, passages.lengths, self._max_length, budget, share)
            planned = deadline.spent() + plan.milliseconds * factor + reserve
            read = passages.take(np.arange(plan.count))
            if plan.window is not None:
                read = windows.narrow(query_ids, read, plan.window, self._sentence_ends)
            work = self.costs.pairs(np.minimum(read.lengths.astype(np.int64) + query + SPECIALS, self._max_length))
            watch = _Watch(self.costs, self.pace, deadline, factor)
            spoken = np.flatnonzero(read.lengths)
            outcome = _Outcome(len(passages), read.lengths == 0)
            leaving = self._heads is not None and (prune or not watch.unhurried(work[spoken]))
            if leaving and len(spoken) <= exits.WAVE_PAIRS:
                self._by_layers(outcome, watch, query_ids, read, work, spoken, prune, offsets, top_n)
            else:
                self._by_waves(outcome, watch, query_ids, read, work, spoken)
            windowed = np.zeros(len(passages), dtype=np.bool_)
            windowed[: plan.count] = read.lengths < passages.lengths[: plan.count]
            return Timed(outcome.scores(windowed & outcome.reached), planned)

    def _by_layers(
        self,
        outcome: _Outcome,
        watch: _Watch,
        query_ids: NDArray[np.int32],
        read: Passages,
        work: Milliseconds,
        rows: Indices,
        prune: bool,
        offsets: Floats,
        top_n: int,
    ) -> None:
        """All candidates at once, and at each exit as many of them go on as there is time for."""
        if not len(rows):
            return
        assert isinstance(self._backend, LayeredBackend)
        assert self._heads is not None
        watched = _WatchedPairs(self._backend.start(query_ids, read.take(rows)), watch, work[rows], self._layers)
        found = exits.run(
            watched, self._heads, offsets[rows], min(top_n, exits.PROTECTED), prune=prune, afford=watched.afford
        )
        started = watched.pairs
        outcome.take(rows, found.logits, started.truncated, started.query_truncated, found.layers)

    def _by_waves(
        self,
        outcome: _Outcome,
        watch: _Watch,
        query_ids: NDArray[np.int32],
        read: Passages,
        work: Milliseconds,
        rows: Indices,
    ) -> None:
        """Some candidates after the others, the first stage's best first, until the time is over."""
        while len(rows):
            fit = watch.affordable(work[rows])
            size = (
                fit if watch.unhurried(work[rows]) else max(watch.affordable(work[rows], STEP), 2 * self.costs.threads)
            )
            wave, rows = rows[: min(fit, size)], rows[min(fit, size) :]
            if not len(wave):
                return
            expected = self.costs.wall(work[wave])
            scores = watch.step(expected, partial(self._backend.score, query_ids, read.take(wave)))
            outcome.take(wave, scores.logits, scores.truncated, scores.query_truncated)


def _reserve(deadline: Deadline, pace: Pace) -> float:
    share = RESERVE_SHARE + COMPANY_SHARE * (pace.running > 1)
    return RESERVE_MS + share * deadline.milliseconds


class _Watch:
    """Knows what time there is, and how fast this query gets on."""

    def __init__(self, costs: Costs, pace: Pace, deadline: Deadline, factor: float) -> None:
        self._costs, self._pace, self._deadline, self._factor = costs, pace, deadline, factor

    def step(self, expected: float, do: Callable[[], Value]) -> Value:
        """Do a step that should take so many milliseconds on an idle machine, and learn from how long it took."""
        running = self._pace.running
        began = time.perf_counter()
        value = do()
        took = (time.perf_counter() - began) * 1e3
        if expected >= SHORTEST_MS:
            running = max(running, self._pace.running)
            self._pace.learn(expected, took, running)
            self._factor = (self._factor + took / expected) / 2
        return value

    def wall(self, work: Milliseconds) -> float:
        """Milliseconds until the work is done, on an idle machine."""
        return self._costs.wall(work)

    def affordable(self, work: Milliseconds, share: float = 1.0) -> int:
        """How many of these pairs, from the first, there is time for in a share of what is left."""
        left = share * (self._deadline.remaining() - _reserve(self._deadline, self._pace)) / self._factor
        return self._costs.fitting(work, left)

    def unhurried(self, work: Milliseconds) -> bool:
        """Whether all of these pairs fit in a part of what is left."""
        return self.affordable(work, STEP) == len(work)


class _WatchedPairs:
    """Pairs on their way through the layers, with an eye on the clock.

    A layer of which only [CLS] is wanted costs ``PEEK`` of one; the last is such a layer too.
    """

    def __init__(self, pairs: StartedPairs, watch: _Watch, work: Milliseconds, layers: int) -> None:
        self.pairs = pairs
        self._watch, self._layers = watch, layers
        self._layer_work = work / (layers - 1 + PEEK)
        self._at = np.zeros(len(work))

    def advance(self, chosen: Indices, layer: int) -> Floats:
        """As ``LayeredPairs.advance``."""
        expected = self._wall(chosen, layer - 1 - self._at[chosen] + PEEK)
        self._at[chosen] = layer - 1
        return self._watch.step(expected, lambda: self.pairs.advance(chosen, layer))

    def finish(self, chosen: Indices) -> Floats:
        """As ``LayeredPairs.finish``."""
        expected = self._wall(chosen, self._layers - 1 - self._at[chosen] + PEEK)
        return self._watch.step(expected, lambda: self.pairs.finish(chosen))

    def afford(self, layer: int, chosen: Indices) -> int:
        """How many of these pairs, at this layer and the most promising first, can be taken to the end in time."""
        return self._watch.affordable(self._layer_work[chosen] * (self._layers - layer + PEEK))

    def _wall(self, chosen: Indices, layers: NDArray[np.float64]) -> float:
        return self._watch.wall(self._layer_work[chosen] * layers)


class _Outcome:
    """Scores as they come in."""

    def __init__(self, count: int, blank: NDArray[np.bool_]) -> None:
        self.reached = np.zeros(count, dtype=np.bool_)
        self.reached[: len(blank)] = blank
        self._logits = np.zeros(count, dtype=np.float32)
        self._truncated = np.zeros(count, dtype=np.bool_)
        self._layers = np.zeros(count, dtype=np.int64)
        self._query_truncated = False

    def take(
        self,
        rows: Indices,
        logits: Floats,
        truncated: NDArray[np.bool_],
        query_truncated: bool,
        layers: Indices | int = 0,
    ) -> None:
        """Note the logits of some rows."""
        self._logits[rows], self._truncated[rows], self._layers[rows] = logits, truncated, layers
        self.reached[rows] = True
        self._query_truncated |= query_truncated

    def scores(self, windowed: NDArray[np.bool_]) -> Scores:
        """All that is known; what was not reached has 0 for a logit, which means nothing."""
        return Scores(self._logits, self._truncated, self._query_truncated, self._layers, self.reached, windowed)
