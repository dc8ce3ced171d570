"""How long do rerankers take over the same 20 passages, and do they agree?

Every contender has the same weights, threads and pairs, runs in its own process, and takes turns with the others.
Besides cut text (p60, mix, p200) it reranks the first stage's top 20 of labelled queries: some are timed, and over all
of them nDCG@10 and agreement of the top 3 with fp32 stand beside the time.

    python benchmarks/rerank_peers.py --text CORPUS.jsonl.gz --models DIR --venvs DIR --collection DIR ... --json FILE

Scores need no quiet machine: with --work, `--part scores` gathers them, and another run the times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

import collection as collections
import contenders
import harness
from contenders import Contender
from peak import Peak, operations
from runoff import models, threads
from runoff.encoder import BiEncoder
from runoff.evaluate import ndcg
from runoff.tokenizer import Tokenizer

DEPTH = 20


@dataclass(frozen=True)
class List:
    """A labelled query and its first stage's best, best first."""

    key: str
    query: str
    ids: Sequence[str]
    texts: Sequence[str]
    judged: dict[str, int]


def main() -> None:
    options = contenders.options(__doc__)
    options.add_argument("--collection", type=Path, nargs="*", default=[])
    options.add_argument("--queries", type=int, default=10, help="labelled queries of each collection")
    options.add_argument("--timed", type=int, default=3, help="how many of them are timed")
    options.add_argument("--scored", type=int, help="how many of them are scored [all]")
    options.add_argument("--part", choices=("times", "scores"), help="keep figures of one kind, for a later run")
    chosen = options.parse_args()
    budget = threads.budget(chosen.threads)
    figures = harness.Figures("rerank_peers", chosen.work, {"threads": budget, "queries": chosen.queries})
    real = {folder.name: _lists(figures, folder, chosen.queries) for folder in chosen.collection}
    scored = {name: lists[: chosen.scored] for name, lists in real.items()}
    with contenders.running(chosen, figures) as (found, missing):
        if chosen.part == "scores":
            for at in range(chosen.queries):
                _scores(figures, found, {name: lists[at : at + 1] for name, lists in real.items()})
            return
        peak = figures.take("peak", lambda: Peak().operations_per_second(budget))
        facts = {each.name: figures.take(f"load, {each.name}", each.start) for each in found}
        results: dict[str, Any] = {}
        count = Count(peak)
        workloads = harness.workloads(chosen.text)
        for name, (query, passages) in workloads.items():
            times = contenders.rounds(figures, found, name, query, passages, chosen.rounds)
            results[name] = count.table(times, [(query, passages)] * chosen.rounds)
        for each in found:
            most = figures.take(f"resident, {each.name}", lambda each=each: each.ask(*workloads["p200"])["rss_mib"])
            facts[each.name]["most_mib"] = most
        for name, lists in real.items():
            timed = lists[: chosen.timed]
            times = _times(figures, found, name, timed)
            results[f"real {name}"] = count.table(times, [(one.query, one.texts) for one in timed])
        if chosen.part == "times":
            return
        scores = _scores(figures, found, scored)
    for name, lists in scored.items():
        results[f"real {name}"]["queries"] = len(lists)
        for contender, row in results[f"real {name}"]["contenders"].items():
            row |= _quality(lists, scores[name][contender], scores[name].get(contenders.REFERENCE))
    settings = {"rounds": chosen.rounds, "threads": budget, "queries": chosen.queries, "timed": chosen.timed}
    record = {"workloads": results, "contenders": facts, "not run": missing}
    harness.finish("rerank_peers", record, {**settings, "peak": peak / 1e9}, chosen.json)


class Count:
    """Adds tokens and useful operations a second to times."""

    def __init__(self, peak: float) -> None:
        self._peak = peak
        self._artifact = models.find(models.DEFAULT_CROSS_ENCODER)
        self._tokenizer = Tokenizer.load(self._artifact.tokenizer_path)

    def table(self, times: Mapping[str, list[float]], asked: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Any]:
        """A row for each contender, and the tokens of the lists that it was asked, one for each of its times."""
        lengths = [contenders.pair_lengths(self._tokenizer, *each) for each in asked]
        rows = contenders.spread(times)
        for name, row in rows.items():
            pairs = list(zip(lengths, times[name], strict=True))
            row["tokens_per_s"] = median(each.sum() / ms for each, ms in pairs) * 1e3
            row["peak share"] = median(operations(self._artifact, each) / ms for each, ms in pairs) * 1e3 / self._peak
        return {"tokens": round(mean(int(each.sum()) for each in lengths)), "timed": len(lengths), "contenders": rows}


def _lists(figures: harness.Figures, folder: Path, count: int) -> list[List]:
    data = collections.load(folder)
    queries = data.sample(count, harness.SEED)
    nearest = figures.take(
        f"candidates, {folder.name}", lambda: collections.candidates(data, queries, BiEncoder.load(), DEPTH)
    )
    return [
        List(
            key,
            data.queries[key],
            nearest[key],
            [data.documents[name] for name in nearest[key]],
            dict(data.relevant[key]),
        )
        for key in queries
    ]


def _times(
    figures: harness.Figures, found: Sequence[Contender], name: str, lists: Sequence[List]
) -> dict[str, list[float]]:
    """Milliseconds of each contender over each list, in turn; the scores that came with them are kept too."""

    def timed(each: Contender, one: List) -> float:
        each.warm_up(one.query, one.texts)
        answer = each.ask(one.query, one.texts)
        figures.take(_key(name, one, each), lambda: answer["scores"])
        taken: float = answer["ms"][0]
        return taken

    times: dict[str, list[float]] = {each.name: [] for each in found}
    for one in lists:
        for each in found:
            key = f"{name} {one.key}, {each.name}"
            times[each.name].append(figures.take(key, lambda each=each, one=one: timed(each, one)))
    return times


def _scores(
    figures: harness.Figures, found: Sequence[Contender], real: Mapping[str, Sequence[List]]
) -> dict[str, dict[str, list[list[float]]]]:
    """Scores of each list, by collection and contender."""
    scores: dict[str, dict[str, list[list[float]]]] = {name: {each.name: [] for each in found} for name in real}
    for name, lists in real.items():
        for one in lists:
            for each in found:
                answer = figures.take(
                    _key(name, one, each), lambda each=each, one=one: each.ask(one.query, one.texts)["scores"]
                )
                scores[name][each.name].append(answer)
    return scores


def _key(name: str, one: List, each: Contender) -> str:
    return f"scores, {name} {one.key}, {each.name}"


def _quality(
    lists: Sequence[List], scores: Sequence[Sequence[float]], reference: Sequence[Sequence[float]] | None
) -> dict[str, float]:
    orders = [contenders.top(each, DEPTH) for each in scores]
    ranked = [[one.ids[place] for place in order] for order, one in zip(orders, lists, strict=True)]
    found = {"ndcg@10": mean(ndcg(each, one.judged, 10) for each, one in zip(ranked, lists, strict=True))}
    if reference:
        best = [set(contenders.top(each, 3)) for each in reference]
        found["rms to fp32"] = float(np.sqrt(np.mean((np.array(scores) - np.array(reference)) ** 2)))
        found["top 3 as fp32"] = mean(len(set(order[:3]) & top) / 3 for order, top in zip(orders, best, strict=True))
    return found


if __name__ == "__main__":
    main()
