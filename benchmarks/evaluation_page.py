"""Prints docs/evaluation.md from committed results. The words are here, the figures are not.

python benchmarks/evaluation_page.py            writes the page
python benchmarks/evaluation_page.py --check    exits 1 when the page on disk is not what the results give
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "evaluation.md"
COLUMNS = {"P@1": "P@1", "P@5": "P@5", "R@20": "recall@20", "RR@10": "MRR@10", "nDCG@10": "nDCG@10", "AP": "MAP"}
CONTEXT = "context precision@5"

HEAD = """# Evaluation: does reranking help on your data, and what does it cost?

```console
$ pip install 'runoff[eval]'
$ runoff eval FOLDER --out results
$ runoff eval QUESTIONS.jsonl --store DIR --out results
```

`FOLDER` holds a labelled collection: `corpus.jsonl`, `queries.jsonl`, `qrels.tsv`, or the files of BEIR, each plain or
gzipped. It is ingested into a store inside the results' folder; `--whole` makes each document one chunk with its title
in front, which is how BEIR's figures are made. `QUESTIONS.jsonl` asks a store that you have already:

    {"id": "q1", "question": "How long do payouts abroad take?", "relevant": ["a6f3c0d2b1e49587"]}
    {"id": "q2", "question": "Who pays for a lost dispute?", "relevant": {"https://blog.example/disputes": 2}}

A document is named by the id that `runoff search --json` shows, by the id of its JSONL record, by the URI that its feed
gives it, by its address, or by the path of its file; a grade of 1 or more is relevant. Judged documents or questions
that are not there are told before the run begins. Search shows a text that came more than once under one of its ids, so
a label on a document counts for every document with the same title and text.

Every question gets one candidate pass: each first stage (vectors, BM25, both) lists its candidates, the cross-encoder
scores their union, and nine rankings follow: each list as it is, by logit ("rerank"), and by logit + blend x cosine
similarity ("blend", which is what `search` does by default over the hybrid list). A pair's score depends on nothing
but the pair, so this gives the same rankings as nine searches. Chunks become documents by their best chunk. A run that
was stopped goes on where it was; `--limit N` takes N questions drawn by `--seed`, and a larger N keeps what a smaller
one computed. So does a change of labels, questions or `--blend`, for what it leaves as it was; another corpus, store,
model, backend, number of candidates or of threads wants another folder.

## What the results' folder holds

| file | what |
| --- | --- |
| `report.html` | verdict, tables, plot, and what reranking helped and hurt, in one file that opens from disk |
| `summary.json` | every mean with its interval, every difference with its test, every time |
| `questions.csv`, `questions.jsonl` | scores, and rankings, of each question by each configuration |
| `changes.json` | all questions that rerank and blend changed, with the texts before and after |
| `plot.svg`, `plot.png` | nDCG@10 against median latency |
| `runs/*.txt`, `runs/qrels.txt` | TREC runs and judgements, for trec_eval or `ir_measures` (blanks in ids as `%20`) |
| `contexts.jsonl` | questions with the five chunks that a prompt would begin with, for RAGAS |
| `calibration.json` | with `--calibrate`: probabilities fitted to your labels (docs/exits.md says how to use them) |
| `passes.jsonl` | the candidate passes, which a later run goes on from |

## How it is measured

