"""The native backend: the packed int8 encoder in C, run from the same ``weights.bin`` that the ONNX graph reads.

Tokens of all sequences lie one after the other, without padding; each token's activations are quantised by themselves;
so an output depends on its own tokens alone, bit for bit.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from . import _encoder, assembly
from .artifact import Artifact, TensorInfo
from .assembly import Pairs, Passages, SpecialTokens
from .backends import Scores, check_ids
from .errors import BackendError
from .threads import budget

KERNEL_VARIABLE = "RUNOFF_KERNEL"
PORTABLE = "portable"
SPAN_TOKENS = 8192


class NativeBackend:
    """Runs an 8-bit artifact with the kernel that fits this CPU. Safe to call from any number of threads.

    Args:
        artifact: the model.
        encoder: its packed weights.
        kernel: name of the kernel they are packed for.
        threads: most threads that work on one call.
    """

    name = "native"

    def __init__(self, artifact: Artifact, encoder: _encoder.Encoder, kernel: str, threads: int) -> None:
        self.kernel = kernel
        self._artifact = artifact
        self._encoder = encoder
        self._threads = threads
        self._special = SpecialTokens(artifact.cls_id, artifact.sep_id, artifact.pad_id)

    @classmethod
    def load(cls, artifact: Artifact, threads: int | None = None, kernel: str | None = None) -> NativeBackend:
        """The artifact's weights packed for a kernel: that one, or ``RUNOFF_KERNEL``, or the best that this CPU runs.

        Raises:
            BackendError: the artifact is not 8-bit, the CPU does not run the kernel, or it runs no fast one.
        """
        kernel = choose_kernel(kernel or os.environ.get(KERNEL_VARIABLE))
        _check_shape(artifact)
        return cls(artifact, packed(artifact, kernel), kernel, budget(threads))

    def score(self, query_ids: NDArray[np.int32], passages: Passages) -> Scores:
        """Logits of a query with each passage.

        Raises:
            BackendError: the model is no cross-encoder, or has no such token.
        """
        pairs = self._pairs(query_ids, passages)
        return Scores(self._run(pairs, pairs.types, 1)[:, 0], pairs.truncated, pairs.query_truncated)

    def start(self, query_ids: NDArray[np.int32], passages: Passages) -> PartialRun:
        """The same pairs before their first layer, to be taken on a few layers at a time; errors as for ``score``."""
        return PartialRun(self._artifact, self._encoder, self._pairs(query_ids, passages), self._threads)

    def embed(self, texts: Passages) -> NDArray[np.float32]:
        """A unit vector for each text.

        Raises:
            BackendError: the model is no bi-encoder, or has no such token.
        """
        self._must_be("bi-encoder")
        pairs = assembly.single(texts, self._artifact.max_length, self._special, np.int32)
        check_ids(pairs.ids, self._artifact)
        return self._run(pairs, None, self._artifact.hidden)

    def _pairs(self, query_ids: NDArray[np.int32], passages: Passages) -> Pairs:
        self._must_be("cross-encoder")
        pairs = assembly.packed(query_ids, passages, self._artifact.max_length, self._special, np.int32)
        check_ids(pairs.ids, self._artifact)
        return pairs

    def _must_be(self, kind: str) -> None:
        if self._artifact.kind != kind:
            raise BackendError(f"{self._artifact.name} is a {self._artifact.kind}; this takes a {kind}")

    def _run(self, pairs: Pairs, types: NDArray[np.int32] | None, width: int) -> NDArray[np.float32]:
        out = np.empty((len(pairs), width), dtype=np.float32)
        for first, last in _spans(pairs.widths):
            starts = pairs.offsets[first : last + 1]
            self._encoder.run(pairs.ids, types, starts, self._threads, out[first:last].reshape(-1))
        return out


class PartialRun:
    """Pairs on their way through the layers; each may stop after any layer while the others go on.

    A pair that goes all the way gets the logit of ``NativeBackend.score``, bit for bit, wherever it rested and whoever
    went with it. States rest in about 1.9 kB a token, which this object owns. For one thread at a time.

    Args:
        artifact: the model.
        encoder: its packed weights.
        pairs: assembled pairs, ids checked.
        threads: most threads that work on one call.

    Attributes:
        at: int64, shape [n]: layers that all tokens of each pair have been through.
        truncated: bool, shape [n]: whether only the passage's beginning is read.
        query_truncated: whether the query was capped.
    """

    def __init__(self, artifact: Artifact, encoder: _encoder.Encoder, pairs: Pairs, threads: int) -> None:
        self.at = np.zeros(len(pairs), dtype=np.int64)
        self.truncated = pairs.truncated
        self.query_truncated = pairs.query_truncated
        self._layers, self._hidden = artifact.layers, artifact.hidden
        self._encoder, self._pairs, self._threads = encoder, pairs, threads
        tokens = len(pairs.ids)
        self._states = np.empty((tokens, artifact.hidden), dtype=np.float32)
        self._bytes = np.empty((tokens, artifact.hidden), dtype=np.uint8)
        self._scales, self._zeros = np.empty(tokens, dtype=np.float32), np.empty(tokens, dtype=np.int32)

    def advance(self, chosen: NDArray[np.int64], layer: int) -> NDArray[np.float32]:
        """What [CLS] is after a layer before the last: that layer is computed for [CLS] alone, all before it for all.

        Args:
            chosen: int64, shape [k]: positions of pairs, each once, all at the same layer.
            layer: number of the layer, from 1.

        Returns:
            float32, shape [k, hidden]: the [CLS] states after that layer.

        Raises:
            BackendError: the pairs are not at one layer before ``layer``, or there is no such layer.
        """
        states = np.empty((len(self.at), self._hidden), dtype=np.float32)
        self._go(chosen, layer - 1, self._layers - 2, states.reshape(-1))
        return states[chosen]

    def finish(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Take some pairs to the end: their logits, float32, shape [k]; arguments and errors as for ``advance``."""
        logits = np.empty(len(self.at), dtype=np.float32)
        self._go(chosen, self._layers, self._layers, logits)
        return logits[chosen]

    def _go(self, chosen: NDArray[np.int64], last: int, most: int, out: NDArray[np.float32]) -> None:
        if not len(chosen):
            return
        if len(np.unique(chosen)) != len(chosen) or chosen.min() < 0 or chosen.max() >= len(self.at):
            raise BackendError(f"pairs: got {chosen.tolist()}; expected positions below {len(self.at)}, each once")
        first = int(self.at[chosen[0]])
        if not first <= last <= most or first == self._layers or (self.at[chosen] != first).any():
            raise BackendError(
                f"layer: got {last + 1} for pairs that have been through {sorted(set(self.at[chosen].tolist()))}; "
                f"expected pairs at one layer, and a later one up to {most + 1}"
            )
        chosen = np.ascontiguousarray(chosen, dtype=np.int64)
        pairs, states = self._pairs, (self._states, self._bytes, self._scales, self._zeros)
        self.at[chosen] = -1  # lost, should this fail half way
        for low, high in _spans(pairs.widths[chosen]):
            some = chosen[low:high]
            self._encoder.advance(pairs.ids, pairs.types, pairs.offsets, some, first, last, *states, self._threads, out)
        self.at[chosen] = last


