"""The engine on real models: what is stored, what is found, what is refused."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runoff.chunking import ChunkSettings
from runoff.documents import Document
from runoff.engine import Engine
from runoff.errors import (
    BudgetError,
    DocumentError,
    FilterError,
    ModelError,
    QueryError,
    StoreError,
    StoreMismatchError,
    StoreMissingError,
)
from runoff.fusion import ReciprocalRank, Seats
from runoff.reranker import CrossEncoder
from runoff.results import SearchResult
from runoff.stages import ModelStages

QUESTION = "Why does a payout to a merchant abroad take two days?"


def titles(result: SearchResult) -> list[str]:
    return [hit.title for hit in result.hits]


def order(result: SearchResult) -> list[tuple[int, float]]:
    return [(hit.chunk_id, hit.score) for hit in result.hits]


def test_ingest_then_search_finds_the_answer_first(engine: Engine, articles: Path) -> None:
    report = engine.ingest(articles)
    assert not report.failed
    assert (report.total("added"), report.total("chunks"), report.total("embedded")) == (5, 10, 10)
    result = engine.search(QUESTION)
    assert result.hits[0].title == "Why cross-border payouts take two days"
    assert result.hits[0].kind == "body"
    assert result.hits[0].url == "https://blog.example/0"
    assert [hit.rank for hit in result.hits] == [1, 2, 3, 4, 5]
    assert all(hit.logit is not None for hit in result.hits)
    blended = [hit.blended or 0.0 for hit in result.hits]
    assert blended == sorted(blended, reverse=True)
    assert all(0 <= hit.score <= 1 and math.isfinite(hit.score) for hit in result.hits)
    first_ranks = {hit.first_stage.rank for hit in engine.search(QUESTION, 10).hits}
    assert first_ranks == set(range(1, 11))


def test_without_runoff_the_order_is_the_first_stages(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    result = engine.search(QUESTION, 10, rerank=False)
    assert [hit.first_stage.rank for hit in result.hits] == list(range(1, 11))
    assert all(hit.logit is None and hit.score == hit.first_stage.score for hit in result.hits)
    assert not result.reranked
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)


def test_the_same_answer_from_a_reopened_store_and_any_number_of_threads(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    wanted = order(engine.search(QUESTION, 10))
    for threads in (1, 2):
        with Engine.open(engine.folder, threads=threads) as again:
            assert order(again.search(QUESTION, 10)) == wanted


def test_a_second_ingest_of_the_same_text_embeds_nothing(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    generation = engine.search(QUESTION).generation
    again = engine.ingest(articles)
    assert (again.total("unchanged"), again.total("embedded"), again.total("added")) == (5, 0, 0)
    assert engine.search(QUESTION).generation == generation


def test_an_edited_document_replaces_its_old_chunks(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    lines = articles.read_text().splitlines()
    edited = json.loads(lines[0])
    edited["text"] = "Penguins huddle in winter, each taking its turn in the cold."
    articles.write_text("\n".join([json.dumps(edited), *lines[1:]]))
    report = engine.ingest(articles)
    assert (report.total("updated"), report.total("unchanged")) == (1, 4)
    assert report.total("embedded") == 1  # the headline kept its text
    assert "penguins" in engine.search("birds in the cold").hits[0].text.lower()
    everything = engine.search(QUESTION, 50)
    assert len(everything.hits) == 10
    assert not any("partner bank in the merchant's country" in hit.text for hit in everything.hits)


def test_new_metadata_alone_is_stored_without_embedding(engine: Engine) -> None:
    document = Document("0123456789abcdef", "Notes on rail fares", "Fares rise in June.", url="https://a.example/1")
    engine.add([document])
    report = engine.add([replace(document, url="https://a.example/2")])
    assert (report.updated, report.embedded) == (1, 0)
    assert {hit.url for hit in engine.search("fares").hits} == {"https://a.example/2"}


def test_deleted_documents_are_found_nowhere(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    victim = engine.search(QUESTION).hits[0].document_id
    assert engine.delete(victim, "feedfeedfeedfeed") == 1
    assert victim not in {hit.document_id for hit in engine.search(QUESTION, 50).hits}
    with Engine.open(engine.folder) as again:
        assert victim not in {hit.document_id for hit in again.search(QUESTION, 50).hits}
        built, _ = again.prompt(QUESTION)
    assert "partner bank in the merchant" not in built.text


def test_prompt_holds_the_best_chunks_within_the_budget(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    built, result = engine.prompt(QUESTION, max_tokens=300)
    assert built.tokens <= 300
    assert engine.stages.counter.count(built.text) == built.tokens
    assert result.hits[built.used[0]].text in built.text
    with pytest.raises(BudgetError, match="5"):
        engine.prompt(QUESTION, max_tokens=5)


def test_one_failed_source_does_not_stop_the_others(engine: Engine, articles: Path, tmp_path: Path) -> None:
    report = engine.ingest(tmp_path / "absent.rss", articles)
    assert [failed.source for failed in report.failed] == [str(tmp_path / "absent.rss")]
    assert report.total("added") == 5


@pytest.mark.parametrize("query", ["", "  \n\t", None, 7])
def test_a_blank_query_is_refused(engine: Engine, query: str) -> None:
    with pytest.raises(QueryError, match="query"):
        engine.search(query)


@pytest.mark.parametrize(("name", "value"), [("top_n", 0), ("candidates", 0), ("top_n", -1), ("candidates", 2.5)])
def test_a_setting_out_of_range_is_refused(engine: Engine, name: str, value: int) -> None:
    with pytest.raises(QueryError, match=f"{name}.*{value}"):
        engine.search("a question", **{name: value})


def test_hostile_queries_are_answered(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    for query in ("payout \x00 abroad", "\ud800 payout", "🏦" * 50, "<|endoftext|>", "[SEP] [CLS]"):
        assert len(engine.search(query).hits) == 5
    assert not engine.search("payout abroad").query_truncated
    assert engine.search("payout abroad " * 2500).query_truncated


def test_a_store_that_was_never_made_is_named(engine: Engine) -> None:
    with pytest.raises(StoreMissingError, match="runoff ingest"):
        engine.search("anything")
    with pytest.raises(StoreMissingError):
        engine.delete("0123456789abcdef")
    assert not engine.folder.exists()


def test_a_store_of_other_settings_is_refused(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    with pytest.raises(StoreMismatchError, match=r"chunk_words = 200.*50"):
        Engine.open(engine.folder, chunking=ChunkSettings(size=50))
    with pytest.raises(ModelError, match="no-such-model"):
        Engine.open(engine.folder, bi_encoder="no-such-model")


def test_a_store_of_another_model_is_refused(tmp_path: Path, stages: ModelStages, articles: Path) -> None:
    class OtherModel:
        """The same stages under another model's name."""

        encoder, tokenizer, scorer, counter = stages.encoder, stages.tokenizer, stages.scorer, stages.counter
        backend = stages.backend
        identity = {**stages.identity, "bi_encoder": "other", "bi_encoder_digest": "0" * 64}  # noqa: RUF012

    Engine(tmp_path / "store", OtherModel()).ingest(articles)
    with pytest.raises(StoreMismatchError, match=r"'other'.*all-MiniLM-L6-v2"):
        Engine.open(tmp_path / "store")


