"""An evaluation from labelled data to its folder of results, with the real models."""

from __future__ import annotations

import csv
import html
import json
import sys
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from ir_measures import AP

from conftest import ARTICLES
from runoff import calibration, cli, evaluation, identity
from runoff.candidates import MODES
from runoff.documents import Document
from runoff.engine import Engine
from runoff.errors import EvaluationError, QueryError, StoreMismatchError
from runoff.evaluation import (
    calibrating,
    collection,
    configurations,
    experiment,
    files,
    measures,
    passes,
    plot,
    summary,
)
from runoff.evaluation import html as pages
from runoff.evaluation.candidates import Candidate, EngineCandidates, Pass
from runoff.evaluation.configurations import Configuration
from runoff.evaluation.verdict import verdict
from runoff.ranking import DEFAULT_BLEND
from runoff.stages import ModelStages

QUESTIONS = [
    ("q1", "How long does money to a shop abroad take?", "a0"),
    ("q2", "How often are merchants at home paid?", "a1"),
    ("q3", "What wins against a chargeback?", "a2"),
    ("q4", "How do I check that a webhook is ours?", "a3"),
    ("q5", "What goes into a <b>sourdough</b> & when is the oven warm?", "a4"),
]
FOUND = Pass(
    chunks={
        1: Candidate("x", -2.0, 0.9),
        2: Candidate("y", 5.0, 0.1),
        3: Candidate("x", 4.0, 0.5),
        4: Candidate("z", 5.0, 0.2),
    },
    lists={"dense": ((1, 0.9), (3, 0.5), (2, 0.1)), "lexical": ((4, 7.0), (2, 3.0))},
    milliseconds={"embed": 3.0, "dense": 1.0, "lexical": 0.5},
    timed="dense",
    rerank_ms=50.0,
)


