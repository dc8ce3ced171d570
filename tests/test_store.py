"""The store with vectors of its own: what readers see, what survives, what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import index as vector_index
from runoff import manifest as manifests
from runoff import writer as writers
from runoff.documents import Chunk, Document
from runoff.errors import (
    StoreDamagedError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
    StoreMissingError,
)
from runoff.snapshot import Entry, Snapshot
from runoff.store import Store
from runoff.writer import Writer

IDENTITY = {"bi_encoder": "test", "dimensions": 8, "chunk_words": 200, "chunk_overlap": 0}


def vectors_of(key: int, count: int) -> NDArray[np.float32]:
    """Vectors of a document's passages, such as half precision holds."""
    vectors = np.random.default_rng(key).standard_normal((count, 8)).astype(np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)


def tokens_of(key: int, count: int) -> list[NDArray[np.uint16]]:
    rng = np.random.default_rng(key)
    return [rng.integers(1000, 30522, size=5 + part).astype(np.uint16) for part in range(count)]


def entry(key: int, chunks: int = 2, word: str = "payout") -> Entry:
    body = [f"{word} number {key} part {part} é漢" for part in range(chunks)]
    return Entry(
        document=Document(
            f"{key:016x}", f"Title {key}", "\n\n".join(body), url=f"https://a.example/{key}", tags=("x", "y")
        ),
        chunks=[Chunk("body", part, text, part * 10, part * 10 + 5) for part, text in enumerate(body)],
    )


def put(writer: Writer, key: int, chunks: int = 2, word: str = "payout") -> None:
    made = entry(key, chunks, word)
    texts = [chunk.text for chunk in made.chunks]
    missing = writer.missing(texts)
    places = [texts.index(text) for text in missing]
    tokens = tokens_of(key, chunks)
    writer.add_passages(missing, vectors_of(key, chunks)[places], [tokens[place] for place in places])
    writer.put(made)


def fill(store: Store, *keys: int, chunks: int = 2) -> None:
    with store.writer() as writer:
        for key in keys:
            put(writer, key, chunks)
        writer.commit()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store", IDENTITY)


def contents(store: Store) -> dict[str, list[str]]:
    snapshot = store.current().snapshot
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(snapshot.chunk_alive):
        chunk = snapshot.chunk(int(row))
        found.setdefault(chunk.document_id, []).append(chunk.text)
    return found


def test_everything_put_comes_back_after_reopening(store: Store) -> None:
    fill(store, 1, 2, 3)
    snapshot = Store.open(store.folder).current().snapshot
    stored = {e.document.id: e for e in snapshot.entries()}
    assert set(stored) == {f"{key:016x}" for key in (1, 2, 3)}
    for key in (1, 2, 3):
        wanted, got = entry(key), stored[f"{key:016x}"]
        assert got.document == wanted.document
        assert got.chunks == wanted.chunks
        rows = snapshot.find_passages(chunk.text for chunk in wanted.chunks)
        for part, chunk in enumerate(wanted.chunks):
            np.testing.assert_array_equal(snapshot.vectors[rows[chunk.text]], vectors_of(key, 2)[part])
            np.testing.assert_array_equal(snapshot.tokens(rows[chunk.text]), tokens_of(key, 2)[part])


def test_put_replaces_a_document_whole_and_gives_new_chunk_ids(store: Store) -> None:
    fill(store, 1, 2)
    old_ids = store.current().snapshot.entry(0).ids
    with store.writer() as writer:
        put(writer, 1, 3, word="refund")
        writer.commit()
    texts = contents(store)
    assert [text.split()[0] for text in texts[f"{1:016x}"]] == ["refund"] * 3
    assert len(texts) == 2
    snapshot = store.current().snapshot
    new_ids = set(snapshot.chunks["id"][snapshot.chunk_alive].tolist())
    assert not new_ids & set(old_ids or [])


def test_delete_removes_and_stays_removed(store: Store) -> None:
    fill(store, 1, 2)
    with store.writer() as writer:
        assert writer.delete(f"{1:016x}")
        assert not writer.delete(f"{1:016x}")
        assert not writer.delete("absent")
        writer.commit()
    reopened = Store.open(store.folder)
    assert set(contents(reopened)) == {f"{2:016x}"}
    rows, _ = reopened.current().dense.search(vectors_of(1, 2)[0], 10)
    assert len(rows) == 2


def test_nothing_staged_means_no_new_generation(store: Store) -> None:
    fill(store, 1)
    before = (store.folder / manifests.NAME).read_bytes()
    with store.writer() as writer:
        assert writer.unchanged(entry(1).document)
        assert not writer.commit()
    assert (store.folder / manifests.NAME).read_bytes() == before


