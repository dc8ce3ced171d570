"""Deadlines: what is planned, what is done when time runs out, and that no result depends on having one."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import costs, deadlines, exits, plans, timed, windows
from runoff.assembly import Passages
from runoff.backends import Scores
from runoff.costs import Costs, Pace
from runoff.deadlines import Deadline
from runoff.engine import Engine
from runoff.errors import QueryError
from runoff.exits import ExitHead, ExitHeads
from runoff.reranker import CrossEncoder, Reranker
from runoff.timed import Clocked

COSTS = Costs(token=0.1, square=0.0, call=0.0, threads=2)
FOREVER = 1e9
QUESTION = "How long do payouts to merchants in other countries take?"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Costs are kept here, not in the user's cache."""
    monkeypatch.setenv(costs.FOLDER_VARIABLE, str(tmp_path / "costs"))
    return tmp_path / "costs"


def passages(*lengths: int) -> Passages:
    rng = np.random.default_rng(0)
    return Passages.pack([rng.integers(1000, 20000, length).astype(np.int32) for length in lengths])


def clocked(encoder: CrossEncoder, heads: ExitHeads | None = None, known: Costs = COSTS) -> Clocked:
    ends = encoder.tokenizer.encode(". ! ?")
    return Clocked(encoder._backend, heads, known, encoder.artifact.layers, encoder.artifact.max_length, ends)


def score(runs: Clocked, milliseconds: float, read: Passages, *, prune: bool = False, late: float = 0.0) -> timed.Timed:
    query = np.arange(2000, 2008, dtype=np.int32)
    deadline = Deadline(milliseconds, time.perf_counter() - late)
    return runs.score(query, read, deadline, prune=prune, offsets=np.zeros(len(read), np.float32), top_n=5)


class TestPlans:
    def test_reads_all_where_there_is_time(self) -> None:
        plan = plans.choose(COSTS, 9, np.full(20, 200, np.int32), 512, FOREVER)
        assert (plan.count, plan.window) == (20, None)
        assert plan.milliseconds == pytest.approx(20 * 212 * 0.1 / 2)

    def test_narrows_windows_before_it_leaves_candidates_out(self) -> None:
        lengths = np.full(20, 200, np.int32)
        counts, read = [], []
        for budget in range(220, 10, -5):
            plan = plans.choose(COSTS, 9, lengths, 512, budget)
            counts.append(plan.count)
            read.append(plan.window or 512)
            assert plan.milliseconds <= budget
        assert counts == sorted(counts, reverse=True)
        assert read == sorted(read, reverse=True)
        assert all(window == 128 for count, window in zip(counts, read, strict=True) if count < 20)
        assert (counts[0], read[0]) == (20, 512)
        assert counts[-1] == 2

    def test_one_long_pair_cannot_be_shared(self) -> None:
        assert plans.choose(COSTS, 9, np.array([20], np.int32), 512, 3.0).count == 0
        assert plans.choose(COSTS, 9, np.array([20], np.int32), 512, 3.3).count == 1

    def test_pairs_cost_no_more_than_the_model_reads(self) -> None:
        plan = plans.choose(COSTS, 9, np.array([5000, 5000], np.int32), 512, FOREVER)
        assert plan.milliseconds == pytest.approx(51.2)

    def test_nothing_to_read(self) -> None:
        assert plans.choose(COSTS, 9, np.empty(0, np.int32), 512, 1.0) == plans.Plan(0, None, 0.0)


class TestWindows:
    ENDS = np.array([7], dtype=np.int32)

    def test_takes_the_sentence_with_the_query_in_it(self) -> None:
        row = np.array([1, 2, 3, 7, 4, 5, 6, 7, 50, 51, 52, 7, 8, 9, 10, 11], dtype=np.int32)
        found = windows.narrow(np.array([50, 52], np.int32), Passages.pack([row, row[:3]]), 4, self.ENDS)
        assert found.ids[found.starts[0] :][:4].tolist() == [50, 51, 52, 7]
        assert found.lengths.tolist() == [4, 3]

    def test_the_earliest_of_equal_ones(self) -> None:
        row = np.array([1, 2, 3, 7, 4, 5, 6, 7, 4, 5, 6, 7], dtype=np.int32)
        found = windows.narrow(np.array([5], np.int32), Passages.pack([row]), 4, self.ENDS)
        assert found.starts.tolist() == [4]

    def test_a_word_of_every_candidate_says_little(self) -> None:
        first = np.array([1, 60, 60, 7, 4, 5, 6, 7], dtype=np.int32)
        second = np.array([60, 60, 60, 7, 60, 60, 60, 7], dtype=np.int32)
        found = windows.narrow(np.array([60, 5], np.int32), Passages.pack([first, second]), 4, self.ENDS)
        assert found.starts.tolist() == [4, 8]

    def test_the_last_sentence_is_read_whole(self) -> None:
        row = np.array([1, 2, 3, 4, 5, 6, 7, 50, 51], dtype=np.int32)
        found = windows.narrow(np.array([50], np.int32), Passages.pack([row]), 4, self.ENDS)
        assert found.starts.tolist() == [5]

    def test_rows_of_any_shape_stay_inside_of_theirs(self) -> None:
        rng = np.random.default_rng(5)
        for _ in range(200):
            lengths = rng.integers(0, 40, 6)
            packed = Passages.pack([rng.integers(0, 12, length).astype(np.int32) for length in lengths])
            size = int(rng.integers(1, 20))
            found = windows.narrow(rng.integers(0, 12, 3).astype(np.int32), packed, size, self.ENDS)
            assert (found.lengths == np.minimum(lengths, size)).all()
            assert (found.starts >= packed.starts).all()
            assert (found.starts + found.lengths <= packed.starts + packed.lengths).all()


