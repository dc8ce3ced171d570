"""Fits exit heads to a cross-encoder from text without labels: the teacher is the model's own final logit.

Each query meets the passages that the first stage finds for it, as it will when the heads are in use. All that is said
about a head (its penalty, its spread, what it keeps) comes from queries that it was not fitted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .assembly import Passages
from .backends import LayeredPairs
from .errors import ModelError
from .exits import PROTECTED, ExitHead, ExitHeads, Indices, lift, run

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Start = Callable[[NDArray[np.int32], Passages], LayeredPairs]
Pair = tuple[NDArray[np.int32], Passages, Floats]

FIRST_EXIT = 6
KNOTS = 8


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How heads are fitted.

    Attributes:
        layers: after which layers pairs may leave; heads before layer 6 do not carry to text of another kind.
        margin: spreads between a prediction and its bounds. With the default, heads kept 0.97 of the exact top three
            and nDCG@10 within 0.005 on each of three collections that they had not seen (benchmarks/early_exit.py).
        margin_alone: the same for an order by logits alone; the default kept the same there.
        top_n: places at the top that pruning protects while its agreement with the exact order is measured.
        places: how many of the first places are compared.
        folds: parts of the queries, each predicted from the others.
        penalties: ridge penalties to choose from, per row, on standardised states.
        seed: of the division into folds.
    """

    layers: tuple[int, ...] = (6, 8, 9)
    margin: float = 0.5
    margin_alone: float = 0.9
    top_n: int = PROTECTED
    places: int = 3
    folds: int = 5
    penalties: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the model did with many pairs.

    Attributes:
        states: by layer, float32, shape [pairs, hidden]: [CLS] states.
        logits: float32, shape [pairs]: final logits.
        offsets: float32, shape [pairs]: what ranking adds to them, a share of the first stage's similarity.
        queries: int64, shape [pairs]: number of each pair's query.
    """

    states: Mapping[int, Floats] = field(repr=False)
    logits: Floats = field(repr=False)
    offsets: Floats = field(repr=False)
    queries: Indices = field(repr=False)

    def take(self, rows: NDArray[Any]) -> Evidence:
        """The pairs at some rows."""
        states = {layer: states[rows] for layer, states in self.states.items()}
        return Evidence(states, self.logits[rows], self.offsets[rows], self.queries[rows])

    def by_query(self) -> Iterator[Evidence]:
        """The pairs of each query."""
        order = np.argsort(self.queries, kind="stable")
        _, firsts = np.unique(self.queries[order], return_index=True)
        yield from map(self.take, np.split(order, firsts[1:]))


class Replay:
    """Pairs of one query whose states are known already; behaves like pairs that a model takes through its layers."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def advance(self, chosen: Indices, layer: int) -> Floats:
        """The [CLS] states after a layer."""
        return self._evidence.states[layer][chosen]

    def finish(self, chosen: Indices) -> Floats:
        """The final logits."""
        return self._evidence.logits[chosen]


def gather(
    start: Start,
    pairs: Sequence[Pair],
    layers: Sequence[int],
    progress: Callable[[int, int], None] | None = None,
) -> Evidence:
    """Take the pairs of many queries through the model and note states and logits.

    Args:
        start: a backend's ``start``.
        pairs: for each query its token ids, its candidates and what ranking adds to their logits.
        layers: after which layers to note [CLS] states.
        progress: called with queries done and queries in all.
    """
    states: list[list[Floats]] = []
    logits: list[Floats] = []
    for done, (query, passages, _) in enumerate(pairs, start=1):
        everyone = np.arange(len(passages))
        running = start(query, passages)
        states.append([running.advance(everyone, layer) for layer in layers])
        logits.append(running.finish(everyone))
        if progress is not None:
            progress(done, len(pairs))
    queries = np.repeat(np.arange(len(pairs)), [len(passages) for _, passages, _ in pairs])
    by_layer = {layer: np.concatenate([row[i] for row in states]) for i, layer in enumerate(layers)}
    return Evidence(by_layer, np.concatenate(logits), np.concatenate([offsets for *_, offsets in pairs]), queries)


def fit(evidence: Evidence, model: str, settings: FitSettings, about: Mapping[str, Any]) -> ExitHeads:
    """Heads for a model, from what it did with many pairs; the same evidence and seed give the same heads.

    Args:
        evidence: at least a few hundred queries.
        model: the model's digest.
        settings: how.
        about: what the evidence was made from, for the record.

    Raises:
        ModelError: there are fewer queries than folds.
    """
    folds = _folds(evidence.queries, settings)
    chosen = {layer: _best_penalty(evidence, layer, folds, settings) for layer in settings.layers}
    parts = [
        (evidence.take(~inside), evidence.take(inside)) for inside in (folds == fold for fold in range(settings.folds))
    ]
    doubts = {layer: _doubt(parts, layer, chosen[layer]) for layer in settings.layers}
    fitted = [_heads(rest, chosen, doubts) for rest, _ in parts]
    kept = [
        agreement(query, ExitHeads(own, settings.margin, settings.margin_alone, model), settings)
        for own, (_, part) in zip(fitted, parts, strict=True)
        for query in part.by_query()
    ]
    record = {
        **about,
        "queries": len(np.unique(evidence.queries)),
        "pairs": len(evidence.logits),
        "settings": asdict(settings),
        "penalties": {str(layer): penalty for layer, penalty in chosen.items()},
        "agreement_out_of_fold": round(float(np.mean(kept)), 4),
    }
    return ExitHeads(_heads(evidence, chosen, doubts), settings.margin, settings.margin_alone, model, record)


