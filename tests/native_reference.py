"""The native encoder's arithmetic in plain NumPy, one sequence at a time: what its kernels are compared with.

Integers (bytes of activations, products, scores, probabilities) come out exactly as the C code has them. Where rounding
of float32 decides an integer, the order of operations is that of the kernel: sums run over as many lanes as its vectors
have, and a multiply-add rounds once or twice. Everything else is as BERT says: https://arxiv.org/abs/1810.04805.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

HEAD = 32
PROBABILITY_MAX = 4095
VALUE_MAX = 1023
SCORE_FACTOR = np.float32(1.44269504089) * np.float32(0.17677669530)  # log2(e) / sqrt(HEAD)
LOG2_PROBABILITY_MAX = np.float32(11.99964774)
TINY = np.float32(1e-30)
# Highest degree first: 2^f on [0, 1), and log2 of the normal distribution below b <= 0.
EXP2 = (0.013534166850149632, 0.05201146379113197, 0.2414427548646927, 0.6930038332939148, 1.0000026226043701)
LOG2_TAIL = (
    0.00047329529537,
    0.00708446977660,
    0.05182718858123,
    -0.45999261736870,
    1.15078783035278,
    -1.00003767013550,
)


@dataclass(frozen=True)
class Rows:
    """Rows of bytes: a row stands for (value - zero) * scale."""

    values: Ints
    scale: Floats
    zero: Ints

    def __getitem__(self, rows: slice) -> Rows:
        return Rows(self.values[rows], self.scale[rows], self.zero[rows])


@dataclass(frozen=True)
class Linear:
    """A fully connected layer: weights of a byte as float64 [in, out], a scale and a bias for each column."""

    weights: NDArray[np.float64]
    scale: Floats
    bias: Floats


@dataclass(frozen=True)
class Head:
    """What one head knows of a sequence: signed bytes of queries and keys, values as float32.

    A query's scale holds log2(e) / sqrt(HEAD), so that scores are exponents of two.
    """

    query: Ints
    query_scale: Floats
    key: Ints
    key_scale: Floats
    value: Floats


@dataclass(frozen=True)
class Attention:
    """One head's integers on the way, and its output [queries, HEAD]."""

    scores: Ints
    weights: Ints
    values: Ints
    out: Floats


