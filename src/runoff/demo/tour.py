"""The tour: ingest the sample feed, show both stages for one question, print the prompt, measure both stages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import mean, median

from rich.table import Table

from ..candidates import Mode
from ..cli import output
from ..engine import Engine
from ..evaluate import ndcg, precision
from ..identity import digest
from ..results import SearchResult
from ..searching import DEFAULT_CANDIDATES

QUESTION = "How do payouts to merchants in other countries work?"
FEED = "feed.xml"
QUESTIONS = "questions.jsonl"


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question with the grade (1 helps, 2 answers) of each relevant document id."""

    text: str
    relevant: Mapping[str, int]


def feed_path() -> Path:
    """Path of the sample feed."""
    return Path(str(resources.files(__package__) / FEED))


def questions() -> list[LabelledQuestion]:
    """The labelled questions over the sample feed."""
    lines = (resources.files(__package__) / QUESTIONS).read_text(encoding="utf-8").splitlines()
    return [_labelled(json.loads(line)) for line in lines]


def run(backend: str = "auto", threads: int | None = None) -> None:
    """Give the tour on stdout, in a store that is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="runoff-demo-") as folder,
        Engine.open(folder, backend=backend, threads=threads, cache_bytes=0) as engine,  # each search is timed
    ):
        _ingest(engine)
        _show_both_stages(engine)
        _show_prompt(engine)
        _measure(engine, questions())


def _labelled(record: Mapping[str, object]) -> LabelledQuestion:
    relevant = record["relevant"]
    if not isinstance(relevant, dict):
        raise TypeError(f"relevant: got {type(relevant).__name__}; expected an object of id and grade")
    # Labels name entries by their Atom id, which is a tag: URI and so the whole of a document's identity.
    return LabelledQuestion(str(record["question"]), {digest(str(key)): int(grade) for key, grade in relevant.items()})


def _ingest(engine: Engine) -> None:
    report = engine.ingest(feed_path())
    _heading("Ingest")
    output.ingest_report(report)


def _show_both_stages(engine: Engine) -> None:
    engine.search(QUESTION)  # the first query pays for loading the models
    first = engine.search(QUESTION, rerank=False)
    second = engine.search(QUESTION)
    _heading(f"Search: {QUESTION}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("#", "first stage", "fused", "after the runoff", "was", "score"):
        table.add_column(name, justify="left" if name in ("first stage", "after the runoff") else "right")
    for before, after in zip(first.hits, second.hits, strict=True):
        table.add_row(
            str(before.rank),
            _label(before.title, before.kind),
            f"{before.score:.3f}",
            _label(after.title, after.kind),
            str(after.first_stage.rank),
            f"{after.score:.3f}",
        )
    output.console().print(table)
    print(f"first stage  {output.times_line(first)}")
    print(f"with runoff  {output.times_line(second)}")


def _show_prompt(engine: Engine) -> None:
    built, _ = engine.prompt(QUESTION)
    _heading("Prompt")
    print(built.text, end="")
    print(f"\n{built.tokens} of {built.max_tokens} tokens, {len(built.used)} passages")


def _measure(engine: Engine, labelled: list[LabelledQuestion]) -> None:
    _heading(f"Quality and latency over {len(labelled)} labelled questions")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("ranking", "precision@5", "nDCG@10", "median ms", "p95 ms"):
        table.add_column(name, justify="left" if name == "ranking" else "right")
    rankings: tuple[tuple[str, Mode, bool], ...] = (
        ("vectors alone", "dense", False),
        ("first stage", "hybrid", False),
        ("with runoff", "hybrid", True),
    )
    for name, mode, rerank in rankings:
        table.add_row(name, *_row(engine, labelled, mode, rerank))
    output.console().print(table)


def _row(engine: Engine, labelled: list[LabelledQuestion], mode: Mode, rerank: bool) -> list[str]:
    asked = output.track(labelled, "asking")
    results = [engine.search(question.text, DEFAULT_CANDIDATES, mode=mode, rerank=rerank) for question in asked]
    rankings = [document_ranking(result) for result in results]
    pairs = [(ranking, question.relevant) for ranking, question in zip(rankings, labelled, strict=True)]
    times = sorted(result.timings_ms.total for result in results)
    return [
        f"{mean(precision(ranking, relevant, 5) for ranking, relevant in pairs):.3f}",
        f"{mean(ndcg(ranking, relevant, 10) for ranking, relevant in pairs):.3f}",
        f"{median(times):.1f}",
        f"{times[int(0.95 * (len(times) - 1))]:.1f}",
    ]


def document_ranking(result: SearchResult) -> list[str]:
    """Document ids in the order of their best chunk, each once."""
    return list(dict.fromkeys(hit.document_id for hit in result.hits))


def _label(title: str, kind: str) -> str:
    return f"{title} [headline]" if kind == "headline" else title


def _heading(text: str) -> None:
    print(f"\n== {text} ==")
