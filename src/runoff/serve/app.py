"""The application: routes, error answers, and the layers around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from .._version import __version__
from ..engine import Engine
from ..errors import RunoffError
from . import embeddings, health, pages, problems, rerank, routes
from .access import Access
from .gate import App, Gate
from .problems import Problem
from .service import Service
from .settings import Settings

COMPUTING = frozenset((*routes.COMPUTING, *rerank.COMPUTING, *embeddings.COMPUTING))
_DESCRIPTION = "Two-stage retrieval on plain CPUs: vector search narrows, a cross-encoder decides."


def create(settings: Settings, runtime: Path) -> App:
    """The service over the store that the settings name, as an ASGI application.

    Args:
        settings: the operator's.
        runtime: folder for jobs and trials, which the workers of one service share.

    Raises:
        StoreError: the store is damaged, or was made with other models or settings.
        ModelError: a model is not installed or damaged.
    """
    engine = Engine.open(
        settings.store,
        backend=settings.backend,
        threads=settings.threads,
        target_ms=settings.target_ms,
        cache_bytes=settings.cache_bytes,
    )
    return build(Service(settings, engine, runtime))


def build(service: Service) -> App:
    """A service as an ASGI application: its routes, and around them the gate and the access log."""
    app = FastAPI(
        title="Runoff",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        generate_unique_id_function=_operation_id,
    )
    app.state.service = service
    for router in (routes.router, rerank.router, embeddings.router, health.router, pages.router):
        app.include_router(router)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RunoffError, _on_error)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(Exception, _on_failure)
    return Access(Gate(app, service.settings, service.admission, COMPUTING), service.metrics)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    warming = asyncio.ensure_future(asyncio.to_thread(service.warm_up))
    yield
    await warming
    await asyncio.to_thread(service.jobs.close, 1.0)
    service.engine.close()


def _operation_id(route: APIRoute) -> str:
    return route.name


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _answer(error, request)


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RunoffError)
    return _answer(problems.of_error(error), request)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _answer(problems.of_validation(error.errors()), request)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known: dict[int, Any] = {
        400: Problem(400, "not_json", "body: not JSON", field="body"),
        404: Problem(404, "not_found", "there is nothing at this address"),
        405: Problem(405, "method_not_allowed", "this address does not take that method"),
    }
    problem = known.get(error.status_code) or Problem(error.status_code, "refused", str(error.detail))
    response = _answer(problem, request)
    response.headers.update(error.headers or {})
    return response


async def _on_failure(request: Request, error: Exception) -> Response:
    return _answer(problems.failed(), request)  # the error goes on to the access layer, which logs it


def _answer(problem: Problem, request: Request) -> Response:
    if problem.status == 429:
        request.app.state.service.metrics.refusals.labels(problem.code).inc()
    return Response(problem.body, problem.status, headers=problem.headers)
