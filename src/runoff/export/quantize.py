"""From float32 weights to 8-bit integers and back; numpy only.

An integer q stands for ``(q - zero_point) * scale`` everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ExportError

_LARGEST = 127
_ON_GRID = 1e-3


@dataclass(frozen=True)
class Grid:
    """The integers that a tensor was quantised to before: one scale and zero point for the whole tensor."""

    dtype: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Quantized:
    """Integers with what they mean.

    Args:
        values: int8 or uint8, any shape.
        scale: float32: one number, or one per column of a linear weight (in, out), or one per row of a table [rows, 1].
        zero_point: integer that stands for 0.0.
    """

    values: NDArray[Any]
    scale: NDArray[np.float32]
    zero_point: int = 0

    def dequantize(self) -> NDArray[np.float32]:
        """The float32 values that the integers stand for."""
        centred = self.values.astype(np.int32) - self.zero_point
        return centred.astype(np.float32) * self.scale


def onto(weight: NDArray[np.float32], grid: Grid, name: str = "weight") -> Quantized:
    """The integers of a weight that lies on a known grid already; nothing is lost.

    Raises:
        ExportError: the weight does not lie on that grid.
    """
    scale = np.float32(grid.scale)
    exact = weight.astype(np.float64) / np.float64(scale)
    rounded = np.rint(exact)
    limits = np.iinfo(grid.dtype)
    values = rounded + grid.zero_point
    if np.abs(exact - rounded).max(initial=0) > _ON_GRID or values.min() < limits.min or values.max() > limits.max:
        raise ExportError(f"{name} does not lie on its recorded {grid.dtype} grid; recover the checkpoint again")
    return Quantized(values.astype(grid.dtype), np.asarray(scale), grid.zero_point)


def per_column(weight: NDArray[np.float32]) -> Quantized:
    """Symmetric int8 with one scale per column: per output channel of a linear weight stored (in, out)."""
    return _symmetric(weight, axis=0)


def per_row(table: NDArray[np.float32]) -> Quantized:
    """Symmetric int8 with one scale per row, for an embedding table."""
    return _symmetric(table, axis=1)


def _symmetric(weight: NDArray[np.float32], axis: int) -> Quantized:
    largest = np.abs(weight).max(axis=axis, keepdims=True)
    scale = np.where(largest > 0, largest / _LARGEST, 1.0).astype(np.float32)
    values = np.clip(np.rint(weight / scale), -_LARGEST, _LARGEST).astype(np.int8)
    return Quantized(values, scale[0] if axis == 0 else scale)
