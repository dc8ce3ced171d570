"""One GET over http(s): bounded in time and size, retried on what passes, honest about who asks."""

from __future__ import annotations

import queue
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import urllib3

from . import identity
from ._version import __version__
from .addresses import PublicPoolManager
from .errors import FetchError

USER_AGENT = f"runoff/{__version__} (feed reader; a Python library)"
_PASSING = (429, 500, 502, 503, 504)
_BLOCK = 1 << 16
_CONDITIONS = frozenset(("If-None-Match", "If-Modified-Since"))


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Bounds of one fetch.

    Attributes:
        connect_seconds: longest wait for a connection.
        read_seconds: longest wait for the next bytes.
        total_seconds: longest time for one try, from the first byte sent to the last one read.
        max_bytes: most bytes of a body, after decompression.
        retries: tries after the first, on 429, 5xx and connection errors.
        backoff_seconds: wait before the first retry; doubled for each further one. There is no jitter: a process asks
            for one document at a time.
        max_wait_seconds: longest wait that a server may ask for by ``Retry-After``; above it the fetch fails at once.
        redirects: most redirects followed.
        public_only: whether private, loopback and other special addresses are refused, also by redirect or name.
    """

    connect_seconds: float = 10.0
    read_seconds: float = 20.0
    total_seconds: float = 60.0
    max_bytes: int = 50_000_000
    retries: int = 2
    backoff_seconds: float = 0.5
    max_wait_seconds: float = 30.0
    redirects: int = 5
    public_only: bool = False


DEFAULT = FetchSettings()


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer.

    Attributes:
        body: the document, decompressed; empty when ``not_modified``.
        content_type: what the server calls it, or None.
        final_url: where it was found after redirects, without credentials.
        etag, last_modified: what a later request may refer to, or None.
        not_modified: whether the copy that the request referred to still holds.
    """

    body: bytes
    content_type: str | None
    final_url: str
    etag: str | None = None
    last_modified: str | None = None
    not_modified: bool = False


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
        url: an http or https address, with credentials (``https://user:password@host/``) where it needs some; these are
            sent to that host alone.
        settings: bounds.
        etag, last_modified: of the copy at hand; the answer may be that it still holds.
        sleep: waits before a retry.

    Raises:
        FetchError: the address is unfit, nobody answered, or the answer was not a document of bearable size.
    """
    if not identity.is_web(url):
        raise FetchError(f"{redacted(url)}: expected an http or https address")
    headers = _headers(url, etag, last_modified)
    for attempt in range(settings.retries + 1):
        try:
            return _within(settings.total_seconds, url, lambda: _get(url, headers, settings))
        except _PassingError as error:
            wait = max(settings.backoff_seconds * 2**attempt, error.wait)
            if attempt == settings.retries:
                raise FetchError(f"{error}; tried {attempt + 1} times") from error
            if wait > settings.max_wait_seconds:
                raise FetchError(f"{error} and asks to wait {error.wait:.0f} seconds; try again later") from error
            sleep(wait)
    raise FetchError(f"{redacted(url)}: got {settings.retries} retries; expected at least 0")


def redacted(url: str) -> str:
    """The address without user name and password, for messages; what is no address, such as a path, as it is."""
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class _PassingError(FetchError):
    """A failure that may be gone at the next try, after ``wait`` seconds."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


def _headers(url: str, etag: str | None, last_modified: str | None) -> dict[str, str]:
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise FetchError(f"{redacted(url)}: not a usable address ({error})") from error
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(login.encode('utf-8', 'replace')).decode()}"
    conditions = {"If-None-Match": etag, "If-Modified-Since": last_modified}
    return headers | {
        name: value for name, value in conditions.items() if value and value.isascii() and value.isprintable()
    }


