from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Out = TypeVar("Out", np.int32, np.int64)

def assemble(
    query: NDArray[np.int32],
    passages: NDArray[np.uint16] | NDArray[np.int32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    offsets: NDArray[np.int64],
    ids: NDArray[Out],
    types: NDArray[Out],
    mask: NDArray[Out],
    cls: int,
    sep: int,
    pad: int,
) -> int: ...
