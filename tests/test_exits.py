"""Early exit: who goes on keeps the exact logit bit for bit, and who leaves could not have won."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from runoff import exits, models
from runoff.artifact import Artifact
from runoff.assembly import Passages
from runoff.backends import Selected
from runoff.errors import ArtifactDamagedError, BackendError, ModelError, QueryError
from runoff.exits import ExitHead, ExitHeads
from runoff.fitting import Evidence, Replay
from runoff.native import NativeBackend, PartialRun
from runoff.reranker import BLANK_LOGIT, CrossEncoder, Reranker

HIDDEN = 384


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return models.find(models.DEFAULT_CROSS_ENCODER)


@pytest.fixture(scope="module")
def native(artifact: Artifact) -> NativeBackend:
    try:
        return NativeBackend.load(artifact)
    except BackendError as error:
        pytest.skip(f"no native backend: {error}")


def pairs(*lengths: int, seed: int = 5) -> tuple[np.ndarray, Passages]:
    rng = np.random.default_rng(seed)
    texts = [rng.integers(1000, 30522, length).astype(np.int32) for length in lengths]
    return rng.integers(1000, 30522, 7).astype(np.int32), Passages.pack(texts)


def head(layer: int, spread: float = 0.5, seed: int = 1) -> ExitHead:
    weights = np.random.default_rng(seed).normal(0, 0.3, HIDDEN).astype(np.float32)
    knots, spreads = np.array([[-8, 8], [spread, 2 * spread]], np.float32)
    return ExitHead(layer, weights, -2.5, 0.3, knots, spreads)


def heads(artifact: Artifact, *of: ExitHead, margin: float = 1.0) -> ExitHeads:
    return ExitHeads(of or (head(6), head(8)), margin, 2 * margin, artifact.digest, {"on": "nothing"})


def oracle(values: list[float], spread: float, layers: tuple[int, ...] = (6, 8)) -> tuple[Replay, ExitHeads]:
    """Pairs whose first state component is their logit, and heads that read it."""
    logits = np.array(values, np.float32)
    states = np.zeros((len(values), 2), np.float32)
    states[:, 0] = logits
    weights, knots = np.array([1, 0], np.float32), np.zeros(1, np.float32)
    row = tuple(ExitHead(layer, weights, 0.0, 0.0, knots, np.array([spread], np.float32)) for layer in layers)
    known = Evidence(dict.fromkeys(layers, states), logits, np.zeros_like(logits), np.zeros(len(values), np.int64))
    return Replay(known), ExitHeads(row, 1.0, 1.0, "")


def test_pairs_that_rest_and_go_on_get_the_exact_logits(native: NativeBackend) -> None:
    query, passages = pairs(0, 1, 3, 30, 95, 96, 97, 200, 384, 385, 500, 600)
    exact = native.score(query, passages).logits
    running = native.start(query, passages)
    alive = np.arange(len(passages))
    for layer in (1, 2, 6, 7, 11):
        assert running.advance(alive, layer).shape == (len(alive), HIDDEN)
        alive = np.delete(alive, layer % len(alive))
    np.testing.assert_array_equal(running.finish(alive[::-1]), exact[alive[::-1]])
    # Those that were left behind can follow.
    for layer in (1, 2, 6, 7, 11):
        behind = np.flatnonzero(running.at == layer - 1)
        np.testing.assert_array_equal(running.finish(behind), exact[behind])


def test_a_state_that_was_peeked_at_is_the_one_that_comes(native: NativeBackend) -> None:
    running = native.start(*pairs(50, 120, 300))
    everyone = np.arange(3)
    peeked = running.advance(everyone, 4)
    np.testing.assert_array_equal(running.advance(everyone, 4), peeked)
    running.advance(everyone, 5)
    np.testing.assert_array_equal(running._states[running._pairs.offsets[:-1]], peeked)


def test_states_do_not_depend_on_stops_or_company(native: NativeBackend) -> None:
    query, passages = pairs(50, 120, 300)
    together = native.start(query, passages)
    together.advance(np.arange(3), 4)
    states = together.advance(np.array([2, 0]), 9)
    alone = native.start(query, passages.take(np.array([2])))
    np.testing.assert_array_equal(states[:1], alone.advance(np.array([0]), 9))


@pytest.mark.parametrize("chosen", [[0, 0], [-1], [2], [0, 1]])
def test_pairs_that_cannot_go_on_together_are_refused(chosen: list[int], native: NativeBackend) -> None:
    running = native.start(*pairs(4, 5))
    running.advance(np.array([0]), 3)
    with pytest.raises(BackendError, match="expected"):
        running.advance(np.array(chosen), 6)


@pytest.mark.parametrize("layer", [0, -1, 12, 13])
def test_layers_that_are_no_stop_are_refused(layer: int, native: NativeBackend) -> None:
    with pytest.raises(BackendError, match=f"layer: got {layer}"):
        native.start(*pairs(4, 5)).advance(np.array([0]), layer)


def test_a_finished_pair_is_finished(native: NativeBackend) -> None:
    running = native.start(*pairs(4, 5))
    running.finish(np.array([0]))
    with pytest.raises(BackendError, match="been through \\[12\\]"):
        running.finish(np.array([0]))


def test_no_pairs_are_no_work(native: NativeBackend) -> None:
    running = native.start(*pairs())
    assert running.advance(np.arange(0), 6).shape == (0, HIDDEN)
    assert running.finish(np.arange(0)).shape == (0,)


def test_ids_outside_of_the_vocabulary_are_refused_at_the_start(native: NativeBackend) -> None:
    with pytest.raises(BackendError, match="token id 30522"):
        native.start(np.array([2000], np.int32), Passages.pack([np.array([30522], np.int32)]))


def test_those_leave_that_cannot_reach_the_top() -> None:
    replay, found = oracle([3.0, -9.0, 2.0, 2.5, -1.0, 5.0], spread=0.6)
    outcome = exits.run(replay, found, np.zeros(6, np.float32), 2)
    # The second best lower bound is 3.0 - 0.6; an upper bound of 2.5 + 0.6 reaches it, one of 2.0 + 0.6 does too.
    np.testing.assert_array_equal(outcome.layers, [0, 6, 0, 0, 6, 0])
    np.testing.assert_array_equal(outcome.logits, [3.0, -9.0, 2.0, 2.5, -1.0, 5.0])


def test_what_is_added_to_the_logit_counts_in_the_contest() -> None:
    replay, found = oracle([0.0, 1.0, 2.0], spread=0.1)
    outcome = exits.run(replay, found, np.array([9.0, 0.0, 0.0], np.float32), 1)
    np.testing.assert_array_equal(outcome.layers, [0, 6, 6])


def test_a_similar_passage_is_guessed_to_be_better() -> None:
    replay, found = oracle([2.0, 3.0, -9.0], spread=0.1)
    # 2.0 + 1.9 + half of 0.9 against 3.0 + 0.1 - half of 0.9; without the halves their bounds would meet.
    row = tuple(replace(each, share=0.5) for each in found.heads)
    outcome = exits.run(replay, replace(found, heads=row, margin=6.0), np.array([1.9, 0.1, 1.0], np.float32), 1)
    np.testing.assert_array_equal(outcome.layers, [0, 6, 6])
    assert outcome.logits[1] == pytest.approx(3.0 - 0.45)


def test_logits_alone_keep_a_margin_of_their_own() -> None:
    replay, found = oracle([3.0, 2.0], spread=0.4)
    cautious = replace(found, margin_alone=2.0)
    assert not exits.run(replay, cautious, np.zeros(2, np.float32), 1).layers.any()
    np.testing.assert_array_equal(exits.run(replay, cautious, np.ones(2, np.float32), 1).layers, [0, 6])


def test_who_left_ranks_below_the_top_even_if_all_predictions_were_too_high() -> None:
    replay, found = oracle([3.0, 1.0, 2.0, -9.0], spread=0.1)
    replay.finish = lambda chosen: np.array([-5.0, -5.5, -6.0, -9.0], np.float32)[chosen]  # type: ignore[method-assign]
    added = np.array([0.0, 0.5, 0.1, 0.0], np.float32)
    outcome = exits.run(replay, found, added, 2)
    np.testing.assert_array_equal(outcome.layers, [0, 6, 0, 6])
    assert outcome.logits[1] + 0.5 < outcome.logits[2] + 0.1
    assert outcome.logits[3] == -9.0


def test_rivals_from_outside_push_pairs_out() -> None:
    replay, found = oracle([0.0, 1.0], spread=0.1)
    outcome = exits.run(replay, found, np.zeros(2, np.float32), 1, np.array([7.0], np.float32))
    np.testing.assert_array_equal(outcome.layers, [6, 6])


@pytest.mark.parametrize("top_n", [3, 4, 99])
def test_nobody_leaves_when_all_are_wanted(top_n: int) -> None:
    replay, found = oracle([3.0, -9.0, 2.0], spread=0.1)
    assert not exits.run(replay, found, np.zeros(3, np.float32), top_n).layers.any()


def test_doubt_keeps_everyone() -> None:
    replay, found = oracle([3.0, -9.0, 2.0], spread=99.0)
    assert not exits.run(replay, found, np.zeros(3, np.float32), 1).layers.any()


def test_survivors_have_the_exact_logits_and_others_say_where_they_left(
    artifact: Artifact, native: NativeBackend
) -> None:
    query, passages = pairs(10, 80, 33, 200, 120, 7, 60, 61, 62, 150)
    scores = exits.score(native, heads(artifact, head(6, 1e-3)), query, passages, np.zeros(10, np.float32), 2)
    assert scores.exits is not None
    final = scores.exits == 0
    assert 0 < final.sum() < 10
    np.testing.assert_array_equal(scores.logits[final], native.score(query, passages).logits[final])
    assert set(scores.exits[~final].tolist()) == {6}


def test_the_outcome_depends_on_query_and_passages_alone(artifact: Artifact, native: NativeBackend) -> None:
    query, passages = pairs(10, 80, 33, 200, 120, 7, 60, 61, 62, 150)
    found, added = heads(artifact), np.linspace(0, 1, 10).astype(np.float32)
    first = exits.score(native, found, query, passages, added, 3)
    order = np.random.default_rng(0).permutation(10)
    other = exits.score(NativeBackend.load(artifact, 1), found, query, passages.take(order), added[order], 3)
    np.testing.assert_array_equal(first.logits[order], other.logits)
    np.testing.assert_array_equal(first.exits[order], other.exits)  # type: ignore[index]


def test_waves_compete_with_those_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        """Starts pairs whose logit is their passage's only token."""

        def start(self, query_ids: np.ndarray, passages: Passages) -> Replay:
            replay, _ = oracle(passages.ids[passages.starts].tolist(), spread=0.1)
            replay.truncated, replay.query_truncated = np.zeros(len(passages), bool), False  # type: ignore[attr-defined]
            return replay

    monkeypatch.setattr(exits, "WAVE_PAIRS", 2)
    passages = Passages.pack([np.array([value], np.int32) for value in (1, 7, 3, 5, 9, 2)])
    _, found = oracle([0.0], spread=0.1)
    scores = exits.score(Known(), found, np.zeros(1, np.int32), passages, np.zeros(6, np.float32), 1)  # type: ignore[arg-type]
    # 5 would win its own wave, and 7 has won one already.
    np.testing.assert_array_equal(scores.exits, [6, 0, 6, 6, 0, 6])  # type: ignore[arg-type]


