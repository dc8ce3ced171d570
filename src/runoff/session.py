"""An onnxruntime session that any number of threads share, each run on the thread that asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import cpu
from .errors import BackendError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Ids = NDArray[np.int64]


class Session:
    """Runs a BERT graph on token ids, types and mask.

    Args:
        native: an onnxruntime session with one thread a run.
    """

    def __init__(self, native: InferenceSession) -> None:
        self._native = native
        self._inputs = {entry.name for entry in native.get_inputs()}

    @classmethod
    def load(cls, graph: Path) -> Session:
        """Load a graph and its weights; onnxruntime is imported here and nowhere else.

        Raises:
            BackendError: onnxruntime is missing or cannot read the graph.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise BackendError("onnxruntime is not installed; pip install onnxruntime") from error
        try:
            native = onnxruntime.InferenceSession(str(graph), _options(onnxruntime), providers=["CPUExecutionProvider"])
        except Exception as error:  # the library's own classes derive from Exception alone
            raise BackendError(f"{graph}: onnxruntime cannot load it ({_first_line(error)})") from error
        return cls(native)

    def run(self, ids: Ids, types: Ids, mask: Ids) -> NDArray[np.float32]:
        """The graph's output for a batch; the lock on Python is free meanwhile.

        Args:
            ids, types, mask: int64, shape [batch, width].

        Raises:
            BackendError: onnxruntime failed.
        """
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        try:
            (output,) = self._native.run(None, {name: feeds[name] for name in self._inputs})
        except Exception as error:  # as above
            raise BackendError(f"onnxruntime failed on a batch of shape {ids.shape} ({_first_line(error)})") from error
        result: NDArray[np.float32] = output
        return result


_EXACT = {"avx512_vnni", "avx_vnni"}


def _options(onnxruntime: Any) -> Any:
    """One thread a run, no spinning, memory in bounds.

    The arena keeps what the longest runs needed and hands it out again: resident memory is flat after a few hundred
    runs of varied lengths. Memory patterns keep a plan for every length ever seen and gain no time; without the arena,
    or with its shrinkage, freed blocks of many sizes stay with the allocator, which takes two to six times the memory.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4  # errors are raised, so they need not be printed too
    if not _EXACT & set(cpu.features()):
        # Without VNNI, x86 kernels add pairs of products in 16 bits and may saturate; with it this only costs time.
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
