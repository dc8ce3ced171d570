"""Surgery on the fp32 ONNX graph that optimum makes of a BERT model: simpler shapes, less work, integer weights.

Each step keeps the fp32 result; only ``store`` with a quantiser changes numbers. All weights move to the weights file.
What stays inline is shapes and scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ..artifact import WEIGHTS, TensorInfo
from ..errors import ExportError
from .naming import PREFIX, is_linear, keep_initializers, name_weights, set_nodes
from .quantize import Quantized
from .weights import WeightsFile

_TYPES = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
_MASKED = float(np.finfo(np.float32).min)

Quantizer = Callable[[str, NDArray[np.float32]], Quantized | None]


class Graph:
    """An ONNX graph under surgery.

    Args:
        model: the exported model; it is changed in place.
        state: the checkpoint's weights by canonical name, matrices as (out, in).
    """

    def __init__(self, model: Any, state: dict[str, NDArray[np.float32]]) -> None:
        self.model = model
        self.state = state
        self.weights = WeightsFile()
        self._graph = model.graph
        self._hidden = int(state[f"{PREFIX}embeddings.LayerNorm.bias"].size)
        name_weights(self._graph, state)

    def simplify_mask(self) -> None:
        """One additive mask [batch, 1, 1, sequence], not one [batch, 1, sequence, sequence].

        Raises:
            ExportError: the graph is not as expected.
        """
        adds = [node for node in self._graph.node if node.name.endswith("/attention/self/Add")]
        masks = {node.input[1] for node in adds}
        if len(masks) != 1:
            raise ExportError(f"{len(masks)} attention masks in the graph, expected 1; use another optimum-onnx")
        nodes = [
            _node("Cast", ["attention_mask"], "mask/float", to=TensorProto.FLOAT),
            _node("Sub", [self._scalar("mask/one", 1.0), "mask/float"], "mask/inverse"),
            _node("Mul", ["mask/inverse", self._scalar("mask/lowest", _MASKED)], "mask/additive"),
            _node("Unsqueeze", ["mask/additive", self._ints("mask/axes", [1, 2])], "mask/broadcast"),
        ]
        for node in adds:
            node.input[1] = "mask/broadcast"
        set_nodes(self._graph, [*nodes, *self._graph.node])

    def simplify_shapes(self, heads: int) -> None:
        """Constant shapes for splitting and joining heads, not shapes computed from other tensors.

        The sequence length stays unknown (-1) on purpose. Otherwise onnxruntime sees that both sides of a residual have
        one shape and fuses SkipLayerNormalization, whose kernel is slower than Add and LayerNormalization
        (docs/models.md).
        """
        split = self._ints("heads/split", [0, -1, heads, self._hidden // heads])
        joined = self._ints("heads/joined", [0, -1, self._hidden])
        parts = {node.output[0]: len(node.input) for node in self._graph.node if node.op_type == "Concat"}
        for node in self._graph.node:
            if node.op_type == "Reshape" and "/attention/self/" in node.name:
                node.input[1] = split if parts[node.input[1]] == 4 else joined

    def first_token_only(self) -> None:
        """Let the last layer compute the state of [CLS] alone, where the output depends on nothing else.

        Raises:
            ExportError: the graph is not as expected.
        """
        queries = [node for node in self._graph.node if node.name.endswith("/attention/self/query/MatMul")]
        query = max(queries, key=_layer)
        residual = self._named(query.name.replace("self/query/MatMul", "output/Add"))
        states, first = query.input[0], "first/state"
        gather = _node("Gather", [states, self._ints("first/index", [0])], first, axis=1)
        query.input[0] = first
        residual.input[:] = [first if name == states else name for name in residual.input]
        nodes = list(self._graph.node)
        nodes.insert(nodes.index(query), gather)
        set_nodes(self._graph, nodes)

    def pool(self, pooling: str, normalize: bool) -> None:
        """End the graph in one vector a text, named ``embedding``, instead of one a token."""
        state = self._graph.output[0].name
        nodes = self._mean(state) if pooling == "mean" else self._first(state)
        if normalize:
            nodes += self._unit(nodes[-1].output[0])
        nodes[-1].output[0] = "embedding"
        self._graph.node.extend(nodes)
        del self._graph.output[:]
        shape = ["batch_size", self._hidden]
        self._graph.output.append(helper.make_tensor_value_info("embedding", TensorProto.FLOAT, shape))

    def store(self, linear: Quantizer, table: Quantizer) -> None:
        """Move every weight to the weights file; the last step.

        Args:
            linear: gives the integers of a linear weight (in, out), or None to keep it float32.
            table: the same for an embedding table [rows, width].
        """
        self._prune()
        used = {name for node in self._graph.node for name in node.input}
        quantized = {}
        for name in (name for name in self.state if name in used):
            value = self._quantized(name, linear, table)
            self._add(name, value)
            if value is not None:
                quantized[name] = value
        self._rewrite(quantized)
        self._prune()
        self._finish()

    def _mean(self, state: str) -> list[Any]:
        tokens = self._ints("pool/tokens", [1])
        return [
            _node("Cast", ["attention_mask"], "pool/mask", to=TensorProto.FLOAT),
            _node("Unsqueeze", ["pool/mask", self._ints("pool/axes", [2])], "pool/weights"),
            _node("Mul", [state, "pool/weights"], "pool/masked"),
            _node("ReduceSum", ["pool/masked", tokens], "pool/sum", keepdims=0),
            _node("ReduceSum", ["pool/weights", tokens], "pool/count", keepdims=0),
            _node("Div", ["pool/sum", "pool/count"], "pool/mean"),
        ]

    def _first(self, state: str) -> list[Any]:
        return [_node("Gather", [state, self._scalar("pool/index", 0, np.int64)], "pool/first", axis=1)]

    def _unit(self, vector: str) -> list[Any]:
        return [
            _node("ReduceL2", [vector, self._ints("norm/axes", [1])], "norm/length", keepdims=1),
            _node("Max", ["norm/length", self._scalar("norm/least", 1e-12)], "norm/safe"),
            _node("Div", [vector, "norm/safe"], "norm/unit"),
        ]

    def _quantized(self, name: str, linear: Quantizer, table: Quantizer) -> Quantized | None:
        weight = self._stored(name)
        if weight.ndim != 2:
            return None
        return linear(name, weight) if is_linear(name, weight.shape) else table(name, weight)

    def _stored(self, name: str) -> NDArray[np.float32]:
        weight = self.state[name]
        return np.ascontiguousarray(weight.T) if is_linear(name, weight.shape) else weight

    def _add(self, name: str, value: Quantized | None) -> None:
        if value is None:
            self.weights.add(name, self._stored(name))
        elif value.scale.size == 1:
            self.weights.add(name, value.values, float(value.scale.item()), value.zero_point)
        else:
            self.weights.add(name, value.values, f"{name}_scale", value.zero_point)
            self.weights.add(f"{name}_scale", value.scale)

    def _rewrite(self, quantized: Mapping[str, Quantized]) -> None:
        nodes: list[Any] = []
        sources: set[str] = set()
        for node in self._graph.node:
            weight = next((name for name in node.input if name in quantized), None)
            if weight is None:
                nodes.append(node)
            elif node.op_type == "Gather":
                nodes += self._gather(node, quantized[weight])
            elif node.name.startswith(("/bert/pooler", "/classifier")):
                nodes += self._float_linear(node)
            else:
                nodes += self._integer_linear(node, shared=node.input[0] in sources)
                sources.add(node.input[0])
        set_nodes(self._graph, nodes)

    def _gather(self, node: Any, value: Quantized) -> list[Any]:
        """Rows of a quantised table, made float."""
        table, ids, output = node.input[0], node.input[1], node.output[0]
        rows = _node("Gather", [table, ids], f"{output}_rows")
        if value.scale.size == 1:
            zero = self._scalar(f"{table}_zero_point", value.zero_point, value.values.dtype)
            return [rows, _node("DequantizeLinear", [f"{output}_rows", self._scale(table), zero], output)]
        return [
            rows,
            _node("Gather", [self._scale(table), ids], f"{output}_scales"),
            _node("Cast", [f"{output}_rows"], f"{output}_float", to=TensorProto.FLOAT),
            _node("Mul", [f"{output}_float", f"{output}_scales"], output),
        ]

    def _float_linear(self, node: Any) -> list[Any]:
        """A layer that sees one row: its weight becomes float when a session opens, activations stay float."""
        weight, output = node.input[1], node.output[0]
        return [
            _node("Cast", [weight], f"{weight}_float", to=TensorProto.FLOAT),
            _node("Mul", [f"{weight}_float", self._scale(weight)], f"{weight}_value"),
            _node("MatMul", [node.input[0], f"{weight}_value"], output),
        ]

    def _integer_linear(self, node: Any, shared: bool) -> list[Any]:
        """The pattern that onnxruntime fuses; layers that read the same activations share their integers."""
        source, weight, output = node.input[0], node.input[1], node.output[0]
        parts = [f"{source}_int", f"{source}_scale", f"{source}_zero_point"]
        quantize = helper.make_node("DynamicQuantizeLinear", [source], parts, name=parts[0])
        return [
            *([] if shared else [quantize]),
            _node("MatMulInteger", [parts[0], weight, parts[2]], f"{output}_sum"),
            _node("Cast", [f"{output}_sum"], f"{output}_float", to=TensorProto.FLOAT),
            _node("Mul", [parts[1], self._scale(weight)], f"{output}_unit"),
            _node("Mul", [f"{output}_float", f"{output}_unit"], output),
        ]

    def _scale(self, weight: str) -> str:
        scale = self.weights.table[weight].scale
        return scale if isinstance(scale, str) else self._scalar(f"{weight}_scale", scale or 1.0)

    def _scalar(self, name: str, value: float, dtype: Any = np.float32) -> str:
        return self._constant(name, np.array(value, dtype=dtype))

    def _ints(self, name: str, values: list[int]) -> str:
        return self._constant(name, np.array(values, dtype=np.int64))

    def _constant(self, name: str, array: NDArray[Any]) -> str:
        self._graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def _named(self, name: str) -> Any:
        node = next((node for node in self._graph.node if node.name == name), None)
        if node is None:
            raise ExportError(
                f"no node {name} in the graph, expected BERT as torch exports it; use another optimum-onnx"
            )
        return node

    def _prune(self) -> None:
        needed = {output.name for output in self._graph.output}
        kept = []
        for node in reversed(self._graph.node):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        set_nodes(self._graph, kept[::-1])
        keep_initializers(self._graph, needed)

    def _finish(self) -> None:
        self._graph.initializer.extend(_external(info) for info in self.weights.table.values())
        del self._graph.value_info[:]
        for part in (self.model, self._graph, *self._graph.node):
            part.doc_string = ""
            del part.metadata_props[:]
        self.model.producer_name, self.model.producer_version = "runoff", ""


def _node(op: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs, [output], name=output, **attributes)


def _layer(node: Any) -> int:
    return int(node.name.split("/layer.")[1].split("/")[0])


def _external(info: TensorInfo) -> Any:
    tensor = TensorProto(name=info.name, data_type=_TYPES[info.dtype], dims=info.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", WEIGHTS), ("offset", info.offset), ("length", info.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
