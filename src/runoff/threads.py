"""The one place that decides on threads: how many there may be, and the pool that shares work among them."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import Generic, TypeVar

from .errors import QueryError

Item = TypeVar("Item")

VARIABLE = "RUNOFF_THREADS"
_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def budget(setting: int | None = None) -> int:
    """Threads that computing may use: the least of CPU affinity, cgroup quota, ``RUNOFF_THREADS`` and ``setting``.

    Args:
        setting: upper bound of the caller, at least 1, or None.

    Raises:
        QueryError: ``setting`` or ``RUNOFF_THREADS`` is not a whole number of at least 1.
    """
    bounds = [granted()]
    if setting is not None:
        bounds.append(_positive("threads", setting))
    if variable := os.environ.get(VARIABLE):
        bounds.append(_positive(VARIABLE, variable))
    return min(bounds)


def granted() -> int:
    """CPUs that the system lets this process use: the lesser of affinity and cgroup quota."""
    return min(_affinity(), quota(_CGROUPS, _MEMBERSHIP) or _affinity())


def quota(cgroups: Path, membership: Path = _MEMBERSHIP) -> int | None:
    """CPUs that control groups grant, rounded up; None where there is no quota. Knows versions 2 and 1.

    A quota anywhere between this process's group and the root binds, so the least one counts.

    Args:
        cgroups: where control groups are mounted.
        membership: the system's list of the groups that this process is in.
    """
    found = [_quota_of(folder) for folder in _groups(cgroups, _read(membership))]
    return min((cpus for cpus in found if cpus is not None), default=None)


class Workers:
    """A pool of threads that shares out jobs; the caller's own thread works too, and nothing spins between calls.

    Any number of threads may call at once: no more than ``count`` jobs run at any time, whoever asked for them, and
    those who wait take turns job by job, so that a short call is not held up by a long one. A fork waits for the jobs
    that are running, so that a child never inherits a lock that one of them held; the child makes its own pool.

    Args:
        count: jobs that may run at once.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.renew()
        _EVERY.add(self)

    def run(self, job: Callable[[Item], None], items: Sequence[Item]) -> None:
        """Call ``job`` on every item, in order of the items as threads become free.

        The first error that a job raises is raised here, after all that had begun have ended.
        """
        call = _Call(job, items, self.turns)
        for _ in range(min(self.count, len(items)) - 1):
            if not self._invite(call):
                break
        try:
            call.work()
        finally:
            call.end()
        if call.error is not None:
            raise call.error

    def renew(self) -> None:
        """Forget the pool and its locks: what a forked child has to do, as the threads stayed with its parent."""
        self.turns = _Turns(self.count)
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def _invite(self, call: _Call[Item]) -> bool:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(max(1, self.count - 1), thread_name_prefix="runoff")
        try:
            self._pool.submit(call.work)
        except RuntimeError:  # the interpreter is exiting and starts no more work: the caller does it alone
            return False
        return True


@functools.cache
def shared(count: int) -> Workers:
    """The process's one pool of that many threads, so that all models together keep to the budget."""
    return Workers(count)


class _Turns:
    """A semaphore that serves first come, first served.

    That of the standard library lets a thread that gives a slot back take it again before anyone who waits.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    def acquire(self) -> None:
        gate = threading.Lock()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            gate.acquire()
            self._waiting.append(gate)
        try:
            gate.acquire()
        except BaseException:  # Ctrl-C: the slot may have been handed over already
            self._leave(gate)
            raise

    def release(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1

    def _leave(self, gate: threading.Lock) -> None:
        with self._lock:
            waits = gate in self._waiting
            if waits:
                self._waiting.remove(gate)
        if not waits:
            self.release()


class _Call(Generic[Item]):
    """The items of one call, which several threads take one by one.

    A helper that comes late finds nothing left and goes; the caller waits only for items that were begun.
    """

    def __init__(self, job: Callable[[Item], None], items: Sequence[Item], turns: _Turns) -> None:
        self.error: BaseException | None = None
        self._job = job
        self._items = deque(items)
        self._turns = turns
        self._running: set[int] = set()
        self._changed = threading.Condition()

    def work(self) -> None:
        """Do items until none are left."""
        while self._items:
            self._turns.acquire()
            try:
                self._next()
            finally:
                self._turns.release()

    def end(self) -> None:
        """Begin no more items, and wait for those that were begun."""
        with self._changed:
            self._items.clear()
            self._changed.wait_for(lambda: not self._running)

    def _next(self) -> None:
        me = threading.get_ident()
        try:
            with self._changed:
                if not self._items:
                    return
                self._running.add(me)
                item = self._items.popleft()
            self._job(item)
        except BaseException as error:
            self._fail(error)
        finally:
            with self._changed:
                self._running.discard(me)
                self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.error = self.error or error
            self._items.clear()


_EVERY: weakref.WeakSet[Workers] = weakref.WeakSet()
_FORK = threading.Lock()
_held: list[Workers] = []


def _before_fork() -> None:
    _FORK.acquire()
    _held[:] = list(_EVERY)
    for workers in _held:
        for _ in range(workers.count):
            workers.turns.acquire()


def _after_fork_in_parent() -> None:
    for workers in _held:
        for _ in range(workers.count):
            workers.turns.release()
    _held.clear()
    _FORK.release()


def _after_fork_in_child() -> None:
    for workers in _held:
        workers.renew()
    _held.clear()
    _FORK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _groups(cgroups: Path, membership: str) -> list[Path]:
    """Folders whose quota binds: each group of the membership that may carry one, and all above it."""
    folders = [cgroups, cgroups / "cpu"]
    for line in membership.splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers in ("", "cpu", "cpu,cpuacct", "cpuacct,cpu"):
            folder = cgroups / controllers / group.lstrip("/")
            folders += [folder, *(parent for parent in folder.parents if parent.is_relative_to(cgroups))]
    return folders


def _quota_of(folder: Path) -> int | None:
    if limit := _read(folder / "cpu.max"):
        runtime, _, period = limit.partition(" ")
    else:
        runtime, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if not runtime.isdigit() or not period.isdigit() or not int(period):
        return None
    return max(1, ceil(int(runtime) / int(period)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
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
