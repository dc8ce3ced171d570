"""What a name of a source leads to: files, folders and addresses, whole and damaged."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from runoff import sources
from runoff.documents import Document
from runoff.errors import FetchError, SourceError
from runoff.fetch import FetchSettings
from runoff.sources import Loaded, expand, load

FEED = (
    b"<?xml version='1.0'?><rss version='2.0'><channel><title>Shop</title><item><title>Payouts</title><guid>g</guid>"
    b"<link>/1</link><description>Two days.</description></item></channel></rss>"
)


def only(path: Path) -> Document:
    """The one document of a file without anything odd about it."""
    loaded = load(str(path))
    assert loaded.warnings == ()
    [document] = loaded.documents
    return document


def refused(source: str | Path) -> str:
    with pytest.raises(SourceError) as caught:
        load(str(source))
    return str(caught.value)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes | str], Path]:
    """Puts a file into a folder of this test's own."""

    def write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


Write = Callable[[str, "bytes | str"], Path]


def test_a_plain_file(write: Write) -> None:
    path = write("fees and taxes.txt", "First <b>line</b>\nof it.\n\n\nSecond &amp; last.\n")
    document = only(path)
    assert document.title == "fees and taxes"
    assert document.body == "First <b>line</b> of it.\n\nSecond &amp; last."
    assert document.source == str(path)


def test_a_markdown_file(write: Write) -> None:
    document = only(write("fees.md", "# Fees & *taxes*\n\nTwo **per cent**, see\n[here](x).\n\n- one\n- two\n"))
    assert document.title == "Fees & taxes"
    assert document.body == "Two per cent, see here.\n\none\n\ntwo"


