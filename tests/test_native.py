"""The native encoder: exact integers, every kernel near the golden outputs, nothing unchecked reaches the C code."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from native_synthetic import Synthetic
from runoff import _encoder, models, native
from runoff.artifact import Artifact
from runoff.assembly import Passages
from runoff.backends import golden_outputs
from runoff.errors import BackendError
from runoff.native import NativeBackend
from runoff.tokenizer import Tokenizer

KERNELS = [name for name in ("avx512vnni", "avx2", "portable") if _encoder.kernel_name(name) is not None]
NAMES = {"out": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense"}


@pytest.fixture(scope="module")
def cross() -> Artifact:
    return models.find(models.DEFAULT_CROSS_ENCODER)


def load(artifact: Artifact, kernel: str, monkeypatch: pytest.MonkeyPatch, threads: int | None = None) -> NativeBackend:
    monkeypatch.setenv(native.KERNEL_VARIABLE, kernel)
    backend = NativeBackend.load(artifact, threads)
    assert backend.kernel == kernel
    return backend


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("which", list(NAMES))
def test_products_are_the_exact_integers(kernel: str, which: str, cross: Artifact) -> None:
    encoder = native.pack(cross, kernel)
    weights = cross.load(f"bert.encoder.layer.3.{NAMES[which]}.weight").astype(np.int32)
    rng = np.random.default_rng(2)
    for rows in (1, 2, 3, 11, 12, 13, 25):
        inputs = rng.integers(0, 256, (rows, len(weights))).astype(np.uint8)
        inputs[0] = 255  # the largest sums: a kernel that saturates at 16 bits fails here
        out = np.empty((rows, weights.shape[1]), np.int32)
        encoder.products(3, which, inputs, out)
        np.testing.assert_array_equal(out, inputs.astype(np.int32) @ weights)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", [models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER])
def test_every_kernel_is_well_within_the_golden_tolerance(
    kernel: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = models.find(name)
    backend = load(artifact, kernel, monkeypatch)
    tokenizer = Tokenizer.load(artifact.tokenizer_path)
    outputs = golden_outputs(artifact, backend, range(len(artifact.golden.inputs)), tokenizer)
    assert artifact.golden.worst(outputs) <= artifact.golden.tolerance / 3


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != native.PORTABLE])
def test_all_lengths_score_alike_alone_and_together(
    kernel: str, cross: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (load(cross, kernel, monkeypatch, threads) for threads in (1, 2))
    rng = np.random.default_rng(3)
    query = rng.integers(1000, 30522, 5).astype(np.int32)
    lengths = (0, 1, 2, 3, 23, 24, 25, 247, 248, 249, 503, 504, 600)
    texts = [rng.integers(1000, 30522, length).astype(np.int32) for length in lengths]
    together = two.score(query, Passages.pack(texts)).logits
    assert np.isfinite(together).all()
    alone = [one.score(query, Passages.pack([text])).logits[0] for text in texts]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(one.score(query, Passages.pack(texts[::-1])).logits[::-1], together)


def test_backends_of_one_model_share_its_packed_weights_as_long_as_one_has_them(
    cross: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of an epsilon of its own, so that no other test holds these weights.
    own, again = (replace(artifact, layer_norm_eps=3e-12) for artifact in (cross, models.find(cross.path)))
    first, second = load(own, KERNELS[0], monkeypatch), load(again, KERNELS[0], monkeypatch, 1)
    assert first._encoder is second._encoder
    name = "bert.encoder.layer.0.output.dense.weight"
    tensors = {**cross.tensors, name: replace(cross.tensors[name], scale=0.5)}
    for other in (cross, replace(own, tensors=tensors), replace(own, layers=1), models.find(models.DEFAULT_BI_ENCODER)):
        assert load(other, KERNELS[0], monkeypatch)._encoder is not first._encoder
    assert load(own, native.PORTABLE, monkeypatch)._encoder is not first._encoder or KERNELS[0] == native.PORTABLE
    held = weakref.ref(first._encoder)
    del first, second
    assert held() is None


@pytest.mark.parametrize("bad", [-1, 30522, 2**31 - 1])
def test_ids_outside_of_the_vocabulary_never_reach_the_tables(
    bad: int, cross: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = load(cross, KERNELS[0], monkeypatch)
    passages = Passages.pack([np.array([2000, bad], dtype=np.int32)])
    with pytest.raises(BackendError, match=f"token id {bad}"):
        backend.score(np.array([2000], dtype=np.int32), passages)


UNFIT: list[dict[str, Any]] = [
    {"precision": "fp32"},
    {"heads": 6},
    {"heads": 0, "hidden": 0},
    {"layers": 0},
    {"layers": -1},
    {"max_length": 1024},
    {"intermediate": 1000},
    {"kind": "bi-encoder", "pooling": "cls"},
    {"kind": "bi-encoder", "pooling": "mean", "dimensions": 32},
]


@pytest.mark.parametrize("unfit", UNFIT, ids=str)
def test_what_the_code_is_not_made_for_is_refused(unfit: dict[str, Any], cross: Artifact) -> None:
    with pytest.raises(BackendError, match="the native backend runs int8"):
        NativeBackend.load(replace(cross, **unfit))


LAYER = "bert.encoder.layer.1."


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
@pytest.mark.parametrize(
    "name",
    [
        "bert.embeddings.word_embeddings.weight",
        "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight",
        "bert.embeddings.LayerNorm.weight",
        f"{LAYER}attention.self.key.weight",
        f"{LAYER}attention.output.dense.bias",
        f"{LAYER}intermediate.dense.weight",
        f"{LAYER}output.LayerNorm.bias",
    ],
)
def test_a_tensor_of_another_shape_or_type_never_reaches_the_c_code(name: str, kind: str) -> None:
    for change in ("fewer", "narrower", "double", "missing"):
        model = Synthetic(kind)
        values = model.arrays[name]
        info = model.tensors.pop(name)
        if change != "missing":
            model.arrays[name] = other = {
                "fewer": values[: len(values) // 2],
                "narrower": values[..., :-1],
                "double": values.astype(np.float64),
            }[change]
            model.tensors[name] = replace(info, shape=other.shape, dtype=other.dtype.name)
        with pytest.raises(BackendError, match="the native backend"):
            native.pack(model, native.PORTABLE)  # type: ignore[arg-type]


def test_scales_of_another_count_never_reach_the_c_code() -> None:
    for name in ("bert.embeddings.word_embeddings.weight_scale", f"{LAYER}output.dense.weight_scale"):
        model = Synthetic("bi-encoder")
        model.arrays[name] = model.arrays[name][:-1]
        model.tensors[name] = replace(model.tensors[name], shape=model.arrays[name].shape)
        with pytest.raises(BackendError, match="_scale is float32 of shape"):
            native.pack(model, native.PORTABLE)  # type: ignore[arg-type]


def test_a_model_of_the_other_kind_is_refused_before_it_writes_another_shape() -> None:
    query, passages = np.array([5], np.int32), Passages.pack([np.array([6, 7])])
    cross, bi = (Synthetic(kind).backend(native.PORTABLE) for kind in ("cross-encoder", "bi-encoder"))
    with pytest.raises(BackendError, match="this takes a bi-encoder"):
        cross.embed(passages)
    for call in (bi.score, bi.start):
        with pytest.raises(BackendError, match="this takes a cross-encoder"):
            call(query, passages)


def test_an_unknown_kernel_is_refused(monkeypatch: pytest.MonkeyPatch, cross: Artifact) -> None:
    monkeypatch.setenv(native.KERNEL_VARIABLE, "avx1024")
    with pytest.raises(BackendError, match="got 'avx1024'; this CPU's best is"):
        NativeBackend.load(cross)


def test_a_cpu_without_fast_kernels_is_told_to_use_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native._encoder, "kernel_name", lambda wanted: native.PORTABLE)
    with pytest.raises(BackendError, match="Use onnxruntime"):
        native.choose_kernel(None)
