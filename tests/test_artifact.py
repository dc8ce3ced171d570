"""An artifact opens when it is whole, and names the file that is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runoff import models
from runoff.artifact import ALIGNMENT, Artifact, Golden, read_manifest
from runoff.errors import ArtifactDamagedError, ModelError
from runoff.export.manifest import write_fields

REAL = [models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER]
FILES = ["model.json", "model.onnx", "weights.bin", "tokenizer.json", "LICENSE"]
FIELDS: dict[str, Any] = {
    "format_version": 1,
    "name": "tiny",
    "kind": "cross-encoder",
    "dimensions": 1,
    "layers": 1,
    "heads": 1,
    "hidden": 4,
    "intermediate": 8,
    "vocabulary": 10,
    "max_length": 16,
    "pooling": "cls",
    "normalize": False,
    "layer_norm_eps": 1e-12,
    "pad_id": 0,
    "cls_id": 1,
    "sep_id": 2,
    "precision": "int8",
    "source": "made up",
    "revision": "1",
    "licence": "Apache-2.0",
    "tensors": [
        {"name": "w", "dtype": "int8", "shape": [2, 3], "offset": 0, "nbytes": 6, "scale": "w_scale", "zero_point": 0},
        {"name": "w_scale", "dtype": "float32", "shape": [3], "offset": 64, "nbytes": 12, "scale": None},
    ],
    "golden": {"metric": "logit", "tolerance": 0.5, "inputs": [["q", "p"], ["q", "é"]], "outputs": [1.5, -2.0]},
}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A made-up artifact of a few hundred bytes."""
    weights = np.arange(6, dtype=np.int8).tobytes().ljust(64, b"\0") + np.array([1, 2, 3], dtype="<f4").tobytes()
    contents = {"model.onnx": b"graph", "weights.bin": weights, "tokenizer.json": b"{}", "LICENSE": b"text"}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    write_fields(tmp_path, FIELDS)
    return tmp_path


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a real artifact; a test leaves it as it was."""
    folder = tmp_path_factory.mktemp("artifact") / "copy"
    shutil.copytree(models.root() / models.DEFAULT_BI_ENCODER, folder)
    return folder


def rewrite(folder: Path, **changes: Any) -> None:
    write_fields(folder, {**FIELDS, **changes})


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_tiny_artifact_says_what_was_written(tiny: Path) -> None:
    artifact = Artifact.open(tiny)
    assert (artifact.name, artifact.kind, artifact.hidden, artifact.sep_id) == ("tiny", "cross-encoder", 4, 2)
    assert artifact.golden.inputs == (("q", "p"), ("q", "é"))
    assert artifact.golden.outputs.dtype == np.float32
    assert artifact.tensors["w"].scale == "w_scale"
    np.testing.assert_array_equal(artifact.load("w"), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(artifact.load("w_scale"), np.float32([1, 2, 3]))


def test_loaded_tensors_cannot_be_changed(tiny: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        Artifact.open(tiny).load("w")[0, 0] = 9


def test_unknown_tensor_is_named(tiny: Path) -> None:
    with pytest.raises(ModelError, match="'nope'"):
        Artifact.open(tiny).load("nope")


@pytest.mark.parametrize("name", FILES)
def test_each_flipped_byte_is_found_and_its_file_named(tiny: Path, name: str) -> None:
    path = tiny / name
    for position in range(path.stat().st_size):
        flip(path, position)
        with pytest.raises(ArtifactDamagedError, match=name.replace(".", r"\.")):
            Artifact.open(tiny)
        flip(path, position)
    assert Artifact.open(tiny).name == "tiny"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("verify", [True, False])
def test_truncated_file_is_named(tiny: Path, name: str, verify: bool) -> None:
    path = tiny / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactDamagedError, match=name.replace(".", r"\.")):
        Artifact.open(tiny, verify=verify)


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(tiny: Path, name: str) -> None:
    (tiny / name).unlink()
    with pytest.raises(ModelError, match=name.replace(".", r"\.")):
        Artifact.open(tiny)


@pytest.mark.parametrize("name", FILES)
def test_real_artifact_with_one_flipped_byte(copies: Path, name: str) -> None:
    path = copies / name
    position = path.stat().st_size // 2
    flip(path, position)
    try:
        with pytest.raises(ArtifactDamagedError, match=name.replace(".", r"\.")):
            Artifact.open(copies)
    finally:
        flip(path, position)
    assert Artifact.open(copies).name == models.DEFAULT_BI_ENCODER


def test_without_verification_a_flipped_weight_goes_unseen_but_the_manifest_does_not(tiny: Path) -> None:
    flip(tiny / "weights.bin", 3)
    assert Artifact.open(tiny, verify=False).name == "tiny"
    flip(tiny / "model.json", 200)
    with pytest.raises(ArtifactDamagedError, match=r"model\.json"):
        Artifact.open(tiny, verify=False)


def test_damaged_manifest_is_not_parsed(tiny: Path) -> None:
    (tiny / "model.json").write_bytes((tiny / "model.json").read_bytes() + b"}{ not JSON")
    with pytest.raises(ArtifactDamagedError, match="its own digest"):
        Artifact.open(tiny)


def test_manifest_without_digest_is_refused(tiny: Path) -> None:
    (tiny / "model.json").write_text(json.dumps(FIELDS), encoding="utf-8")
    with pytest.raises(ArtifactDamagedError, match="does not begin with a digest"):
        Artifact.open(tiny)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_other_format_version_is_refused(tiny: Path, version: object) -> None:
    rewrite(tiny, format_version=version)
    with pytest.raises(ModelError, match=f"format version {version!r}.*reads 1"):
        Artifact.open(tiny)


def test_other_kind_is_refused(tiny: Path) -> None:
    rewrite(tiny, kind="decoder")
    with pytest.raises(ModelError, match=r"'decoder'.*bi-encoder or cross-encoder"):
        Artifact.open(tiny)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 32},
        {"offset": 128},
        {"offset": -64},
        {"nbytes": 7},
        {"shape": [2, 4]},
        {"dtype": "float64"},
        {"scale": "missing"},
    ],
)
def test_impossible_tensor_table_is_refused(tiny: Path, change: dict[str, Any]) -> None:
    first, second = FIELDS["tensors"]
    rewrite(tiny, tensors=[{**first, **change}, second])
    with pytest.raises(ModelError, match=r"tensor table entry .* is not possible"):
        Artifact.open(tiny)


@pytest.mark.parametrize("change", [{"tensors": 3}, {"golden": {}}, {"tensors": [{"name": "w"}]}])
def test_manifest_of_another_form_is_refused(tiny: Path, change: dict[str, Any]) -> None:
    rewrite(tiny, **change)
    with pytest.raises(ModelError, match="not as expected"):
        Artifact.open(tiny)


def test_digest_changes_with_any_file_but_not_with_the_manifest(tiny: Path) -> None:
    before = Artifact.open(tiny)
    rewrite(tiny, source="elsewhere")
    assert Artifact.open(tiny).digest == before.digest
    (tiny / "tokenizer.json").write_bytes(b"[]")
    rewrite(tiny)
    after = Artifact.open(tiny)
    assert after.digest != before.digest
    assert after.tokenizer_digest != before.tokenizer_digest


@pytest.mark.parametrize("name", REAL)
def test_tensor_table_covers_the_weights_file_without_overlap(name: str) -> None:
    artifact = models.find(name)
    end = 0
    for info in sorted(artifact.tensors.values(), key=lambda info: info.offset):
        assert info.offset % ALIGNMENT == 0
        assert 0 <= info.offset - end < ALIGNMENT
        end = info.offset + info.nbytes
    assert end == artifact.weights_path.stat().st_size


@pytest.mark.parametrize("name", REAL)
def test_tensor_table_has_all_that_an_encoder_needs(name: str) -> None:
    artifact = models.find(name)
    width, wide = artifact.hidden, artifact.intermediate
    shapes = {
        "attention.self.query": (width, width),
        "intermediate.dense": (width, wide),
        "output.dense": (wide, width),
    }
    for layer in range(artifact.layers):
        for part, shape in shapes.items():
            place = f"bert.encoder.layer.{layer}.{part}"
            assert artifact.tensors[f"{place}.weight"].shape == shape
            assert artifact.tensors[f"{place}.bias"].shape == shape[1:]
    assert artifact.tensors["bert.embeddings.word_embeddings.weight"].shape == (artifact.vocabulary, width)


@pytest.mark.parametrize("name", REAL)
def test_quantised_tensors_have_usable_scales(name: str) -> None:
    artifact = models.find(name)
    quantised = [info for info in artifact.tensors.values() if info.scale is not None]
    assert len(quantised) >= 6 * artifact.layers
    for info in quantised:
        scale = artifact.load(info.scale) if isinstance(info.scale, str) else np.float32(info.scale)
        np.broadcast_shapes(scale.shape, info.shape)
        assert np.isfinite(scale).all()
        assert (scale > 0).all()


@pytest.mark.parametrize("name", REAL)
def test_graph_reads_the_tensors_where_the_table_says(name: str) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx comes with the extra `export`")
    artifact = models.find(name)
    graph = onnx.load(artifact.graph_path, load_external_data=False).graph
    external = {tensor.name: tensor for tensor in graph.initializer if tensor.external_data}
    assert set(external) == set(artifact.tensors)
    for info in artifact.tensors.values():
        place = {entry.key: entry.value for entry in external[info.name].external_data}
        assert place == {"location": "weights.bin", "offset": str(info.offset), "length": str(info.nbytes)}
        assert tuple(external[info.name].dims) == info.shape


def test_golden_logits_are_compared_by_difference() -> None:
    golden = Golden((("q", "a"), ("q", "b")), np.float32([1.0, -1.0]), "logit", 0.25)
    np.testing.assert_allclose(golden.errors([1.25, -1.0]), [0.25, 0.0])
    assert golden.accepts([1.25, -1.0])
    assert not golden.accepts([1.26, -1.0])
    assert golden.worst([np.nan, -1.0]) == np.inf


def test_golden_vectors_are_compared_by_cosine() -> None:
    golden = Golden(("a", "b"), np.float32([[1, 0], [0, 1]]), "cosine", 0.1)
    np.testing.assert_allclose(golden.errors([[2, 0], [1, 1]]), [0.0, 1 - np.sqrt(0.5)])
    assert golden.worst([[0, 0], [0, 1]]) == np.inf


def test_golden_outputs_of_another_shape_are_refused() -> None:
    golden = Golden((("q", "a"),), np.float32([1.0]), "logit", 0.25)
    with pytest.raises(ModelError, match=r"shape \(2,\), expected \(1,\)"):
        golden.errors([1.0, 2.0])


def test_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"expected a model folder with a model\.json"):
        read_manifest(tmp_path / "nowhere")
