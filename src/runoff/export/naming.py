"""Gives the weights of an exported graph their checkpoint names back.

The exported graph calls each node by its place in the model (``/bert/encoder/layer.0/output/dense/MatMul``) but forgets
the names of transposed matrices (``onnx::MatMul_740``) and shares equal tensors through Identity nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from ..errors import ExportError

PREFIX = "bert."
_SHARED_LIMIT = 64


def canonical(name: str) -> str:
    """A weight's name under ``bert.``, which a bare BertModel checkpoint leaves out."""
    return name if name.startswith((PREFIX, "classifier.")) else PREFIX + name


def is_linear(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a weight is a linear layer's matrix, which the weights file holds as (in, out)."""
    return len(shape) == 2 and "embeddings" not in name


def name_weights(graph: Any, state: dict[str, NDArray[np.float32]]) -> None:
    """Name every use of a weight as the checkpoint does and drop the graph's own copies of weights.

    Raises:
        ExportError: the graph has a weight whose place in the checkpoint is not known.
    """
    stored = {tensor.name for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in stored:
            continue
        if node.op_type in ("MatMul", "Gemm") and (node.input[1] in stored or canonical(node.input[1]) in state):
            place = node.name.strip("/").rsplit("/", 1)[0]
            node.input[1] = canonical(place.replace("/", ".") + ".weight")
        node.input[:] = [canonical(name) if canonical(name) in state else name for name in node.input]
        nodes += _split_gemm(node) if node.op_type == "Gemm" else [node]
    set_nodes(graph, nodes)
    _drop_weights(graph, state)


def set_nodes(graph: Any, nodes: list[Any]) -> None:
    """Replace a graph's nodes, some of which may be its present ones."""
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def keep_initializers(graph: Any, names: set[str]) -> None:
    """Drop all initializers but those of the given names."""
    kept = [tensor.SerializeToString() for tensor in graph.initializer if tensor.name in names]
    del graph.initializer[:]
    graph.initializer.extend(onnx.TensorProto.FromString(data) for data in kept)


def _drop_weights(graph: Any, state: dict[str, NDArray[np.float32]]) -> None:
    used = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used and tensor.name not in state]
    unknown = [tensor.name for tensor in kept if np.prod(tensor.dims) > _SHARED_LIMIT]
    if unknown:
        raise ExportError(f"weights {unknown} of the graph are not the checkpoint's; use another optimum-onnx version")
    keep_initializers(graph, {tensor.name for tensor in kept})


def _split_gemm(node: Any) -> list[Any]:
    product = f"{node.output[0]}_product"
    return [
        helper.make_node("MatMul", [node.input[0], node.input[1]], [product], name=node.name),
        helper.make_node("Add", [product, node.input[2]], [node.output[0]], name=f"{node.name}_bias"),
    ]
