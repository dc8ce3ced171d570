"""One search: the stages in their order, over one generation of a store."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import backends
from .calibration import Calibration
from .candidates import DEFAULT_FUSION, Mode, check_mode, find
from .conditions import Condition
from .deadlines import Deadline, Report, check_deadline
from .errors import FilterError, QueryError
from .fusion import Fusion, check_fusion
from .ranking import DEFAULT_BLEND, check_blend, hits
from .reranker import EXACT, check_count, check_effort
from .results import SearchResult, Timings
from .where import parse

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypedDict

    from .backends import Scores
    from .caching import Caches
    from .stages import PairScorer, Stages
    from .store import Generation

    class SearchOptions(TypedDict, total=False):
        """Keyword arguments of ``Engine.search``, which ``Engine.prompt`` and the asynchronous calls take too."""

        rerank: bool
        mode: Mode
        where: str | Condition | None
        blend: float
        effort: str
        deadline_ms: float | None
        min_score: float | None
        fusion: Fusion


DEFAULT_TOP = 5
DEFAULT_CANDIDATES = 20


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What a search is asked for beside its query; see ``Engine.search``.

    Raises:
        QueryError: a setting is out of range.
    """

    top_n: int = DEFAULT_TOP
    candidates: int = DEFAULT_CANDIDATES
    rerank: bool = True
    mode: Mode = "hybrid"
    where: Condition | None = None
    blend: float = DEFAULT_BLEND
    effort: str = EXACT
    deadline_ms: float | None = None
    min_score: float | None = None
    fusion: Fusion = DEFAULT_FUSION

    def __post_init__(self) -> None:
        check_count("top_n", self.top_n)
        check_count("candidates", self.candidates)
        check_mode(self.mode)
        check_blend(self.blend)
        check_effort(self.effort)
        check_deadline("deadline_ms", self.deadline_ms)
        _check_min_score(self.min_score, self.rerank)
        check_fusion(self.fusion)


def condition_of(where: str | Condition | None) -> Condition | None:
    """The condition that a caller gave as text or as such.

    Raises:
        FilterError: the text cannot be read as one, or it is neither.
    """
    if where is None or isinstance(where, Condition):
        return where
    if not isinstance(where, str):
        raise FilterError(f"where: got {type(where).__name__}; expected a text, or a condition made with runoff.field")
    return parse(where)


def search(
    stages: Stages, generation: Generation, query: str, settings: SearchSettings, caches: Caches, arrived: float
) -> SearchResult:
    """The chunks of a generation that answer a query best.

    Args:
        stages: the encoders.
        generation: what is searched.
        query: text that is not blank.
        settings: what is wanted.
        caches: what is known of queries and pairs already.
        arrived: when the query came, by ``time.perf_counter``; a deadline counts from there.

    Raises:
        QueryError: a least probability is wanted, and the model has no calibration for the blend.
    """
    # Looked up before the stages are timed: the first query loads the models, which is no part of them.
    tokenizer, _ = stages.tokenizer, stages.encoder
    scorer = stages.scorer if settings.rerank else None
    calibration = _calibration(scorer, settings)
    deadline = None if settings.deadline_ms is None else Deadline(settings.deadline_ms, arrived)
    laps = _Laps()
    query_ids = tokenizer.encode(query)
    laps.end("tokenize")
    vector = caches.embedding(stages, query)
    laps.end("embed")
    chosen = generation.chosen(settings.where) if settings.where is not None else None
    allowed = None if chosen is None else generation.snapshot.passages_of(chosen)
    count = max(settings.candidates, settings.top_n)
    found = find(generation, query, vector, count, mode=settings.mode, allowed=allowed, fusion=settings.fusion)
    laps.end("retrieve")
    scores, planned = None, None
    if scorer:
        tokens, offsets = generation.snapshot.token_cache(found.rows), np.float32(settings.blend) * found.similarities
        scores, planned = caches.scores(
            stages,
            query_ids,
            tokens,
            effort=settings.effort,
            top_n=settings.top_n,
            offsets=offsets,
            deadline=deadline,
        )
    laps.end("rerank")
    shown = hits(
        generation.snapshot,
        found,
        scores,
        settings.top_n,
        blend=settings.blend,
        chosen=chosen,
        calibration=calibration,
        min_score=settings.min_score,
    )
    return SearchResult(
        query=query,
        backend=backends.together(stages.backend, getattr(scorer, "backend", "")),
        hits=shown,
        timings_ms=laps.timings(),
        query_truncated=scores is not None and scores.query_truncated,
        reranked=settings.rerank,
        mode=settings.mode,
        blend=settings.blend,
        effort=settings.effort,
        generation=generation.number,
        scored=0 if scores is None else int(scores.final.sum()),
        complete=scores is None or bool(scores.whole.all()),
        answerable=_answerable(calibration, scores, found.similarities),
        **asdict(Report.now(settings.deadline_ms, arrived, planned)),
    )


def _check_min_score(value: float | None, rerank: bool) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise QueryError(f"min_score: got {value!r}; expected a probability, 0 to 1")
    if not rerank:
        raise QueryError("min_score: without reranking there are no probabilities; leave it out, or rerank")


def _calibration(scorer: PairScorer | None, settings: SearchSettings) -> Calibration | None:
    found = Calibration.of(scorer, settings.blend)
    if found is None and settings.min_score is not None:
        known = ", ".join(f"{each.weight:g}" for each in getattr(scorer, "calibrations", ())) or "no blend at all"
        raise QueryError(
            f"min_score: no calibration for blend {settings.blend:g}, but for {known}; take such a blend, or fit one "
            "with `runoff eval --calibrate`"
        )
    return found


def _answerable(
    calibration: Calibration | None, scores: Scores | None, similarities: NDArray[np.float32]
) -> float | None:
    if calibration is None or scores is None or (len(scores.logits) and not scores.reach.any()):
        return None
    return calibration.answerable(scores.logits[scores.reach], similarities[scores.reach])


class _Laps:
    """Measures consecutive stages."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def end(self, stage: str) -> None:
        now = time.perf_counter()
        self._laps[stage] = (now - self._last) * 1e3
        self._last = now

    def timings(self) -> Timings:
        return Timings(**self._laps, total=(time.perf_counter() - self._started) * 1e3)
