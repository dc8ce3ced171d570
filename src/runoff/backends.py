"""What runs an artifact: the protocol, the onnxruntime backend, and the choice between those that there are.

A backend takes token ids and gives logits or vectors, each of which depends on its own tokens alone: bit for bit the
same in any batch, in any order, on any number of threads.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from . import assembly, planner
from .artifact import Artifact, Golden
from .assembly import Pairs, Passages, SpecialTokens
from .errors import BackendError
from .session import Session
from .threads import Workers, budget, shared
from .tokenizer import Tokenizer

Vectors = NDArray[np.float32]

AUTO = "auto"
PADDED_RUN_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Scores:
    """Logits of pairs of one query with many passages.

    Attributes:
        logits: float32, shape [n], finite.
        truncated: bool, shape [n]: whether only the passage's beginning was read.
        query_truncated: whether the query was capped.
        exits: int64, shape [n]: layer after which a pair left with a predicted logit; 0 where the logit is final.
            None where all are.
        reached: bool, shape [n]: whether there was time for a pair; where not, its logit means nothing. None where
            there was for all.
        windowed: bool, shape [n]: whether only a window of the passage was read for want of time. None where nowhere.
    """

    logits: NDArray[np.float32]
    truncated: NDArray[np.bool_]
    query_truncated: bool
    exits: NDArray[np.int64] | None = None
    reached: NDArray[np.bool_] | None = None
    windowed: NDArray[np.bool_] | None = None

    def exit_layer(self, position: int) -> int | None:
        """Layer after which a pair left, or None where its logit is final."""
        return (int(self.exits[position]) or None) if self.exits is not None else None

    def has_logit(self, position: int) -> bool:
        """Whether a pair has a logit, its own or a prediction."""
        return self.reached is None or bool(self.reached[position])

    @property
    def reach(self) -> NDArray[np.bool_]:
        """bool, shape [n]: which pairs have a logit, their own or a prediction."""
        return np.ones(len(self.logits), dtype=bool) if self.reached is None else self.reached

    def is_windowed(self, position: int) -> bool:
        """Whether only a window of a pair's passage was read."""
        return self.windowed is not None and bool(self.windowed[position])

    def order(self, values: NDArray[Any] | None = None, ties: NDArray[Any] | None = None) -> NDArray[np.int64]:
        """Positions, best first; those that were not reached come last, as they were given.

        Args:
            values: shape [n]: what to order by; None takes the logits.
            ties: shape [n]: smaller ones go first among equals; None takes the order given.
        """
        by, places = (self.logits if values is None else values), np.arange(len(self.logits))
        among = places if ties is None else ties
        if self.reached is None:
            return np.lexsort((among, -by))
        missed = ~self.reached
        return np.lexsort((np.where(missed, places, among), np.where(missed, 0, -by), missed))

    @property
    def final(self) -> NDArray[np.bool_]:
        """Which logits are the model's own: bool, shape [n]."""
        reached = np.ones(len(self.logits), np.bool_) if self.reached is None else self.reached
        return reached if self.exits is None else reached & (self.exits == 0)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which logits are the model's own of all that it reads of a pair: bool, shape [n]."""
        return self.final if self.windowed is None else self.final & ~self.windowed


class LayeredPairs(Protocol):
    """Pairs of one query on their way through the layers, which any of them may leave; see ``native.PartialRun``."""

    def advance(self, chosen: NDArray[np.int64], layer: int) -> Vectors: ...
    def finish(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]: ...


class StartedPairs(LayeredPairs, Protocol):
    """The same, and what was cut to make them fit."""

    truncated: NDArray[np.bool_]
    query_truncated: bool


class Backend(Protocol):
    """Runs one artifact. Safe to call from any number of threads.

    What every backend owes is in tests/test_encoders.py, which runs over all that ``BACKENDS`` names. Token ids may
    come from a damaged cache: one that the vocabulary does not have is a ``BackendError``, never a crash.
    """

    @property
    def name(self) -> str:
        """Name that ``--backend`` takes."""
        ...

    def score(self, query_ids: NDArray[np.int32], passages: Passages) -> Scores:
        """Logits of a query with each passage (cross-encoders)."""
        ...

    def embed(self, texts: Passages) -> Vectors:
        """A unit vector for each text, float32, shape [n, dimensions] (bi-encoders)."""
        ...


@runtime_checkable
class LayeredBackend(Backend, Protocol):
    """A backend that can take pairs on a few layers at a time."""

    def start(self, query_ids: NDArray[np.int32], passages: Passages) -> StartedPairs:
        """Pairs before their first layer."""
        ...


