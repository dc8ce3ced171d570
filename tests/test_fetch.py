"""Fetching from a server of our own on the loopback."""

from __future__ import annotations

import base64
import gzip
import socket
import threading
import zlib
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from loopback import Answer, Handler, Server, serving
from runoff.errors import FetchError
from runoff.fetch import Fetched, FetchSettings, fetch, redacted

QUICK = FetchSettings(connect_seconds=2.0, read_seconds=2.0, total_seconds=5.0, max_bytes=100_000, backoff_seconds=0.25)
BODY = b"<rss version='2.0'/>" * 40


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def get(url: str, settings: FetchSettings = QUICK, **more: Any) -> tuple[Fetched, list[float]]:
    """The answer, and the waits before retries."""
    waits: list[float] = []
    return fetch(url, settings, sleep=waits.append, **more), waits


def refused(url: str, settings: FetchSettings = QUICK) -> tuple[str, list[float]]:
    """The error's message, and the waits before retries."""
    waits: list[float] = []
    with pytest.raises(FetchError) as caught:
        fetch(url, settings, sleep=waits.append)
    return str(caught.value), waits


def in_turn(*answers: Answer) -> Answer:
    """One answer after another."""
    remaining = list(answers)
    return lambda handler: remaining.pop(0)(handler)


def test_a_document(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(
        200, BODY, Content_Type="application/rss+xml", ETag='"v1"', Last_Modified="Mon, 02 Mar 2026 10:00:00 GMT"
    )
    answer, waits = get(server.at("/feed"))
    assert answer.body == BODY
    assert answer.content_type == "application/rss+xml"
    assert answer.final_url == server.at("/feed")
    assert (answer.etag, answer.last_modified) == ('"v1"', "Mon, 02 Mar 2026 10:00:00 GMT")
    assert not answer.not_modified
    assert waits == []


def test_an_honest_name(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(200, BODY)
    get(server.at("/feed"))
    [(_, headers)] = server.asked
    assert headers["User-Agent"].startswith("runoff/")
    assert "Mozilla" not in headers["User-Agent"]
    assert "If-None-Match" not in headers


def test_what_has_not_changed_is_not_sent_again(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(304, ETag='"v1"')
    answer, waits = get(server.at("/feed"), etag='"v1"', last_modified="Mon, 02 Mar 2026 10:00:00 GMT")
    assert answer.not_modified
    assert answer.body == b""
    assert answer.etag == '"v1"'
    [(_, headers)] = server.asked
    assert headers["If-None-Match"] == '"v1"'
    assert headers["If-Modified-Since"] == "Mon, 02 Mar 2026 10:00:00 GMT"
    assert waits == []


def test_not_modified_is_no_answer_to_one_who_has_nothing(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(304)
    assert "status 304; expected 200" in refused(server.at("/feed"))[0]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_bodies(server: Server, encoding: str) -> None:
    packed = gzip.compress(BODY) if encoding == "gzip" else zlib.compress(BODY)
    server.answers["/feed"] = lambda handler: handler.reply(200, packed, Content_Encoding=encoding)
    assert get(server.at("/feed"))[0].body == BODY


def test_chunked_bodies(server: Server) -> None:
    def chunked(handler: Handler) -> None:
        handler.begin(Transfer_Encoding="chunked")
        handler.wfile.write(b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY, BODY)) + b"0\r\n\r\n")

    server.answers["/feed"] = chunked
    assert get(server.at("/feed"))[0].body == BODY * 2


def test_an_empty_body_is_an_answer(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(200)
    assert get(server.at("/feed"))[0].body == b""


@pytest.mark.parametrize("status", [204, 400, 401, 403, 404, 410])
def test_refusals_are_final(server: Server, status: int) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(status)
    message, waits = refused(server.at("/feed"))
    assert f"status {status}" in message
    assert server.at("/feed") in message
    assert waits == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_passes_is_tried_again(server: Server, status: int) -> None:
    server.answers["/feed"] = in_turn(lambda handler: handler.reply(status), lambda handler: handler.reply(200, BODY))
    answer, waits = get(server.at("/feed"))
    assert answer.body == BODY
    assert waits == [0.25]


def test_a_server_may_ask_for_a_longer_wait(server: Server) -> None:
    def busy(handler: Handler) -> None:
        handler.reply(429, Retry_After="7")

    server.answers["/feed"] = in_turn(busy, busy, lambda handler: handler.reply(200, BODY))
    assert get(server.at("/feed"))[1] == [7.0, 7.0]


@pytest.mark.parametrize("wait", ["3600", "9" * 400, "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_server_may_not_ask_for_too_long_a_wait(server: Server, wait: str) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(503, Retry_After=wait)
    message, waits = refused(server.at("/feed"))
    assert "try again later" in message
    assert waits == []


@pytest.mark.parametrize("wait", ["soon", "-5", "", "Fri, 31 Dec 1999 23:59:59 GMT"])
def test_a_wait_that_is_none(server: Server, wait: str) -> None:
    server.answers["/feed"] = in_turn(
        lambda handler: handler.reply(503, Retry_After=wait), lambda handler: handler.reply(200, BODY)
    )
    assert get(server.at("/feed"))[1] == [0.25]


def test_what_does_not_pass_is_given_up(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(500)
    message, waits = refused(server.at("/feed"))
    assert "status 500" in message
    assert "tried 3 times" in message
    assert waits == [0.25, 0.5]
    assert len(server.asked) == 3


def test_nobody_listens() -> None:
    with socket.socket() as taken:  # bound and not listening, so that nobody else is there
        taken.bind(("127.0.0.1", 0))
        message, waits = refused(f"http://127.0.0.1:{taken.getsockname()[1]}/feed")
    assert "tried 3 times" in message
    assert "refused" in message
    assert waits == [0.25, 0.5]


def cut_short(handler: Handler) -> None:
    """Half of what was announced."""
    handler.begin(Content_Length=str(len(BODY)))
    handler.wfile.write(BODY[: len(BODY) // 2])


def cut_chunk(handler: Handler) -> None:
    """A chunk without its end."""
    handler.begin(Transfer_Encoding="chunked")
    handler.wfile.write(b"%x\r\n%s" % (len(BODY), BODY[:50]))


def reset(handler: Handler) -> None:
    """Half of what was announced, then a reset instead of an end."""
    cut_short(handler)
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    handler.connection.close()


def silent(handler: Handler) -> None:
    """An end before any answer."""


BROKEN = [cut_short, cut_chunk, reset, silent]


@pytest.mark.parametrize("broken", BROKEN)
def test_half_a_body_is_no_document(server: Server, broken: Answer) -> None:
    server.answers["/feed"] = broken
    message, waits = refused(server.at("/feed"))
    assert "tried 3 times" in message
    assert waits == [0.25, 0.5]


@pytest.mark.parametrize("broken", BROKEN)
def test_half_a_body_is_tried_again(server: Server, broken: Answer) -> None:
    server.answers["/feed"] = in_turn(broken, lambda handler: handler.reply(200, BODY))
    answer, waits = get(server.at("/feed"))
    assert answer.body == BODY
    assert waits == [0.25]


def test_damaged_compression_is_an_error(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(200, b"no gzip", Content_Encoding="gzip")
    assert server.at("/feed") in refused(server.at("/feed"))[0]


def test_a_body_without_end_is_cut_off(server: Server) -> None:
    def endless(handler: Handler) -> None:
        handler.begin()
        handler.pour(b"x" * 10_000)

    server.answers["/feed"] = endless
    message, waits = refused(server.at("/feed"))
    assert "100000 bytes" in message
    assert waits == []


def test_a_body_of_exactly_the_limit_passes(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(200, b"x" * 1000)
    assert len(get(server.at("/feed"), FetchSettings(max_bytes=1000))[0].body) == 1000
    assert "999 bytes" in refused(server.at("/feed"), FetchSettings(max_bytes=999))[0]


def test_the_limit_holds_after_decompression(server: Server) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    assert len(bomb) < QUICK.max_bytes
    server.answers["/feed"] = lambda handler: handler.reply(200, bomb, Content_Encoding="gzip")
    message, waits = refused(server.at("/feed"))
    assert "100000 bytes" in message
    assert waits == []


def slow_body(handler: Handler) -> None:
    handler.begin()
    handler.pour(b"x", wait=0.02)


def slow_gzip(handler: Handler) -> None:
    """A gzip head whose file name never ends, so that no byte of the body ever comes out."""
    handler.begin(Content_Encoding="gzip")
    handler.wfile.write(b"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x03")
    handler.pour(b"n", wait=0.02)


def slow_chunk(handler: Handler) -> None:
    """A chunk whose length line never ends."""
    handler.begin(Transfer_Encoding="chunked")
    handler.pour(b"0", wait=0.02)


def slow_head(handler: Handler) -> None:
    """A head that never ends."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    handler.pour(b"x", wait=0.02)


@pytest.mark.parametrize("slow", [slow_body, slow_gzip, slow_chunk, slow_head])
def test_drops_do_not_outlast_the_total(server: Server, slow: Answer) -> None:
    server.answers["/feed"] = slow
    message, waits = refused(server.at("/feed"), FetchSettings(read_seconds=2.0, total_seconds=0.2))
    assert "0.2 seconds" in message
    assert waits == []


def test_redirects_are_followed(server: Server) -> None:
    server.answers["/old"] = lambda handler: handler.reply(301, Location="/new?a=1")
    server.answers["/new"] = lambda handler: handler.reply(200, BODY)
    answer, waits = get(server.at("/old"))
    assert answer.body == BODY
    assert answer.final_url == server.at("/new?a=1")
    assert waits == []


def test_redirects_without_end(server: Server) -> None:
    server.answers["/loop"] = lambda handler: handler.reply(302, Location="/loop")
    message, waits = refused(server.at("/loop"))
    assert "5 redirects" in message
    assert len(server.asked) == 6
    assert waits == []


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/feed", "data:text/plain,x", "gopher://x/"])
def test_redirects_to_what_is_not_http(server: Server, target: str) -> None:
    server.answers["/old"] = lambda handler: handler.reply(302, Location=target)
    message, waits = refused(server.at("/old"))
    assert server.at("/old") in message
    assert "expected an http or https address" in message
    assert waits == []


@pytest.mark.parametrize(
    "url", ["ftp://shop.example/feed", "file:///etc/hostname", "shop.example/feed", "", "javascript:alert(1)"]
)
def test_other_schemes_are_refused(url: str) -> None:
    message, waits = refused(url)
    assert "http" in message
    assert waits == []


@pytest.mark.parametrize("url", ["http://", "http:///feed", "http://[::1", "http://shop.example:port/", "http://a b/"])
def test_unusable_addresses(url: str) -> None:
    assert refused(url, FetchSettings(retries=0))[0]


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@127.0.0.1:1/feed",
        f"http://user:{SECRET}@[::1/feed",
        f"http://user:{SECRET}@shop.example:port/feed",
        f"http://user:{SECRET}@",
        f"http://us@er:{SECRET}@127.0.0.1:1/feed",
        f"ftp://user:{SECRET}@shop.example/feed",
    ],
)
def test_credentials_stay_out_of_messages(url: str) -> None:
    assert SECRET not in refused(url)[0]


def test_credentials_stay_out_of_answers_and_refusals(server: Server) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(200, BODY)
    server.answers["/gone"] = lambda handler: handler.reply(404)
    server.answers["/loop"] = lambda handler: handler.reply(302, Location="/loop")
    server.answers["/away"] = lambda handler: handler.reply(302, Location=f"ftp://user:{SECRET}@127.0.0.1/")
    with_secret = f"http://user:{SECRET}@{server.address}"
    assert get(f"{with_secret}/feed")[0].final_url == server.at("/feed")
    for path in ("/gone", "/loop", "/away"):
        assert SECRET not in refused(f"{with_secret}{path}")[0]


def test_credentials_go_to_their_host_alone(server: Server) -> None:
    other = f"http://localhost:{server.server_address[1]}"
    server.answers["/here"] = lambda handler: handler.reply(302, Location="/there")
    server.answers["/there"] = lambda handler: handler.reply(302, Location=f"{other}/feed")
    server.answers["/feed"] = lambda handler: handler.reply(200, BODY)
    get(f"http://us%40er:{SECRET}@{server.address}/here")
    sent = [headers.get("Authorization", headers.get("authorization")) for _, headers in server.asked]
    expected = "Basic " + base64.b64encode(f"us@er:{SECRET}".encode()).decode()
    assert sent == [expected, expected, None]


JUNK = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "bytes": bytes(range(256)) * 4,
    "a broken status": b"HTTP/1.1 abc OK\r\n\r\n",
    "a long status": b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n",
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000 + b"\r\n",
    "a broken chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY,
    "a broken target": b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
    "a target without a host": b"HTTP/1.1 302 Found\r\nLocation: http://\r\nContent-Length: 0\r\n\r\n",
    "an unsaid target": b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_what_is_no_answer_is_an_error_of_ours(server: Server, junk: bytes) -> None:
    server.answers["/feed"] = lambda handler: handler.wfile.write(junk)
    assert server.at("/feed") in refused(server.at("/feed"))[0]


def test_retries_below_zero() -> None:
    assert "expected at least 0" in refused("http://127.0.0.1:1/", FetchSettings(retries=-1))[0]


def test_redacted() -> None:
    assert redacted("https://a:b@shop.example/x?y=1") == "https://shop.example/x?y=1"
    assert redacted("https://shop.example/x@y") == "https://shop.example/x@y"


def logins(server: Server) -> list[str | None]:
    """What was sent as a login, request by request."""
    return [headers.get("Authorization") for _, headers in server.asked]


@pytest.mark.parametrize(
    ("login", "expected"),
    [("user:a%20b", b"user:a b"), ("user", b"user:"), ("%D0%B8:日", "и:日".encode())],
    ids=ascii,
)
def test_credentials_are_sent(server: Server, login: str, expected: bytes) -> None:
    server.answers["/old"] = lambda handler: handler.reply(302, Location="/feed")
    server.answers["/feed"] = lambda handler: handler.reply(200, BODY)
    get(f"http://{login}@{server.address}/old")
    assert logins(server) == [f"Basic {b64encode(expected).decode()}"] * 2


def test_credentials_are_for_their_host_alone(server: Server) -> None:
    with Server() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.answers["/old"] = lambda handler: handler.reply(302, Location=other.at("/feed"))
        other.answers["/feed"] = lambda handler: handler.reply(200, BODY)
        answer, _ = get(f"http://user:{SECRET}@{server.address}/old")
        other.shutdown()
        thread.join()
    assert answer.final_url == other.at("/feed")
    assert logins(server) != [None]
    assert logins(other) == [None]


@pytest.mark.parametrize("etag", ['"v1"\r\nX-Evil: 1', "\x00", "日"], ids=ascii)
def test_what_is_no_header_is_not_sent(server: Server, etag: str) -> None:
    server.answers["/feed"] = lambda handler: handler.reply(200, BODY)
    get(server.at("/feed"), etag=etag)
    [(_, headers)] = server.asked
    assert "If-None-Match" not in headers
    assert "X-Evil" not in headers


def test_an_endless_body_of_a_redirect_is_not_read(server: Server) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/new")
        handler.end_headers()
        handler.pour(b"x" * 10_000)

    server.answers["/old"] = endless
    server.answers["/new"] = lambda handler: handler.reply(200, BODY)
    assert get(server.at("/old"))[0].body == BODY
