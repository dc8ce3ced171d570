"""What the token cache saves: assembling 20 pairs from cached ids, against tokenising the 20 passages instead.

python benchmarks/assembly.py --text CORPUS.jsonl.gz --json benchmarks/results/assembly.json
"""

from __future__ import annotations

from pathlib import Path

import harness
from runoff import assembly, models
from runoff.assembly import Passages, SpecialTokens
from runoff.tokenizer import Tokenizer

CALLS = 200


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--text", type=Path, required=True)
    chosen = options.parse_args()
    tokenizer = Tokenizer.load(models.find(models.DEFAULT_CROSS_ENCODER).tokenizer_path)
    results = {}
    for name, (query, passages) in harness.workloads(chosen.text).items():
        query_ids = tokenizer.encode(query)
        cached = Passages.pack(tokenizer.encode_batch(passages))

        def assemble(query_ids=query_ids, cached=cached) -> None:
            for _ in range(CALLS):
                assembly.packed(query_ids, cached, 512, SpecialTokens())

        def tokenise(passages=passages) -> None:
            for _ in range(CALLS // 20):
                tokenizer.encode_batch(passages)

        times = harness.alternate({"assemble": assemble, "tokenise": tokenise}, chosen.rounds)
        results[name] = {
            "assemble_us": times["assemble"]["median_ms"] * 1e3 / CALLS,
            "tokenise_us": times["tokenise"]["median_ms"] * 1e3 / (CALLS // 20),
        }
    harness.finish("assembly", results, {"rounds": chosen.rounds, "pairs": 20}, chosen.json)


if __name__ == "__main__":
    main()
