"""Dates: to UTC, or none."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runoff import dates

WHOLE = {
    "2026-03-02T10:00:00Z": "2026-03-02T10:00:00Z",
    "2026-03-02t10:00:00z": "2026-03-02T10:00:00Z",
    "2026-03-02T10:00:00.123456789+05:30": "2026-03-02T04:30:00Z",
    "2026-03-02T10:00-08": "2026-03-02T18:00:00Z",
    "2026-03-02T10:00:00+0100": "2026-03-02T09:00:00Z",
    "2026-03-02 10:00:00": "2026-03-02T10:00:00Z",
    "2026-03-02": "2026-03-02T00:00:00Z",
    "20260302": "2026-03-02T00:00:00Z",
    "2016-12-31T23:59:60Z": "2016-12-31T23:59:59Z",
    "0999-01-01T00:00:00Z": "0999-01-01T00:00:00Z",
    "Mon, 02 Mar 2026 10:00:00 GMT": "2026-03-02T10:00:00Z",
    "Mon,02 Mar 2026 10:00:00": "2026-03-02T10:00:00Z",
    "2 Mar 2026": "2026-03-02T00:00:00Z",
    "2 March 2026 9:05 +01:00": "2026-03-02T08:05:00Z",
    "Monday, 02-Mar-26 10:00:00 UTC": "2026-03-02T10:00:00Z",
    "Mon, 02 Mar 98 10:00:00 EST": "1998-03-02T15:00:00Z",
    "Mon, 02 Mar 2026 10:00:00 -0800 (PST)": "2026-03-02T18:00:00Z",
    "Mon, 02 Mar 2026 10:00:00 GMT+2": "2026-03-02T08:00:00Z",
    "Mon, 02 Mar 2026 10:00:00 Mars": "2026-03-02T10:00:00Z",
    "Mon, 02 Mar 2026 10:00:00 CET": "2026-03-02T09:00:00Z",
    "Mon, 02 Mar 2026 10:00:00 jst": "2026-03-02T01:00:00Z",
    "Mon Mar  2 10:00:00 AEST 2026": "2026-03-02T00:00:00Z",
    "Sat, 31 Dec 2016 23:59:60 GMT": "2016-12-31T23:59:59Z",
    "Mon Mar  2 10:00:00 2026": "2026-03-02T10:00:00Z",
    "Mon Mar  2 10:00:00 PST 2026": "2026-03-02T18:00:00Z",
    "March 2, 2026": "2026-03-02T00:00:00Z",
    "\n 2026-03-02 \t": "2026-03-02T00:00:00Z",
}


@pytest.mark.parametrize(("written", "expected"), WHOLE.items(), ids=WHOLE)
def test_whole_dates(written: str, expected: str) -> None:
    assert dates.utc(written) == expected


NONE = [
    *("", "yesterday", "2026", "2026-03", "--03", "03-02", "12:30", "26-03-02", "1772445600", "2026 was good"),
    *("Mon, 02 Mar 2026 10:00:00 PM GMT", "2 March 2026 9:05 am", "Mar 2, 2026 10:00 PM"),
    *("2026-02-30", "2026-13-01", "2026-00-01", "2026-03-00", "2026-03-02T24:00:00Z", "2026-03-02T10:61:00Z"),
    *("Mon, 31 Feb 2026 10:00:00 GMT", "Mon, 02 Foo 2026 10:00:00 GMT", "Mon, 02 Mar 2026 25:00:00 GMT"),
    *("2026-03-02T10:00:00+99:99", "Mon, 02 Mar 2026 10:00:00 +9999", "02 Mar", "Mar 2026", "٢٠٢٦-٠٣-٠٢"),
    *("9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00", "0000-01-01", "2026-03-02T10:00:00Zulu"),
]


@pytest.mark.parametrize("written", NONE)
def test_what_is_no_whole_date_is_none(written: str) -> None:
    assert dates.utc(written) is None


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text(alphabet="0123456789:-+TZ, MarGEST.", max_size=40) | st.text())
def test_any_text_is_a_date_or_none(written: str) -> None:
    stamp = dates.utc(written)
    assert stamp is None or dates.utc(stamp) == stamp


@settings(derandomize=True, deadline=None)
@given(st.datetimes())
def test_what_python_writes_comes_back(moment: datetime) -> None:
    written = moment.replace(microsecond=0).isoformat()
    assert dates.utc(written) == f"{written}Z"
    assert dates.utc(f"{written}.5+00:00") == f"{written}Z"
