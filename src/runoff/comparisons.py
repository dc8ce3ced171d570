"""Comparisons of a field with values, each in two ways: over a document, and over a column of many at once."""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from .columns import Column, Columns, Mask, encode
from .conditions import Condition, Table, Types, gather
from .documents import KINDS, LARGEST_WHOLE, LONGEST_FIELD_NAME, Document, Kind, is_field_name
from .errors import FilterError
from .literals import TYPES_OF, Literal, named, problem, quote, quote_name, span
from .metadata import DOCUMENT_FIELDS, ValueType, value
from .place import Place

FIELDS: dict[str, ValueType] = {**DOCUMENT_FIELDS, "kind": ValueType.TEXT}

_SHOWN_NAMES = 20
_COMPARED_NAMES = 1000
_NO_OWN_DATES = "expected that of `published`, or a text in quotes: ISO 8601 texts have the order of time"
_EXPECTED = {
    ValueType.TEXT: "a text in quotes",
    ValueType.DATE: "a date without quotes, such as 2026-01-31 or 2026-01-31T10:00:00Z",
    ValueType.LIST: 'the other way round, as in "x" in tags, since it is a list',
}
_HELD = {
    ValueType.TEXT: "texts",
    ValueType.LIST: "lists of texts",
    ValueType.DATE: "dates",
    ValueType.WHOLE: "numbers",
    ValueType.REAL: "numbers",
    ValueType.TRUTH: "true or false",
}
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Condition):
    """A question about one field. ``places`` are those of the field and of the values, where they have any."""

    name: str
    _: KW_ONLY
    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        if not is_field_name(self.name):
            self.fail(0, f"expected a field's name of 1 to {LONGEST_FIELD_NAME} printable characters")
        for place, literal in enumerate(self.literals, start=1):
            if expected := problem(literal) or self._misfit(literal):
                self.fail(place, f"{self.name}: got {named(literal)}; {expected}")

    @property
    def depth(self) -> int:
        return 1

    @property
    def of_chunks(self) -> bool:
        return self.name == "kind"

    @property
    @abstractmethod
    def literals(self) -> tuple[Literal, ...]:
        """What the field is compared with."""

    @property
    @abstractmethod
    def types(self) -> Collection[ValueType]:
        """The types of values for which the answer can be yes."""

    @abstractmethod
    def passes(self, kind: ValueType, found: Any) -> bool:
        """Whether a value, which is of one of the types, gives a yes."""

    @abstractmethod
    def hits(self, column: Column) -> Mask:
        """The same for the values of a column, which are of one of the types: bool, shape [values]."""

    def matches(self, document: Document, kind: Kind = "body") -> bool:
        typed = (ValueType.TEXT, kind) if self.name == "kind" else value(document, self.name)
        return typed is not None and typed[0] in self.types and self.passes(*typed)

    def check(self, types: Types) -> None:
        if self.name in FIELDS:
            return
        if self.name not in types:
            self.fail(0, _unknown(self.name, types))
        if not set(types[self.name]) & set(self.types):
            got = ", ".join(map(named, self.literals))
            self.fail(1, f"{self.name}: got {got}; this store has {_listed(types[self.name])} there")

    def fail(self, place: int, message: str) -> NoReturn:
        """Raise an error that points at one of the places."""
        raise FilterError(message + "".join(str(one) for one in self.places[place : place + 1]))

    def _misfit(self, literal: Literal) -> str | None:
        """What was expected in place of a literal that the field is never equal to."""
        known = FIELDS.get(self.name)
        if known is None:
            return _NO_OWN_DATES if isinstance(literal, date) else None
        if known not in TYPES_OF[type(literal)]:
            return f"expected {_EXPECTED[known]}"
        return 'expected "headline" or "body"' if self.name == "kind" and literal not in KINDS else None

    def over_documents(self, columns: Columns) -> Mask:
        return columns.mask(self.name, lambda column: self.hits(column) if column.type in self.types else None)

    def over_chunks(self, table: Table) -> Mask:
        if self.name != "kind":
            return super().over_chunks(table)
        return gather(np.array([self.passes(ValueType.TEXT, kind) for kind in KINDS]), table.kinds)


@dataclass(frozen=True, eq=False, repr=False)
class Compared(Comparison):
    """``=``, ``<``, ``<=``, ``>`` or ``>=`` with one value."""

    operator: str
    value: Literal

    @property
    def literals(self) -> tuple[Literal, ...]:
        return (self.value,)

    @property
    def types(self) -> Collection[ValueType]:
        return TYPES_OF[type(self.value)]

    def _misfit(self, literal: Literal) -> str | None:
        if isinstance(literal, bool) and self.operator != "=":
            return "true and false have no order; expected = or !="
        return super()._misfit(literal)

    def passes(self, kind: ValueType, found: Any) -> bool:
        return _compare(found, self.operator, self.value)

    def hits(self, column: Column) -> Mask:
        low, high = _borders(column, self.value)
        ranges = {"=": (low, high), "<": (None, low), "<=": (None, high), ">": (high, None), ">=": (low, None)}
        return column.between(*ranges[self.operator])

    def __str__(self) -> str:
        return f"{quote_name(self.name)} {self.operator} {quote(self.value)}"

    def negated(self) -> str:
        return f"{quote_name(self.name)} != {quote(self.value)}" if self.operator == "=" else f"not {self}"


