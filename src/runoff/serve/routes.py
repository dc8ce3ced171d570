"""The service's own endpoints: search, prompt, ingest, documents, trials and jobs."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from .. import identity, records
from ..admission import Ticket
from ..documents import Document, FieldValue
from ..engine import Engine
from ..errors import DocumentError, SourceError, StoreLockedError
from ..results import SearchResult
from . import jobs, limits
from .access import Record
from .jobs import Job, Progress
from .problems import Problem
from .schemas import (
    Deleted,
    DocumentRecord,
    ErrorAnswer,
    IngestRequest,
    PromptAnswer,
    PromptRequest,
    SearchRequest,
    TrialRequest,
)
from .service import Service, respond, service_of, shown_result, shown_source

ERRORS: dict[int | str, dict[str, Any]] = {
    422: {"model": ErrorAnswer, "description": "A value is out of its bounds; `param` names it."},
    "4XX": {"model": ErrorAnswer, "description": "The request cannot be answered; the message says why."},
    "5XX": {"model": ErrorAnswer, "description": "Not the request's fault; see the code."},
}
COMPUTING = ("/search", "/prompt")
_LOCKED_WAIT = 0.1

router = APIRouter(tags=["retrieval"], responses=ERRORS)
DocumentId = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="16 hexadecimal digits, as hits carry them.")]


@router.post("/search", response_model=SearchResult)
async def search(body: SearchRequest, request: Request) -> Response:
    """The chunks that answer a query best, where the first stage had them, and the time of each stage."""
    service = service_of(request)
    options = body.engine_options()

    def call(ticket: Ticket, record: Record) -> Response:
        engine = service.engine_of(body.backend, body.trial)
        result = engine.search(body.query, body.top_n, body.candidates, arrived=record.arrived, **options)
        _note(service, record, result, body.query, max(body.top_n, body.candidates))
        return respond(shown_result(result))

    return await service.compute(request, call, body.timeout_ms)


@router.post("/prompt", response_model=PromptAnswer)
async def prompt(body: PromptRequest, request: Request) -> Response:
    """A prompt with the best chunks that fit a token budget, and the search that chose them."""
    service = service_of(request)
    options = body.engine_options()

    def call(ticket: Ticket, record: Record) -> Response:
        engine = service.engine_of(body.backend, body.trial)
        began = time.perf_counter()
        built, result = engine.prompt(
            body.question,
            max_tokens=body.max_tokens,
            candidates=body.candidates,
            arrived=record.arrived,
            **options,
        )
        rest = max(0.0, (time.perf_counter() - began) * 1e3 - result.timings_ms.total)
        _note(service, record, result, body.question, body.candidates)
        record.stages_ms["prompt"] = rest
        record.facts["prompt_tokens"] = built.tokens
        return respond({"prompt": asdict(built), "search": shown_result(result), "prompt_ms": rest})

    return await service.compute(request, call, body.timeout_ms)


@router.post("/ingest", status_code=202, response_model=Job)
async def ingest(body: IngestRequest, request: Request) -> Response:
    """Store documents in the background; the answer names the job, which ``GET /jobs/{id}`` tells about."""
    service = service_of(request)
    if not body.documents and not body.urls:
        raise Problem(422, "nothing_given", "documents: got none; expected some", field="documents")
    if body.urls and not service.settings.allow_urls:
        raise Problem(403, "urls_forbidden", "urls: this service reads no addresses for clients", field="urls")
    for position, url in enumerate(body.urls):
        if not identity.is_web(url):
            field = f"urls.{position}"
            raise Problem(422, "not_an_address", f"{field}: expected an http or https address", field=field)
    documents = await asyncio.to_thread(_parsed, body.documents)

    def work(progress: Progress) -> list[dict[str, Any]]:
        reports: list[dict[str, Any]] = []
        if documents:
            progress("documents", 0, len(documents))
            stored = asdict(service.engine.add(documents))
            progress("documents", len(documents), len(documents))
            reports.append({**stored, "source": "documents"})
        return reports + service.read_addresses(body.urls, progress)

    return respond(service.jobs.submit("ingest", work), 202)


@router.post("/refresh", status_code=202, response_model=Job)
async def refresh(request: Request) -> Response:
    """Read what changed in the sources that `runoff ingest` fed the store from, in the background."""
    service = service_of(request)
    names = await asyncio.to_thread(service.engine.sources)
    if not names:
        raise Problem(409, "no_sources", "the store was fed from no source, so there is nothing to refresh")
    read = service.engine.refresh
    return respond(service.jobs.submit("refresh", lambda progress: service.read(read, names, progress)), 202)


@router.post("/trials", status_code=202, response_model=Job)
async def try_out(body: TrialRequest, request: Request) -> Response:
    """Make a store of its own from some files, to search them with ``trial`` in the body of a search."""
    service = service_of(request)
    files = [(file.name, file.data) for file in body.files]
    trial = await asyncio.to_thread(service.trials.create, files)

    def work(progress: Progress) -> list[dict[str, Any]]:
        return service.read(service.engine_of(None, trial).ingest, [str(service.trials.files(trial))], progress)

    return respond(service.jobs.submit("trial", work, trial=trial), 202)


@router.get("/jobs/{job_id}", response_model=Job)
async def job(job_id: Annotated[str, Path(pattern=jobs.ID_PATTERN)], request: Request) -> Response:
    """How far a background job is, and what came of it."""
    return respond(service_of(request).jobs.get(job_id))


@router.get("/documents/{document_id}", response_model=Document)
async def document(document_id: DocumentId, request: Request) -> Response:
    """A stored document as a whole."""
    service = service_of(request)

    def call(ticket: Ticket, record: Record) -> Response:
        found = _find(service.engine, document_id)
        if found is None:
            raise _unknown()
        return respond({**found.to_record(), "source": shown_source(found.source)})

    return await service.compute(request, call)


@router.delete("/documents/{document_id}", response_model=Deleted)
async def delete(document_id: DocumentId, request: Request) -> Response:
    """Remove a document. Once this is answered, no search finds it."""
    service = service_of(request)

    def call(ticket: Ticket, record: Record) -> Response:
        while True:
            try:
                removed = service.engine.delete(document_id)
                break
            except StoreLockedError:
                if (ticket.remaining() or 0) < 20 * _LOCKED_WAIT:
                    raise
                time.sleep(_LOCKED_WAIT)
                ticket.check()
        if not removed:
            raise _unknown()
        return respond({"id": document_id, "deleted": True})

    return await service.compute(request, call, limits.DELETE_MS)


def _note(service: Service, record: Record, result: SearchResult, query: str, candidates: int) -> None:
    """Put a search into the log line and the metrics."""
    times = asdict(result.timings_ms)
    total = times.pop("total")
    record.stages_ms |= {"cache": total} if result.cached else times
    record.facts |= {"hits": len(result.hits), "backend": result.backend, "generation": result.generation}
    record.facts["cached"] = result.cached
    if service.settings.log_texts:
        record.facts["query"] = query
    metrics = service.metrics
    metrics.deadline(result.deadline_met)
    metrics.caches(service.engine.cache_stats())
    if result.reranked and not result.cached:
        metrics.scored.inc(candidates)
        metrics.token_cache.labels("hit").inc(candidates)
    if result.query_truncated:
        metrics.truncations.labels("query").inc()
    metrics.truncations.labels("passage").inc(sum(hit.truncated for hit in result.hits))


def _parsed(given: list[DocumentRecord]) -> list[Document]:
    """Documents from records, as ``runoff ingest`` makes them from lines of JSON; of equal ids the last one counts.

    Raises:
        Problem: 422: names the first record that cannot become a document.
    """
    documents: dict[str, Document] = {}
    for position, record in enumerate(given):
        line = json.dumps(record.model_dump(exclude={"fields"}, exclude_none=True))
        try:
            (document,), _ = records.parse(line, "documents")
            documents[document.id] = replace(document, fields=_fields(record))
        except (SourceError, DocumentError) as error:
            field = f"documents.{position}"
            raise Problem(422, "document_unusable", f"{field}: {error}", field=field) from None
    return list(documents.values())


def _fields(record: DocumentRecord) -> dict[str, FieldValue]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in record.fields.items()}


def _find(engine: Engine, document_id: str) -> Document | None:
    snapshot = engine.store.current().snapshot
    row = snapshot.find_documents([document_id]).get(document_id)
    return None if row is None else snapshot.document(row)


def _unknown() -> Problem:
    return Problem(404, "document_unknown", "document_id: no such document", field="document_id")
