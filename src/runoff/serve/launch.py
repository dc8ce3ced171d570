"""Runs a service: one process, or several that share a socket; all of them end in good order on SIGTERM."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import uvicorn
from prometheus_client import disable_created_metrics

from ..errors import QueryError
from . import app, logs, metrics
from .settings import Settings

_BACKLOG = 1024
_KILL_SECONDS = 1.5
_REST_SECONDS = 1.0


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        QueryError: the address cannot be listened on.
        StoreError, ModelError: as for ``app.create``.
    """
    listening = _listen(settings.host, settings.port)
    runtime = Path(tempfile.mkdtemp(prefix="runoff-serve-")).resolve()
    logs.set_up()
    host, port = listening.getsockname()[:2]
    logs.event("listening", {"url": f"http://{f'[{host}]' if ':' in host else host}:{port}/", "pid": os.getpid()})
    try:
        if settings.workers == 1:
            serve(settings, runtime, listening)
        else:
            _Workers(settings, runtime, listening).run()
    finally:
        shutil.rmtree(runtime, ignore_errors=True)
    logs.event("stopped", {"pid": os.getpid()})
    sys.stderr.flush()
    if threading.active_count() > 1:
        os._exit(0)  # a call that cannot be stopped still computes for nobody; the store survives any end


def serve(settings: Settings, runtime: Path, listening: socket.socket) -> None:
    """Serve with this process alone."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    config = uvicorn.Config(
        app.create(settings, runtime),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
        h11_max_incomplete_event_size=65_536,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _heard)
    uvicorn.Server(config).run(sockets=[listening])


def _heard(number: int, frame: FrameType | None) -> None:
    """The server has ended in good order, and raises the signal once more that told it to."""


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise QueryError(
            f"{host}:{port}: cannot be listened on ({error}); choose others by --host or --port"
        ) from error
    listening.listen(_BACKLOG)
    return listening


def _work(settings: Settings, runtime: Path, listening: socket.socket) -> None:
    """A worker process: it has an interpreter of its own, as a fork would share what must not be shared."""
    logs.set_up()
    serve(settings, runtime, listening)
    sys.stderr.flush()
    os._exit(0)


class _Workers:
    """Starts the worker processes, replaces those that die, and hands signals on."""

    def __init__(self, settings: Settings, runtime: Path, listening: socket.socket) -> None:
        self._arguments = (settings, runtime, listening)
        self._settings = settings
        self._stopping = threading.Event()
        self._spawn = multiprocessing.get_context("spawn")
        self._metrics = runtime / "metrics"

    def run(self) -> None:
        self._metrics.mkdir()
        os.environ[metrics.DIRECTORY_VARIABLE] = str(self._metrics)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        workers = [self._start() for _ in range(self._settings.workers)]
        while not self._stopping.wait(0.2):
            workers = [worker if worker.is_alive() else self._replace(worker) for worker in workers]
        self._stop(workers)

    def _start(self) -> BaseProcess:
        worker = self._spawn.Process(target=_work, args=self._arguments)
        worker.start()
        return worker

    def _replace(self, dead: BaseProcess) -> BaseProcess:
        from prometheus_client.multiprocess import mark_process_dead

        logs.event("a worker died", {"worker": dead.pid, "code": dead.exitcode})
        mark_process_dead(dead.pid, str(self._metrics))  # type: ignore[no-untyped-call]
        self._stopping.wait(1.0)  # one that cannot start is not tried in a tight loop
        return self._start()

    def _stop(self, workers: list[BaseProcess]) -> None:
        for worker in workers:
            worker.terminate()
        end = time.monotonic() + self._settings.drain_seconds + _REST_SECONDS
        for worker in workers:
            worker.join(max(0.0, end - time.monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join(_KILL_SECONDS)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()
