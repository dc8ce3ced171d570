import numpy as np
from numpy.typing import NDArray

def assemble(
    query: NDArray[np.int32],
    passages: NDArray[np.uint16] | NDArray[np.int32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    offsets: NDArray[np.int64],
    ids: NDArray[np.int64],
    types: NDArray[np.int64],
    mask: NDArray[np.int64],
    cls: int,
    sep: int,
    pad: int,
) -> None: ...
