"""The one place that decides on threads: how many there may be, and the pool that shares work among them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import Generic, TypeVar

from .errors import QueryError

Item = TypeVar("Item")

VARIABLE = "RUNOFF_THREADS"
_CGROUPS = Path("/sys/fs/cgroup")


def budget(setting: int | None = None) -> int:
    """Threads that computing may use: the least of CPU affinity, cgroup quota, ``RUNOFF_THREADS`` and ``setting``.

    Args:
        setting: upper bound of the caller, at least 1, or None.

    Raises:
        QueryError: ``setting`` or ``RUNOFF_THREADS`` is not a whole number of at least 1.
    """
    bounds = [_affinity(), quota(_CGROUPS)]
    if setting is not None:
        bounds.append(_positive("threads", setting))
    if variable := os.environ.get(VARIABLE):
        bounds.append(_positive(VARIABLE, variable))
    return min(bound for bound in bounds if bound is not None)


def quota(cgroups: Path) -> int | None:
    """CPUs that the control group grants, rounded up; None where there is no quota. Knows versions 2 and 1."""
    try:
        granted, period = (cgroups / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        granted, period = _read(cgroups / "cpu/cpu.cfs_quota_us"), _read(cgroups / "cpu/cpu.cfs_period_us")
    if not granted.isdigit() or not period.isdigit() or not int(period):
        return None
    return max(1, ceil(int(granted) / int(period)))


class Workers:
    """A pool of threads that shares out jobs; the caller's own thread works too, and nothing spins between calls.

    Any number of threads may call at once. In a forked child the pool is made anew.

    Args:
        count: threads that work on one call, the caller's included.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    def run(self, job: Callable[[Item], None], items: Sequence[Item]) -> None:
        """Call ``job`` on every item, in order of the items as threads become free.

        The first error that a job raises is raised here, after all have ended.
        """
        queue = _Queue(items)
        helpers = min(self.count, len(items)) - 1
        futures = [self._executor().submit(queue.drain, job) for _ in range(helpers)]
        try:
            queue.drain(job)
        finally:
            queue.stop()
            _wait(futures)
        for future in futures:
            future.result()

    def _executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None or self._process != os.getpid():
                self._pool = ThreadPoolExecutor(max(1, self.count - 1), thread_name_prefix="runoff")
                self._process = os.getpid()
            return self._pool


class _Queue(Generic[Item]):
    """Items that several threads take one by one."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()

    def drain(self, job: Callable[[Item], None]) -> None:
        try:
            while (item := self._next()) is not None:
                job(item)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        with self._lock:
            self._items = iter(())

    def _next(self) -> Item | None:
        with self._lock:
            return next(self._items, None)


def _wait(futures: Sequence[Future[None]]) -> None:
    for future in futures:
        future.exception()


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _positive(name: str, value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise QueryError(f"{name}: got {value!r}; expected a whole number of at least 1")
    return number