class OnnxRuntimeBackend:
    """Runs the artifact's ONNX graph, one sequence a run on one thread, runs spread over the workers.

    Dynamic quantisation scales activations over all that is in a batch, padding included; a run of one unpadded
    sequence is what keeps scores independent, and it is the fastest plan too (benchmarks/rerank_plan.py).

    Args:
        artifact: the model.
        session: a session over its graph.
        workers: threads to spread runs over.
    """

    name = "onnxruntime"

    def __init__(self, artifact: Artifact, session: Session, workers: Workers) -> None:
        self._artifact = artifact
        self._session = session
        self._workers = workers
        self._special = SpecialTokens(artifact.cls_id, artifact.sep_id, artifact.pad_id)

    @classmethod
    def load(cls, artifact: Artifact, threads: int | None = None) -> OnnxRuntimeBackend:
        """Load the artifact's graph.

        Raises:
            BackendError: onnxruntime is missing or cannot read the graph.
        """
        return cls(artifact, Session.load(artifact.graph_path), shared(budget(threads)))

    def score(self, query_ids: NDArray[np.int32], passages: Passages) -> Scores:
        """Logits of a query with each passage."""
        pairs = assembly.packed(query_ids, passages, self._artifact.max_length, self._special)
        logits = self._run(pairs, ()).reshape(len(pairs))
        return Scores(logits, pairs.truncated, pairs.query_truncated)

    def score_padded(self, query_ids: NDArray[np.int32], passages: Passages) -> Scores:
        """Logits from runs of pairs of similar length, padded to one width.

        Only for fp32 artifacts: there padding changes some logits by about 1e-6 (sums over a row are split otherwise),
        in an 8-bit one by tenths. So ``score`` is what keeps the promise that a pair's logit is its own, and this is
        for those who can do without it and have many short passages, where it takes about 0.6 of the time.

        Raises:
            BackendError: the artifact is quantised, or as for ``score``.
        """
        if self._artifact.precision != "fp32":
            raise BackendError(f"{self._artifact.name} is {self._artifact.precision}; padded runs take fp32 artifacts")
        max_length = self._artifact.max_length
        whole = assembly.packed(query_ids, passages, max_length, self._special)
        check_ids(whole.ids, self._artifact)
        plan = planner.batched(whole.widths, self._workers.count, PADDED_RUN_TOKENS)
        logits = np.empty(len(whole), dtype=np.float32)

        def run(bounds: tuple[int, int]) -> None:
            chosen = plan.order[bounds[0] : bounds[1]]
            pairs = assembly.padded(query_ids, passages.take(chosen), max_length, self._special)
            logits[chosen] = self._session.run(*pairs.batch(0, len(pairs))).reshape(-1)

        self._workers.run(run, plan.runs)
        return Scores(logits, whole.truncated, whole.query_truncated)

    def embed(self, texts: Passages) -> Vectors:
        """A unit vector for each text."""
        pairs = assembly.single(texts, self._artifact.max_length, self._special)
        return self._run(pairs, (self._artifact.dimensions,))

    def _run(self, pairs: Pairs, shape: tuple[int, ...]) -> NDArray[np.float32]:
        check_ids(pairs.ids, self._artifact)
        output = np.empty((len(pairs), *shape), dtype=np.float32)
        plan = planner.one_by_one(pairs.widths)

        def run(bounds: tuple[int, int]) -> None:
            position = int(plan.order[bounds[0]])
            output[position] = self._session.run(*pairs.batch(position, position + 1)).reshape(shape)

        self._workers.run(run, plan.runs)
        return output


def check_ids(ids: NDArray[Any], artifact: Artifact) -> None:
    """Refuse token ids that the model has no row for; onnxruntime would take negative ones from the table's end.

    Raises:
        BackendError: names the first such id.
    """
    outside = ids[(ids < 0) | (ids >= artifact.vocabulary)]
    if len(outside):
        raise BackendError(
            f"{artifact.name}: token id {outside[0]}; expected 0 to {artifact.vocabulary - 1}. "
            "The token cache is damaged or of another model."
        )


def kernel(backend: Backend) -> str:
    """Name of the native backend's kernel; empty for another backend."""
    return str(getattr(backend, "kernel", ""))


def together(*names: str) -> str:
    """Names of what runs several models, each once: ``native``, or ``native, onnxruntime`` where one fell back."""
    return ", ".join(dict.fromkeys(name for name in names if name))


def identity(artifact: Artifact, backend: Backend) -> str:
    """What outputs depend on beside the input: the model's digest, and what runs it, as no two round alike."""
    return f"{artifact.digest} {backend.name} {kernel(backend)}"


Factory = Callable[[Artifact, int | None], Backend]


def _native(artifact: Artifact, threads: int | None) -> Backend:
    from .native import NativeBackend

    return NativeBackend.load(artifact, threads)


def _plain(artifact: Artifact, threads: int | None) -> Backend:
    from .native import PORTABLE, NativeBackend

    return NativeBackend.load(artifact, threads, PORTABLE)


# Name to what loads it, in the order in which `auto` tries them. A further backend is a class with the members of
# `Backend` and one entry here; its factory raises BackendError where the machine lacks what it takes. The contract
# suite and `auto` then know it.
BACKENDS: dict[str, Factory] = {"native": _native, "onnxruntime": OnnxRuntimeBackend.load}

_SELF_TEST_INPUTS = slice(0, 12, 3)


@dataclass(frozen=True, slots=True)
class Selected:
    """A backend that passed the artifact's golden self-test, and why it was taken.

    Attributes:
        backend: what runs the artifact.
        reason: why it was taken, for people.
        self_test_ms: how long the self-test took.
    """

    backend: Backend
    reason: str
    self_test_ms: float = 0.0


