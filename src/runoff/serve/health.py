"""Whether the process lives, whether it can answer, what it counts, and what runs here."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from .. import cpu, threads
from .._version import __version__
from ..backends import AUTO, BACKENDS, together
from ..errors import RunoffError, StoreMissingError
from . import limits, metrics
from .service import Service, respond, service_of

router = APIRouter(tags=["operation"])


@dataclass(frozen=True, slots=True)
class Health:
    """``status`` is ``"ok"``, ``"loading"`` or ``"failed"``."""

    status: str
    store: str | None = None


@router.get("/healthz", response_model=Health, response_model_exclude_none=True)
async def healthz() -> Response:
    """The process answers."""
    return respond({"status": "ok"})


@router.get("/readyz", response_model=Health, responses={503: {"model": Health, "description": "Not yet."}})
async def readyz(request: Request) -> Response:
    """Models are loaded and the store can be read; one that the first ingest is yet to make counts as readable."""
    service = service_of(request)
    if service.failure is not None:
        return respond(Health("failed"), 503)
    if not service.loaded.is_set():
        return respond(Health("loading"), 503)
    state = await asyncio.to_thread(_store_state, service)
    return respond(Health("failed" if state == "unusable" else "ok", state), 503 if state == "unusable" else 200)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def exposition(request: Request) -> Response:
    """Counters and histograms for Prometheus."""
    service = service_of(request)

    def collect() -> bytes:
        _store_state(service)
        return service.metrics.exposition()

    return Response(await asyncio.to_thread(collect), media_type=metrics.CONTENT_TYPE)


@router.get("/info")
async def info(request: Request) -> Response:
    """Version, machine, models, store, bounds and options."""
    return respond(await asyncio.to_thread(_facts, service_of(request)))


def _store_state(service: Service) -> str:
    """What the store is at, which the metrics learn too."""
    try:
        generation = service.engine.store.current()
    except StoreMissingError:
        return "none yet"
    except RunoffError:
        return "unusable"
    service.metrics.store(generation)
    return f"generation {generation.number}"


def _facts(service: Service) -> dict[str, Any]:
    stages, settings = service.models, service.settings
    models = [
        {"name": artifact.name, "kind": artifact.kind, "sha256": artifact.digest, "max_length": artifact.max_length}
        for artifact in stages.artifacts
    ]
    return {
        "version": __version__,
        "cpu": {"model": cpu.model_name(), "features": list(cpu.features())},
        "threads": threads.budget(settings.threads),
        "backend": together(stages.backend, stages.scorer.backend),
        "backends": [AUTO, *BACKENDS],
        "models": models,
        "store": _store_facts(service),
        "caches": {name: asdict(stats) for name, stats in service.engine.cache_stats().items()},
        "limits": {
            "body_bytes": settings.body_bytes,
            "running": service.admission.most_running,
            "waiting": service.admission.most_waiting,
            "timeout_ms": settings.timeout_ms,
            "top_n": limits.TOP,
            "candidates": limits.CANDIDATES,
        },
        "may": {"ingest_urls": settings.allow_urls},
    }


def _store_facts(service: Service) -> dict[str, Any]:
    try:
        generation = service.engine.store.current()
    except RunoffError as error:
        return {"state": "none yet" if isinstance(error, StoreMissingError) else "unusable"}
    snapshot = generation.snapshot
    return {
        "state": "open",
        "generation": generation.number,
        "documents": snapshot.document_count,
        "chunks": snapshot.chunk_count,
    }
