"""Exporting: settings and number grids everywhere; the whole way on tiny random models where the extra is installed."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import models
from runoff.artifact import Artifact, sha256
from runoff.errors import ExportError
from runoff.export import ExportSettings, run, vocabulary
from runoff.export.quantize import Grid, Quantized, onto, per_column, per_row
from runoff.export.weights import WeightsFile

MISSING = [name for name in ("torch", "transformers", "optimum", "onnx") if find_spec(name) is None]
needs_extra = pytest.mark.skipif(bool(MISSING), reason=f"the extra `export` is not installed: no {', '.join(MISSING)}")
SETTINGS = ExportSettings(name="tiny", kind="bi-encoder", out=Path("out"), checkpoint="folder")


# Settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name ''"),
        ({"name": "a/b"}, "name 'a/b'"),
        ({"name": "..", "out": Path("models")}, "name '..'"),
        ({"kind": "decoder"}, "kind 'decoder', expected bi-encoder or cross-encoder"),
        ({"precision": "int4"}, "precision 'int4', expected int8 or fp32"),
        ({"checkpoint": None}, "exactly one"),
        ({"from_onnx": Path("model.onnx")}, "exactly one"),
        ({"checkpoint": None, "from_onnx": Path("model.onnx")}, "recovers cross-encoders, not a bi-encoder"),
    ],
)
def test_settings_out_of_range_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ExportError, match=message):
        replace(SETTINGS, **change)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "runoff.export.pipeline", raising=False)
    for name in ("recover", "checkpoint", "naming", "graph"):
        monkeypatch.delitem(sys.modules, f"runoff.export.{name}", raising=False)
    with pytest.raises(ExportError, match=r"pip install 'runoff\[export\]'"):
        run(SETTINGS)


# Numbers


def test_one_scale_per_column_bounds_the_error_of_each_column() -> None:
    weight = np.random.default_rng(1).normal(size=(64, 48)).astype(np.float32) * np.geomspace(
        1e-3, 10, 48, dtype=np.float32
    )
    found = per_column(weight)
    assert (found.values.dtype, found.scale.shape) == (np.int8, (48,))
    assert np.abs(found.values).max(axis=0).tolist() == [127] * 48
    assert (np.abs(found.dequantize() - weight) <= 0.5001 * found.scale).all()


def test_one_scale_per_row_bounds_the_error_of_each_row() -> None:
    table = np.random.default_rng(2).normal(size=(50, 16)).astype(np.float32)
    found = per_row(table)
    assert found.scale.shape == (50, 1)
    assert (np.abs(found.dequantize() - table) <= 0.5001 * found.scale).all()


def test_rows_and_columns_of_zeros_stay_zeros() -> None:
    zeros = np.zeros((4, 3), dtype=np.float32)
    for found in (per_column(zeros), per_row(zeros)):
        np.testing.assert_array_equal(found.dequantize(), zeros)
        assert (found.scale > 0).all()


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", 0), ("uint8", 131)])
def test_a_known_grid_gives_the_same_integers_again(dtype: str, zero_point: int) -> None:
    limits = np.iinfo(dtype)
    values = np.random.default_rng(3).integers(limits.min, limits.max, (200, 30), endpoint=True).astype(dtype)
    grid = Grid(dtype, float(np.float32(0.0123)), zero_point)
    weight = Quantized(values, np.float32(grid.scale), zero_point).dequantize()
    np.testing.assert_array_equal(onto(weight, grid).values, values)


def test_a_weight_off_its_grid_is_refused() -> None:
    grid = Grid("int8", 0.5, 0)
    with pytest.raises(ExportError, match="w does not lie on its recorded int8 grid"):
        onto(np.float32([[0.5, 0.75]]), grid, "w")
    with pytest.raises(ExportError, match="w does not lie"):
        onto(np.float32([[64.0]]), grid, "w")


def test_weights_file_is_aligned_and_what_the_table_says(tmp_path: Path) -> None:
    weights = WeightsFile()
    arrays = {"a": np.arange(7, dtype=np.int8), "b": np.float32([[1, 2]]), "c": np.arange(64, dtype=np.uint8)}
    for name, array in arrays.items():
        weights.add(name, array)
    weights.write(tmp_path / "weights.bin")
    data = (tmp_path / "weights.bin").read_bytes()
    assert [info.offset for info in weights.table.values()] == [0, 64, 128]
    for name, info in weights.table.items():
        found = np.frombuffer(data, info.dtype, count=int(np.prod(info.shape)), offset=info.offset)
        np.testing.assert_array_equal(found.reshape(info.shape), arrays[name])


def test_only_the_original_vocabulary_is_installed(tmp_path: Path) -> None:
    licence = models.root() / "cl100k_base" / "LICENSE"
    about = {"licence_file": licence, "source": "somewhere", "revision": "1"}
    folder = vocabulary.install(models.vocabulary_path(), tmp_path, **about)
    assert sha256(folder / "cl100k_base.tiktoken") == vocabulary.CL100K_BASE
    (tmp_path / "other").write_bytes(b"IQ== 0\n")
    with pytest.raises(ExportError, match="the vocabulary is another or damaged"):
        vocabulary.install(tmp_path / "other", tmp_path, **about)


# The whole way, on tiny random models

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints of both kinds with random weights and the real tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoints")
    with Quiet():
        import torch
        from transformers import BertConfig, BertForSequenceClassification, BertModel

        torch.manual_seed(0)
        config = BertConfig(vocab_size=30522, initializer_range=0.2, **SIZES)
        bi_encoder = BertModel(config)
        config.num_labels = 1
        cross_encoder = BertForSequenceClassification(config)
        for name, model in (("bi-encoder", bi_encoder), ("cross-encoder", cross_encoder)):
            for parameter in (value for key, value in model.named_parameters() if key.endswith("bias")):
                torch.nn.init.normal_(parameter, std=0.2)
            model.save_pretrained(folder / name)
    for kind in ("bi-encoder", "cross-encoder"):
        shutil.copy(models.root() / models.DEFAULT_BI_ENCODER / "tokenizer.json", folder / kind)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def quantised(tiny: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cross-encoder as onnxruntime's own tool quantises it."""
    folder = tmp_path_factory.mktemp("quantised")
    with Quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from optimum.exporters.onnx import main_export

        main_export(str(tiny["cross-encoder"]), folder / "fp32", task="text-classification", do_validation=False)
        quantize_dynamic(folder / "fp32" / "model.onnx", folder / "model.onnx", weight_type=QuantType.QInt8)
    shutil.copy(tiny["cross-encoder"] / "tokenizer.json", folder)
    return folder / "model.onnx"


