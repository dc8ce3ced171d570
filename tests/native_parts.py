"""The parts of a native kernel, taking and giving what the reference in NumPy takes and gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from native_reference import HEAD, Floats, Head, Ints, Rows
from runoff import _encoder, native

KERNELS = [name for name in ("avx512vnni", "avx2", "portable") if _encoder.kernel_name(name) is not None]


class Parts:
    """Calls one kernel's functions on a model's packed weights."""

    def __init__(self, artifact: Any, kernel: str) -> None:
        self.encoder = native.pack(artifact, kernel)
        self.hidden = artifact.hidden
        self._stages = _encoder.Stages(self.encoder)

    def quantise(self, x: Floats) -> Rows:
        rows = _blank(*x.shape)
        self._stages.quantise(x, rows)
        return _rows(rows)

    def embed(self, ids: NDArray[np.int32], types: NDArray[np.int32] | None) -> tuple[Floats, Rows]:
        x, rows = np.empty((len(ids), self.hidden), np.float32), _blank(len(ids), self.hidden)
        self._stages.embed(ids, types, x, rows)
        return x, _rows(rows)

    def normalise(self, layer: int, which: str, x: Floats) -> tuple[Floats, Rows]:
        x, rows = x.copy(), _blank(*x.shape)
        self._stages.normalise(layer, which, x, rows)
        return x, _rows(rows)

    def products(self, layer: int, which: str, values: Ints, columns: int) -> Ints:
        out = np.empty((len(values), columns), np.int32)
        self.encoder.products(layer, which, values.astype(np.uint8), out)
        return out.astype(np.int64)

    def linear(self, layer: int, which: str, finish: str, rows: Rows, out: Floats) -> Floats:
        """`out` is what the result is added to where `finish` is `add`; its shape counts otherwise."""
        out = out.copy()
        self._stages.linear(layer, which, finish, _bytes(rows), out)
        return out

    def project(self, layer: int, head: int, rows: Rows) -> tuple[Head, Ints]:
        """One head, and what undoes the offset of its queries."""
        count = len(rows.values)
        query = np.empty((count, HEAD), np.uint8), np.empty(count, np.float32)
        key = np.empty((count, HEAD), np.int8), np.empty(count, np.float32), np.empty(count, np.int32)
        value = np.empty((count, HEAD), np.float32)
        self._stages.project(layer, head, _bytes(rows), query, key, value)
        return Head(query[0].astype(np.int64) - 128, query[1], key[0].astype(np.int64), key[1], value), key[2]

    def attend(self, head: Head) -> Floats:
        key = head.key.astype(np.int8)
        start = (-128 * head.key.sum(axis=1)).astype(np.int32)
        out = np.empty((len(head.query), HEAD), np.float32)
        query = (head.query + 128).astype(np.uint8), head.query_scale
        self._stages.attend(query, (key, head.key_scale, start), head.value, out)
        return out

    def mean(self, x: Floats, normalize: bool) -> Floats:
        out = np.empty(x.shape[1], np.float32)
        self._stages.mean(x, normalize, out)
        return out


def _blank(rows: int, width: int) -> tuple[NDArray[np.uint8], Floats, NDArray[np.int32]]:
    return np.empty((rows, width), np.uint8), np.empty(rows, np.float32), np.empty(rows, np.int32)


def _rows(parts: tuple[NDArray[np.uint8], Floats, NDArray[np.int32]]) -> Rows:
    return Rows(parts[0].astype(np.int64), parts[1], parts[2].astype(np.int64))


def _bytes(rows: Rows) -> tuple[NDArray[np.uint8], Floats, NDArray[np.int32]]:
    return rows.values.astype(np.uint8), rows.scale, rows.zero.astype(np.int32)
