"""Labelled collections (corpus.jsonl.gz, queries.jsonl, qrels.tsv) and what benchmarks do with them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from runoff.assembly import Passages
from runoff.encoder import BiEncoder
from runoff.reranker import CrossEncoder


@dataclass(frozen=True)
class Collection:
    """Texts of documents and queries by id, and the grade of each relevant document of a query."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, int]]

    def sample(self, count: int, seed: int) -> list[str]:
        """Ids of ``count`` queries drawn without repetition, in the collection's order."""
        ids = list(self.queries)
        chosen = np.random.default_rng(seed).choice(len(ids), min(count, len(ids)), replace=False)
        return [ids[index] for index in sorted(chosen)]


def load(folder: Path) -> Collection:
    """Read a collection folder."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    documents = {record["id"]: f"{record['title']}\n{record['text']}".strip() for record in records}
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = {record["id"]: record["text"] for record in map(json.loads, lines)}
    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split("\t")
        relevant.setdefault(query, {})[document] = int(grade)
    return Collection(documents, {key: text for key, text in queries.items() if key in relevant}, relevant)


def candidates(data: Collection, queries: Sequence[str], encoder: BiEncoder, depth: int) -> dict[str, list[str]]:
    """Ids of the documents nearest to each query, best first."""
    ids = list(data.documents)
    vectors = encoder.encode(list(data.documents.values()))
    similarities = encoder.encode([data.queries[query] for query in queries]) @ vectors.T
    order = np.argsort(-similarities, axis=1, kind="stable")[:, :depth]
    return {query: [ids[index] for index in row] for query, row in zip(queries, order, strict=True)}


def logits(model: CrossEncoder, data: Collection, query: str, documents: Sequence[str]) -> np.ndarray:
    """Logit of each document for a query, float32."""
    tokens = model.tokenizer.encode_batch([data.documents[key] for key in documents])
    return model.score(model.tokenizer.encode(data.queries[query]), Passages.pack(tokens)).logits


def reorder(documents: Sequence[str], scores: np.ndarray) -> list[str]:
    """Documents by score, best first."""
    return [documents[index] for index in np.argsort(-scores, kind="stable")]