@dataclass(frozen=True)
class Arithmetic:
    """What the instruction sets do not share: lanes of a vector, and whether a multiply-add rounds once."""

    lanes: int
    fused: bool

    def multiply_add(self, a: Any, b: Any, c: Any) -> Floats:
        """a * b + c. A product of two float32 is exact in float64."""
        if self.fused:
            return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)
        return np.multiply(a, b, dtype=np.float32) + np.float32(c)

    def fold(self, lanes: Floats) -> Floats:
        """Sum of the last axis, a vector's lanes: the upper half onto the lower one until one is left."""
        while lanes.shape[-1] > 1:
            half = lanes.shape[-1] // 2
            lanes = lanes[..., :half] + lanes[..., half:]
        return lanes[..., 0]

    def total(self, x: Floats) -> Floats:
        """Sum of each row."""
        lanes = np.zeros((*x.shape[:-1], self.lanes), np.float32)
        for i in range(0, x.shape[-1], self.lanes):
            lanes = lanes + x[..., i : i + self.lanes]
        return self.fold(lanes)

    def total_of_squares(self, x: Floats) -> Floats:
        """Sum of each row's squares."""
        lanes = np.zeros((*x.shape[:-1], self.lanes), np.float32)
        for i in range(0, x.shape[-1], self.lanes):
            part = x[..., i : i + self.lanes]
            lanes = self.multiply_add(part, part, lanes)
        return self.fold(lanes)

    def polynomial(self, coefficients: tuple[float, ...], x: Floats) -> Floats:
        """By Horner's rule; far from zero it overflows to an infinity of the right sign."""
        y = np.full_like(x, coefficients[0])
        with np.errstate(over="ignore"):
            for coefficient in coefficients[1:]:
                y = self.multiply_add(y, x, np.float32(coefficient))
        return y

    def exp2(self, x: Floats) -> Floats:
        """2^x for x <= 14; nothing below 2^-126 matters to the callers."""
        x = np.maximum(x, np.float32(-126))
        whole = np.floor(x)
        return np.ldexp(self.polynomial(EXP2, x - whole), whole.astype(np.int32))

    def gelu(self, x: Floats) -> Floats:
        """x * P(X <= x) for a normal X."""
        b = -np.abs(x)
        return self.multiply_add(b, self.exp2(self.polynomial(LOG2_TAIL, b)), np.maximum(x, np.float32(0)))

    def normalise(self, x: Floats, gain: Floats, shift: Floats, epsilon: float) -> Floats:
        """Layer norm."""
        width = np.float32(x.shape[-1])
        centred = x - (self.total(x) / width)[:, None]
        factor = np.float32(1) / np.sqrt(self.total_of_squares(centred) / width + np.float32(epsilon))
        return self.multiply_add(centred * factor[:, None], gain, shift)

    def mean(self, x: Floats, normalize: bool) -> Floats:
        """Mean of the rows, of unit length on request."""
        total = np.zeros(x.shape[1], np.float32)
        for row in x:
            total = total + row
        mean = total / np.float32(len(x))
        length = np.sqrt(self.total_of_squares(mean))
        return mean * (np.float32(1) / length) if normalize and length > np.float32(1e-12) else mean

    def linear(self, rows: Rows, layer: Linear) -> Floats:
        """The layer's output: products of integers, zero points taken off, scaled, and the bias."""
        zero = (-rows.scale * rows.zero.astype(np.float32))[:, None]
        sums = layer.weights.sum(axis=0).astype(np.float32) * layer.scale
        shift = self.multiply_add(sums, zero, layer.bias)
        return self.multiply_add(
            products(rows.values, layer.weights).astype(np.float32), layer.scale * rows.scale[:, None], shift
        )

    def attend(self, head: Head) -> Attention:
        """Softmax over scores of bytes; probabilities of 12 bits, values of 11."""
        scores = products(head.query, head.key.T)
        exponents = scores.astype(np.float32) * (head.query_scale[:, None] * head.key_scale)
        shift = exponents.max(axis=1, keepdims=True) - LOG2_PROBABILITY_MAX
        weights = integers(self.exp2(exponents - shift))
        most = np.maximum(np.abs(head.value).max(axis=0), TINY)
        values = integers(head.value * (np.float32(VALUE_MAX) / most))
        inverse = np.float32(1) / weights.sum(axis=1).astype(np.float32)
        mixed = products(weights, values).astype(np.float32)
        return Attention(scores, weights, values, mixed * (inverse[:, None] * (most / np.float32(VALUE_MAX))))


ARITHMETIC = {"avx512vnni": Arithmetic(16, True), "avx2": Arithmetic(8, True), "portable": Arithmetic(4, False)}


def integers(x: Floats) -> Ints:
    """Nearest integers, halves to the even one."""
    return np.rint(x).astype(np.int64)


def products(a: NDArray[Any], b: NDArray[Any]) -> Ints:
    """Matrix product of whole numbers, exact: no sum comes near 2^53."""
    return (np.asarray(a, np.float64) @ np.asarray(b, np.float64)).astype(np.int64)


def quantise(x: Floats) -> Rows:
    """Bytes with a scale and a zero point for each row; the range holds zero."""
    smallest, largest = np.minimum(x.min(axis=1), np.float32(0)), np.maximum(x.max(axis=1), np.float32(0))
    span = largest - smallest
    flat = span <= TINY
    wide = np.where(flat, np.float32(1), span)
    inverse = np.where(flat, np.float32(0), np.float32(255) / wide)
    zero = integers(-smallest * inverse)
    values = np.minimum(integers(x * inverse[:, None]) + zero[:, None], 255)
    return Rows(values, np.where(flat, np.float32(1), wide / np.float32(255)), zero)


def symmetric(x: Floats) -> tuple[Ints, Floats]:
    """Signed bytes and a scale for each row."""
    largest = np.abs(x).max(axis=1)
    flat = largest <= TINY
    wide = np.where(flat, np.float32(1), largest)
    factor = np.where(flat, np.float32(0), np.float32(127) / wide)
    return integers(x * factor[:, None]), np.where(flat, np.float32(1), wide / np.float32(127))


