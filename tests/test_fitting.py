"""Fitting exits: heads find what there is to find, say honestly how wrong they are, and come out the same again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runoff import fitting
from runoff.assembly import Passages
from runoff.errors import ModelError
from runoff.exits import lift
from runoff.fitting import Evidence, FitSettings, Replay

HIDDEN, QUERIES, EACH = 16, 80, 12
SETTINGS = FitSettings(layers=(1, 2), top_n=3)


def evidence(noise: tuple[float, float] = (1.0, 0.2), seed: int = 4) -> Evidence:
    """Logits that are linear in the states of both layers, but for noise."""
    rng = np.random.default_rng(seed)
    rows = QUERIES * EACH
    states = {layer: rng.normal(size=(rows, HIDDEN)).astype(np.float32) for layer in (1, 2)}
    logits = rng.normal(-4, 4, rows).astype(np.float32)
    for layer, sd in zip((1, 2), noise, strict=True):
        states[layer][:, 3] = 0.5 * (logits + rng.normal(0, sd, rows)) - 1
    offsets = rng.uniform(0.2, 0.8, rows).astype(np.float32)
    return Evidence(states, logits, offsets, np.repeat(np.arange(QUERIES), EACH))


def test_heads_predict_and_know_how_well() -> None:
    found = fitting.fit(evidence(), "m", SETTINGS, {})
    fresh = evidence(seed=9)
    for head, noise in zip(found.heads, (1.0, 0.2), strict=True):
        guesses, spread = head.predict(fresh.states[head.layer], np.zeros(len(fresh.logits), np.float32))
        error = float(np.std(fresh.logits - guesses))
        assert error == pytest.approx(noise, rel=0.1)
        assert float(np.sqrt(np.square(spread).mean())) == pytest.approx(error, rel=0.1)


def test_the_spread_follows_the_prediction() -> None:
    rng = np.random.default_rng(6)
    known = evidence((0.0, 0.0))
    wild = np.where(known.logits > -4, 2.0, 0.1) * rng.normal(size=len(known.logits))
    known.states[1][:, 3] += wild.astype(np.float32) / 2
    head = fitting.fit(known, "m", SETTINGS, {}).heads[0]
    assert head.spread[-1] > 1.5 * head.spread[0]


def test_offsets_explain_what_states_do_not_say() -> None:
    known, fresh = evidence((0.0, 0.0)), evidence((0.0, 0.0), seed=9)
    for each in (known, fresh):
        each.states[1][:, 3] -= 3 * (each.offsets - 0.5) / 2
    head = fitting.fit(known, "m", SETTINGS, {}).heads[0]
    assert head.share == pytest.approx(3, rel=0.1)
    lifts = np.concatenate([lift(query.offsets) for query in fresh.by_query()])
    without, _ = head.predict(fresh.states[1], 0 * lifts)
    within, _ = head.predict(fresh.states[1], lifts)
    assert np.std(fresh.logits - within) < 0.5 * np.std(fresh.logits - without)


def test_offsets_that_are_all_the_same_explain_nothing() -> None:
    known = replace(evidence(), offsets=np.full(QUERIES * EACH, 0.5, np.float32))
    assert fitting.fit(known, "m", SETTINGS, {}).heads[0].share == 0


def test_a_wider_margin_keeps_more_and_the_record_says_so() -> None:
    kept = []
    for margin in (0.05, 3.0):
        found = fitting.fit(evidence(), "m", replace(SETTINGS, margin=margin), {})
        assert found.margin == margin
        kept.append(found.fitted["agreement_out_of_fold"])
        fresh = [fitting.agreement(query, found, SETTINGS) for query in evidence(seed=10).by_query()]
        assert float(np.mean(fresh)) == pytest.approx(kept[-1], abs=0.05)
    assert kept[0] < kept[1] - 0.02
    assert kept[1] > 0.99


def test_the_same_evidence_gives_the_same_heads() -> None:
    one, two = (fitting.fit(evidence(), "m", SETTINGS, {"on": "noise"}) for _ in range(2))
    assert (one.margin, one.fitted) == (two.margin, two.fitted)
    for a, b in zip(one.heads, two.heads, strict=True):
        np.testing.assert_array_equal(a.weights, b.weights)
    other = fitting.fit(evidence(), "m", replace(SETTINGS, seed=1), {})
    assert (other.heads[0].spread != one.heads[0].spread).any()


def test_too_few_queries_are_refused() -> None:
    few = evidence().take(np.arange(4 * EACH))
    with pytest.raises(ModelError, match="queries: got 4; expected at least 5"):
        fitting.fit(few, "m", SETTINGS, {})


def test_gathering_keeps_states_and_logits_of_every_pair() -> None:
    known = evidence()
    starts = iter(range(3))

    def start(query: np.ndarray, passages: Passages) -> Replay:
        return Replay(known.take(known.queries == next(starts)))

    cached = Passages.pack([np.zeros(1, np.int32)] * EACH)
    offsets = np.arange(EACH, dtype=np.float32)
    seen: list[tuple[int, int]] = []
    found = fitting.gather(start, [(np.zeros(1, np.int32), cached, offsets)] * 3, (1, 2), lambda *at: seen.append(at))
    np.testing.assert_array_equal(found.logits, known.logits[: 3 * EACH])
    np.testing.assert_array_equal(found.states[2], known.states[2][: 3 * EACH])
    np.testing.assert_array_equal(found.queries, known.queries[: 3 * EACH])
    np.testing.assert_array_equal(found.offsets, np.tile(offsets, 3))
    assert seen == [(1, 3), (2, 3), (3, 3)]