def select(
    artifact: Artifact, backend: str = AUTO, threads: int | None = None, *, tokenizer: Tokenizer | None = None
) -> Selected:
    """Load the backend of that name, or the best that passes the golden self-test on this machine.

    The best is the native one where it has a kernel made for the CPU; elsewhere what is faster, its plain C or
    onnxruntime, by a short input.

    Args:
        artifact: the model.
        backend: ``"auto"`` or a name in ``BACKENDS``.
        threads: upper bound on threads, or None.
        tokenizer: the artifact's, where it is loaded already.

    Raises:
        BackendError: no such backend, it cannot run here, or it misses the golden outputs.
    """
    tokenizer = tokenizer or Tokenizer.load(artifact.tokenizer_path, limit=threads)
    if backend != AUTO:
        return _passing(BACKENDS[_known(backend)](artifact, threads), artifact, tokenizer, "asked for; it")
    misses: list[str] = []
    order, why = _order(artifact, threads, tokenizer)
    for name, factory in order.items():
        try:
            found = _passing(factory(artifact, threads), artifact, tokenizer, why)
        except BackendError as error:
            misses.append(f"{name}: {error}")
            continue
        if misses:
            warnings.warn(f"{artifact.name} runs on {name}, since {'; '.join(misses)}", RuntimeWarning, stacklevel=3)
        return replace(found, reason="; ".join([found.reason, *misses]))
    raise BackendError(f"{artifact.name}: no backend can run it here ({'; '.join(misses)})")


def _order(artifact: Artifact, threads: int | None, tokenizer: Tokenizer) -> tuple[dict[str, Factory], str]:
    """What `auto` tries, the first first, and why: the native backend, or where that is plain C, what is faster."""
    from .native import is_plain

    if not is_plain():
        return BACKENDS, f"the first of {', '.join(BACKENDS)} that"
    took: dict[str, float] = {}
    loaded: dict[str, Factory] = {}
    for name, factory in (BACKENDS | {"native": _plain}).items():
        try:
            backend = factory(artifact, threads)
            took[name], loaded[name] = _speed(backend, artifact, tokenizer), partial(_ready, backend)
        except BackendError:  # met again, and told, where its turn comes
            took[name], loaded[name] = math.inf, factory
    order = sorted(loaded, key=lambda name: took[name])
    times = ", ".join(f"{name} {took[name]:.0f} ms" for name in order if took[name] < math.inf)
    return {name: loaded[name] for name in order}, f"the fastest ({times} for a short input) that"


def _ready(backend: Backend, artifact: Artifact, threads: int | None) -> Backend:
    return backend


def _speed(backend: Backend, artifact: Artifact, tokenizer: Tokenizer) -> float:
    """Milliseconds for the shortest golden input, the better of two."""
    took = []
    for _ in range(2):
        began = time.perf_counter()
        golden_outputs(artifact, backend, _sample(artifact.golden)[:1], tokenizer)
        took.append((time.perf_counter() - began) * 1e3)
    return min(took)


def golden_outputs(artifact: Artifact, backend: Backend, positions: Sequence[int], tokenizer: Tokenizer) -> Vectors:
    """Outputs of a backend for the artifact's golden inputs at ``positions``: float32 vectors or logits."""
    inputs: list[Any] = [artifact.golden.inputs[position] for position in positions]
    if artifact.kind == "bi-encoder":
        return backend.embed(Passages.pack(tokenizer.encode_batch(inputs)))
    logits = [
        backend.score(tokenizer.encode(query), Passages.pack([tokenizer.encode(passage)])).logits
        for query, passage in inputs
    ]
    return np.concatenate(logits)


def _known(name: str) -> str:
    if name not in BACKENDS:
        raise BackendError(f"backend: got {name!r}; this installation has {', '.join(BACKENDS)}; choose one or {AUTO}")
    return name


def _passing(backend: Backend, artifact: Artifact, tokenizer: Tokenizer, why: str) -> Selected:
    """The backend after its self-test: a few golden inputs, as all of them take as long as a query."""
    began = time.perf_counter()
    golden = artifact.golden
    positions = _sample(golden)
    chosen = tuple(golden.inputs[position] for position in positions)
    wanted = replace(golden, inputs=chosen, outputs=golden.outputs[positions])
    error = wanted.worst(golden_outputs(artifact, backend, positions, tokenizer))
    if not error <= golden.tolerance:
        raise BackendError(
            f"{backend.name} misses {artifact.name}'s golden outputs by {error:.3g} ({golden.metric}); "
            f"expected at most {golden.tolerance:g}"
        )
    took = (time.perf_counter() - began) * 1e3
    return Selected(backend, f"{why} passes the golden self-test ({len(positions)} inputs, {took:.0f} ms)", took)


def _sample(golden: Golden) -> list[int]:
    """Positions of a few inputs of different, but not great, length."""
    by_length = sorted(range(len(golden.inputs)), key=lambda position: len("".join(golden.inputs[position])))
    return by_length[_SELF_TEST_INPUTS]
