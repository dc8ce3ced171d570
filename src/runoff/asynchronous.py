"""The engine for asyncio services: the same calls, awaited, with bounds on what runs and what waits."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .assembly import Passages
from .backends import Scores
from .caching import DEFAULT_BYTES
from .deadlines import Deadline, check_deadline
from .encoder import as_texts
from .engine import DEFAULT_MAX_TOKENS, DEFAULT_STORE, Engine
from .prompt import Prompt
from .reranker import Ranking, check_count, check_query, ranking
from .results import SearchResult
from .searching import DEFAULT_CANDIDATES, DEFAULT_TOP
from .stages import ClockedScorer, PairScorer, Stages

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .admission import Admission, Ticket
    from .searching import SearchOptions

BLOCK_PASSAGES = 32


class AsyncEngine:
    """An engine whose calls run on threads of their own, so that the event loop stays free.

    As many calls run at once as there are cores, a bounded number waits, and one more is refused at once with
    ``OverloadedError``. A cancelled call is not computed if it still waits; ``rank`` also stops within
    ``BLOCK_PASSAGES`` passages where it runs. Belongs to one event loop; ``engine`` may be used beside it.

    Args:
        engine: the engine that does the work.
        running: calls that run at once; None takes as many as there are cores to use.
        waiting: calls that may wait beside those; None takes eight for each that may run.
    """

    def __init__(self, engine: Engine, *, running: int | None = None, waiting: int | None = None) -> None:
        from .admission import Admission  # with asyncio, which not every program wants

        self.engine = engine
        self.admission: Admission = Admission(running, waiting)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] = DEFAULT_STORE,
        *,
        backend: str = "auto",
        threads: int | None = None,
        target_ms: float | None = None,
        running: int | None = None,
        waiting: int | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> AsyncEngine:
        """An engine over the store at ``path`` with the default models; errors as for ``Engine.open``."""
        engine = Engine.open(path, backend=backend, threads=threads, target_ms=target_ms, cache_bytes=cache_bytes)
        return cls(engine, running=running, waiting=waiting)

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.engine.close()

    async def search(
        self,
        query: str,
        top_n: int = DEFAULT_TOP,
        candidates: int = DEFAULT_CANDIDATES,
        *,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchResult:
        """``Engine.search``, awaited.

        Args:
            timeout: seconds from now after which to wait no longer and raise, where ``deadline_ms`` makes less of it.
            options: as for ``Engine.search``.

        Raises:
            OverloadedError: as many calls wait as may.
            DeadlineError: the timeout passed.
            RunoffError: as for ``Engine.search``.
        """
        arrived = time.perf_counter()
        return await self.admission.run(
            lambda ticket: self.engine.search(query, top_n, candidates, arrived=arrived, **options), timeout=timeout
        )

    async def prompt(
        self,
        question: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        candidates: int = DEFAULT_CANDIDATES,
        timeout: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> tuple[Prompt, SearchResult]:
        """``Engine.prompt``, awaited; ``timeout``, options and errors as for ``search``."""
        arrived = time.perf_counter()
        return await self.admission.run(
            lambda ticket: self.engine.prompt(
                question, max_tokens=max_tokens, candidates=candidates, arrived=arrived, **options
            ),
            timeout=timeout,
        )

    async def rank(
        self,
        query: str,
        passages: Sequence[str],
        top_n: int = 5,
        *,
        deadline_ms: float | None = None,
        timeout: float | None = None,
    ) -> Ranking:
        """``Reranker.rank``, awaited; it needs no store. ``timeout`` and errors as for ``search``."""
        arrived = time.perf_counter()
        check_deadline("deadline_ms", deadline_ms)
        target = self.engine.target_ms if deadline_ms is None else deadline_ms
        check_query(query)
        check_count("top_n", top_n)
        passages = as_texts("passages", passages)
        return await self.admission.run(
            lambda ticket: rank(self.engine.stages, query, passages, top_n, ticket, target, arrived),
            timeout=timeout,
        )


def rank(
    stages: Stages,
    query: str,
    passages: Sequence[str],
    top_n: int,
    ticket: Ticket,
    deadline_ms: float | None = None,
    arrived: float = 0.0,
) -> Ranking:
    """The ``top_n`` best passages, best first, ties in the order given; stops where nobody waits for it."""
    tokens = stages.tokenizer.encode_batch(passages)
    deadline = None if deadline_ms is None else Deadline(deadline_ms, arrived)
    scores, planned = score(stages.scorer, stages.tokenizer.encode(query), tokens, ticket, deadline)
    return ranking(passages, scores, top_n, deadline_ms, arrived, planned)


def score(
    scorer: PairScorer,
    query_ids: NDArray[np.int32],
    tokens: Sequence[NDArray[Any]],
    ticket: Ticket,
    deadline: Deadline | None = None,
) -> tuple[Scores, float | None]:
    """Scores of tokenised passages, and when a deadline planned them to be done.

    Without a deadline they come a block at a time with a checkpoint before each. A pair's logit is its own, so blocks
    change nothing but the moment at which a call can stop.

    Raises:
        DeadlineError: nobody waits for the result any more.
    """
    if deadline is not None and isinstance(scorer, ClockedScorer):
        ticket.check()
        timed = scorer.score_within(query_ids, Passages.pack(tokens), deadline)
        return timed.scores, timed.planned_ms
    blocks: list[Scores] = []
    for first in range(0, len(tokens), BLOCK_PASSAGES):
        ticket.check()
        blocks.append(scorer.score(query_ids, Passages.pack(tokens[first : first + BLOCK_PASSAGES])))
    if not blocks:
        return Scores(np.empty(0, np.float32), np.empty(0, bool), False), None
    whole = replace(
        blocks[0],
        logits=np.concatenate([block.logits for block in blocks]),
        truncated=np.concatenate([block.truncated for block in blocks]),
    )
    return whole, None
