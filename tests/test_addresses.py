"""Fetching for strangers never reaches a private network: not by address, by name, nor by redirect."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from runoff import fetch
from runoff.addresses import PublicPoolManager, is_public
from runoff.errors import FetchError

PUBLIC_ONLY = fetch.FetchSettings(public_only=True, retries=0)


class Handler(BaseHTTPRequestHandler):
    seen: list[str] = []  # noqa: RUF012 # one server, one list

    def do_GET(self) -> None:
        self.seen.append(self.path)
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
        else:
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2002:a00:1::",
        "2001:0:a00:1::",
    ],
)
def test_special_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "127.1"])
def test_no_spelling_of_this_machine_is_fetched(host: str, port: int) -> None:
    with pytest.raises(FetchError, match=r"not a public address|cannot be resolved"):
        fetch.fetch(f"http://{host}:{port}/secret", PUBLIC_ONLY)
    assert "/secret" not in Handler.seen


def test_a_name_is_judged_by_all_that_it_resolves_to(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, number: int, **_: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", (address, number)) for address in ("8.8.8.8", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(FetchError, match=r"feed\.example: not a public address"):
        fetch.fetch("http://feed.example/", PUBLIC_ONLY)


def test_the_address_that_was_checked_is_the_one_that_is_reached(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that changes its mind between two look-ups is looked up once."""
    answers = ["127.0.0.1", "127.0.0.2"]
    real = socket.getaddrinfo

    def resolve(host: str, number: int, *args: object, **settings: object) -> list[tuple[object, ...]]:
        if host == "feed.example":
            return [(2, 1, 6, "", (answers.pop(0), number))]
        return real(host, number, *args, **settings)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with PublicPoolManager(allowed=lambda address: address == "127.0.0.1", retries=False) as pool:
        assert pool.request("GET", f"http://feed.example:{port}/pinned").status == 200
    assert answers == ["127.0.0.2"]
    assert "/pinned" in Handler.seen


def test_a_redirect_is_judged_anew(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class OnlyFirst(PublicPoolManager):
        def __init__(self, **settings: object) -> None:
            super().__init__(allowed=lambda address: address == "127.0.0.1", **settings)

    monkeypatch.setattr(fetch, "PublicPoolManager", OnlyFirst)
    assert fetch.fetch(f"http://127.0.0.1:{port}/fine", PUBLIC_ONLY).final_url.endswith("/fine")
    with pytest.raises(FetchError, match=r"127\.0\.0\.2: not a public address"):
        fetch.fetch(f"http://127.0.0.1:{port}/to/http://127.0.0.2:{port}/behind", PUBLIC_ONLY)
    assert "/behind" not in Handler.seen


def test_nobody_there_is_a_fetch_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        with (
            PublicPoolManager(allowed=lambda _: True, retries=False) as pool,
            pytest.raises(FetchError, match="no conn"),
        ):
            pool.request("GET", url)


def test_other_fetches_are_as_free_as_before(port: int) -> None:
    assert fetch.fetch(f"http://127.0.0.1:{port}/free").body == b""
    assert not isinstance(urllib3.PoolManager(), PublicPoolManager)
