"""Turns a dynamically quantised BERT cross-encoder in ONNX back into a checkpoint.

Such a file (onnxruntime's ``quantize_dynamic``) keeps each weight as ``<name>_quantized`` with ``<name>_scale`` and
``<name>_zero_point``. Matrices lost their names (``onnx::MatMul_1662``) but the node that uses one is still called by
its place in the model, and they are stored (in, out), the transpose of a checkpoint's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.numpy import save_file

from ..errors import ExportError
from .quantize import Grid, Quantized

GRIDS = "grids.json"
_SUFFIX = "_quantized"
_ATTENTION = "/bert/encoder/layer.0/attention/self/"


def recover(onnx_file: Path, folder: Path) -> None:
    """Write a ``BertForSequenceClassification`` checkpoint (config, safetensors, tokenizer, grids) into a folder.

    The float32 weights are the dequantised integers; ``grids.json`` keeps scales and zero points, so that an export of
    this checkpoint finds the same integers again.

    Raises:
        ExportError: the file is not a dynamically quantised BERT cross-encoder.
    """
    graph = onnx.load(onnx_file).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights, grids = _weights(graph, arrays)
    config = _config(graph, weights)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", config)
    _write_json(folder / GRIDS, {name: vars(grid) for name, grid in grids.items()})
    _copy_tokenizer(onnx_file.parent, folder)


def read_grids(folder: Path) -> dict[str, Grid]:
    """The grids that ``recover`` left beside a checkpoint; empty for any other checkpoint."""
    path = folder / GRIDS
    if not path.is_file():
        return {}
    return {name: Grid(**entry) for name, entry in json.loads(path.read_text("utf-8")).items()}


def _weights(graph: Any, arrays: dict[str, NDArray[Any]]) -> tuple[dict[str, NDArray[np.float32]], dict[str, Grid]]:
    weights = _vectors(graph, arrays)
    grids: dict[str, Grid] = {}
    linear = dict(_linear_names(graph))
    for stored in (name for name in arrays if name.endswith(_SUFFIX)):
        base = stored.removesuffix(_SUFFIX)
        name = linear.get(stored, base)
        values, grid = arrays[stored], _grid(arrays, base)
        weight = Quantized(values, np.float32(grid.scale), grid.zero_point).dequantize()
        weights[name] = np.ascontiguousarray(weight.T) if stored in linear else weight
        grids[name] = grid
    return weights, grids


def _vectors(graph: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Biases and norms, which stay float32; the exporter stores equal ones once and refers to them by Identity."""
    shared = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    named = {**arrays, **{name: arrays[source] for name, source in shared.items() if source in arrays}}
    ours = {name: array for name, array in named.items() if name.startswith(("bert.", "classifier."))}
    return {name: array.copy() for name, array in ours.items() if array.dtype == np.float32 and array.ndim == 1}


def _grid(arrays: dict[str, NDArray[Any]], base: str) -> Grid:
    scale, zero_point = arrays[f"{base}_scale"], arrays[f"{base}_zero_point"]
    if scale.size != 1 or zero_point.size != 1:
        raise ExportError(f"{base} has {scale.size} scales, expected one per tensor; export from its fp32 checkpoint")
    return Grid(str(arrays[base + _SUFFIX].dtype), float(scale.item()), int(zero_point.item()))


def _linear_names(graph: Any) -> Iterator[tuple[str, str]]:
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            place = node.name.strip("/").removesuffix("_quant")
            layer = "/".join(place.split("/")[:-1])
            yield node.input[1], layer.replace("/", ".") + ".weight"


def _config(graph: Any, weights: dict[str, NDArray[np.float32]]) -> dict[str, Any]:
    try:
        words = weights["bert.embeddings.word_embeddings.weight"]
        labels = len(weights["classifier.bias"])
        intermediate = len(weights["bert.encoder.layer.0.intermediate.dense.bias"])
        positions = len(weights["bert.embeddings.position_embeddings.weight"])
        types = len(weights["bert.embeddings.token_type_embeddings.weight"])
    except KeyError as error:
        raise ExportError(f"no weight {error} in the ONNX file, expected a BERT cross-encoder") from error
    layers = sum(name.endswith(".attention.self.query.weight") for name in weights)
    return {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": words.shape[0],
        "hidden_size": words.shape[1],
        "num_hidden_layers": layers,
        "num_attention_heads": _heads(graph, words.shape[1]),
        "intermediate_size": intermediate,
        "hidden_act": "gelu",
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": 1e-12,
        "num_labels": labels,
        "id2label": {str(index): f"LABEL_{index}" for index in range(labels)},
        "label2id": {f"LABEL_{index}": index for index in range(labels)},
        "pad_token_id": 0,
    }


def _heads(graph: Any, hidden: int) -> int:
    constants = {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"}
    for node in graph.node:
        if node.op_type == "Concat" and node.name.startswith(_ATTENTION) and len(node.input) == 4:
            shape = [numpy_helper.to_array(constants[name]).item() for name in node.input if name in constants]
            if len(shape) >= 2 and shape[-2] * shape[-1] == hidden:
                return int(shape[-2])
    raise ExportError("the ONNX file does not show the number of attention heads, expected a BERT exported by torch")


def _copy_tokenizer(source: Path, folder: Path) -> None:
    if not (source / "tokenizer.json").is_file():
        raise ExportError(f"no tokenizer.json in {source}, expected it beside the ONNX file; put it there")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
