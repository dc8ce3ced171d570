"""Runs a job again and again until it is told to stop."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from ..errors import QueryError, RunoffError
from . import stderr

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(interval: str) -> float:
    """Seconds in an interval such as ``90s``, ``15m``, ``1h`` or ``1d``.

    Raises:
        QueryError: it is none, or shorter than a second.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", interval.strip())
    length = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if length < 1:
        raise QueryError(f"every: got {interval!r}; expected a number and a unit, such as 90s, 15m, 1h or 1d")
    return length


def run(job: Callable[[], bool], pause: float) -> bool:
    """Run a job, wait, and so on. SIGTERM and Ctrl-C let a running job end and stop the wait.

    A job that fails with an error of the package says so and is tried again at its time.

    Args:
        job: returns whether all went well.
        pause: seconds between the end of one run and the beginning of the next.

    Returns:
        What the last run returned.
    """
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    sound = True
    try:
        while not stop.is_set():
            try:
                sound = job()
            except RunoffError as error:
                sound = False
                stderr.line(f"runoff: {error}")
            sys.stdout.flush()  # whoever follows a log file is not to wait until a block of it is full
            stop.wait(pause)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return sound