def silent(what: str, done: int, total: int) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A labelled collection of five articles."""
    made = tmp_path / "collection"
    made.mkdir()
    corpus = [{"id": f"a{n}", "title": title, "text": text} for n, (title, text) in enumerate(ARTICLES)]
    (made / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus), encoding="utf-8")
    queries = [json.dumps({"id": key, "text": text}) + "\n" for key, text, _ in QUESTIONS]
    (made / "queries.jsonl").write_text("".join(queries), encoding="utf-8")
    (made / "qrels.tsv").write_text("".join(f"{key}\t{name}\t1\n" for key, _, name in QUESTIONS), encoding="utf-8")
    return made


Evaluate = Callable[..., evaluation.Evaluation]


@pytest.fixture
def evaluate(folder: Path, tmp_path: Path, stages: ModelStages) -> Evaluate:
    """Evaluates the collection into ``tmp_path / "out"``."""

    def call(
        *,
        whole: bool = False,
        progress: Callable[[str, int, int], None] = silent,
        stages: ModelStages = stages,
        **settings: Any,
    ) -> Any:
        out = tmp_path / "out"
        evaluation.make_folder(out)
        data = evaluation.load(folder)
        labelled = evaluation.from_folder(
            data, out, lambda path, chunking: Engine(path, stages, chunking), whole=whole, progress=progress
        )
        return evaluation.run(labelled, out, evaluation.Settings(**settings), progress)

    return call


def test_results_agree_with_each_other_and_with_ir_measures(evaluate: Evaluate, tmp_path: Path) -> None:
    found = evaluate()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary == json.loads(json.dumps(found.summary))
    assert (summary["questions"], summary["documents"]) == (5, 5)
    rows = list(csv.DictReader((tmp_path / "out" / "questions.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 5 * len(found.outcomes)
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "out" / "runs" / "qrels.txt")))
    for outcome in found.outcomes:
        name = outcome.configuration.name
        scores = [float(row["AP"]) for row in rows if row["configuration"] == name]
        assert scores == pytest.approx(outcome.stage.scores["AP"])
        ranked = list(ir_measures.read_trec_run(str(tmp_path / "out" / "runs" / f"{outcome.configuration.slug}.txt")))
        assert ir_measures.calc_aggregate([AP], qrels, ranked)[AP] == pytest.approx(outcome.stage.means["AP"])
        low, high = outcome.intervals["AP"]
        assert low <= outcome.stage.means["AP"] <= high
        assert outcome.stage.milliseconds
    assert found.outcomes[0].stage.means["P@1"] >= 0.8


def test_runs_keep_ids_apart_and_places_however_deep(tmp_path: Path) -> None:
    ids = ["a b", "a_b", "a%20b", "a\u2003b", *map(str, range(3000))]
    query = evaluation.Query("q 1", "?", {"a b": 1, "a\u2003b": -1})
    ranked = summary.Outcome(Configuration("dense", "none"), {"q 1": ids}, summary.Stage("", {}, ()), 1)
    files.write_run(tmp_path / "run", ranked)
    files.write_qrels(tmp_path / "qrels", [query])
    read = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    assert len({each.doc_id for each in read}) == len({each.score for each in read}) == len(ids)
    judged = {each.doc_id: each.relevance for each in ir_measures.read_trec_qrels(str(tmp_path / "qrels"))}
    assert judged == {read[0].doc_id: 1, read[3].doc_id: -1}


def test_rankings_are_those_of_the_engine(evaluate: Evaluate, tmp_path: Path, stages: ModelStages) -> None:
    found = evaluate(candidates=6)
    engine = Engine(tmp_path / "out" / "store", stages)
    by_name = {outcome.configuration.name: outcome for outcome in found.outcomes}
    names = {document.id: key for key, document in collection.as_documents(evaluation.load(tmp_path / "collection"))}
    for key, text, _ in QUESTIONS:
        for mode, (name, rerank, blend) in product(
            MODES, (("", False, 0), (" + rerank", True, 0), (" + blend", True, DEFAULT_BLEND))
        ):
            hits = engine.search(text, 6, 6, rerank=rerank, mode=mode, blend=blend).hits
            assert by_name[f"{mode}{name}"].rankings[key] == list(dict.fromkeys(names[hit.document_id] for hit in hits))


def test_a_run_that_was_stopped_goes_on_and_gives_the_same(evaluate: Evaluate, tmp_path: Path) -> None:
    whole = evaluate().summary["configurations"]
    path = tmp_path / "out" / "passes.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:3]) + lines[3][:40], encoding="utf-8")
    asked: list[int] = []
    again = evaluate(progress=lambda what, done, total: asked.append(done) if what == "asking" else None)
    assert [each["means"] for each in again.summary["configurations"]] == [each["means"] for each in whole]
    assert path.read_text(encoding="utf-8").splitlines(keepends=True)[:3] == lines[:3]
    assert len(path.read_text(encoding="utf-8").splitlines()) == 6
    assert asked == [1, 2, 3, 4, 5]


def test_a_larger_limit_keeps_the_passes_of_a_smaller_one(evaluate: Evaluate, tmp_path: Path) -> None:
    evaluate(limit=2)
    few = (tmp_path / "out" / "passes.jsonl").read_text(encoding="utf-8")
    found = evaluate()
    assert (tmp_path / "out" / "passes.jsonl").read_text(encoding="utf-8").startswith(few)
    assert found.summary["questions"] == 5


def test_labels_and_questions_may_change_between_runs(evaluate: Evaluate, folder: Path, tmp_path: Path) -> None:
    evaluate()
    path = tmp_path / "out" / "passes.jsonl"
    before = path.read_text(encoding="utf-8")
    with (folder / "queries.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "q6", "text": "When is the oven warm?"}) + "\n")
        file.write(json.dumps({"id": "q7", "text": QUESTIONS[0][1]}) + "\n")
    (folder / "qrels.tsv").write_text("q1\ta1\t2\nq6\ta4\t1\nq7\ta0\t1\n", encoding="utf-8")
    found = evaluate()
    after = path.read_text(encoding="utf-8")
    assert after.startswith(before)
    assert after.count("\n") == before.count("\n") + 1
    assert [len(outcome.rankings) for outcome in found.outcomes] == [3] * 9
    assert found.outcomes[0].rankings["q1"] == found.outcomes[0].rankings["q7"]


def test_passes_over_another_store_are_refused(engine: Engine, articles: Path, tmp_path: Path) -> None:
    engine.ingest(articles)
    path = tmp_path / "questions.jsonl"
    path.write_text('{"question": "Which?", "relevant": ["a0"]}\n', encoding="utf-8")
    evaluation.run(evaluation.from_questions(path, engine), tmp_path, evaluation.Settings(), silent)
    other = Engine(tmp_path / "other", engine.stages)
    other.add([Document(identity.digest("record a0"), "Another", "Text.", source="here")])
    with pytest.raises(EvaluationError, match="made with contents of the store = "):
        evaluation.run(evaluation.from_questions(path, other), tmp_path, evaluation.Settings(), silent)


def test_a_folder_of_another_run_is_refused(evaluate: Evaluate, folder: Path, tmp_path: Path) -> None:
    kept = (folder / "corpus.jsonl").read_text(encoding="utf-8")
    evaluate(limit=1)
    with pytest.raises(EvaluationError, match="made with candidates = 20, asked to go on with 7"):
        evaluate(limit=1, candidates=7)
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "new", "text": "Another."}) + "\n")
    with pytest.raises(EvaluationError, match="made with corpus = "):
        evaluate(limit=1)
    (folder / "corpus.jsonl").write_text(kept, encoding="utf-8")
    assert evaluate(limit=1).summary["documents"] == 5  # what was refused left no trace
    (tmp_path / "out" / "passes.jsonl").unlink()
    (folder / "corpus.jsonl").write_text(json.dumps({"id": "new", "text": "Another."}) + "\n", encoding="utf-8")
    (folder / "qrels.tsv").write_text("q1\tnew\t1\n", encoding="utf-8")
    with pytest.raises(EvaluationError, match="holds 5 documents that are not in the corpus"):
        evaluate(limit=1)


def test_passes_of_other_models_or_conditions_are_refused(
    evaluate: Evaluate, stages: ModelStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert evaluate(limit=1).summary["machine"]["threads"] == stages.threads
    for named, attribute, value in (
        ("backend", "backend", property(lambda self: "another")),
        ("threads", "threads", property(lambda self: 99)),
        ("bi-encoder", "vector_identity", lambda self: "another"),
        ("cross-encoder", "logit_identity", lambda self: "another"),
    ):
        other = type("Other", (ModelStages,), {attribute: value})(*stages.artifacts, "auto", None)
        with pytest.raises(EvaluationError, match=f"made with {named} = .*, asked to go on with"):
            evaluate(limit=1, stages=other)
    monkeypatch.setattr(experiment, "__version__", "0")
    with pytest.raises(EvaluationError, match="made with version = "):
        evaluate(limit=1)


def test_a_store_of_whole_documents_is_not_taken_for_one_of_chunks(evaluate: Evaluate, tmp_path: Path) -> None:
    evaluate(whole=True, limit=1)
    (tmp_path / "out" / "passes.jsonl").unlink()
    with pytest.raises(StoreMismatchError):
        evaluate(limit=1)


@pytest.mark.parametrize("line", ["{}\n", '{"question": "q1", "chunks": []}\n', "[1]\n", "{\n"])
def test_damaged_passes_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "passes.jsonl"
    passes.PassFile(path, {"a": 1})
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
    with pytest.raises(EvaluationError, match="a line is damaged"):
        passes.PassFile(path, {"a": 1})


def test_passes_come_back_as_they_were(tmp_path: Path) -> None:
    passes.PassFile(tmp_path / "p", {"a": 1}).add("q é", FOUND)
    assert passes.PassFile(tmp_path / "p", {"a": 1}).found == {"q é": FOUND}
    (tmp_path / "p").write_text("{}\n", encoding="utf-8")
    with pytest.raises(EvaluationError, match="no candidate passes"):
        passes.PassFile(tmp_path / "p", {"a": 1})


def test_configurations_order_chunks_and_documents() -> None:
    dense = [Configuration("dense", second) for second in ("none", "logit", "blend")]
    assert [each.chunks(FOUND, 20) for each in dense] == [[1, 3, 2], [2, 3, 1], [1, 3, 2]]
    assert [each.documents(FOUND, 20) for each in dense] == [["x", "y"], ["y", "x"], ["x", "y"]]
    assert Configuration("lexical", "logit").chunks(FOUND, 20) == [2, 4]  # equal logits: by chunk id
    assert Configuration("dense", "blend").chunks(FOUND, 0) == [2, 3, 1]


def test_configurations_are_timed_on_the_passes_that_timed_them() -> None:
    assert Configuration("dense", "none").milliseconds(FOUND, ("embed", "dense")) == 4
    assert Configuration("dense", "blend").milliseconds(FOUND, ("embed", "dense")) == 54
    assert Configuration("lexical", "none").milliseconds(FOUND, ("lexical",)) == 0.5
    assert Configuration("lexical", "logit").milliseconds(FOUND, ("lexical",)) is None


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (
            (1.0,) * 6,
            "nDCG@10 0.500 to 1.000, better (+0.500, 95% interval +0.500 to +0.500, p 0.031; better on 6, worse on 0",
        ),
        (
            (0.0,) * 6,
            "nDCG@10 0.500 to 0.000, worse (-0.500, 95% interval -0.500 to -0.500, p 0.031; better on 0, worse on 6",
        ),
        ((1.0,) * 5 + (0.5,), "nDCG@10 0.500 to 0.917, not shown to be more than chance (+0.417, 95% interval "),
    ],
)
def test_the_verdict_says_what_is_shown_and_what_it_costs(scores: tuple[float, ...], sentence: str) -> None:
    def outcome(second: configurations.Second, scores: tuple[float, ...], times: tuple[float, ...]) -> summary.Outcome:
        stage = summary.Stage("", dict.fromkeys(measures.NAMES, scores), times)
        return summary.Outcome(Configuration("dense", second), {}, stage, 1)

    found = [
        outcome("none", (0.5,) * 6, (3.0, 4.0, 50.0)),
        outcome("logit", scores, (100.4,)),
        outcome("blend", scores, ()),
    ]
    said = verdict(found, summary.compare(found, 1))
    assert len(said) == 2
    assert said[0].startswith(f"dense + rerank against dense: {sentence}")
    assert said[0].endswith("median time 4 to 100 ms")
    assert said[1].endswith("its time was not measured: too few questions")


def test_comparisons_are_against_the_first_stage_and_against_dense() -> None:
    made = configurations.for_modes(["dense", "lexical"])
    assert [(one.name, other.name) for one, other in configurations.comparisons(made)] == [
        ("dense + rerank", "dense"),
        ("dense + blend", "dense"),
        ("dense + blend", "dense + rerank"),
        ("lexical", "dense"),
        ("lexical + rerank", "lexical"),
        ("lexical + blend", "lexical"),
        ("lexical + blend", "lexical + rerank"),
    ]


def test_a_pass_scores_each_chunk_as_the_engine_does(evaluate: Evaluate, tmp_path: Path, stages: ModelStages) -> None:
    evaluate(limit=1)
    engine = Engine(tmp_path / "out" / "store", stages)
    for timed, mode in product(MODES, MODES):
        found = EngineCandidates(engine, 4).candidates(QUESTIONS[0][1], timed)
        hits = engine.search(QUESTIONS[0][1], 4, 4, mode=mode).hits
        assert {chunk for chunk, _ in found.lists[mode]} == {hit.chunk_id for hit in hits}
        for hit in hits:
            assert found.chunks[hit.chunk_id].logit == hit.logit
            assert found.chunks[hit.chunk_id].cosine == pytest.approx(hit.first_stage.similarity)
        assert found.rerank_ms > 0
        assert (found.timed, set(found.milliseconds)) == (timed, {"embed", "dense", "lexical", "fuse"})


def test_a_label_on_a_text_that_came_twice_counts_wherever_it_is_shown(
    evaluate: Evaluate, folder: Path, tmp_path: Path
) -> None:
    title, text = ARTICLES[2]
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "again", "title": title, "text": text}) + "\n")
        file.write(json.dumps({"id": "alike", "title": title, "text": "Only the title is the same."}) + "\n")
    judged = "q1\tagain\t2\nq1\ta2\t-1\nq2\talike\t1\nq3\ta0\t1\n"
    (folder / "qrels.tsv").write_text(judged, encoding="utf-8")
    found = evaluate()
    assert found.summary["documents that repeat another"] == 1
    records = (tmp_path / "out" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(record)["relevant"] for record in records] == [{"a2": 2}, {"alike": 1}, {"a0": 1}]
    assert "again" not in found.outcomes[0].rankings["q1"]


def test_whole_documents_are_one_chunk_each(evaluate: Evaluate) -> None:
    assert evaluate(whole=True, limit=1).summary["chunks"] == 5


def test_the_draw_is_seeded_and_a_smaller_one_is_the_beginning_of_a_larger() -> None:
    queries = [evaluation.Query(str(n), "?", {"a": 1}) for n in range(50)]
    drawn = experiment.draw(queries, 10, 1)
    assert drawn == experiment.draw(queries, 20, 1)[:10] != experiment.draw(queries, 10, 2)
    assert len({query.id for query in drawn}) == 10
    assert experiment.draw(queries, None, 1) == experiment.draw(queries, 50, 1) == tuple(queries)


def test_contexts_are_the_best_chunks_under_the_names_that_ragas_reads(evaluate: Evaluate, tmp_path: Path) -> None:
    evaluate()
    lines = (tmp_path / "out" / "contexts.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["user_input"] for record in records] == [text for _, text, _ in QUESTIONS]
    for record, (_, _, name) in zip(records, QUESTIONS, strict=True):
        assert len(record["retrieved_contexts"]) == len(record["retrieved_context_ids"]) == 5
        assert record["reference_context_ids"] == [name]
        for context, document in zip(record["retrieved_contexts"], record["retrieved_context_ids"], strict=True):
            title, text = ARTICLES[int(document[1:])]
            assert context in (title, text)


class Outline(HTMLParser):
    """The tags that are open, all that were seen, and what they refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.targets: list[str] = []

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.targets += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_file_that_escapes_every_text(evaluate: Evaluate, tmp_path: Path) -> None:
    evaluate()
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(page)
    assert not outline.open
    assert not outline.seen & {"script", "link", "img", "iframe", "b"}
    assert all(target.startswith("#") for target in outline.targets)
    assert "<svg" in page
    assert "<?xml" not in page


