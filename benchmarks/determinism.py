"""Does a passage's score depend on what else is in the batch, on its order, or on the number of threads?

Twenty passages of mixed length are scored together; then in reverse order, one by one, with a long passage among them,
and on one thread. Largest change of a logit, and how many of the first five places hold another passage.

    python benchmarks/determinism.py --text CORPUS.jsonl.gz --models DIR --venvs DIR --json FILE
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import contenders
import harness
from contenders import Contender

LONG = 1


def main() -> None:
    chosen = contenders.options(__doc__).parse_args()
    loads = harness.workloads(chosen.text)
    query, passages = loads["mix"]
    long = loads["p200"][1][:LONG]
    figures = harness.Figures("determinism", chosen.work, {"threads": chosen.threads})
    with contenders.running(chosen, figures) as (found, missing):
        results = {
            each.name: figures.take(each.name, lambda each=each: _changes(each, query, passages, long))
            for each in found
        }
    single = argparse.Namespace(**{**vars(chosen), "threads": 1})
    with contenders.running(single, figures) as (found, _):
        for each in found:
            alone = figures.take(f"one thread, {each.name}", lambda each=each: each.ask(query, passages)["scores"])
            results[each.name]["one thread"] = _change(results[each.name].pop("scores"), alone)
    harness.finish("determinism", {"contenders": results, "not run": missing}, {"threads": chosen.threads}, chosen.json)


def _changes(each: Contender, query: str, passages: list[str], long: list[str]) -> dict[str, Any]:
    whole = each.ask(query, passages)["scores"]
    alone = [each.ask(query, [passage])["scores"][0] for passage in passages]
    return {
        "scores": whole,
        "again": _change(whole, each.ask(query, passages)["scores"]),
        "reversed": _change(whole, each.ask(query, passages[::-1])["scores"][::-1]),
        "one by one": _change(whole, alone),
        "with a long passage": _change(whole, each.ask(query, [*passages, *long])["scores"][: len(passages)]),
    }


def _change(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    one, other = contenders.top(before, 5), contenders.top(after, 5)
    return {
        "largest": float(np.abs(np.asarray(before) - np.asarray(after)).max()),
        "top 5 flips": sum(a != b for a, b in zip(one, other, strict=True)),
    }


if __name__ == "__main__":
    main()
