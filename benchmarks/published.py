"""Do the first stages score on SciFact what was published for such models? All of its queries, no rerank.

runoff eval DIR --whole --out OUT
python benchmarks/published.py --collection DIR --store OUT/store --json benchmarks/results/published.json
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import harness
from runoff import candidates, evaluation
from runoff.engine import Engine
from runoff.evaluation import collection, measures

DEPTH = 100


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collection", type=Path, required=True)
    options.add_argument("--store", type=Path, required=True)
    chosen = options.parse_args()
    data = evaluation.load(chosen.collection)
    names = {document.id: key for key, document in collection.as_documents(data, whole=True)}
    judgements = {query.id: query.relevant for query in data.queries}
    with Engine.open(chosen.store) as engine:
        generation, encoder = engine.store.current(), engine.stages.encoder
        results = {}
        for mode in ("dense", "lexical"):
            rankings = {}
            for query in data.queries:
                vector = encoder.encode([query.text])[0]
                rows = candidates.find(generation, query.text, vector, DEPTH, mode=mode).rows
                chunks = (generation.snapshot.chunk(generation.snapshot.chunk_of(row)) for row in rows.tolist())
                rankings[query.id] = list(dict.fromkeys(names[chunk.document_id] for chunk in chunks))
            found = measures.scores(rankings, judgements)
            results[mode] = {name: mean(scores.values()) for name, scores in found.items()}
    harness.finish("published", results, {"collection": data.name, "queries": len(data.queries)}, chosen.json)


if __name__ == "__main__":
    main()
