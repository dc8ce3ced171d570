"""Does planning pay? Twenty pairs on onnxruntime, planned (one unpadded pair a run) against one padded batch.

Same model, same threads, one process, alternating. The padded batch is what most reranking libraries do.

    python benchmarks/rerank_plan.py --text CORPUS.jsonl.gz --json benchmarks/results/rerank_plan.json
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import harness
from runoff import assembly, models
from runoff.assembly import Passages, SpecialTokens
from runoff.reranker import CrossEncoder


def main() -> None:
    import onnxruntime

    options = harness.parser(__doc__)
    options.add_argument("--text", type=Path, required=True)
    chosen = options.parse_args()
    encoder = CrossEncoder.load(backend="onnxruntime", threads=chosen.threads)
    budget = chosen.threads or harness.machine()["threads"]
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = budget
    graph = str(models.find(models.DEFAULT_CROSS_ENCODER).graph_path)
    batch = onnxruntime.InferenceSession(graph, settings, providers=["CPUExecutionProvider"])
    results = {}
    for name, (query, passages) in harness.workloads(chosen.text).items():
        query_ids = encoder.tokenizer.encode(query)
        cached = Passages.pack(encoder.tokenizer.encode_batch(passages))

        def padded(query_ids=query_ids, cached=cached) -> np.ndarray:
            pairs = assembly.padded(query_ids, cached, encoder.artifact.max_length, SpecialTokens())
            ids, types, mask = pairs.batch(0, len(pairs))
            return batch.run(None, {"input_ids": ids, "token_type_ids": types, "attention_mask": mask})[0]

        def planned(query_ids=query_ids, cached=cached) -> np.ndarray:
            return encoder.score(query_ids, cached).logits

        times = harness.alternate({"planned": planned, "padded": padded}, chosen.rounds)
        tokens = int(assembly.packed(query_ids, cached, 512, SpecialTokens()).offsets[-1])
        ratio = times["planned"]["median_ms"] / times["padded"]["median_ms"]
        shift = float(np.abs(planned() - padded().reshape(-1)).max())
        results[name] = {"tokens": tokens, **times, "ratio": ratio, "largest logit shift by the batch": shift}
    harness.finish("rerank_plan", results, {"rounds": chosen.rounds, "threads": budget}, chosen.json)


if __name__ == "__main__":
    main()
