"""The `runoff` command. Errors of the package end it with one line on stderr and exit code 1."""

from __future__ import annotations

import os
import sys

from ..errors import RunoffError


def main() -> None:
    """Run the command line and exit."""
    from .app import app

    _accept_any_text()
    try:
        app()
    except RunoffError as error:
        _fail(f"runoff: {error}", 1)
    except BrokenPipeError:
        # The reader of our output has gone; Python must not try to flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _accept_any_text() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _fail(message: str, code: int) -> None:
    print(" ".join(message.split("\n")), file=sys.stderr)
    sys.exit(code)
