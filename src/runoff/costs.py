"""What a runoff costs on this machine: calibrated once, kept on disk, corrected as queries run.

A pair of T tokens takes ``token x T + square x T^2`` milliseconds of one thread: products with weights grow with the
tokens, attention with their square. A call takes ``call`` on top. Work is dealt by pair, so a call on n threads lasts
as long as the work of all pairs over n, and at least as long as its longest pair.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .assembly import SPECIALS, Passages

FORMAT_VERSION = 1
FOLDER_VARIABLE = "RUNOFF_CACHE_DIR"

# Tokens of the pairs that calibration scores, and how many a thread gets: 0.5 s in all where a core does 3,000 tokens a
# second.
_SHAPES = ((64, 2), (256, 1))
_ROUNDS = 3
# What handing a call to the threads takes, milliseconds; too little to be found among the noise.
_CALL = 0.2
_QUERY = 8
# Ids that every vocabulary of word pieces has; what they say does not change how long they take.
_FIRST_ID, _LAST_ID = 1000, 20000
# How much the newest run counts, and how many mean deviations above the mean pace a plan allows for.
_SMOOTHING = 0.1
_CAUTION = 2.0
_LEAST_DEVIATION, _MOST_PACE = 0.02, 20.0

Milliseconds = NDArray[np.float64]
PairScoring = Callable[[NDArray[np.int32], Passages], object]


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds that pairs take on an idle machine.

    Attributes:
        token: of one thread, for each token of a pair.
        square: of one thread, for each squared token.
        call: of a call, whatever its pairs.
        threads: threads that share the pairs of a call.
    """

    token: float
    square: float
    call: float
    threads: int

    def pairs(self, tokens: NDArray[np.int64]) -> Milliseconds:
        """Work of pairs on one thread: float64, shape [n]; ``tokens`` with query and special tokens."""
        counts = tokens.astype(np.float64)
        return self.token * counts + self.square * counts**2

    def wall(self, work: Milliseconds) -> float:
        """Milliseconds until a call has done the work of its pairs."""
        return self.call + max(float(work.sum()) / self.threads, float(work.max())) if len(work) else 0.0

    def fitting(self, work: Milliseconds, budget: float) -> int:
        """How many of these pairs, from the first, one call gets done within so many milliseconds."""
        walls = self.call + np.maximum(np.cumsum(work) / self.threads, np.maximum.accumulate(work))
        return int((walls <= budget).sum())


def measure(score: PairScoring, threads: int) -> Costs:
    """Time a few made-up pairs; takes about half a second on a slow machine. The least time of a few rounds counts.

    Args:
        score: scores a query with passages, as ``Backend.score``.
        threads: threads that it uses.
    """
    rng = np.random.default_rng(0)
    query = rng.integers(_FIRST_ID, _LAST_ID, _QUERY).astype(np.int32)

    def seconds(tokens: int, pairs: int) -> float:
        rows = [rng.integers(_FIRST_ID, _LAST_ID, tokens - _QUERY - SPECIALS).astype(np.int32) for _ in range(pairs)]
        passages, times = Passages.pack(rows), []
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            score(query, passages)
            times.append(time.perf_counter() - began)
        return min(times)

    seconds(*_SHAPES[0])
    (short, _), (long, _) = _SHAPES
    low, high = (max(0.0, seconds(tokens, each * threads) * 1e3 - _CALL) / each for tokens, each in _SHAPES)
    square = max(0.0, (high / long - low / short) / (long - short))
    return Costs(max(high / long - square * long, 1e-6), square, _CALL, threads)


def known(key: str, measured: Callable[[], Costs]) -> Costs:
    """The costs that are kept under a key, else those measured now, which are kept from then on.

    They lie in the folder that ``RUNOFF_CACHE_DIR`` names, else in the user's cache folder. One that cannot be read or
    written costs a measurement, no more.

    Args:
        key: what they depend on, such as processor, kernel, threads and model.
    """
    path = _folder() / f"costs-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["format_version"] == FORMAT_VERSION and said["key"] == key:
            return _sound(Costs(**said["costs"]))
    costs = measured()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        said = {"format_version": FORMAT_VERSION, "key": key, "costs": asdict(costs)}
        draft.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
    return costs


class Pace:
    """How much longer runs take than their costs say: learned from every run, told with the others in mind.

    Thread-safe. Callers who run at once share the machine's cores, so a run among k takes k times as long.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Until something is known, a run may well take half as long again.
        self._mean, self._deviation = 1.0, 0.3
        self._runs = 0
        self._running = 0

    def __enter__(self) -> Pace:
        with self._lock:
            self._running += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1

    @property
    def running(self) -> int:
        """Runs that are under way."""
        return self._running

    @property
    def factor(self) -> float:
        """What to multiply costs by for a time that is seldom exceeded."""
        with self._lock:
            return max(1, self._running) * (self._mean + _CAUTION * self._deviation)

    def learn(self, expected: float, took: float, running: int) -> None:
        """A run, or a part of one, took so many milliseconds where its costs said ``expected``.

        Args:
            running: runs that were under way meanwhile.
        """
        if expected <= 0:
            return
        seen = min(_MOST_PACE, took / (expected * max(1, running)))
        with self._lock:
            self._runs += 1
            weight, off = max(_SMOOTHING, 1 / (self._runs + 1)), seen - self._mean
            self._mean += weight * off
            self._deviation += weight * (max(_LEAST_DEVIATION, abs(off)) - self._deviation)


def _folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runoff"


def _sound(costs: Costs) -> Costs:
    numbers = (costs.token, costs.square, costs.call)
    if not (all(0 <= number < np.inf for number in numbers) and costs.token > 0 and costs.threads >= 1):
        raise ValueError(f"costs out of range: {costs}")
    return costs