MARKDOWN = {
    "no heading": ("Just text.", "fees", "Just text."),
    "front matter": ("---\ntitle: 'Our fees'\ntags: [a]\n---\nText.", "Our fees", "Text."),
    "front matter beside a heading": ("---\ntitle: Fees\n---\n# Prices\n\nText.", "Fees", "Prices\n\nText."),
    "code keeps its brackets": ("# T\n\n    List<String> & x\n", "T", "List<String> & x"),
    "table": ("# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "T", "a b\n\n1 2"),
    "HTML": ("# T\n\n<div>one</div>\n\n<script>no</script>\n", "T", "one"),
    "a rule is no front matter": ("# T\n\n---\n\ntext\n\n---\n", "T", "text"),
}


@pytest.mark.parametrize(("markdown", "title", "body"), MARKDOWN.values(), ids=MARKDOWN)
def test_markdown(write: Write, markdown: str, title: str, body: str) -> None:
    document = only(write("fees.md", markdown))
    assert (document.title, document.body) == (title, body)


@pytest.mark.parametrize("unit", ["[", "> ", "*", "_a", "`", "- ", "<a ", "![", "\\", "&", "|a\n|-\n"])
def test_hostile_markdown_ends(write: Write, unit: str) -> None:
    assert load(str(write("a.md", "start\n\n" + unit * 2_000 + "\n\nend"))).documents[0].body.startswith("start")


HTML = {
    "title": (
        "<title>Fees &amp; taxes</title><body><p>Two <b>per cent</b><script>x</script>",
        "Fees & taxes",
        "Two per cent",
    ),
    "heading": ("<title>Shop</title><h1>Fees</h1><p>Two", "Fees", "Two"),
    "no title": ("<p>Two per cent", "page", "Two per cent"),
}


@pytest.mark.parametrize("name", ["page.html", "page.htm", "page.HTML", "page.html.gz"])
@pytest.mark.parametrize(("markup", "title", "body"), HTML.values(), ids=HTML)
def test_html_files(write: Write, name: str, markup: str, title: str, body: str) -> None:
    document = only(write(name, gzip.compress(markup.encode()) if name.endswith(".gz") else markup))
    assert (document.title, document.body) == (title, body)


@pytest.mark.parametrize("name", ["a.rss", "a.xml", "a.atom", "a.rdf", "feed", "a.txt", "a.html", "a.xml.gz", "a.bin"])
def test_a_feed_is_known_by_its_content(write: Write, name: str) -> None:
    document = only(write(name, gzip.compress(FEED) if name.endswith(".gz") else FEED))
    assert (document.title, document.body) == ("Payouts", "Two days.")


def test_a_compressed_file_needs_no_name_that_says_so(write: Write) -> None:
    assert only(write("a.rss", gzip.compress(FEED))).title == "Payouts"


NO_DOCUMENT = {
    "empty text": ("a.txt", b"", "no text"),
    "blank text": ("a.txt", b" \n\n ", "no text"),
    "blank page": ("a.html", b"<p> </p><script>x</script>", "no text"),
    "blank markdown": ("a.md", b"<!-- nothing -->", "no text"),
    "a page that is called a feed": ("a.xml", b"<!doctype html><html><body>404", "HTML page"),
    "an empty feed file": ("a.rss", b"", "empty document"),
    "another ending": ("a.docx", b"PK\x03\x04", ".docx"),
    "no ending": ("notes", b"plain text", "XML"),
    "bytes that are no text": ("a.txt", b"\x7fELF\x02\x01\x01 shop" * 9, "control characters"),
    "an archive of nothing": ("a.xml.gz", b"\x1f\x8b\x08", "gzip"),
    "a damaged archive": ("a.xml.gz", b"\x1f\x8b" + bytes(40), "gzip"),
}


@pytest.mark.parametrize(("name", "content", "came"), NO_DOCUMENT.values(), ids=NO_DOCUMENT)
def test_what_holds_no_document(write: Write, name: str, content: bytes, came: str) -> None:
    path = write(name, content)
    message = refused(path)
    assert came in message
    assert name in message
    assert "expected" in message


ENCODED = {
    "UTF-8": ("utf-8", 0),
    "UTF-8 with a mark": ("utf-8-sig", 0),
    "UTF-16 with a mark": ("utf-16", 0),
    "UTF-32 with a mark": ("utf-32", 0),
    "Windows-1252": ("cp1252", 1),
}


@pytest.mark.parametrize(("encoding", "warnings"), ENCODED.values(), ids=ENCODED)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.jsonl"])
def test_encodings(write: Write, name: str, encoding: str, warnings: int) -> None:
    content = "un café: “cher”, très cher"
    written = json.dumps({"text": content}, ensure_ascii=False) if name == "a.jsonl" else content
    loaded = load(str(write(name, written.encode(encoding))))
    assert loaded.documents[0].body == content
    assert len(loaded.warnings) == warnings
    assert all("Windows-1252" in warning for warning in loaded.warnings)


def test_hyphens_that_are_not_seen_are_no_control_characters(write: Write) -> None:
    assert only(write("a.txt", "Zah\u00adlun\u00adgen in\u00ads Aus\u00adland")).body == "Zahlungen ins Ausland"


def test_a_page_may_name_its_encoding(write: Write) -> None:
    page = "<meta http-equiv='Content-Type' content='text/html; charset=koi8-r'><p>выплата"
    assert only(write("a.html", page.encode("koi8-r"))).body == "выплата"


def lines(*records: object) -> str:
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


def test_records(write: Write) -> None:
    full = {"id": "a", "title": " The\ntitle ", "text": "One.\n\nTwo <b>.", "url": "https://shop.example/1"}
    full |= {
        "published": "2026-03-02T10:00:00+01:00",
        "author": "Ada",
        "tags": ["fx", "fx", " a\nb "],
        "more": {"x": 1},
    }
    path = write("a.jsonl", lines(full, "", {"body": "alone"}, {"title": "alone"}))
    first, second, third = load(str(path)).documents
    assert first == Document(
        first.id,
        "The title",
        "One.\n\nTwo <b>.",
        url="https://shop.example/1",
        source=str(path),
        published="2026-03-02T09:00:00Z",
        author="Ada",
        tags=("fx", "a b"),
    )
    assert (second.title, second.body) == ("", "alone")
    assert (third.title, third.body) == ("alone", "")


def test_records_may_be_compressed_and_end_in_crlf(write: Write) -> None:
    path = write("a.jsonl.gz", gzip.compress(lines({"text": "a"}, {"text": "b"}).replace("\n", "\r\n").encode()))
    assert [document.body for document in load(str(path)).documents] == ["a", "b"]


def test_a_line_separator_inside_a_string_ends_no_line(write: Write) -> None:
    assert only(write("a.jsonl", '{"text": "a\u2028b"}')).body == "a b"


BAD_LINES: dict[str, tuple[object, str]] = {
    "no JSON": ("{not json", "not JSON"),
    "half a line": ('{"text": "cut o', "not JSON"),
    "deep": ("[" * 100_000, "not JSON"),
    "huge number": ('{"id": ' + "9" * 5_000 + ', "text": "a"}', "not JSON"),
    "a list": ([1], "list"),
    "a string": ('"text"', "str"),
    "null": ("null", "NoneType"),
    "no text": ({"id": "x", "url": "https://shop.example"}, "neither"),
    "blank text": ({"text": " \n"}, "neither"),
    "a number as text": ({"text": 5}, "text: got int"),
    "a list as title": ({"text": "a", "title": ["t"]}, "title: got list"),
    "a number as url": ({"text": "a", "url": 1}, "url: got int"),
    "a fraction as id": ({"text": "a", "id": 1.5}, "id: got float"),
    "a truth as id": ({"text": "a", "id": True}, "id: got bool"),
    "a string as tags": ({"text": "a", "tags": "fx"}, "tags"),
    "numbers as tags": ({"text": "a", "tags": [1]}, "tags"),
    "a list as language": ({"text": "a", "language": ["en"]}, "language: got list"),
}


@pytest.mark.parametrize(("line", "said"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_left_out_and_told(write: Write, line: object, said: str) -> None:
    loaded = load(str(write("a.jsonl", lines({"text": "good"}, "", line, {"text": "also good"}))))
    assert [document.body for document in loaded.documents] == ["good", "also good"]
    [warning] = loaded.warnings
    assert warning.startswith("line 3: ")
    assert said in warning


def test_a_date_that_is_none_costs_no_text(write: Write) -> None:
    loaded = load(str(write("a.jsonl", lines({"text": "good", "published": "yesterday"}))))
    assert loaded.documents[0].published is None
    assert "line 1: published: got 'yesterday'" in loaded.warnings[0]


def test_a_language_that_is_none_costs_no_text(write: Write) -> None:
    loaded = load(
        str(write("a.jsonl", lines({"text": "a", "language": "pt_br"}, {"text": "b", "language": "English"})))
    )
    assert [document.language for document in loaded.documents] == ["pt-BR", None]
    assert loaded.warnings == ("line 2: language: got 'English'; expected a tag such as en or pt-BR",)


def test_own_fields_of_records(write: Write) -> None:
    own = {"price": 3, "rate": -0.5, "sold": False, "town": " New\n Ulm ", "rooms": ["hall", "", " the  attic"]}
    document = only(write("a.jsonl", lines({"text": "a", "none": None, "empty": "", "nothing": [], **own})))
    assert document.fields == own | {"town": "New Ulm", "rooms": ("hall", "the attic")}


ODD_FIELDS: dict[str, tuple[str, object, str]] = {
    "an object": ("x", {"y": 1}, "got dict; expected a text, a number"),
    "a list of numbers": ("x", [1, 2], "got a list of other things"),
    "a list of all sorts": ("x", ["a", None], "got a list of other things"),
    "a long list": ("x", ["a"] * 101, "got 101 texts; expected at most 100"),
    "a long text": ("x", "a" * 1001, "more than 1000 characters"),
    "a long text in a list": ("x", ["a" * 1001], "more than 1000 characters"),
    "a large number": ("x", 2**63, "64 bits"),
    "an infinite number": ("x", float("inf"), "got inf; expected a finite number"),
    "no number": ("x", float("nan"), "got nan; expected a finite number"),
    "a source": ("source", "x", "the name is taken"),
    "a kind": ("kind", "x", "the name is taken"),
    "no name": ("", "x", "1 to 64 printable characters"),
    "a long name": ("x" * 65, "x", "1 to 64 printable characters"),
    "a name of controls": ("a\nb", "x", "1 to 64 printable characters"),
}


@pytest.mark.parametrize(("name", "value", "said"), ODD_FIELDS.values(), ids=ODD_FIELDS)
def test_fields_that_are_passed_over_are_told(write: Write, name: str, value: object, said: str) -> None:
    loaded = load(str(write("a.jsonl", lines(*({"id": key, "text": "a", name: value, "y": 1} for key in "abc")))))
    assert [document.fields for document in loaded.documents] == [{"y": 1}] * 3
    [warning] = loaded.warnings
    assert said in warning
    assert warning.startswith(f"field {name[:60]!r}"[:60].rstrip("'"))
    assert warning.endswith("passed over in 3 lines")


def test_fields_are_bounded_in_number(write: Write) -> None:
    wide = {f"f{number}": number for number in range(60)}
    loaded = load(str(write("a.jsonl", lines({"text": "a", **wide}))))
    assert list(loaded.documents[0].fields) == list(wide)[:50]
    assert "f50" in loaded.warnings[0]
    assert "more than 50 fields" in loaded.warnings[0]
    many = [{"id": number, "text": "a", f"f{number}": 1, "f0": 2} for number in range(300)]
    documents = load(str(write("b.jsonl", lines(*many)))).documents
    assert len({name for document in documents for name in document.fields}) == 200
    assert documents[-1].fields == {"f0": 2}


LANGUAGES_OF_PAGES = {
    "<!doctype html><html lang=en-gb><p>x": "en-GB",
    "<html xmlns='http://www.w3.org/1999/xhtml' xml:lang='pt'><body>x</body></html>": "pt",
    "<HTML LANG='DE'><body lang=fr>x": "de",
    "<html lang=''><p>x": None,
    "<html lang='klingon empire'><p>x": None,
    "<p lang=en>x": None,
}


@pytest.mark.parametrize(("page", "expected"), LANGUAGES_OF_PAGES.items())
def test_the_language_of_a_page(write: Write, page: str, expected: str | None) -> None:
    assert only(write("a.html", page)).language == expected


def test_a_file_without_a_usable_line(write: Write) -> None:
    assert "line 1" in refused(write("a.jsonl", lines("{", "[")))
    assert "empty" in refused(write("b.jsonl", ""))


def test_of_equal_ids_the_last_line_counts(write: Write) -> None:
    loaded = load(str(write("a.jsonl", lines({"id": 7, "text": "old"}, {"text": "x"}, {"id": "7", "text": "new"}))))
    assert sorted(document.body for document in loaded.documents) == ["new", "x"]
    [warning] = loaded.warnings
    assert warning.startswith("line 3: ")


def test_many_warnings_are_counted(write: Write) -> None:
    warnings = load(str(write("a.jsonl", lines({"text": "good"}, *["{"] * 1000)))).warnings
    assert len(warnings) < 50
    assert "more" in warnings[-1]


def test_unseen_characters_of_records(write: Write) -> None:
    record = '{"id": "\\ud83d", "title": "a\\u0000b", "text": "c\\ud83dd", "url": "x\\u0007", "tags": ["\\u0000e"]}'
    document = only(write("a.jsonl", record))
    assert (document.title, document.body, document.url, document.tags) == ("ab", "c\ufffdd", "x", ("e",))
    assert document.text_hash


def test_ids_of_records_come_from_what_they_state(write: Write) -> None:
    def ids(name: str, *records: object) -> list[str]:
        return [document.id for document in load(str(write(name, lines(*records)))).documents]

    by_id, by_url, by_text = {"id": "a", "text": "t"}, {"url": "https://shop.example/1", "text": "t"}, {"text": "t"}
    found = ids("a.jsonl", by_id, by_url, by_text)
    assert len(set(found)) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in found)
    assert ids("b.jsonl", by_text, by_url, by_id) == found[::-1]
    assert ids("c.jsonl", by_id | {"text": "edited", "url": "https://shop.example/2"})[0] == found[0]
    assert ids("d.jsonl", by_url | {"text": "edited"})[0] == found[1]


def test_ids_of_files_come_from_their_path(write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write("docs/a.txt", "text")
    first = only(path).id
    write("docs/a.txt", "edited")
    (tmp_path / "link.txt").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert {only(path).id, only(Path("docs/a.txt")).id, only(Path("docs/../docs/a.txt")).id} == {first}
    assert only(Path("link.txt")).id == first
    assert only(write("docs/b.txt", "text")).id != first


def test_a_truncated_archive_is_read_as_far_as_it_goes(write: Write) -> None:
    whole = gzip.compress(b"".join(b"%d. A line of this text.\n\n" % number for number in range(20_000)))
    loaded = load(str(write("a.txt.gz", whole[: len(whole) // 2])))
    assert loaded.documents[0].body.startswith("0. A line of this text.\n\n1. A line")
    assert "gzip" in loaded.warnings[0]


def test_archives_are_bounded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES", 100_000)
    assert "100000 bytes" in refused(write("a.txt.gz", gzip.compress(b"a " * 60_000)))
    assert "100000 bytes" in refused(write("a.txt", b"a " * 60_000))
    assert only(write("b.txt", b"a " * 50_000)).body


def test_what_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.xml")
    (tmp_path / "dangling.xml").symlink_to(tmp_path / "gone.xml")
    assert "no such file" in refused(tmp_path / "dangling.xml")
    (tmp_path / "loop.xml").symlink_to(tmp_path / "loop.xml")
    assert "loop.xml" in refused(tmp_path / "loop.xml")


@pytest.mark.parametrize("name", ["a\x00b.xml", "x" * 5_000, "a\ud800.xml"], ids=["NUL", "long", "surrogate"])
def test_names_that_cannot_be(name: str) -> None:
    assert expand(name) == [name]
    refused(name).encode()


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.xml")
    assert "not a regular file" in refused(tmp_path / "pipe.xml")
    assert "not a regular file" in refused("/dev/null")
    # Named by its folder it is told, too, and does not hold up the others.
    assert expand(str(tmp_path)) == [str(tmp_path / "pipe.xml")]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_what_may_not_be_read(write: Write) -> None:
    path = write("a.txt", "text")
    path.chmod(0)
    assert "cannot be read" in refused(path)


def test_a_folder_stands_for_its_files(write: Write, tmp_path: Path) -> None:
    wanted = ["b.txt", "a.md", "sub/deep/c.rss", "sub/a.jsonl.gz", "D.HTML"]
    for name in [*wanted, ".hidden.txt", ".git/a.txt", "sub/.x/a.md", "a.py", "noending", "picture.png", "a.tar.gz"]:
        write(name, "text")
    (tmp_path / "dir.txt").mkdir()
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "gone.txt")
    (tmp_path / "again").symlink_to(tmp_path)
    found = expand(str(tmp_path))
    assert found == sorted(found)
    assert set(found) >= {str(tmp_path / name) for name in wanted}
    assert set(found) <= {str(tmp_path / name) for name in [*wanted, "dangling.txt"]}
    assert expand(str(tmp_path / "sub")) == [path for path in found if "/sub/" in path]


def test_a_hidden_folder_may_be_named_itself(write: Write, tmp_path: Path) -> None:
    path = write(".notes/a.txt", "text")
    assert expand(str(tmp_path / ".notes")) == [str(path)]


def test_a_folder_without_anything_to_read(write: Write, tmp_path: Path) -> None:
    for name in ("a.py", ".hidden.txt"):
        write(name, "x")
    with pytest.raises(SourceError, match=r"without anything to read; expected .*\.rss"):
        expand(str(tmp_path))


def test_a_file_stands_for_itself(write: Write) -> None:
    path = str(write("a.py", "x"))
    assert expand(path) == [path]
    assert expand("https://shop.example/feed") == ["https://shop.example/feed"]
    assert expand("no such file") == ["no such file"]


@pytest.mark.parametrize("source", ["", "  ", "ftp://user:s3cr3t@shop.example/feed", "file:///etc/hostname"])
def test_names_that_stand_for_nothing(source: str) -> None:
    with pytest.raises(SourceError, match="expected a path or an http or https address") as caught:
        expand(source)
    assert "s3cr3t" not in str(caught.value)


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serves one answer to every request; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        answer: tuple[int, bytes, dict[str, str]] = (404, b"", {})

        def do_GET(self) -> None:
            status, body, headers = self.answer
            if self.path == "/moved":
                status, body, headers = 302, b"", {"Location": "/blog/feed"}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Quiet."""

    def serve(body: bytes, status: int = 200, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        Handler.answer = (status, body, named)
        return f"http://127.0.0.1:{server.server_port}/blog/feed"

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serve
        server.shutdown()
        thread.join()


def test_a_feed_at_an_address(serve: Callable[..., str]) -> None:
    address = serve(FEED, Content_Type="application/rss+xml")
    loaded = load(address)
    [document] = loaded.documents
    assert (document.title, document.source) == ("Payouts", address)
    assert document.url == address.replace("/blog/feed", "/1")
    assert loaded == Loaded(address, (document,), state=loaded.state)
    assert load(address) == loaded
    assert load(address, known=loaded.state) == Loaded(address, (), state=loaded.state, unchanged=True)


def test_relative_links_refer_to_where_the_feed_was_found(serve: Callable[..., str]) -> None:
    address = serve(FEED.replace(b"/1<", b"posts/1<"))
    moved = address.replace("/blog/feed", "/moved")
    [document] = load(moved).documents
    assert (document.url, document.source) == (address.replace("feed", "posts/1"), moved)


def test_a_compressed_feed_at_an_address(serve: Callable[..., str]) -> None:
    assert load(serve(gzip.compress(FEED), Content_Type="application/gzip")).documents[0].title == "Payouts"


def test_the_server_may_name_the_encoding(serve: Callable[..., str]) -> None:
    data = "<rss version='2.0'><channel><item><title>выплата</title></item></channel></rss>".encode("koi8-r")
    assert load(serve(data, Content_Type="text/xml; charset=koi8-r")).documents[0].title == "выплата"


NO_FEED = {
    "a page": (b"<!DOCTYPE html><html><body>Please log in</body></html>", "HTML page"),
    "nothing": (b"", "empty document"),
    "JSON": (b'{"error": 1}', "JSON"),
    "text": (b"Service unavailable", "Service unavailable"),
}


@pytest.mark.parametrize(("body", "came"), NO_FEED.values(), ids=NO_FEED)
def test_status_200_without_a_feed(serve: Callable[..., str], body: bytes, came: str) -> None:
    address = serve(body, Content_Type="application/rss+xml")
    message = refused(address)
    assert came in message
    assert address in message


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_an_error_whatever_comes_with_it(serve: Callable[..., str], status: int) -> None:
    with pytest.raises(FetchError, match=f"status {status}"):
        load(serve(FEED, status))


def test_bounds_reach_the_fetch(serve: Callable[..., str]) -> None:
    with pytest.raises(FetchError, match="50 bytes"):
        load(serve(FEED), FetchSettings(max_bytes=50))
    with pytest.raises(SourceError, match="1000 bytes"):
        load(serve(gzip.compress(bytes(100_000))), FetchSettings(max_bytes=1000))


def test_credentials_are_kept_out_of_documents(serve: Callable[..., str]) -> None:
    address = serve(FEED).replace("http://", "http://user:s3cr3t@")
    [document] = load(address).documents
    assert "s3cr3t" not in repr(document)
    assert document.id == load(address.replace("user:s3cr3t@", "")).documents[0].id
