"""Dates as sources write them, to UTC. A date that is not fully given, or not possible, is no date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
# Names of one meaning in use beside those of RFC 822, in minutes east of UTC.
_ZONES = {
    "WET": 0, "WEST": 60, "BST": 60, "CET": 60, "MEZ": 60, "CEST": 120, "MESZ": 120, "EET": 120, "SAST": 120,
    "EEST": 180, "MSK": 180, "HKT": 480, "SGT": 480, "AWST": 480, "JST": 540, "KST": 540, "ACST": 570, "AEST": 600,
    "ACDT": 630, "AEDT": 660, "NZST": 720, "NZDT": 780, "AKST": -540, "AKDT": -480, "HST": -600,
}  # fmt: skip
_WEEKDAY = r"(?:[A-Za-z]{3,9}\.?(?:,\s*|\s+))?"
_MONTH = r"(?P<month>[A-Za-z]{3})[a-z]{0,6}\.?"
_FORMS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        # ISO 8601 and RFC 3339: 2026-03-02T10:00:00+01:00
        rf"(?P<year>\d{{4}})-?(?P<month>\d\d)-?(?P<day>\d\d)(?:[T\s]\s*{_TIME}\s*(?P<zone>Z|UTC|GMT|[+-]\d\d:?(?:\d\d)?)?)?",
        # RFC 822: Mon, 02 Mar 2026 10:00:00 +0100
        rf"{_WEEKDAY}(?P<day>\d\d?)[\s-]+{_MONTH}[\s-]+(?P<year>\d{{4}}|\d\d)(?:\s+{_TIME}\s*(?P<zone>[^\s(]+)?.*)?",
        # asctime and prose: Mon Mar 2 10:00:00 CET 2026; March 2, 2026
        rf"{_WEEKDAY}{_MONTH}\s+(?P<day>\d\d?),?\s+(?:{_TIME}\s+(?P<zone>[A-Z+-]\S*)?\s*)?(?P<year>\d{{4}})",
    )
)


def utc(text: str) -> str | None:
    """An ISO 8601, RFC 822 or ``asctime`` date as ``YYYY-MM-DDTHH:MM:SSZ``, or None.

    A date without a time is taken at midnight, a time without a known zone as UTC, a leap second as the one before it.
    A time before or after noon (am, pm) is none of these forms, and no date.
    """
    text = text.strip()[:100]
    match = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    try:
        return None if match is None else _stamp(match)
    except (ValueError, OverflowError):
        return None


def from_seconds(seconds: int) -> str:
    """Seconds since 1970 as a UTC time, ``YYYY-MM-DDTHH:MM:SSZ``."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def _stamp(match: re.Match[str]) -> str:
    second = 59 if match["second"] == "60" else int(match["second"] or 0)
    zone = (match["zone"] or "").upper().replace(":", "").removeprefix("GMT").removeprefix("UTC")
    local = datetime(_year(match["year"]), _month(match["month"]), int(match["day"]))
    local += timedelta(hours=_below(24, match["hour"]), minutes=_below(60, match["minute"]), seconds=_below(60, second))
    moment = local.replace(tzinfo=timezone.utc) - _offset(zone)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _below(bound: int, value: str | int | None) -> int:
    number = int(value or 0)
    if number >= bound:
        raise ValueError(f"got {number}; expected less than {bound}")
    return number


def _year(digits: str) -> int:
    # RFC 2822, section 4.3
    return int(digits) if len(digits) > 2 else int(digits) + (2000 if int(digits) < 50 else 1900)


def _month(name: str) -> int:
    return int(name) if name.isdecimal() else _MONTHS.index(name.lower()) + 1


def _offset(zone: str) -> timedelta:
    """How far a zone is east of UTC, by RFC 822's names or in digits."""
    if match := re.fullmatch(r"([+-])(\d\d?)(\d\d)?", zone):
        east = timedelta(hours=_below(24, match[2]), minutes=_below(60, match[3]))
        return east if match[1] == "+" else -east
    if zone in _ZONES:
        return timedelta(minutes=_ZONES[zone])
    if zone in ("AM", "PM", "A.M.", "P.M."):
        raise ValueError(f"got {zone}; expected a zone")
    return parsedate_to_datetime(f"1 Jan 2000 00:00:00 {zone or 'GMT'}").utcoffset() or timedelta()
