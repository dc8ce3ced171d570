"""The sample corpus and the tour over it."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from importlib import resources
from pathlib import Path

import pytest

from runoff import engine, sources
from runoff.demo import tour
from runoff.documents import Document
from runoff.results import FirstStage, SearchHit, SearchResult, Timings
from runoff.stages import ModelStages


@pytest.fixture(scope="module")
def entries() -> dict[str, Document]:
    """The documents of the sample feed by id."""
    loaded = sources.load(str(tour.feed_path()))
    assert loaded.warnings == ()
    return {document.id: document for document in loaded.documents}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, stages: ModelStages) -> str:
    """What the tour prints, in 200 columns."""
    folder = tmp_path_factory.mktemp("tour")
    screen = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(screen):
        patch.setenv("COLUMNS", "200")
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr(engine, "ModelStages", lambda *_: stages)
        tour.run()
    assert list(folder.iterdir()) == [], "the tour left its store behind"
    return screen.getvalue()


def test_the_feed_has_forty_entries_of_150_to_900_words(entries: dict[str, Document]) -> None:
    assert len(entries) >= 40
    lengths = {document.title: len(document.body.split()) for document in entries.values()}
    assert {title: words for title, words in lengths.items() if not 150 <= words <= 900} == {}


def test_every_entry_is_complete_and_no_two_are_alike(entries: dict[str, Document]) -> None:
    documents = list(entries.values())
    assert all(d.title and d.url and d.published and d.author and d.tags for d in documents)
    for field in ("title", "body", "url"):
        assert len({getattr(document, field) for document in documents}) == len(documents)
    assert all(".example/" in str(document.url) for document in documents), "an invented company has no real address"


def test_bodies_hold_no_markup(entries: dict[str, Document]) -> None:
    assert not [d.title for d in entries.values() if re.search(r"</?(p|ul|li|code|pre|h\d)\b|&\w+;", d.body)]


def test_there_are_thirty_questions_and_each_label_names_an_entry(entries: dict[str, Document]) -> None:
    questions = tour.questions()
    assert len({question.text for question in questions}) == len(questions) == 30
    for question in questions:
        assert set(question.relevant) <= set(entries), question.text
        assert set(question.relevant.values()) <= {1, 2}, question.text
        assert 2 in question.relevant.values(), question.text
    assert tour.QUESTION in {question.text for question in questions}


def test_question_ids_are_unique() -> None:
    text = (resources.files("runoff.demo") / tour.QUESTIONS).read_text(encoding="utf-8")
    ids = [json.loads(line)["id"] for line in text.splitlines()]
    assert len(set(ids)) == len(ids) == 30


def test_questions_name_no_title(entries: dict[str, Document]) -> None:
    titles = {document.title.lower() for document in entries.values()}
    assert not [q.text for q in tour.questions() if any(title in q.text.lower() for title in titles)]


def test_the_tour_ingests_the_feed(shown: str, entries: dict[str, Document]) -> None:
    assert shown.startswith("\n== Ingest ==\n")
    assert f"{len(entries)} added, 0 updated, 0 unchanged" in shown


def test_the_tour_shows_both_stages_side_by_side(shown: str, entries: dict[str, Document]) -> None:
    section = _section(shown, f"Search: {tour.QUESTION}")
    header, *rows = section.split("\n")
    assert re.split(" {2,}", header.strip()) == ["#", "first stage", "fused", "after the runoff", "was", "score"]
    cells = [re.split(" {2,}", row.strip()) for row in rows[:5]]
    assert [row[0] for row in cells] == ["1", "2", "3", "4", "5"]
    first = [row[1] for row in cells]
    for _, _, fused, after, was, score in cells:
        assert -1 <= float(fused) <= 1.2
        assert 0 <= float(score) <= 1
        assert int(was) > 5 or first[int(was) - 1] == after
    assert [row[4] for row in cells] != ["1", "2", "3", "4", "5"], "the question was to show movement"
    assert cells[0][3] == "Moving money over a border, end to end"
    number = r"\d+\.\d"
    for stage in ("first stage", "with runoff"):
        assert re.search(rf"^{stage}  \w+: {number} ms \(tokenize {number}, embed ", section, re.MULTILINE)


def test_the_tour_prints_a_prompt_and_its_count(shown: str, stages: ModelStages) -> None:
    section = _section(shown, "Prompt")
    prompt, count = section.rstrip("\n").rsplit("\n\n", 1)
    match = re.fullmatch(r"(\d+) of 6000 tokens, (\d+) passages", count)
    assert match is not None
    assert abs(int(match[1]) - stages.counter.count(prompt)) <= 1, "the last line end may be a token"
    assert int(match[1]) <= 6000
    assert section.count("\n</passage ") == int(match[2]) > 0
    assert f"Question: {tour.QUESTION}" in prompt


def test_the_tour_measures_both_stages_beside_vectors_alone(shown: str) -> None:
    section = _section(shown, "Quality and latency over 30 labelled questions")
    header, *rows = (re.split(" {2,}", line.strip()) for line in section.rstrip("\n").split("\n"))
    assert header == ["ranking", "precision@5", "nDCG@10", "median ms", "p95 ms"]
    assert [row[0] for row in rows] == ["vectors alone", "first stage", "with runoff"]
    vectors, first, second = ([float(cell) for cell in row[1:]] for row in rows)
    for precision, ndcg, middle, high in (vectors, first, second):
        assert 0 < precision <= 1
        assert 0 < ndcg <= 1
        assert 0 < middle <= high
    assert min(first[1], second[1]) > vectors[1]
    assert second[0] >= first[0]


def test_a_document_counts_once_at_its_best_chunk() -> None:
    first = FirstStage(1, 0.5, 0.5, None, None)
    hits = tuple(
        SearchHit(rank, rank, key, "body", "", None, "", None, "", None, None, 0.5, first, False)
        for rank, key in enumerate(["b", "a", "b", "c", "a"], start=1)
    )
    result = SearchResult("q", "onnxruntime", hits, Timings(0, 0, 0, 0, 0), False, True, "hybrid", 0.0, 1)
    assert tour.document_ranking(result) == ["b", "a", "c"]


def test_the_feed_is_a_file_that_can_be_given_to_ingest() -> None:
    assert isinstance(tour.feed_path(), Path)
    assert tour.feed_path().is_file()


def _section(shown: str, heading: str) -> str:
    """The part of the tour under a heading."""
    return shown.split(f"\n== {heading} ==\n")[1].split("\n== ")[0]
