"""How does the time grow with the number of candidates and with their length?

Passages of 60 words, 5 to 200 of them; then 20 passages of 16 to 480 words. Milliseconds a pair, which would be a level
line over depth for a reranker without fixed costs and without waste.

    python benchmarks/depth.py --text CORPUS.jsonl.gz --models DIR --venvs DIR --json FILE
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

import contenders
import harness

DEPTHS = (5, 10, 20, 50, 100, 200)
WORDS = (16, 32, 64, 128, 256, 480)
USUAL_WORDS, USUAL_DEPTH = 60, 20


def main() -> None:
    options = contenders.options(__doc__)
    options.add_argument("--deepest", type=int, default=DEPTHS[-1])
    chosen = options.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {"depth": {}, "words": {}}
    with contenders.running(chosen) as (found, missing):
        for depth in DEPTHS:
            if depth <= chosen.deepest:
                query, passages = cut(chosen.text, depth, USUAL_WORDS)
                times = contenders.spread(contenders.rounds(found, query, passages, chosen.rounds))
                results["depth"][str(depth)] = {name: row["median_ms"] / depth for name, row in times.items()}
        for words in WORDS:
            query, passages = cut(chosen.text, USUAL_DEPTH, words)
            times = contenders.spread(contenders.rounds(found, query, passages, chosen.rounds))
            results["words"][str(words)] = {name: row["median_ms"] / USUAL_DEPTH for name, row in times.items()}
    settings = {"rounds": chosen.rounds, "threads": chosen.threads, "unit": "milliseconds a pair"}
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
