"""The choice of a backend by its self-test, and the padded path."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runoff import backends, models, native
from runoff.artifact import Artifact
from runoff.assembly import Passages
from runoff.backends import OnnxRuntimeBackend
from runoff.encoder import BiEncoder
from runoff.errors import BackendError
from runoff.reranker import CrossEncoder
from runoff.threads import Workers


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return models.find(models.DEFAULT_CROSS_ENCODER)


def with_shifted_golden(artifact: Artifact) -> Artifact:
    golden = artifact.golden
    return replace(artifact, golden=replace(golden, outputs=golden.outputs + np.float32(3)))


@pytest.mark.parametrize("name", backends.BACKENDS)
def test_the_self_test_tells_its_inputs_and_time(artifact: Artifact, name: str) -> None:
    selected = backends.select(artifact, name)
    assert selected.backend.name == name
    assert selected.self_test_ms > 0
    assert f"asked for; it passes the golden self-test (4 inputs, {selected.self_test_ms:.0f} ms)" == selected.reason


def test_auto_takes_the_first_that_passes(artifact: Artifact) -> None:
    selected = backends.select(artifact)
    assert selected.backend.name in backends.BACKENDS
    assert selected.reason.startswith(f"the first of {', '.join(backends.BACKENDS)} that passes")


@pytest.mark.parametrize("name", ["gpu", "", "ONNXRUNTIME"])
def test_a_backend_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(BackendError, match=f"backend: got '{name}'; this installation has .*onnxruntime.*auto"):
        CrossEncoder.load(backend=name)


def test_a_backend_that_misses_the_golden_outputs_is_refused(artifact: Artifact) -> None:
    with pytest.raises(BackendError, match="misses ms-marco-MiniLM-L-12-v2's golden outputs by"):
        CrossEncoder.load(with_shifted_golden(artifact), backend="onnxruntime")
    with pytest.raises(BackendError, match="no backend can run it here"):
        CrossEncoder.load(with_shifted_golden(artifact))
    with pytest.raises(BackendError, match="golden outputs"):
        BiEncoder.load(with_flipped_golden(models.find(models.DEFAULT_BI_ENCODER)), backend="onnxruntime")


def with_flipped_golden(artifact: Artifact) -> Artifact:
    golden = artifact.golden
    return replace(artifact, golden=replace(golden, outputs=golden.outputs[:, ::-1]))


def test_a_backend_that_gives_nan_fails_its_self_test(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(OnnxRuntimeBackend):
        def score(self, query_ids: NDArray[np.int32], passages: Passages) -> backends.Scores:
            return replace(super().score(query_ids, passages), logits=np.full(len(passages), np.nan, np.float32))

    monkeypatch.setitem(backends.BACKENDS, "onnxruntime", Broken.load)
    with pytest.raises(BackendError, match="by inf"):
        backends.select(artifact, "onnxruntime")


def test_auto_passes_over_a_backend_that_fails_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(artifact: Artifact, threads: int | None) -> backends.Backend:
        raise BackendError("this CPU lacks what it takes")

    monkeypatch.setattr(backends, "BACKENDS", {"first": broken, "onnxruntime": OnnxRuntimeBackend.load})
    with pytest.warns(RuntimeWarning, match="first: this CPU lacks"):
        encoder = BiEncoder.load()
    assert encoder.backend == "onnxruntime"
    assert "this CPU lacks" in encoder.backend_reason


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that no kernel is made for."""
    kernel_name = native._encoder.kernel_name
    monkeypatch.delenv(native.KERNEL_VARIABLE, raising=False)
    monkeypatch.setattr(native._encoder, "kernel_name", lambda wanted: kernel_name(wanted or native.PORTABLE))


@pytest.mark.usefixtures("plain")
def test_auto_measures_plain_c_where_no_kernel_is_made_for_the_cpu(artifact: Artifact) -> None:
    selected = backends.select(artifact)  # a warning would be an error: it is no fault to be the slower
    taken = re.fullmatch(
        r"the fastest \((\w+) (\d+) ms, (\w+) (\d+) ms for a short input\) that passes .*", selected.reason
    )
    assert taken
    assert {taken[1], taken[3]} == {"native", "onnxruntime"}
    assert int(taken[2]) <= int(taken[4])
    assert selected.backend.name == taken[1]
    with pytest.raises(BackendError, match=r"Use onnxruntime, or RUNOFF_KERNEL=portable"):
        backends.select(artifact, "native")


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("faster", ["native", "onnxruntime"])
def test_auto_takes_what_measured_faster(artifact: Artifact, faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_speed", lambda backend, *_: 3.0 + (backend.name != faster))
    selected = backends.select(artifact)
    assert (selected.backend.name, backends.kernel(selected.backend) or native.PORTABLE) == (faster, native.PORTABLE)
    assert f"the fastest ({faster} 3 ms" in selected.reason


@pytest.mark.usefixtures("plain")
def test_plain_c_runs_where_there_is_no_onnxruntime(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(artifact: Artifact, threads: int | None) -> backends.Backend:
        raise BackendError("onnxruntime is not installed")

    monkeypatch.setitem(backends.BACKENDS, "onnxruntime", missing)
    assert backends.select(artifact).backend.name == "native"


class SumSession:
    """Stands for a model whose output does not depend on padding: the sum of a pair's ids."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def run(self, ids: NDArray[Any], types: NDArray[Any], mask: NDArray[Any]) -> NDArray[np.float32]:
        self.shapes.append(ids.shape)
        sums: NDArray[np.float32] = (ids * mask + types).sum(axis=1, keepdims=True).astype(np.float32)
        return sums


@pytest.mark.parametrize("seed", range(10))
def test_padded_runs_give_each_passage_its_own_score(artifact: Artifact, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens = [
        rng.integers(1000, 20000, size=n).astype(np.int32) for n in rng.integers(0, 700, size=rng.integers(0, 30))
    ]
    query, session = rng.integers(1000, 20000, size=8).astype(np.int32), SumSession()
    backend = OnnxRuntimeBackend(replace(artifact, precision="fp32"), session, Workers(2))  # type: ignore[arg-type]
    padded, runs = backend.score_padded(query, Passages.pack(tokens)), len(session.shapes)
    plain = backend.score(query, Passages.pack(tokens))
    np.testing.assert_array_equal(padded.logits, plain.logits)
    np.testing.assert_array_equal(padded.truncated, [len(ids) > 512 - 3 - 8 for ids in tokens])
    assert all(rows == 1 or rows * width <= backends.PADDED_RUN_TOKENS for rows, width in session.shapes[:runs])
    assert [rows for rows, _ in session.shapes[runs:]] == [1] * len(tokens)


def test_a_quantised_artifact_is_never_padded(artifact: Artifact) -> None:
    backend = OnnxRuntimeBackend.load(artifact)
    with pytest.raises(BackendError, match="is int8; padded runs take fp32"):
        backend.score_padded(np.arange(5, dtype=np.int32), Passages.pack([np.arange(5)]))
