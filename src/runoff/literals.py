"""The values and names that a filter states: their types, and how they are written."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timezone
from typing import Any, TypeAlias

from .documents import LARGEST_WHOLE
from .errors import FilterError
from .metadata import ValueType, seconds

Literal: TypeAlias = str | bool | int | float | date | datetime

KEYWORDS = frozenset(("and", "or", "not", "in", "is", "missing", "present", "contains", "startswith", "true", "false"))
BARE_NAME = r"[^\W\d][\w.-]*"
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
# What a literal may be compared with.
TYPES_OF: dict[type, tuple[ValueType, ...]] = {
    str: (ValueType.TEXT,),
    bool: (ValueType.TRUTH,),
    int: (ValueType.WHOLE, ValueType.REAL),
    float: (ValueType.WHOLE, ValueType.REAL),
    date: (ValueType.DATE,),
    datetime: (ValueType.DATE,),
}
_LETTERS = {character: letter for letter, character in ESCAPES.items()}
_ESCAPED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\"`\\]")
_BARE_NAME = re.compile(BARE_NAME)
_DAY = 86_400


def plain(literal: Any) -> Any:
    """A value in one of the types that filters know, where it is of a kin to them; a time in UTC, cut to seconds.

    Raises:
        FilterError: a time that UTC has no year for.
    """
    if isinstance(literal, datetime):
        moment = literal if literal.tzinfo else literal.replace(tzinfo=timezone.utc)
        try:
            return moment.astimezone(timezone.utc).replace(microsecond=0)
        except OverflowError:
            raise FilterError(f"got the time {literal}; expected one from year 1 to 9999 in UTC") from None
    if isinstance(literal, str):
        return str.__str__(literal)
    kin = next((one for one in (bool, int, float) if isinstance(literal, one)), None)
    return literal if kin is None else kin(literal)


def problem(literal: object) -> str | None:
    """Why this cannot be compared with anything."""
    if type(literal) not in TYPES_OF:
        return "expected a text, a number, true, false or a date"
    if literal == "":
        return "no value is empty; expected `is missing` or `is present`"
    if type(literal) is int and abs(literal) > LARGEST_WHOLE:
        return "expected a number of 64 bits"
    if type(literal) is float and not math.isfinite(literal):
        return "expected a finite number"
    return None


def quote(literal: Literal) -> str:
    """A value as filters write it."""
    if isinstance(literal, bool):
        return str(literal).lower()
    if isinstance(literal, datetime):
        return literal.isoformat().replace("+00:00", "Z")
    if isinstance(literal, str):
        return f'"{_ESCAPED.sub(_escape, literal)}"'
    return literal.isoformat() if isinstance(literal, date) else repr(literal)


def quote_name(name: str) -> str:
    """A field's name as filters write it."""
    bare = _BARE_NAME.fullmatch(name) and name.lower() not in KEYWORDS
    return name if bare else f"`{_ESCAPED.sub(_escape, name)}`"


def named(literal: object) -> str:
    """What a value is, for messages."""
    if isinstance(literal, str):
        return f"the text {quote(literal[:40])}"
    if isinstance(literal, bool):
        return quote(literal)
    sort = {int: "the number", float: "the number", date: "the date", datetime: "the date"}.get(type(literal))
    return f"{sort} {literal!s:.40}" if sort else type(literal).__name__


def span(literal: date) -> tuple[int, int]:
    """First second of a day, or of a moment, and the one after its last."""
    if isinstance(literal, datetime):
        return seconds(literal), seconds(literal) + 1
    start = seconds(datetime(literal.year, literal.month, literal.day, tzinfo=timezone.utc))
    return start, start + _DAY


def _escape(match: re.Match[str]) -> str:
    one = match[0]
    if one in '"`\\':
        return f"\\{one}"
    return f"\\{_LETTERS[one]}" if one in _LETTERS else f"\\u{ord(one):04x}"
