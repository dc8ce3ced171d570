"""What goes to stderr: one line a message, with nothing in it that a terminal would obey."""

from __future__ import annotations

import re
import sys

# Control characters, line ends, the marks that turn text around, and what no encoding has.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def line(message: str) -> None:
    """Print a message as one line."""
    print(visible(message), file=sys.stderr)


def visible(text: str) -> str:
    """The text with what would steer a terminal written as escapes."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