def test_text_of_a_feed_cannot_become_markup() -> None:
    hostile = '<script>alert("x")</script>&'
    place = pages.Place(1, hostile, 1, hostile)
    change = pages.Change(hostile, hostile, 0.1, 0.9, (place,), (place,), {hostile: (None, 1)})
    scores = dict.fromkeys(measures.NAMES, (1.0, 0.5))
    outcome = summary.Outcome(Configuration(hostile, "none"), {}, summary.Stage("", scores, ()), 1)
    times = {hostile: summary.quantiles([])}
    page = pages.page(hostile, {hostile: hostile}, [outcome], [], times, {hostile: [change]}, "<svg></svg>")
    assert "<script" not in page
    assert html.escape(hostile) in page
    assert page.count("not found → 1") == 1
    assert "not timed" in page


def test_the_plot_has_a_mark_for_each_configuration_and_is_reproducible(evaluate: Evaluate) -> None:
    found = evaluate()
    svg = plot.render(plot.draw(found.outcomes, "5 $questions$"), "svg")
    assert svg == plot.render(plot.draw(found.outcomes, "5 $questions$"), "svg")
    odd, plain = (plot.render(plot.draw(found.outcomes, title), "svg") for title in ("日本 x\n", "?? x"))
    assert odd == plain
    assert svg.count(b'<g id="LineCollection') == 2 * len(found.outcomes)  # and one each in the legend
    assert plot.render(plot.draw(found.outcomes, "t"), "png").startswith(b"\x89PNG")


