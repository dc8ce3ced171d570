"""One GET over http(s): bounded in time and size, retried on what passes, honest about who asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import urllib3

from ._version import __version__
from .errors import FetchError

USER_AGENT = f"runoff/{__version__} (feed reader; a Python library)"
_PASSING = (429, 500, 502, 503, 504)
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Bounds of one fetch.

    Attributes:
        connect_seconds: longest wait for a connection.
        read_seconds: longest wait for the next bytes.
        total_seconds: longest time for one try.
        max_bytes: most bytes of a body, after decompression.
        retries: tries after the first, on 429, 5xx and connection errors.
        backoff_seconds: wait before the first retry; doubled for each further one.
        redirects: most redirects followed.
    """

    connect_seconds: float = 10.0
    read_seconds: float = 20.0
    total_seconds: float = 60.0
    max_bytes: int = 50_000_000
    retries: int = 2
    backoff_seconds: float = 0.5
    redirects: int = 5


DEFAULT = FetchSettings()


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response's body and what later requests may refer to. ``body`` is empty when ``not_modified``."""

    body: bytes
    content_type: str | None
    final_url: str
    etag: str | None = None
    last_modified: str | None = None
    not_modified: bool = False


def is_address(source: str) -> bool:
    """Whether a source is an http(s) address rather than a path."""
    return source.lower().startswith(("http://", "https://"))


def fetch(
    url: str,
    settings: FetchSettings = DEFAULT,
    *,
    etag: str | None = None,
    last_modified: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Fetched:
    """Get a document.

    Args:
        url: an http or https address.
        settings: bounds.
        etag, last_modified: of the copy at hand; the answer may be that it still holds.
        sleep: waits before a retry.

    Raises:
        FetchError: the address is unfit, nobody answered, or the answer was not a document of bearable size.
    """
    if not is_address(url):
        raise FetchError(f"{redacted(url)}: expected an http or https address")
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
    headers |= {"If-None-Match": etag} if etag else {}
    headers |= {"If-Modified-Since": last_modified} if last_modified else {}
    for left in range(settings.retries, -1, -1):
        try:
            return _get(url, headers, settings)
        except _PassingError as error:
            if not left:
                raise FetchError(f"{error}; tried {settings.retries + 1} times") from error
            sleep(settings.backoff_seconds * 2 ** (settings.retries - left))
    raise AssertionError("unreachable: the loop returns or raises")


def redacted(url: str) -> str:
    """The address without user name and password, for messages."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class _PassingError(FetchError):
    """A failure that may be gone at the next try."""


def _get(url: str, headers: dict[str, str], settings: FetchSettings) -> Fetched:
    name = redacted(url)
    timeout = urllib3.Timeout(connect=settings.connect_seconds, read=settings.read_seconds)
    redirects = urllib3.Retry(
        total=None, connect=0, read=0, status=0, other=0, redirect=settings.redirects, raise_on_redirect=True
    )
    deadline = time.monotonic() + settings.total_seconds
    with urllib3.PoolManager(timeout=timeout) as pool:
        try:
            response = pool.request("GET", url, headers=headers, retries=redirects, preload_content=False)
            try:
                _check_status(name, response.status)
                body = b"" if response.status == 304 else _read(name, response, settings, deadline)
            finally:
                response.close()
        except urllib3.exceptions.MaxRetryError as error:
            if isinstance(error.reason, urllib3.exceptions.ResponseError):
                raise FetchError(f"{name}: more than {settings.redirects} redirects") from error
            raise _PassingError(f"{name}: no answer ({_reason(error)})") from error
        except urllib3.exceptions.LocationValueError as error:
            raise FetchError(f"{name}: not a usable address ({error})") from error
        except urllib3.exceptions.HTTPError as error:
            raise _PassingError(f"{name}: the answer broke off ({_reason(error)})") from error
    return Fetched(
        body,
        response.headers.get("Content-Type"),
        redacted(response.url or url),
        response.headers.get("ETag"),
        response.headers.get("Last-Modified"),
        response.status == 304,
    )


def _check_status(name: str, status: int) -> None:
    if status in _PASSING:
        raise _PassingError(f"{name}: answered with status {status}")
    if status not in (200, 304):
        raise FetchError(f"{name}: answered with status {status}; expected 200")


def _read(name: str, response: Any, settings: FetchSettings, deadline: float) -> bytes:
    parts, size = [], 0
    while block := response.read1(_BLOCK, decode_content=True):
        parts.append(block)
        size += len(block)
        if size > settings.max_bytes:
            raise FetchError(f"{name}: more than {settings.max_bytes} bytes; expected a smaller document")
        if time.monotonic() > deadline:
            raise _PassingError(f"{name}: not complete after {settings.total_seconds:g} seconds")
    return b"".join(parts)


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", None) or error
    return f"{type(cause).__name__}: {str(cause).rpartition(': ')[2]}"
