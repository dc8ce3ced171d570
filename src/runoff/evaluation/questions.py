"""Labelled questions over a store that exists already: one JSON object a line.

``question`` (or ``text``), ``relevant`` and, if wanted, ``id``. ``relevant`` is a list of document ids or an object of
grades by document id. A document is named by the 16 digits that ``search --json`` shows, by the id of its JSONL record,
by the URI that its feed gives it, or by its address.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import identity
from ..errors import EvaluationError
from .collection import Query, grade, json_lines, string


def load(path: Path, stored: Container[str]) -> tuple[Query, ...]:
    """Read questions and find the documents they name.

    Args:
        path: the file, plain or gzipped.
        stored: ids (16 hexadecimal digits) of the documents in the store.

    Returns:
        Questions whose judgements are by stored id. A name that the store does not know stays as it is: no ranking can
        find that document, and its absence counts against recall.

    Raises:
        EvaluationError: a line is malformed, an id comes twice, or the store has none of the documents.
    """
    queries = tuple(_queries(path, stored))
    if not queries:
        raise EvaluationError(f"{path}: is empty; expected a question with its relevant documents on each line")
    if not any(key in stored for query in queries for key in query.relevant):
        raise EvaluationError(
            f"{path}: names no document of the store (first: {next(iter(queries[0].relevant))!r}); expected ids as "
            "`runoff search --json` shows them, ids of JSONL records, or addresses"
        )
    return queries


def absent(queries: tuple[Query, ...], stored: Container[str]) -> int:
    """Number of relevant judgements on documents that the store does not have."""
    judged = ((key, value) for query in queries for key, value in query.relevant.items())
    return sum(value >= 1 and key not in stored for key, value in judged)


def resolve(name: str, stored: Container[str]) -> str:
    """The stored id of the document that a name means, or the name itself where there is none."""
    meanings = (
        name,
        identity.digest(f"record {name}"),
        identity.digest(identity.address(name)),
        identity.digest(f"url {identity.address(name)}"),
    )
    return next((key for key in meanings if key in stored), name)


def _queries(path: Path, stored: Container[str]) -> Iterator[Query]:
    seen: set[str] = set()
    for number, (place, record) in enumerate(json_lines(path), start=1):
        name = "question" if "question" in record else "text"
        words = string(record, name, place).strip()
        if not words:
            raise EvaluationError(f"{place}: {name} is blank; expected a question")
        key = str(record.get("id", f"q{number}"))
        if key in seen:
            raise EvaluationError(f"{place}: id {key!r} was on an earlier line; expected each id once")
        seen.add(key)
        yield Query(key, words, _relevant(record, place, stored))


def _relevant(record: Mapping[str, Any], place: str, stored: Container[str]) -> dict[str, int]:
    value = record.get("relevant")
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        value = dict.fromkeys(value, 1)
    if not isinstance(value, dict):
        raise EvaluationError(
            f"{place}: relevant is {type(value).__name__}; expected a list of document ids or an object of grades by id"
        )
    grades = {resolve(name.strip(), stored): grade(number, place) for name, number in value.items()}
    if not any(number >= 1 for number in grades.values()):
        raise EvaluationError(f"{place}: no document in relevant has a grade of 1 or more; expected at least one")
    return grades
