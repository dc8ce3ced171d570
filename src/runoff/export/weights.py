"""Lays tensors out in one file, each on a 64-byte border."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..artifact import ALIGNMENT, TensorInfo


class WeightsFile:
    """Collects tensors in order; ``table`` says where each will lie, ``write`` puts them there."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}
        self._table: dict[str, TensorInfo] = {}
        self._end = 0

    @property
    def table(self) -> dict[str, TensorInfo]:
        """Every tensor's place, by name, in file order."""
        return dict(self._table)

    def add(self, name: str, array: NDArray[Any], scale: str | float | None = None, zero_point: int = 0) -> TensorInfo:
        """Append a tensor; see ``TensorInfo`` for the arguments."""
        if name in self._table:
            raise ValueError(f"tensor {name!r} added twice")
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        info = TensorInfo(name, str(array.dtype), array.shape, offset, data.nbytes, scale, zero_point)
        self._arrays[name], self._table[name] = data, info
        self._end = offset + data.nbytes
        return info

    def array(self, name: str) -> NDArray[Any]:
        """A tensor as it will be stored."""
        return self._arrays[name]

    def write(self, path: Path) -> None:
        """Write the file; gaps are zeros."""
        with path.open("wb") as file:
            for name, info in self._table.items():
                file.write(b"\0" * (info.offset - file.tell()))
                file.write(self._arrays[name].tobytes())
