"""Products of bytes over weights that would overflow 16 bits, where a kernel adds in them: exact all the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from native_parts import KERNELS
from runoff import _encoder

WIDTH, OUT = 384, 64
RNG = np.random.default_rng(7)
PLACES = np.arange(WIDTH)[:, None] * np.ones(OUT, np.int64)


def quads(*weights: int) -> NDArray[np.int64]:
    """The same weights for the inputs of every quad, or of quads in turn, in all columns."""
    return np.resize(np.array(weights), WIDTH)[:, None] * np.ones(OUT, np.int64)


WEIGHTS = {
    "all largest": np.full((WIDTH, OUT), 127),
    "all smallest": np.full((WIDTH, OUT), -128),
    "one sign a pair": np.where(PLACES // 2 % 2, 127, -128),
    "signs in turn": np.where(PLACES % 2, 127, -128),
    "just within the bound": np.where(PLACES % 8 < 2, 64, 0),
    "just beyond the bound": np.where(PLACES % 8 < 2, 65, 0),
    "pairs of the first and third": quads(100, 60, 20, 60),
    "pairs of the first and last": quads(100, 60, 60, 20),
    "no pairs": quads(100, 60, 60, 60),
    "other pairs in another column": np.where(PLACES % 4 + np.arange(OUT) % 2 == 1, 100, 29),
    "sums that wrap around": quads(64, 64, 64, 64, 64, 64, 64, 64, 1, 0, 0, 1),
    "and downwards": quads(-64, -64, -64, -64, -64, -64, -64, -64, -1, 0, 0, -1),
    "and both ways": quads(64, 64, -64, -64, 64, 64, -64, -64, 1, 0, 0, -1),
    "one column beyond it": np.where(np.arange(OUT) == 17, 127, 1) * np.ones((WIDTH, 1), np.int64),
    "all there are": RNG.integers(-128, 128, (WIDTH, OUT)),
    "small": RNG.integers(-3, 4, (WIDTH, OUT)),
    "a few large": np.where(RNG.random((WIDTH, OUT)) < 0.01, 127, RNG.integers(-9, 10, (WIDTH, OUT))),
    "nothing": np.zeros((WIDTH, OUT), np.int64),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("kernel", KERNELS)
def test_products_are_exact_whatever_the_weights(kernel: str, weights: NDArray[np.int64]) -> None:
    encoder = _encoder.Encoder(kernel, 1, WIDTH // 32, WIDTH, OUT, 1e-12, False)
    matrix = np.ascontiguousarray(weights, np.int8)
    encoder.set_linear(0, "up", (matrix, np.ones(OUT, np.float32), np.zeros(OUT, np.float32)))
    rows = np.concatenate([np.full((3, WIDTH), 255), RNG.integers(0, 256, (11, WIDTH)), np.zeros((1, WIDTH))])
    rows = rows.astype(np.uint8)
    found = np.empty((len(rows), OUT), np.int32)
    encoder.products(0, "up", rows, found)
    np.testing.assert_array_equal(found, rows.astype(np.int64) @ weights)
