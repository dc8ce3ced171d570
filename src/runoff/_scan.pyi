import numpy as np
from numpy.typing import NDArray

def best() -> int: ...
def scan(
    vectors: NDArray[np.uint16], query: NDArray[np.float32], first: int, out: NDArray[np.float32], kernel: int
) -> None: ...
def gather(
    vectors: NDArray[np.uint16],
    query: NDArray[np.float32],
    rows: NDArray[np.int64],
    out: NDArray[np.float32],
    kernel: int,
) -> None: ...
