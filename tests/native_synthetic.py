"""Models with random weights, small enough for thousands of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runoff import native
from runoff.artifact import TensorInfo
from runoff.native import NativeBackend


@dataclass
class Synthetic:
    """As much of an artifact as the native backend and its reference read.

    Args:
        kind: `cross-encoder` stores one scale a tensor and unsigned embeddings, `bi-encoder` one scale a channel and
            signed ones, like the two artifacts that Runoff ships.
        seed: of all weights.
        heads: of 32 dimensions each.
    """

    kind: str
    seed: int = 0
    layers: int = 2
    heads: int = 2
    intermediate: int = 96
    vocabulary: int = 50
    max_length: int = 512
    normalize: bool = True
    layer_norm_eps: float = 1e-12
    name: str = "synthetic"
    precision: str = "int8"
    cls_id: int = 1
    sep_id: int = 2
    pad_id: int = 0
    tensors: dict[str, TensorInfo] = field(default_factory=dict, repr=False)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        hidden = self.hidden = 32 * self.heads
        self.dimensions = hidden
        for name, rows in (("word", self.vocabulary), ("position", 512), ("token_type", 2)):
            self._table(f"bert.embeddings.{name}_embeddings.weight", rows)
        self._norm("bert.embeddings.LayerNorm")
        for layer in range(self.layers):
            self._layer(f"bert.encoder.layer.{layer}.")
        if self.kind == "cross-encoder":
            self._linear("bert.pooler.dense", hidden, hidden)
            self._linear("classifier", hidden, 1)

    def load(self, name: str) -> NDArray[Any]:
        """One tensor as stored."""
        return self.arrays[name]

    def backend(self, kernel: str, threads: int = 1) -> NativeBackend:
        """The model on the native backend."""
        return NativeBackend(self, native.pack(self, kernel), kernel, threads)  # type: ignore[arg-type]

    def _layer(self, name: str) -> None:
        for part in ("query", "key", "value"):
            self._linear(f"{name}attention.self.{part}", self.hidden, self.hidden)
        self._linear(f"{name}attention.output.dense", self.hidden, self.hidden)
        self._norm(f"{name}attention.output.LayerNorm")
        self._linear(f"{name}intermediate.dense", self.hidden, self.intermediate)
        self._linear(f"{name}output.dense", self.intermediate, self.hidden)
        self._norm(f"{name}output.LayerNorm")

    def _table(self, name: str, rows: int) -> None:
        values = self._random.integers(-127, 128, (rows, self.hidden))
        if self.kind == "bi-encoder":
            self._quantised(name, values.astype(np.int8), self._random.uniform(0.002, 0.01, (rows, 1)))
        else:
            zero = int(self._random.integers(100, 156))
            self._add(name, (values + 128).astype(np.uint8), float(self._random.uniform(0.002, 0.01)), zero)

    def _linear(self, name: str, inputs: int, outputs: int) -> None:
        weights = self._random.integers(-127, 128, (inputs, outputs)).astype(np.int8)
        scale = self._random.uniform(0.5, 1.5, outputs) * (2.0 / 73 / np.sqrt(inputs))
        if self.kind == "bi-encoder":
            self._quantised(f"{name}.weight", weights, scale)
        else:
            self._add(f"{name}.weight", weights, float(scale[0]))
        self._add(f"{name}.bias", self._random.normal(0, 0.3, outputs).astype(np.float32))

    def _norm(self, name: str) -> None:
        self._add(f"{name}.weight", self._random.uniform(0.5, 1.5, self.hidden).astype(np.float32))
        self._add(f"{name}.bias", self._random.normal(0, 0.2, self.hidden).astype(np.float32))

    def _quantised(self, name: str, values: NDArray[Any], scale: NDArray[np.float64]) -> None:
        self._add(f"{name}_scale", scale.astype(np.float32))
        self._add(name, values, f"{name}_scale")

    def _add(self, name: str, values: NDArray[Any], scale: str | float | None = None, zero_point: int = 0) -> None:
        self.arrays[name] = values
        self.tensors[name] = TensorInfo(name, values.dtype.name, values.shape, 0, values.nbytes, scale, zero_point)