def test_heads_survive_the_disk(artifact: Artifact, tmp_path: Path) -> None:
    found = heads(artifact)
    found.write(tmp_path / exits.FILE)
    again = ExitHeads.read(tmp_path / exits.FILE, artifact)
    assert (again.margin, again.margin_alone, again.model) == (found.margin, found.margin_alone, found.model)
    assert again.fitted == found.fitted
    states = np.random.default_rng(2).normal(size=(5, HIDDEN)).astype(np.float32)
    near = np.linspace(0, 1, 5, dtype=np.float32)
    for one, other in zip(found.heads, again.heads, strict=True):
        assert one.layer == other.layer
        np.testing.assert_array_equal(one.predict(states, near), other.predict(states, near))


def test_a_model_without_heads_has_none(artifact: Artifact, tmp_path: Path) -> None:
    assert ExitHeads.find(replace(artifact, path=tmp_path)) is None


def test_heads_of_another_model_are_refused(artifact: Artifact, tmp_path: Path) -> None:
    replace(heads(artifact), model="0" * 64).write(tmp_path / exits.FILE)
    with pytest.raises(ModelError, match="fitted for another model"):
        ExitHeads.read(tmp_path / exits.FILE, artifact)


@pytest.mark.parametrize("place", [3, 40, 200, -3])
def test_any_changed_byte_is_found(place: int, artifact: Artifact, tmp_path: Path) -> None:
    path = tmp_path / exits.FILE
    heads(artifact).write(path)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactDamagedError, match="digest"):
        ExitHeads.read(path, artifact)


