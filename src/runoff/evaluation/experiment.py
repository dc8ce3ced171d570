"""An evaluation from labelled data to a folder of results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .. import calibration, cpu, manifest
from .. import threads as thread_budget
from .._version import __version__
from ..caching import Identified
from ..chunking import ChunkSettings
from ..engine import Engine
from ..errors import EvaluationError, QueryError
from ..ranking import DEFAULT_BLEND, check_blend
from ..reranker import CrossEncoder, check_count
from ..searching import DEFAULT_CANDIDATES
from ..stages import ModelStages
from . import calibrating, changes, collection, files, html, measures, plot, questions, repeats, summary
from .candidates import EngineCandidates, Pass
from .collection import Collection, Query
from .configurations import Configuration
from .passes import PassFile, require
from .summary import Comparison, Outcome
from .texts import Texts, document_rows

Progress = Callable[[str, int, int], None]

DEFAULT_SEED = 20
# As many words as no document has: the whole of it is one chunk.
WHOLE = ChunkSettings(size=10_000_000)
PASSES = "passes.jsonl"
_BLOCK_DOCUMENTS = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """How an evaluation is run.

    Attributes:
        limit: most questions, drawn by ``seed``; None takes all.
        seed: of the draw, the tests and the intervals, at least 0.
        candidates: chunks that each first stage hands over, at least 1.
        blend: weight of the cosine beside the logit, in logits.
        calibrate: whether to fit probabilities to the labels, for the logit alone and for this blend.

    Raises:
        QueryError: a setting is out of range.
    """

    limit: int | None = None
    seed: int = DEFAULT_SEED
    candidates: int = DEFAULT_CANDIDATES
    blend: float = DEFAULT_BLEND
    calibrate: bool = False

    def __post_init__(self) -> None:
        check_count("candidates", self.candidates)
        check_blend(self.blend)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise QueryError(f"seed: got {self.seed!r}; expected a whole number of at least 0")
        if self.limit is not None:
            check_count("limit", self.limit)


@dataclass(frozen=True)
class Labelled:
    """Labelled questions and the store that answers them.

    Attributes:
        name: what was evaluated.
        engine: over the store.
        queries: all questions.
        identity: what a candidate pass depends on, apart from the settings.
        facts: counts to report.
        names: document names by stored id, where they have names of their own.
        warnings: what makes every ranking look worse than it is.
    """

    name: str
    engine: Engine
    queries: tuple[Query, ...]
    identity: Mapping[str, Any]
    facts: Mapping[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of it.

    Attributes:
        folder: where the results are.
        outcomes: of every configuration.
        comparisons: every difference.
        summary: what ``summary.json`` holds.
    """

    folder: Path
    outcomes: tuple[Outcome, ...]
    comparisons: tuple[Comparison, ...]
    summary: Mapping[str, Any]


def from_folder(
    data: Collection, out: Path, open_engine: Callable[..., Engine], *, whole: bool = False, progress: Progress
) -> Labelled:
    """A collection, ingested into a store in the results' folder unless it is there already.

    Args:
        data: the collection.
        out: the results' folder.
        open_engine: makes an engine of a folder and ``chunking``.
        whole: one chunk a document, its title in front, as BEIR's figures are made; else as ingest cuts it.
        progress: called with what is done, documents done and documents in all.

    Raises:
        EvaluationError: the store there holds documents of something else.
        StoreError: the store cannot be written, or was made by other settings.
    """
    identity = {"corpus": data.digest, "whole": whole}
    require(out / PASSES, identity)
    engine = open_engine(out / "store", chunking=WHOLE if whole else ChunkSettings())
    names = {collection.stored_id(key): key for key in data.documents}
    _require_own(engine, names)
    documents, done = collection.as_documents(data, whole=whole), 0
    while block := [document for _, document in islice(documents, _BLOCK_DOCUMENTS)]:
        engine.add(block)
        done += len(block)
        progress("ingesting", done, len(names))
    moved = repeats.shown(engine.store.current().snapshot)
    queries = repeats.relabel(data.queries, {names[key]: names[to] for key, to in moved.items()})
    lost = collection.absent(data.queries, data.documents)
    facts = {
        "questions without a relevant document": data.unjudged,
        "judged questions that are not in the queries": len(data.unasked),
        "relevant documents not in the corpus": len(lost),
        "documents that repeat another": len(moved),
    }
    warnings = [*_lost(lost, "corpus"), *_unasked(data.unasked)]
    return Labelled(data.name, engine, queries, identity, facts, names, tuple(warnings))


