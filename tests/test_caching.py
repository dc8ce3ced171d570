"""The caches of an engine: what they answer is what would be computed, and nothing that is gone comes from them."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import ARTICLES
from runoff import Document, Engine, costs
from runoff.assembly import Passages, max_query
from runoff.backends import Selected
from runoff.caching import Caches, held_bytes
from runoff.candidates import MODES
from runoff.errors import BackendError, QueryError
from runoff.exits import ExitHead, ExitHeads
from runoff.native import NativeBackend
from runoff.reranker import CrossEncoder
from runoff.results import SearchResult, Timings
from runoff.stages import ModelStages

QUESTION = "How long does a payout to another country take?"
NO_TIME = Timings(0, 0, 0, 0, 0)
MODE_OPTIONS: list[dict[str, Any]] = [{"mode": mode, "rerank": rerank} for mode in MODES for rerank in (True, False)]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"top_n": 2},
    {"top_n": 2, "candidates": 3},
    {"blend": 0.0},
    {"min_score": 0.5},
    {"effort": "fast", "top_n": 2},
    {"where": 'title != "Signing webhooks"'},
    {"where": 'title = "Signing webhooks"'},
    *MODE_OPTIONS,
]


class Counted:
    """The real stages, which keep a record of what they are asked for."""

    def __init__(self, stages: ModelStages, scorer: CrossEncoder | None = None) -> None:
        self._stages = stages
        self._scorer = scorer or stages.scorer
        self.calibrations = self._scorer.calibrations
        self.encoder = self.scorer = self
        self.tokenizer, self.counter = stages.tokenizer, stages.counter
        self.backend, self.identity = stages.backend, stages.identity
        self.embedded: list[str] = []
        self.scored: list[int] = []

    def encode(self, texts: Sequence[str], *, progress: Any = None) -> np.ndarray:
        self.embedded += texts
        return self._stages.encoder.encode(texts)

    def score(self, query_ids: Any, passages: Passages, **options: Any) -> Any:
        self.scored.append(len(passages))
        return self._scorer.score(query_ids, passages, **options)

    def vector_identity(self) -> str:
        return self._stages.vector_identity()

    def logit_identity(self) -> str:
        return self._stages.logit_identity()

    def clear(self) -> None:
        self.embedded.clear()
        self.scored.clear()


@pytest.fixture
def counted(stages: ModelStages) -> Counted:
    return Counted(stages)


@pytest.fixture
def watched(tmp_path: Path, counted: Counted, articles: Path) -> Engine:
    """An engine over five articles whose stages are counted."""
    engine = Engine(tmp_path / "store", counted)
    engine.ingest(articles)
    counted.clear()
    return engine


@pytest.fixture
def plain(watched: Engine, stages: ModelStages) -> Engine:
    """An engine over the same store that keeps nothing."""
    return Engine(watched.folder, stages, caches=Caches(0))


def bare(result: SearchResult) -> SearchResult:
    """A result without what a cache may change in it."""
    return replace(result, timings_ms=NO_TIME, cached=False, spent_ms=0.0)


def agree(engine: Engine, plain: Engine, asked: Sequence[dict[str, Any]]) -> None:
    """Both give the same answers, at the first call and at the next, however they are asked."""
    for options in asked:
        wanted = plain.search(QUESTION, **options)
        for _ in range(2):
            assert bare(engine.search(QUESTION, **options)) == bare(wanted), options
    for mode in MODES:
        wanted_prompt, _ = plain.prompt(QUESTION, mode=mode, max_tokens=600)
        for _ in range(2):
            assert engine.prompt(QUESTION, mode=mode, max_tokens=600)[0] == wanted_prompt


def document(number: int, text: str | None = None) -> Document:
    title, body = ARTICLES[number]
    return Document(f"{number:016x}", title, text or body)


def test_a_repeated_query_is_answered_without_any_stage(watched: Engine, counted: Counted) -> None:
    first = watched.search(QUESTION)
    asked = (list(counted.embedded), list(counted.scored))
    again = watched.search(QUESTION)
    assert (first.cached, again.cached) == (False, True)
    assert bare(again) == bare(first)
    assert (counted.embedded, counted.scored) == asked == ([QUESTION], [10])
    assert again.timings_ms.total > 0
    assert replace(again.timings_ms, total=0.0) == NO_TIME
    stats = watched.cache_stats()
    assert list(stats) == ["embeddings", "pairs", "results"]
    assert (stats["results"].hits, stats["results"].misses, stats["results"].entries) == (1, 1, 1)
    assert (stats["embeddings"].hits, stats["embeddings"].misses) == (0, 1)
    assert (stats["pairs"].hits, stats["pairs"].misses, stats["pairs"].entries) == (0, 10, 10)


def test_every_setting_has_an_answer_of_its_own(watched: Engine, plain: Engine) -> None:
    agree(watched, plain, OPTIONS)
    asked = {tuple(sorted({"mode": "hybrid", "rerank": True, **options}.items())) for options in OPTIONS}
    assert watched.cache_stats()["results"].entries == len(asked) + len(MODES)


def test_what_is_equal_but_not_the_same_is_kept_apart(watched: Engine) -> None:
    whole, broken = (watched.search(QUESTION, blend=blend) for blend in (20, 20.0))
    assert not broken.cached
    assert (type(whole.blend), type(broken.blend)) == (int, float)
    assert type(watched.search(QUESTION, blend=20).blend) is int
    assert not watched.search(f"{QUESTION} ").cached
    assert not watched.search(QUESTION.lower()).cached


def test_what_was_deleted_edited_compacted_or_added_again_is_seen_at_once(
    watched: Engine, plain: Engine, articles: Path, stages: ModelStages
) -> None:
    agree(watched, plain, MODE_OPTIONS)
    best = watched.search(QUESTION).hits[0]
    assert best.title == ARTICLES[0][0]

    def delete() -> None:
        watched.delete(best.document_id)

    def edit() -> None:
        lines = articles.read_text("utf-8").splitlines()
        articles.write_text("\n".join([lines[0], lines[1].replace("every hour", "every minute"), *lines[2:]]), "utf-8")
        assert watched.refresh().total("updated") == 1

    def restore() -> None:
        watched.ingest(articles)

    def elsewhere() -> None:
        other = Engine(watched.folder, stages)  # as another process would
        other.add([document(0, "A payout to another country takes forty days since the flood.")])

    changes: list[Callable[[], object]] = [delete, edit, watched.compact, restore, elsewhere, delete, watched.compact]
    for change in changes:
        before = plain.search(QUESTION).generation
        change()
        assert plain.search(QUESTION).generation > before, change
        agree(watched, plain, MODE_OPTIONS)
        shown = {hit.document_id for mode in MODES for hit in watched.search(QUESTION, 20, mode=mode).hits}
        assert (best.document_id in shown) == (change in (restore, elsewhere)), change
        texts = " ".join(hit.text for hit in watched.search("When are domestic payouts made?", 20).hits)
        assert ("every minute" in texts) != ("every hour" in texts)
        assert change is not edit or "every minute" in texts


def test_a_folder_that_is_filled_anew_is_another_store(
    tmp_path: Path, counted: Counted, stages: ModelStages, articles: Path
) -> None:
    engine, caches = Engine(tmp_path / "store", counted), Caches()
    for text in ("Otters hold hands.", "Otters float."):
        engine = Engine(tmp_path / "store", counted, caches=caches)
        engine.add([Document("0" * 16, "Otters", text)])
        result = engine.search("What do otters do?")
        assert not result.cached
        assert text in {hit.text for hit in result.hits}
        for path in engine.folder.iterdir():
            path.unlink()


def test_pairs_outlive_a_refresh(watched: Engine, plain: Engine, counted: Counted) -> None:
    watched.search(QUESTION)
    counted.clear()
    watched.add([Document("f" * 16, "Payouts to islands", "A payout to an island takes a boat and four days.")])
    counted.clear()
    result = watched.search(QUESTION)
    assert not result.cached
    assert (counted.embedded, counted.scored) == ([], [2])
    assert bare(result) == bare(plain.search(QUESTION))
    counted.clear()
    watched.delete("f" * 16)
    watched.compact()
    assert bare(watched.search(QUESTION)) == bare(plain.search(QUESTION))
    assert (counted.embedded, counted.scored) == ([], [])


def test_a_fast_search_reads_no_pairs_and_leaves_its_final_logits(
    tmp_path: Path, stages: ModelStages, articles: Path
) -> None:
    artifact = stages.artifacts[1]
    try:
        native = Selected(NativeBackend.load(artifact), "asked for")
    except BackendError as error:
        pytest.skip(f"no native backend, and so no early exit: {error}")
    weights = np.random.default_rng(1).normal(0, 0.3, artifact.hidden).astype(np.float32)
    head = ExitHead(6, weights, -2.5, 0.0, np.array([-8, 8], np.float32), np.array([0.5, 0.5], np.float32))
    heads = ExitHeads((head,), 1.0, 1.0, artifact.digest, {})
    counted = Counted(stages, CrossEncoder(artifact, stages.tokenizer, native, heads))
    engine, plain = (Engine(tmp_path / "store", counted, caches=caches) for caches in (Caches(), Caches(0)))
    engine.ingest(articles)

    counted.clear()
    fast = engine.search(QUESTION, 1, 10, effort="fast")
    left = sum(hit.exit_layer is not None for hit in plain.search(QUESTION, 10, effort="fast").hits)
    assert bare(fast) == bare(plain.search(QUESTION, 1, 10, effort="fast"))
    stats = engine.cache_stats()["pairs"]
    assert (stats.hits, stats.misses) == (0, 0)
    assert 0 < stats.entries < 10
    assert left > 0
    counted.clear()
    exact = engine.search(QUESTION, 10)
    assert counted.scored == [10 - stats.entries]
    assert bare(exact) == bare(plain.search(QUESTION, 10))
    assert all(hit.exit_layer is None for hit in exact.hits)

    counted.clear()
    again = engine.search(QUESTION, 2, 10, effort="fast")  # though every exact logit is known by now
    assert counted.scored == [10]
    assert bare(again) == bare(plain.search(QUESTION, 2, 10, effort="fast"))
    assert engine.search(QUESTION, 2, 10, effort="fast").cached


def test_what_a_deadline_cut_short_is_not_kept(
    watched: Engine, plain: Engine, stages: ModelStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(costs.FOLDER_VARIABLE, str(tmp_path / "costs"))
    engine = Engine(watched.folder, stages)
    late = engine.search(QUESTION, deadline_ms=50.0, arrived=time.perf_counter() - 1)
    assert (late.scored, late.complete, late.deadline_met) == (0, False, False)
    assert all(engine.cache_stats()[name].entries == 0 for name in ("pairs", "results"))
    result = engine.search(QUESTION)
    assert not result.cached
    assert bare(result) == bare(plain.search(QUESTION))
    again = engine.search(QUESTION, deadline_ms=60_000.0)
    assert (again.cached, again.deadline_ms, again.deadline_met) == (True, 60_000.0, True)
    assert again.hits == result.hits


def test_cut_texts_are_told_of_from_the_cache_too(tmp_path: Path, counted: Counted, stages: ModelStages) -> None:
    engine, plain = (Engine(tmp_path / "store", counted, caches=caches) for caches in (Caches(), Caches(0)))
    engine.add([Document("0" * 16, "Rails", "qzxqzx " * 190), document(1)])
    long = "payout " * (max_query(stages.scorer.artifact.max_length) + 1)
    for query in (long, "payout"):
        first = engine.search(query)
        assert first.query_truncated == (query is long)
        assert any(hit.truncated for hit in first.hits)
        assert not all(hit.truncated for hit in first.hits)
        counted.clear()
        again = engine.search(query, 4)  # another result of the same pairs
        assert not again.cached
        assert not counted.scored
        assert bare(again) == bare(plain.search(query, 4))


def test_stages_that_do_not_say_what_they_depend_on_are_not_cached(
    tmp_path: Path, stages: ModelStages, articles: Path
) -> None:
    class Unknown:
        encoder, tokenizer, scorer, counter = stages.encoder, stages.tokenizer, stages.scorer, stages.counter
        backend, identity = stages.backend, stages.identity

    engine = Engine(tmp_path / "store", Unknown())
    engine.ingest(articles)
    first, again = engine.search(QUESTION), engine.search(QUESTION)
    assert bare(first) == bare(again)
    assert not again.cached
    assert all((stats.hits, stats.misses, stats.entries) == (0, 0, 0) for stats in engine.cache_stats().values())


def test_a_bound_of_zero_turns_all_of_it_off(plain: Engine) -> None:
    assert not any(plain.search(QUESTION).cached for _ in range(2))
    assert all((stats.entries, stats.bytes, stats.bound) == (0, 0, 0) for stats in plain.cache_stats().values())


@pytest.mark.parametrize("bound", [-1, 1.5, True, None, "64"])
def test_a_bound_that_is_none_is_refused(tmp_path: Path, bound: Any) -> None:
    with pytest.raises(QueryError, match="cache_bytes"):
        Engine.open(tmp_path / "store", cache_bytes=bound)


def test_the_bound_holds_for_all_three_together(watched: Engine, stages: ModelStages, plain: Engine) -> None:
    small = Engine(watched.folder, stages, caches=Caches(32_000))
    for number in range(24):
        query = f"{QUESTION} {number}"
        assert bare(small.search(query, 3, 3)) == bare(plain.search(query, 3, 3))
        stats = small.cache_stats().values()
        assert all(one.bytes <= one.bound for one in stats)
        assert sum(one.bound for one in stats) <= 32_000
    embeddings, pairs, results = (one.entries for one in small.cache_stats().values())
    assert 0 < embeddings < 24
    assert 0 < pairs < 72
    assert 0 < results < 24


def test_a_result_takes_no_more_memory_than_is_counted(plain: Engine) -> None:
    plain.search(QUESTION, 10)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        results = [plain.search(QUESTION, 10) for _ in range(6)]
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * sum(map(held_bytes, results)) < taken < 1.05 * sum(map(held_bytes, results))


def test_a_key_is_that_of_one_pair_alone(stages: ModelStages) -> None:
    caches = Caches()
    ids = np.arange(1000, 1010, dtype=np.int32)
    logits = stages.scorer.score(ids[:3], Passages.pack([ids[3:6]]))
    caches.pairs(stages, ids[:3], Passages.pack([ids[3:6]])).keep(logits)
    assert caches.pairs(stages, ids[:3], Passages.pack([ids[3:6]])).known().logits == logits.logits
    for query, passage in ((ids[:2], ids[2:6]), (ids[:4], ids[4:6]), (ids[3:6], ids[:3]), (ids[:3], ids[3:7])):
        assert np.isnan(caches.pairs(stages, query, Passages.pack([passage])).known().logits).all()
    other = Counted(stages)
    other.logit_identity = lambda: stages.logit_identity() + "2"  # type: ignore[method-assign]
    assert np.isnan(caches.pairs(other, ids[:3], Passages.pack([ids[3:6]])).known().logits).all()


def test_passages_without_a_token_are_not_kept(stages: ModelStages) -> None:
    ids, caches = np.arange(1000, 1010, dtype=np.int32), Caches()
    passages = Passages.pack([ids[:0], ids[:4], ids[:0]])
    pairs = caches.pairs(stages, ids, passages)
    pairs.keep(stages.scorer.score(ids, passages))
    assert np.isnan(pairs.known().logits).tolist() == [True, False, True]
    nothing = caches.pairs(stages, ids, Passages.pack([]))
    assert len(nothing.known().logits) == 0


def test_some_pairs_can_be_kept_by_position(stages: ModelStages) -> None:
    ids, caches = np.arange(1000, 1010, dtype=np.int32), Caches()
    passages, chosen = Passages.pack([ids[:4], ids[:5], ids[:6]]), np.array([2, 0])
    some = stages.scorer.score(ids, passages.take(chosen))
    caches.pairs(stages, ids, passages).keep(some, chosen)
    known = caches.pairs(stages, ids, passages).known().logits
    assert np.array_equal(known, [some.logits[1], np.nan, some.logits[0]], equal_nan=True)


def test_threads_see_what_their_generation_holds_while_another_writes(
    watched: Engine, plain: Engine, stages: ModelStages
) -> None:
    queries = [QUESTION, "payout", "sourdough"]
    engine = Engine(watched.folder, stages, caches=Caches(60_000))  # so small that entries leave all the time
    seen: list[SearchResult] = []
    done, failed = threading.Event(), []

    def ask() -> None:
        try:
            while not done.is_set():
                seen.extend([engine.search(query, 3, 4) for query in queries])
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    wanted: dict[tuple[int, str], SearchResult] = {}
    for number in range(8):
        for query in queries:
            result = plain.search(query, 3, 4)
            wanted[result.generation, query] = bare(result)
        if number % 2:
            engine.delete("f" * 16)
        else:
            engine.add(
                [Document("f" * 16, "Payouts", f"A payout to another country takes {number} days of sourdough.")]
            )
        hits = engine.search(QUESTION, 20).hits
        assert ("f" * 16 in {hit.document_id for hit in hits}) == (number % 2 == 0)
    done.set()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert any(result.cached for result in seen)
    known = [result for result in seen if (result.generation, result.query) in wanted]
    assert len({result.generation for result in known}) > 1
    assert all(bare(result) == wanted[result.generation, result.query] for result in known)
