"""One line a request on stderr: JSON for programs, plain for a terminal."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

LOGGER = logging.getLogger("runoff.serve")


def set_up() -> None:
    """Send the service's log, and the server's, to stderr. Called by the command, never at import."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter() if sys.stderr.isatty() else JsonFormatter())
    for name in ("runoff.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.setLevel(logging.INFO)
        logger.propagate = name == "uvicorn.error"


def event(message: str, fields: Mapping[str, Any]) -> None:
    """Log a message with fields."""
    LOGGER.info(message, extra={"fields": dict(fields)})


def failure(message: str, error: BaseException, fields: Mapping[str, Any] | None = None) -> None:
    """Log an error with its traceback."""
    LOGGER.error(message, extra={"fields": dict(fields or {})}, exc_info=error)


class JsonFormatter(logging.Formatter):
    """An object a line; an error's traceback is a field of it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line = {"time": _time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


class PlainFormatter(logging.Formatter):
    """Time, message and fields as name=value, in ASCII: what clients send cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and below it the traceback of its error, if any."""
        fields = " ".join(f"{name}={json.dumps(value, default=str)}" for name, value in _fields(record).items())
        line = f"{_time(record)[11:19]} {record.getMessage()} {fields}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found: dict[str, Any] = getattr(record, "fields", {})
    return found


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
