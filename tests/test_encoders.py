"""The contract of both encoders, over every backend that runs here: an output depends on its own text alone."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import backends, models
from runoff.assembly import Passages
from runoff.backends import Selected
from runoff.encoder import BiEncoder
from runoff.errors import BackendError, ModelError, QueryError
from runoff.reranker import BLANK_LOGIT, CrossEncoder, Reranker, sigmoid

TEXTS = [
    "A payout to a merchant abroad takes two working days.",
    "Domestic payouts run every hour.",
    "Evidence",
    "The oven on the third floor is warm from six in the morning. " * 20,
    "漢字 and émigrés 🏦",
    "A webhook carries a timestamp and a signature over its body, and is refused after five minutes. " * 3,
    "A payout to a merchant abroad takes two working days, or three.",
]
QUERY = "How long does a payout to another country take?"


@pytest.fixture(scope="module", params=list(backends.BACKENDS))
def cross(request: pytest.FixtureRequest) -> CrossEncoder:
    return CrossEncoder.load(backend=request.param)


@pytest.fixture(scope="module", params=list(backends.BACKENDS))
def bi(request: pytest.FixtureRequest) -> BiEncoder:
    return BiEncoder.load(backend=request.param)


def logits(cross: CrossEncoder, texts: list[str]) -> NDArray[np.float32]:
    tokenizer = cross.tokenizer
    return cross.score(tokenizer.encode(QUERY), Passages.pack(tokenizer.encode_batch(texts))).logits


def test_every_golden_input_is_within_the_tolerance(cross: CrossEncoder, bi: BiEncoder) -> None:
    for encoder in (cross, bi):
        found = models.verify(encoder.artifact, encoder.backend)
        assert found.error <= found.tolerance
        assert found.backend == encoder.backend


def test_a_pair_scores_the_same_alone_in_any_batch_and_order(cross: CrossEncoder) -> None:
    together = logits(cross, TEXTS)
    alone = np.concatenate([logits(cross, [text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)
    rng = np.random.default_rng(5)
    for _ in range(3):
        order = rng.permutation(len(TEXTS))
        np.testing.assert_array_equal(logits(cross, [TEXTS[i] for i in order]), together[order])


def test_a_text_has_the_same_vector_alone_in_any_batch_and_order(bi: BiEncoder) -> None:
    together = bi.encode(TEXTS)
    np.testing.assert_array_equal(together, np.concatenate([bi.encode([text]) for text in TEXTS]))
    np.testing.assert_array_equal(bi.encode(TEXTS[::-1]), together[::-1])
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)


def test_the_number_of_threads_changes_nothing(cross: CrossEncoder, bi: BiEncoder) -> None:
    one = CrossEncoder.load(cross.artifact, backend=cross.backend, threads=1)
    np.testing.assert_array_equal(logits(one, TEXTS), logits(cross, TEXTS))
    single = BiEncoder.load(bi.artifact, backend=bi.backend, threads=1)
    np.testing.assert_array_equal(single.encode(TEXTS), bi.encode(TEXTS))


def test_another_process_gives_the_same_bits(cross: CrossEncoder) -> None:
    code = (
        "from runoff.reranker import Reranker; import sys\n"
        "hits = Reranker.load(backend=sys.argv[1]).rank(sys.argv[2], sys.argv[3:], top_n=99)\n"
        "print(*(h.logit.hex() for h in sorted(hits, key=lambda h: h.index)))"
    )
    arguments = [sys.executable, "-c", code, cross.backend, QUERY, *TEXTS]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [float(logit).hex() for logit in logits(cross, TEXTS)]


def test_many_threads_may_call_at_once(cross: CrossEncoder) -> None:
    wanted = logits(cross, TEXTS)
    found: list[NDArray[np.float32]] = []
    callers = [threading.Thread(target=lambda: found.append(logits(cross, TEXTS))) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 6
    for scores in found:
        np.testing.assert_array_equal(scores, wanted)


def test_cached_ids_of_either_width_score_alike(cross: CrossEncoder) -> None:
    passages = Passages.pack(cross.tokenizer.encode_batch(TEXTS))
    narrow = Passages(passages.ids.astype(np.uint16), passages.starts, passages.lengths)
    query = cross.tokenizer.encode(QUERY)
    np.testing.assert_array_equal(cross.score(query, passages).logits, cross.score(query, narrow).logits)


def test_rank_orders_by_logit_and_keeps_the_given_index(cross: CrossEncoder) -> None:
    hits = Reranker(cross).rank(QUERY, TEXTS, top_n=99)
    assert sorted(hit.index for hit in hits) == list(range(len(TEXTS)))
    assert all(TEXTS[hit.index] == hit.text for hit in hits)
    assert {hits[0].index, hits[1].index} == {0, 6}
    assert all(a.logit >= b.logit for a, b in pairwise(hits))
    assert all(hit.score == sigmoid(hit.logit) for hit in hits)
    assert [hit.truncated for hit in hits] == [False] * len(TEXTS)
    assert len(Reranker(cross).rank(QUERY, TEXTS, top_n=2)) == 2


def test_equal_passages_keep_their_order(cross: CrossEncoder) -> None:
    assert [hit.index for hit in Reranker(cross).rank(QUERY, ["same text"] * 5, top_n=5)] == [0, 1, 2, 3, 4]


def test_no_candidates_give_no_hits(cross: CrossEncoder) -> None:
    assert Reranker(cross).rank(QUERY, []) == []
    assert Reranker(cross).rank(QUERY, ()) == []


def test_blank_passages_rank_last_with_a_finite_score(cross: CrossEncoder) -> None:
    hits = Reranker(cross).rank(QUERY, ["", "The Eiffel tower is painted every seven years.", " \n\t", "\x00"], top_n=4)
    assert hits[0].index == 1
    assert [hit.index for hit in hits[1:]] == [0, 2, 3]
    assert all(hit.logit == BLANK_LOGIT and 0 < hit.score < 1e-9 for hit in hits[1:])


def test_long_texts_are_cut_and_say_so(cross: CrossEncoder, bi: BiEncoder) -> None:
    (hit,) = Reranker(cross).rank(QUERY, ["many words " * 3000])
    assert hit.truncated
    tokens = cross.tokenizer.encode("question " * 5000)
    scores = cross.score(tokens, Passages.pack([cross.tokenizer.encode(TEXTS[0])]))
    assert scores.query_truncated
    (hit,) = Reranker(cross).rank("question " * 5000, TEXTS[:1])
    assert hit.query_truncated
    assert not hit.truncated
    assert np.isfinite(scores.logits).all()
    start = "many words " * 200
    np.testing.assert_array_equal(bi.encode([start]), bi.encode([start + "and one more"]))


def test_hostile_texts_have_vectors_and_scores(cross: CrossEncoder, bi: BiEncoder) -> None:
    texts = ["", " ", "\x00", "\ud800", "🏦" * 300, "a" * 5000, "[CLS] [SEP] [PAD] [MASK]"]
    assert np.isfinite(bi.encode(texts)).all()
    assert len(Reranker(cross).rank("\ud800?", texts, top_n=99)) == len(texts)
    assert bi.encode([]).shape == (0, 384)


def test_any_series_of_strings_will_do(cross: CrossEncoder, bi: BiEncoder) -> None:
    hits = Reranker(cross).rank(QUERY, TEXTS[:3])
    assert Reranker(cross).rank(QUERY, tuple(TEXTS[:3])) == hits
    assert Reranker(cross).rank(QUERY, np.array(TEXTS[:3])) == hits  # type: ignore[arg-type]
    np.testing.assert_array_equal(bi.encode(iter(TEXTS[:3])), bi.encode(TEXTS[:3]))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, -30522, -(2**31), 30522, 65535, 2**31 - 1])
def test_ids_that_the_vocabulary_does_not_have_are_an_error(cross: CrossEncoder, bi: BiEncoder, bad: int) -> None:
    good, damaged = np.array([2003], dtype=np.int32), np.array([2003, bad, 2003], dtype=np.int32)
    message = f"token id {bad}; expected 0 to 30521"
    with pytest.raises(BackendError, match=message):
        cross.score(good, Passages.pack([good, damaged]))
    with pytest.raises(BackendError, match=message):
        cross.score(damaged, Passages.pack([good]))
    with pytest.raises(BackendError, match=message):
        bi.embed([good, damaged])


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 33, 200, 508, 509, 510, 3000])
def test_every_length_scores_alike_beside_others(cross: CrossEncoder, length: int) -> None:
    rng = np.random.default_rng(length)
    query, other = (rng.integers(1996, 29000, size=size).astype(np.int32) for size in (1, 40))
    passage = rng.integers(1996, 29000, size=length).astype(np.int32)
    alone = cross.score(query, Passages.pack([passage]))
    both = cross.score(query, Passages.pack([other, passage]))
    assert alone.logits[0] == both.logits[1]
    assert alone.truncated[0] == both.truncated[1] == (length > 512 - 3 - 1)


def test_a_forked_child_scores_the_same(cross: CrossEncoder) -> None:
    code = (
        "import os, sys\nfrom runoff.reranker import Reranker\n"
        "reranker = Reranker.load(backend=sys.argv[1], threads=2)\n"
        "wanted = reranker.rank(sys.argv[2], sys.argv[3:])\n"
        "child = os.fork()\nsame = reranker.rank(sys.argv[2], sys.argv[3:]) == wanted\n"
        "if child == 0: os._exit(0 if same else 1)\n"
        "print(same, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    arguments = [sys.executable, "-c", code, cross.backend, QUERY, *TEXTS]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True 0\n"


def test_progress_is_told(bi: BiEncoder) -> None:
    steps: list[int] = []
    bi.encode(["short"] * 130, progress=steps.append)
    assert steps[-1] == 130
    assert steps == sorted(steps)


@pytest.mark.parametrize("query", ["", " \n", None, 5])
def test_a_blank_query_is_refused(cross: CrossEncoder, query: str) -> None:
    with pytest.raises(QueryError, match="query"):
        Reranker(cross).rank(query, TEXTS)


@pytest.mark.parametrize("top_n", [0, -1, 2.0, True, None])
def test_a_count_below_one_is_refused(cross: CrossEncoder, top_n: int) -> None:
    with pytest.raises(QueryError, match="top_n"):
        Reranker(cross).rank(QUERY, TEXTS, top_n)


def test_what_is_not_text_is_refused_by_its_place(cross: CrossEncoder, bi: BiEncoder) -> None:
    with pytest.raises(QueryError, match="passages: item 1 is int"):
        Reranker(cross).rank(QUERY, ["x", 5])  # type: ignore[list-item]
    for passages in ("x", b"x", None, 5):
        with pytest.raises(QueryError, match="passages: got one"):
            Reranker(cross).rank(QUERY, passages)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="texts: item 0 is NoneType"):
        bi.encode([None])  # type: ignore[list-item]


def test_the_wrong_kind_of_model_is_refused() -> None:
    with pytest.raises(ModelError, match="is a bi-encoder; expected a cross-encoder"):
        CrossEncoder.load(models.DEFAULT_BI_ENCODER)
    with pytest.raises(ModelError, match="is a cross-encoder; expected a bi-encoder"):
        BiEncoder.load(models.DEFAULT_CROSS_ENCODER)


def test_nan_never_leaves(cross: CrossEncoder) -> None:
    class Broken:
        name = "broken"

        def score(self, query_ids: object, passages: Passages) -> backends.Scores:
            return backends.Scores(np.full(len(passages), np.nan, np.float32), np.zeros(len(passages), bool), False)

        def embed(self, texts: Passages) -> NDArray[np.float32]:
            return np.full((len(texts), 384), np.inf, np.float32)

    selected = Selected(Broken(), "for the test")
    with pytest.raises(BackendError, match="not finite"):
        Reranker(CrossEncoder(cross.artifact, cross.tokenizer, selected)).rank(QUERY, TEXTS)
    with pytest.raises(BackendError, match="not finite"):
        BiEncoder(models.find(models.DEFAULT_BI_ENCODER), cross.tokenizer, selected).encode(TEXTS)


@pytest.mark.parametrize("logit", [-1e4, -30.0, -1.0, 0.0, 1.0, 30.0, 1e4])
def test_sigmoid_is_stable_and_symmetric(logit: float) -> None:
    assert 0.0 <= sigmoid(logit) <= 1.0
    assert sigmoid(logit) + sigmoid(-logit) == pytest.approx(1.0)
    assert sigmoid(0.0) == 0.5
