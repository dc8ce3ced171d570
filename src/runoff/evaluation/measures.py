"""Scores of rankings: ir-measures computes all but context precision, which it does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import EvaluationError
from ..evaluate import context_precision

CONTEXT_PRECISION = "context precision@5"
NAMES = ("P@1", "P@3", "P@5", "R@20", "RR@10", "nDCG@10", "AP", CONTEXT_PRECISION)
"""The measures, by the names that ir-measures gives them. The mean of RR@10 is MRR@10, that of AP is MAP."""

HEADINGS: Mapping[str, str] = {
    "R@20": "recall@20",
    "RR@10": "MRR@10",
    "AP": "MAP",
}
"""What a table of means calls a measure where it has another name than the score of one question."""


def scores(
    rankings: Mapping[str, Sequence[str]], judgements: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, float]]:
    """By measure, the score (0..1) of each question.

    Args:
        rankings: by question id, document ids, best first, each once; may be empty.
        judgements: by question id, grades by document id; 1 or more is relevant.

    Raises:
        EvaluationError: ir-measures is not installed.
    """
    ir = library()
    wanted = {ir.parse_measure(name): name for name in NAMES if name != CONTEXT_PRECISION}
    # trec_eval's C code takes an id to its first NUL and ends the process at a lone surrogate: it is given numbers.
    numbers: dict[str, str] = {}
    keys = {str(number): key for number, key in enumerate(rankings)}

    def number(item: str) -> str:
        return numbers.setdefault(item, str(len(numbers)))

    qrels = [ir.Qrel(n, number(item), grade) for n, key in keys.items() for item, grade in judgements[key].items()]
    run = [
        ir.ScoredDoc(n, number(item), -float(rank))
        for n, key in keys.items()
        for rank, item in enumerate(rankings[key])
    ]
    found: dict[str, dict[str, float]] = {name: dict.fromkeys(rankings, 0.0) for name in NAMES}
    for metric in ir.iter_calc(list(wanted), qrels, run) if run else ():
        found[wanted[metric.measure]][keys[metric.query_id]] = float(metric.value)
    for key, items in rankings.items():
        found[CONTEXT_PRECISION][key] = context_precision(items, judgements[key], 5)
    return found


def library() -> Any:
    """The module ir_measures.

    Raises:
        EvaluationError: it is not installed.
    """
    try:
        import ir_measures
    except ImportError as error:
        raise EvaluationError("ir-measures is not installed; needed here. Run pip install 'runoff[eval]'.") from error
    return ir_measures
