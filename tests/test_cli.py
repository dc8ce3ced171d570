"""The command line: what it prints for people and for programs, and how it fails."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import runoff
from conftest import ARTICLES, chosen_backend
from runoff import backends, cli, engine, models
from runoff.artifact import MANIFEST, Artifact, blank_head, seal
from runoff.cli import output, repeat, stderr
from runoff.cli.app import Backend, app
from runoff.documents import Document
from runoff.engine import Engine
from runoff.stages import ModelStages

QUESTION = "How do payouts to merchants abroad work?"
HIT_TYPES: dict[str, tuple[type, ...]] = {
    "rank": (int,),
    "chunk_id": (int,),
    "document_id": (str,),
    "kind": (str,),
    "title": (str,),
    "url": (str, type(None)),
    "source": (str,),
    "published": (str, type(None)),
    "text": (str,),
    "logit": (float,),
    "blended": (float,),
    "score": (float,),
    "first_stage": (dict,),
    "truncated": (bool,),
    "exit_layer": (int, type(None)),
    "windowed": (bool,),
    "probability": (float,),
}
STAGES = ["tokenize", "embed", "retrieve", "rerank", "total"]
ROW = re.compile(r"^(\d+) +(\d+) (=|[↑↓]\d+) +(-?\d\.\d{3})  (.*?) *$", re.MULTILINE)
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")  # all but the line end
HEAVY_FILES = ("weights.bin", "tokenizer.json", "model.onnx")


class Outcome(NamedTuple):
    """What one run of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON on stdout."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def is_one_line_failure(self, *fragments: str, code: int = 1) -> None:
        """Assert that the run failed with one line on stderr that holds all of these."""
        assert self.code == code, (self.out, self.err)
        assert "Traceback" not in self.err
        assert self.err.count("\n") == 1, self.err
        for fragment in fragments:
            assert fragment in self.err


Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, a terminal of 100 columns, and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("RUNOFF_STORE", "RUNOFF_THREADS", "FORCE_COLOR", "PYTHONIOENCODING", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stages: ModelStages) -> Run:
    """Runs ``main`` in this process, with the models of the session where the default ones are asked for."""

    def shared(bi: Artifact, cross: Artifact, backend: str, threads: int | None) -> ModelStages:
        default = (bi.digest, cross.digest, backend, threads) == (*(a.digest for a in stages.artifacts), "auto", None)
        return stages if default else ModelStages(bi, cross, backend, threads)

    def call(*args: str | Path) -> Outcome:
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr(sys, "argv", ["runoff", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        code = stop.value.code
        assert isinstance(code, int)
        return Outcome(code, *capsys.readouterr())

    monkeypatch.setattr(engine, "ModelStages", shared)
    return call


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, stages: ModelStages) -> Path:
    """A store of five articles that no test may change."""
    folder = tmp_path_factory.mktemp("cli") / "store"
    Engine(folder, stages).add(
        Document(f"{number:016x}", title, body, url=f"https://blog.example/{number}" if number else None)
        for number, (title, body) in enumerate(ARTICLES)
    )
    return folder


@pytest.fixture
def store(stored: Path, tmp_path: Path) -> Path:
    """A copy of that store."""
    return shutil.copytree(stored, tmp_path / "store")


@pytest.fixture
def models_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder that may be damaged: links to the real files."""
    folder = tmp_path / "models"
    shutil.copytree(models.root().resolve(), folder, copy_function=os.symlink)
    monkeypatch.setenv("RUNOFF_MODELS", str(folder))
    return folder


def process(*args: str | Path, **settings: Any) -> subprocess.CompletedProcess[Any]:
    """Runs the command line as a process of its own; ``env`` is added to this one's environment."""
    settings = {"capture_output": True, "text": True, "encoding": "utf-8", "timeout": 300, **settings}
    root = str(Path(runoff.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, **settings.pop("env", {})}
    return subprocess.run(command(*args), env=environment, check=False, **settings)


def command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "runoff", *map(str, args)]


def flip(path: Path, position: int = -1) -> None:
    """Change one byte of a file, which may be a link to one that must stay as it is."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.unlink()
    path.write_bytes(data)


def revise(folder: Path) -> None:
    """Make another sound model of a copy of one, by a change to its licence text."""
    licence = folder / "LICENSE"
    text = licence.read_bytes() + b"\n"
    licence.unlink()
    licence.write_bytes(text)
    said = json.loads((folder / MANIFEST).read_bytes())
    del said["digest"]
    said["files"]["LICENSE"] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).write_bytes(seal(blank_head() + json.dumps(said)[1:].encode()))


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    for name, found in typer.main.get_command(app).commands.items():
        yield name, found
        yield from ((f"{name} {below}", nested) for below, nested in getattr(found, "commands", {}).items())


# Help


def test_every_command_and_option_has_help() -> None:
    found = dict(commands())
    expected = {
        *("ingest", "refresh", "sources", "search", "prompt", "delete", "compact", "verify", "eval"),
        *("info", "demo", "serve", "models", "models fit-exits"),
    }
    assert set(found) == expected | {"models list", "models verify", "models export"}
    assert not [name for name, found_command in found.items() if not found_command.help]
    assert not [(name, p.name) for name, found_command in found.items() for p in found_command.params if not p.help]


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_help_goes_to_stdout_under_the_name_of_the_command(run: Run, name: str) -> None:
    outcome = run(*name.split(), "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"Usage: runoff {name}" in outcome.out


def test_no_arguments_show_the_commands(run: Run) -> None:
    outcome = run()
    assert outcome.code == 2
    for name, _ in commands():
        assert name.split()[0] in outcome.out + outcome.err


def test_backends_on_offer_are_those_that_there_are() -> None:
    assert [choice.value for choice in Backend] == [backends.AUTO, *backends.BACKENDS]


# Ingest


def test_ingest_of_a_jsonl_file(run: Run, articles: Path, tmp_path: Path) -> None:
    outcome = run("ingest", articles, "--store", "made")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"{articles}: 5 added, 0 updated, 0 unchanged, 10 of 10 chunks embedded" in outcome.out
    assert "1 of 1 sources: 5 documents added" in outcome.out
    again = run("ingest", articles, "--store", "made")
    assert "0 added, 0 updated, 5 unchanged, 0 of 0 chunks embedded" in again.out
    assert run("search", QUESTION, "--store", "made", "--json").json["hits"][0]["title"] == ARTICLES[0][0]


def test_ingest_of_a_folder_reads_what_is_in_it(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "below").mkdir(parents=True)
    (folder / "a.txt").write_text("Payouts leave at nine.", encoding="utf-8")
    (folder / "below" / "b.md").write_text("# Refunds\n\nRefunds take a week.", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    report = run("ingest", folder, "--store", "made", "--json").json
    assert [Path(source["source"]).name for source in report["sources"]] == ["a.txt", "b.md"]
    assert [source["added"] for source in report["sources"]] == [1, 1]


def test_a_missing_file_does_not_stop_the_good_one(run: Run, articles: Path) -> None:
    outcome = run("ingest", "missing.rss", articles, "--store", "made")
    outcome.is_one_line_failure("missing.rss", "no such file")
    assert "1 of 2 sources: 5 documents added" in outcome.out
    assert run("info", "--store", "made", "--json").json["store"]["documents"] == 5


def test_a_failed_source_leaves_stored_data_alone(run: Run, store: Path) -> None:
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    run("ingest", "missing.rss", "--store", store).is_one_line_failure("missing.rss")
    assert {path.name: path.read_bytes() for path in store.iterdir()} == before


def test_a_folder_without_anything_to_read_fails(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    run("ingest", "nothing", "--store", "made").is_one_line_failure("nothing", "without anything to read")
    assert not (tmp_path / "made").exists()


def test_an_overlap_as_large_as_the_chunk_fails(run: Run, articles: Path) -> None:
    outcome = run("ingest", articles, "--chunk-words", "50", "--chunk-overlap", "50")
    outcome.is_one_line_failure("overlap", "50")


def test_chunk_settings_reach_the_store(run: Run, articles: Path) -> None:
    assert run("ingest", articles, "--store", "made", "--chunk-words", "20", "--chunk-overlap", "4").code == 0
    found = run("info", "--store", "made", "--json").json["store"]
    assert (found["chunk_words"], found["chunk_overlap"]) == (20, 4)
    assert found["chunks"] > 10


def test_names_with_escape_characters_cannot_steer_the_terminal(run: Run) -> None:
    outcome = run("ingest", "no\x1b[31m\nsuch.txt", "--store", "made")
    outcome.is_one_line_failure("error: no", "[31m", "such.txt: no such file")
    assert not CONTROLS.search(outcome.out + outcome.err)
    name = Path("a\x1b[31m\nsuch.txt")
    name.write_text("The oven is warm.")
    for args in (("ingest", name), ("refresh",), ("sources",), ("info",)):
        outcome = run(*args, *("--store", "made"))
        assert r"a\x1b[31m\nsuch.txt" in outcome.out
        assert not CONTROLS.search(outcome.out + outcome.err)


# Search


def test_json_of_a_search_is_as_documented(run: Run, store: Path) -> None:
    found = run("search", QUESTION, "--top", "3", "--candidates", "8", "--store", store, "--json").json
    assert list(found)[:4] == ["query", "backend", "hits", "timings_ms"]
    assert set(found) - {"query", "backend", "hits", "timings_ms"} == {
        "query_truncated",
        "reranked",
        "mode",
        "blend",
        "effort",
        "generation",
        "scored",
        "complete",
        "answerable",
        "deadline_ms",
        "deadline_met",
        "planned_ms",
        "spent_ms",
        "cached",
    }
    assert (found["query"], found["backend"], found["reranked"]) == (QUESTION, chosen_backend(), True)
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3]
    for hit in found["hits"]:
        assert list(hit) == list(HIT_TYPES)
        assert all(type(hit[name]) in allowed for name, allowed in HIT_TYPES.items()), hit
        assert hit["kind"] in ("headline", "body")
        first = hit["first_stage"]
        assert list(first) == ["rank", "score", "similarity", "dense", "lexical"]
        assert hit["blended"] == pytest.approx(hit["logit"] + found["blend"] * first["similarity"])
        for place in (first["dense"], first["lexical"]):
            assert place is None or [type(place[name]) for name in ("rank", "score")] == [int, float]
    blended = [hit["blended"] for hit in found["hits"]]
    assert blended == sorted(blended, reverse=True)
    assert list(found["timings_ms"]) == STAGES
    assert all(type(value) is float and value >= 0 for value in found["timings_ms"].values())


def test_table_says_the_same_as_the_json(run: Run, store: Path) -> None:
    args = ("search", QUESTION, "--top", "6", "--blend", "0", "--mode", "dense", "--store", store)
    found, outcome = run(*args, "--json").json, run(*args)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.split("\n")[0].split() == ["#", "was", "score", "title", "and", "text"]
    rows = ROW.findall(outcome.out)
    assert len(rows) == len(found["hits"]) == 6
    moves = set()
    for (rank, was, moved, score, title), hit in zip(rows, found["hits"], strict=True):
        assert (int(rank), int(was)) == (hit["rank"], hit["first_stage"]["rank"])
        steps = int(was) - int(rank)
        assert moved == ("=" if not steps else f"{'↑' if steps > 0 else '↓'}{abs(steps)}")
        assert (score, title) == (f"{hit['score']:.3f}", hit["title"])
        moves.add(moved[0])
    assert moves >= {"↑", "↓"}, "the question was to show movement in both directions"
    body = next(hit for hit in found["hits"] if hit["kind"] == "body" and hit["url"])
    assert body["text"][:40] in outcome.out
    assert body["url"] in outcome.out
    number = r"\d+\.\d"
    times = (
        rf"{chosen_backend()}: {number} ms \(tokenize {number}, embed {number}, retrieve {number}, rerank {number}\)\n$"
    )
    assert re.search(times, outcome.out)


def test_no_rerank_keeps_the_first_stage(run: Run, store: Path) -> None:
    args = ("search", QUESTION, "--no-rerank", "--store", store)
    found = run(*args, "--json").json
    assert found["reranked"] is False
    for hit in found["hits"]:
        assert hit["logit"] is None
        assert (hit["rank"], hit["score"]) == (hit["first_stage"]["rank"], hit["first_stage"]["score"])
    assert {moved for _, _, moved, _, _ in ROW.findall(run(*args).out)} == {"="}


def test_top_beyond_the_store_gives_what_there_is(run: Run, store: Path) -> None:
    found = run("search", QUESTION, "--top", "99", "--candidates", "3", "--store", store, "--json").json
    assert len(found["hits"]) == 10


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_narrow_terminals_lose_no_address(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, columns: int, stages: ModelStages
) -> None:
    url = "https://blog.example/" + "a-long-way-down/" * 6
    Engine(store, stages).add([Document("f" * 16, "Where rivers end", "A delta is where a river ends.", url=url)])
    monkeypatch.setenv("COLUMNS", str(columns))
    outcome = run("search", "what is a delta", "--top", "1", "--store", store)
    table = outcome.out.split(f"\n{chosen_backend()}:")[0].split("\n")
    assert all(len(line) <= columns for line in table)
    assert url in "".join(line.strip() for line in table)


def test_markup_and_escapes_in_texts_are_printed_as_data(run: Run, store: Path, stages: ModelStages) -> None:
    title, body = "[bold]T[/bold] :smile: \x1b[31mred", "Tell [red]me[/red] of llamas \x1b]0;title\x07 \x9b1m[/]"
    Engine(store, stages).add([Document("e" * 16, title, body, url="https://x.example/[b]\x1b[2J")])
    outcome = run("search", "llamas", "--top", "2", "--store", store)
    assert r"[bold]T[/bold] :smile: \x1b[31mred" in outcome.out
    assert r"Tell [red]me[/red] of llamas \x1b]0;title\x07 \x9b1m[/]" in outcome.out
    assert r"https://x.example/[b]\x1b[2J" in outcome.out
    assert not CONTROLS.search(outcome.out)


def test_a_query_of_5000_tokens_is_cut_and_said_to_be(run: Run, store: Path) -> None:
    args = ("search", " ".join(["payout"] * 5000), "--top", "1", "--store", store)
    assert "the query was too long and was cut" in run(*args).out
    assert run(*args, "--json").json["query_truncated"] is True
    assert "was cut" not in run("search", QUESTION, "--store", store).out


def test_a_store_without_documents_is_said_to_be_empty(run: Run, store: Path) -> None:
    assert run("delete", *(f"{number:016x}" for number in range(5)), "--store", store).code == 0
    outcome = run("search", QUESTION, "--store", store)
    assert (outcome.code, outcome.out) == (0, "No chunk matches.\n")
    assert run("search", QUESTION, "--store", store, "--json").json["hits"] == []


# Prompt


def test_a_deadline_is_kept_or_said_to_be_missed(run: Run, store: Path) -> None:
    late = run("search", QUESTION, "--store", store, "--deadline-ms", "0.001", "--json").json
    assert (late["deadline_met"], late["scored"]) == (False, 0)
    assert {hit["logit"] for hit in late["hits"]} == {None}
    assert "deadline 60000 ms met" in run("search", QUESTION, "--store", store, "--deadline-ms", "60000").out
    run("search", QUESTION, "--store", store, "--deadline-ms", "-1").is_one_line_failure("deadline_ms", "-1")


def test_prompt_on_stdout_and_its_count_on_stderr(run: Run, store: Path, stages: ModelStages) -> None:
    args = ("prompt", QUESTION, "--max-tokens", "300", "--store", store)
    outcome, found = run(*args), run(*args, "--json").json
    assert outcome.code == 0
    assert outcome.out == found["prompt"]
    assert found["tokens"] == stages.counter.count(found["prompt"]) <= found["max_tokens"] == 300
    assert outcome.err.startswith(f"{found['tokens']} of 300 tokens, {len(found['hits'])} passages")
    assert f"{found['omitted']} left out" in outcome.err
    assert found["omitted"] > 0
    assert QUESTION in found["prompt"]
    assert found["hits"][0]["title"] in found["prompt"]
    assert found["query"] == QUESTION
    assert list(found["timings_ms"]) == STAGES
    assert list(found["hits"][0]) == list(HIT_TYPES)


def test_prompt_without_the_runoff(run: Run, store: Path) -> None:
    found = run("prompt", QUESTION, "--no-rerank", "--candidates", "2", "--store", store, "--json").json
    assert [hit["first_stage"]["rank"] for hit in found["hits"]] == [1, 2]


# Bad input


@pytest.mark.parametrize(
    ("args", "fragment"),
    [
        (("search", ""), "query"),
        (("search", " \t\n"), "query"),
        (("search", "x", "--top", "0"), "top"),
        (("search", "x", "--top", "-1"), "top"),
        (("search", "x", "--candidates", "0"), "candidates"),
        (("search", "x", "--threads", "0"), "threads"),
        (("search", "x", "--cross-encoder", "no-such-model"), "no-such-model"),
        (("search", "x", "--bi-encoder", "ms-marco-MiniLM-L-12-v2"), "bi_encoder"),
        (("search", "x", "--cross-encoder", "all-MiniLM-L6-v2"), "cross-encoder"),
        (("prompt", ""), "query"),
        (("prompt", "x", "--max-tokens", "5"), "max_tokens=5"),
        (("prompt", "x", "--max-tokens", "-5"), "max_tokens=-5"),
        (("prompt", "x", "--candidates", "0"), "got 0; expected a whole number of at least 1"),
        (("prompt", " ".join(["payout"] * 5000), "--max-tokens", "4000"), "max_tokens=4000"),
    ],
)
def test_settings_out_of_range_end_with_one_line(run: Run, store: Path, args: tuple[str, ...], fragment: str) -> None:
    outcome = run(*args, "--store", store)
    outcome.is_one_line_failure("runoff: ", fragment)
    assert outcome.out == ""


@pytest.mark.parametrize("name", ["openvino", "tensorrt"])
def test_a_backend_that_is_not_there_is_refused_and_the_others_named(run: Run, store: Path, name: str) -> None:
    outcome = run("search", "x", "--backend", name, "--store", store)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert all(word in outcome.err for word in ("--backend", name, "auto", "onnxruntime"))


@pytest.mark.parametrize(
    "args", [("search",), ("frobnicate",), ("search", "x", "--top", "many"), ("search", "x", "-q")]
)
def test_wrong_usage_ends_with_code_2(run: Run, args: tuple[str, ...]) -> None:
    outcome = run(*args)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: runoff" in outcome.err


@pytest.mark.parametrize("args", [("search", "x"), ("prompt", "x"), ("delete", "x")])
def test_a_store_that_is_missing(run: Run, args: tuple[str, ...], tmp_path: Path) -> None:
    run(*args, "--store", "nowhere").is_one_line_failure("nowhere", "no Runoff store", "runoff ingest")
    run(*args).is_one_line_failure(".runoff", "no Runoff store")
    (tmp_path / "empty").mkdir()
    run(*args, "--store", "empty").is_one_line_failure("empty", "no Runoff store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


@pytest.mark.parametrize("args", [("search", "x"), ("prompt", "x"), ("delete", "x"), ("ingest", "articles.jsonl")])
def test_a_file_in_place_of_the_store(run: Run, articles: Path, tmp_path: Path, args: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("not a store", encoding="utf-8")
    run(*args, "--store", "file").is_one_line_failure("file", "expected a store folder")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "not a store"


def test_a_folder_of_other_things_does_not_become_a_store(run: Run, articles: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x", encoding="utf-8")
    run("ingest", articles, "--store", "thesis").is_one_line_failure("thesis", "no Runoff store")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_a_damaged_byte_in_any_file_of_the_store(run: Run, store: Path) -> None:
    names = sorted(path.name for path in store.iterdir() if path.name != "lock" and path.stat().st_size)
    assert len(names) >= 5
    for name in names:
        sound = (store / name).read_bytes()
        flip(store / name, len(sound) // 2)
        run("search", "x", "--store", store).is_one_line_failure(name)
        (store / name).write_bytes(sound)
    assert run("search", "x", "--store", store).code == 0


def test_a_store_made_with_another_model(run: Run, store: Path, models_copy: Path) -> None:
    revise(shutil.copytree(models_copy / models.DEFAULT_BI_ENCODER, models_copy / "another", symlinks=True))
    assert run("models", "verify", "another").code == 0
    run("search", "x", "--bi-encoder", "another", "--store", store).is_one_line_failure("bi_encoder", "made with")
    run("delete", "0" * 16, "--bi-encoder", "another", "--store", store).is_one_line_failure("bi_encoder", "made with")


# Store option


def test_the_environment_names_the_store_and_the_option_wins(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNOFF_STORE", str(store))
    assert run("search", QUESTION, "--json").json["hits"]
    assert run("info", "--json").json["store"]["path"] == str(store)
    run("search", QUESTION, "--store", "nowhere").is_one_line_failure("nowhere")


def test_the_default_store_is_in_the_working_folder(run: Run, articles: Path, tmp_path: Path) -> None:
    assert run("ingest", articles).code == 0
    assert (tmp_path / ".runoff" / "manifest.json").is_file()
    assert run("search", QUESTION, "--json").json["hits"]


# Delete


def test_delete_removes_a_document_for_good(run: Run, store: Path) -> None:
    best = run("search", QUESTION, "--store", store, "--json").json["hits"][0]["document_id"]
    outcome = run("delete", best, best, "--store", store)
    assert (outcome.code, outcome.out) == (0, "removed 1 of 1 documents\n")
    left = run("search", QUESTION, "--top", "20", "--store", store, "--json").json["hits"]
    assert left
    assert best not in {hit["document_id"] for hit in left}


def test_delete_of_an_unknown_id_fails_and_the_others_go(run: Run, store: Path) -> None:
    outcome = run("delete", "f" * 16, "0" * 16, "--store", store)
    assert (outcome.code, outcome.out) == (1, "removed 1 of 2 documents\n")
    assert run("info", "--store", store, "--json").json["store"]["documents"] == 4


# Info


def test_info_tells_machine_models_and_store(run: Run, store: Path) -> None:
    found = run("info", "--store", store, "--json").json
    assert found["version"] == runoff.__version__
    assert found["threads"] >= 1
    assert isinstance(found["cpu"]["model"], str)
    assert all(isinstance(feature, str) for feature in found["cpu"]["features"])
    assert [model["name"] for model in found["models"]] == [models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER]
    for model in found["models"]:
        assert re.fullmatch("[0-9a-f]{64}", model["sha256"])
        assert (model["backend"], "self-test" in model["reason"]) == (chosen_backend(), True)
    assert (found["store"]["documents"], found["store"]["chunks"]) == (5, 10)


def test_info_for_people_names_the_same_without_a_store(run: Run) -> None:
    outcome = run("info")
    assert (outcome.code, outcome.err) == (0, "")
    for line in ("version:", "cpu:", "  features:", "threads:", "  - name: all-MiniLM-L6-v2", "    sha256:", "store:"):
        assert re.search(rf"^{line}", outcome.out, re.MULTILINE), line
    assert "no Runoff store here" in outcome.out


@pytest.mark.parametrize("args", [("--threads", "0"), ()])
def test_info_refuses_a_thread_count_of_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    if not args:
        monkeypatch.setenv("RUNOFF_THREADS", "few")
    run("info", *args).is_one_line_failure("a whole number of at least 1")


# Models


def test_models_list_for_people_and_programs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = run("models", "list", "--json").json
    assert [row["name"] for row in rows] == [models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER]
    for row in rows:
        assert re.fullmatch("[0-9a-f]{64}", row["sha256"])
        assert (Path(row["path"]) / MANIFEST).is_file()
    monkeypatch.setenv("COLUMNS", "80")
    table = run("models", "list").out.rstrip("\n").split("\n")
    assert table[0].split() == ["name", "kind", "weights", "tokens", "licence", "sha256"]
    for line, row in zip(table[1:], rows, strict=True):
        expected = [row["name"], row["kind"], row["precision"], str(row["max_length"]), row["licence"]]
        assert line.split() == [*expected, row["sha256"][:8]]


def test_models_list_on_a_narrow_terminal_cuts_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = run("models", "list", "--json").json
    monkeypatch.setenv("COLUMNS", "60")
    outcome = run("models", "list")
    assert "…" not in outcome.out
    assert all(f"{name}: {value}\n" in outcome.out for row in rows for name, value in row.items())


def test_models_verify_passes_the_installed_models(run: Run) -> None:
    outcome = run("models", "verify")
    assert (outcome.code, outcome.err) == (0, "")
    assert re.findall("^(.+?): ok, [3-9] files", outcome.out, re.MULTILINE) == models.names()
    assert len(re.findall(r"golden error 0\.\d{4} of at most", outcome.out)) == 2


@pytest.mark.parametrize("name", [*HEAVY_FILES, MANIFEST])
def test_models_verify_names_a_flipped_byte(run: Run, models_copy: Path, name: str) -> None:
    path = models_copy / models.DEFAULT_CROSS_ENCODER / name
    flip(path, path.stat().st_size // 2)
    run("models", "verify", models.DEFAULT_CROSS_ENCODER).is_one_line_failure("FAILED", str(path))
    run("search", "x").is_one_line_failure("runoff: ", str(path))


@pytest.mark.parametrize("name", [*HEAVY_FILES, MANIFEST])
def test_models_verify_names_a_truncated_file(run: Run, models_copy: Path, name: str) -> None:
    path = models_copy / models.DEFAULT_BI_ENCODER / name
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[: len(data) // 2])
    run("models", "verify", models.DEFAULT_BI_ENCODER).is_one_line_failure("FAILED", str(path))


def test_models_verify_goes_on_after_a_damaged_model(run: Run, models_copy: Path) -> None:
    damaged = models_copy / models.VOCABULARY / f"{models.VOCABULARY}.tiktoken"
    flip(damaged)
    (models_copy / models.DEFAULT_CROSS_ENCODER / "weights.bin").unlink()
    outcome = run("models", "verify")
    assert outcome.code == 1
    assert str(damaged) in outcome.err
    assert "weights.bin" in outcome.err
    assert outcome.err.count("\n") == 2
    assert outcome.out.startswith(f"{models.DEFAULT_BI_ENCODER}: ok")


def test_models_verify_of_an_unknown_name(run: Run) -> None:
    run("models", "verify", "no-such").is_one_line_failure("no-such", models.DEFAULT_BI_ENCODER)


@pytest.mark.parametrize("args", [("models", "list"), ("models", "verify"), ("models", "list", "--json")])
def test_a_models_folder_that_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]) -> None:
    monkeypatch.setenv("RUNOFF_MODELS", "nowhere")
    outcome = run(*args)
    outcome.is_one_line_failure("nowhere", "no models")
    assert outcome.out == ""
    run("search", "x").is_one_line_failure("nowhere")
    assert run("info", "--json").json["models"] == []


def test_models_export_needs_a_source(run: Run) -> None:
    run("models", "export", "--name", "x", "--kind", "bi-encoder").is_one_line_failure("runoff: ")


# Messages


def test_visible_escapes_what_a_terminal_would_obey_and_no_more() -> None:
    assert stderr.visible("a\x1b\n\t\x9b\u202e\udcffz") == r"a\x1b\n\t\x9b\u202e\udcffz"
    kept = "é 東京 \u00a0 \U0001f469\u200d\U0001f680 [b]"
    assert stderr.visible(kept) == kept


def test_warnings_of_the_package_are_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> list[Artifact]:
        warnings.warn("the first\nbackend failed", RuntimeWarning, stacklevel=2)
        return [models.find(models.DEFAULT_BI_ENCODER)]

    monkeypatch.setattr(models, "installed", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = run("models", "list")
    assert (outcome.code, outcome.err) == (0, "runoff: warning: the first\\nbackend failed\n")


# Repetition


def test_what_a_run_says_is_written_before_the_wait_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    log, runs = io.BytesIO(), iter([False, True])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(log))

    def job() -> bool:
        if last := next(runs):
            assert log.getvalue() == b"False\n"
            signal.raise_signal(signal.SIGTERM)
        print(last)
        return last

    assert repeat.run(job, 0.001)


# Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_shows_sources_as_data_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    with output.progress() as advance:
        assert advance is not None
        advance("[bold]feed\x1b[2J.rss", 1, 2)
    assert "[bold]feed\\x1b[2J.rss" in re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())


def test_progress_is_silent_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with output.progress() as advance:
        assert advance is None
    assert list(output.track([1, 2], "asking")) == [1, 2]
    assert sys.stderr.getvalue() == ""


def test_track_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(output.track([1, 2], "asking")) == [1, 2]
    assert "asking" in sys.stderr.getvalue()


# As a process of its own


def test_the_main_job_in_processes_of_their_own(articles: Path, tmp_path: Path) -> None:
    ingested = process("ingest", articles)
    assert (ingested.returncode, ingested.stderr) == (0, ""), "no bar where stderr is no terminal"
    assert "5 documents added" in ingested.stdout
    found = process("search", QUESTION, "--json", env={"PYTHONIOENCODING": "ascii"})
    assert found.returncode == 0
    assert json.loads(found.stdout)["hits"][0]["title"] == ARTICLES[0][0]
    missing = process("search", QUESTION, "--store", "nowhere")
    Outcome(missing.returncode, missing.stdout, missing.stderr).is_one_line_failure("runoff: nowhere")


def test_a_terminal_that_is_not_utf8(store: Path, stages: ModelStages) -> None:
    title = "Überweisung nach 東京"
    Engine(store, stages).add([Document("d" * 16, title, "Zengin transfers reach 東京 the same day. " * 9)])
    settings = {"env": {"PYTHONIOENCODING": "ascii"}, "encoding": "ascii"}
    args = ("search", "Zengin transfers", "--store", store)
    table = process(*args, **settings)
    assert (table.returncode, table.stderr) == (0, "")
    assert "?berweisung nach ??" in table.stdout
    assert "..." in table.stdout
    moves = re.findall(r"^\d+ +\d+ (\S+)", table.stdout, re.MULTILINE)
    assert len(moves) == 5
    assert all(re.fullmatch(r"=|[+-]\d+", move) for move in moves)
    found = process(*args, "--json", **settings)
    assert title in {hit["title"] for hit in json.loads(found.stdout)["hits"]}, "JSON loses nothing"


def test_a_reader_that_went_away(store: Path) -> None:
    for args in (("search", QUESTION, "--store", store), ("models", "list", "--json"), ("--help",)):
        read, write = os.pipe()
        os.close(read)
        outcome = process(*args, capture_output=False, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert (outcome.returncode, outcome.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 (a device, not a file)
        outcome = process("models", "list", "--json", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    Outcome(outcome.returncode, "", outcome.stderr).is_one_line_failure("runoff: ", "No space left")


def test_a_closed_stdout() -> None:
    line = " ".join([*command("models", "list"), ">&-"])
    root = str(Path(runoff.__file__).parents[1])
    shell = subprocess.run(
        ["sh", "-c", line], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in shell.stderr


def test_a_bar_on_a_real_terminal(articles: Path) -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    child = subprocess.Popen(
        command("ingest", articles),
        env={**os.environ, "PYTHONPATH": str(Path(runoff.__file__).parents[1]), "TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error on Linux
        while block := os.read(master, 4096):
            shown += block
    os.close(master)
    assert child.wait(60) == 0
    assert b"reading" in shown
