"""Each part of each kernel against plain NumPy, from the same inputs: integers exactly, floats to their last bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from native_parts import KERNELS, Parts
from native_reference import ARITHMETIC, HEAD, Floats, Head, Reference, Rows, products, quantise, symmetric
from native_synthetic import Synthetic
from runoff import models
from runoff.artifact import Artifact

ROWS = (1, 2, 3, 4, 5, 12, 13, 31, 32, 33)
NAMES = {"out": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense"}


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["cross-encoder", "bi-encoder"])
def artifact(request: pytest.FixtureRequest) -> Artifact:
    return models.find(models.DEFAULT_CROSS_ENCODER if request.param == "cross-encoder" else models.DEFAULT_BI_ENCODER)


@pytest.fixture(scope="module")
def parts(artifact: Artifact, kernel: str) -> Parts:
    return Parts(artifact, kernel)


@pytest.fixture(scope="module")
def reference(artifact: Artifact, kernel: str) -> Reference:
    return Reference(artifact, kernel)


def activations(rows: int, width: int, seed: int = 0) -> Floats:
    """Rows as layers have them, and after them rows at the edges of what float32 and bytes can hold."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, rng.uniform(0.01, 3, (rows, 1)), (rows, width))
    edges = np.zeros((12, width))
    edges[1] = 0.7
    edges[2] = -0.7
    edges[3] = rng.uniform(1, 2, width)
    edges[4] = rng.uniform(-2, -1, width)
    edges[5, -1] = 50.0
    edges[6, 0] = -50.0
    edges[7] = rng.normal(0, 1e-20, width)
    edges[8] = rng.normal(0, 1e-35, width)
    edges[9] = rng.normal(0, 1e12, width)
    edges[10] = np.where(np.arange(width) % 2, 127.5, -127.5)
    edges[11] = np.arange(width) - 0.5 * width
    return np.concatenate([x, edges]).astype(np.float32)


def equal_rows(found: Rows, wanted: Rows) -> None:
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.zero, wanted.zero)
    np.testing.assert_array_equal(found.scale, wanted.scale)


def close(found: Floats, wanted: Floats) -> None:
    """Equal but for a few last bits of the largest number of the row."""
    most = np.abs(wanted).max(axis=-1, keepdims=True)
    assert (np.abs(found - wanted) <= 1e-6 * most + 1e-37).all(), np.max(np.abs(found - wanted) / (most + 1e-37))


@pytest.mark.parametrize("width", [32, 64, 384, 1536])
def test_activations_become_the_same_bytes(width: int, kernel: str) -> None:
    x = activations(40, width)
    equal_rows(Parts(Synthetic("bi-encoder"), kernel).quantise(x), quantise(x))


def test_no_byte_wraps_where_both_ends_round_up(kernel: str) -> None:
    """A range of 255 from -1.5 to 253.5: zero point and largest number round to 2 and 254, of which 255 remains."""
    low = np.arange(255) + 0.5
    x = np.stack([-low, 255 - low], axis=1).repeat(16, axis=1).astype(np.float32)
    wanted = quantise(x)
    assert (np.rint(x.max(axis=1)) + wanted.zero == 256).sum() == 127
    equal_rows(Parts(Synthetic("bi-encoder"), kernel).quantise(x), wanted)


@pytest.mark.parametrize("rows", ROWS)
def test_the_products_of_all_heads_are_the_exact_integers(
    rows: int, parts: Parts, reference: Reference, artifact: Artifact
) -> None:
    values = np.random.default_rng(rows).integers(0, 256, (rows, artifact.hidden))
    values[0] = 255
    layer = artifact.layers - 1
    panels = [
        reference.linear(f"bert.encoder.layer.{layer}.attention.self.{name}", head).weights
        for head in range(artifact.heads)
        for name in ("query", "key", "value")
    ]
    found = parts.products(layer, "qkv", values, 3 * artifact.hidden)
    np.testing.assert_array_equal(found, products(values, np.concatenate(panels, axis=1)))


@pytest.mark.parametrize("which", list(NAMES))
def test_linear_layers_with_each_of_their_ends(
    which: str, parts: Parts, reference: Reference, artifact: Artifact
) -> None:
    layer = reference.linear(f"bert.encoder.layer.1.{NAMES[which]}")
    rows = quantise(activations(9, len(layer.weights)))
    rows = replace(rows, scale=np.minimum(rows.scale, np.float32(1e3)))
    wanted = reference.arithmetic.linear(rows, layer)
    before = np.random.default_rng(4).normal(0, 1, wanted.shape).astype(np.float32)
    close(parts.linear(1, which, "plain", rows, before), wanted)
    close(parts.linear(1, which, "add", rows, before), before + wanted)
    close(parts.linear(1, which, "gelu", rows, before), reference.arithmetic.gelu(wanted))


