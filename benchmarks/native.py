"""Native against planned onnxruntime: twenty pairs, the same artifact, cache and threads, one process, alternating.

python benchmarks/native.py --text CORPUS.jsonl.gz --json benchmarks/results/native.json
"""

from __future__ import annotations

from pathlib import Path

import harness
from runoff.assembly import Passages
from runoff.reranker import CrossEncoder


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--text", type=Path, required=True)
    chosen = options.parse_args()
    encoders = {name: CrossEncoder.load(backend=name, threads=chosen.threads) for name in ("native", "onnxruntime")}
    tokenizer = encoders["native"].tokenizer
    results = {}
    for name, (query, passages) in harness.workloads(chosen.text).items():
        query_ids = tokenizer.encode(query)
        cached = Passages.pack(tokenizer.encode_batch(passages))
        contenders = {
            backend: lambda encoder=encoder, ids=query_ids, cached=cached: encoder.score(ids, cached)
            for backend, encoder in encoders.items()
        }
        times = harness.alternate(contenders, chosen.rounds)
        results[name] = {**times, "ratio": times["native"]["median_ms"] / times["onnxruntime"]["median_ms"]}
    harness.finish("native", results, {"rounds": chosen.rounds}, chosen.json)


if __name__ == "__main__":
    main()