@pytest.mark.parametrize("layer", [0, 12])
def test_heads_that_the_model_has_no_layer_for_are_refused(layer: int, artifact: Artifact, tmp_path: Path) -> None:
    heads(artifact, head(layer)).write(tmp_path / exits.FILE)
    with pytest.raises(ModelError, match="not as expected"):
        ExitHeads.read(tmp_path / exits.FILE, artifact)


def test_the_file_is_json_that_says_how_it_was_made(artifact: Artifact, tmp_path: Path) -> None:
    heads(artifact).write(tmp_path / exits.FILE)
    said = json.loads((tmp_path / exits.FILE).read_text("utf-8"))
    assert said["fitted"] == {"on": "nothing"}
    assert [entry["layer"] for entry in said["heads"]] == [6, 8]


def reranker(backend: object, artifact: Artifact, found: ExitHeads | None, like: CrossEncoder) -> Reranker:
    return Reranker(CrossEncoder(artifact, like.tokenizer, Selected(backend, "test"), found))  # type: ignore[arg-type]


PASSAGES = [
    "Payouts to merchants abroad take two days, since the target currency is bought first.",
    "",
    "Flour, water, salt and patience are all that a sourdough needs.",
    "A payout abroad is converted and handed to a partner bank.",
    "Each webhook carries a timestamp and an HMAC of the body.",
    "The oven on the third floor is warm from six in the morning.",
]


