"""Facts about an installation, with what cannot be had told as an error's text."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from runoff import cpu, info, models
from runoff.artifact import Artifact
from runoff.caching import DEFAULT_BYTES
from runoff.documents import Document
from runoff.engine import Engine
from runoff.errors import QueryError
from runoff.stages import ModelStages


@pytest.fixture
def no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the installed models, which takes seconds less than loading them."""
    folder = tmp_path / "models"
    folder.mkdir()
    monkeypatch.setenv("RUNOFF_MODELS", str(folder))
    return folder


def test_facts_of_this_machine(tmp_path: Path, stages: ModelStages) -> None:
    Engine(tmp_path / "store", stages).add([Document("0" * 16, "Rivers", "Rivers run.\n\nThey end in the sea.")])
    found = info.collect(tmp_path / "store", threads_setting=1)
    assert list(found) == ["version", "cpu", "threads", "models_folder", "models", "caches", "store"]
    assert found["cpu"] == {"model": cpu.model_name(), "features": list(cpu.features())}
    assert found["threads"] == 1
    assert found["models_folder"] == str(models.root())
    for model, artifact in zip(found["models"], stages.artifacts, strict=True):
        assert list(model) == ["name", "kind", "sha256", "backend", "reason"]
        assert (model["name"], model["kind"]) == (artifact.name, artifact.kind)
        assert model["sha256"] == artifact.digest
        assert model["backend"] == stages.encoder.backend
        assert "passes the golden self-test" in model["reason"]
    assert sum(found["caches"].values()) == DEFAULT_BYTES
    store = found["store"]
    assert (store["generation"], store["documents"], store["chunks"]) == (2, 1, 2)
    assert store["tokens"] == sum(len(ids) for ids in stages.tokenizer.encode_batch(_chunk_texts(tmp_path, stages)))
    data = [path for path in (tmp_path / "store").iterdir() if path.suffix == ".bin"]
    assert store["bytes"] == sum(path.stat().st_size for path in data) > 0
    assert store["bi_encoder"] == models.DEFAULT_BI_ENCODER
    json.dumps(found, allow_nan=False)


def test_deleted_chunks_do_not_count(tmp_path: Path, stages: ModelStages, no_models: Path) -> None:
    engine = Engine(tmp_path / "store", stages)
    engine.add(Document(f"{number:016x}", "Rivers", f"River {number} runs.") for number in range(2))
    before = info.collect(tmp_path / "store")["store"]
    engine.delete("0" * 16)
    after = info.collect(tmp_path / "store")["store"]
    assert (before["documents"], after["documents"]) == (2, 1)
    assert (before["chunks"], after["chunks"]) == (4, 2)
    assert (before["passages"], after["passages"]) == (3, 2)  # both have one headline
    assert 0 < after["tokens"] < before["tokens"]


def test_a_store_that_is_missing_or_damaged_is_an_error_in_its_place(
    tmp_path: Path, stages: ModelStages, no_models: Path
) -> None:
    folder = tmp_path / "store"
    assert "no Runoff store" in info.collect(folder)["store"]["error"]
    assert not folder.exists()
    Engine(folder, stages).add([Document("0" * 16, "Rivers", "Rivers run.")])
    vectors = folder / "vectors-0.bin"
    vectors.write_bytes(vectors.read_bytes()[:-1])
    assert "vectors-0.bin" in info.collect(folder)["store"]["error"]
    assert info.collect(vectors)["store"]["error"].startswith(f"{vectors}: is a file")


def test_a_damaged_model_is_an_error_in_its_place(
    tmp_path: Path, no_models: Path, stages: ModelStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for artifact in stages.artifacts:
        shutil.copytree(artifact.path, no_models / artifact.name, copy_function=os.symlink)
    damaged = no_models / models.DEFAULT_BI_ENCODER / "tokenizer.json"
    damaged.unlink()
    damaged.write_bytes(b"{}")
    broken, sound = info.collect(tmp_path / "store")["models"]
    assert set(broken) == {"name", "error"}
    assert broken["name"] == models.DEFAULT_BI_ENCODER
    assert str(damaged) in broken["error"]
    assert sound["sha256"] == stages.artifacts[1].digest
    assert sound["backend"] == stages.backend


def test_a_backend_that_is_not_there_is_an_error_beside_the_hash(tmp_path: Path) -> None:
    for model in info.collect(tmp_path / "store", backend="tensorrt")["models"]:
        assert model["sha256"] == Artifact.open(models.root() / model["name"]).digest
        assert "tensorrt" in model["error"]
        assert "backend" not in model


def test_no_models(tmp_path: Path, no_models: Path) -> None:
    found = info.collect(tmp_path / "store")
    assert (found["models_folder"], found["models"]) == (str(no_models), [])


def test_a_thread_count_out_of_range_is_refused(tmp_path: Path, no_models: Path) -> None:
    with pytest.raises(QueryError, match="got 0"):
        info.collect(tmp_path / "store", threads_setting=0)


def _chunk_texts(tmp_path: Path, stages: ModelStages) -> list[str]:
    hits = Engine(tmp_path / "store", stages).search("rivers", 10, rerank=False).hits
    return [hit.text for hit in hits]