class Reference:
    """A model of either kind, straight from its artifact, as one kernel computes it."""

    def __init__(self, artifact: Any, kernel: str) -> None:
        self.artifact = artifact
        self.arithmetic = ARITHMETIC[kernel]
        self._linears: dict[tuple[str, int | None], Linear] = {}

    def logit(self, ids: NDArray[np.int32], types: NDArray[np.int32]) -> float:
        """The cross-encoder's score of one pair; its last layer computes the [CLS] row alone."""
        x = self.states(ids, types)
        pooled = np.tanh(self.arithmetic.linear(quantise(x[:1]), self.linear("bert.pooler.dense")))[0]
        classifier = self.linear("classifier")
        return float(pooled @ (classifier.weights[:, 0].astype(np.float32) * classifier.scale) + classifier.bias[0])

    def vector(self, ids: NDArray[np.int32]) -> Floats:
        """The bi-encoder's vector of one text."""
        return self.arithmetic.mean(self.states(ids, np.zeros_like(ids)), self.artifact.normalize)

    def states(self, ids: NDArray[np.int32], types: NDArray[np.int32]) -> Floats:
        """Output of the last layer, [tokens or 1, hidden]."""
        x = self.embed(ids, types)
        for layer in range(self.artifact.layers):
            last = self.artifact.kind == "cross-encoder" and layer == self.artifact.layers - 1
            x = self.layer(layer, x, 1 if last else len(x))
        return x

    def embed(self, ids: NDArray[np.int32], types: NDArray[np.int32]) -> Floats:
        """Word, type and place of each token, normalised."""
        word, place, kind = (
            self.table(f"bert.embeddings.{name}_embeddings.weight", rows)
            for name, rows in (("word", ids), ("position", np.arange(len(ids))), ("token_type", types))
        )
        return self.norm("bert.embeddings.LayerNorm", (word + kind) + place)

    def layer(self, index: int, x: Floats, queries: int) -> Floats:
        """One transformer layer for the first `queries` rows."""
        name, arithmetic, rows = f"bert.encoder.layer.{index}", self.arithmetic, quantise(x)
        heads = [self.head(index, h, rows, queries) for h in range(self.artifact.heads)]
        context = np.concatenate([arithmetic.attend(head).out for head in heads], axis=1)
        x = x[:queries] + arithmetic.linear(quantise(context), self.linear(f"{name}.attention.output.dense"))
        x = self.norm(f"{name}.attention.output.LayerNorm", x)
        wide = arithmetic.gelu(arithmetic.linear(quantise(x), self.linear(f"{name}.intermediate.dense")))
        x = x + arithmetic.linear(quantise(wide), self.linear(f"{name}.output.dense"))
        return self.norm(f"{name}.output.LayerNorm", x)

    def head(self, index: int, head: int, rows: Rows, queries: int) -> Head:
        """Query, key and value of one head. The key's bias is left out: softmax takes it away again."""
        query, key, value = (
            self.linear(f"bert.encoder.layer.{index}.attention.self.{name}", head) for name in ("query", "key", "value")
        )
        key = Linear(key.weights, key.scale, np.zeros_like(key.bias))
        q, q_scale = symmetric(self.arithmetic.linear(rows[:queries], query))
        k, k_scale = symmetric(self.arithmetic.linear(rows, key))
        return Head(q, q_scale * SCORE_FACTOR, k, k_scale, self.arithmetic.linear(rows, value))

    def linear(self, name: str, head: int | None = None) -> Linear:
        """A layer's integers, scales and bias; those of one head's columns if a head is given."""
        if (name, head) not in self._linears:
            columns = slice(None) if head is None else slice(head * HEAD, (head + 1) * HEAD)
            stored = self.artifact.load(f"{name}.weight")
            weights = stored[:, columns].astype(np.float64)
            scale = np.broadcast_to(self.scale(f"{name}.weight"), stored.shape[1])[columns]
            self._linears[name, head] = Linear(weights, scale, self.artifact.load(f"{name}.bias")[columns])
        return self._linears[name, head]

    def table(self, name: str, rows: NDArray[Any]) -> Floats:
        """Rows of an embedding table."""
        info, values = self.artifact.tensors[name], self.artifact.load(name)[rows].astype(np.float32)
        if info.scale is None:
            return values
        scale = self.scale(name)
        return (values - np.float32(info.zero_point)) * (scale[rows][:, None] if len(scale) > 1 else scale)

    def norm(self, name: str, x: Floats) -> Floats:
        """A layer norm by its name."""
        gain, shift = (self.artifact.load(f"{name}.{part}") for part in ("weight", "bias"))
        return self.arithmetic.normalise(x, gain, shift, self.artifact.layer_norm_eps)

    def scale(self, name: str) -> Floats:
        """A tensor's scales, [1] if there is one for all of it."""
        scale = self.artifact.tensors[name].scale
        return self.artifact.load(scale).reshape(-1) if isinstance(scale, str) else np.array([scale], np.float32)
