"""Embedding chunks for ingest: tokens per second of the native encoder against onnxruntime at its best plan.

The same int8 artifact, tokens made beforehand, the same threads, one process, alternating. onnxruntime's plans are one
unpadded chunk a run on one thread, runs spread over the workers (Runoff's plan), and batches of chunks of similar
length, padded; a sample of the chunks says which is best. Chunks are drawn from real text, 40 to 200 words.

    python benchmarks/embedding.py --text CORPUS.jsonl.gz --json benchmarks/results/embedding.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import harness
from runoff import planner, threads
from runoff.encoder import BiEncoder
from runoff.session import Session
from runoff.threads import Workers

SIZES = (4, 16)
SAMPLE = 100


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--text", type=Path, required=True)
    options.add_argument("--chunks", type=int, default=2000)
    options.set_defaults(rounds=2)
    chosen = options.parse_args()
    count = threads.budget(chosen.threads)
    native, ort = (BiEncoder.load(backend=name, threads=count) for name in ("native", "onnxruntime"))
    limit = native.artifact.max_length - 2
    texts = harness.passages(chosen.text, chosen.chunks, harness.SEED)
    tokens = [ids[:limit] for ids in native.tokenizer.encode_batch(texts)]
    padded = Padded(ort, count)
    plans: dict[str, Any] = {
        "one a run": ort.embed,
        **{f"batches of {size}": lambda some, size=size: padded.embed(some, size) for size in SIZES},
    }
    sample = tokens[:SAMPLE]
    tried = harness.alternate({name: lambda plan=plan: plan(sample) for name, plan in plans.items()}, rounds=1)
    best = min(tried, key=lambda name: tried[name]["median_ms"])
    contenders = {"native": lambda: native.embed(tokens), "onnxruntime": lambda: plans[best](tokens)}
    times = harness.alternate(contenders, chosen.rounds)
    total = sum(len(ids) + 2 for ids in tokens)
    speed = {name: total / row["median_ms"] * 1e3 for name, row in times.items()}
    results = {"tokens": total, "tokens per second": speed, "best plan": best}
    results["gain"] = speed["native"] / speed["onnxruntime"]
    results["plans, ms"] = {name: row["median_ms"] for name, row in tried.items()}
    results["lowest cosine"] = float(np.sum(native.embed(tokens) * ort.embed(tokens), axis=1).min())
    settings = {"chunks": chosen.chunks, "rounds": chosen.rounds, "threads": count}
    harness.finish("embedding", results, settings, chosen.json)


class Padded:
    """The artifact's graph over padded batches, each a run on one thread."""

    def __init__(self, encoder: BiEncoder, count: int) -> None:
        self._artifact = encoder.artifact
        self._session = Session.load(encoder.artifact.graph_path)
        self._workers = Workers(count)
        self._count = count

    def embed(self, tokens: list[np.ndarray], size: int) -> np.ndarray:
        lengths = np.array([len(ids) + 2 for ids in tokens])
        order = planner.one_by_one(lengths).order
        vectors = np.empty((len(tokens), self._artifact.dimensions), np.float32)

        def run(first: int) -> None:
            chosen = order[first : first + size]
            shape = (len(chosen), int(lengths[chosen].max()))
            ids, mask = np.full(shape, self._artifact.pad_id, np.int64), np.zeros(shape, np.int64)
            for row, at in enumerate(chosen):
                ids[row, : lengths[at]] = [self._artifact.cls_id, *tokens[at], self._artifact.sep_id]
                mask[row, : lengths[at]] = 1
            vectors[chosen] = self._session.run(ids, np.zeros_like(ids), mask)

        self._workers.run(run, range(0, len(order), size))
        return vectors


if __name__ == "__main__":
    main()
