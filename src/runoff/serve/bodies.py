"""Reads a request's body whole, within bounds of bytes and time, before anything looks into it."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from .problems import Problem

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_PIECE = 1 << 16
# How much of a body that was refused is still read, and for how long.
_LINGER_BYTES, _LINGER_SECONDS = 1 << 24, 2.0


class ClientGoneError(Exception):
    """The client closed the connection before its body was complete."""


async def linger(receive: Receive) -> None:
    """Read on what a client still sends, and forget it, within bounds.

    A connection that is closed on bytes that nobody read is reset, and the client may lose the answer with it.
    """

    async def forget() -> None:
        left, more = _LINGER_BYTES, True
        while more and left > 0:
            message = await receive()
            left -= len(message.get("body", b""))
            more = bool(message.get("more_body", False))

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(forget(), _LINGER_SECONDS)


class Budget:
    """Bytes of bodies that a process holds at the moment, and how many it may hold."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def take(self, count: int) -> None:
        """Count bytes as held.

        Raises:
            Problem: 429: that would be too many.
        """
        if self.held + count > self.most:
            raise Problem(429, "overloaded", "too many large bodies arrive at once; try again later", retry_after=1)
        self.held += count


class Body:
    """The body of one request; its bytes count as held until ``release``."""

    def __init__(self, budget: Budget, most: int, seconds: float) -> None:
        self._budget = budget
        self._most = most
        self._seconds = seconds
        self._held = 0

    async def read(self, receive: Receive, length: str | None, encoding: str) -> bytes:
        """All of the body, decompressed.

        Args:
            receive: gives the next message of the connection.
            length: the request's Content-Length, where it has one.
            encoding: its Content-Encoding.

        Raises:
            Problem: 408 too slow, 413 too large, 415 an unknown encoding, 422 damaged, 429 too many at once.
            ClientGoneError: the client went away.
        """
        if encoding not in ("", "identity", "gzip"):
            raise Problem(
                415, "unsupported_encoding", f"Content-Encoding: got {encoding[:40]!r}; expected gzip or none"
            )
        if length is not None and length.isdigit() and int(length) > self._most:
            raise self._too_large()
        try:
            data = await asyncio.wait_for(self._receive(receive), self._seconds)
        except asyncio.TimeoutError:
            raise Problem(408, "too_slow", f"the body was not complete after {self._seconds:g} seconds") from None
        return self._unpacked(data) if encoding == "gzip" else data

    def release(self) -> None:
        """The bytes are held no longer."""
        self._budget.held -= self._held
        self._held = 0

    async def _receive(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part: bytes = message.get("body", b"")
            self._take(len(part))
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    def _unpacked(self, data: bytes) -> bytes:
        """What a gzip archive of one member holds."""
        inflater = zlib.decompressobj(wbits=31)
        packed = self._held
        parts: list[bytes] = []
        try:
            while not inflater.eof:
                part = inflater.decompress(data, _PIECE)
                data = inflater.unconsumed_tail
                if not part and not data:
                    raise Problem(422, "damaged_body", "body: the gzip data end too early", field="body")
                self._take(len(part), beside=packed)
                parts.append(part)
        except zlib.error:
            raise Problem(422, "damaged_body", "body: not gzip data, as Content-Encoding says", field="body") from None
        return b"".join(parts)

    def _take(self, count: int, beside: int = 0) -> None:
        """Hold more bytes; ``beside`` of those held are not counted against the cap."""
        if self._held - beside + count > self._most:
            raise self._too_large()
        self._budget.take(count)
        self._held += count

    def _too_large(self) -> Problem:
        return Problem(413, "body_too_large", f"body: more than {self._most} bytes; expected fewer", field="body")