def _folds(queries: Indices, settings: FitSettings) -> Indices:
    """The fold of each pair; all pairs of a query are in one."""
    known, places = np.unique(queries, return_inverse=True)
    if len(known) < settings.folds:
        raise ModelError(f"queries: got {len(known)}; expected at least {settings.folds}, better a thousand")
    order = np.random.default_rng(settings.seed).permutation(len(known))
    return np.asarray(order[places] % settings.folds)


def _heads(evidence: Evidence, penalties: Mapping[int, float], doubts: Mapping[int, _Doubt]) -> tuple[ExitHead, ...]:
    heads = []
    for layer, penalty in penalties.items():
        weights, bias = _Moments.of(evidence.states[layer], evidence.logits).solve(penalty)
        doubt = doubts[layer]
        heads.append(ExitHead(layer, weights.astype(np.float32), bias, doubt.share, doubt.knots, doubt.spread))
    return tuple(heads)


def _best_penalty(evidence: Evidence, layer: int, folds: Indices, settings: FitSettings) -> float:
    """The penalty with the least squared error on queries that were left out."""
    errors = dict.fromkeys(settings.penalties, 0.0)
    states, logits = evidence.states[layer], evidence.logits
    for fold in range(settings.folds):
        inside = folds == fold
        moments = _Moments.of(states[~inside], logits[~inside])
        for penalty in settings.penalties:
            weights, bias = moments.solve(penalty)
            errors[penalty] += float(np.square(states[inside] @ weights + bias - logits[inside]).sum())
    return min(errors, key=lambda penalty: errors[penalty])


@dataclass(frozen=True, slots=True)
class _Doubt:
    """What a head gets wrong on queries that it was not fitted on, and the share of the offsets that explains it."""

    share: float
    knots: Floats
    spread: Floats


def _doubt(parts: Sequence[tuple[Evidence, Evidence]], layer: int, penalty: float) -> _Doubt:
    """Slope of the error on offsets within queries; the rest's deviation by prediction, in bins of equal size."""
    guesses, errors, lifts = [], [], []
    for rest, part in parts:
        weights, bias = _Moments.of(rest.states[layer], rest.logits).solve(penalty)
        for query in part.by_query():
            guesses.append(query.states[layer] @ weights + bias)
            errors.append(query.logits - guesses[-1])
            lifts.append(lift(query.offsets).astype(np.float64))
    varied = np.concatenate([each - each.mean() for each in lifts])
    guess, error, lifted = np.concatenate(guesses), np.concatenate(errors), np.concatenate(lifts)
    variation = float(varied @ varied)
    share = float(varied @ error) / variation if variation else 0.0
    guess, error = guess + share * lifted, error - share * lifted
    bins = np.array_split(np.argsort(guess, kind="stable"), KNOTS)
    knots = [guess[rows].mean() for rows in bins]
    spread = [np.sqrt(np.square(error[rows]).mean()) for rows in bins]
    return _Doubt(share, np.array(knots, dtype=np.float32), np.array(spread, dtype=np.float32))


def agreement(query: Evidence, exits: ExitHeads, settings: FitSettings) -> float:
    """Share of a query's exact first places that are first after pruning."""
    outcome = run(Replay(query), exits, query.offsets, settings.top_n)
    exact, pruned = (
        np.argsort(-(logits + query.offsets), kind="stable")[: settings.places]
        for logits in (query.logits, outcome.logits)
    )
    return len(np.intersect1d(exact, pruned)) / len(exact)


@dataclass(frozen=True, slots=True)
class _Moments:
    """What a ridge regression needs to know about its rows, so that a further penalty costs one solution."""

    rows: int
    mean: Doubles
    scale: Doubles
    products: Doubles
    targets: Doubles
    offset: float

    @classmethod
    def of(cls, states: Floats, logits: Floats) -> _Moments:
        mean, scale = states.mean(axis=0, dtype=np.float64), states.std(axis=0, dtype=np.float64) + 1e-6
        z = (states - mean) / scale
        offset = float(logits.mean(dtype=np.float64))
        return cls(len(states), mean, scale, z.T @ z, z.T @ (logits - offset), offset)

    def solve(self, penalty: float) -> tuple[Doubles, float]:
        """Weights on the states as they are, and the bias."""
        ridge = self.products + penalty * self.rows * np.eye(len(self.mean))
        weights = np.linalg.solve(ridge, self.targets) / self.scale
        return weights, self.offset - float(self.mean @ weights)
