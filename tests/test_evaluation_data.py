"""Labelled data: both layouts, plain and gzipped, questions over a store, and every way in which they can be wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from runoff import identity, records
from runoff.engine import Engine
from runoff.errors import EvaluationError
from runoff.evaluation import collection, questions
from runoff.evaluation.texts import document_rows

CORPUS = [{"id": "a", "title": "Payouts", "text": "Two days."}, {"id": "b", "title": "", "text": "Bread\n\nand salt."}]
QUERIES = [{"id": "1", "text": "when?"}, {"id": "2", "text": "what?"}, {"id": "3", "text": "nobody knows"}]
QRELS = "1\ta\t2\n1\tb\t0\n2\tb\t1\n2\tzz\t1\n3\ta\t0\n"


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def write(path: Path, text: str, *, zipped: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if zipped:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A collection in the plain layout."""
    write(tmp_path / "corpus.jsonl", lines(*CORPUS))
    write(tmp_path / "queries.jsonl", lines(*QUERIES))
    write(tmp_path / "qrels.tsv", QRELS)
    return tmp_path


def beir(folder: Path, *, zipped: bool = False, split: str = "test") -> Path:
    """The same in BEIR's layout."""
    renamed = [{"_id": each.pop("id"), **each, "metadata": {}} for each in map(dict, [*CORPUS, *QUERIES])]
    write(folder / "corpus.jsonl", lines(*renamed[:2]), zipped=zipped)
    write(folder / "queries.jsonl", lines(*renamed[2:]), zipped=zipped)
    write(folder / "qrels" / f"{split}.tsv", f"query-id\tcorpus-id\tscore\n{QRELS}", zipped=zipped)
    return folder


def test_a_collection_is_read(ours: Path) -> None:
    found = collection.load(ours)
    assert dict(found.documents) == {"a": ("Payouts", "Two days."), "b": ("", "Bread\n\nand salt.")}
    assert [(query.id, query.text, dict(query.relevant)) for query in found.queries] == [
        ("1", "when?", {"a": 2, "b": 0}),
        ("2", "what?", {"b": 1, "zz": 1}),
    ]
    assert (found.unjudged, found.unasked, found.name) == (1, (), ours.name)
    assert collection.absent(found.queries, found.documents) == [("2", "zz")]


@pytest.mark.parametrize("zipped", [False, True])
def test_the_layout_of_beir_gives_the_same(ours: Path, tmp_path: Path, zipped: bool) -> None:
    found = collection.load(beir(tmp_path / "beir", zipped=zipped))
    assert (found.documents, found.queries) == (collection.load(ours).documents, collection.load(ours).queries)


def test_a_split_is_the_one_asked_for_or_test_or_the_only_one(tmp_path: Path) -> None:
    folder = beir(tmp_path, split="dev")
    assert len(collection.load(folder).queries) == 2
    write(folder / "qrels" / "test.tsv", "1\ta\t1\n")
    assert len(collection.load(folder).queries) == 1
    assert len(collection.load(folder, "dev").queries) == 2
    with pytest.raises(EvaluationError, match=r"no split 'train'; it has dev, test. Choose with --split"):
        collection.load(folder, "train")


def test_four_columns_of_trec_and_blanks_between_them_are_read(ours: Path) -> None:
    write(ours / "qrels.tsv", "1 0 a 1\n2 0 b 1\n")
    assert [dict(query.relevant) for query in collection.load(ours).queries] == [{"a": 1}, {"b": 1}]


@pytest.mark.parametrize("header", ["query-id\tcorpus-id\tscore", "qid iteration docid Relevance", "\ufeffq\td\tlabel"])
def test_a_header_is_passed_over(ours: Path, header: str) -> None:
    plain = collection.load(ours)
    write(ours / "qrels.tsv", f"{header}\r\n{QRELS}")
    assert collection.load(ours).queries == plain.queries