class TestScores:
    def test_with_time_enough_they_are_those_without_a_deadline(self, cross_encoder: CrossEncoder) -> None:
        read = passages(30, 5, 90, 0, 12, 60)
        found = score(clocked(cross_encoder), FOREVER, read)
        wanted = cross_encoder._backend.score(np.arange(2000, 2008, dtype=np.int32), read)
        spoken = read.lengths > 0
        assert (found.scores.logits[spoken] == wanted.logits[spoken]).all()
        assert found.scores.final.all()
        assert not found.scores.windowed.any()

    def test_a_deadline_that_has_passed_scores_nothing(self, cross_encoder: CrossEncoder) -> None:
        found = score(clocked(cross_encoder), 50, passages(30, 5), late=1.0)
        assert not found.scores.reached.any()
        assert found.scores.order().tolist() == [0, 1]
        assert found.planned_ms >= 1000

    def test_short_of_time_windows_are_read_and_said_so(self, cross_encoder: CrossEncoder) -> None:
        slow = replace(COSTS, token=100.0)
        read = passages(*[150] * 4)
        found = score(clocked(cross_encoder, known=slow), 1.1 * 4 * 139 * 100 / 2 * Pace().factor, read)
        assert found.scores.reached.all()
        assert found.scores.windowed.all()
        assert not found.scores.truncated.any()

    def test_shorter_still_the_last_candidates_are_not_read(self, cross_encoder: CrossEncoder) -> None:
        slow = replace(COSTS, token=1e6)
        found = score(
            clocked(cross_encoder, known=slow),
            1.05 * Pace().factor * 3.3 * 139e6 / 2 + timed.RESERVE_MS,
            passages(*[150] * 6),
        )
        assert found.scores.reached.tolist() == [True] * 3 + [False] * 3
        assert found.scores.order()[3:].tolist() == [3, 4, 5]
        assert np.isfinite(found.scores.logits).all()

    def test_a_machine_that_is_slower_than_believed(
        self, cross_encoder: CrossEncoder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [0.0]

        class Slow:
            """Takes three times what a pair should cost, on a clock of its own."""

            name = cross_encoder.backend

            def score(self, query_ids: NDArray[np.int32], read: Passages) -> Scores:
                now[0] += 3 * COSTS.wall(COSTS.pairs(read.lengths.astype(np.int64) + 11)) / 1e3
                return cross_encoder._backend.score(query_ids, read)

            def embed(self, texts: Passages) -> NDArray[np.float32]:
                raise NotImplementedError

        for module in (timed, deadlines):
            monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
        runs = clocked(cross_encoder)
        runs._backend = Slow()
        read = passages(*[21] * 40)
        whole = COSTS.wall(COSTS.pairs(np.full(40, 32)))
        over = []
        for _ in range(12):
            deadline = Deadline(1.5 * whole, now[0])
            found = runs.score(
                np.arange(8, dtype=np.int32), read, deadline, prune=False, offsets=np.zeros(40, np.float32), top_n=5
            )
            over.append(deadline.spent() / deadline.milliseconds)
        assert 0 < found.scores.reached.sum() < 40
        assert max(over[-4:]) <= 1.0
        assert runs.pace.factor > 2.5


class TestExits:
    """With heads that predict nothing: who goes on is up to the clock alone."""

    @pytest.fixture
    def layered(self, cross_encoder: CrossEncoder) -> CrossEncoder:
        if cross_encoder.backend != "native":
            pytest.skip("needs a backend that stops between layers")
        return cross_encoder

    @pytest.fixture
    def heads(self, cross_encoder: CrossEncoder) -> ExitHeads:
        hidden = cross_encoder.artifact.hidden
        weights = np.random.default_rng(1).standard_normal(hidden).astype(np.float32) * 0.1
        knots = np.zeros(1, np.float32)
        head = ExitHead(6, weights, 0.0, 0.0, knots, np.ones(1, np.float32))
        return ExitHeads((head,), 1.0, 1.0, cross_encoder.artifact.digest)

    def test_exact_keeps_all_where_there_is_time(
        self, layered: CrossEncoder, heads: ExitHeads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read = passages(*range(5, 45, 3))
        wanted = layered._backend.score(np.arange(2000, 2008, dtype=np.int32), read)
        monkeypatch.setattr(layered._backend, "start", lambda *_: pytest.fail("looked at layers with time to spare"))
        found = score(clocked(layered, heads), FOREVER, read).scores
        assert found.final.all()
        assert (found.logits == wanted.logits).all()

    def test_exact_keeps_all_where_there_is_just_enough(self, layered: CrossEncoder, heads: ExitHeads) -> None:
        read, slow = passages(*range(5, 45, 3)), replace(COSTS, token=1000.0)
        work = slow.wall(slow.pairs(read.lengths.astype(np.int64) + 11)) * Pace().factor
        found = score(clocked(layered, heads, slow), 1.3 * work, read).scores
        wanted = layered._backend.score(np.arange(2000, 2008, dtype=np.int32), read)
        assert not found.windowed.any()
        assert found.final.all()
        assert (found.logits == wanted.logits).all()

    def test_fast_is_the_same_as_without_a_deadline(self, layered: CrossEncoder, heads: ExitHeads) -> None:
        read = passages(*range(5, 45, 3))
        query, offsets = np.arange(2000, 2008, dtype=np.int32), np.zeros(len(read), np.float32)
        found = score(clocked(layered, heads), FOREVER, read, prune=True).scores
        wanted = exits.score(layered._backend, heads, query, read, offsets, 5)
        assert (found.logits == wanted.logits).all()
        assert (found.exits == wanted.exits).all()

    def test_who_finishes_is_who_promises_most(self, layered: CrossEncoder, heads: ExitHeads) -> None:
        pairs = layered.start(np.arange(2000, 2008, dtype=np.int32), passages(*[20] * 8))
        guesses = heads.heads[0].predict(pairs.advance(np.arange(8), 6), np.zeros(8, np.float32))[0]
        found = exits.run(
            pairs, heads, np.zeros(8, np.float32), 5, prune=False, afford=lambda layer, rows: 3 if layer == 6 else 0
        )
        assert set(np.flatnonzero(found.layers == 0)) == set(np.argsort(-guesses)[:3])
        assert found.logits[found.layers > 0].max() < found.logits[found.layers == 0].min()

    def test_nobody_may_finish(self, layered: CrossEncoder, heads: ExitHeads) -> None:
        pairs = layered.start(np.arange(2000, 2008, dtype=np.int32), passages(20, 20))
        found = exits.run(pairs, heads, np.zeros(2, np.float32), 5, prune=False, afford=lambda layer, rows: 0)
        assert found.layers.tolist() == [6, 6]
        assert np.isfinite(found.logits).all()


class TestCosts:
    def test_measured_once_and_kept(self, folder: Path) -> None:
        made: list[Costs] = []

        def measured() -> Costs:
            made.append(COSTS)
            return COSTS

        assert costs.known("a machine", measured) == costs.known("a machine", measured) == COSTS
        assert len(made) == 1
        costs.known("another", measured)
        assert len(made) == 2
        assert len(list(folder.iterdir())) == 2

    @pytest.mark.parametrize("text", ["", "{}", '{"format_version": 1, "key": "a machine", "costs": {"token": -1}}'])
    def test_a_file_that_cannot_be_read_is_measured_again(self, folder: Path, text: str) -> None:
        costs.known("a machine", lambda: COSTS)
        path = next(folder.iterdir())
        path.write_text(text, encoding="utf-8")
        assert costs.known("a machine", lambda: replace(COSTS, token=2.0)).token == 2.0
        assert json.loads(path.read_text(encoding="utf-8"))["costs"]["token"] == 2.0

    def test_a_folder_that_cannot_be_written_is_no_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(costs.FOLDER_VARIABLE, str(tmp_path / "file" / "inside"))
        assert costs.known("a machine", lambda: COSTS) == COSTS

    def test_measuring_gives_sound_numbers(self, cross_encoder: CrossEncoder) -> None:
        found = costs.measure(cross_encoder._backend.score, 2)
        assert found.token > 0
        assert found.square >= 0
        assert found.threads == 2

    def test_measuring_solves_for_both_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [0.0]

        def scoring(query: object, read: Passages) -> None:
            pairs = read.lengths.astype(np.float64) + costs._QUERY + 3
            now[0] += (0.2 + (0.05 * pairs + 0.0002 * pairs**2).sum() / 2) / 1e3

        monkeypatch.setattr(costs.time, "perf_counter", lambda: now[0])
        found = costs.measure(scoring, 2)
        assert (found.token, found.square) == (pytest.approx(0.05), pytest.approx(0.0002))


class TestPace:
    def test_learns_how_slow_the_machine_is(self) -> None:
        pace = Pace()
        for _ in range(100):
            pace.learn(10.0, 30.0, 1)
        assert 3.0 <= pace.factor < 3.5

    def test_others_at_work_are_allowed_for(self) -> None:
        pace = Pace()
        alone = pace.factor
        with pace, pace:
            assert pace.running == 2
            assert pace.factor == pytest.approx(2 * alone)
        for _ in range(100):
            pace.learn(10.0, 20.0, 2)
        assert pace.factor < 1.2

    def test_one_odd_run_does_not_stop_everything(self) -> None:
        pace = Pace()
        pace.learn(1.0, 1e6, 1)
        for _ in range(60):
            pace.learn(10.0, 10.0, 1)
        assert pace.factor < 1.5


class TestSearch:
    @pytest.fixture
    def fed(self, engine: Engine, articles: Path) -> Engine:
        engine.ingest(articles)
        return engine

    def test_a_generous_deadline_changes_nothing(self, fed: Engine) -> None:
        fresh = Engine(fed.folder, fed.stages)
        plain, timed_ = fed.search(QUESTION), fresh.search(QUESTION, deadline_ms=60_000)
        assert [hit.logit for hit in timed_.hits] == [hit.logit for hit in plain.hits]
        assert timed_.deadline_met is True
        assert timed_.planned_ms is not None
        assert timed_.spent_ms < timed_.deadline_ms == 60_000
        assert plain.deadline_met is plain.deadline_ms is plain.planned_ms is None
        assert plain.scored == timed_.scored > 0

    def test_one_that_cannot_be_kept_gives_the_first_stage_and_says_so(self, fed: Engine) -> None:
        first = fed.search(QUESTION, rerank=False)
        late = fed.search(QUESTION, deadline_ms=1e-3)
        assert [hit.chunk_id for hit in late.hits] == [hit.chunk_id for hit in first.hits]
        assert late.deadline_met is False
        assert late.scored == 0
        assert {hit.logit for hit in late.hits} == {None}
        assert [hit.score for hit in late.hits] == [hit.first_stage.score for hit in late.hits]

    def test_waiting_counts(self, fed: Engine) -> None:
        late = fed.search(QUESTION, deadline_ms=60_000, arrived=time.perf_counter() - 61)
        assert late.deadline_met is False
        assert late.scored == 0
        assert late.spent_ms > 61_000

    def test_the_engine_has_a_target_for_queries_without_one(self, fed: Engine) -> None:
        aimed = Engine(fed.folder, fed.stages, target_ms=60_000)
        assert aimed.search(QUESTION).deadline_ms == 60_000
        assert aimed.search(QUESTION, deadline_ms=70_000).deadline_ms == 70_000

    @pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "50"])
    def test_what_is_no_time_is_refused(self, fed: Engine, value: object) -> None:
        with pytest.raises(QueryError, match="deadline_ms"):
            fed.search(QUESTION, deadline_ms=value)  # type: ignore[arg-type]
        with pytest.raises(QueryError, match="target_ms"):
            Engine(fed.folder, fed.stages, target_ms=value)  # type: ignore[arg-type]

    def test_a_prompt_takes_one_too(self, fed: Engine) -> None:
        built, result = fed.prompt(QUESTION, deadline_ms=1e-3)
        assert built.used
        assert result.deadline_met is False

    def test_rank(self, cross_encoder: CrossEncoder) -> None:
        reranker, texts = Reranker(cross_encoder), ["Bread is baked.", "Payouts abroad take two days.", ""]
        plain, kept = reranker.rank(QUESTION, texts), reranker.rank(QUESTION, texts, deadline_ms=60_000)
        assert [(hit.index, hit.logit) for hit in kept] == [(hit.index, hit.logit) for hit in plain]
        assert kept.time.deadline_met is True
        assert plain.time.deadline_met is None
        assert plain.scored == kept.scored == 3
        late = reranker.rank(QUESTION, texts, deadline_ms=1e-3)
        assert [hit.index for hit in late] == [0, 1, 2]
        assert late.scored == 0
        assert late[0].logit is None
