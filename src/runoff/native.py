"""The native backend: the packed int8 encoder in C, run from the same ``weights.bin`` that the ONNX graph reads.

Tokens of all sequences lie one after the other, without padding; each token's activations are quantised by themselves;
so an output depends on its own tokens alone, bit for bit.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from . import _encoder, assembly
from .artifact import Artifact
from .assembly import Pairs, Passages, SpecialTokens
from .backends import Scores
from .errors import BackendError
from .threads import budget

KERNEL_VARIABLE = "RUNOFF_KERNEL"
PORTABLE = "portable"


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
    def load(cls, artifact: Artifact, threads: int | None = None) -> NativeBackend:
        """Pack the artifact's weights for the best kernel that this CPU runs, or the one in ``RUNOFF_KERNEL``.

        Raises:
            BackendError: the artifact is not 8-bit, or the CPU runs no fast kernel.
        """
        kernel = choose_kernel(os.environ.get(KERNEL_VARIABLE))
        _check_shape(artifact)
        return cls(artifact, pack(artifact, kernel), kernel, budget(threads))

    def score(self, query_ids: NDArray[np.int32], passages: Passages) -> Scores:
        """Logits of a query with each passage."""
        pairs = assembly.packed(query_ids, passages, self._artifact.max_length, self._special, np.int32)
        logits = np.empty(len(pairs), dtype=np.float32)
        self._run(pairs.ids, pairs.types, pairs.offsets, logits)
        return Scores(logits, pairs.truncated, pairs.query_truncated)

    def start(self, query_ids: NDArray[np.int32], passages: Passages) -> PartialRun:
        """The same pairs before their first layer, to be taken on a few layers at a time."""
        pairs = assembly.packed(query_ids, passages, self._artifact.max_length, self._special, np.int32)
        self._check_ids(pairs.ids)
        return PartialRun(self._artifact, self._encoder, pairs, self._threads)

    def embed(self, texts: Passages) -> NDArray[np.float32]:
        """A unit vector for each text."""
        pairs = assembly.single(texts, self._artifact.max_length, self._special)
        vectors = np.empty((len(pairs), self._artifact.dimensions), dtype=np.float32)
        self._run(pairs.ids.astype(np.int32), None, pairs.offsets, vectors.reshape(-1))
        return vectors

    def _run(
        self,
        ids: NDArray[np.int32],
        types: NDArray[np.int32] | None,
        offsets: NDArray[np.int64],
        out: NDArray[np.float32],
    ) -> None:
        if not len(out):
            return
        self._check_ids(ids)
        self._encoder.run(ids, types, offsets, self._threads, out)

    def _check_ids(self, ids: NDArray[np.int32]) -> None:
        if not len(ids):
            return
        if ids.min() < 0 or ids.max() >= self._artifact.vocabulary:
            raise BackendError(
                f"{self._artifact.name}: token id {ids.min() if ids.min() < 0 else ids.max()}; expected 0 to "
                f"{self._artifact.vocabulary - 1}. The token cache is damaged or of another model."
            )


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
        self._encoder.advance(pairs.ids, pairs.types, pairs.offsets, chosen, first, last, *states, self._threads, out)
        self.at[chosen] = last


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
            "the native backend wants a CPU with AVX-512 VNNI or AVX2; this one has neither. Use onnxruntime."
        )
    return best


def _check_shape(artifact: Artifact) -> None:
    """Refuse what the C code is not made for; it checks nothing itself."""
    head, panel, longest = (_encoder.LIMITS[name] for name in ("head", "panel", "tokens"))
    fits = (
        artifact.precision == "int8"
        and artifact.hidden == artifact.heads * head
        and artifact.hidden % panel == 0
        and artifact.intermediate % panel == 0
        and artifact.max_length <= longest
    )
    if not fits:
        raise BackendError(
            f"{artifact.name}: {artifact.precision}, {artifact.heads} heads over {artifact.hidden}, "
            f"{artifact.intermediate} wide, {artifact.max_length} tokens; the native backend runs int8 artifacts with "
            f"heads of {head}, widths that are multiples of {panel} and at most {longest} tokens"
        )


def pack(artifact: Artifact, kernel: str) -> _encoder.Encoder:
    """The artifact's weights, packed for a kernel."""
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
    words, places = (_table(artifact, f"{prefix}{name}_embeddings.weight") for name in ("word", "position"))
    encoder.set_tables(words, places, _dense(artifact, f"{prefix}token_type_embeddings.weight"))
    encoder.set_norm(0, "embedding", *_norm(artifact, f"{prefix}LayerNorm"))
    for layer in range(artifact.layers):
        _pack_layer(encoder, artifact, layer)
    if artifact.kind == "cross-encoder":
        encoder.set_linear(0, "pooler", _linear(artifact, "bert.pooler.dense"))
        weights, scales, bias = _linear(artifact, "classifier")
        encoder.set_classifier(weights[:, 0].astype(np.float32) * scales, float(bias[0]))
    return encoder


def _pack_layer(encoder: _encoder.Encoder, artifact: Artifact, layer: int) -> None:
    prefix = f"bert.encoder.layer.{layer}."
    query, key, value = (_linear(artifact, f"{prefix}attention.self.{name}") for name in ("query", "key", "value"))
    # A key's bias adds the same to all scores of a row, and softmax takes it away again.
    encoder.set_linear(layer, "qkv", query, (*key[:2], None), value)
    encoder.set_linear(layer, "out", _linear(artifact, f"{prefix}attention.output.dense"))
    encoder.set_linear(layer, "up", _linear(artifact, f"{prefix}intermediate.dense"))
    encoder.set_linear(layer, "down", _linear(artifact, f"{prefix}output.dense"))
    encoder.set_norm(layer, "attention", *_norm(artifact, f"{prefix}attention.output.LayerNorm"))
    encoder.set_norm(layer, "output", *_norm(artifact, f"{prefix}output.LayerNorm"))


def _linear(artifact: Artifact, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
    weights = np.ascontiguousarray(artifact.load(f"{name}.weight"))
    scales = _scales(artifact, f"{name}.weight", weights.shape[1])
    return weights, scales, np.ascontiguousarray(artifact.load(f"{name}.bias"))


def _scales(artifact: Artifact, name: str, count: int) -> NDArray[np.float32]:
    scale = artifact.tensors[name].scale
    if isinstance(scale, str):
        return np.ascontiguousarray(artifact.load(scale).reshape(-1))
    return np.full(count, scale, dtype=np.float32)


def _table(artifact: Artifact, name: str) -> tuple[NDArray[np.uint8], NDArray[np.float32], int, int]:
    """A table's bytes, scales, zero point and what turns its bytes into unsigned ones."""
    info = artifact.tensors[name]
    flip = 128 if info.dtype == "int8" else 0
    return artifact.load(name).view(np.uint8), _scales(artifact, name, 1), info.zero_point + flip, flip


def _dense(artifact: Artifact, name: str) -> NDArray[np.float32]:
    info = artifact.tensors[name]
    values = artifact.load(name).astype(np.float32)
    if info.scale is None:
        return np.ascontiguousarray(values)
    scale = artifact.load(info.scale) if isinstance(info.scale, str) else np.float32(info.scale)
    return np.ascontiguousarray((values - np.float32(info.zero_point)) * scale)


def _norm(artifact: Artifact, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.array(artifact.load(f"{name}.weight")), np.array(artifact.load(f"{name}.bias"))
