"""Background jobs, one at a time; their state is in files, so that every worker process can tell it."""

from __future__ import annotations

import json
import queue
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from ..errors import OverloadedError, RunoffError, StoreLockedError
from . import logs
from .problems import Problem, of_error

State = Literal["queued", "running", "done", "failed", "stopped"]

ID_PATTERN = "^[0-9a-f]{24}$"
MOST_WAITING = 8
_KEPT = 200
_LOCKED_TRIES = 60
_LOCKED_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """A job as clients see it.

    Attributes:
        id: 24 hexadecimal digits.
        kind: ``"ingest"``, ``"refresh"`` or ``"trial"``.
        state: ``"stopped"`` means that the service was shut down first.
        done: documents done in the source at hand.
        total: documents in that source.
        source: what is being read.
        created, finished: UTC times; the latter is None until the job has ended.
        report: one report a source once the job is done, as ``SourceReport``.
        error: why it failed, or None.
        trial: the trial store that it fills, or None.
    """

    id: str
    kind: str
    state: State = "queued"
    done: int = 0
    total: int = 0
    source: str = ""
    created: str = ""
    finished: str | None = None
    report: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    trial: str | None = None


class StoppedError(Exception):
    """The service is being shut down."""


Progress = Callable[[str, int, int], None]
Work = Callable[[Progress], list[dict[str, Any]]]


class Jobs:
    """Runs jobs of one process in their order.

    Args:
        folder: where states are kept; processes may share it.
        wait: waits that many seconds, or less when the event is set that ``close`` sets; replaced in tests.
    """

    def __init__(self, folder: Path, wait: Callable[[float], object] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._closing = threading.Event()
        self._wait = wait or self._closing.wait
        self._line: queue.Queue[tuple[Job, Work]] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()

    def submit(self, kind: str, work: Work, *, trial: str | None = None) -> Job:
        """Put a job in the line.

        Args:
            kind: what it does.
            work: does it; is handed a function to report progress with, and returns the reports of the sources.
            trial: the trial store that it fills, if any.

        Raises:
            OverloadedError: too many jobs wait, or the service is being shut down.
        """
        job = Job(secrets.token_hex(12), kind, created=_now(), trial=trial)
        self._start()
        self._save(job)
        try:
            if self._closing.is_set():
                raise queue.Full
            self._line.put_nowait((job, work))
        except queue.Full:
            self._path(job.id).unlink(missing_ok=True)
            raise OverloadedError(f"{MOST_WAITING} jobs wait, which is as many as may; try again later", 5.0) from None
        self._forget()
        return job

    def get(self, job_id: str) -> Job:
        """The job of that id, whichever process runs it.

        Raises:
            Problem: 404: there is none, or it is long done.
        """
        if not re.match(ID_PATTERN, job_id):
            raise Problem(404, "job_unknown", "no such job", field="job_id")
        try:
            return Job(**json.loads(self._path(job_id).read_bytes()))
        except FileNotFoundError:
            raise Problem(404, "job_unknown", "no such job", field="job_id") from None

    def close(self, seconds: float) -> None:
        """Stop the job that runs at its next step and forget those that wait; wait that long for it."""
        self._closing.set()
        with self._guard:
            if self._thread is not None:
                self._thread.join(seconds)

    def _start(self) -> None:
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="runoff-jobs", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while not self._closing.is_set():
            try:
                job, work = self._line.get(timeout=0.2)
            except queue.Empty:
                continue
            self._run(job, work)

    def _run(self, job: Job, work: Work) -> None:
        state = [replace(job, state="running")]

        def progress(source: str, done: int, total: int) -> None:
            if self._closing.is_set():
                raise StoppedError
            state[0] = replace(state[0], source=source, done=done, total=total)
            self._save(state[0])

        began = time.perf_counter()
        self._save(state[0])
        ended = replace(self._outcome(work, progress, state), finished=_now())
        self._save(ended)
        logs.event(
            "job",
            {
                "job": job.id,
                "kind": job.kind,
                "state": ended.state,
                "ms": round((time.perf_counter() - began) * 1e3, 1),
                **{name: sum(int(row[name]) for row in ended.report) for name in ("added", "updated", "embedded")},
            },
        )

    def _outcome(self, work: Work, progress: Progress, state: list[Job]) -> Job:
        try:
            report = self._patiently(work, progress)
            failed = bool(report) and all(row["error"] is not None for row in report)
            error = report[0]["error"] if failed else None
            return replace(state[0], state="failed" if failed else "done", report=report, error=error)
        except StoppedError:
            return replace(state[0], state="stopped", error="the service was shut down; submit it again")
        except RunoffError as error:
            return replace(state[0], state="failed", error=of_error(error).message)
        except Exception as error:
            logs.failure("a job failed", error, {"job": state[0].id})
            return replace(state[0], state="failed", error="the job failed; the service's log says why")

    def _patiently(self, work: Work, progress: Progress) -> list[dict[str, Any]]:
        """Do the work; where another process writes to the store, wait for it."""
        for _ in range(_LOCKED_TRIES):
            try:
                return work(progress)
            except StoreLockedError:
                self._wait(_LOCKED_WAIT)
                if self._closing.is_set():
                    raise StoppedError from None
        return work(progress)

    def _path(self, job_id: str) -> Path:
        return self._folder / f"{job_id}.json"

    def _save(self, job: Job) -> None:
        """Write the job's state in one step."""
        fresh = self._folder / f"{job.id}.new"
        fresh.write_text(json.dumps(asdict(job)), encoding="ascii")
        fresh.replace(self._path(job.id))

    def _forget(self) -> None:
        """Drop the states of jobs that are long done."""
        states = sorted((path.stat().st_mtime, path) for path in self._folder.glob("*.json"))
        for _, path in states[:-_KEPT]:
            path.unlink(missing_ok=True)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
