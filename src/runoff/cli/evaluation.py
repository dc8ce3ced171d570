"""`runoff eval`: measures rankings on labelled data and prints what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ..errors import EvaluationError
from . import output, stderr

if TYPE_CHECKING:
    from ..engine import Engine
    from ..evaluation import Evaluation, Labelled

# As many as have room beside the times in 80 columns.
SHOWN = {"P@1": "P@1", "P@5": "P@5", "R@20": "R@20", "RR@10": "MRR@10", "nDCG@10": "nDCG@10", "AP": "MAP"}


def run(
    target: Path,
    store: Path | None,
    out: Path,
    open_engine: Callable[..., Engine],
    *,
    whole: bool,
    split: str | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Evaluate a collection folder, or a file of questions over a store.

    Raises:
        EvaluationError: the data is malformed, does not fit the store or the options, the folder holds another run, or
            a package is not installed.
    """
    from .. import evaluation

    chosen = evaluation.Settings(**settings)
    _check(target, store, whole, split)
    evaluation.require_packages()
    evaluation.make_folder(out)
    with output.progress() as progress:
        advance = progress or _silent
        labelled: Labelled
        if target.is_dir():
            data = evaluation.load(target, split)
            labelled = evaluation.from_folder(data, out, open_engine, whole=whole, progress=advance)
        else:
            labelled = evaluation.from_questions(target, open_engine(store, chunking=None))
        for warning in labelled.warnings:
            stderr.line(f"warning: {warning}")
        with labelled.engine:
            found = evaluation.run(labelled, out, chosen, advance)
    if as_json:
        output.print_json(found.summary)
    else:
        _show(found)


def _check(target: Path, store: Path | None, whole: bool, split: str | None) -> None:
    if not target.exists():
        raise EvaluationError(f"{target}: no such file or folder; expected a collection folder or a file of questions")
    if target.is_dir() and store is not None:
        raise EvaluationError(
            f"{target}: a collection has its own store; leave out --store, or name a file of questions"
        )
    if target.is_file() and store is None:
        raise EvaluationError(f"{target}: questions need the store that they ask; name it with --store")
    if target.is_file() and (whole or split):
        raise EvaluationError(
            "--whole and --split are for a collection folder; leave them out with a file of questions"
        )


def _silent(what: str, done: int, total: int) -> None:
    """Where stderr is no terminal, nobody watches."""


def _show(found: Evaluation) -> None:
    from ..evaluation.verdict import verdict

    facts = found.summary
    counts = f"{facts['questions']} questions, {facts['documents']} documents, {facts['chunks']} chunks"
    print(f"{stderr.visible(facts['name'])}: {counts}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("ranking", no_wrap=True)
    for name in (*SHOWN.values(), "p50 ms", "p95 ms"):
        table.add_column(name, justify="right")
    for outcome in found.outcomes:
        means, times = outcome.stage.means, outcome.to_dict()
        shown = ("-" if times[name] is None else f"{times[name]:.1f}" for name in ("p50_ms", "p95_ms"))
        table.add_row(outcome.configuration.name, *(f"{means[name]:.3f}" for name in SHOWN), *shown)
    output.console().print(table)
    for sentence in verdict(found.outcomes, found.comparisons):
        print(f"{sentence}.")
    print(f"Everything else, with every difference and the questions that changed: {found.folder / 'report.html'}")
