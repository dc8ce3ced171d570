"""What documents say of themselves, by field and type: all that a filter can ask about."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from enum import IntEnum
from typing import Any

from .documents import Document


class ValueType(IntEnum):
    """The types of values, as a segment numbers them."""

    TEXT = 1
    LIST = 2
    DATE = 3
    WHOLE = 4
    REAL = 5
    TRUTH = 6


# The fields that every document has, where they have a value.
DOCUMENT_FIELDS: dict[str, ValueType] = {
    "id": ValueType.TEXT,
    "title": ValueType.TEXT,
    "url": ValueType.TEXT,
    "source": ValueType.TEXT,
    "published": ValueType.DATE,
    "author": ValueType.TEXT,
    "tags": ValueType.LIST,
    "language": ValueType.TEXT,
}
_OWN_TYPES: dict[type, ValueType] = {
    str: ValueType.TEXT,
    tuple: ValueType.LIST,
    int: ValueType.WHOLE,
    float: ValueType.REAL,
    bool: ValueType.TRUTH,
}
_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(seconds=1)


def value(document: Document, name: str) -> tuple[ValueType, Any] | None:
    """The type and value of one of a document's fields, a date in seconds since 1970 in UTC; None where it has none."""
    if name == "published":
        moment = _stamped(document.published)
        return None if moment is None else (ValueType.DATE, moment)
    known = DOCUMENT_FIELDS.get(name)
    found = document.fields.get(name) if known is None else getattr(document, name)
    if found in (None, "", (), []):
        return None
    return _OWN_TYPES[type(found)] if known is None else known, found


def seconds(moment: datetime) -> int:
    """A time with a zone in whole seconds since 1970 in UTC."""
    return (moment - _EPOCH) // _SECOND


def _stamped(stamp: str | None) -> int | None:
    """A time as documents write it, in seconds since 1970; None where it is none."""
    try:
        return seconds(datetime.fromisoformat((stamp or "").replace("Z", "+00:00")))
    except (ValueError, TypeError):  # the latter: without a zone
        return None
