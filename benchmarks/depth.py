"""How does the time grow with the number of candidates and with their length?

Passages of 60 words, 5 to 200 of them; then 20 passages of 8 to 384 words, which is up to 512 tokens a pair.
Milliseconds a pair, which would be in proportion to its operations for a reranker without fixed costs and waste.

    python benchmarks/depth.py --text CORPUS.jsonl.gz --models DIR --venvs DIR --json FILE
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

import contenders
import harness
from peak import operations
from runoff import models, threads
from runoff.tokenizer import Tokenizer

DEPTHS = (5, 10, 20, 50, 200)
WORDS = (8, 24, 48, 96, 192, 384)
USUAL_WORDS, USUAL_DEPTH = 60, 20


def main() -> None:
    options = contenders.options(__doc__)
    options.add_argument("--depths", type=int, nargs="+", default=DEPTHS)
    options.add_argument("--words", type=int, nargs="+", default=WORDS)
    options.set_defaults(rounds=2)
    chosen = options.parse_args()
    budget = threads.budget(chosen.threads)
    figures = harness.Figures("depth", chosen.work, {"threads": budget})
    axes = {
        "depth": {depth: (depth, USUAL_WORDS) for depth in chosen.depths},
        "words": {words: (USUAL_DEPTH, words) for words in chosen.words},
    }
    artifact = models.find(models.DEFAULT_CROSS_ENCODER)
    tokenizer = Tokenizer.load(artifact.tokenizer_path)
    results: dict[str, dict[str, Any]] = {axis: {} for axis in axes}
    with contenders.running(chosen, figures) as (found, missing):
        for axis, points in axes.items():
            for point, (count, words) in points.items():
                query, passages = cut(chosen.text, count, words)
                times = contenders.rounds(figures, found, f"{axis} {point}", query, passages, chosen.rounds)
                lengths = contenders.pair_lengths(tokenizer, query, passages)
                results[axis][str(point)] = {
                    "tokens": float(lengths.mean()),
                    "operations": operations(artifact, lengths) / count,
                    "ms a pair": {name: min(row) / count for name, row in times.items()},
                }
    settings = {"rounds": chosen.rounds, "threads": budget, "unit": "milliseconds a pair, the best of the rounds"}
    harness.finish("depth", {**results, "not run": missing}, settings, chosen.json)


def cut(path: Path, count: int, length: int) -> tuple[str, list[str]]:
    """A query and ``count`` passages of ``length`` words, from the texts of a ``corpus.jsonl.gz``."""
    rng = np.random.default_rng(harness.SEED)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        words = " ".join(json.loads(line)["text"] for line in file).split()
    starts = rng.integers(0, len(words) - length, size=count).tolist()
    return " ".join(words[:9]), [" ".join(words[start : start + length]) for start in starts]


if __name__ == "__main__":
    main()
