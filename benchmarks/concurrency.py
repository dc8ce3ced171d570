"""What happens when several threads of one process rerank at once?

1, 2, 4 and 8 caller threads, each reranking the same 20 passages of 60 words again and again: queries a second of all,
and the p95 of one.

    python benchmarks/concurrency.py --text CORPUS.jsonl.gz --models DIR --venvs DIR --json FILE
"""

from __future__ import annotations

import contenders
import harness

CALLERS = (1, 2, 4, 8)


def main() -> None:
    options = contenders.options(__doc__)
    options.add_argument("--queries", type=int, default=8, help="queries of all callers together")
    chosen = options.parse_args()
    query, passages = harness.workloads(chosen.text)["p60"]
    results: dict[str, dict[str, dict[str, float]]] = {}
    with contenders.running(chosen) as (found, missing):
        for callers in CALLERS:
            for each in found:
                answer = each.ask(query, passages, callers, max(chosen.queries // callers, 1))
                results.setdefault(each.name, {})[str(callers)] = {
                    "queries_per_s": len(answer["ms"]) / answer["wall_ms"] * 1e3,
                    "p95_ms": harness.percentile(answer["ms"], 95),
                }
    settings = {"queries": chosen.queries, "threads": chosen.threads}
    harness.finish("concurrency", {"contenders": results, "not run": missing}, settings, chosen.json)


if __name__ == "__main__":
    main()
