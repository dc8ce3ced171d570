import numpy as np
from numpy.typing import NDArray

Part = tuple[
    int,
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.int32],
    NDArray[np.uint8],
    bool,
]

class Segments:
    def __init__(self, parts: list[Part], alive: NDArray[np.uint8], base: float, slope: float) -> None: ...
    def find(self, term: bytes | NDArray[np.uint8], numbers: NDArray[np.int64]) -> int: ...
    def search(
        self,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float32],
        allowed: NDArray[np.uint8] | None,
        rows: NDArray[np.int64],
        scores: NDArray[np.float32],
    ) -> int: ...

def count(
    words: NDArray[np.int32], ends: NDArray[np.int64], last: NDArray[np.int32], frequencies: NDArray[np.int64]
) -> bool: ...
def fill(
    words: NDArray[np.int32],
    ends: NDArray[np.int64],
    last: NDArray[np.int32],
    next: NDArray[np.int64],  # noqa: A002
    posting_rows: NDArray[np.int32],
    posting_counts: NDArray[np.uint8],
) -> None: ...
def move(
    part: Part,
    renumbered: NDArray[np.int32],
    next: NDArray[np.int64],  # noqa: A002
    posting_rows: NDArray[np.int32],
    posting_counts: NDArray[np.uint8],
) -> bool: ...
