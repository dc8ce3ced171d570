"""Conditions on documents and chunks: what a filter is once it is read, and its Python form.

A condition is either true or false, also where a document has no value: a comparison with a value that is absent, or of
another type, is false, and ``not`` makes true of false. So ``author != "Ada"``, which is short for ``not author =
"Ada"``, holds for documents without an author.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from .columns import Columns, Mask
from .documents import Document, Kind
from .errors import FilterError, StoreDamagedError
from .metadata import ValueType

Types = Mapping[str, Collection[ValueType]]

DEEPEST = 50


class Table(NamedTuple):
    """Chunk rows, and what a condition can ask about them.

    Attributes:
        columns: the metadata of documents.
        documents: integers, shape [chunks]: the document row of each chunk.
        kinds: integers, shape [chunks]: each chunk's place in ``KINDS``.
    """

    columns: Columns
    documents: NDArray[Any]
    kinds: NDArray[Any]


class Condition(ABC):
    """What a filter asks of a document, or of a chunk and its document. Immutable; ``str`` gives its text form.

    Conditions are combined by ``&``, ``|`` and ``~``. Two are equal when their text forms are.
    """

    @property
    @abstractmethod
    def depth(self) -> int:
        """How deep conditions are nested in it, from 1; at most ``DEEPEST``."""

    @property
    @abstractmethod
    def of_chunks(self) -> bool:
        """Whether chunks of one document can differ in it."""

    @abstractmethod
    def matches(self, document: Document, kind: Kind = "body") -> bool:
        """Whether a chunk of this kind of a document meets the condition; a field of no document is absent."""

    def mask(self, columns: Columns, chunk_documents: NDArray[np.uint32], chunk_kinds: NDArray[np.uint32]) -> Mask:
        """Which chunks meet the condition: bool, shape [chunks].

        Args:
            columns: the metadata of documents.
            chunk_documents: shape [chunks]: the document row of each chunk.
            chunk_kinds: shape [chunks]: 0 for a headline, 1 for a body.

        Raises:
            FilterError: the condition names a field that no document has, or compares it with what it never holds.
            StoreDamagedError: the columns are not sound, or a document row or kind is out of range.
        """
        self.check(columns.types)
        return self.over_chunks(Table(columns, chunk_documents, chunk_kinds))

    @abstractmethod
    def check(self, types: Types) -> None:
        """Tell whether the condition makes sense for a store.

        Args:
            types: the types of the values of each field that a document has, as ``Columns`` knows them.

        Raises:
            FilterError: it names a field that no document has, or compares it with what it never holds.
        """

    @abstractmethod
    def negated(self) -> str:
        """The text form of the opposite."""

    @abstractmethod
    def over_documents(self, columns: Columns) -> Mask:
        """The condition for each document: bool, shape [documents]. Only where it is not ``of_chunks``."""

    def over_chunks(self, table: Table) -> Mask:
        """The condition for each chunk: bool, shape [chunks]."""
        return gather(self.over_documents(table.columns), table.documents)

    def __and__(self, other: Condition) -> Condition:
        return And.of((self, other)) if isinstance(other, Condition) else NotImplemented

    def __or__(self, other: Condition) -> Condition:
        return Or.of((self, other)) if isinstance(other, Condition) else NotImplemented

    def __invert__(self) -> Condition:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a condition is neither true nor false by itself; combine conditions by &, | and ~, in brackets"
        )

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Condition) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"<Condition {self}>"


@dataclass(frozen=True, eq=False, repr=False)
class _Group(Condition):
    """Several conditions that are joined by one word."""

    conditions: tuple[Condition, ...]

    word: ClassVar[str]
    combine: ClassVar[np.ufunc]

    @classmethod
    def of(cls, conditions: Sequence[Condition]) -> Condition:
        """The group of at least one condition; groups of the same sort are taken apart, and one is itself."""
        if len(conditions) == 1:
            return conditions[0]
        parts = (one.conditions if isinstance(one, cls) else (one,) for one in conditions)
        return cls(tuple(chain.from_iterable(parts)))

    def __post_init__(self) -> None:
        _check_depth(self)

    @cached_property
    def depth(self) -> int:
        return 1 + max(one.depth for one in self.conditions)

    @cached_property
    def of_chunks(self) -> bool:
        return any(one.of_chunks for one in self.conditions)

    def __str__(self) -> str:
        return f" {self.word} ".join(f"({one})" if isinstance(one, Or) else str(one) for one in self.conditions)

    def negated(self) -> str:
        return f"not ({self})"

    def check(self, types: Types) -> None:
        for one in self.conditions:
            one.check(types)

    def over_documents(self, columns: Columns) -> Mask:
        return reduce(self.combine, (one.over_documents(columns) for one in self.conditions))

    def over_chunks(self, table: Table) -> Mask:
        whole = [one.over_documents(table.columns) for one in self.conditions if not one.of_chunks]
        masks = [gather(reduce(self.combine, whole), table.documents)] if whole else []
        return reduce(self.combine, [*masks, *(one.over_chunks(table) for one in self.conditions if one.of_chunks)])


class And(_Group):
    """All of some conditions."""

    word = "and"
    combine = np.logical_and

    def matches(self, document: Document, kind: Kind = "body") -> bool:
        return all(one.matches(document, kind) for one in self.conditions)


class Or(_Group):
    """At least one of some conditions."""

    word = "or"
    combine = np.logical_or

    def matches(self, document: Document, kind: Kind = "body") -> bool:
        return any(one.matches(document, kind) for one in self.conditions)


@dataclass(frozen=True, eq=False, repr=False)
class Not(Condition):
    """The opposite of a condition, which is no opposite itself."""

    condition: Condition

    def __post_init__(self) -> None:
        _check_depth(self)

    @cached_property
    def depth(self) -> int:
        return self.condition.depth + isinstance(self.condition, _Group)

    @property
    def of_chunks(self) -> bool:
        return self.condition.of_chunks

    def matches(self, document: Document, kind: Kind = "body") -> bool:
        return not self.condition.matches(document, kind)

    def __invert__(self) -> Condition:
        return self.condition

    def __str__(self) -> str:
        return self.condition.negated()

    def negated(self) -> str:
        return str(self.condition)

    def check(self, types: Types) -> None:
        self.condition.check(types)

    def over_documents(self, columns: Columns) -> Mask:
        return ~self.condition.over_documents(columns)

    def over_chunks(self, table: Table) -> Mask:
        return ~self.condition.over_chunks(table)


def gather(mask: Mask, rows: NDArray[Any]) -> Mask:
    """The elements of a mask in the order of rows.

    Raises:
        StoreDamagedError: a row is out of range.
    """
    try:
        return mask.take(rows)
    except IndexError as error:
        raise StoreDamagedError(f"chunks: a row out of range ({error}); expected less than {len(mask)}") from error


def _check_depth(condition: Condition) -> None:
    if condition.depth > DEEPEST:
        raise FilterError(f"conditions nested more than {DEEPEST} deep; expected a simpler filter")
