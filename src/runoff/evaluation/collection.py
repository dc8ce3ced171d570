"""Labelled collections on disk: a corpus, queries, and the grades of relevant documents.

Two layouts are read, each file plain or gzipped:

- ``corpus.jsonl`` (``id``, ``title``, ``text``), ``queries.jsonl`` (``id``, ``text``), ``qrels.tsv``;
- BEIR's (https://github.com/beir-cellar/beir): the ids are called ``_id``, and ``qrels/<split>.tsv`` begins with the
  header ``query-id  corpus-id  score``.

A line of judgements is query id, document id and grade, or the four columns of TREC with an unused second one; a header
may stand in front in either layout. A grade of 1 or more is relevant. A query without a relevant document measures
nothing and is left out.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import identity, text
from ..documents import Document
from ..errors import EvaluationError

Grades = Mapping[str, int]

# trec_eval counts judgements in a table with a place for each grade up to the highest.
MOST_GRADE = 10_000

_GZIP_MAGIC = b"\x1f\x8b"
# What a first line may call its last column; BEIR says "score".
_HEADS = frozenset(("score", "grade", "relevance", "rel", "label"))


@dataclass(frozen=True, slots=True)
class Query:
    """A labelled question.

    Attributes:
        id: its id in the collection.
        text: what is asked, not blank.
        relevant: grades by document id; at least one is 1 or more.
    """

    id: str
    text: str
    relevant: Grades


@dataclass(frozen=True, slots=True)
class Collection:
    """A corpus and its labelled queries.

    Attributes:
        name: name of the folder.
        documents: title and text by id, in the corpus's order.
        queries: those with a relevant document, in the file's order.
        unjudged: number of queries left out because no document is judged relevant to them.
        unasked: ids of judged queries that the queries file does not have.
        digest: SHA-256 (hexadecimal) of the corpus file's content.
    """

    name: str
    documents: Mapping[str, tuple[str, str]]
    queries: tuple[Query, ...]
    unjudged: int
    unasked: tuple[str, ...]
    digest: str


def absent(queries: Iterable[Query], known: Container[str]) -> list[tuple[str, str]]:
    """Ids of query and document of the relevant judgements on documents that are not known: no ranking finds these."""
    judged = ((query.id, key, grade) for query in queries for key, grade in query.relevant.items())
    return [(query, key) for query, key, grade in judged if grade >= 1 and key not in known]


def load(folder: Path, split: str | None = None) -> Collection:
    """Read a collection folder.

    Args:
        folder: holds corpus, queries and judgements in one of the two layouts.
        split: which file of BEIR's ``qrels`` folder; None takes ``test``, or the only one there is.

    Raises:
        EvaluationError: a file is missing or malformed (names the line), or no query has a relevant document.
    """
    if not folder.is_dir():
        raise EvaluationError(f"{folder}: no such folder; expected one with corpus.jsonl, queries.jsonl and qrels.tsv")
    corpus, queries, qrels = _find(folder, "corpus.jsonl"), _find(folder, "queries.jsonl"), _find_qrels(folder, split)
    documents = {key: (title, body) for key, title, body in _documents(corpus)}
    grades = _qrels(qrels)
    asked = list(_queries(queries))
    kept = tuple(Query(key, words, grades[key]) for key, words in asked if _any_relevant(grades.get(key, {})))
    if not kept:
        raise EvaluationError(
            f"{qrels}: judges none of the {len(asked)} queries in {queries.name} relevant to a document; "
            "expected their ids in the first column and a grade of 1 or more in the last"
        )
    found = Collection(
        folder.resolve().name,
        documents,
        kept,
        unjudged=len(asked) - len(kept),
        unasked=tuple(sorted(grades.keys() - {key for key, _ in asked})),
        digest=hashlib.sha256(corpus.read_bytes()).hexdigest(),
    )
    if not any(key in documents for query in kept for key in query.relevant):
        raise EvaluationError(f"{qrels}: names no document of {corpus.name}; expected its ids in the second column")
    return found


def stored_id(key: str) -> str:
    """Id in a store of a document of the corpus: that of a JSONL record with this id."""
    return identity.digest(f"record {key}")


def as_documents(collection: Collection, *, whole: bool = False) -> Iterator[tuple[str, Document]]:
    """Each id with its document, cleaned as ingest cleans a JSONL record.

    Args:
        collection: what ``load`` read.
        whole: put the title at the head of the body, so that a document can be one chunk.
    """
    for key, (title, body) in collection.documents.items():
        head, rest = " ".join(text.from_plain(title).split()), text.from_plain(body)
        if whole:
            head, rest = "", f"{head}\n\n{rest}".strip()
        yield key, Document(stored_id(key), head, rest, source=collection.name)


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (``file, line n``) and object of each line that is not blank; the file may be gzipped.

    Raises:
        EvaluationError: the file cannot be read, or a line is no JSON object.
    """
    for place, line in _lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise EvaluationError(f"{place}: not JSON ({error}); expected one object a line") from error
        if not isinstance(record, dict):
            raise EvaluationError(f"{place}: got {type(record).__name__}; expected a JSON object")
        yield place, record