def main(monkeypatch: pytest.MonkeyPatch, *args: str | Path) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["runoff", *map(str, args)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code


def test_the_command_evaluates_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch, "eval", folder, "--out", tmp_path / "out", "--limit", "3") == 0
    shown, told = capsys.readouterr()
    assert "collection: 3 questions, 5 documents" in shown
    for name in ("hybrid + rerank", "hybrid + blend"):
        assert f"\n{name} against hybrid: nDCG@10 " in shown
    assert "median time" in shown
    assert max(map(len, shown[: shown.index("against")].splitlines()[:-1])) <= 80
    assert not told
    assert (tmp_path / "out" / "report.html").exists()


def test_labels_that_lead_nowhere_are_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "qrels.tsv").open("a", encoding="utf-8") as file:
        file.write("q2\tgone <b>\t1\nnobody\ta1\t1\n")
    assert main(monkeypatch, "eval", folder, "--out", tmp_path / "out", "--limit", "1") == 0
    shown, told = capsys.readouterr()
    assert told.splitlines() == [
        "warning: relevant documents that are not in the corpus, which no ranking can find: 1 "
        "(first: 'gone <b>' of question 'q2')",
        "warning: judged questions that are not in the queries: 1 (first: 'nobody')",
    ]
    assert html.escape("(first: 'gone <b>'") in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "its time was not measured" in shown