def test_fast_hits_say_where_they_ended(artifact: Artifact, native: NativeBackend, cross_encoder: CrossEncoder) -> None:
    ranker = reranker(native, artifact, heads(artifact, head(6, 1e-3)), cross_encoder)
    assert ranker.encoder.efforts == ("exact", "fast")
    exact = {hit.index: hit for hit in ranker.rank("how long do payouts take?", PASSAGES, 6)}
    fast = ranker.rank("how long do payouts take?", PASSAGES, 1, effort="fast")
    assert all(hit.exit_layer is None for hit in exact.values())
    everyone = ranker.encoder.score(
        ranker.encoder.tokenizer.encode("how long do payouts take?"),
        Passages.pack(ranker.encoder.tokenizer.encode_batch(PASSAGES)),
        effort="fast",
        top_n=1,
    )
    assert everyone.exits is not None
    assert everyone.exits.any()
    assert everyone.logits[1] == BLANK_LOGIT
    (hit,) = fast
    assert hit.exit_layer in {None, 6}
    if hit.exit_layer is None:
        assert hit.logit == exact[hit.index].logit


def test_without_heads_or_layers_fast_is_exact(
    artifact: Artifact, native: NativeBackend, cross_encoder: CrossEncoder
) -> None:
    class Whole:
        """A backend that cannot stop half way."""

        name = "whole"
        score, embed = native.score, native.embed

    for ranker in (
        reranker(native, artifact, None, cross_encoder),
        reranker(Whole(), artifact, heads(artifact), cross_encoder),
    ):
        assert ranker.encoder.efforts == ("exact",)
        assert ranker.rank("payouts", PASSAGES, 3, effort="fast") == ranker.rank("payouts", PASSAGES, 3)


def test_an_unknown_effort_is_refused(cross_encoder: CrossEncoder) -> None:
    with pytest.raises(QueryError, match="effort: got 'lazy'; expected exact or fast"):
        Reranker(cross_encoder).rank("payouts", PASSAGES, effort="lazy")


def test_a_partial_run_belongs_to_one_call(native: NativeBackend) -> None:
    assert isinstance(native.start(*pairs(3)), PartialRun)


def test_verify_reads_the_heads_too(artifact: Artifact, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(artifact.path, folder)
    heads(artifact).write(folder / exits.FILE)

    def golden(model: Artifact, backend: str, inputs: object) -> tuple[str, np.ndarray]:
        return backend, model.golden.outputs

    assert exits.FILE in models.verify(str(folder), runner=golden).files
    (folder / exits.FILE).write_bytes((folder / exits.FILE).read_bytes()[:-1])
    with pytest.raises(ArtifactDamagedError, match="exits"):
        models.verify(str(folder), runner=golden)


def test_the_model_comes_with_heads_that_know_their_origin(artifact: Artifact) -> None:
    found = ExitHeads.find(artifact)
    assert found is not None
    assert [each.layer for each in found.heads] == [6, 8, 9]
    assert found.fitted["settings"]["margin_alone"] == found.margin_alone > found.margin
    assert len(found.fitted["pairs_sha256"]) == 3
    # The later the layer, the less is left for similarity to explain, and the surer the guess.
    for of in (lambda each: each.share, lambda each: float(each.spread.mean())):
        values = [of(each) for each in found.heads]
        assert values == sorted(values, reverse=True)
        assert values[-1] > 0
