"""What an evaluation leaves behind for other programs."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import measures
from .candidates import Pass
from .collection import Query
from .summary import Outcome
from .texts import Texts


def write_json(path: Path, value: Any) -> None:
    """Indented JSON in UTF-8."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write_json_lines(path: Path, records: Iterator[Mapping[str, Any]]) -> None:
    """One object a line."""
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_csv(path: Path, queries: Sequence[Query], outcomes: Sequence[Outcome]) -> None:
    """A row for each question and configuration: ids, name and every score."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("question", "configuration", *measures.NAMES))
        for outcome in outcomes:
            rows = zip(*(outcome.stage.scores[name] for name in measures.NAMES), strict=True)
            for query, scores in zip(queries, rows, strict=True):
                writer.writerow((query.id, outcome.configuration.name, *(f"{score:.6g}" for score in scores)))


def questions(queries: Sequence[Query], outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """For each question its text, its judgements, and ranking and scores of every configuration."""
    for place, query in enumerate(queries):
        yield {
            "id": query.id,
            "question": query.text,
            "relevant": query.relevant,
            "configurations": {
                outcome.configuration.name: {
                    "ranking": outcome.rankings[query.id],
                    "scores": {name: outcome.stage.scores[name][place] for name in measures.NAMES},
                }
                for outcome in outcomes
            },
        }


def contexts(
    queries: Sequence[Query],
    passes: Mapping[str, Pass],
    outcome: Outcome,
    weight: float,
    texts: Texts,
    top: int = 5,
) -> Iterator[dict[str, Any]]:
    """Each question with the chunks that a prompt would hold, under the names of RAGAS's ``SingleTurnSample``.

    ``response`` is for the caller to fill in: faithfulness judges an answer against its contexts.
    """
    for query in queries:
        chunks = outcome.configuration.chunks(passes[query.id], weight)[:top]
        documents = passes[query.id].chunks
        yield {
            "user_input": query.text,
            "retrieved_contexts": [texts.chunk(chunk) for chunk in chunks],
            "retrieved_context_ids": [documents[chunk].document for chunk in chunks],
            "reference_context_ids": [key for key, grade in query.relevant.items() if grade >= 1],
        }


def write_run(path: Path, outcome: Outcome) -> None:
    """The rankings as a TREC run, which trec_eval and ir_measures read: question, Q0, document, rank, score, name."""
    with path.open("w", encoding="utf-8") as file:
        for question, ranking in outcome.rankings.items():
            for rank, key in enumerate(ranking, start=1):
                file.write(f"{_word(question)} Q0 {_word(key)} {rank} {-rank} {outcome.configuration.slug}\n")


def write_qrels(path: Path, queries: Sequence[Query]) -> None:
    """The judgements as trec_eval reads them."""
    with path.open("w", encoding="utf-8") as file:
        for query in queries:
            file.writelines(f"{_word(query.id)} 0 {_word(key)} {grade}\n" for key, grade in query.relevant.items())


def _word(key: str) -> str:
    """An id without white space, which separates the columns: that and the percent sign as in addresses."""
    return re.sub(r"[\s%]", lambda match: quote(match[0]), key)
