"""The steps of an export, in order; imported only when the extra is installed."""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import onnx
import optimum.exporters.onnx
from numpy.typing import NDArray

from ..artifact import GRAPH, MANIFEST, TOKENIZER, WEIGHTS, Golden, TensorInfo
from ..errors import ExportError
from . import golden as goldens
from . import manifest, quantize
from .checkpoint import Checkpoint, opened
from .graph import Graph, Quantizer
from .naming import canonical
from .recover import read_grids
from .settings import ExportSettings

OPSET = 18
_TASKS = {"bi-encoder": "feature-extraction", "cross-encoder": "text-classification"}
_METRICS = {"bi-encoder": "cosine", "cross-encoder": "logit"}
# Largest golden error allowed: fp32 has to be the torch model; what int8 costs is measured in docs/models.md.
TOLERANCES = {
    ("bi-encoder", "fp32"): 1e-5,
    ("cross-encoder", "fp32"): 1e-3,
    ("bi-encoder", "int8"): 0.02,
    ("cross-encoder", "int8"): 0.8,
}
_PACKAGES = ("torch", "transformers", "optimum-onnx", "onnx", "onnxruntime", "tokenizers")

Arrays = dict[str, NDArray[np.float32]]


def run(settings: ExportSettings) -> Path:
    """Export one model and return its folder; see ``settings.run``."""
    with _quiet(), opened(settings) as checkpoint, TemporaryDirectory(prefix="runoff-export-") as scratch:
        plain, fresh = Path(scratch) / "fp32", Path(scratch) / settings.name
        plain.mkdir()
        fresh.mkdir()
        model = checkpoint.model()
        reference = _reference(checkpoint, model)
        exported = _to_onnx(model, checkpoint.kind, Path(scratch) / "exported")
        state = {canonical(name): np.asarray(tensor) for name, tensor in model.state_dict().items()}
        _write(plain, _build(exported, state, checkpoint, "fp32"))
        _check(plain, checkpoint, reference, "fp32")
        table = _write(fresh, _build(exported, state, checkpoint, settings.precision))
        golden = _check(fresh, checkpoint, reference, settings.precision)
        checkpoint.tokenizer().save(str(fresh / TOKENIZER), pretty=False)
        manifest.write(fresh, settings, checkpoint, table, golden, {name: version(name) for name in _PACKAGES})
        return _install(fresh, settings.out / settings.name)


def _reference(checkpoint: Checkpoint, model: Any) -> NDArray[np.float32]:
    return goldens.outputs(goldens.torch_runner(checkpoint, model), checkpoint, goldens.inputs(checkpoint.kind))


def _to_onnx(model: Any, kind: str, folder: Path) -> Path:
    optimum.exporters.onnx.onnx_export_from_model(
        model, output=folder, task=_TASKS[kind], opset=OPSET, do_validation=False, no_post_process=True
    )
    return folder / GRAPH


def _build(exported: Path, state: Arrays, checkpoint: Checkpoint, precision: str) -> Graph:
    graph = Graph(onnx.load(exported), state)
    graph.simplify_mask()
    graph.simplify_shapes(checkpoint.config["num_attention_heads"])
    if checkpoint.pooling == "cls":
        graph.first_token_only()
    if checkpoint.kind == "bi-encoder":
        graph.pool(checkpoint.pooling, checkpoint.normalize)
    graph.store(*_quantizers(checkpoint.folder, precision))
    return graph


def _quantizers(folder: Path, precision: str) -> tuple[Quantizer, Quantizer]:
    """How to store linear weights and embedding tables: on the grid that is known, else on a new one."""
    grids = read_grids(folder)

    def linear(name: str, weight: NDArray[np.float32]) -> quantize.Quantized:
        return quantize.onto(weight, grids[name], name) if name in grids else quantize.per_column(weight)

    def table(name: str, rows: NDArray[np.float32]) -> quantize.Quantized | None:
        if name in grids:
            return quantize.onto(rows, grids[name], name)
        return None if name.endswith("token_type_embeddings.weight") else quantize.per_row(rows)

    def keep(name: str, weight: NDArray[np.float32]) -> None:
        return None

    return (linear, table) if precision == "int8" else (keep, keep)


def _write(folder: Path, graph: Graph) -> dict[str, TensorInfo]:
    graph.weights.write(folder / WEIGHTS)
    (folder / GRAPH).write_bytes(graph.model.SerializeToString(deterministic=True))
    return graph.weights.table


def _check(folder: Path, checkpoint: Checkpoint, reference: NDArray[np.float32], precision: str) -> Golden:
    kind = checkpoint.kind
    golden = Golden(goldens.inputs(kind), reference, _METRICS[kind], TOLERANCES[kind, precision])
    outputs = goldens.outputs(goldens.onnx_runner(folder / GRAPH), checkpoint, golden.inputs)
    goldens.require(f"the {precision} graph", golden, outputs)
    return golden


def _install(fresh: Path, target: Path) -> Path:
    """Put a complete folder in its place in one step; a model folder that was there is replaced."""
    if target.exists() and not (target / MANIFEST).is_file():
        raise ExportError(f"{target} exists and is no model folder; give another --out or --name")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        shutil.copytree(fresh, aside / "new")
        if target.exists():
            target.rename(aside / "old")
        (aside / "new").rename(target)
    finally:
        if (aside / "old").exists() and not target.exists():
            (aside / "old").rename(target)
        shutil.rmtree(aside)
    return target


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporters' warnings are about their own insides."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