def _spans(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Sequences first to last - 1 of each run of the C code, which hears no Ctrl-C: a second's work or two."""
    before = np.cumsum(lengths) - lengths
    firsts = np.unique(before // SPAN_TOKENS, return_index=True)[1].tolist()
    return list(zip(firsts, [*firsts[1:], len(lengths)], strict=False))


def choose_kernel(wanted: str | None) -> str:
    """Name of the kernel to run: the best that this CPU has, or ``wanted``.

    Raises:
        BackendError: this CPU does not run it, or has no instructions that make the native backend worth it.
    """
    best = str(_encoder.kernel_name(None))
    if wanted:
        if _encoder.kernel_name(wanted) is None:
            raise BackendError(f"kernel: got {wanted!r}; this CPU's best is {best}")
        return wanted
    if best == PORTABLE:
        raise BackendError(
            "the native backend wants a CPU with AVX-512 VNNI or AVX2; this one has neither. Use onnxruntime, or "
            f"{KERNEL_VARIABLE}={PORTABLE} for plain C, which is slow."
        )
    return best


def is_plain() -> bool:
    """Whether plain C is the best kernel here, and none was asked for."""
    return not os.environ.get(KERNEL_VARIABLE) and _encoder.kernel_name(None) == PORTABLE


def _check_shape(artifact: Artifact) -> None:
    """Refuse what the C code is not made for; it checks nothing itself."""
    head, panel, longest = (_encoder.LIMITS[name] for name in ("head", "panel", "tokens"))
    fits = (
        artifact.precision == "int8"
        and artifact.hidden == artifact.heads * head
        and artifact.hidden % panel == 0
        and artifact.intermediate % panel == 0
        and artifact.max_length <= longest
        and min(artifact.layers, artifact.heads, artifact.intermediate) > 0
        and (artifact.kind == "cross-encoder" or (artifact.pooling, artifact.dimensions) == ("mean", artifact.hidden))
    )
    if not fits:
        raise BackendError(
            f"{artifact.name}: {artifact.precision}, {artifact.layers} layers, {artifact.heads} heads over "
            f"{artifact.hidden}, {artifact.intermediate} wide, {artifact.max_length} tokens, pooled by "
            f"{artifact.pooling}; the native backend runs int8 artifacts with heads of {head}, widths that are "
            f"multiples of {panel}, at most {longest} tokens, and the mean over them in a bi-encoder"
        )


# Packed weights that some backend holds.
_PACKED: WeakValueDictionary[tuple[object, ...], _encoder.Encoder] = WeakValueDictionary()


def packed(artifact: Artifact, kernel: str) -> _encoder.Encoder:
    """The artifact's weights, packed for a kernel: once in a process, for all backends that run them; see ``pack``."""
    sizes = (artifact.layers, artifact.heads, artifact.hidden, artifact.intermediate, artifact.max_length)
    rest = (artifact.kind, artifact.vocabulary, artifact.layer_norm_eps, artifact.normalize)
    key = (kernel, artifact.digest, *sizes, *rest, *artifact.tensors.values())
    return _PACKED.get(key) or _PACKED.setdefault(key, pack(artifact, kernel))


def pack(artifact: Artifact, kernel: str) -> _encoder.Encoder:
    """The artifact's weights, packed for a kernel.

    Raises:
        BackendError: a tensor is missing, or of another shape or type than the model's sizes ask for.
    """
    encoder = _encoder.Encoder(
        kernel,
        artifact.layers,
        artifact.heads,
        artifact.hidden,
        artifact.intermediate,
        artifact.layer_norm_eps,
        artifact.normalize,
    )
    prefix = "bert.embeddings."
    words = _table(artifact, f"{prefix}word_embeddings.weight", artifact.vocabulary)
    places = _table(artifact, f"{prefix}position_embeddings.weight", artifact.max_length)
    encoder.set_tables(words, places, _types(artifact, f"{prefix}token_type_embeddings.weight"))
    encoder.set_norm(0, "embedding", *_norm(artifact, f"{prefix}LayerNorm"))
    for layer in range(artifact.layers):
        _pack_layer(encoder, artifact, layer)
    if artifact.kind == "cross-encoder":
        encoder.set_linear(0, "pooler", _linear(artifact, "bert.pooler.dense", artifact.hidden, artifact.hidden))
        weights, scales, bias = _linear(artifact, "classifier", artifact.hidden, 1)
        encoder.set_classifier(weights[:, 0].astype(np.float32) * scales, float(bias[0]))
    return encoder


def _pack_layer(encoder: _encoder.Encoder, artifact: Artifact, layer: int) -> None:
    prefix, hidden, wide = f"bert.encoder.layer.{layer}.", artifact.hidden, artifact.intermediate
    query, key, value = (
        _linear(artifact, f"{prefix}attention.self.{name}", hidden, hidden) for name in ("query", "key", "value")
    )
    # A key's bias adds the same to all scores of a row, and softmax takes it away again.
    encoder.set_linear(layer, "qkv", query, (*key[:2], None), value)
    encoder.set_linear(layer, "out", _linear(artifact, f"{prefix}attention.output.dense", hidden, hidden))
    encoder.set_linear(layer, "up", _linear(artifact, f"{prefix}intermediate.dense", hidden, wide))
    encoder.set_linear(layer, "down", _linear(artifact, f"{prefix}output.dense", wide, hidden))
    encoder.set_norm(layer, "attention", *_norm(artifact, f"{prefix}attention.output.LayerNorm"))
    encoder.set_norm(layer, "output", *_norm(artifact, f"{prefix}output.LayerNorm"))


def _linear(
    artifact: Artifact, name: str, inputs: int, outputs: int
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
    weights = _tensor(artifact, f"{name}.weight", (inputs, outputs), np.int8)
    return weights, _scales(artifact, f"{name}.weight", outputs), _tensor(artifact, f"{name}.bias", (outputs,))


def _scales(artifact: Artifact, name: str, count: int) -> NDArray[np.float32]:
    """One scale for each of ``count`` rows or columns."""
    scale = artifact.tensors[name].scale
    if isinstance(scale, str):
        return _tensor(artifact, scale, (count,))
    return np.full(count, scale, dtype=np.float32)


def _table(artifact: Artifact, name: str, least: int) -> tuple[NDArray[np.uint8], NDArray[np.float32], int, int]:
    """A table of at least so many rows: bytes, scales (one, or one a row), zero point, what makes bytes unsigned."""
    info = _info(artifact, name)
    rows = max(least, info.shape[0])
    values = _tensor(artifact, name, (rows, artifact.hidden), np.int8, np.uint8)
    flip = 128 if info.dtype == "int8" else 0
    scales = _scales(artifact, name, rows if isinstance(info.scale, str) else 1)
    return values.view(np.uint8), scales, info.zero_point + flip, flip


def _types(artifact: Artifact, name: str) -> NDArray[np.float32]:
    """The table of the two token types as it is meant: float32, shape [2, hidden]."""
    values = _tensor(artifact, name, (2, artifact.hidden), np.int8, np.uint8, np.float32).astype(np.float32)
    info = _info(artifact, name)
    if info.scale is not None:
        values = (values - np.float32(info.zero_point)) * _scales(artifact, name, 2)[:, None]
    return values


def _norm(artifact: Artifact, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    gain, shift = (_tensor(artifact, f"{name}.{part}", (artifact.hidden,)) for part in ("weight", "bias"))
    return gain, shift


def _tensor(artifact: Artifact, name: str, shape: tuple[int, ...], *dtypes: type) -> NDArray[Any]:
    """A tensor of just this shape, or of one that is flat the same, and of one of these types, else float32."""
    wanted, info = [np.dtype(dtype).name for dtype in dtypes or (np.float32,)], _info(artifact, name)
    if info.dtype not in wanted or tuple(size for size in info.shape if size > 1) != tuple(n for n in shape if n > 1):
        raise BackendError(
            f"{artifact.name}: {name} is {info.dtype} of shape {info.shape}; the native backend expected "
            f"{' or '.join(wanted)} of shape {shape}"
        )
    return np.ascontiguousarray(artifact.load(name)).reshape(shape)


def _info(artifact: Artifact, name: str) -> TensorInfo:
    if name not in artifact.tensors:
        raise BackendError(f"{artifact.name}: no tensor {name}, which the native backend reads")
    return artifact.tensors[name]
