"""How long do rerankers take over the same 20 passages, and do they agree?

Every contender has the same weights, threads and pairs, runs in its own process, and takes turns with the others.
Besides cut text (p60, mix, p200) it reranks the first stage's top 20 of labelled queries, where nDCG@10 and agreement
of the top 3 with fp32 stand beside the time.

    python benchmarks/rerank_peers.py --text CORPUS.jsonl.gz --models DIR --venvs DIR --collection DIR ... --json FILE
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import mean
from typing import Any

import collection as collections
import contenders
import harness
from contenders import PAUSE_SECONDS, Contender
from runoff import models
from runoff.encoder import BiEncoder
from runoff.evaluate import ndcg
from runoff.tokenizer import Tokenizer

# Shape of ms-marco-MiniLM-L-12-v2: layers, hidden size, inner size of the feed-forward part.
LAYERS, HIDDEN, INNER = 12, 384, 1536
LONGEST = 512


def main() -> None:
    options = contenders.options(__doc__)
    options.add_argument("--collection", type=Path, nargs="*", default=[])
    options.add_argument("--queries", type=int, default=12, help="labelled queries of each collection")
    chosen = options.parse_args()
    tokenizer = Tokenizer.load(models.find(models.DEFAULT_CROSS_ENCODER).tokenizer_path)
    real = {folder.name: _real(folder, chosen.queries) for folder in chosen.collection}
    with contenders.running(chosen) as (found, missing):
        results: dict[str, Any] = {}
        for name, (query, passages) in harness.workloads(chosen.text).items():
            results[name] = _cut(found, tokenizer, query, passages, chosen.rounds)
        for name, lists in real.items():
            results[f"real {name}"] = _labelled(found, lists)
        facts = {each.name: each.facts for each in found}
    settings = {"rounds": chosen.rounds, "threads": chosen.threads, "queries": chosen.queries}
    record = {"workloads": results, "contenders": facts, "not run": missing}
    harness.finish("rerank_peers", record, settings, chosen.json)


def operations(lengths: list[int]) -> int:
    """Useful operations, 2 x multiply-adds, of linear layers and attention over sequences of these many tokens."""
    linear = LAYERS * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER)
    return sum(2 * (length * linear + LAYERS * 2 * length * length * HIDDEN) for length in lengths)


def _lengths(tokenizer: Tokenizer, query: str, passages: list[str]) -> list[int]:
    asked = len(tokenizer.encode(query)) + 3
    return [min(asked + len(ids), LONGEST) for ids in tokenizer.encode_batch(passages)]


def _cut(found: list[Contender], tokenizer: Tokenizer, query: str, passages: list[str], rounds: int) -> dict[str, Any]:
    lengths = _lengths(tokenizer, query, passages)
    times = contenders.spread(contenders.rounds(found, query, passages, rounds))
    for row in times.values():
        row["tokens_per_s"] = sum(lengths) / row["median_ms"] * 1e3
        row["useful_gops"] = operations(lengths) / row["median_ms"] / 1e6
    return {"tokens": sum(lengths), "contenders": times}


def _real(folder: Path, count: int) -> list[tuple[str, list[str], list[str], dict[str, int]]]:
    """Query, texts and ids of its top 20, and judgements."""
    data = collections.load(folder)
    queries = data.sample(count, harness.SEED)
    nearest = collections.candidates(data, queries, BiEncoder.load(), 20)
    return [
        (data.queries[key], [data.documents[name] for name in nearest[key]], nearest[key], dict(data.relevant[key]))
        for key in queries
    ]


def _labelled(found: list[Contender], lists: list[tuple[str, list[str], list[str], dict[str, int]]]) -> dict[str, Any]:
    scores: dict[str, list[list[float]]] = {each.name: [] for each in found}
    times: dict[str, list[float]] = {each.name: [] for each in found}
    for query, texts, _, _ in lists:
        for each in found:
            time.sleep(PAUSE_SECONDS)
            answer = each.ask(query, texts)
            scores[each.name].append(answer["scores"])
            times[each.name] += answer["ms"]
    rows = contenders.spread(times)
    for name, row in rows.items():
        orders = [contenders.top(each, 20) for each in scores[name]]
        rankings = [[ids[place] for place in order] for order, (_, _, ids, _) in zip(orders, lists, strict=True)]
        row["ndcg@10"] = mean(ndcg(each, judged, 10) for each, (_, _, _, judged) in zip(rankings, lists, strict=True))
        if contenders.REFERENCE in scores:
            same = [
                len(set(order[:3]) & set(contenders.top(fp32, 3))) / 3
                for order, fp32 in zip(orders, scores[contenders.REFERENCE], strict=True)
            ]
            row["top 3 as fp32"] = mean(same)
    return {"queries": len(lists), "contenders": rows}


if __name__ == "__main__":
    main()