@dataclass(frozen=True, eq=False, repr=False)
class OneOf(Comparison):
    """``in`` some values."""

    values: tuple[Literal, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values:
            self.fail(1, f"{self.name}: got no values; expected at least one")

    @property
    def literals(self) -> tuple[Literal, ...]:
        return self.values

    @cached_property
    def types(self) -> Collection[ValueType]:
        return frozenset().union(*(TYPES_OF[type(one)] for one in self.values))

    def passes(self, kind: ValueType, found: Any) -> bool:
        return any(_compare(found, "=", one) for one in self.values if kind in TYPES_OF[type(one)])

    def hits(self, column: Column) -> Mask:
        literals = [one for one in self.values if column.type in TYPES_OF[type(one)]]
        if column.type is ValueType.TEXT:
            ranges = [(place, place + 1) for place in column.places([encode(str(one)) for one in literals])]
        else:
            ranges = [_borders(column, one) for one in literals]
        return column.within(_disjoint(ranges))

    def __str__(self) -> str:
        return self._written("in")

    def negated(self) -> str:
        return self._written("not in")

    def _written(self, word: str) -> str:
        return f"{quote_name(self.name)} {word} ({', '.join(map(quote, self.values))})"


@dataclass(frozen=True, eq=False, repr=False)
class Contains(Comparison):
    """A text in a list of texts, or a part of a text."""

    part: str

    @property
    def literals(self) -> tuple[Literal, ...]:
        return (self.part,)

    @property
    def types(self) -> Collection[ValueType]:
        return (ValueType.TEXT, ValueType.LIST)

    def _misfit(self, literal: Literal) -> str | None:
        return _part_misfit(self.name, literal, (ValueType.TEXT, ValueType.LIST))

    def passes(self, kind: ValueType, found: Any) -> bool:
        return self.part in found

    def hits(self, column: Column) -> Mask:
        if column.type is ValueType.TEXT:
            return column.containing(encode(self.part))
        return column.between(*_borders(column, self.part))

    def __str__(self) -> str:
        return f"{quote(self.part)} in {quote_name(self.name)}"

    def negated(self) -> str:
        return f"{quote(self.part)} not in {quote_name(self.name)}"


@dataclass(frozen=True, eq=False, repr=False)
class StartsWith(Comparison):
    """The beginning of a text."""

    start: str

    @property
    def literals(self) -> tuple[Literal, ...]:
        return (self.start,)

    @property
    def types(self) -> Collection[ValueType]:
        return (ValueType.TEXT,)

    def _misfit(self, literal: Literal) -> str | None:
        return _part_misfit(self.name, literal, (ValueType.TEXT,))

    def passes(self, kind: ValueType, found: Any) -> bool:
        return bool(found.startswith(self.start))

    def hits(self, column: Column) -> Mask:
        start = encode(self.start)
        return column.between(column.place(start), column.place(start + b"\xff"))

    def __str__(self) -> str:
        return f"{quote_name(self.name)} startswith {quote(self.start)}"

    def negated(self) -> str:
        return f"{quote_name(self.name)} not startswith {quote(self.start)}"


@dataclass(frozen=True, eq=False, repr=False)
class Present(Comparison):
    """Any value at all."""

    @property
    def literals(self) -> tuple[Literal, ...]:
        return ()

    @property
    def types(self) -> Collection[ValueType]:
        return tuple(ValueType)

    def passes(self, kind: ValueType, found: Any) -> bool:
        return True

    def hits(self, column: Column) -> Mask:
        return np.ones(len(column.values), dtype=bool)

    def __str__(self) -> str:
        return f"{quote_name(self.name)} is present"

    def negated(self) -> str:
        return f"{quote_name(self.name)} is missing"


def _compare(found: Any, sign: str, literal: Literal) -> bool:
    """A value against a literal of the same type. A day is the span of its seconds."""
    if not isinstance(literal, date):
        return _OPERATORS[sign](found, literal)
    start, end = span(literal)
    inside = start if start <= found < end else found
    return _OPERATORS[sign](inside, start)


def _borders(column: Column, literal: Literal) -> tuple[Any, Any]:
    """How the values of a column that equal a literal are bounded: from the first up to, and without, the second."""
    if isinstance(literal, str):
        text = encode(literal)
        low = column.place(text)
        return low, low + (low < column.text_count and column.text(low) == text)
    if isinstance(literal, date):
        return span(literal)
    if column.type is ValueType.REAL:
        nearest = float(literal)
        first = nearest if nearest >= literal else math.nextafter(nearest, math.inf)
        return first, math.nextafter(first, math.inf) if first == literal else first
    return _bounded(math.ceil(literal)), _bounded(math.floor(literal) + 1)


def _bounded(number: int) -> int:
    return max(-LARGEST_WHOLE, min(number, LARGEST_WHOLE + 1))


def _disjoint(ranges: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The same ranges in order, those that touch in one, those of nothing left out."""
    found: list[tuple[Any, Any]] = []
    for low, high in sorted(one for one in ranges if one[0] < one[1]):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _part_misfit(name: str, literal: Literal, types: Collection[ValueType]) -> str | None:
    if not isinstance(literal, str):
        return "expected a text in quotes"
    known = FIELDS.get(name)
    if known is None or known in types:
        return None
    return f"{name} holds {_HELD[known]}, which have no such part"


def _listed(types: Iterable[ValueType]) -> str:
    return " and ".join(dict.fromkeys(_HELD[one] for one in sorted(types)))


def _unknown(name: str, types: Iterable[str]) -> str:
    own = sorted(set(types) - set(FIELDS))
    close = get_close_matches(name, [*FIELDS, *own[:_COMPARED_NAMES]], n=1)
    hint = f"did you mean {quote_name(close[0])}? " if close else ""
    shown = ", ".join(map(quote_name, own[:_SHOWN_NAMES])) or "none"
    more = f" and {len(own) - _SHOWN_NAMES} more" if len(own) > _SHOWN_NAMES else ""
    return (
        f"no document has a field {quote_name(name)}; {hint}expected {', '.join(FIELDS)}, "
        f"or one of this store's own: {shown}{more}"
    )
