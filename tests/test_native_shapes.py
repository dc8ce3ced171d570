"""The native encoder in every shape and under every load: lengths, counts, odd activations, threads, forks and ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from native_parts import KERNELS
from native_reference import Reference
from native_synthetic import Synthetic
from runoff import _encoder, native
from runoff.assembly import Passages
from runoff.native import NativeBackend

LENGTHS = (1, 2, 3, 31, 32, 33, 255, 256, 511, 512)
QUERY = np.array([5, 6, 7], dtype=np.int32)


def small(kind: str = "cross-encoder", seed: int = 0) -> Synthetic:
    """The smallest model that has a layer for all tokens and a last one."""
    return Synthetic(kind, seed, heads=1, intermediate=32)


def texts_of(lengths: list[int], seed: int = 0) -> list[NDArray[np.int32]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 50, length).astype(np.int32) for length in lengths]


def encode(encoder: _encoder.Encoder, texts: list[NDArray[np.int32]], threads: int = 1) -> NDArray[np.float32]:
    """Logits of sequences of ids, packed."""
    out = np.empty(len(texts), np.float32)
    starts = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    encoder.run(np.concatenate(texts), None, starts, threads, out)
    return out


@pytest.fixture(scope="module", params=KERNELS)
def backend(request: pytest.FixtureRequest) -> NativeBackend:
    return small(seed=3).backend(request.param, threads=2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_length_gives_the_same_bits_alone_and_beside_any_other(kernel: str) -> None:
    encoder = native.pack(small(), kernel)  # type: ignore[arg-type]
    texts = texts_of(list(LENGTHS))
    alone = np.concatenate([encode(encoder, [text]) for text in texts])
    assert len(set(alone.tolist())) == len(LENGTHS)
    for one in range(len(texts)):
        for other in range(len(texts)):
            np.testing.assert_array_equal(encode(encoder, [texts[one], texts[other]]), alone[[one, other]])
    for threads in (1, 2, 3, 8):
        order = np.random.default_rng(threads).permutation(len(texts))
        np.testing.assert_array_equal(encode(encoder, [texts[i] for i in order], threads), alone[order])


def test_one_to_two_hundred_candidates(backend: NativeBackend) -> None:
    texts = texts_of(np.random.default_rng(5).integers(0, 20, 200).tolist())
    every = backend.score(QUERY, Passages.pack(texts)).logits
    assert np.isfinite(every).all()
    for count in range(1, 201):
        np.testing.assert_array_equal(backend.score(QUERY, Passages.pack(texts[:count])).logits, every[:count])


def test_more_short_texts_than_a_group_has_tokens(backend: NativeBackend) -> None:
    texts = texts_of([1] * 3000)
    scores = backend.score(QUERY, Passages.pack(texts)).logits
    by_text = {int(text[0]): score for text, score in zip(texts, scores, strict=True)}
    np.testing.assert_array_equal(scores, [by_text[int(text[0])] for text in texts])


def flattened(model: Synthetic, shift: float) -> Synthetic:
    """All states equal: the embedding's norm forgets its input."""
    model.arrays["bert.embeddings.LayerNorm.weight"][:] = 0
    model.arrays["bert.embeddings.LayerNorm.bias"][:] = shift
    return model


def nothing(model: Synthetic) -> Synthetic:
    """Every weight, bias and embedding zero."""
    for name, values in model.arrays.items():
        if not name.endswith("_scale"):
            values[:] = model.tensors[name].zero_point
    return model


def scaled(model: Synthetic, factor: float) -> Synthetic:
    """Layer norms that give numbers of another size."""
    for name in model.arrays:
        if "LayerNorm" in name:
            model.arrays[name] *= np.float32(factor)
    return model


ODD = {
    "all zero": lambda model: nothing(model),
    "all equal": lambda model: flattened(model, 0.7),
    "all equal and negative": lambda model: flattened(model, -3.0),
    "zero states": lambda model: flattened(model, 0.0),
    "large": lambda model: scaled(model, 1e3),
    "huge": lambda model: scaled(model, 1e8),
    "small": lambda model: scaled(model, 1e-6),
    "next to nothing": lambda model: scaled(model, 1e-33),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
@pytest.mark.parametrize("odd", list(ODD))
def test_odd_activations_agree_with_the_reference(odd: str, kind: str, kernel: str) -> None:
    model = ODD[odd](Synthetic(kind, seed=7))
    reference, encoder = Reference(model, kernel), native.pack(model, kernel)  # type: ignore[arg-type]
    for ids in texts_of([1, 2, 13, 33]):
        types = np.zeros_like(ids)
        out = np.empty(1 if kind == "cross-encoder" else model.hidden, np.float32)
        encoder.run(ids, None, np.array([0, len(ids)], np.int64), 1, out)
        wanted = reference.logit(ids, types) if kind == "cross-encoder" else reference.vector(ids)
        assert np.isfinite(out).all()
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-4)