def _within(seconds: float, url: str, get: Callable[[], Fetched]) -> Fetched:
    """The result of ``get``, or an error when it takes too long.

    Timeouts of sockets begin anew with each byte, so a server that drips could hold a thread for hours: it holds one
    that nobody waits for.
    """
    outcome: queue.SimpleQueue[Fetched | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put(get())
        except Exception as error:  # handed to the waiting thread, which raises it
            outcome.put(error)

    threading.Thread(target=run, name="runoff-fetch", daemon=True).start()
    try:
        result = outcome.get(timeout=seconds)
    except queue.Empty:
        raise FetchError(f"{redacted(url)}: not complete after {seconds:g} seconds") from None
    if isinstance(result, Exception):
        raise result
    return result


def _get(url: str, headers: dict[str, str], settings: FetchSettings) -> Fetched:
    deadline = time.monotonic() + settings.total_seconds
    timeout = urllib3.Timeout(connect=settings.connect_seconds, read=settings.read_seconds)
    manager = PublicPoolManager if settings.public_only else urllib3.PoolManager
    with manager(timeout=timeout, retries=False, headers=headers) as pool:
        try:
            final, response = _follow(pool, redacted(url).strip(), settings.redirects)
            try:
                _check_status(final, response, headers)
                body = b"" if response.status == 304 else _read(final, response, settings.max_bytes, deadline)
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise _explained(redacted(url), error) from error
    return Fetched(
        body,
        response.headers.get("Content-Type"),
        final,
        response.headers.get("ETag"),
        response.headers.get("Last-Modified"),
        response.status == 304,
    )


def _follow(pool: urllib3.PoolManager, url: str, redirects: int) -> tuple[str, urllib3.BaseHTTPResponse]:
    """The last address and its answer, of which only the head is read; bodies on the way are not."""
    headers = dict(pool.headers)
    for _ in range(redirects + 1):
        response = pool.request("GET", url, headers=headers, redirect=False, preload_content=False)
        location = response.get_redirect_location()
        if not location:
            return url, response
        response.close()
        target = redacted(urljoin(url, location))
        if not identity.is_web(target):
            raise FetchError(f"{url}: leads to {target}; expected an http or https address")
        if urlsplit(target)[:2] != urlsplit(url)[:2]:
            headers.pop("Authorization", None)
        url = target
    raise FetchError(f"{url}: more than {redirects} redirects; expected fewer")


def _check_status(url: str, response: urllib3.BaseHTTPResponse, asked: Mapping[str, str]) -> None:
    message = f"{url}: answered with status {response.status}"
    if response.status in _PASSING:
        raise _PassingError(message, _retry_after(response))
    conditional = not _CONDITIONS.isdisjoint(asked)
    if response.status != 200 and not (response.status == 304 and conditional):
        raise FetchError(f"{message}; expected 200{' or 304' if conditional else ''}")


def _retry_after(response: urllib3.BaseHTTPResponse) -> float:
    value = response.headers.get("Retry-After")
    try:
        return urllib3.Retry().parse_retry_after(value) if value else 0.0
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return 0.0


def _read(url: str, response: urllib3.BaseHTTPResponse, max_bytes: int, deadline: float) -> bytes:
    parts, size = [], 0
    while block := response.read1(_BLOCK, decode_content=True):
        parts.append(block)
        size += len(block)
        if size > max_bytes:
            raise FetchError(f"{url}: more than {max_bytes} bytes; expected a smaller document, or a greater max_bytes")
        if time.monotonic() > deadline:
            raise FetchError(f"{url}: not complete in time")  # nobody waits for it any more
    return b"".join(parts)


def _explained(name: str, error: Exception) -> FetchError:
    """The error as one of ours, passing or not."""
    # The part behind the last colon names no objects, which might show credentials.
    reason = f"{type(error).__name__}: {str(error).rpartition(': ')[2]}"[:200]
    if isinstance(error, ValueError):
        return FetchError(f"{name}: not a usable address ({reason})")
    if isinstance(error, urllib3.exceptions.SSLError):
        return FetchError(f"{name}: no secure connection ({reason})")
    if isinstance(error, urllib3.exceptions.DecodeError):
        return FetchError(f"{name}: a damaged body ({reason})")
    return _PassingError(f"{name}: no complete answer ({reason})")