class Quiet(warnings.catch_warnings):
    """The libraries of the extra warn about themselves; our own code is not run inside."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)

    def __exit__(self, *details: object) -> None:
        logging.disable(logging.NOTSET)
        super().__exit__(*details)


def torch_outputs(folder: Path, kind: str, inputs: tuple[Any, ...], max_length: int) -> NDArray[np.float32]:
    """What transformers' own tokenizer and model make of the inputs, independently of the exporter."""
    with Quiet():
        import torch
        from transformers import BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), model_max_length=max_length)
        rows = []
        for entry in inputs:
            pair = (entry,) if isinstance(entry, str) else entry
            batch = tokenizer(*pair, truncation=True, return_tensors="pt", return_token_type_ids=True)
            with torch.inference_mode():
                if kind == "cross-encoder":
                    rows.append(BertForSequenceClassification.from_pretrained(folder).eval()(**batch).logits[0, 0])
                else:
                    mean = BertModel.from_pretrained(folder).eval()(**batch).last_hidden_state.mean(1)[0]
                    rows.append(mean / mean.norm())
        return np.stack([row.numpy() for row in rows])


@needs_extra
@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_a_checkpoint_becomes_an_artifact_that_passes(
    tiny: dict[str, Path], tmp_path: Path, kind: str, precision: str
) -> None:
    settings = ExportSettings("tiny", kind, tmp_path, checkpoint=str(tiny[kind]), precision=precision, licence="MIT")
    folder = run(settings)
    artifact = Artifact.open(folder)
    assert folder == tmp_path / "tiny"
    assert (artifact.kind, artifact.precision, artifact.licence) == (kind, precision, "MIT")
    assert (artifact.layers, artifact.heads, artifact.hidden, artifact.intermediate) == (2, 4, 32, 64)
    expected = torch_outputs(tiny[kind], kind, artifact.golden.inputs, artifact.max_length)
    np.testing.assert_allclose(artifact.golden.outputs, expected, atol=2e-5)
    assert models.verify(artifact).error <= artifact.golden.tolerance
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