def test_eight_threads_at_once_get_the_same_bits(backend: NativeBackend) -> None:
    passages = Passages.pack(texts_of([3, 200, 17, 509, 1, 64, 90, 0, 33]))
    wanted = backend.score(QUERY, passages).logits
    start, found = threading.Barrier(8), []

    def call() -> None:
        start.wait()
        found.extend(backend.score(QUERY, passages).logits for _ in range(10))

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 80
    for logits in found:
        np.testing.assert_array_equal(logits, wanted)


def test_threads_with_different_work_do_not_mix_it_up(backend: NativeBackend) -> None:
    """Two models and many shapes share one pool."""
    vectors = small("bi-encoder", seed=4).backend(backend.kernel, threads=2)
    batches = [Passages.pack(texts_of([5 * n + 1, 40, n], seed=n)) for n in range(8)]
    wanted = [(backend.score(QUERY, batch).logits, vectors.embed(batch)) for batch in batches]
    wrong = []

    def call(number: int) -> None:
        for _ in range(10):
            logits, found = backend.score(QUERY, batches[number]).logits, vectors.embed(batches[number])
            if not (np.array_equal(logits, wanted[number][0]) and np.array_equal(found, wanted[number][1])):
                wrong.append(number)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to read the resident size from")
def test_ten_thousand_calls_leave_memory_flat() -> None:
    encoder = native.pack(small(), KERNELS[0])  # type: ignore[arg-type]
    batches = [texts_of(np.random.default_rng(n).integers(1, 8, 12).tolist()) for n in range(10)]

    def calls(rounds: int) -> int:
        for _ in range(rounds):
            for batch in batches:
                encode(encoder, batch, threads=2)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = calls(100)
    assert calls(1000) - before < 1 << 20


def run(code: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, with a model and its scores to begin with."""
    begin = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import os, signal, threading, time\nimport numpy as np\n"
        "from native_synthetic import Synthetic\nfrom test_native_shapes import QUERY, KERNELS, texts_of\n"
        "from runoff.assembly import Passages\n"
        "backend = Synthetic('cross-encoder').backend(KERNELS[0], threads=2)\n"
        "passages = Passages.pack(texts_of([3, 200, 17, 509, 1, 64] * 4))\n"
        "score = lambda: backend.score(QUERY, passages).logits.tobytes()\n"
        "wanted = score()\n"
        "def forever():\n    while True: score()\n"
    )
    return subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=60)


def test_forks_beside_busy_callers_are_survived() -> None:
    """Each child starts a pool of its own, whatever the parent's pool was at; so does the child's child."""
    done = run(
        "for _ in range(3): threading.Thread(target=forever, daemon=True).start()\n"
        "children = []\n"
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        same = score() == wanted\n"
        "        inner = os.fork()\n"
        "        if inner == 0: os._exit(0 if score() == wanted else 3)\n"
        "        code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])\n"
        "        os._exit(code if same and score() == wanted else 4)\n"
        "    children.append(child)\n"
        "print(*{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}, score() == wanted)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0 True\n", "", 0)


def test_ctrl_c_reaches_the_main_thread_and_leaves_the_pool_usable() -> None:
    done = run(
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    forever()\nexcept KeyboardInterrupt:\n    print(score() == wanted)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)


@pytest.mark.skipif(sys.platform != "linux", reason="no limit on address space to run into")
def test_a_thread_without_memory_leaves_its_share_to_the_caller() -> None:
    """Room for a thread's stack, but not for its workspace of some 4 MB; the caller's is there since its first call."""
    done = run(
        "import resource\n"
        "backend = Synthetic('cross-encoder', heads=12, intermediate=1536, layers=1).backend(KERNELS[0], threads=1)\n"
        "wanted = score()\n"
        "backend._threads = 5\n"
        "for megabytes in range(8, 60, 2):\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), -1))\n"
        "    same = score() == wanted\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\n"
        "    assert same\n"
        "print('end')"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)


def test_ctrl_c_ends_a_call_between_its_spans(backend: NativeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C code hears no signal, so a call of many passages goes through it a span at a time, with the same bits."""
    passages = Passages.pack(texts_of([30] * 50))
    whole = backend.score(QUERY, passages).logits
    monkeypatch.setattr(native, "SPAN_TOKENS", 100)
    np.testing.assert_array_equal(backend.score(QUERY, passages).logits, whole)
    run = backend.start(QUERY, passages)
    run.advance(np.arange(50), 1)
    np.testing.assert_array_equal(run.finish(np.arange(50)), whole)

    class Interrupted:
        runs = 0

        def run(self, *arguments: Any) -> None:
            self.runs += 1
            backend._encoder.run(*arguments)
            if self.runs == 3:
                signal.raise_signal(signal.SIGINT)

    encoder = Interrupted()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            NativeBackend(backend._artifact, encoder, backend.kernel, 2).score(QUERY, passages)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGINT, before)
    assert encoder.runs == 3


def test_an_interpreter_ends_at_once_beside_busy_callers() -> None:
    done = run("for _ in range(3): threading.Thread(target=forever, daemon=True).start()\nscore()\nprint('end')")
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)