def test_what_was_not_committed_is_dropped(store: Store) -> None:
    fill(store, 1)
    with store.writer() as writer:
        put(writer, 2)
    assert set(contents(Store.open(store.folder))) == {f"{1:016x}"}


def test_left_overs_beyond_the_manifest_are_ignored_and_overwritten(store: Store) -> None:
    fill(store, 1)
    with (store.folder / "vectors-0.bin").open("ab") as file:
        file.write(b"half a vector")
    (store.folder / "texts-7.bin").write_bytes(b"a compaction that died")
    assert set(contents(Store.open(store.folder))) == {f"{1:016x}"}
    fill(store, 2)
    assert not (store.folder / "texts-7.bin").exists()
    assert set(contents(Store.open(store.folder))) == {f"{1:016x}", f"{2:016x}"}
    np.testing.assert_array_equal(store.current().snapshot.vectors[2:4], vectors_of(2, 2))


def test_a_reader_keeps_its_generation_and_then_sees_the_next(store: Store) -> None:
    fill(store, 1)
    reader = Store.open(store.folder)
    old = reader.current()
    fill(store, 2)
    assert old.snapshot.document_count == 1
    assert reader.current().snapshot.document_count == 2
    assert reader.current().number == old.number + 1


def test_compaction_keeps_live_documents_with_their_chunk_ids(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "COMPACT_ROWS", 4)
    fill(store, *range(10))
    ids = {e.document.id: e.ids for e in store.current().snapshot.entries()}
    with store.writer() as writer:
        for key in range(8):
            writer.delete(f"{key:016x}")
        writer.commit()
    snapshot = Store.open(store.folder).current().snapshot
    assert snapshot.manifest.epoch == 1
    assert {e.document.id: e.ids for e in snapshot.entries()} == {key: ids[key] for key in (f"{8:016x}", f"{9:016x}")}
    fill(store, 20)
    assert len(store.current().snapshot.chunks) == 6
    assert not (store.folder / "texts-0.bin").exists()
    assert max(store.current().snapshot.chunks["id"]) >= 20


def test_more_neighbours_than_there_are_gives_what_there_is(store: Store) -> None:
    rows, scores = store.current().dense.search(vectors_of(1, 2)[0], 5)
    assert len(rows) == len(scores) == 0
    fill(store, 1)
    rows, scores = store.current().dense.search(vectors_of(1, 2)[1], 50)
    assert rows.tolist() == [1, 0]
    assert scores[0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damage_to_any_file_is_found_and_named(store: Store, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "TAIL_ROWS", 4)
    fill(store, 1, 2, 3)
    with store.writer() as writer:
        writer.delete(f"{2:016x}")
        writer.commit()
    names = [path.name for path in store.folder.iterdir() if path.name != "lock"]
    assert {name.split("-")[0] for name in names} >= {
        "records",
        "chunks",
        "texts",
        "tokens",
        "vectors",
        "hnsw",
        "deleted",
    }
    for name in names:
        path = store.folder / name
        sound = path.read_bytes()
        if damage == "remove":
            path.unlink()
        elif damage == "truncate":
            path.write_bytes(sound[:-1])
        else:
            path.write_bytes(
                sound[:20] + bytes([sound[20] ^ 1]) + sound[21:]
                if len(sound) > 20
                else bytes([sound[0] ^ 1]) + sound[1:]
            )
        expected = StoreMissingError if (damage, name) == ("remove", manifests.NAME) else StoreDamagedError
        with pytest.raises(expected, match=name if expected is StoreDamagedError else "no Runoff store"):
            Store.open(store.folder)
        path.write_bytes(sound)
    assert len(contents(Store.open(store.folder))) == 2


def test_a_path_that_cannot_be_a_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(StoreError, match="is a file"):
        Store.open(file)
    with pytest.raises(StoreMissingError, match="runoff ingest"):
        Store.open(tmp_path / "absent")
    with pytest.raises(StoreMissingError):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="holds 'file'"):
        Store.create(tmp_path, IDENTITY)
    with pytest.raises(StoreError):
        Store.create(file / "below", IDENTITY)


def test_data_without_a_manifest_is_not_overwritten(store: Store) -> None:
    fill(store, 1)
    (store.folder / manifests.NAME).unlink()
    before = {path.name: path.read_bytes() for path in store.folder.iterdir()}
    with pytest.raises(StoreError, match=r"holds 'chunks-0\.bin' and no Runoff store"):
        Store.create(store.folder, IDENTITY)
    assert {path.name: path.read_bytes() for path in store.folder.iterdir()} == before


