"""What goes to stderr: one line a message, with nothing in it that a terminal would obey."""

from __future__ import annotations

import sys


def line(message: str) -> None:
    """Print a message as one line."""
    print(visible(message), file=sys.stderr)


def visible(text: str) -> str:
    """The text with line ends, control characters and lone surrogates written as escapes."""
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
