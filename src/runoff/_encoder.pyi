import numpy as np
from numpy.typing import NDArray

PARTS_NAMES: tuple[str, ...]
LIMITS: dict[str, int]

def kernel_name(wanted: str | None = None) -> str | None: ...

class Encoder:
    def __init__(
        self, kernel: str, layers: int, heads: int, hidden: int, intermediate: int, epsilon: float, normalize: bool
    ) -> None: ...
    def set_tables(
        self,
        words: tuple[NDArray[np.uint8], NDArray[np.float32], int, int],
        places: tuple[NDArray[np.uint8], NDArray[np.float32], int, int],
        types: NDArray[np.float32],
    ) -> None: ...
    def set_linear(
        self, index: int, which: str, *parts: tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32] | None]
    ) -> None: ...
    def set_norm(self, index: int, which: str, gain: NDArray[np.float32], shift: NDArray[np.float32]) -> None: ...
    def set_classifier(self, weights: NDArray[np.float32], bias: float) -> None: ...
    def run(
        self,
        ids: NDArray[np.int32],
        types: NDArray[np.int32] | None,
        starts: NDArray[np.int64],
        threads: int,
        out: NDArray[np.float32],
        times: NDArray[np.uint64] | None = None,
    ) -> None: ...
    def advance(
        self,
        ids: NDArray[np.int32],
        types: NDArray[np.int32] | None,
        starts: NDArray[np.int64],
        chosen: NDArray[np.int64],
        first: int,
        last: int,
        x: NDArray[np.float32],
        values: NDArray[np.uint8],
        scale: NDArray[np.float32],
        zero: NDArray[np.int32],
        threads: int,
        out: NDArray[np.float32],
    ) -> None: ...
    def products(self, index: int, which: str, rows: NDArray[np.uint8], out: NDArray[np.int32]) -> None: ...

Rows = tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int32]]
Query = tuple[NDArray[np.uint8], NDArray[np.float32]]
Key = tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.int32]]

class Stages:
    def __init__(self, encoder: Encoder) -> None: ...
    def quantise(self, x: NDArray[np.float32], to: Rows) -> None: ...
    def embed(
        self, ids: NDArray[np.int32], types: NDArray[np.int32] | None, x: NDArray[np.float32], to: Rows
    ) -> None: ...
    def normalise(self, index: int, which: str, x: NDArray[np.float32], to: Rows) -> None: ...
    def linear(self, index: int, which: str, finish: str, rows: Rows, out: NDArray[np.float32]) -> None: ...
    def project(
        self, index: int, head: int, rows: Rows, query: Query, key: Key, value: NDArray[np.float32]
    ) -> None: ...
    def attend(self, query: Query, key: Key, value: NDArray[np.float32], out: NDArray[np.float32]) -> None: ...
    def mean(self, x: NDArray[np.float32], normalize: bool, out: NDArray[np.float32]) -> None: ...