def test_another_identity_is_refused_with_both_values(store: Store) -> None:
    store.require({"bi_encoder": "test"})
    with pytest.raises(StoreMismatchError, match=r"'test'.*'other'"):
        store.require({**IDENTITY, "bi_encoder": "other"})


def test_a_format_of_another_version_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "VERSION", 99)
    manifests.write(store.folder, store.current().snapshot.manifest)
    with pytest.raises(StoreMismatchError, match="version 99"):
        Store.open(store.folder)


def test_a_second_writer_is_told_who_holds_the_lock(store: Store) -> None:
    code = (
        "import sys; from pathlib import Path; from runoff.store import Store\n"
        f"store = Store.open(Path({str(store.folder)!r}))\n"
        "with store.writer():\n    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreLockedError, match=f"pid {other.pid} since"), store.writer():
            pass
        other.kill()
    fill(store, 1)  # the lock died with its holder


READ_ONLY = """
import ctypes, os, sys
from pathlib import Path
if os.geteuid() == 0 and len(sys.argv) == 3:  # root may write anywhere until it gives up CAP_DAC_OVERRIDE
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], sys.argv[1], sys.argv[2], "dropped"])
from runoff.errors import StoreError
from runoff.store import Store
store = Store.open(Path(sys.argv[1]))
print(store.current().snapshot.document_count)
try:
    with store.writer():
        pass
except StoreError as error:
    print(error)
"""


def test_a_read_only_folder_can_be_read_and_not_written(store: Store) -> None:
    fill(store, 1)
    (store.folder / "lock").unlink()
    store.folder.chmod(0o500)
    arguments = [sys.executable, "-c", READ_ONLY, str(store.folder), READ_ONLY]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    store.folder.chmod(0o700)
    count, message = done.stdout.splitlines()
    assert count == "1"
    assert f"{store.folder / 'lock'}: cannot be written (Permission denied)" in message


def test_a_full_disk_leaves_the_old_generation(store: Store) -> None:
    fill(store, 1)
    code = (
        "import resource, signal; from pathlib import Path; import sys; sys.path.insert(0, sys.argv[2])\n"
        "from runoff.store import Store; from runoff.errors import StoreError; from test_store import put\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "store = Store.open(Path(sys.argv[1]))\n"
        "try:\n    \n    with store.writer() as w:\n        [put(w, k) for k in range(2, 60)]; w.commit()\n"
        "except StoreError as error:\n    print(error); sys.exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.folder), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert "File too large" in done.stdout
    assert str(store.folder) in done.stdout
    assert set(contents(Store.open(store.folder))) == {f"{1:016x}"}
    fill(store, 2)
    assert len(contents(Store.open(store.folder))) == 2


def test_readers_and_a_writer_at_once_see_whole_generations(store: Store) -> None:
    fill(store, 0)
    errors: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        reader = Store.open(store.folder)
        while not stop.wait(0.005):
            try:
                counts = {len(texts) for texts in contents(reader).values()}
                assert counts == {2}, counts
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for round_ in range(1, 30):
        fill(store, round_, round_ // 2)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors


def test_first_seen_is_kept_through_edits_and_compaction(store: Store) -> None:
    def seen() -> str:
        snapshot = store.current().snapshot
        return snapshot.first_seen(snapshot.find_documents([f"{1:016x}"])[f"{1:016x}"])

    for moment, word in ((1000, "payout"), (2000, "refund")):
        writer = Writer(store.folder, store.current().snapshot, clock=lambda moment=moment: moment)
        put(writer, 1, word=word)
        writer.commit()
        assert seen() == "1970-01-01T00:16:40Z"
    with store.writer() as again:
        assert again.compact()
    assert seen() == "1970-01-01T00:16:40Z"


def test_compaction_by_hand_changes_no_answer_and_says_when_there_is_nothing_to_do(store: Store) -> None:
    fill(store, *range(6))
    with store.writer() as writer:
        writer.delete(f"{2:016x}")
        put(writer, 4, word="refund")
        writer.commit()
    before, size = contents(store), sum(path.stat().st_size for path in store.folder.iterdir())
    found = store.current().dense.search(vectors_of(4, 2)[0], 5)[1]
    with store.writer() as writer:
        assert writer.compact()
        assert not writer.compact()
    assert contents(Store.open(store.folder)) == before
    np.testing.assert_array_equal(store.current().dense.search(vectors_of(4, 2)[0], 5)[1], found)
    assert sum(path.stat().st_size for path in store.folder.iterdir()) < size
    assert store.current().snapshot.documents.size == 5


def test_small_parts_are_merged_and_large_ones_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "PART_ROWS", 16)
    for key in range(40):
        fill(store, key, chunks=1)
    manifest = store.current().snapshot.manifest
    for parts in (manifest.lexical, manifest.columns):
        assert [part.first for part in parts[1:]] == [part.last for part in parts[:-1]]
        assert (parts[0].first, parts[-1].last) == (0, 40)
        assert all(part.rows <= 16 for part in parts)
        assert len(parts) <= 8
    fill(store, *range(100, 150), chunks=1)
    assert store.current().snapshot.manifest.lexical[-1].last == 90
    assert set(contents(Store.open(store.folder))) == {f"{key:016x}" for key in (*range(40), *range(100, 150))}


def test_a_long_ingest_may_leave_the_graph_for_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "TAIL_ROWS", 4)
    monkeypatch.setattr(vector_index, "SCAN_ROWS", 2)
    with store.writer() as writer:
        for key in range(5):
            put(writer, key)
            writer.commit(index=False)
        assert store.current().dense.method == "exact"
        assert writer.commit()
        assert not writer.commit()
    assert store.current().dense.method == "hnsw"
    fill(store, 7)
    rows, _ = Store.open(store.folder).current().dense.search(vectors_of(7, 2)[0], 1)
    assert rows.tolist() == [10]


def test_a_generation_made_elsewhere_shares_the_graphs_that_did_not_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "TAIL_ROWS", 4)
    fill(store, 1, 2)
    reader = Store.open(store.folder)
    before = reader.current()
    (name,) = (part.name for part in before.snapshot.manifest.graphs)
    (key,) = (key for key in before.parts if name in str(key))
    fill(store, 3)
    assert reader.current().parts[key] is before.parts[key]
    assert reader.current().snapshot.document_count == 3


