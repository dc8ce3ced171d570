"""What probabilities are worth: curves fitted on one labelled collection, looked at on others.

python benchmarks/calibration.py --collections DATA --cache CACHE --json benchmarks/results/calibration.json \
    --svg docs/reliability.svg [--ship models/ms-marco-MiniLM-L-12-v2/calibration.json]

The cache is that of early_exit.py: the first stage's twenty candidates of each query and their exact logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import early_exit
import harness
from early_exit import DEPTH, NAMES, Known
from runoff import calibration
from runoff.calibration import Bin, Calibration
from runoff.ranking import DEFAULT_BLEND

FITTED_ON = "nq_passages"
WEIGHTS = (0.0, DEFAULT_BLEND)
LEAST = (0.05, 0.1, 0.2, 0.5)

SIDE, EDGE = 260, 40


def labels(known: Known) -> np.ndarray:
    """Whether each candidate is judged relevant: bool, shape [queries * DEPTH]."""
    return np.array(
        [
            known.data.relevant[query].get(document, 0) > 0
            for query, row in zip(known.queries, known.documents, strict=True)
            for document in row
        ]
    )


def fitted(known: Known, weight: float, model: str) -> Calibration:
    """Curves for a collection's labels."""
    about = {
        "labels": f"{FITTED_ON}: its judgements of the first stage's {DEPTH} candidates",
        "unjudged": "not relevant",
    }
    scores = known.evidence.logits + weight * known.similarities.reshape(-1)
    return calibration.fit(scores, labels(known), known.evidence.queries, weight=weight, model=model, about=about)


def measured(known: Known, found: Calibration, refilled: tuple[np.ndarray, np.ndarray, np.ndarray]) -> dict[str, Any]:
    """How far probabilities are from what the labels say, what a least probability keeps, and who can be answered."""
    relevant = labels(known)
    said = found.relevance(known.evidence.logits, known.similarities.reshape(-1))
    return {
        "error": calibration.calibration_error(said, relevant),
        "error_of_sigmoid": calibration.calibration_error(
            1 / (1 + np.exp(-known.evidence.logits.astype(float))), relevant
        ),
        "relevant": float(relevant.mean()),
        "bins": [asdict(each) for each in calibration.reliability(said, relevant)],
        "min_score": {f"{least:g}": kept(said, relevant, least) for least in LEAST},
        "answerable": answerable(known, found, relevant, refilled),
    }


def kept(said: np.ndarray, relevant: np.ndarray, least: float) -> dict[str, float]:
    """Passages a query keeps, the share of its relevant candidates among them, and how many of them are relevant."""
    keeps = said >= least
    return {
        "passages": float(keeps.mean() * DEPTH),
        "recall": float((keeps & relevant).sum() / relevant.sum()),
        "precision": float((keeps & relevant).sum() / max(keeps.sum(), 1)),
    }


def answerable(
    known: Known, found: Calibration, relevant: np.ndarray, refilled: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> dict[str, float]:
    """Each query that has relevant candidates, asked as it is and of a store without anything relevant."""
    queries = known.evidence.queries
    scores = found.scores(known.evidence.logits, known.similarities.reshape(-1))
    fresh = found.scores(*refilled[1:])
    rests = [
        np.concatenate([scores[(queries == number) & ~relevant], fresh[refilled[0] == number]])
        for number in np.unique(queries[relevant])
    ]
    best = [scores[queries == number].max() for number in np.unique(queries[relevant])]
    said = found.query(np.array([*best, *(rest.max() for rest in rests)]))
    answered = np.arange(len(said)) < len(best)
    return {
        "queries": len(best),
        "right_with": float((said[answered] >= 0.5).mean()),
        "right_without": float((said[~answered] < 0.5).mean()),
        "right": float(((said >= 0.5) == answered).mean()),
        "right_of_any_fixed_top_n": float(answered.mean()),
        "error": calibration.calibration_error(said, answered),
    }


def drawn(results: Mapping[str, Any]) -> str:
    """An SVG of what was said (across) against what was found (up), a panel for each collection."""
    panels = "".join(
        panel(place, name, [Bin(**each) for each in row["bins"]]) for place, (name, row) in enumerate(results.items())
    )
    width, height = len(results) * (SIDE + EDGE) + EDGE, SIDE + 2 * EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{panels}</svg>\n'
    )


def panel(place: int, name: str, bins: list[Bin]) -> str:
    """One collection: the diagonal of the truth, and a dot for each bin."""
    left, bottom = EDGE + place * (SIDE + EDGE), EDGE + SIDE
    dots = [(left + each.said * SIDE, bottom - each.found * SIDE) for each in bins]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
    return (
        f'<rect x="{left}" y="{EDGE}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>\n'
        f'<line x1="{left}" y1="{bottom}" x2="{left + SIDE}" y2="{EDGE}" stroke="#bbb" stroke-dasharray="4"/>\n'
        f'<polyline points="{line}" fill="none" stroke="#1f5fa8"/>\n'
        + "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#1f5fa8"/>\n' for x, y in dots)
        + f'<text x="{left}" y="{EDGE - 8}">{name}</text>\n'
        f'<text x="{left}" y="{bottom + 16}">0</text><text x="{left + SIDE - 8}" y="{bottom + 16}">1</text>\n'
        f'<text x="{left + SIDE / 2 - 60:.0f}" y="{bottom + 28}">said (up: found relevant)</text>\n'
    )


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True)
    options.add_argument("--cache", type=Path, required=True)
    options.add_argument("--names", nargs="+", default=list(NAMES), help="collections")
    options.add_argument("--queries", type=int, default=200)
    options.add_argument("--kept", action="store_true", help="take the queries that the cache has, and no others")
    options.add_argument("--svg", type=Path, help="draw the reliability of the largest weight here")
    options.add_argument("--ship", type=Path, help="write the calibrations to this file")
    chosen = options.parse_args()
    gatherer = early_exit.Gatherer(chosen.collections, chosen.cache, chosen.threads)
    counts = {name: gatherer.kept(name) if chosen.kept else chosen.queries for name in chosen.names}
    known = {name: gatherer.known(name, count) for name, count in counts.items()}
    refills = {name: gatherer.refilled(name, each) for name, each in known.items()}
    model = gatherer.model.artifact.digest
    curves = [fitted(known[FITTED_ON], weight, model) for weight in WEIGHTS]
    results = {
        f"{each.weight:g}": {
            "passage": asdict(each.passage),
            "query": asdict(each.query),
            **{name: measured(row, each, refills[name]) for name, row in known.items()},
        }
        for each in curves
    }
    if chosen.ship:
        calibration.write(chosen.ship, *curves)
    if chosen.svg:
        chosen.svg.write_text(drawn({name: results[f"{WEIGHTS[-1]:g}"][name] for name in known}), encoding="utf-8")
    settings = {"fitted_on": FITTED_ON, "queries": counts, "collections": list(known)}
    harness.finish("calibration", results, settings, chosen.json)


if __name__ == "__main__":
    main()