@needs_extra
def test_fp32_weights_are_the_checkpoints(tiny: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    artifact = Artifact.open(
        run(ExportSettings("t", "bi-encoder", tmp_path, checkpoint=str(tiny["bi-encoder"]), precision="fp32"))
    )
    for name, weight in load_file(tiny["bi-encoder"] / "model.safetensors").items():
        if "pooler" not in name:
            linear = weight.ndim == 2 and "embeddings" not in name
            np.testing.assert_array_equal(artifact.load(f"bert.{name}"), weight.T if linear else weight)


@needs_extra
def test_same_checkpoint_gives_the_same_bytes(tiny: dict[str, Path], tmp_path: Path) -> None:
    settings = ExportSettings("tiny", "cross-encoder", tmp_path / "a", checkpoint=str(tiny["cross-encoder"]))
    first, second = run(settings), run(replace(settings, out=tmp_path / "b"))
    assert {p.name: p.read_bytes() for p in first.iterdir()} == {p.name: p.read_bytes() for p in second.iterdir()}


@needs_extra
@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_a_missed_tolerance_is_refused_with_its_figures(
    tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from runoff.export import pipeline

    settings = ExportSettings("tiny", kind, tmp_path, checkpoint=str(tiny[kind]))
    before = {path.name: path.read_bytes() for path in run(settings).iterdir()}
    monkeypatch.setitem(pipeline.TOLERANCES, (kind, "int8"), 1e-7)
    with pytest.raises(
        ExportError, match=r"the int8 graph: golden (cosine|logit) error \d.*at most 1e-07; nothing was written"
    ):
        run(settings)
    with pytest.raises(ExportError, match="nothing was written"):
        run(replace(settings, name="other"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "tiny").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


@needs_extra
def test_a_foreign_folder_is_not_replaced(tiny: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "precious").write_text("mine", encoding="utf-8")
    with pytest.raises(ExportError, match="exists and is no model folder"):
        run(ExportSettings("tiny", "bi-encoder", tmp_path, checkpoint=str(tiny["bi-encoder"])))
    assert (tmp_path / "tiny" / "precious").read_text(encoding="utf-8") == "mine"


@needs_extra
def test_recovery_finds_the_same_integers(quantised: Path, tmp_path: Path) -> None:
    import onnx
    from onnx import numpy_helper

    kept = tmp_path / "checkpoint"
    settings = ExportSettings("tiny", "cross-encoder", tmp_path / "out", from_onnx=quantised, keep_checkpoint=kept)
    artifact = Artifact.open(run(settings))
    graph = onnx.load(quantised).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    places = {node.input[1]: node.name for node in graph.node if node.op_type == "MatMulInteger"}
    assert len(places) == 2 * 6 + 2
    for weight, place in places.items():
        name = ".".join(place.strip("/").split("/")[:-1]) + ".weight"
        np.testing.assert_array_equal(artifact.load(name), arrays[weight])
        assert artifact.tensors[name].scale == arrays[weight.replace("_quantized", "_scale")].item()
    words = "bert.embeddings.word_embeddings.weight"
    np.testing.assert_array_equal(artifact.load(words), arrays[f"{words}_quantized"])
    assert artifact.tensors[words].zero_point == arrays[f"{words}_zero_point"].item()


@needs_extra
def test_a_recovered_checkpoint_exports_to_the_same_weights(quantised: Path, tmp_path: Path) -> None:
    kept = tmp_path / "checkpoint"
    settings = ExportSettings("a", "cross-encoder", tmp_path, from_onnx=quantised, keep_checkpoint=kept)
    first = Artifact.open(run(settings))
    second = Artifact.open(run(ExportSettings("b", "cross-encoder", tmp_path, checkpoint=str(kept))))
    assert first.files["weights.bin"] == second.files["weights.bin"]
    assert first.files["model.onnx"] == second.files["model.onnx"]


@needs_extra
def test_recovered_weights_are_close_to_the_original(quantised: Path, tiny: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    from runoff.export.recover import recover

    recover(quantised, tmp_path)
    original, found = (load_file(folder / "model.safetensors") for folder in (tiny["cross-encoder"], tmp_path))
    assert set(found) == set(original)
    for name, weight in found.items():
        assert weight.shape == original[name].shape
        assert np.abs(weight - original[name]).max() <= np.abs(original[name]).max() / 100
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert {key: config[key] for key in SIZES} == SIZES


@needs_extra
def test_an_unquantised_onnx_file_is_not_recovered(quantised: Path, tmp_path: Path) -> None:
    plain = quantised.parent / "fp32" / "model.onnx"
    with pytest.raises(ExportError, match="expected a BERT cross-encoder"):
        run(ExportSettings("tiny", "cross-encoder", tmp_path, from_onnx=plain))
    assert not list(tmp_path.iterdir())


@needs_extra
def test_a_source_with_another_hash_is_refused(tiny: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="expected 0000"):
        run(ExportSettings("t", "bi-encoder", tmp_path, checkpoint=str(tiny["bi-encoder"]), sha256="0" * 64))


@needs_extra
def test_a_checkpoint_of_the_other_kind_is_refused(tiny: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no weights \['classifier.*expected those of a cross-encoder"):
        run(ExportSettings("tiny", "cross-encoder", tmp_path, checkpoint=str(tiny["bi-encoder"])))


@needs_extra
@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("owner/model", "expected it pinned; give --revision"),
        ("./nowhere", "no such folder"),
        ("name", "no such folder"),
    ],
)
def test_a_checkpoint_that_is_not_there(tmp_path: Path, checkpoint: str, message: str) -> None:
    with pytest.raises(ExportError, match=message):
        run(ExportSettings("tiny", "bi-encoder", tmp_path, checkpoint=checkpoint))


@needs_extra
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "roberta"}, "model_type 'roberta', expected 'bert'"),
        ({"hidden_act": "relu"}, "hidden_act 'relu', expected 'gelu'"),
        ({"id2label": {"0": "a", "1": "b"}}, "2 labels, expected a cross-encoder with one score"),
        ({"max_position_embeddings": 4}, "a maximum length of 4 tokens"),
    ],
)
def test_an_unfit_checkpoint_is_refused(
    tiny: dict[str, Path], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(tiny["cross-encoder"], folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **change}), encoding="utf-8")
    with pytest.raises(ExportError, match=message):
        run(ExportSettings("tiny", "cross-encoder", tmp_path / "out", checkpoint=str(folder)))