def test_the_digest_follows_the_corpus_alone(ours: Path) -> None:
    digests = {}
    for name in ("queries.jsonl", "qrels.tsv", "corpus.jsonl"):
        path = ours / name
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        digests[name] = collection.load(ours).digest
    assert digests["queries.jsonl"] == digests["qrels.tsv"] != digests["corpus.jsonl"]


def test_documents_are_those_that_ingest_would_make(ours: Path) -> None:
    found = collection.load(ours)
    (name, document), (_, other) = collection.as_documents(found)
    assert (name, document.id, document.title, document.body) == (
        "a",
        identity.digest("record a"),
        "Payouts",
        "Two days.",
    )
    assert other.body == "Bread\n\nand salt."
    (_, whole), (_, untitled) = collection.as_documents(found, whole=True)
    assert (whole.title, whole.body) == ("", "Payouts\n\nTwo days.")
    assert untitled.body == other.body


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("corpus.jsonl", "{", "corpus.jsonl, line 1: not JSON"),
        ("corpus.jsonl", lines([1]), "corpus.jsonl, line 1: got list; expected a JSON object"),
        ("corpus.jsonl", lines({"title": "x", "text": "y"}), "line 1: id is None; expected a string"),
        ("corpus.jsonl", lines({"id": True, "text": "y"}), "line 1: id is True"),
        ("corpus.jsonl", lines({"id": "a"}), "line 1: no field 'text'"),
        ("corpus.jsonl", lines({"id": "a", "text": 3}), "line 1: got int in 'text'"),
        ("corpus.jsonl", lines(CORPUS[0], CORPUS[0]), "line 2: id 'a' was on an earlier line"),
        ("corpus.jsonl", "\n", "corpus.jsonl: is empty"),
        ("queries.jsonl", lines({"id": "1", "text": " "}), "line 1: the text of query '1' is blank"),
        ("queries.jsonl", "", "queries.jsonl: is empty"),
        ("queries.jsonl", lines({"id": "9", "text": "?"}), "judges none of the 1 queries in queries.jsonl relevant"),
        ("qrels.tsv", "1\ta\n", "qrels.tsv, line 1: 2 columns; expected query id, document id and grade"),
        ("qrels.tsv", "1\t\t1\n", "line 1: 3 columns"),
        ("qrels.tsv", "\u00a0\n1\ta\t1\n", "line 1: 0 columns"),
        ("qrels.tsv", "1\ta\tyes\n", "line 1: grade is 'yes'; expected a whole number"),
        ("qrels.tsv", "1\ta\t0.5\n", "line 1: grade is '0.5'"),
        ("qrels.tsv", "1\ta\tnan\n", "line 1: grade is 'nan'"),
        ("qrels.tsv", "1\ta\t3000000000\n", "line 1: grade is '3000000000'; expected a whole number from -10000"),
        ("qrels.tsv", "1\ta\t1\n1\ta\t2\n", "line 2: another grade for 'a' under '1'"),
        ("qrels.tsv", "1\tzz\t1\n", "names no document of corpus.jsonl"),
    ],
)
def test_what_is_malformed_is_named(ours: Path, name: str, content: str, message: str) -> None:
    write(ours / name, content)
    with pytest.raises(EvaluationError) as error:
        collection.load(ours)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_files_that_are_missing_or_damaged_are_named(ours: Path, name: str) -> None:
    (ours / name).write_bytes(b"\xff\xfe{}")
    with pytest.raises(EvaluationError, match=rf"{name}: not UTF-8"):
        collection.load(ours)
    (ours / name).write_bytes(gzip.compress(b"{}" * 99)[:-9])
    with pytest.raises(EvaluationError, match=rf"{name}: cannot be read"):
        collection.load(ours)
    (ours / name).unlink()
    with pytest.raises(EvaluationError, match=rf"has no {name} or {name}.gz"):
        collection.load(ours)


def test_a_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no such folder"):
        collection.load(tmp_path / "none")