def test_a_file_in_place_of_the_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("not a store")
    with pytest.raises(StoreError, match="is a file"):
        Engine.open(path)


def test_a_folder_of_other_things_does_not_become_a_store(tmp_path: Path, articles: Path) -> None:
    engine = Engine.open(articles.parent)
    with pytest.raises(StoreError, match=r"holds 'articles\.jsonl'"):
        engine.ingest(articles)
    with pytest.raises(StoreMissingError):
        engine.search(QUESTION)
    assert [path.name for path in tmp_path.iterdir()] == ["articles.jsonl"]


def test_a_prompt_names_the_setting_that_is_out_of_range(engine: Engine) -> None:
    with pytest.raises(QueryError, match="candidates: got 0"):
        engine.prompt(QUESTION, candidates=0)


def test_only_documents_can_be_added(engine: Engine) -> None:
    with pytest.raises(DocumentError, match="item 0: got dict"):
        engine.add([{"title": "x"}])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id": "short"}, "id: got 'short'; expected 16 hexadecimal digits"),
        ({"id": "a" * 17}, "expected 16 hexadecimal"),
        ({"id": "é" * 16}, "expected 16 hexadecimal"),
        ({"id": None}, "id: got None"),
        ({"title": None}, "title: got NoneType; expected a text"),
        ({"body": b"x"}, "body: got bytes"),
        ({"url": 5}, "url: got int"),
        ({"tags": "fx"}, "tags: expected a tuple of texts"),
        ({"tags": ("fx", 5)}, "tags: expected"),
        ({"published": 5}, "published: got int"),
        ({"published": "2026-03-02"}, "published: got '2026-03-02'; expected UTC"),
        ({"published": "2026-03-02T10:00:00+01:00"}, "expected UTC"),
        ({"published": "2026-02-30T10:00:00Z"}, "expected UTC"),
        ({"author": "\ud83d"}, "half of a surrogate pair"),
        ({"fields": {"x": "\ud83d"}}, "half of a surrogate pair"),
    ],
)
def test_a_document_that_could_not_be_found_again_is_refused(engine: Engine, wrong: dict[str, Any], said: str) -> None:
    sound = Document("a" * 16, "Fares", "Fares rise in June.", published="2026-03-02T10:00:00Z", tags=("fx",))
    with pytest.raises(DocumentError, match="item 1: .*" + re.escape(said)):
        engine.add([sound, replace(sound, **wrong)])
    assert not engine.folder.exists()


