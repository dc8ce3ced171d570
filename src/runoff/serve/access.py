"""The outermost layer: an id, a log line and numbers for each request, and an answer whatever goes wrong inside."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from . import logs
from .bodies import ClientGoneError, linger
from .gate import App, Message, Receive, Scope, Send
from .metrics import Metrics
from .problems import Problem, failed

CLIENT_GONE = 499
_KEY = "runoff.record"
_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
OTHER = "other"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_QUIET = ("/healthz", "/readyz", "/metrics")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(slots=True)
class Record:
    """What is known of a request by its end.

    Attributes:
        request_id: the client's ``X-Request-Id`` where it sent a usable one.
        status: the answer's status.
        stages_ms: milliseconds of each stage.
        facts: further fields of the log line.
        arrived: when the request came, by ``time.perf_counter``; deadlines count from there.
    """

    request_id: str
    status: int = CLIENT_GONE
    stages_ms: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    arrived: float = field(default_factory=time.perf_counter)


def record_of(scope: Scope) -> Record:
    """The record of the request at hand."""
    record: Record = scope[_KEY]
    return record


class Access:
    """Middleware that gives each request an id, headers, a log line and its place in the metrics."""

    def __init__(self, app: App, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        record = scope[_KEY] = Record(_request_id(scope))
        extra = [(b"x-request-id", record.request_id.encode("ascii")), *_ENCODED]

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        heard_all = False

        async def hear() -> Message:
            nonlocal heard_all
            message = await receive()
            heard_all = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, hear, answered)
        except Problem as problem:
            await _answer(problem, scope, answered, None if heard_all else hear)
            self._metrics.refusals.labels(problem.code).inc()
        except ClientGoneError:
            record.status = CLIENT_GONE
            self._metrics.abandoned.inc()
        except asyncio.CancelledError:
            if record.status == CLIENT_GONE:
                await _answer(Problem(503, "stopping", "the service is being stopped", retry_after=5), scope, answered)
            raise
        except Exception as error:
            logs.failure("a request failed", error, {"request": record.request_id})
            if record.status == CLIENT_GONE:
                await _answer(failed(), scope, answered)
        finally:
            self._finish(scope, record, time.perf_counter() - began)

    def _finish(self, scope: Scope, record: Record, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", OTHER)
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        self._metrics.requests.labels(route, method, record.status).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        self._metrics.spent(record.stages_ms)
        if route in _QUIET:
            return
        stages = {name: round(value, 2) for name, value in record.stages_ms.items()}
        fields = {
            "request": record.request_id,
            "method": scope["method"][:20],
            "path": route if route != OTHER else scope["path"][:100],
            "status": record.status,
            "ms": round(seconds * 1e3, 2),
            "stages_ms": stages,
        }
        logs.event("request", {name: value for name, value in fields.items() if value != {}} | record.facts)


async def _answer(problem: Problem, scope: Scope, send: Send, unheard: Receive | None = None) -> None:
    """Send a problem; ``unheard`` gives what the client still has to say."""
    headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in problem.headers.items()]
    body = problem.body
    headers.append((b"content-length", str(len(body)).encode("ascii")))
    if problem.status in (408, 413):
        headers.append((b"connection", b"close"))  # the rest of the body is of no use
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    shown = b"" if scope["method"] == "HEAD" else body
    if problem.status == 413 and unheard is not None:
        await send({"type": "http.response.body", "body": shown, "more_body": True})
        await linger(unheard)
        shown = b""
    await send({"type": "http.response.body", "body": shown})


_ENCODED = [(name.encode("ascii"), value.encode("ascii")) for name, value in _HEADERS.items()]


def _request_id(scope: Scope) -> str:
    shown = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
    return shown if _ID.fullmatch(shown) else secrets.token_hex(8)
