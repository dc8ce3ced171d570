"""Which twenty the runoff should see, and how both rounds' scores make the final order.

For each collection: recall@20 of the candidate set for every way to fuse the dense and the lexical list, over all
queries, with documents as one passage each and as the store cuts them into chunks; then nDCG@10 and precision@5 of
logit + weight x cosine over the default set's top 20, for a sample of queries.

    python benchmarks/fusion.py --collection DIR [DIR ...] --json benchmarks/results/fusion.json
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

import collection as collections
import harness
from runoff.assembly import Passages
from runoff.candidates import DEFAULT_FUSION, DEPTH
from runoff.chunking import ChunkSettings, chunk
from runoff.documents import Document
from runoff.encoder import BiEncoder
from runoff.evaluate import ndcg, precision, recall
from runoff.fusion import Convex, Fusion, Ranked, ReciprocalRank, Seats, union
from runoff.index import VectorIndex
from runoff.lexical import LexicalIndex, build
from runoff.ranking import blended
from runoff.reranker import CrossEncoder

COUNT = 20
FUSIONS: dict[str, Fusion] = {
    **{f"rrf, lexical weight {weight:g}": ReciprocalRank(weight) for weight in (1.0, 0.5, 0.3, 0.1)},
    **{f"cosine + {weight:g} x BM25 share": Convex(weight) for weight in (0.05, 0.1, 0.15, 0.2, 0.3)},
    **{f"{round(share * COUNT)} lexical seats": Seats(share) for share in (0.1, 0.2, 0.3)},
}
BLENDS = (0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0)


@dataclass(frozen=True)
class Searchable:
    """Passages of a collection, and the document of each."""

    texts: Sequence[str]
    owners: Sequence[str]
    dense: VectorIndex
    lexical: LexicalIndex

    def documents(self, ranked: Ranked) -> list[str]:
        """Documents in the order of their best passage."""
        return list(dict.fromkeys(self.owners[row] for row in ranked.rows.tolist()))


def main() -> None:
    options = _parser().parse_args()
    encoder = BiEncoder.load(threads=options.threads)
    scorer = CrossEncoder.load(threads=options.threads)
    results = {}
    for folder in options.collection:
        data = collections.load(folder)
        forms = {form: searchable(cut(data), encoder) for form, cut in (("documents", whole), ("chunks", chunks))}
        results[folder.name] = {
            "recall@20": {form: recalls(data, found, encoder) for form, found in forms.items()},
            "blend": blends(data, forms["chunks"], encoder, scorer, data.sample(options.queries, harness.SEED)),
        }
    settings = {"queries of the blend": options.queries, "depth of each list": DEPTH, "default": str(DEFAULT_FUSION)}
    harness.finish("fusion", results, settings, options.json)


def whole(data: collections.Collection) -> list[tuple[str, str]]:
    """Each document as one passage."""
    return [(key, text) for key, text in data.documents.items()]


def chunks(data: collections.Collection) -> list[tuple[str, str]]:
    """The passages that ingest makes: a headline, and bodies of up to 200 words."""
    found = {}
    for key, text in data.documents.items():
        title, _, body = text.partition("\n") if "\n" in text else ("", "", text)
        for piece in chunk(Document(key, title, body), ChunkSettings()):
            found.setdefault(piece.text, key)
    return [(key, text) for text, key in found.items()]


def searchable(passages: Sequence[tuple[str, str]], encoder: BiEncoder) -> Searchable:
    """Both indexes over passages."""
    texts = [text for _, text in passages]
    alive = np.ones(len(texts), dtype=bool)
    segment = np.frombuffer(build(0, texts), dtype=np.uint8)
    dense = VectorIndex(encoder.encode(texts), alive)
    return Searchable(texts, [key for key, _ in passages], dense, LexicalIndex([segment], alive))


def recalls(data: collections.Collection, found: Searchable, encoder: BiEncoder) -> dict[str, float]:
    """recall@20 of the candidate set by fusion, over all queries."""
    values: dict[str, list[float]] = {}
    for (key, text), vector in zip(data.queries.items(), encoder.encode(list(data.queries.values())), strict=True):
        for name, ranked in fusions(found, text, vector).items():
            values.setdefault(name, []).append(recall(found.documents(ranked), data.relevant[key], COUNT))
    return {name: mean(rows) for name, rows in values.items()}


def fusions(found: Searchable, text: str, vector: np.ndarray) -> dict[str, Ranked]:
    """The first 20 of each list and of each way to fuse them."""
    dense = Ranked(*found.dense.search(vector, DEPTH))
    lexical = Ranked(*found.lexical.search(text, DEPTH))
    similarities = found.dense.similarities(vector, union(dense, lexical))
    fused = {name: fusion(dense, lexical, similarities, COUNT) for name, fusion in FUSIONS.items()}
    return {"dense": dense.first(COUNT), "lexical": lexical.first(COUNT), **fused}


def blends(
    data: collections.Collection,
    found: Searchable,
    encoder: BiEncoder,
    scorer: CrossEncoder,
    sample: Sequence[str],
) -> dict[str, Mapping[str, float]]:
    """nDCG@10 and precision@5 of the first stage and of logit + weight x cosine, by weight."""
    rankings: dict[str, list[list[str]]] = {}
    vectors = encoder.encode([data.queries[key] for key in sample])
    for key, vector in zip(sample, vectors, strict=True):
        text = data.queries[key]
        dense = Ranked(*found.dense.search(vector, DEPTH))
        lexical = Ranked(*found.lexical.search(text, DEPTH))
        similarities = found.dense.similarities(vector, union(dense, lexical))
        ranked = DEFAULT_FUSION(dense, lexical, similarities, COUNT)
        cosines = found.dense.similarities(vector, ranked.rows)
        tokens = scorer.tokenizer.encode_batch([found.texts[row] for row in ranked.rows.tolist()])
        logits = scorer.score(scorer.tokenizer.encode(text), Passages.pack(tokens)).logits
        rankings.setdefault("first stage", []).append(found.documents(ranked))
        for weight in BLENDS:
            order = np.argsort(-blended(logits, cosines, weight), kind="stable")
            reordered = Ranked(ranked.rows[order], ranked.scores[order])
            rankings.setdefault(f"{weight:g}", []).append(found.documents(reordered))
    return {name: _quality(data, sample, rows) for name, rows in rankings.items()}


def _quality(data: collections.Collection, sample: Sequence[str], rows: Sequence[list[str]]) -> dict[str, float]:
    judged = [(ranking, data.relevant[key]) for key, ranking in zip(sample, rows, strict=True)]
    return {
        "ndcg@10": mean(ndcg(ranking, relevant, 10) for ranking, relevant in judged),
        "precision@5": mean(precision(ranking, relevant, 5) for ranking, relevant in judged),
    }


def _parser() -> argparse.ArgumentParser:
    parser = harness.parser(__doc__)
    parser.add_argument("--collection", type=Path, nargs="+", required=True)
    parser.add_argument("--queries", type=int, default=300)
    return parser


if __name__ == "__main__":
    main()
