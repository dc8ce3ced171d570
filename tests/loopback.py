"""A web server of our own on the loopback, which answers as a test tells it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler"], object]


class Handler(BaseHTTPRequestHandler):
    """Answers each path from a table, and keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:  # the base class calls it by this name
        self.close_connection = True
        self.server.asked.append((self.path, dict(self.headers)))
        self.server.answers[self.path.partition("?")[0]](self)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer; an underscore in a header's name stands for a hyphen."""
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def begin(self, **headers: str) -> None:
        """The head of an answer whose body ends with the connection."""
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def pour(self, block: bytes, wait: float = 0.0) -> None:
        """The same bytes until the other side hangs up, or the test is over."""
        while not self.server.over.wait(wait):
            try:
                self.wfile.write(block)
                self.wfile.flush()
            except OSError:
                return

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def at(self, path: str) -> str:
        return f"http://{self.address}{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are part of these tests."""


@contextmanager
def serving() -> Iterator[Server]:
    """A server while the block lasts."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()
