"""Prints docs/decisions/fusion.md from benchmarks/results/fusion.json. The words are here, the figures are not.

python benchmarks/fusion_page.py            writes the page
python benchmarks/fusion_page.py --check    exits 1 when the page on disk is not what the results give
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "fusion.json"
PAGE = ROOT / "docs" / "decisions" / "fusion.md"

HEAD = """# Fusion and blend: which twenty the runoff sees, and how both rounds make the order

**Decision.** The first stage's lists are fused by cosine + 0.2 x (BM25 / the query's best BM25), and the final order
is logit + 20 x cosine.

**Asked for.** The fusion decides which twenty passages the runoff gets to see, so it is judged by the recall of that
set, not by its own order. The default had to be the best on average over three collections and lose at most a point
of recall to the dense list on any of them. The weight of the blend had to be chosen on one collection and shown on
others.
"""

RECALL = """## recall@20 of the candidate set

All queries. Passages are what ingest makes of the documents (a headline, bodies of up to 200 words); a document
counts where one of its passages is among the twenty.
"""

WHOLE = """The same with each document as one passage, cut by nothing but the encoder's 256 tokens:
"""

READ = """Equal weights, the usual recipe, are worse than the dense list alone where questions and answers share
few words (fiqa_test). A share of BM25 beside the cosine is best on average, and loses at most half a
point to the dense list on one collection; it can lift a passage far in the lexical list only when its
words are as good as the best there are, which reciprocal ranks cannot tell. Reserved seats were worse
than both.
"""

BLEND = """## The weight of the blend

nDCG@10 and precision@5 by the weight of the cosine similarity beside the logit (a sample of queries, drawn with a fixed
seed), over the twenty of the fusion that the last line names. The weight was chosen on nq_passages, from the plateau of
its nDCG; the other two columns show what it does elsewhere.
"""

AFTER = """Without the cosine (weight 0, `--blend 0`) the cross-encoder alone ranks worse than the first stage on
fiqa_test and scifact, and better on nq_passages: it was trained on web passages, and does not know the answers of
forums or of science as well. With it, at the weight that was chosen, it ranks better than either on all three.

A difference of less than about a point may be noise. `runoff eval` measures both on labels of one's own, with
intervals.
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    page = build(json.loads(RESULTS.read_text(encoding="utf-8")))
    if options.parse_args().check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page else f"{PAGE}: print it again")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")


def build(record: Mapping[str, Any]) -> str:
    """The page's text."""
    results = record["results"]
    names = list(results)
    return "\n".join(
        [
            HEAD,
            RECALL,
            *_recall(results, names, "chunks"),
            WHOLE,
            *_recall(results, names, "documents"),
            READ,
            BLEND,
            *_blend(results, names),
            AFTER,
            _note(record),
        ]
    )


def _recall(results: Mapping[str, Any], names: Sequence[str], form: str) -> list[str]:
    rows = []
    for fusion in results[names[0]]["recall@20"][form]:
        values = [results[name]["recall@20"][form][fusion] for name in names]
        rows.append((fusion, *(f"{value:.3f}" for value in values), f"{sum(values) / len(values):.4f}"))
    return _table(("candidates", *names, "mean"), rows)


def _blend(results: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    rows = []
    for weight in results[names[0]]["blend"]:
        cells = [results[name]["blend"][weight] for name in names]
        rows.append((weight, *(f"{cell['ndcg@10']:.4f} / {cell['precision@5']:.3f}" for cell in cells)))
    return _table(("weight", *names), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [head, ("---",) * len(head), *rows]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]


def _note(record: Mapping[str, Any]) -> str:
    settings = record["settings"]
    return (
        f"({settings['queries of the blend']} queries a collection for the blend; lists read "
        f"{settings['depth of each list']} deep; {settings['default']}. "
        "`python benchmarks/fusion.py --collection DIR [DIR ...]`.)\n"
    )


if __name__ == "__main__":
    main()
