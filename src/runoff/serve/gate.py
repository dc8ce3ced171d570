"""What every request passes before the application sees it: address, origin, key, load, body."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from ..admission import Admission
from .bodies import Body, Budget, ClientGoneError
from .problems import Problem
from .settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset(("/", "/docs", "/openapi.json", "/healthz", "/readyz"))
OPEN_FOLDER = "/page/"


class Gate:
    """Middleware that refuses early and cheaply, and stops the work for clients that are gone.

    Args:
        app: the application.
        settings: bounds, key and names.
        admission: tells whether there is room for one more.
        computing: paths whose requests want to compute: while there is no room they are refused before their body is
            read.
    """

    def __init__(self, app: App, settings: Settings, admission: Admission, computing: frozenset[str]) -> None:
        self._app = app
        self._settings = settings
        self._admission = admission
        self._computing = computing
        self._budget = Budget(settings.buffered_bytes)
        self._key = _digest(settings.api_key.encode()) if settings.api_key else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = Body(self._budget, self._settings.body_bytes, self._settings.body_seconds)
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            self._check(scope, headers)
            length, encoding = headers.get("content-length"), headers.get("content-encoding", "").strip().lower()
            data = await body.read(receive, length, encoding)
            await _attended(self._app, scope, data, receive, send)
        finally:
            body.release()

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        """Refuse what has no business here.

        Raises:
            Problem: 401, 403, 421 or 429.
        """
        host = headers.get("host", "")
        allowed = self._settings.hosts
        if allowed is not None and _name(host) not in allowed:
            raise Problem(421, "unknown_host", "Host: not a name of this service; --allow-host makes it one")
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host:
            raise Problem(403, "foreign_origin", "Origin: requests of other sites' pages are not served")
        path: str = scope["path"]
        if self._key is not None and not (path in OPEN_PATHS or path.startswith(OPEN_FOLDER)):
            self._check_key(headers)
        if path in self._computing and scope["method"] == "POST" and self._admission.full:
            raise Problem(
                429, "overloaded", "as many calls wait as may; try again later", retry_after=self._admission.retry_after
            )

    def _check_key(self, headers: dict[str, str]) -> None:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            shown = headers.get("x-api-key", "")
        if self._key is None or not hmac.compare_digest(_digest(shown.strip().encode("latin-1")), self._key):
            raise Problem(401, "wrong_key", "Authorization: expected 'Bearer' and the service's API key")


async def _attended(app: App, scope: Scope, data: bytes, receive: Receive, send: Send) -> None:
    """Run the application, and cancel it when the client goes away before it has answered.

    Raises:
        ClientGoneError: it went away.
    """
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()  # who asks again waits for a client to go, and would be cancelled
        given = True
        return {"type": "http.request", "body": data, "more_body": False}

    answer = asyncio.ensure_future(app(scope, replay, send))
    watch = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((answer, watch), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientGoneError
        answer.result()
    finally:
        for task in (answer, watch):
            task.cancel()
        await asyncio.gather(answer, watch, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _digest(key: bytes) -> bytes:
    """Digests are compared, so that not even the key's length can be told from the time that it takes."""
    return hashlib.sha256(key).digest()


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _netloc(origin: str) -> str | None:
    """Host and port of an Origin header; None where it is no address."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
