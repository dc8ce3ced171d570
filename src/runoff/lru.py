"""A mapping that is bounded by bytes: what was not used for longest leaves first."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

# An entry of an OrderedDict takes 74 to 116 bytes of tables and links, as they are more or less full.
ENTRY_BYTES = 120
_ALLOCATED = 16  # what the interpreter allocates is rounded up to so much


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache did since it was made, and what it holds now.

    Attributes:
        hits: values that were asked for and there.
        misses: values that were asked for and not there.
        entries: values that it holds.
        bytes: memory that they take, with their keys and the bookkeeping of each.
        bound: most bytes that it may hold.
    """

    hits: int
    misses: int
    entries: int
    bytes: int
    bound: int


class LRU(Generic[Value]):
    """Keeps what was used last, within a bound in bytes. Thread-safe.

    Its lock is held while entries are looked up or moved, never while a value is computed: two threads that miss the
    same value both compute it, and the later one's takes the place of an equal one. A fork waits for the lock, so that
    a child never inherits it held, and the child's copy goes on by itself.

    Args:
        bound: most bytes, at least 0; a value that is larger alone is not kept.
        size: bytes of a value, which must not change; see ``allocated``.
    """

    def __init__(self, bound: int, size: Callable[[Value], int]) -> None:
        self.bound = bound
        self._size = size
        self._entries: OrderedDict[bytes, Value] = OrderedDict()
        self._bytes = self._hits = self._misses = 0
        self.renew()
        with _GUARD:
            _EVERY.add(self)

    def find(self, keys: Sequence[bytes]) -> list[Value | None]:
        """The value of each key, or None where it is not there; they are the latest used now."""
        with self._lock:
            found = [self._entries.get(key) for key in keys]
            for key, value in zip(keys, found, strict=True):
                if value is not None:
                    self._entries.move_to_end(key)
            there = len(keys) - found.count(None)
            self._hits += there
            self._misses += len(keys) - there
        return found

    def keep(self, items: Iterable[tuple[bytes, Value]]) -> None:
        """Put in values, none of which is None, and let others go until all fit."""
        sized = [(key, value, self._entry_bytes(key, value)) for key, value in items]
        with self._lock:
            for key, value, size in sized:
                self._put(key, value, size)

    def stats(self) -> CacheStats:
        """Counts and bytes of this moment."""
        with self._lock:
            return CacheStats(self._hits, self._misses, len(self._entries), self._bytes, self.bound)

    def renew(self) -> None:
        """Take a new lock: what a forked child has to do."""
        self._lock = threading.RLock()  # may be taken again by a signal handler that interrupts its holder

    def _put(self, key: bytes, value: Value, size: int) -> None:
        old = self._entries.pop(key, None)
        if old is not None:
            self._bytes -= self._entry_bytes(key, old)
        if size > self.bound:
            return
        while self._bytes + size > self.bound:
            self._bytes -= self._entry_bytes(*self._entries.popitem(last=False))
        self._entries[key] = value
        self._bytes += size

    def _entry_bytes(self, key: bytes, value: Value) -> int:
        return ENTRY_BYTES + allocated(key) + self._size(value)


def allocated(value: object) -> int:
    """Bytes that the interpreter allocated for an object, without what it refers to."""
    return -(-sys.getsizeof(value) // _ALLOCATED) * _ALLOCATED


_EVERY: weakref.WeakSet[LRU[Any]] = weakref.WeakSet()
_GUARD = threading.Lock()
_held: list[LRU[Any]] = []


def _before_fork() -> None:
    _GUARD.acquire()
    _held[:] = list(_EVERY)
    for cache in _held:
        cache._lock.acquire()


def _after_fork_in_parent() -> None:
    for cache in _held:
        cache._lock.release()
    _held.clear()
    _GUARD.release()


def _after_fork_in_child() -> None:
    for cache in _held:
        cache.renew()
    _held.clear()
    _GUARD.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
