"""The machine's int8 peak, measured by peak.c, and the operations that a cross-encoder has to do at least."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from runoff.artifact import Artifact

STEPS = 3_000_000


class Peak:
    """Compiles the loops with ``cc``; ``operations_per_second(n)`` runs one on n threads at once."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "peak.so"
            source = Path(__file__).with_name("peak.c")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
            self._run: Callable[[int, int], int] = ctypes.CDLL(str(library)).peak_run
        self._run.restype, self._run.argtypes = ctypes.c_int64, [ctypes.c_int64, ctypes.c_int]  # type: ignore[attr-defined]
        self._each = self._run(1, 0)

    def operations_per_second(self, threads: int, rounds: int = 5, summed: bool = False) -> float:
        """The best of some rounds; ``summed`` is with what it takes to add products up, where that is apart."""
        return max(self._once(threads, summed) for _ in range(rounds))

    def _once(self, threads: int, summed: bool) -> float:
        workers = [threading.Thread(target=self._run, args=(STEPS, summed)) for _ in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return threads * STEPS * self._each / (time.perf_counter() - started)


def operations(artifact: Artifact, lengths: np.ndarray) -> int:
    """Twice the multiply-adds of the linear layers and of attention over real tokens, every layer whole, no padding."""
    hidden, inner = artifact.hidden, artifact.intermediate
    linear = int(lengths.sum()) * (4 * hidden * hidden + 2 * hidden * inner)
    attention = int((lengths.astype(np.int64) ** 2).sum()) * 2 * hidden
    return 2 * artifact.layers * (linear + attention)
