"""The `runoff` command. Errors of the package end it with a line on stderr (a filter's shows the place) and code 1."""

from __future__ import annotations

import os
import sys
import warnings

from ..errors import FilterError, RunoffError
from . import stderr


def main() -> None:
    """Run the command line and exit."""
    from .app import app

    _accept_any_text()
    warnings.showwarning = _show_warning
    try:
        try:
            app(prog_name="runoff")
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except FilterError as error:  # its lines show the place: one below the other
        _fail(*str(error).split("\n"))
    except RunoffError as error:
        _fail(str(error))
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        _drop_output()
        _fail(str(error))


def _accept_any_text() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    stderr.line(f"runoff: warning: {message}")


def _drop_output() -> None:
    """Let what is still buffered go nowhere, as Python flushes at exit and the reader has gone or the disk is full."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, *more: str) -> None:
    stderr.line(f"runoff: {message}")
    for line in more:
        stderr.line(line)
    sys.exit(1)
