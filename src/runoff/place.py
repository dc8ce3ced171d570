"""A place in a text, shown with a caret below it."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

_SHOWN = 70


class Place(NamedTuple):
    """A place in the text of a filter, for messages."""

    text: str
    at: int

    def __str__(self) -> str:
        first = self.text.rfind("\n", 0, self.at) + 1
        start = max(first, self.at - _SHOWN // 2)
        line = self.text[start : start + _SHOWN].partition("\n")[0]
        shown = "".join(one if one.isprintable() else " " for one in line)
        before = sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in shown[: self.at - start])
        number = f"\n  line {self.text.count(chr(10), 0, first) + 1} of the filter:" if first else ""
        return f"{number}\n  {shown}\n  {' ' * before}^"