def test_gelu_is_the_erf_form(kernel: str) -> None:
    """One input, one column each for all of GELU's range: the bias is the argument."""
    from math import erf, sqrt

    model = Synthetic("cross-encoder", heads=32, intermediate=1024, layers=1)
    x = np.linspace(-12, 12, 1024).astype(np.float32)
    model.arrays["bert.encoder.layer.0.intermediate.dense.bias"] = x
    nothing = quantise(np.zeros((1, 1024), np.float32))
    found = Parts(model, kernel).linear(0, "up", "gelu", nothing, np.empty((1, 1024), np.float32))
    wanted = [float(v) * 0.5 * (1 + erf(float(v) / sqrt(2))) for v in x]
    assert np.abs(found[0] - wanted).max() < 1e-6


@pytest.mark.parametrize("which", ["embedding", "attention", "output"])
def test_layer_norms_and_their_bytes(which: str, parts: Parts, reference: Reference, artifact: Artifact) -> None:
    name = {
        "embedding": "bert.embeddings.LayerNorm",
        "attention": "bert.encoder.layer.2.attention.output.LayerNorm",
        "output": "bert.encoder.layer.2.output.LayerNorm",
    }[which]
    x = activations(20, artifact.hidden, seed=2)
    wanted = reference.norm(name, x)
    found, rows = parts.normalise(2, which, x)
    assert np.isfinite(found).all()
    close(found, wanted)
    equal_rows(rows, quantise(found))
    equal_rows(rows, quantise(wanted))


def test_embeddings_and_their_bytes(parts: Parts, reference: Reference, artifact: Artifact) -> None:
    rng = np.random.default_rng(6)
    for tokens in (1, 2, 33, 512):
        ids = rng.integers(0, artifact.vocabulary, tokens).astype(np.int32)
        ids[0] = artifact.vocabulary - 1
        types = rng.integers(0, 2, tokens).astype(np.int32)
        for given in (types, None):
            wanted = reference.embed(ids, np.zeros_like(ids) if given is None else given)
            x, rows = parts.embed(ids, given)
            close(x, wanted)
            equal_rows(rows, quantise(wanted))


@pytest.mark.parametrize("rows", [1, 2, 13, 32])
def test_queries_keys_and_values(rows: int, parts: Parts, reference: Reference, artifact: Artifact) -> None:
    x = quantise(activations(rows, artifact.hidden, seed=rows))
    x = replace(x, scale=np.minimum(x.scale, np.float32(1e3)))
    for head in (0, 5, artifact.heads - 1):
        wanted = reference.head(1, head, x, len(x.values))
        found, start = parts.project(1, head, x)
        np.testing.assert_array_equal(found.query, wanted.query)
        np.testing.assert_array_equal(found.key, wanted.key)
        np.testing.assert_array_equal(found.query_scale, wanted.query_scale)
        np.testing.assert_array_equal(found.key_scale, wanted.key_scale)
        np.testing.assert_array_equal(start, -128 * wanted.key.sum(axis=1))
        close(found.value, wanted.value)


def some_head(queries: int, keys: int, spread: float, seed: int = 0) -> Head:
    """A head whose largest score stands `spread` exponents above the mean, or so."""
    rng = np.random.default_rng(seed)
    q, q_scale = symmetric(rng.normal(0, 1, (queries, HEAD)).astype(np.float32))
    k, k_scale = symmetric(rng.normal(0, spread / 15, (keys, HEAD)).astype(np.float32))
    return Head(q, q_scale, k, k_scale, rng.normal(0, 1, (keys, HEAD)).astype(np.float32))


@pytest.mark.parametrize("keys", [1, 2, 3, 7, 8, 9, 31, 32, 33, 255, 256, 511, 512])
def test_attention(keys: int, kernel: str) -> None:
    parts = Parts(Synthetic("bi-encoder"), kernel)
    for queries in {1, min(keys, 17), keys}:
        for spread in (0.0, 1.0, 10.0, 300.0):
            head = some_head(queries, keys, spread, seed=keys)
            close(parts.attend(head), ARITHMETIC[kernel].attend(head).out)


def test_attention_at_its_edges(kernel: str) -> None:
    """The largest integers that a sum can hold; values of nothing; values of one size."""
    parts = Parts(Synthetic("bi-encoder"), kernel)
    ones = np.ones((512, HEAD), np.int64)
    scale = np.ones(512, np.float32)
    for bytes_of_query, bytes_of_key in ((127, 127), (-127, 127), (-127, -127)):
        for value in (0.0, -1.0, 1e-35, 1e30):
            values = np.full((512, HEAD), value, np.float32)
            head = Head(bytes_of_query * ones[:20], scale[:20], bytes_of_key * ones, scale, values)
            wanted = ARITHMETIC[kernel].attend(head)
            assert np.abs(products(wanted.weights, wanted.values)).max() < 2**31
            close(parts.attend(head), wanted.out)
            np.testing.assert_allclose(wanted.out, values[:20], rtol=1e-6, atol=1e-30)


def test_means(kernel: str) -> None:
    parts = Parts(Synthetic("bi-encoder"), kernel)
    rng = np.random.default_rng(8)
    for rows in (1, 2, 3, 33, 512):
        for width in (32, 384):
            x = rng.normal(0, 1, (rows, width)).astype(np.float32)
            for normalize in (False, True):
                close(parts.mean(x, normalize), ARITHMETIC[kernel].mean(x, normalize))
    assert not parts.mean(np.zeros((5, 32), np.float32), True).any()
