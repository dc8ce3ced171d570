"""Documents and conditions of every sort, for property tests."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from runoff import columns
from runoff.columns import Segment
from runoff.conditions import Condition
from runoff.documents import Document
from runoff.fields import field

_WORDS = ("a", "aa", "ab", "b", "fx", "é", "東京", "\U0001f600", "x y", "q\"\\`'")
_words = st.sampled_from(_WORDS) | st.text(min_size=1, max_size=3)
_moments = st.sampled_from([0, 1, 59, 86_399, 86_400, -1, 200_000]).map(
    lambda number: datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=number)
)
_numbers = st.sampled_from(
    [0, 1, -1, 2**53, 2**53 + 1, 2**63 - 2, -(2**63 - 2), 0.5, -0.0, 1.0, 2.0**53, 1e300, 5e-324]
)
_OWN = ("n", "m", "a name", "and")

own_values = _words | _numbers | st.booleans() | st.lists(_words, max_size=3).map(tuple)
documents = st.builds(
    Document,
    id=st.sampled_from(["0" * 16, "1" * 16, "f" * 16]),
    title=st.just("") | _words,
    body=st.just(""),
    url=st.none() | _words,
    source=_words,
    published=st.none() | _moments.map(lambda moment: moment.isoformat().replace("+00:00", "Z")),
    author=st.none() | _words,
    tags=st.lists(_words, max_size=3).map(tuple),
    language=st.none() | st.sampled_from(["en", "pt-BR"]),
    fields=st.dictionaries(st.sampled_from(_OWN), own_values, max_size=3),
)


def _compared(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    made = field(name)
    return st.one_of(
        values.map(lambda value: made == value),
        values.map(lambda value: made != value),
        values.map(lambda value: made < value),
        values.map(lambda value: made <= value),
        values.map(lambda value: made > value),
        values.map(lambda value: made >= value),
    )


def _listed(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    return st.lists(values, min_size=1, max_size=3).map(field(name).isin)


_dates = _moments | _moments.map(datetime.date) | st.just(date(1, 1, 1)) | st.just(date(9999, 12, 31))
_texts = st.sampled_from(["id", "title", "url", "source", "author", "language", *_OWN])
_comparisons = st.one_of(
    _compared("published", _dates),
    _listed("published", _dates),
    st.sampled_from(["headline", "body"]).map(lambda kind: field("kind") == kind),
    _texts.flatmap(lambda name: _compared(name, _words) | _listed(name, _words)),
    st.sampled_from(_OWN).flatmap(lambda name: _compared(name, _numbers) | _listed(name, _numbers | _words)),
    st.tuples(st.sampled_from(_OWN), st.booleans()).map(lambda pair: field(pair[0]) == pair[1]),
    st.tuples(_texts | st.just("tags"), _words).map(lambda pair: field(pair[0]).contains(pair[1])),
    st.tuples(_texts, _words).map(lambda pair: field(pair[0]).startswith(pair[1])),
    (_texts | st.sampled_from(["tags", "published", "kind"])).map(lambda name: field(name).is_missing()),
)
conditions = st.recursive(
    _comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=6,
)


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def segment(first_row: int, some: list[Document]) -> Segment:
    return Segment(as_bytes(columns.build(first_row, some)))


def segments(some: list[Document], cuts: list[int], first_row: int = 0) -> list[Segment]:
    """The documents in segments that end at some of the cuts."""
    borders = sorted({0, len(some), *(cut % (len(some) + 1) for cut in cuts)})
    return [segment(first_row + low, some[low:high]) for low, high in pairwise(borders)]
