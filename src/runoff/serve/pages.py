"""The page at ``/`` and the description at ``/docs``: files of the package, which load nothing from elsewhere."""

from __future__ import annotations

import hashlib
from importlib import resources

from fastapi import APIRouter, Request, Response

from .problems import Problem

_KINDS = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_KINDS["svg"] = "image/svg+xml"

router = APIRouter(include_in_schema=False)


@router.get("/")
async def page(request: Request) -> Response:
    """The page to search with."""
    return _file("index.html", request)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The API, from its OpenAPI document."""
    return _file("docs.html", request)


@router.get("/page/{name}")
async def part(name: str, request: Request) -> Response:
    """A file that a page is made of."""
    return _file(name, request)


def _file(name: str, request: Request) -> Response:
    """A file of the folder ``page``; the browser keeps it until it changes.

    Raises:
        Problem: 404: there is no such file.
    """
    known = {entry.name: entry for entry in (resources.files(__package__) / "page").iterdir()}
    kind = _KINDS.get(name.rpartition(".")[2])
    if name not in known or kind is None:
        raise Problem(404, "not_found", "there is nothing at this address")
    data = known[name].read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=kind, headers=headers)