def _lost(pairs: Sequence[tuple[str, str]], where: str) -> Iterator[str]:
    if pairs:
        query, document = pairs[0]
        yield (
            f"relevant documents that are not in the {where}, which no ranking can find: {len(pairs)} "
            f"(first: {document!r} of question {query!r})"
        )


def _unasked(queries: Sequence[str]) -> Iterator[str]:
    if queries:
        yield f"judged questions that are not in the queries: {len(queries)} (first: {queries[0]!r})"


def _require_own(engine: Engine, names: Mapping[str, str]) -> None:
    """Refuse a store whose other documents would stand in the rankings."""
    if not (engine.folder / manifest.NAME).exists():
        return
    others = document_rows(engine.store.current().snapshot).keys() - names.keys()
    if others:
        raise EvaluationError(
            f"{engine.folder}: holds {len(others)} documents that are not in the corpus; expected a store of this "
            "corpus alone. Choose another folder with --out."
        )


def from_questions(path: Path, engine: Engine) -> Labelled:
    """Labelled questions over an existing store.

    Raises:
        EvaluationError: the questions are malformed or do not fit the store.
        StoreError: there is no store, or it is damaged.
    """
    snapshot = engine.store.current().snapshot
    stored = document_rows(snapshot)
    queries = questions.load(path, stored)
    moved = repeats.shown(snapshot)
    identity = {"contents of the store": snapshot.manifest.digest}
    lost = collection.absent(queries, stored)
    facts = {
        "relevant documents not in the store": len(lost),
        "documents that repeat another": len(moved),
    }
    warnings = tuple(_lost(lost, "store"))
    return Labelled(path.name, engine, repeats.relabel(queries, moved), identity, facts, warnings=warnings)


def run(labelled: Labelled, out: Path, settings: Settings, progress: Progress) -> Evaluation:
    """Make the passes that are missing, measure, and write the results.

    Raises:
        EvaluationError: the folder holds another run's passes, or a package of the extra ``eval`` is missing.
        StoreError, BackendError: a question could not be answered.
    """
    require_packages()
    queries = draw(labelled.queries, settings.limit, settings.seed)
    source = EngineCandidates(labelled.engine, settings.candidates, labelled.names)
    passes = _passes(labelled, source, queries, out, settings, progress)
    found = summary.outcomes(queries, passes, source.steps, settings.blend, settings.seed)
    compared = summary.compare(found, settings.seed)
    steps = summary.step_times([passes[query.id] for query in queries], source.steps)
    evaluation = Evaluation(out, found, compared, _summary(labelled, queries, settings, found, compared, steps))
    _write(evaluation, labelled, queries, passes, settings)
    if settings.calibrate:
        _calibrate(labelled, queries, passes, list(source.steps)[-1], settings, out)
    return evaluation


def _calibrate(
    labelled: Labelled,
    queries: Sequence[Query],
    passes: Mapping[str, Pass],
    mode: str,
    settings: Settings,
    out: Path,
) -> None:
    scorer = labelled.engine.stages.scorer
    if not isinstance(scorer, CrossEncoder):
        raise EvaluationError(f"calibrate: got a scorer of {type(scorer).__name__}; expected a CrossEncoder")
    weights = (0.0, settings.blend)
    found = calibrating.fit(queries, passes, mode, weights, scorer.artifact.digest, labelled.name)
    calibration.write(out / calibration.FILE, *found)


def draw(queries: Sequence[Query], limit: int | None, seed: int) -> tuple[Query, ...]:
    """At most ``limit`` queries, drawn without repetition by ``seed``; those of a smaller limit come first."""
    if limit is None or limit >= len(queries):
        return tuple(queries)
    order = np.random.default_rng(seed).permutation(len(queries))
    return tuple(queries[index] for index in order[:limit].tolist())


def require_packages() -> None:
    """Refuse before the work where a package of the extra ``eval`` would be missing after it.

    Raises:
        EvaluationError: names the package.
    """
    measures.library()
    plot.library()