def test_the_command_evaluates_questions_over_a_store(
    tmp_path: Path, engine: Engine, articles: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.ingest(articles)
    asked = tmp_path / "questions.jsonl"
    records = [{"id": key, "question": text, "relevant": [name]} for key, text, name in QUESTIONS]
    asked.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    out = tmp_path / "out"
    assert main(monkeypatch, "eval", asked, "--store", engine.folder, "--out", out, "--json", "--limit", "2") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["questions"], found["relevant documents not in the store"]) == (
        "questions.jsonl",
        2,
        0,
    )
    assert not (out / "store").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none"], "none: no such file or folder"),
        (["collection", "--store", "s"], "a collection has its own store"),
        (["q.jsonl"], "questions need the store that they ask"),
        (["q.jsonl", "--store", "s", "--whole"], "--whole and --split are for a collection folder"),
        (["q.jsonl", "--store", "s"], "no Runoff store here"),
        (["collection", "--limit", "0"], "limit: got 0"),
        (["collection", "--candidates", "0"], "candidates: got 0"),
        (["collection", "--out", "q.jsonl"], "q.jsonl: cannot be made"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(
    args: list[str],
    message: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.jsonl").write_text("{}\n", encoding="utf-8")
    assert main(monkeypatch, "eval", *args) == 1
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("package", ["ir_measures", "matplotlib"])
def test_a_package_that_is_missing_is_told_before_any_work(
    package: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(monkeypatch, "eval", folder, "--out", tmp_path / "out") == 1
    assert "pip install 'runoff[eval]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_labels_become_probabilities(evaluate: Evaluate, tmp_path: Path, stages: ModelStages) -> None:
    evaluate(calibrate=True, blend=20.0)
    alone, blended = calibration.read(tmp_path / "out" / "calibration.json", stages.scorer.artifact)
    assert (alone.weight, blended.weight) == (0.0, 20.0)
    assert "hybrid" in blended.fitted["labels"]
    assert blended.fitted["queries"] == len(QUESTIONS)
    assert blended.relevance(4.0, 0.6) > 0.5 > blended.relevance(-9.0, 0.1)


def test_labels_of_one_kind_teach_nothing() -> None:
    asked = [evaluation.Query("q", "what?", {"none": 1})]
    with pytest.raises(EvaluationError, match="0 of 3 candidates are relevant"):
        calibrating.fit(asked, {"q": FOUND}, "dense", (0.0,), "m", "nothing")


def test_settings_are_checked() -> None:
    with pytest.raises(QueryError, match="limit: got -1"):
        evaluation.Settings(limit=-1)
    with pytest.raises(QueryError, match="seed: got -1; expected a whole number of at least 0"):
        evaluation.Settings(seed=-1)
