"""What a store says of itself: other settings are refused by name, and what was written once can be read for ever."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runoff import chunking, lexical, manifest, words
from runoff import engine as engines
from runoff.chunking import ChunkSettings
from runoff.engine import Engine
from runoff.errors import StoreMismatchError
from runoff.stages import index_identity
from runoff.store import Store
from torture import recorded
from torture.world import CHUNKING, Stages, document, engine

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    engine(tmp_path / "store").add([document(1, 1)])
    return tmp_path / "store"


IDENTITY = [
    ("bi_encoder", "hash", "other"),
    ("bi_encoder_digest", "0" * 64, "f" * 64),
    ("dimensions", 16, 384),
    ("pooling", "none", "mean"),
    ("max_length", 256, 512),
    ("passage_tokenizer", "1" * 64, "2" * 64),
]
SETTINGS = [
    ("chunk_words", 12, ChunkSettings(size=13)),
    ("chunk_overlap", 0, ChunkSettings(size=12, overlap=1)),
]
RELEASE = [
    ("chunker", chunking, "VERSION", 99),
    ("words", words, "VERSION", 99),
    ("bm25_k1", lexical, "K1", 1.5),
    ("bm25_b", lexical, "B", 0.5),
]


def refused(folder: Path, stages: Any, settings: ChunkSettings, name: str, was: object, now: object) -> None:
    """Every way into the store says what it was made with, what was asked for, and what can be done."""
    opened = Engine(folder, stages, settings)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ways: list[Callable[[], object]] = [
        lambda: opened.search("payout", rerank=False),
        lambda: opened.add([document(2, 1)]),
        lambda: opened.delete(document(1, 1).id),
        opened.refresh,
        opened.compact,
    ]
    for way in ways:
        with pytest.raises(StoreMismatchError) as raised:
            way()
        text = str(raised.value)
        assert f"{folder}: made with {name} = {was!r}, asked to use {now!r}." in text
        assert "Use the settings it was made with, or ingest the sources into a new folder." in text
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(("name", "was", "now"), IDENTITY)
def test_another_model_is_refused(stored: Path, name: str, was: object, now: object) -> None:
    stages = Stages()
    stages.identity[name] = now
    refused(stored, stages, CHUNKING, name, was, now)


@pytest.mark.parametrize(("name", "was", "settings"), SETTINGS)
def test_another_way_to_cut_is_refused(stored: Path, name: str, was: object, settings: ChunkSettings) -> None:
    now = settings.size if name == "chunk_words" else settings.overlap
    refused(stored, Stages(), settings, name, was, now)


@pytest.mark.parametrize(("name", "module", "constant", "now"), RELEASE)
def test_what_another_release_made_is_refused(
    stored: Path, name: str, module: Any, constant: str, now: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = getattr(module, constant)
    monkeypatch.setattr(module, constant, now)
    refused(stored, Stages(), CHUNKING, name, was, now)


def test_vectors_of_another_type_are_refused(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "index_identity", lambda: {**index_identity(), "vectors": "int8"})
    refused(stored, Stages(), CHUNKING, "vectors", "float16", "int8")


def test_these_are_all_that_a_store_depends_on(stored: Path) -> None:
    names = [name for name, *_ in (*IDENTITY, *SETTINGS, *RELEASE)]
    assert sorted(Store.open(stored).identity) == sorted([*names, "vectors"])


def test_a_format_of_another_version_is_refused_with_both(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = manifest.VERSION
    monkeypatch.setattr(manifest, "READABLE", (98, 99))
    with pytest.raises(
        StoreMismatchError, match=rf"version {version}; this release reads 98 and 99.*into a new folder"
    ):
        Store.open(stored)


@pytest.mark.parametrize("folder", sorted(FIXTURES.glob("store-*")), ids=lambda folder: folder.name)
def test_a_store_that_was_made_long_ago_gives_the_answers_of_then(folder: Path, tmp_path: Path) -> None:
    store = shutil.copytree(folder, tmp_path / "store")
    path = FIXTURES / f"answers-{folder.name.removeprefix('store-')}.json"
    expected = json.loads(path.read_text(encoding="utf-8"))
    generation = Store.open(store).current()
    generation.check()
    found = json.loads(json.dumps(recorded.answers(generation)))
    for then, now in zip(expected.pop("hits"), found.pop("hits"), strict=True):
        scores = [hit.pop() for hit in then["found"]], [hit.pop() for hit in now["found"]]
        assert now == then
        assert scores[1] == pytest.approx(scores[0], abs=2e-5)
    assert found == expected


@pytest.mark.parametrize("folder", sorted(FIXTURES.glob("store-*")), ids=lambda folder: folder.name)
def test_a_store_that_was_made_long_ago_can_be_written_to(folder: Path, tmp_path: Path) -> None:
    store = shutil.copytree(folder, tmp_path / "store")
    opened = engine(store)
    opened.add([document(77, 1)])
    opened.delete(document(1, 1).id)
    assert opened.compact()
    texts = {hit.text for hit in opened.search("zq77x1 zq1x1", 50, rerank=False, mode="lexical").hits}
    assert any("zq77x1" in text for text in texts)
    assert not any("zq1x1" in text for text in texts)
    opened.store.current().check()


def test_the_fixture_has_every_kind_of_file() -> None:
    names = {path.name.split("-")[0] for path in (FIXTURES / f"store-{manifest.VERSION}").iterdir()}
    tables = {"records", "documents", "chunks", "passages", "texts", "tokens", "vectors"}
    assert names == tables | {"deleted", "state", "hnsw", "lexical", "columns", manifest.NAME}
