"""Labelled questions over a store that exists already: one JSON object a line.

``question`` (or ``text``), ``relevant`` and, if wanted, ``id``. ``relevant`` is a list of document ids or an object of
grades by document id. A document is named by the 16 digits that ``search --json`` shows, by the id of its JSONL record,
by the URI that its feed gives it, by its address, or by the path of its file.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import identity
from ..errors import EvaluationError
from .collection import Query, grade, identifier, json_lines, name, string


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
            "`runoff search --json` shows them, ids of JSONL records, addresses, or paths of files"
        )
    return queries


def resolve(named: str, stored: Container[str]) -> str:
    """The stored id of the document that a name means, or the name itself where there is none."""
    meanings = (
        named,
        identity.digest(f"record {named}"),
        identity.digest(identity.address(named)),
        identity.digest(f"url {identity.address(named)}"),
        identity.digest(f"file {os.path.realpath(named)}"),
    )
    return next((key for key in meanings if key in stored), named)


def _queries(path: Path, stored: Container[str]) -> Iterator[Query]:
    seen: set[str] = set()
    for number, (place, record) in enumerate(json_lines(path), start=1):
        field = "question" if "question" in record else "text"
        words = string(record, field, place).strip()
        if not words:
            raise EvaluationError(f"{place}: {field} is blank; expected a question")
        key = f"q{number}" if "id" not in record and "_id" not in record else identifier(record, place)
        if key in seen:
            raise EvaluationError(f"{place}: id {key!r} was on an earlier line; expected each id once")
        seen.add(key)
        yield Query(key, words, _relevant(record, place, stored))


def _relevant(record: Mapping[str, Any], place: str, stored: Container[str]) -> dict[str, int]:
    value = record.get("relevant")
    judged = dict.fromkeys(map(name, value), 1) if isinstance(value, list) else value
    if not isinstance(judged, dict) or "" in judged:
        raise EvaluationError(
            f"{place}: relevant is {_told(value)}; expected a list of document ids or an object of grades by id"
        )
    grades: dict[str, int] = {}
    for named, number in judged.items():
        key, found = resolve(name(named), stored), grade(number, place)
        if grades.setdefault(key, found) != found:
            raise EvaluationError(f"{place}: another grade for {named!r} than under another name of the same document")
    if not any(number >= 1 for number in grades.values()):
        raise EvaluationError(f"{place}: no document in relevant has a grade of 1 or more; expected at least one")
    return grades


def _told(value: object) -> str:
    """What came: its type, or the first member of a list that is no id."""
    if not isinstance(value, list):
        return type(value).__name__
    return f"a list with {next(each for each in value if not name(each))!r}"
