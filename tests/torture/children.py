"""Forks children that run an operation and are killed, at a line of the store's code or after a time."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import runoff

_STEPS = {
    str(Path(runoff.__file__).with_name(f"{name}.py")) for name in ("manifest", "writer", "compaction", "store", "lock")
}
_pipe = -1  # where a child sends lines


class Child:
    """A forked process that runs ``job`` and sends what it returns.

    Attributes:
        pid: its process id.
    """

    def __init__(self, job: Callable[[], Any]) -> None:
        receiving, sending = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            os.close(receiving)
            _work(job, sending)
        os.close(sending)
        self._pipe = os.fdopen(receiving, "rb")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def line(self) -> bytes:
        """The next line that it sent."""
        return self._pipe.readline()

    def wait(self) -> tuple[int, str]:
        """Its exit code (negative: the signal) and what it sent."""
        with self._pipe:
            text = self._pipe.read().decode()
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), text


def run(job: Callable[[], Any]) -> str:
    """What a job returned, as text, after it ran in a child that was let to end."""
    code, text = Child(job).wait()
    assert code == 0, f"exit code {code}: {text}"
    return text


def count_steps(job: Callable[[], Any]) -> int:
    """How many lines of the store's code a job takes."""
    return int(run(lambda: _traced(job, None)))


def duration(job: Callable[[], Any]) -> float:
    """How many seconds a job takes."""
    return float(run(lambda: _timed(job)))


def say(text: str) -> None:
    """Send a line from within a child."""
    os.write(_pipe, f"{text}\n".encode())


def killed_at_step(job: Callable[[], Any], step: float) -> bool:
    """Run a job that is killed before a certain line of the store's code; whether it was."""
    code, text = Child(lambda: _traced(job, int(step))).wait()
    assert code in (0, -signal.SIGKILL), f"exit code {code}: {text}"
    return code != 0


def killed_after(job: Callable[[], Any], seconds: float) -> bool:
    """Run a job that is killed after a time; whether it was still running."""
    child = Child(job)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    code, text = child.wait()
    assert code in (0, -signal.SIGKILL), f"exit code {code}: {text}"
    return code != 0


def printed(job: Callable[[], Any]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a job that runs in a child; a few kilobytes of each at most."""
    pipes = [os.pipe(), os.pipe()]

    def redirected() -> None:
        # Streams of their own: those of the parent remember what kind of file they were opened on.
        sys.stdout, sys.stderr = (os.fdopen(sending, "w", buffering=1, encoding="utf-8") for _, sending in pipes)
        job()

    code, trouble = Child(redirected).wait()
    assert not trouble, trouble
    texts = []
    for receiving, sending in pipes:
        os.close(sending)
        with os.fdopen(receiving, encoding="utf-8") as file:
            texts.append(file.read())
    return code, texts[0], texts[1]


def wait_until_traced() -> None:
    """Wait until another process traces this one."""
    deadline = time.monotonic() + 30
    while re.search(r"^TracerPid:\s+0$", Path("/proc/self/status").read_text(), re.MULTILINE):
        assert time.monotonic() < deadline, "not traced"
        time.sleep(0.002)


def _work(job: Callable[[], Any], pipe: int) -> NoReturn:
    global _pipe
    code, _pipe = 1, pipe
    try:
        result = job()
        code = 0
        text = b"" if result is None else str(result).encode()
        try:
            os.write(pipe, text)
        except OSError:  # a failure that was meant for the store
            os.write(pipe, text)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        os.write(pipe, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _timed(job: Callable[[], Any]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def _traced(job: Callable[[], Any], last: int | None) -> int:
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        if frame.f_code.co_filename not in _STEPS:
            return None
        if event == "line":
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)
            steps += 1
        return trace

    sys.settrace(trace)
    try:
        job()
    finally:
        sys.settrace(None)
    return steps
