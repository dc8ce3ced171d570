"""What the endpoints share: the engines, the line of calls, the jobs and the numbers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from .. import fetch, identity, sources
from ..admission import Admission, Ticket
from ..engine import Engine
from ..errors import ModelError, RunoffError, SourceError, StoreMissingError
from ..fetch import FetchSettings
from ..results import IngestReport, SearchResult, SourceReport
from ..stages import ModelStages
from .access import Record, record_of
from .jobs import Jobs, Progress
from .metrics import Metrics
from .settings import Settings
from .trials import Trials

Result = TypeVar("Result")

_TRIAL_ENGINES = 8
_OF_CLIENTS = FetchSettings(public_only=True, retries=0, total_seconds=30.0, max_bytes=10_000_000)


class Service:
    """One process's share of a service.

    Args:
        settings: the operator's.
        engine: over the store, with the backend that requests get by default.
        runtime: folder for jobs and trials.
    """

    def __init__(self, settings: Settings, engine: Engine, runtime: Path) -> None:
        self.settings = settings
        self.engine = engine
        self.metrics = Metrics()
        self.admission = Admission(settings.running, settings.waiting)
        self.jobs = Jobs(runtime / "jobs")
        self.trials = Trials(runtime / "trials")
        self.failure: str | None = None
        self.loaded = threading.Event()
        self._engines = {settings.backend: engine}
        self._trial_engines: dict[tuple[str | None, str], Engine] = {}
        self._guard = threading.Lock()

    @property
    def models(self) -> ModelStages:
        """The engine's stages, which a service has by the models' names.

        Raises:
            ModelError: the engine was made of other parts.
        """
        stages = self.engine.stages
        if not isinstance(stages, ModelStages):
            raise ModelError(f"stages: got {type(stages).__name__}; a service expects runoff.stages.ModelStages")
        return stages

    def warm_up(self) -> None:
        """Load models and store; what fails is kept for readiness to tell."""
        try:
            stages = self.models
            _ = (stages.encoder, stages.tokenizer, stages.scorer.clocked, stages.counter)
            self.metrics.caches(self.engine.cache_stats())
            self.metrics.store(self.engine.store.current())
        except StoreMissingError:
            pass  # it comes with the first ingest
        except RunoffError as error:
            self.failure = str(error)
            return
        self.loaded.set()

    def engine_of(self, backend: str | None = None, trial: str | None = None) -> Engine:
        """The engine for a request: over a trial's store where it names one, on the backend where it names one.

        Raises:
            Problem: there is no such trial.
            ModelError: the backend cannot run here.
        """
        engine = self._on(backend or self.settings.backend)
        if trial is None:
            return engine
        return self._kept(
            (backend, trial),
            lambda: Engine(self.trials.store(trial), engine.stages, caches=engine.caches, target_ms=engine.target_ms),
        )

    async def compute(
        self, request: Request, call: Callable[[Ticket, Record], Result], timeout_ms: int | None = None
    ) -> Result:
        """The result of a call, run on a thread when its turn comes; its wait is recorded as a stage.

        Raises:
            OverloadedError, DeadlineError: as ``Admission.run``.
        """
        record = record_of(request.scope)

        def timed(ticket: Ticket) -> Result:
            record.stages_ms["wait"] = ticket.waited_seconds * 1e3
            self.metrics.load(self.admission)
            return call(ticket, record)

        try:
            return await self.admission.run(timed, timeout=(timeout_ms or self.settings.timeout_ms) / 1e3)
        finally:
            self.metrics.load(self.admission)

    def read(self, read: Callable[..., IngestReport], names: Iterable[str], progress: Progress) -> list[dict[str, Any]]:
        """Reports of ``Engine.ingest`` or ``refresh`` on sources that the operator named, or on a trial's files.

        They name files without the folders that they are in.
        """
        reports: list[dict[str, Any]] = []
        for name in names:
            hidden = "" if identity.is_web(name) else str(Path(name).parent)
            found = read(name, progress=partial(_advance, progress, hidden))
            reports += [_report(report, hidden) for report in found.sources]
        return reports

    def read_addresses(self, urls: Iterable[str], progress: Progress) -> list[dict[str, Any]]:
        """Ingest feeds on public addresses that a client named."""
        reports: list[dict[str, Any]] = []
        for url in urls:
            progress(url, 0, 0)
            try:
                loaded = sources.load(url, _OF_CLIENTS)
            except SourceError as error:
                reports.append(_report(SourceReport(url, error=str(error)), ""))
                continue
            report = self.engine.add(loaded.documents, ids=loaded.ids)
            reports.append({**_report(report, ""), "source": url, "warnings": list(loaded.warnings)})
        return reports

    def _kept(self, key: tuple[str | None, str], make: Callable[[], Engine]) -> Engine:
        """The engine of a trial, kept open since a person asks it more than once."""
        self.trials.store(key[1])
        with self._guard:
            if key not in self._trial_engines:
                self._trial_engines[key] = make()
            while len(self._trial_engines) > _TRIAL_ENGINES:
                del self._trial_engines[next(iter(self._trial_engines))]
            return self._trial_engines[key]

    def _on(self, backend: str) -> Engine:
        with self._guard:
            if backend not in self._engines:
                stages = ModelStages(*self.models.artifacts, backend, self.settings.threads)
                self._engines[backend] = Engine(
                    self.engine.folder, stages, caches=self.engine.caches, target_ms=self.settings.target_ms
                )
            return self._engines[backend]


def service_of(request: Request) -> Service:
    """The service that the request came to."""
    service: Service = request.app.state.service
    return service


def respond(value: Any, status: int = 200) -> Response:
    """A value as a JSON response; made on the thread that made the value, since large ones take their time."""
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    body = json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    return Response(body, status, media_type="application/json")


def shown_source(source: str) -> str:
    """A source as clients may see it: an address without credentials, or a file's name without its folder."""
    return fetch.redacted(source) if identity.is_web(source) else source.rpartition("/")[2]


def shown_result(result: SearchResult) -> dict[str, Any]:
    """A result as clients may see it."""
    plain = result.to_dict()
    for hit in plain["hits"]:
        hit["source"] = shown_source(hit["source"])
    return plain


def _report(report: SourceReport, hidden: str) -> dict[str, Any]:
    fields = asdict(report)
    error = fields["error"]
    return {
        **fields,
        "source": _shown(report.source, hidden),
        "warnings": [_shown(warning, hidden) for warning in report.warnings],
        "error": None if error is None else _shown(error, hidden),
    }


def _advance(progress: Progress, hidden: str, source: str, done: int, total: int) -> None:
    progress(_shown(source, hidden), done, total)


def _shown(text: str, hidden: str) -> str:
    """A text about files without the folder that they are in."""
    shown = text.replace(f"{hidden}/", "") if hidden not in ("", "/") else text
    return fetch.redacted(shown) if identity.is_web(shown) else shown