STORED = {
    identity.digest("record a1"),
    identity.digest(identity.address("tag:example.org,2024:x")),
    identity.digest("url " + identity.address("https://example.org/page")),
    "0123456789abcdef",
}
Ask = Callable[..., Path]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Writes questions and says where."""

    def made(*records: object) -> Path:
        path = tmp_path / "questions.jsonl"
        path.write_text(lines(*records), encoding="utf-8")
        return path

    return made


def test_questions_name_documents_by_any_name_that_they_have(ask: Ask) -> None:
    names = ["a1", "tag:example.org,2024:x", "http://EXAMPLE.org/page/", "0123456789abcdef"]
    (query,) = questions.load(ask({"question": "Which?", "relevant": names}), STORED)
    assert set(query.relevant) == STORED
    assert set(query.relevant.values()) == {1}
    assert query.id == "q1"


def test_a_file_is_named_by_its_path_wherever_that_is_read_from(
    ask: Ask, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "notes" / "ferry.md", "# Ferry\n\nIt leaves at seven.")
    engine.ingest(tmp_path / "notes")
    stored = set(document_rows(engine.store.current().snapshot))
    monkeypatch.chdir(tmp_path / "notes")
    for name in ("ferry.md", str(tmp_path / "notes" / "ferry.md")):
        (query,) = questions.load(ask({"question": "When?", "relevant": [name]}), stored)
        assert set(query.relevant) == stored


def test_ids_are_those_that_ingest_makes(ours: Path, ask: Ask) -> None:
    write(ours / "corpus.jsonl", lines({"id": " a\0\ud800 ", "text": "x"}, {"id": 42, "text": "y"}))
    write(ours / "qrels.tsv", "1\ta\0\ufffd\t1\n2\t42\t1\n")
    found = collection.load(ours)
    assert list(found.documents) == ["a\ufffd", "42"]
    assert not collection.absent(found.queries, found.documents)
    (ingested,), _ = records.parse(lines({"id": " a\0\ud800 ", "text": "x"}), "here")
    assert ingested.id == identity.digest("record a\ufffd")
    asked = questions.load(ask({"_id": "\ud800", "text": "Which?", "relevant": [42]}), {identity.digest("record 42")})
    assert (asked[0].id, dict(asked[0].relevant)) == ("\ufffd", {identity.digest("record 42"): 1})


def test_questions_keep_grades_ids_and_what_the_store_does_not_have(ask: Ask) -> None:
    path = ask({"id": 7, "text": "Which?", "relevant": {"a1": 2, "gone": 1}})
    (query,) = questions.load(path, STORED)
    assert (query.id, dict(query.relevant)) == ("7", {identity.digest("record a1"): 2, "gone": 1})
    assert collection.absent((query,), STORED) == [("7", "gone")]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "is empty"),
        ([{"question": "Which?"}], "line 1: relevant is NoneType; expected a list of document ids"),
        ([{"question": "Which?", "relevant": ["a1", None]}], "line 1: relevant is a list with None"),
        ([{"question": "Which?", "relevant": {"a1": 1, " a1": 2}}], "another grade for ' a1' than under another name"),
        ([{"id": [], "question": "Which?", "relevant": ["a1"]}], "line 1: id is []; expected a string"),
        ([{"question": "Which?", "relevant": []}], "no document in relevant has a grade of 1 or more"),
        ([{"question": "Which?", "relevant": {"a1": 0}}], "no document in relevant has a grade of 1 or more"),
        ([{"question": "Which?", "relevant": {"a1": "x"}}], "grade is 'x'"),
        ([{"question": "Which?", "relevant": {"a1": True}}], "grade is True"),
        ([{"question": " ", "relevant": ["a1"]}], "line 1: question is blank"),
        ([{"relevant": ["a1"]}], "line 1: no field 'text'"),
        ([{"id": 1, "text": "?", "relevant": ["a1"]}] * 2, "line 2: id '1' was on an earlier line"),
        ([{"question": "Which?", "relevant": ["gone"]}], "names no document of the store (first: 'gone')"),
    ],
)
def test_malformed_questions_are_named(ask: Ask, records: list[object], message: str) -> None:
    with pytest.raises(EvaluationError) as error:
        questions.load(ask(*records), STORED)
    assert message in str(error.value)
