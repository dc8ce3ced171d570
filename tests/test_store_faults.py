"""What a store does when the disk, another process or its own past gets in the way; each was a bug once."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from runoff import index as vector_index
from runoff import lock, manifest
from runoff import store as stores
from runoff.errors import StoreDamagedError, StoreError, StoreMismatchError
from runoff.store import Store
from test_store import IDENTITY, contents, fill, put


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store", IDENTITY)


def test_a_commit_between_reading_and_opening_is_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    load = stores._load

    def slow(*arguments: object, **named: object) -> stores.Generation:
        generation = load(*arguments, **named)  # type: ignore[arg-type]
        monkeypatch.setattr(stores, "_load", load)
        fill(store, 1)
        return generation

    monkeypatch.setattr(stores, "_load", slow)
    reader = Store.open(store.folder)
    assert reader.current().snapshot.document_count == 1


def test_a_manifest_never_gets_the_inode_of_the_one_that_a_reader_saw(store: Store) -> None:
    for key in range(12):
        reader = Store.open(store.folder)
        seen = (store.folder / manifest.NAME).stat().st_ino
        fill(store, 2 * key)
        fill(store, 2 * key + 1)
        assert (store.folder / manifest.NAME).stat().st_ino != seen
        assert reader.current().snapshot.document_count == 2 * key + 2


def test_bytes_behind_a_generation_are_cut_off_by_the_next_writer(store: Store) -> None:
    fill(store, 1)
    size = (store.folder / "vectors-0.bin").stat().st_size
    with (store.folder / "vectors-0.bin").open("ab") as file:
        file.write(b"half a vector")
    with store.writer():
        pass
    assert (store.folder / "vectors-0.bin").stat().st_size == size


def test_a_commit_that_fails_gives_its_room_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, 1)
    before = {path.name: path.stat().st_size for path in store.folder.iterdir()}
    synced = iter(range(1000))

    def refuse(descriptor: int) -> None:
        if next(synced) == 5:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with store.writer() as writer:
        put(writer, 2)
        monkeypatch.setattr(manifest, "sync", refuse)
        with pytest.raises(StoreError, match=r"texts-0\.bin|tokens-0\.bin|vectors-0\.bin"):
            writer.commit()
        monkeypatch.undo()
        assert {path.name: path.stat().st_size for path in store.folder.iterdir()} == before
        assert writer.commit()
    assert len(contents(Store.open(store.folder))) == 2


def test_a_folder_that_cannot_be_synced_is_not_called_unchanged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(manifest, "sync_folder", refuse)
    with pytest.raises(StoreError, match="generation 2 is there, but the disk did not confirm"):
        fill(store, 1)
    assert store.current().snapshot.document_count == 1


def test_a_lock_that_cannot_be_written_is_a_typed_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(lock.os, "pwrite", refuse)
    with pytest.raises(StoreError, match=r"lock: cannot be locked \(No space left on device\)"), store.writer():
        pass
    monkeypatch.undo()
    fill(store, 1)


def test_a_store_that_another_process_has_just_made_is_taken_if_it_fits(store: Store) -> None:
    fill(store, 1)
    assert Store.create(store.folder, IDENTITY).current().snapshot.document_count == 1
    with pytest.raises(StoreMismatchError, match=r"'test'.*'other'"):
        Store.create(store.folder, {**IDENTITY, "bi_encoder": "other"})


def test_a_graph_is_checked_before_a_running_reader_loads_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "TAIL_ROWS", 4)
    reader = Store.open(store.folder)
    fill(store, 1, 2, 3)
    (path,) = store.folder.glob("hnsw-*.bin")
    data = bytearray(path.read_bytes())
    data[20] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(StoreDamagedError, match=path.name):
        reader.current()


def test_a_graph_that_a_writer_has_just_replaced_is_looked_for_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "TAIL_ROWS", 4)
    fill(store, 1, 2, 3)
    load = stores.load_graph

    def late(*arguments: object) -> object:
        monkeypatch.setattr(stores, "load_graph", load)
        fill(store, 4, 5, 6)  # continues the graph in a new file
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stores, "load_graph", late)
    assert Store.open(store.folder).current().snapshot.document_count == 6


def test_parts_that_did_not_change_are_read_once_and_never_taken_for_another_folder_s(store: Store) -> None:
    fill(store, *range(20))
    reader = Store.open(store.folder)
    before = reader.current()
    fill(store, 20)
    after = reader.current()
    assert after.lexical.segments[0] is before.lexical.segments[0]
    assert after.columns.segments[0] is before.columns.segments[0]
    shutil.rmtree(store.folder)
    fill(Store.create(store.folder, IDENTITY), *range(100, 120))
    renewed = reader.current()
    assert renewed.snapshot.document_count == 20
    assert renewed.lexical.search("105", 5)[0].size
    assert not renewed.lexical.search("5", 5)[0].size
