"""Does planning pay? Twenty pairs on onnxruntime, planned (one unpadded pair a run) against one padded batch.

Same model, same threads, one process, alternating. The padded batch is what most reranking libraries do. `--stock`
names the same weights in the graph that onnxruntime's quantize_dynamic wrote (docs/models.md says where that file comes
from); both ways run over it too.

    python benchmarks/rerank_plan.py --text CORPUS.jsonl.gz --stock FILE --json benchmarks/results/rerank_plan.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import harness
from runoff import assembly, models, threads
from runoff.assembly import Passages, SpecialTokens
from runoff.backends import OnnxRuntimeBackend
from runoff.reranker import CrossEncoder
from runoff.session import Session
from runoff.threads import Workers


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--text", type=Path, required=True)
    options.add_argument("--stock", type=Path, required=True)
    chosen = options.parse_args()
    encoder = CrossEncoder.load(backend="onnxruntime", threads=chosen.threads)
    budget = threads.budget(chosen.threads)
    ours = _session(models.find(models.DEFAULT_CROSS_ENCODER).graph_path, budget)
    stock = _session(chosen.stock, budget)
    planned_stock = OnnxRuntimeBackend(encoder.artifact, Session(_session(chosen.stock, 1)), Workers(budget))
    results = {}
    for name, (query, passages) in harness.workloads(chosen.text).items():
        query_ids = encoder.tokenizer.encode(query)
        cached = Passages.pack(encoder.tokenizer.encode_batch(passages))
        results[name] = _compare(encoder, ours, stock, planned_stock, query_ids, cached, chosen.rounds)
    harness.finish("rerank_plan", results, {"rounds": chosen.rounds, "threads": budget}, chosen.json)


def _session(graph: Path, threads: int) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(graph), settings, providers=["CPUExecutionProvider"])


def _compare(
    encoder: CrossEncoder,
    ours: Any,
    stock: Any,
    planned_stock: OnnxRuntimeBackend,
    query_ids: np.ndarray,
    cached: Passages,
    rounds: int,
) -> dict[str, Any]:
    def planned() -> np.ndarray:
        return encoder.score(query_ids, cached).logits

    def padded(session: Any = ours) -> np.ndarray:
        pairs = assembly.padded(query_ids, cached, encoder.artifact.max_length, SpecialTokens())
        feeds = dict(zip(("input_ids", "token_type_ids", "attention_mask"), pairs.batch(0, len(pairs)), strict=True))
        return session.run(None, {entry.name: feeds[entry.name] for entry in session.get_inputs()})[0].reshape(-1)

    contenders = {"planned": planned, "padded": padded, "padded, stock graph": lambda: padded(stock)}
    contenders["planned, stock graph"] = lambda: planned_stock.score(query_ids, cached)
    times = harness.alternate(contenders, rounds)
    fastest = times["planned"]["median_ms"]
    return {
        "tokens": int(assembly.packed(query_ids, cached, encoder.artifact.max_length, SpecialTokens()).offsets[-1]),
        **times,
        "ratio": fastest / times["padded"]["median_ms"],
        "ratio to stock": fastest / times["padded, stock graph"]["median_ms"],
        "ratio, both stock": times["planned, stock graph"]["median_ms"] / times["padded, stock graph"]["median_ms"],
        "largest logit shift by the batch": float(np.abs(planned() - padded()).max()),
    }


if __name__ == "__main__":
    main()
