"""One writer at a time: an advisory lock on a file in the store folder, released by the system when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from .errors import StoreError, StoreLockedError

NAME = "lock"
_LENGTH = 63


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the writer's lock of a store folder.

    Raises:
        StoreLockedError: another writer holds it.
        StoreError: the folder cannot be written.
    """
    path = folder / NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}). Check the folder's permissions.") from error
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        # Of one length, so that it replaces the last holder's in one step and takes no more room on a full disk.
        os.pwrite(descriptor, f"pid {os.getpid()} since {since}".encode().ljust(_LENGTH) + b"\n", 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode("ascii", "replace").strip() or "another process"
        raise StoreLockedError(f"{path.parent}: locked by {holder}. Wait until it has finished, then retry.") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be locked ({error.strerror}); the store is as it was before") from error