def string(record: Mapping[str, Any], name: str, place: str, *, default: str | None = None) -> str:
    """A field that is a string, without lone surrogates.

    Raises:
        EvaluationError: it is missing and has no default, or is of another type.
    """
    value = record.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        told = "no field" if value is None else f"got {type(value).__name__} in"
        raise EvaluationError(f"{place}: {told} {name!r}; expected a string")
    return text.clean(value)


def identifier(record: Mapping[str, Any], place: str) -> str:
    """The record's ``_id`` or ``id`` as ``name`` gives it.

    Raises:
        EvaluationError: it has none.
    """
    value = record.get("_id", record.get("id"))
    found = name(value)
    if not found:
        raise EvaluationError(f"{place}: id is {value!r}; expected a string or a whole number in 'id' or '_id'")
    return found


def name(value: object) -> str:
    """A string or a whole number as an id: without unseen characters and white space at its ends; else empty."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return text.clean(str(value)).strip()


def grade(value: object, place: str) -> int:
    """A grade as a whole number, from -``MOST_GRADE`` to ``MOST_GRADE``.

    Raises:
        EvaluationError: it is none.
    """
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        if number is not None and number == int(number) and abs(number) <= MOST_GRADE:
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise EvaluationError(f"{place}: grade is {value!r}; expected a whole number from -{MOST_GRADE} to {MOST_GRADE}")


def _any_relevant(grades: Grades) -> bool:
    return any(value >= 1 for value in grades.values())


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise EvaluationError(f"{folder}: has no {name} or {name}.gz; expected corpus, queries and qrels")


def _find_qrels(folder: Path, split: str | None) -> Path:
    inside = folder / "qrels"
    if split is None and not inside.is_dir():
        return _find(folder, "qrels.tsv")
    splits = {path.name.removesuffix(".gz").removesuffix(".tsv"): path for path in sorted(inside.glob("*.tsv*"))}
    wanted = split or ("test" if "test" in splits or len(splits) != 1 else next(iter(splits)))
    if wanted not in splits:
        has = ", ".join(splits) or "none"
        raise EvaluationError(f"{inside}: no split {wanted!r}; it has {has}. Choose with --split.")
    return splits[wanted]


def _documents(path: Path) -> Iterator[tuple[str, str, str]]:
    seen: set[str] = set()
    for place, record in json_lines(path):
        key = _once(identifier(record, place), seen, place)
        yield key, string(record, "title", place, default=""), string(record, "text", place)
    if not seen:
        raise EvaluationError(f"{path}: is empty; expected a document a line")


def _queries(path: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for place, record in json_lines(path):
        key, words = _once(identifier(record, place), seen, place), string(record, "text", place).strip()
        if not words:
            raise EvaluationError(f"{place}: the text of query {key!r} is blank; expected a question")
        yield key, words
    if not seen:
        raise EvaluationError(f"{path}: is empty; expected a query a line")


def _once(key: str, seen: set[str], place: str) -> str:
    if key in seen:
        raise EvaluationError(f"{place}: id {key!r} was on an earlier line; expected each id once")
    seen.add(key)
    return key


def _qrels(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for number, (place, line) in enumerate(_lines(path)):
        cells = [name(cell) for cell in (line.split("\t") if "\t" in line else line.split())]
        if number == 0 and cells and cells[-1].lower() in _HEADS:
            continue
        if len(cells) not in (3, 4) or not all(cells):
            raise EvaluationError(f"{place}: {len(cells)} columns; expected query id, document id and grade")
        query, document, value = cells[0], cells[-2], grade(cells[-1], place)
        if found.setdefault(query, {}).setdefault(document, value) != value:
            raise EvaluationError(f"{place}: another grade for {document!r} under {query!r} than on an earlier line")
    return found


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with path.open("rb") as raw:
            gzipped = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        with gzip.open(path, "rb") if gzipped else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    encoding = "utf-8-sig" if number == 1 else "utf-8"
                    yield f"{path.name}, line {number}", line.decode(encoding).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{path}: not UTF-8 ({error.reason}); expected JSON Lines or TSV in UTF-8") from error
    except (OSError, EOFError, zlib.error) as error:
        raise EvaluationError(f"{path}: cannot be read ({error}); expected a plain or gzipped text file") from error
