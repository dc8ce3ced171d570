"""Fast against exact: what early exit costs in quality and saves in work, with heads that never saw the collection.

For each collection, heads are fitted on the other ones, whose labels are not used; then its queries with the first
stage's twenty candidates are ranked exactly and fast, by logit + weight x cosine similarity.

python benchmarks/early_exit.py --collections DATA --cache CACHE --json benchmarks/results/early_exit.json

What the model does with a pair is kept in the cache, so that a second run takes seconds; so are the heads, which
early_exit_time.py puts to the clock. `--ship` fits on all collections and writes the heads that go with the model.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import collection
import harness
from runoff import exits, fitting
from runoff.assembly import Passages
from runoff.encoder import BiEncoder
from runoff.evaluate import ndcg
from runoff.exits import ExitHeads
from runoff.fitting import Evidence, FitSettings, Replay
from runoff.ranking import DEFAULT_BLEND
from runoff.reranker import CrossEncoder

NAMES = ("fiqa_test", "nq_passages", "scifact")
DEPTH, STEP, SEED = 20, 10, 20
WEIGHTS = (0.0, DEFAULT_BLEND)
SETTINGS = FitSettings()
# Layers whose states the cache has, so that other exits can be tried without running the model again.
LAYERS = (6, 7, 8, 9, 10)
# Multiply-adds a token of keys and values, as a share of a layer: what a layer for [CLS] alone costs.
KEYS_AND_VALUES = 2 / 12


@dataclass(frozen=True)
class Known:
    """Queries of a collection, what the model did with their candidates, and what the labels say of these."""

    data: collection.Collection
    queries: list[str]
    documents: list[list[str]]
    similarities: np.ndarray  # [queries, DEPTH]
    evidence: Evidence
    tokens: np.ndarray  # [queries, DEPTH]

    def pairs(self) -> Iterator[tuple[int, Evidence]]:
        """The evidence of each query."""
        for number in range(len(self.queries)):
            yield number, self.evidence.take(slice(number * DEPTH, (number + 1) * DEPTH))

    def digest(self) -> str:
        """SHA-256 (hex) over the texts of all pairs."""
        digest = hashlib.sha256()
        for query, row in zip(self.queries, self.documents, strict=True):
            for text in (self.data.queries[query], *(self.data.documents[key] for key in row)):
                digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()

    def ndcg(self, number: int, scores: np.ndarray) -> float:
        """nDCG@10 of a query's candidates in the order of some scores."""
        order = collection.reorder(self.documents[number], scores)
        return ndcg(order, self.data.relevant[self.queries[number]], 10)


