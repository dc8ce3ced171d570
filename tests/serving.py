"""A real server on a real socket in a thread, for the tests of ``runoff.serve``."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

import uvicorn

from runoff.serve import app
from runoff.serve.service import Service


@dataclass(frozen=True, slots=True)
class Running:
    """A server, where it listens, and a client for it."""

    service: Service
    url: str
    client: httpx.Client
    loop: asyncio.AbstractEventLoop

    @contextmanager
    def busy(self, calls: int) -> Iterator[None]:
        """That many calls run or wait inside the service while the block lasts."""
        gate = threading.Event()

        async def hold() -> None:
            await self.service.admission.run(lambda ticket: gate.wait(60))

        futures = [asyncio.run_coroutine_threadsafe(hold(), self.loop) for _ in range(calls)]
        admission = self.service.admission
        until(lambda: admission.running + admission.waiting == calls)
        try:
            yield
        finally:
            gate.set()
            for future in futures:
                future.result(30)


@contextmanager
def running(service: Service) -> Iterator[Running]:
    """Serve until the block ends."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(app.build(service), lifespan="on", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    loop = asyncio.new_event_loop()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(server.serve([listening]))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with httpx.Client(base_url=url, timeout=120) as client:
            until(lambda: server.started and service.loaded.is_set())
            yield Running(service, url, client, loop)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def until(condition: object) -> None:
    """Wait until a condition holds; a test that waits for ever is ended by its runner."""
    pause = threading.Event()
    for _ in range(6000):
        if condition():  # type: ignore[operator]
            return
        pause.wait(0.01)
    raise AssertionError("the condition did not come to hold within a minute")


def ended(client: httpx.Client, job: dict[str, object]) -> dict[str, object]:
    """A job's last state."""
    found: dict[str, object] = {}

    def done() -> bool:
        found.update(client.get(f"/jobs/{job['id']}").raise_for_status().json())
        return found["finished"] is not None

    until(done)
    return found
