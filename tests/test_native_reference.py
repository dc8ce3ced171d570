"""Whole models: the native encoder against the reference in NumPy, and the reference against the fp32 model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from native_parts import KERNELS
from native_reference import Reference
from native_synthetic import Synthetic
from runoff import models, native
from runoff.artifact import Artifact
from runoff.native import PORTABLE
from runoff.tokenizer import Tokenizer

Model = Artifact | Synthetic
LOGIT_TOLERANCE = 1e-3
VECTOR_TOLERANCE = 1e-4
SHAPES_OF_A_MODEL = 25


def run(
    artifact: Artifact | Synthetic, encoder: native._encoder.Encoder, texts: list[NDArray[np.int32]]
) -> NDArray[np.float32]:
    """Outputs of sequences of token ids, packed: [n] logits or [n, dimensions] vectors."""
    cross = artifact.kind == "cross-encoder"
    starts = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    types = np.concatenate([types_of(ids) for ids in texts]) if cross else None
    out = np.empty((len(texts), 1 if cross else artifact.hidden), np.float32)
    encoder.run(np.concatenate(texts), types, starts, 2, out.reshape(-1))
    return out


def types_of(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """The first third of a sequence is a query."""
    return (np.arange(len(ids)) * 3 >= len(ids)).astype(np.int32)


def expected(reference: Reference, texts: list[NDArray[np.int32]]) -> NDArray[np.float32]:
    if reference.artifact.kind == "cross-encoder":
        return np.array([[reference.logit(ids, types_of(ids))] for ids in texts], np.float32)
    return np.array([reference.vector(ids) for ids in texts])


def tolerance(artifact: Model) -> float:
    return LOGIT_TOLERANCE if artifact.kind == "cross-encoder" else VECTOR_TOLERANCE


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", [models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER])
def test_the_real_models_agree_with_the_reference(name: str, kernel: str) -> None:
    artifact = models.find(name)
    rng = np.random.default_rng(9)
    texts = [rng.integers(1000, artifact.vocabulary, length).astype(np.int32) for length in (1, 2, 33, 71)]
    found = run(artifact, native.pack(artifact, kernel), texts)
    np.testing.assert_allclose(found, expected(Reference(artifact, kernel), texts), rtol=0, atol=tolerance(artifact))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
def test_every_length_agrees_with_the_reference(kind: str, kernel: str) -> None:
    model = Synthetic(kind, seed=1)
    rng = np.random.default_rng(10)
    lengths = (1, 2, 3, 31, 32, 33, 255, 256, 511, 512)
    texts = [rng.integers(0, model.vocabulary, length).astype(np.int32) for length in lengths]
    wanted = expected(Reference(model, kernel), texts)
    encoder = native.pack(model, kernel)  # type: ignore[arg-type]
    np.testing.assert_allclose(run(model, encoder, texts), wanted, rtol=0, atol=tolerance(model))
    for ids, alone in zip(texts, wanted, strict=True):
        np.testing.assert_allclose(run(model, encoder, [ids])[0], alone, rtol=0, atol=tolerance(model))


@pytest.mark.parametrize("seed", range(40))
def test_a_thousand_random_shapes_agree_with_the_reference(seed: int) -> None:
    """Forty models of random size, each with twenty-five batches of random lengths, the kernels in turn."""
    rng = np.random.default_rng(seed)
    kind = ("cross-encoder", "bi-encoder")[seed % 2]
    model = Synthetic(
        kind,
        seed,
        layers=int(rng.integers(1, 4)),
        heads=int(rng.integers(1, 4)),
        intermediate=32 * int(rng.integers(1, 6)),
        normalize=bool(rng.integers(2)),
    )
    kernel = KERNELS[seed // 2 % len(KERNELS)]
    reference, encoder = Reference(model, kernel), native.pack(model, kernel)  # type: ignore[arg-type]
    for _ in range(SHAPES_OF_A_MODEL):
        lengths = np.exp(rng.uniform(0, np.log(100), rng.integers(1, 6))).astype(int)
        texts = [rng.integers(0, model.vocabulary, length).astype(np.int32) for length in lengths]
        wanted = expected(reference, texts)
        np.testing.assert_allclose(
            run(model, encoder, texts), wanted, rtol=0, atol=tolerance(model), err_msg=f"{model}, {lengths}"
        )


def test_the_reference_is_the_model_within_the_golden_tolerance() -> None:
    """What the reference computes is not only what the C code computes: the fp32 model's outputs are not far."""
    cross = models.find(models.DEFAULT_CROSS_ENCODER)
    tokenizer, reference = Tokenizer.load(cross.tokenizer_path), Reference(cross, PORTABLE)
    for (query, passage), wanted in list(zip(cross.golden.inputs, cross.golden.outputs, strict=True))[:3]:
        first, second = tokenizer.encode(query), tokenizer.encode(passage)
        ids = np.concatenate([[cross.cls_id], first, [cross.sep_id], second, [cross.sep_id]])[:512].astype(np.int32)
        types = (np.arange(len(ids)) >= len(first) + 2).astype(np.int32)
        assert abs(reference.logit(ids, types) - wanted) <= cross.golden.tolerance / 3
    bi = models.find(models.DEFAULT_BI_ENCODER)
    reference = Reference(bi, PORTABLE)
    for text, wanted in list(zip(bi.golden.inputs, bi.golden.outputs, strict=True))[:3]:
        ids = np.concatenate([[bi.cls_id], tokenizer.encode(text)[:254], [bi.sep_id]]).astype(np.int32)
        assert 1 - float(reference.vector(ids) @ wanted) <= bi.golden.tolerance / 3