def test_any_encoder_of_the_protocol_fits(tmp_path: Path, stages: ModelStages, articles: Path) -> None:
    class Reversed:
        """A bi-encoder whose vectors point the other way: the worst chunk comes first."""

        def encode(self, texts: Sequence[str], *, progress: object = None) -> np.ndarray:
            vectors = stages.encoder.encode(texts)
            return vectors if len(texts) > 1 else -vectors

    class Swapped:
        encoder = Reversed()
        tokenizer, scorer, counter = stages.tokenizer, stages.scorer, stages.counter
        backend, identity = stages.backend, stages.identity

    plain, swapped = Engine(tmp_path / "a", stages), Engine(tmp_path / "b", Swapped())
    plain.ingest(articles)
    swapped.ingest(articles)
    best = plain.search(QUESTION, 10, rerank=False, mode="dense").hits[0]
    assert swapped.search(QUESTION, 10, rerank=False, mode="dense").hits[-1].text == best.text
    assert titles(swapped.search(QUESTION, 10, blend=0)) == titles(plain.search(QUESTION, 10, blend=0))


def test_a_result_names_both_backends_where_the_runoff_fell_back(
    tmp_path: Path, stages: ModelStages, articles: Path
) -> None:
    class Mixed(ModelStages):
        scorer = CrossEncoder.load(stages.scorer.artifact, backend="onnxruntime")

    engine = Engine(tmp_path / "store", Mixed(*stages.artifacts, "auto", None))
    engine.ingest(articles)
    names = list(dict.fromkeys([stages.backend, "onnxruntime"]))
    assert engine.search("bread").backend == ", ".join(names)
    assert engine.search("bread", rerank=False).backend == stages.backend


@pytest.mark.parametrize("where", [5, b"kind = 'body'", ["kind"], Document])
def test_a_filter_that_is_neither_text_nor_condition_is_refused(engine: Engine, where: Any) -> None:
    with pytest.raises(FilterError, match=f"where: got {type(where).__name__}; expected a text, or a condition"):
        engine.search("payouts", where=where)


