"""What happens when several threads of one process rerank at once?

1, 2, 4 and 8 caller threads, each reranking the same 20 passages of 60 words again and again: queries a second of all,
the p95 of one, and how many ended in an error.

    python benchmarks/concurrency.py --text CORPUS.jsonl.gz --models DIR --venvs DIR --json FILE
"""

from __future__ import annotations

from typing import Any

import contenders
import harness
from contenders import Contender
from runoff import threads

CALLERS = (1, 2, 4, 8)


def main() -> None:
    options = contenders.options(__doc__)
    options.add_argument("--queries", type=int, default=8, help="queries of all callers together")
    chosen = options.parse_args()
    query, passages = harness.workloads(chosen.text)["p60"]
    results: dict[str, dict[str, dict[str, float]]] = {}
    budget = threads.budget(chosen.threads)
    figures = harness.Figures("concurrency", chosen.work, {"threads": budget, "queries": chosen.queries})
    with contenders.running(chosen, figures) as (found, missing):
        for callers in CALLERS:
            for each in found:
                answer = figures.take(
                    f"{callers} callers, {each.name}",
                    lambda each=each, callers=callers: _asked(each, query, passages, callers, chosen.queries),
                )
                results.setdefault(each.name, {})[str(callers)] = {
                    "queries_per_s": len(answer["ms"]) / answer["wall_ms"] * 1e3,
                    "p95_ms": harness.percentile(answer["ms"], 95),
                    "failed": callers * _repeats(chosen.queries, callers) - len(answer["ms"]),
                }
    settings = {"queries": chosen.queries, "threads": budget}
    harness.finish("concurrency", {"contenders": results, "not run": missing}, settings, chosen.json)


def _asked(each: Contender, query: str, passages: list[str], callers: int, queries: int) -> dict[str, Any]:
    each.warm_up(query, passages)
    return each.ask(query, passages, callers, _repeats(queries, callers))


def _repeats(queries: int, callers: int) -> int:
    return max(queries // callers, 1)


if __name__ == "__main__":
    main()