class Gatherer:
    """Runs the models over collections, a few queries at a time, and keeps what they did."""

    def __init__(self, folder: Path, cache: Path, threads: int | None) -> None:
        self.encoder = BiEncoder.load(threads=threads)
        self.model = CrossEncoder.load(threads=threads)
        self._folder, self._cache = folder, cache
        cache.mkdir(parents=True, exist_ok=True)

    def known(self, name: str, count: int) -> Known:
        """The first ``count`` queries of a collection in a seeded order."""
        data = collection.load(self._folder / name)
        ids = list(data.queries)
        queries = [ids[place] for place in np.random.default_rng(SEED).permutation(len(ids))[:count].tolist()]
        documents, similarities = self._candidates(name, data, queries)
        shards = [
            self._shard(f"{name}.{first:04d}", data, queries[first : first + STEP], documents[first : first + STEP])
            for first in range(0, len(queries), STEP)
        ]
        states, logits, tokens = (np.concatenate(parts) for parts in zip(*shards, strict=True))
        by_layer = {
            layer: np.ascontiguousarray(states[:, :, place].reshape(-1, states.shape[-1]))
            for place, layer in enumerate(LAYERS)
        }
        numbers = np.repeat(np.arange(len(queries)), DEPTH)
        offsets = (DEFAULT_BLEND * similarities.reshape(-1)).astype(np.float32)
        evidence = Evidence(by_layer, logits.reshape(-1), offsets, numbers)
        return Known(data, queries, documents, similarities, evidence, tokens)

    def refilled(self, name: str, known: Known) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the first stage finds for each query in place of its relevant candidates, were nothing relevant there.

        Returns:
            The number of each such pair's query, its logit and its cosine similarity.
        """
        path = self._cache / f"{name}.refills.{len(known.queries)}.npz"
        if not path.exists():
            ids, vectors = list(known.data.documents), np.load(self._cache / f"{name}.vectors.npy")
            encoded = self.encoder.encode([known.data.queries[query] for query in known.queries])
            rows: list[tuple[int, float, float]] = []
            for number, query in enumerate(known.queries):
                similarities, relevant = vectors @ encoded[number], known.data.relevant[query]
                order = np.argsort(-similarities, kind="stable").tolist()
                left = [place for place in order if relevant.get(ids[place], 0) <= 0][:DEPTH]
                new = [place for place in left if ids[place] not in set(known.documents[number])]
                logits = self.model.score(*self.cached(known.data, query, [ids[place] for place in new])).logits
                rows += zip([number] * len(new), logits.tolist(), similarities[new].tolist(), strict=True)
            queries, logits, similarities = (np.array(column) for column in zip(*rows, strict=True))
            np.savez(path, queries=queries, logits=logits, similarities=similarities)
        with np.load(path) as kept:
            return kept["queries"], kept["logits"], kept["similarities"]

    def kept(self, name: str) -> int:
        """Queries of a collection that the cache has, from the first on."""
        steps = itertools.count()
        return STEP * next(step for step in steps if not (self._cache / f"{name}.{step * STEP:04d}.npz").exists())

    def cached(self, data: collection.Collection, query: str, documents: Sequence[str]) -> tuple[np.ndarray, Passages]:
        """Token ids of a query and of its candidates."""
        tokenizer = self.model.tokenizer
        rows = tokenizer.encode_batch([data.documents[key] for key in documents])
        return tokenizer.encode(data.queries[query]), Passages.pack(rows)

    def _candidates(
        self, name: str, data: collection.Collection, queries: Sequence[str]
    ) -> tuple[list[list[str]], np.ndarray]:
        path = self._cache / f"{name}.vectors.npy"
        if not path.exists():
            np.save(path, self.encoder.encode(list(data.documents.values())))
        similarities = self.encoder.encode([data.queries[query] for query in queries]) @ np.load(path).T
        order = np.argsort(-similarities, axis=1, kind="stable")[:, :DEPTH]
        ids = list(data.documents)
        return [[ids[place] for place in row] for row in order], np.take_along_axis(similarities, order, axis=1)

    def _shard(
        self, name: str, data: collection.Collection, queries: Sequence[str], documents: Sequence[Sequence[str]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """[CLS] states [queries, DEPTH, layers, hidden], logits and tokens [queries, DEPTH]."""
        path = self._cache / f"{name}.npz"
        if not path.exists():
            unranked = np.zeros(DEPTH, np.float32)
            pairs = [(*self.cached(data, query, row), unranked) for query, row in zip(queries, documents, strict=True)]
            found = fitting.gather(self.model.start, pairs, LAYERS)
            shape = (len(queries), DEPTH)
            np.savez(
                path,
                states=np.stack([states.reshape(*shape, -1) for states in found.states.values()], axis=2),
                logits=found.logits.reshape(shape),
                tokens=np.stack([passages.lengths + len(ids) + 3 for ids, passages, _ in pairs]),
            )
        with np.load(path) as kept:
            return kept["states"], kept["logits"], np.minimum(kept["tokens"], self.model.artifact.max_length)


def joined(parts: Sequence[Evidence]) -> Evidence:
    """Evidence of several collections; their queries stay apart."""
    firsts = np.cumsum([0, *(part.queries.max() + 1 for part in parts)])
    return Evidence(
        {layer: np.concatenate([part.states[layer] for part in parts]) for layer in LAYERS},
        np.concatenate([part.logits for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.queries + first for part, first in zip(parts, firsts, strict=False)]),
    )


def fitted(known: Mapping[str, Known], model: CrossEncoder) -> ExitHeads:
    """Heads from what the model did with the queries of some collections."""
    about = {
        "text": [f"{name}: whole documents" for name in known],
        "queries_from": [f"{name}: {len(each.queries)} of its queries" for name, each in known.items()],
        "pairs_sha256": {name: each.digest() for name, each in known.items()},
        "candidates": DEPTH,
        "blend": DEFAULT_BLEND,
        "backend": f"{model.backend} {model.kernel}",
    }
    return fitting.fit(joined([each.evidence for each in known.values()]), model.artifact.digest, SETTINGS, about)


def share(left: np.ndarray, tokens: np.ndarray, exits_at: Sequence[int], layers: int) -> float:
    """Work of pairs that left after some layers (0: finished), as a share of the work of finishing them all."""
    whole = layers - 1 + KEYS_AND_VALUES
    spent = [layer - 1 if layer else whole for layer in left.tolist()]
    peeks = [sum(at <= (layer or layers) for at in exits_at) for layer in left.tolist()]
    return float(np.average(np.array(spent) + KEYS_AND_VALUES * np.array(peeks), weights=tokens) / whole)


def quality(known: Known, heads: ExitHeads, weight: float, layers: int) -> dict[str, float]:
    """Fast beside exact, replayed from what the model did."""
    rows = []
    for number, evidence in known.pairs():
        offsets = (weight * known.similarities[number]).astype(np.float32)
        outcome = exits.run(Replay(evidence), heads, offsets, exits.PROTECTED)
        exact, fast = evidence.logits + offsets, outcome.logits + offsets
        tops = [set(np.argsort(-scores, kind="stable")[:3].tolist()) for scores in (exact, fast)]
        rows.append(
            {
                "ndcg@10_exact": known.ndcg(number, exact),
                "ndcg@10_fast": known.ndcg(number, fast),
                "top1_same": float(np.argmax(exact) == np.argmax(fast)),
                "top3_agreement": len(tops[0] & tops[1]) / 3,
                "share_of_work": share(
                    outcome.layers, known.tokens[number], [head.layer for head in heads.heads], layers
                ),
                "finished": float((outcome.layers == 0).sum()),
            }
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True)
    options.add_argument("--cache", type=Path, required=True)
    options.add_argument("--names", nargs="+", default=list(NAMES), help="collections")
    options.add_argument("--queries", type=int, default=200)
    options.add_argument("--kept", action="store_true", help="take the queries that the cache has, and no others")
    options.add_argument("--ship", type=Path, help="fit on all collections and write the heads here")
    chosen = options.parse_args()
    gatherer = Gatherer(chosen.collections, chosen.cache, chosen.threads)
    counts = {name: gatherer.kept(name) if chosen.kept else chosen.queries for name in chosen.names}
    known = {name: gatherer.known(name, count) for name, count in counts.items()}
    if chosen.ship:
        fitted(known, gatherer.model).write(chosen.ship)
    results: dict[str, Any] = {}
    for name, each in known.items():
        heads = fitted({other: known[other] for other in known if other != name}, gatherer.model)
        heads.write(chosen.cache / f"{name}.{exits.FILE}")
        results[name] = {
            "queries": len(each.queries),
            "margins": {"alone": heads.margin_alone, "blended": heads.margin},
            "quality": {f"{weight:g}": quality(each, heads, weight, 12) for weight in WEIGHTS},
        }
    settings = {"depth": DEPTH, "queries": counts, "protected": exits.PROTECTED}
    harness.finish("early_exit", results, settings, chosen.json)


if __name__ == "__main__":
    main()
