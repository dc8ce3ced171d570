"""What a client is told when a request fails: one shape for all APIs, without tracebacks and without paths.

    {"message": "top_n: …", "error": {"message": "top_n: …", "type": "invalid_request", "param": "top_n", "code": …}}

Cohere's client reads ``message``, OpenAI's reads ``error``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from ..errors import (
    BackendError,
    BudgetError,
    DeadlineError,
    DocumentError,
    FilterError,
    OverloadedError,
    QueryError,
    RunoffError,
    SourceError,
    StoreLockedError,
    StoreMissingError,
)
from . import logs

_MESSAGE_CHARACTERS = 500
_EXPECTED = {
    "extra_forbidden": "not a field of this request",
    "missing": "expected, and not there",
    "model_attributes_type": "expected a JSON object, with Content-Type: application/json",
}
_TYPES = {401: "authentication", 403: "forbidden", 404: "not_found", 429: "overloaded", 504: "deadline"}


class Problem(Exception):  # noqa: N818 # it is an answer
    """A request that is answered with an error.

    Attributes:
        status: HTTP status.
        code: what went wrong, for programs.
        message: the same for people: what came, what was expected, what to do.
        field: the field of the body or the parameter that it is about, as in ``documents.3.text``; or None.
        retry_after: seconds after which to try again, or None.
    """

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message if len(message) <= _MESSAGE_CHARACTERS else f"{message[:_MESSAGE_CHARACTERS]}…"
        self.field = field
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer, its content type included."""
        headers = {"content-type": "application/json"}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, ceil(self.retry_after)))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers

    @property
    def body(self) -> bytes:
        """The answer's body."""
        kind = _TYPES.get(self.status, "invalid_request" if self.status < 500 else "server_error")
        error = {"message": self.message, "type": kind, "param": self.field, "code": self.code}
        return json.dumps({"message": self.message, "error": error}).encode("ascii")


def of_error(error: RunoffError) -> Problem:
    """What the client is told of an error of the package; errors that are not the client's are logged."""
    if isinstance(error, OverloadedError):
        return Problem(429, "overloaded", str(error), retry_after=error.retry_after)
    if isinstance(error, DeadlineError):
        return Problem(504, "deadline_exceeded", str(error))
    if isinstance(error, FilterError):
        return Problem(422, "filter", str(error), field="where")
    if isinstance(error, QueryError | BudgetError | DocumentError):
        message = str(error)
        return Problem(422, "invalid_value", message, field=message.partition(":")[0].partition("=")[0].strip())
    if isinstance(error, StoreMissingError):
        return Problem(409, "store_missing", "nothing has been ingested yet; POST /ingest first")
    if isinstance(error, StoreLockedError):
        return Problem(409, "store_locked", "another writer has the store; try again", retry_after=2)
    if isinstance(error, SourceError):
        return Problem(422, "source_unusable", str(error), field="sources")
    return _hidden(error)


def failed() -> Problem:
    """What the client is told of an error that nobody expected."""
    return Problem(500, "internal", "the service failed at this request; its log says why")


def _hidden(error: RunoffError) -> Problem:
    """An error whose text is for the operator: it may name paths."""
    logs.failure("a request failed", error)
    if isinstance(error, BackendError):
        return Problem(503, "backend_unusable", "the models cannot be run; the service's log says why")
    return Problem(503, "store_unusable", "the store or a model cannot be used; the service's log says why")


def of_validation(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """What the client is told of a body or a parameter that is not as the OpenAPI document says."""
    first = errors[0]
    place = [str(part) for part in first["loc"]]
    field = ".".join(place[1:] or place)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    said = str(first["msg"])
    expected = _EXPECTED.get(first["type"], said[:1].lower() + said[1:])
    return Problem(422, str(first["type"]), f"{field}: {expected}{more}", field=field)