def known(snapshot: Snapshot) -> list[list[int]]:
    found = [snapshot.find_documents(f"{key:016x}" for key in range(99))]
    found.append(snapshot.find_passages(f"payout number {key} part 0 é漢" for key in range(99)))
    arrays = (snapshot.document_alive, snapshot.chunk_alive, snapshot.uses, snapshot.alive)
    return [*(array.tolist() for array in arrays), *(sorted(rows.values()) for rows in found)]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_carried_on_from_generation_to_generation_is_what_a_new_reader_finds(store: Store, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reader = Store.open(store.folder)
    followed = 0
    for number in range(25):
        with store.writer() as writer:
            for key in rng.integers(0, 40, 4).tolist():
                if rng.random() < 0.4:
                    writer.delete(f"{key:016x}")
                else:
                    put(writer, key, int(rng.integers(1, 4)), rng.choice(["payout", "refund"]))
            if number % 9 == 8:
                writer.compact()
            writer.commit()
        fresh = known(Store.open(store.folder).current().snapshot)
        before = reader.current().snapshot
        assert known(before) == known(store.current().snapshot) == fresh
        followed += before._passage_keys is not None
    assert followed == 25


def test_another_store_under_the_same_name_is_not_taken_for_a_later_generation(store: Store, tmp_path: Path) -> None:
    fill(store, 1, 2, 3)
    reader = Store.open(store.folder)
    assert len(known(reader.current().snapshot)[0]) == 3
    other = Store.create(tmp_path / "other", IDENTITY)
    fill(other, 7, 8, 9, 10)
    with other.writer() as writer:
        writer.delete(f"{7:016x}")
        writer.commit()
    for path in store.folder.iterdir():
        path.unlink()
    for path in other.folder.iterdir():
        shutil.copy(path, store.folder)
    assert known(reader.current().snapshot) == known(other.current().snapshot)


def test_a_commit_that_failed_leaves_nothing_to_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, 1, 2)
    with store.writer() as writer:
        put(writer, 3)
        with monkeypatch.context() as patched:
            patched.setattr(writers.lexical, "build", lambda *_: (_ for _ in ()).throw(StoreError("full")))
            with pytest.raises(StoreError, match="full"):
                writer.commit()
        writer.delete(f"{3:016x}")
        writer.delete(f"{1:016x}")
        put(writer, 4, 3)
        writer.commit()
    assert known(store.current().snapshot) == known(Store.open(store.folder).current().snapshot)
    assert list(contents(store)) == [f"{2:016x}", f"{4:016x}"]


def test_a_commit_without_deletions_keeps_the_list_of_deleted_rows(store: Store) -> None:
    fill(store, 1, 2)
    with store.writer() as writer:
        writer.delete(f"{1:016x}")
        writer.commit()
    name = store.current().snapshot.manifest.named("deleted")
    fill(store, 3)
    assert store.current().snapshot.manifest.named("deleted") == name is not None
