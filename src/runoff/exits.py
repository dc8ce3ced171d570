"""Early exit: guess a pair's final logit from its [CLS] state half way, and let those leave that cannot win any more.

A head is a ridge regression from the [CLS] state after one layer to the final logit, with what the first stage's
similarity adds to that and the spread of what it gets wrong. ``exits.json`` beside a model holds the heads of its
layers; a model without that file runs exactly, as ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .artifact import Artifact, blank_head, seal, unseal
from .assembly import Passages
from .backends import LayeredBackend, LayeredPairs, Scores
from .errors import ModelError

FILE = "exits.json"
FORMAT_VERSION = 1
# Places at the top that pruning protects, where the caller wants as many. Below them predictions decide.
PROTECTED = 5
# Pairs that are under way at once: with 512 tokens each their states take 63 MB.
WAVE_PAIRS = 64
# Logits by which a capped prediction ranks below the top: more than any rounding.
GAP = 1e-3

NO_RIVALS = np.empty(0, dtype=np.float32)

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
Afford = Callable[[int, Indices], int]


@dataclass(frozen=True, slots=True)
class ExitHead:
    """Predicts the final logit after one layer.

    Attributes:
        layer: layers that a pair has been through.
        weights: float32, shape [hidden].
        bias: added to the product of state and weights.
        share: of what will be added to a pair's logit to rank it, above the median of its query's pairs; so much more
            the logit will be than state and bias say.
        knots: float32, shape [k], ascending: predictions at which the spread is known.
        spread: float32, shape [k]: standard deviation of final logit minus prediction there; between knots it is
            interpolated, beyond them constant.
    """

    layer: int
    weights: Floats = field(repr=False)
    bias: float
    share: float
    knots: Floats = field(repr=False)
    spread: Floats = field(repr=False)

    def predict(self, states: Floats, lifts: Floats) -> tuple[Floats, Floats]:
        """Final logits as they look from here, and their standard deviations.

        Each row is summed by itself, so that a prediction does not depend on who else is asked about, and in double
        precision, since large terms cancel.

        Args:
            states: float32, shape [n, hidden]: [CLS] states after ``layer``.
            lifts: float32, shape [n]: how far each pair's offset is above the median of its query's.
        """
        products = states.astype(np.float64) * self.weights
        logits = (products.sum(axis=1) + self.bias + self.share * lifts.astype(np.float64)).astype(np.float32)
        return logits, np.interp(logits, self.knots, self.spread).astype(np.float32)


@dataclass(frozen=True, slots=True)
class ExitHeads:
    """The heads of one model, by layer.

    Attributes:
        heads: ascending by layer.
        margin: spreads that a pair's bounds lie above and below its prediction.
        margin_alone: the same where logits alone rank, which lie closer together than with similarity added.
        model: digest of the model that they were fitted for.
        fitted: how, on what, with what result; for people.
    """

    heads: tuple[ExitHead, ...]
    margin: float
    margin_alone: float
    model: str
    fitted: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def find(cls, artifact: Artifact) -> ExitHeads | None:
        """The heads beside a model, or None where it has none; errors as for ``read``."""
        path = artifact.path / FILE
        return cls.read(path, artifact) if path.exists() else None

    @classmethod
    def read(cls, path: Path, artifact: Artifact) -> ExitHeads:
        """Read heads that were written by ``write``.

        Raises:
            ArtifactDamagedError: the file differs from its own digest.
            ModelError: it is of another model or format.
        """
        said = json.loads(unseal(path, path.read_bytes()))
        if said.get("format_version") != FORMAT_VERSION:
            raise ModelError(
                f"{path}: format version {said.get('format_version')!r}, this version of runoff reads {FORMAT_VERSION};"
                " fit the exits again"
            )
        if said.get("model_digest") != artifact.digest:
            raise ModelError(
                f"{path}: fitted for another model ({str(said.get('model_digest'))[:12]}...), expected "
                f"{artifact.digest[:12]}... ({artifact.name}); fit the exits again, or remove the file"
            )
        try:
            heads = tuple(_head(entry, artifact) for entry in said["heads"])
            return cls(heads, float(said["margin"]), float(said["margin_alone"]), said["model_digest"], said["fitted"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path}: not as expected ({error!r}); fit the exits again") from error

    def write(self, path: Path) -> None:
        """Write the heads as JSON that carries its own SHA-256, a head a line."""
        lines = {
            "format_version": FORMAT_VERSION,
            "model_digest": self.model,
            "margin": self.margin,
            "margin_alone": self.margin_alone,
            "fitted": dict(self.fitted),
        }
        body = "".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)},\n" for key, value in lines.items())
        heads = ",\n".join(json.dumps(_entry(head)) for head in self.heads)
        path.write_bytes(seal(blank_head() + f'{body}"heads": [\n{heads}\n]}}\n'.encode()))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How each pair ended.

    Attributes:
        logits: float32, shape [n]: final logits, or capped predictions of those that left.
        layers: int64, shape [n]: layer after which a pair left; 0 where its logit is final.
    """

    logits: Floats
    layers: Indices


