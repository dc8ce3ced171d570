"""What an operator decides when a service is started."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from ..caching import DEFAULT_BYTES
from ..deadlines import check_deadline
from ..errors import QueryError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one service; every worker process gets the same.

    Attributes:
        store: the store folder, which need not exist yet.
        host: address to listen on.
        port: TCP port; 0 takes a free one.
        workers: processes that share the port and the store.
        backend: what runs the encoders where a request does not choose.
        threads: most threads that computing may use in one process; None takes what is granted.
        running: calls that compute at once in one process; None takes as many as there are cores.
        waiting: calls that may wait beside those; None takes eight for each that may run.
        timeout_ms: time that a request has where it does not say.
        target_ms: deadline of a search, a prompt or a rerank that sets none, counted from its arrival; None for none.
        body_bytes: most bytes of a request's body, before and after decompression.
        body_seconds: longest time for a body to arrive.
        buffered_bytes: most bytes of bodies that one process holds at once.
        api_key: key that requests must show, or None.
        allow_anonymous: whether to listen on other than loopback addresses without a key.
        allowed_hosts: names beside the loopback ones under which clients reach a service that listens on loopback.
        allow_urls: whether clients may have feeds on public addresses read.
        cache_bytes: most memory for answers and scores that one process keeps; 0 keeps nothing.
        log_texts: whether queries are in the log.
        drain_seconds: how long running requests may take to end after SIGTERM.
    """

    store: Path = Path(".runoff")
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    backend: str = "auto"
    threads: int | None = None
    running: int | None = None
    waiting: int | None = None
    timeout_ms: int = 30_000
    target_ms: float | None = None
    body_bytes: int = 4_000_000
    body_seconds: float = 10.0
    buffered_bytes: int = 64_000_000
    api_key: str | None = field(default=None, repr=False)
    allow_anonymous: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allow_urls: bool = False
    cache_bytes: int = DEFAULT_BYTES
    log_texts: bool = False
    drain_seconds: float = 8.0

    def __post_init__(self) -> None:
        check_deadline("target_ms", self.target_ms)
        if self.api_key is not None and not self.api_key.strip():
            raise QueryError("api key: got a blank one; expected some characters. Leave it out to have none.")
        if not (self.loopback or self.api_key or self.allow_anonymous):
            raise QueryError(
                f"host {self.host}: others than this machine could use the service without a key. Set RUNOFF_API_KEY, "
                "or say --allow-anonymous if that is meant."
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def hosts(self) -> frozenset[str] | None:
        """Names that a request may be addressed to, or None for any: what a web page of a stranger cannot choose."""
        return frozenset((*LOOPBACK_NAMES, self.host, *self.allowed_hosts)) if self.loopback else None
