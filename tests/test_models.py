"""Finding, listing and verifying installed models."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import backends, models
from runoff.artifact import Artifact
from runoff.errors import ArtifactDamagedError, BackendError, ModelError

DEFAULTS = [models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder of its own with one real model in it."""
    shutil.copytree(models.root() / models.DEFAULT_BI_ENCODER, tmp_path / models.DEFAULT_BI_ENCODER)
    monkeypatch.setenv("RUNOFF_MODELS", str(tmp_path))
    return tmp_path


def perfect(artifact: Artifact, backend: str, inputs: Sequence[Any]) -> tuple[str, NDArray[np.float32]]:
    return backend, artifact.golden.outputs.copy()


def test_both_encoders_and_the_vocabulary_are_installed() -> None:
    assert models.names() == ["all-MiniLM-L6-v2", "cl100k_base", "ms-marco-MiniLM-L-12-v2"]
    assert [artifact.name for artifact in models.installed()] == DEFAULTS
    assert models.vocabulary_path().stat().st_size == 1_681_126


def test_default_bi_encoder_is_what_the_design_says() -> None:
    artifact = models.find(models.DEFAULT_BI_ENCODER)
    assert (artifact.kind, artifact.dimensions, artifact.layers, artifact.max_length) == ("bi-encoder", 384, 6, 256)
    assert (artifact.pooling, artifact.normalize, artifact.precision) == ("mean", True, "int8")
    assert artifact.licence == "Apache-2.0"


def test_default_cross_encoder_is_what_the_design_says() -> None:
    artifact = models.find(models.DEFAULT_CROSS_ENCODER)
    assert (artifact.kind, artifact.dimensions, artifact.layers, artifact.max_length) == ("cross-encoder", 1, 12, 512)
    assert (artifact.pad_id, artifact.cls_id, artifact.sep_id) == (0, 101, 102)
    assert artifact.licence == "Apache-2.0"


def test_a_model_is_found_by_path_too() -> None:
    folder = models.root() / models.DEFAULT_BI_ENCODER
    assert models.find(str(folder)).digest == models.find(folder).digest == models.find(folder.name).digest


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(ModelError, match=r"no model 'bert'.*all-MiniLM-L6-v2, cl100k_base"):
        models.find("bert")


def test_unknown_path_is_named() -> None:
    with pytest.raises(ModelError, match=r"some/where/model\.json: No such file"):
        models.find("some/where")


def test_the_vocabulary_is_no_encoder() -> None:
    with pytest.raises(ModelError, match="'vocabulary', expected bi-encoder or cross-encoder"):
        models.find("cl100k_base")


def test_root_can_be_chosen(copy: Path) -> None:
    assert models.root() == copy
    assert models.names() == [models.DEFAULT_BI_ENCODER]
    with pytest.raises(ModelError, match=r"cl100k_base\.tiktoken: no such file"):
        models.vocabulary_path()


def test_root_that_is_not_there_has_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNOFF_MODELS", str(tmp_path / "nowhere"))
    assert models.names() == []
    assert models.installed() == []
    with pytest.raises(ModelError, match="there is none"):
        models.find(models.DEFAULT_BI_ENCODER)


@pytest.mark.parametrize("name", DEFAULTS)
def test_real_models_pass_on_the_real_backend(name: str) -> None:
    found = models.verify(name, "onnxruntime")
    assert found.backend == "onnxruntime"
    assert 0 < found.error <= found.tolerance
    assert found.files[0] == "model.json"
    assert {"model.onnx", "weights.bin", "tokenizer.json", "LICENSE"} < set(found.files)


def test_verify_names_the_backend_that_auto_took() -> None:
    assert models.verify(models.DEFAULT_BI_ENCODER, "auto").backend in backends.BACKENDS


def test_vocabulary_passes_without_a_backend() -> None:
    found = models.verify("cl100k_base")
    assert found.backend == ""
    assert "cl100k_base.tiktoken" in found.files


def test_verify_hashes_the_files_of_an_open_artifact_again(copy: Path) -> None:
    artifact = models.find(models.DEFAULT_BI_ENCODER)
    with (copy / artifact.name / "weights.bin").open("r+b") as file:
        file.seek(12_345)
        file.write(b"\x55\xaa\x55\xaa")
    with pytest.raises(ArtifactDamagedError, match=r"weights\.bin"):
        models.verify(artifact, runner=perfect)


def test_verify_compares_with_the_golden_outputs() -> None:
    found = models.verify(models.DEFAULT_CROSS_ENCODER, "test", runner=perfect)
    assert (found.backend, found.error) == ("test", 0.0)


@pytest.mark.parametrize("shift", [1.0, np.nan, np.inf])
def test_verify_refuses_a_backend_that_misses_them(shift: float) -> None:
    def shifted(artifact: Artifact, backend: str, inputs: Sequence[Any]) -> tuple[str, NDArray[np.float32]]:
        return backend, artifact.golden.outputs + np.float32(shift)

    with pytest.raises(BackendError, match=r"ms-marco-MiniLM-L-12-v2 on test: golden logit error .*at most 0\.8"):
        models.verify(models.DEFAULT_CROSS_ENCODER, "test", runner=shifted)
