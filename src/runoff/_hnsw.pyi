import numpy as np
from numpy.typing import NDArray

WIDEST: int

class Levels:
    def __init__(self, levels: list[tuple[NDArray[np.int32], NDArray[np.int32]]], entry: int) -> None: ...
    def walk(
        self, vectors: NDArray[np.uint16], query: NDArray[np.float32], rows: NDArray[np.int64], kernel: int
    ) -> int: ...