def test_a_search_may_choose_its_fusion(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    lists = {"dense": Seats(0.0), "lexical": Seats(1.0)}
    for mode, fusion in lists.items():
        alone = engine.search(QUESTION, 3, 3, rerank=False, mode=mode)  # type: ignore[arg-type]
        assert titles(engine.search(QUESTION, 3, 3, rerank=False, fusion=fusion)) == titles(alone)
    for hit in engine.search(QUESTION, 10, rerank=False, fusion=ReciprocalRank(0.5)).hits:
        places = ((hit.first_stage.dense, 1.0), (hit.first_stage.lexical, 0.5))
        expected = sum(weight / (60 + place.rank) for place, weight in places if place)
        assert hit.first_stage.score == pytest.approx(expected)
    with pytest.raises(QueryError, match="fusion: got 'rrf'; expected ReciprocalRank, Convex or Seats"):
        engine.search(QUESTION, fusion="rrf")  # type: ignore[arg-type]


def test_each_mode_says_which_list_found_a_hit_and_where(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    dense = engine.search(QUESTION, 10, rerank=False, mode="dense").hits
    assert [hit.first_stage.dense and hit.first_stage.dense.rank for hit in dense] == list(range(1, 11))
    assert all(hit.first_stage.lexical is None and hit.score == hit.first_stage.similarity for hit in dense)
    lexical = engine.search("sourdough flour", 10, rerank=False, mode="lexical").hits
    assert lexical[0].title == "Baking bread in the office"
    assert [hit.first_stage.lexical and hit.first_stage.lexical.rank for hit in lexical] == [1]
    assert lexical[0].score > 0
    assert lexical[0].first_stage.dense is None
    assert lexical[0].first_stage.similarity == dense_similarity(engine, "sourdough flour", lexical[0].chunk_id)
    hybrid = engine.search("sourdough flour", 10, rerank=False).hits
    both = [hit for hit in hybrid if hit.first_stage.dense and hit.first_stage.lexical]
    assert [hit.chunk_id for hit in both] == [lexical[0].chunk_id]
    assert engine.search("xyzzy", 3, mode="lexical").hits == ()


def dense_similarity(engine: Engine, query: str, chunk_id: int) -> float:
    hits = engine.search(query, 10, rerank=False, mode="dense").hits
    return next(hit.first_stage.similarity for hit in hits if hit.chunk_id == chunk_id)


def test_the_order_blends_both_rounds_and_zero_is_the_logit_alone(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    for weight in (0.0, 3.5, 1000.0):
        found = engine.search(QUESTION, 10, blend=weight)
        assert found.blend == weight
        values = [hit.blended or 0.0 for hit in found.hits]
        assert values == sorted(values, reverse=True)
        for hit in found.hits:
            assert hit.blended == pytest.approx((hit.logit or 0.0) + weight * hit.first_stage.similarity)
    similarities = [hit.first_stage.similarity for hit in found.hits]
    assert similarities == sorted(similarities, reverse=True)


@pytest.mark.parametrize("settings", [{"mode": "both"}, {"blend": -1}, {"blend": math.nan}, {"blend": "1"}])
def test_a_setting_out_of_range_is_named(engine: Engine, articles: Path, settings: dict[str, object]) -> None:
    engine.ingest(articles)
    ((name, value),) = settings.items()
    with pytest.raises(QueryError, match=f"{name}: got {value!r}"):
        engine.search(QUESTION, **settings)  # type: ignore[arg-type]


def test_calibrated_blends_give_probabilities(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    found = engine.search(QUESTION, 5)
    said = [hit.probability for hit in found.hits if hit.probability is not None]
    assert len(said) == 5
    assert said == sorted(said, reverse=True)
    assert 0 < said[-1] < 0.5 < said[0] < 1
    assert found.answerable is not None
    assert 0.5 < found.answerable < 1
    for other in (engine.search(QUESTION, 5, blend=7.0), engine.search(QUESTION, 5, rerank=False)):
        assert other.answerable is None
        assert all(hit.probability is None for hit in other.hits)


def test_a_least_probability_leaves_out_the_rest(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    everything = engine.search(QUESTION, 5).hits
    assert engine.search(QUESTION, 5, min_score=everything[1].probability).hits == everything[:2]
    assert engine.search(QUESTION, 5, min_score=0.0).hits == everything
    nothing, search = engine.prompt(QUESTION, min_score=1.0)
    assert (nothing.used, search.hits) == ((), ())


def test_what_was_not_reranked_in_time_has_no_probability(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    late = {"deadline_ms": 1.0, "arrived": time.perf_counter() - 60}
    found = engine.search(QUESTION, 5, **late)  # type: ignore[arg-type]
    assert (found.scored, found.answerable) == (0, None)
    assert [hit.probability for hit in found.hits] == [None] * 5
    assert engine.search(QUESTION, 5, min_score=0.01, **late).hits == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_score": 1.5}, "min_score: got 1.5; expected a probability"),
        ({"min_score": True}, "min_score: got True"),
        ({"min_score": 0.5, "rerank": False}, "without reranking"),
        ({"min_score": 0.5, "blend": 7.0}, "no calibration for blend 7, but for 0, 20"),
    ],
)
def test_a_least_probability_that_means_nothing_is_refused(
    engine: Engine, articles: Path, settings: dict[str, Any], message: str
) -> None:
    engine.ingest(articles)
    with pytest.raises(QueryError, match=message):
        engine.search(QUESTION, **settings)


def test_effort_reaches_the_runoff_and_is_told(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)
    exact, fast = (engine.search("how long do payouts take?", 2, effort=effort) for effort in ("exact", "fast"))
    assert (exact.effort, fast.effort) == ("exact", "fast")
    assert all(hit.exit_layer is None for hit in exact.hits)
    assert fast.hits[0].chunk_id == exact.hits[0].chunk_id
    with pytest.raises(QueryError, match="effort"):
        engine.search("payouts", effort="lazy")
