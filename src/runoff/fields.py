"""The Python form of a filter's comparisons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .comparisons import Compared, Contains, OneOf, Present, StartsWith
from .conditions import Condition
from .errors import FilterError
from .literals import Literal, plain


@dataclass(frozen=True, eq=False)
class Field:
    """A field to be compared, as in ``field("source") == "x"``; made by `field`."""

    name: str

    __hash__ = None  # type: ignore[assignment] # what == gives is no answer to whether two are equal

    def __eq__(self, other: object) -> Condition:  # type: ignore[override] # a condition, as is its purpose
        return Compared(self.name, "=", plain(other))

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return ~(self == other)

    def __lt__(self, other: Literal) -> Condition:
        return Compared(self.name, "<", plain(other))

    def __le__(self, other: Literal) -> Condition:
        return Compared(self.name, "<=", plain(other))

    def __gt__(self, other: Literal) -> Condition:
        return Compared(self.name, ">", plain(other))

    def __ge__(self, other: Literal) -> Condition:
        return Compared(self.name, ">=", plain(other))

    def isin(self, values: Iterable[Literal]) -> Condition:
        """Whether the field equals one of some values."""
        if isinstance(values, str):
            raise FilterError(f"{self.name}: got one text; expected a list of values")
        return OneOf(self.name, tuple(map(plain, values)))

    def contains(self, part: str) -> Condition:
        """Whether a list of texts has this one, or a text has this part."""
        return Contains(self.name, plain(part))

    def startswith(self, start: str) -> Condition:
        """Whether a text begins with this one."""
        return StartsWith(self.name, plain(start))

    def is_present(self) -> Condition:
        """Whether a document has a value in the field."""
        return Present(self.name)

    def is_missing(self) -> Condition:
        """Whether a document has none."""
        return ~Present(self.name)


def field(name: str) -> Field:
    """A field of documents, to make conditions of: ``(field("source") == "x") & field("tags").contains("fx")``.

    It is compared with texts, numbers, truth values, and dates: a ``date`` is the whole day in UTC, a ``datetime`` is
    cut to seconds and counts as UTC where it has no zone.

    Raises (as soon as it is compared):
        FilterError: the field is never compared with such a value.
    """
    return Field(name)