def make_folder(out: Path) -> None:
    """The results' folder, which may be there already.

    Raises:
        EvaluationError: it cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvaluationError(f"{out}: cannot be made ({error.strerror}); choose another folder with --out") from error


def _passes(
    labelled: Labelled,
    source: EngineCandidates,
    queries: Sequence[Query],
    out: Path,
    settings: Settings,
    progress: Progress,
) -> Mapping[str, Pass]:
    engine = labelled.engine
    identity = {**labelled.identity, **engine.store.identity, **_computing(engine), "candidates": settings.candidates}
    kept = PassFile(out / PASSES, {**identity, "modes": list(source.steps)})
    modes = list(source.steps)
    missing = [query for query in queries if query.text not in kept.found]
    if missing:
        source.candidates(missing[0].text, modes[0])  # the first pass loads the models; it is not kept
    for done, query in enumerate(queries, start=1):
        if query.text not in kept.found:
            kept.add(query.text, source.candidates(query.text, modes[done % len(modes)]))
        progress("asking", done, len(queries))
    return {query.id: kept.found[query.text] for query in queries}


def _computing(engine: Engine) -> dict[str, Any]:
    """What scores and times depend on apart from the store and the settings."""
    stages = engine.stages
    found: dict[str, Any] = {"version": __version__, "backend": stages.backend, "threads": _threads(engine)}
    if isinstance(stages, Identified):
        found |= {"bi-encoder": stages.vector_identity(), "cross-encoder": stages.logit_identity()}
    return found


def _threads(engine: Engine) -> int:
    stages = engine.stages
    return stages.threads if isinstance(stages, ModelStages) else thread_budget.budget()


def _summary(
    labelled: Labelled,
    queries: Sequence[Query],
    settings: Settings,
    found: Sequence[Outcome],
    compared: Sequence[Comparison],
    steps: Mapping[str, Any],
) -> dict[str, Any]:
    snapshot = labelled.engine.store.current().snapshot
    return {
        "name": labelled.name,
        "version": __version__,
        "machine": {
            "cpu": cpu.model_name(),
            "features": ", ".join(cpu.features()),
            "threads": _threads(labelled.engine),
            "cores": os.cpu_count(),
        },
        "backend": labelled.engine.stages.backend,
        "store": dict(labelled.engine.store.identity),
        "documents": snapshot.document_count,
        "chunks": snapshot.chunk_count,
        "questions": len(queries),
        "questions in all": len(labelled.queries),
        **labelled.facts,
        "settings": asdict(settings),
        "configurations": [outcome.to_dict() for outcome in found],
        "steps": steps,
        "comparisons": [
            {"name": each.name, "against": each.against, "measure": each.measure, "p_holm": each.p_holm}
            | asdict(each.difference)
            for each in compared
        ],
    }


def _write(
    evaluation: Evaluation,
    labelled: Labelled,
    queries: Sequence[Query],
    passes: Mapping[str, Pass],
    settings: Settings,
) -> None:
    out, found = evaluation.folder, evaluation.outcomes
    texts = Texts(labelled.engine.store.current().snapshot, {name: key for key, name in labelled.names.items()})
    changed = _changed(found, queries, texts)
    files.write_json(out / "summary.json", evaluation.summary)
    files.write_json(out / "changes.json", {name: [asdict(each) for each in rows] for name, rows in changed.items()})
    files.write_csv(out / "questions.csv", queries, found)
    files.write_json_lines(out / "questions.jsonl", files.questions(queries, found))
    contexts = files.contexts(queries, passes, _of(found, "blend"), settings.blend, texts)
    files.write_json_lines(out / "contexts.jsonl", contexts)
    (out / "runs").mkdir(exist_ok=True)
    files.write_qrels(out / "runs" / "qrels.txt", queries)
    for outcome in found:
        files.write_run(out / "runs" / f"{outcome.configuration.slug}.txt", outcome)
    figure = plot.draw(found, f"{labelled.name}: {len(queries)} questions, {evaluation.summary['documents']} documents")
    svg, png = (plot.render(figure, kind) for kind in ("svg", "png"))
    (out / "plot.svg").write_bytes(svg)
    (out / "plot.png").write_bytes(png)
    page = html.page(
        labelled.name,
        _facts(evaluation.summary),
        found,
        evaluation.comparisons,
        evaluation.summary["steps"],
        changed,
        svg.decode("utf-8"),
        labelled.warnings,
    )
    (out / "report.html").write_text(page, encoding="utf-8")


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in found.items() if isinstance(value, int | str) and name != "name"}
    settings = {name: value for name, value in found["settings"].items() if value is not None}
    return {**plain, **found["machine"], **settings}


def _changed(found: Sequence[Outcome], queries: Sequence[Query], texts: Texts) -> dict[str, tuple[changes.Change, ...]]:
    """Changes by both second stages of the mode that search uses."""
    baseline = _of(found, "none")
    others = [_of(found, second) for second in ("logit", "blend")]
    return {
        f"{other.configuration.name} against {baseline.configuration.name}": changes.between(
            baseline, other, queries, texts
        )
        for other in others
    }


def _of(found: Sequence[Outcome], second: str) -> Outcome:
    """The outcome of a second stage over the last mode, which is the one that search uses."""
    wanted = Configuration(found[-1].configuration.mode, second)  # type: ignore[arg-type]
    return next(outcome for outcome in found if outcome.configuration == wanted)
