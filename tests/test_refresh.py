"""Refreshing a store from its sources: what is asked, what is embedded, what is written, what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopback import Handler, Server, serving
from runoff import engine as engine_module
from runoff import feeds, ingest
from runoff.documents import Document
from runoff.engine import Engine
from runoff.results import SourceReport
from runoff.stages import ModelStages

DAY = "2026-03-0{}T10:00:00Z"


def feed(*entries: tuple[str, str, str], title: str = "News", day: int = 1) -> bytes:
    """An Atom feed of (id, title, text)."""
    body = "".join(
        f"<entry><id>tag:a.example,2026:{key}</id><title>{name}</title><published>{DAY.format(day)}</published>"
        f'<link href="https://a.example/{key}"/><content type="text">{text}</content></entry>'
        for key, name, text in entries
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>{title}</title>{body}</feed>'.encode()


OVEN = ("oven", "The oven", "The oven on the third floor is warm from six in the morning.")
CLOCK = ("clock", "The clock", "The clock in the hall runs four minutes fast.")
LIFT = ("lift", "The lift", "The lift is being repaired and out of use until Friday.")


class Counting:
    """The real bi-encoder, which keeps the texts that it was given."""

    def __init__(self, stages: ModelStages) -> None:
        self._stages = stages
        self.encoder = self
        self.texts: list[str] = []
        self.tokenizer, self.scorer, self.counter = stages.tokenizer, stages.scorer, stages.counter
        self.backend, self.identity = stages.backend, stages.identity

    def encode(self, texts: Sequence[str], *, progress: Any = None) -> np.ndarray:
        self.texts += texts
        return self._stages.encoder.encode(texts)


@pytest.fixture
def counting(stages: ModelStages) -> Counting:
    return Counting(stages)


@pytest.fixture
def counted(tmp_path: Path, counting: Counting) -> Engine:
    return Engine(tmp_path / "store", counting)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def files(engine: Engine) -> dict[str, tuple[int, bytes]]:
    """Time of change and bytes of each file of a store but the lock."""
    paths = [path for path in engine.folder.iterdir() if path.name != "lock"]
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def one(engine: Engine, *source: str | Path) -> SourceReport:
    (report,) = engine.refresh(*source).sources
    assert report.error is None
    return report


def texts(engine: Engine) -> set[str]:
    """Texts that any mode of search can find."""
    found: set[str] = set()
    for mode in ("dense", "lexical", "hybrid"):
        result = engine.search("the oven, the clock or the lift", 50, rerank=False, mode=mode)  # type: ignore[arg-type]
        found |= {hit.text for hit in result.hits}
    return found


def test_a_feed_that_did_not_change_is_asked_conditionally_and_nothing_is_written(
    server: Server, counted: Engine, counting: Counting
) -> None:
    def answer(handler: Handler) -> None:
        if handler.headers["If-None-Match"] == '"one"':
            handler.reply(304)
        else:
            handler.reply(200, feed(OVEN, CLOCK), ETag='"one"', Last_Modified="Mon, 02 Mar 2026 10:00:00 GMT")

    server.answers["/feed"] = answer
    counted.ingest(server.at("/feed"))
    before = files(counted)
    counting.texts.clear()
    report = one(Engine(counted.folder, counting))
    assert report.not_modified
    assert server.asked[-1][1]["If-Modified-Since"] == "Mon, 02 Mar 2026 10:00:00 GMT"
    assert counting.texts == []
    assert files(counted) == before


def test_a_feed_that_only_says_when_it_was_built_writes_nothing(server: Server, counted: Engine) -> None:
    built = iter(range(100))
    server.answers["/feed"] = lambda handler: handler.reply(200, feed(OVEN, CLOCK, title=f"Built {next(built)}"))
    counted.ingest(server.at("/feed"))
    before = files(counted)
    for _ in range(2):
        report = one(counted)
        assert (report.added, report.updated, report.unchanged, report.embedded) == (0, 0, 2, 0)
    assert files(counted) == before


def test_a_feed_that_broke_off_harms_nothing_and_is_asked_for_again(server: Server, counted: Engine) -> None:
    whole = feed(OVEN, ("clock", "The clock", "The clock in the hall is right again."))
    cut = whole[: whole.rindex(b"<content")]
    now = iter([(feed(OVEN, CLOCK), '"one"'), (cut, '"two"'), (whole, '"two"')])
    tags: list[str | None] = []

    def answer(handler: Handler) -> None:
        tags.append(handler.headers["If-None-Match"])
        body, tag = next(now)
        if tags[-1] == tag:
            handler.reply(304)
        else:
            handler.reply(200, body, ETag=tag)

    server.answers["/feed"] = answer
    counted.ingest(server.at("/feed"))
    report = one(counted)
    assert (report.updated, report.unchanged) == (0, 1)
    assert "breaks off" in report.warnings[1]
    assert CLOCK[2] in texts(counted)
    assert one(counted).updated == 1
    assert "The clock in the hall is right again." in texts(counted)
    assert '"two"' not in tags


def test_what_was_read_of_a_broken_feed_does_not_count_as_all_of_it(server: Server, counted: Engine) -> None:
    whole = feed(OVEN, CLOCK)
    now = iter([whole[: whole.rindex(b"<content")], whole])
    server.answers["/feed"] = lambda handler: (
        handler.reply(304) if handler.headers["If-None-Match"] else handler.reply(200, next(now), ETag='"one"')
    )
    assert counted.ingest(server.at("/feed")).total("added") == 1
    assert one(counted).added == 1
    assert one(counted).not_modified


def test_only_what_changed_is_embedded_and_the_old_text_is_gone(
    tmp_path: Path, counted: Engine, counting: Counting
) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(feed(OVEN, CLOCK))
    counted.ingest(path)
    counting.texts.clear()
    path.write_bytes(feed(OVEN, ("clock", "The clock", "The clock in the hall is right again."), LIFT))
    report = one(counted)
    assert (report.added, report.updated, report.unchanged) == (1, 1, 1)
    assert counting.texts == ["The clock in the hall is right again.", "The lift", LIFT[2]]
    assert texts(counted) == {OVEN[1], OVEN[2], "The clock", counting.texts[0], "The lift", LIFT[2]}
    built, _ = counted.prompt("What about the clock?")
    assert "four minutes fast" not in built.text


def test_an_entry_that_left_the_feed_stays(tmp_path: Path, counted: Engine) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(feed(OVEN, CLOCK))
    counted.ingest(path)
    path.write_bytes(feed(LIFT))
    assert one(counted).added == 1
    assert {OVEN[2], CLOCK[2], LIFT[2]} <= texts(counted)


def test_what_was_deleted_stays_deleted_until_its_source_is_ingested_by_name(
    tmp_path: Path, counted: Engine, stages: ModelStages
) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(feed(OVEN, CLOCK))
    counted.ingest(path)
    key = counted.search("Which floor is the oven on?", 1).hits[0].document_id
    assert counted.delete(key) == 1
    path.write_bytes(feed(OVEN, CLOCK, LIFT))
    reopened = Engine(counted.folder, stages)
    assert one(reopened).added == 1
    assert texts(reopened) == {CLOCK[1], CLOCK[2], LIFT[1], LIFT[2]}
    assert reopened.ingest(path).total("added") == 1
    assert OVEN[2] in texts(reopened)
    path.write_bytes(feed(("oven", "The oven", "The oven is cold."), CLOCK, LIFT))
    assert one(reopened).updated == 1


@pytest.mark.parametrize("linked", [False, True], ids=["plain paths", "through a link"])
def test_two_feeds_with_versions_of_one_entry_do_not_take_turns(tmp_path: Path, counted: Engine, linked: bool) -> None:
    (tmp_path / "feeds").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "feeds")
    folder = tmp_path / ("link" if linked else "feeds")
    long, short = folder / "long.xml", folder / "short.xml"
    built = iter(range(100))
    summary = ("oven", "The oven", "The oven is warm.")

    def write(day: int = 1) -> None:
        long.write_bytes(feed(OVEN, title=f"Long {next(built)}"))
        short.write_bytes(feed(summary, CLOCK, title=f"Short {next(built)}", day=day))

    write()
    counted.ingest(long, short)
    counted.ingest(long)  # by name: this one's version counts from here on
    for _ in range(3):
        write()
        reports = counted.refresh().sources
        assert [(report.added, report.updated, report.embedded) for report in reports] == [(0, 0, 0)] * 2
    assert OVEN[2] in texts(counted)
    write(day=2)  # a later version
    counted.refresh()
    assert summary[2] in texts(counted)


def shared_id(*names: str, text: str = "is about") -> bytes:
    """An RSS feed of items that all have one guid, a link each and no date."""
    items = (
        f"<item><guid>42</guid><link>https://a.example/{name[0]}</link><title>{name}</title>"
        f"<description>The {name} {text} the oven.</description></item>"
        for name in names
    )
    return f'<rss version="2.0"><channel><title>News</title>{"".join(items)}</channel></rss>'.encode()


@pytest.mark.parametrize("named", [False, True], ids=["refresh", "ingest"])
@pytest.mark.parametrize(
    "windows",
    [["ab", "ab", "b", "b", "cb", "ca", "a", "abc"], ["a", "a", "ab", "ba", "b", "bc", "cd", "c"], ["a", "ba", "cba"]],
    ids=["shared first", "alone first", "growing"],
)
def test_entries_of_one_guid_keep_their_ids_as_others_come_and_go(
    tmp_path: Path, counted: Engine, windows: list[str], named: bool
) -> None:
    path = tmp_path / "feed.xml"
    seen: set[str] = set()
    read = counted.ingest if named else counted.refresh
    for window in windows:
        path.write_bytes(shared_id(*window))
        report = (read if seen else counted.ingest)(path)
        assert report.total("added") == len(set(window) - seen)
        assert report.total("updated") == 0
        seen |= set(window)
    last = windows[-1][-1]
    path.write_bytes(shared_id(*windows[-1][:-1], f"{last} edited"))
    assert counted.refresh().total("updated") == 1
    kept = {f"The {name} is about the oven." for name in seen if name != last}
    assert {text for text in texts(counted) if "is about" in text} == kept | {f"The {last} edited is about the oven."}


def test_entries_that_a_caller_adds_keep_their_ids_too(counted: Engine) -> None:
    for window in ("ab", "b", "cb"):
        feed = feeds.parse(shared_id(*window), "https://a.example/feed")
        counted.add(feed.documents, ids=feed.ids)
    assert counted.store.current().snapshot.document_count == 3


def test_an_entry_that_was_removed_does_not_come_back_under_another_id(tmp_path: Path, counted: Engine) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(shared_id("a", "b"))
    counted.ingest(path)
    (key,) = {hit.document_id for hit in counted.search("oven", 9, rerank=False).hits if hit.title == "b"}
    counted.delete(key)
    for window in ("b", "bc", "cba", "b"):
        path.write_bytes(shared_id(*window))
        counted.refresh()
        assert not any(text == "b" or "The b" in text for text in texts(counted))
    counted.ingest(path)
    assert "The b is about the oven." in texts(counted)


def test_what_has_neither_link_nor_date_stays_when_it_leaves_the_feed(tmp_path: Path, counted: Engine) -> None:
    path = tmp_path / "feed.xml"
    items = [f"<item><guid>status</guid><title>Status {number}</title></item>" for number in range(6)]
    for chosen in ([0, 1, 2, 3, 4], [1, 2, 3, 4], [3, 4], [3], [0], [0, 3]):
        window = "".join(items[number] for number in chosen)
        path.write_text(f'<rss version="2.0"><channel>{window}</channel></rss>')
        reports = (counted.refresh if len(chosen) < 5 else counted.ingest)(path)
        assert reports.total("added") == (5 if len(chosen) == 5 else 0)
        assert reports.total("updated") == 0
        assert len(counted.search("status", 50, rerank=False).hits) == 5


def test_what_a_forgotten_source_brought_is_free_for_others(tmp_path: Path, counted: Engine) -> None:
    folder, other = tmp_path / "feeds", tmp_path / "other.xml"
    folder.mkdir()
    (folder / "one.xml").write_bytes(feed(OVEN))
    other.write_bytes(feed(OVEN, CLOCK))
    counted.ingest(other, folder / "one.xml", folder)
    counted.forget(folder)  # one.xml is still refreshed by its own name
    for edited, updated in (("The oven is cold.", 0), ("The oven is warm.", 1)):
        other.write_bytes(feed(("oven", "The oven", edited), CLOCK))
        assert one(counted, other).updated == updated
        counted.forget(folder / "one.xml")
    assert "The oven is warm." in texts(counted)
    assert [Path(name).name for name in counted.store.current().state.files] == ["other.xml"]


def test_a_folder_is_remembered_with_what_it_will_hold(tmp_path: Path, counted: Engine) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("The oven is warm.")
    counted.ingest(folder)
    assert counted.sources() == (str(folder),)
    (folder / "b.txt").write_text("The clock is right.")
    reports = {Path(report.source).name: report for report in counted.refresh().sources}
    assert reports["a.txt"].not_modified
    assert reports["b.txt"].added == 1


def test_the_files_of_a_folder_are_stored_by_few_commits(
    tmp_path: Path, counted: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.txt").write_text(f"Note {number} is about the oven.")
    (folder / "07.txt").write_bytes(bytes(100))
    report = counted.ingest(folder)
    assert [Path(one.source).name for one in report.sources] == [f"{number:02}.txt" for number in range(30)]
    assert [Path(one.source).name for one in report.failed] == ["07.txt"]
    assert [one.added for one in report.sources] == [number != 7 for number in range(30)]
    assert counted.store.current().number == 2
    monkeypatch.setattr(engine_module, "_BATCH_CHARACTERS", 50)
    for number in (3, 4, 5, 20):
        (folder / f"{number:02}.txt").write_text(f"Note {number} is about the clock.")
    report = counted.refresh()
    assert [one.updated for one in report.sources] == [number in (3, 4, 5, 20) for number in range(30)]
    assert counted.store.current().number == 4
    assert counted.refresh().total("embedded") == 0
    assert counted.store.current().number == 4


def test_a_source_that_fails_is_reported_and_the_others_go_on(tmp_path: Path, counted: Engine) -> None:
    gone, there = tmp_path / "gone.txt", tmp_path / "there.txt"
    gone.write_text("The lift is broken.")
    there.write_text("The oven is warm.")
    counted.ingest(gone, there)
    gone.unlink()
    there.write_text("The oven is cold.")
    report = counted.refresh()
    assert [failed.source for failed in report.failed] == [str(gone)]
    assert report.total("updated") == 1
    assert "The lift is broken." in texts(counted)


def test_a_source_whose_reading_broke_off_is_read_again(
    tmp_path: Path, counted: Engine, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(feed(OVEN))
    counted.ingest(path)
    key = counted.search("Which floor is the oven on?", 1).hits[0].document_id
    counted.delete(key)
    path.write_bytes(feed(OVEN, CLOCK, LIFT))
    monkeypatch.setattr(ingest, "BLOCK_CHUNKS", 2)  # one document
    encode, failures = counting.encode, iter([False, True])

    def failing(texts: Sequence[str], **options: Any) -> np.ndarray:
        if next(failures):
            raise MemoryError
        return encode(texts, **options)

    monkeypatch.setattr(counting, "encode", failing)
    with pytest.raises(MemoryError):
        counted.refresh()
    monkeypatch.setattr(counting, "encode", encode)
    report = one(Engine(counted.folder, counting))
    assert (report.added, report.unchanged, report.not_modified) == (1, 1, False)
    assert {CLOCK[2], LIFT[2]} <= texts(counted)
    assert OVEN[2] not in texts(counted)


def test_a_relative_path_is_remembered_as_a_whole_one(
    tmp_path: Path, counted: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("The oven is warm.")
    monkeypatch.chdir(tmp_path)
    counted.ingest("a.txt")
    monkeypatch.chdir("/")
    assert one(counted).not_modified
    assert counted.forget(tmp_path / "a.txt") == 1
    assert counted.refresh().sources == ()
    assert "The oven is warm." in texts(counted)


def test_a_text_that_several_documents_have_is_stored_once_and_shown_once(counted: Engine, counting: Counting) -> None:
    boiler = "Subscribe to our letter and never miss a story."
    documents = [Document(f"{number:016x}", f"Story {number}", boiler) for number in range(3)]
    report = counted.add(documents)
    assert (report.chunks, report.embedded) == (6, 4)
    assert counting.texts.count(boiler) == 1
    hits = [hit for hit in counted.search("letter of stories", 10).hits if hit.text == boiler]
    assert [hit.document_id for hit in hits] == [documents[0].id]
    counted.delete(documents[0].id)
    hits = [hit for hit in counted.search("letter of stories", 10).hits if hit.text == boiler]
    assert [hit.document_id for hit in hits] == [documents[1].id]
    counted.delete(documents[1].id, documents[2].id)
    assert counted.search("letter of stories", 10).hits == ()
    counting.texts.clear()
    counted.add([Document("f" * 16, "Another", boiler)])  # its vector is still there
    assert counting.texts == ["Another"]
    (hit,) = [hit for hit in counted.search("letter of stories", 10).hits if hit.text == boiler]
    assert hit.document_id == "f" * 16


def test_interval_forms() -> None:
    from runoff.cli import repeat
    from runoff.errors import QueryError

    assert [repeat.seconds(text) for text in ("90s", "15m", "1h", "0.5d")] == [90, 900, 3600, 43200]
    for text in ("", "1", "h", "-1h", "0s", "1 week"):
        with pytest.raises(QueryError, match="every: got"):
            repeat.seconds(text)