P@1/3/5, recall@20, MRR@10, nDCG@10 (linear gain) and MAP are trec_eval's, computed by
[ir-measures](https://ir-measur.es). Context precision is
[that of RAGAS](https://docs.ragas.io/en/stable/concepts/metrics/available_metrics/context_precision/) with labels in
place of a judging model: the mean of the precisions at the relevant places of the first five.

Differences are paired by question. p is that of a two-sided randomisation test (10,000 seeded draws of signs; all of
them where at most 14 questions differ), which Smucker, Allan and Carterette (CIKM 2007) recommend for such scores;
intervals are 95% bootstrap intervals of the mean by percentiles. `summary.json` has p adjusted by Holm's method as
well, over all comparisons by one measure. With a few dozen questions only large differences show: an interval that
holds 0 says "not shown", not "equal".

The runoff is timed over one mode's list a question, the modes taking turns, so that every time is a measured one and a
slow moment meets all modes alike. The first question is asked once beforehand to load the models.

## Faithfulness of answers

Whether an answer is true to its contexts takes the answer, so `contexts.jsonl` has everything but that, under the names
of RAGAS's `SingleTurnSample`. Fill in what your model said, and RAGAS reads it:

```python
import json

from ragas import EvaluationDataset, evaluate
from ragas.metrics import Faithfulness

samples = [json.loads(line) for line in open("results/contexts.jsonl", encoding="utf-8")]
for sample in samples:
    sample["response"] = your_model(sample["user_input"], sample["retrieved_contexts"])
print(evaluate(EvaluationDataset.from_list(samples), metrics=[Faithfulness(llm=your_judge)]))
```

One line of it:

    {"user_input": "How long do payouts abroad take?", "retrieved_contexts": ["A payout to a merchant abroad ..."],
     "retrieved_context_ids": ["a6f3c0d2b1e49587"], "reference_context_ids": ["a6f3c0d2b1e49587"]}

What needs no judge runs on the file as it is: `IDBasedContextPrecision()` and `IDBasedContextRecall()` in place of
`Faithfulness`. Both were run over the 30 questions of the demo corpus with ragas 0.4.3 (whose import wants
langchain-community below 0.4) and gave 0.325 and 0.816, which is what the ids say when counted by hand. Faithfulness
was run with a scripted judge only, which shows that the file has what it reads; no language model was asked, so there
is no figure of it here.

# What it shows on four collections

The tables are printed from `benchmarks/results/evaluation/` by `python benchmarks/evaluation_page.py`. Times want a
machine that does nothing else and few questions, quality the reverse: p50 and p95 are those of a shorter run of its own
(`make evaluation-times`), over the first stage and the runoff of the questions that the line above a table tells. They
are only good for comparing rows of one table.
"""

COLLECTIONS = {
    "demo": """## The demo corpus

30 questions of ours over the sample feed (`runoff demo`), graded; half of them have one relevant entry, the others two
to six. The entry that answers the first question was reworded after its rank had been seen.
""",
    "nq_passages": """## nq_passages

Questions typed into a search engine (Natural Questions, by way of QED and CLAP NQ) and Wikipedia paragraphs. One judged
paragraph a question among 1,937, so dense search is nearly perfect and there is little left to gain.
""",
    "fiqa_test": """## fiqa_test

Personal-finance questions and community answers: FiQA's test questions over the 865 answers that are relevant to one of
them, so figures run far above BEIR's, whose corpus has 57,638. Questions and answers share few words.
""",
    "scifact": """## scifact

Scientific claims and abstracts, BEIR's corpus and test queries, each abstract one chunk with its title (`--whole`).
""",
}

PUBLISHED = """### Beside the published figures

All {queries} queries, first stages only (`benchmarks/published.py`), nDCG@10:

| first stage | here | published |
| --- | --- | --- |
| dense | {dense:.3f} | 0.645, all-MiniLM-L6-v2 (Muennighoff et al., "MTEB", EACL 2023) |
| BM25 | {lexical:.3f} | 0.665 (Thakur et al., "BEIR", 2021); 0.679 (Anserini's flat index) |

The BM25s differ in settings: Runoff takes k1 = 1.2 and b = 0.75 where Anserini takes 0.9 and 0.4, and folds and stems
words in its own way. The dense model is the authors' in 8 bits, reading the first 256 tokens as theirs does.
"""

READING = """## What to take from it

"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    page = build()
    if options.parse_args().check:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page else f"{PAGE}: differs; run {Path(__file__).name}")
    PAGE.write_text(page, encoding="utf-8")


def build() -> str:
    """The page's text."""
    found = {name: _read(f"evaluation/{name}") for name in COLLECTIONS if _path(f"evaluation/{name}").exists()}
    parts = [HEAD]
    for name, summary in found.items():
        times = _read(f"evaluation/times/{name}")
        parts += [COLLECTIONS[name], _facts(summary, times), _quality(summary, times), _differences(summary)]
        if name == "scifact" and _path("published").exists():
            record = _read("published")
            figures = {mode: record["results"][mode]["nDCG@10"] for mode in ("dense", "lexical")}
            parts.append(PUBLISHED.format(queries=record["settings"]["queries"], **figures))
    return "\n".join([*parts, READING + _reading(found)])


def _path(name: str) -> Path:
    return RESULTS / f"{name}.json"


def _read(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(_path(name).read_text(encoding="utf-8"))
    return record


def _facts(summary: Mapping[str, Any], times: Mapping[str, Any]) -> str:
    machine, settings = summary["machine"], summary["settings"]
    asked = f"{summary['questions']} questions"
    if summary["questions"] < summary["questions in all"]:
        asked += f" of {summary['questions in all']}, drawn by seed {settings['seed']}"
    return (
        f"{asked}; {summary['documents']:,} documents, {summary['chunks']:,} chunks, {settings['candidates']} "
        f"candidates, blend {settings['blend']:g}; {summary['backend']} backend, {machine['cpu']}, "
        f"{machine['threads']} threads. Times of {times['questions']} questions.\n"
    )


def _quality(summary: Mapping[str, Any], timed: Mapping[str, Any]) -> str:
    head = ("ranking", *COLUMNS.values(), CONTEXT, "p50 ms", "p95 ms")
    rows = []
    for each, clock in zip(summary["configurations"], timed["configurations"], strict=True):
        means = [f"{each['means'][name]:.3f}" for name in (*COLUMNS, CONTEXT)]
        times = ("-" if clock[name] is None else f"{clock[name]:.0f}" for name in ("p50_ms", "p95_ms"))
        rows.append((each["name"], *means, *times))
    return _table(head, rows)


def _differences(summary: Mapping[str, Any]) -> str:
    rows = [
        (
            f"{each['name']} against {each['against']}",
            f"{each['mean']:+.3f}",
            f"{each['low']:+.3f} to {each['high']:+.3f}",
            f"{each['p']:.3f}" if each["p"] >= 0.001 else "< 0.001",
            each["better"],
            each["worse"],
        )
        for each in summary["comparisons"]
        if each["measure"] == "nDCG@10"
    ]
    return _table(("nDCG@10", "mean difference", "95% interval", "p", "better", "worse"), rows)


def _reading(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Where rerank alone loses to its first stage and what blending does, in figures."""
    rows = []
    for name, summary in found.items():
        for mode in ("dense", "lexical", "hybrid"):
            gaps = {
                second: _gap(summary, f"{mode} + {second}", against)
                for second, against in (("rerank", mode), ("blend", mode))
            }
            kept = _gap(summary, f"{mode} + blend", f"{mode} + rerank")
            rows.append((name, mode, *(f"{gap['mean']:+.3f}" for gap in (gaps["rerank"], gaps["blend"], kept))))
    table = _table(("collection", "first stage", "rerank - first stage", "blend - first stage", "blend - rerank"), rows)
    losses = [f"{row[1]} on {row[0]} ({row[2]})" for row in rows if row[2].startswith("-")]
    told = (
        f"Rerank alone has the lower mean nDCG@10 than its own first stage for {_series(losses)}."
        if losses
        else ("Rerank alone has nowhere a lower mean nDCG@10 than its own first stage.")
    )
    mended = sum(float(row[4]) > 0 for row in rows)
    return f"{table}\n{told} Blending is above rerank alone in {mended} of {len(rows)} rows.\n"


def _series(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _gap(summary: Mapping[str, Any], name: str, against: str) -> Mapping[str, Any]:
    return next(
        each
        for each in summary["comparisons"]
        if (each["name"], each["against"], each["measure"]) == (name, against, "nDCG@10")
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, ("---",) * len(head), *rows)) + "\n"


if __name__ == "__main__":
    main()