def score(
    backend: LayeredBackend,
    exits: ExitHeads,
    query_ids: NDArray[np.int32],
    passages: Passages,
    offsets: Floats,
    top_n: int,
) -> Scores:
    """Final logits of the passages that may be among the best, predicted ones of the others.

    Pairs go in waves of ``WAVE_PAIRS``, which bounds the memory of states at rest; a wave competes with the survivors
    of those before it too. Passages without tokens take no part and get 0.

    Args:
        backend: runs the model.
        exits: the model's heads.
        query_ids: int32: the query's word-piece ids, without special tokens.
        passages: rows of a token cache.
        offsets: as for ``run``.
        top_n: as for ``run``.
    """
    count = len(passages)
    logits, layers, truncated = np.zeros(count, np.float32), np.zeros(count, np.int64), np.zeros(count, np.bool_)
    spoken = np.flatnonzero(passages.lengths)
    query_truncated, rivals = False, NO_RIVALS
    for rows in np.split(spoken, range(WAVE_PAIRS, len(spoken), WAVE_PAIRS)):
        pairs = backend.start(query_ids, passages.take(rows))
        outcome = run(pairs, exits, offsets[rows], top_n, rivals)
        logits[rows], layers[rows], truncated[rows] = outcome.logits, outcome.layers, pairs.truncated
        rivals = np.concatenate([rivals, (outcome.logits + offsets[rows])[outcome.layers == 0]])
        query_truncated |= pairs.query_truncated
    return Scores(logits, truncated, query_truncated, layers)


def run(
    pairs: LayeredPairs,
    exits: ExitHeads,
    offsets: Floats,
    top_n: int,
    rivals: Floats = NO_RIVALS,
    *,
    prune: bool = True,
    afford: Afford | None = None,
) -> Outcome:
    """Take pairs through the model, and let those leave early that cannot reach the top any more.

    After each exit a pair leaves when its upper bound is below the lower bounds of ``top_n`` others. Its prediction is
    capped to rank below the ``top_n`` best of those that stayed, since that is what it left for: heads are fitted on
    other text, and there all predictions may be too high. The outcome depends on the pairs alone, unless ``afford``
    lets fewer go on.

    Args:
        pairs: before their first layer.
        exits: the model's heads.
        offsets: float32, shape [n]: what will be added to a pair's logit to rank it, such as a share of the first
            stage's similarity.
        top_n: places at the top that have to be right.
        rivals: float32, shape [m]: known logits, offset included, of further pairs that are in the same contest.
        prune: False keeps those too that cannot reach the top, unless ``afford`` does not.
        afford: told the number of an exit's layer and those who would go on, the most promising first, it says how many
            of them may. None lets all go on.
    """
    logits, layers = np.empty(len(offsets), dtype=np.float32), np.zeros(len(offsets), dtype=np.int64)
    alive, lifts = np.arange(len(offsets)), lift(offsets)
    margin = exits.margin if offsets.any() else exits.margin_alone
    for head in exits.heads:
        if afford is None and len(alive) + len(rivals) <= top_n:
            break
        guesses, spread = head.predict(pairs.advance(alive, head.layer), lifts[alive])
        values, bound = guesses + offsets[alive], margin * spread
        stays = values + bound >= _nth_best(np.concatenate([values - bound, rivals]), top_n if prune else len(offsets))
        if afford is not None:
            promising = np.flatnonzero(stays)[np.argsort(-(values + bound)[stays], kind="stable")]
            stays[promising[afford(head.layer, alive[promising]) :]] = False
        logits[alive[~stays]], layers[alive[~stays]] = guesses[~stays], head.layer
        alive = alive[stays]
    logits[alive] = pairs.finish(alive)
    left = layers > 0
    if left.any():
        finished = np.concatenate([logits[alive] + offsets[alive], rivals])
        cap = _nth_best(finished, top_n) - GAP
        logits[left] = np.minimum(logits[left], cap - offsets[left])
    return Outcome(logits, layers)


def lift(offsets: Floats) -> Floats:
    """How far each offset is above the median of all, which does not depend on their order."""
    return offsets - np.float32(np.median(offsets)) if len(offsets) else offsets


def _nth_best(values: Floats, count: int) -> float:
    """The ``count``-th largest value, or the least where there are not so many; infinite where there is none."""
    if not len(values):
        return np.inf
    place = min(count, len(values))
    return float(np.partition(values, -place)[-place])


def _head(entry: Mapping[str, Any], artifact: Artifact) -> ExitHead:
    weights, knots, spread = (np.array(entry[name], dtype=np.float32) for name in ("weights", "knots", "spread"))
    if weights.shape != (artifact.hidden,) or not 0 < entry["layer"] < artifact.layers or knots.shape != spread.shape:
        raise ValueError(f"head after layer {entry['layer']} with {weights.shape} weights")
    return ExitHead(int(entry["layer"]), weights, float(entry["bias"]), float(entry["share"]), knots, spread)


def _entry(head: ExitHead) -> dict[str, Any]:
    numbers = {name: [float(f"{x:.9g}") for x in getattr(head, name)] for name in ("weights", "knots", "spread")}
    return {"layer": head.layer, "bias": head.bias, "share": head.share, **numbers}
