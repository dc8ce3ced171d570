"""Admission and the engine for asyncio: order, bounds, deadlines and cancellation, without a clock in any assertion."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from runoff import Engine
from runoff.admission import Admission, Ticket
from runoff.asynchronous import BLOCK_PASSAGES, AsyncEngine, score
from runoff.errors import DeadlineError, OverloadedError, QueryError, StoreMissingError
from runoff.reranker import Reranker
from runoff.stages import ModelStages


class Held:
    """A call that runs until it is let go, and keeps a record of its runs."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.runs: list[str] = []

    def call(self, name: str) -> Callable[[Ticket], str]:
        def run(ticket: Ticket) -> str:
            self.runs.append(name)
            assert self.gate.wait(30)
            return name

        return run


async def settled(admission: Admission, running: int, waiting: int) -> None:
    """Wait until that many run and wait."""
    while (admission.running, admission.waiting) != (running, waiting):
        await asyncio.sleep(0.001)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


def test_calls_run_in_order_and_one_too_many_is_refused() -> None:
    async def main() -> None:
        held, admission = Held(), Admission(1, 2)
        tasks = [asyncio.create_task(admission.run(held.call(name))) for name in "abc"]
        await settled(admission, 1, 2)
        assert admission.full
        with pytest.raises(OverloadedError, match="1 calls run and 2 wait") as refused:
            await admission.run(held.call("d"))
        assert 0 < refused.value.retry_after <= 60
        held.gate.set()
        assert await asyncio.gather(*tasks) == ["a", "b", "c"]
        assert held.runs == ["a", "b", "c"]
        assert (admission.running, admission.waiting) == (0, 0)

    run(main())


def test_no_more_run_at_once_than_may() -> None:
    async def main() -> None:
        held, admission = Held(), Admission(2, 10)
        tasks = [asyncio.create_task(admission.run(held.call(str(n)))) for n in range(6)]
        await settled(admission, 2, 4)
        assert len(held.runs) <= 2
        held.gate.set()
        assert sorted(await asyncio.gather(*tasks)) == list("012345")

    run(main())


def test_a_call_that_is_cancelled_while_it_waits_is_never_run() -> None:
    async def main() -> None:
        held, admission = Held(), Admission(1, 2)
        first, second, third = (asyncio.create_task(admission.run(held.call(name))) for name in "abc")
        await settled(admission, 1, 2)
        second.cancel()
        await settled(admission, 1, 1)
        held.gate.set()
        assert [await first, await third] == ["a", "c"]
        assert held.runs == ["a", "c"]

    run(main())


def test_a_call_that_is_cancelled_while_it_runs_keeps_its_place_until_it_ends() -> None:
    async def main() -> None:
        held, admission = Held(), Admission(1, 1)
        task = asyncio.create_task(admission.run(held.call("a")))
        await settled(admission, 1, 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert admission.running == 1
        held.gate.set()
        await settled(admission, 0, 0)

    run(main())


def test_the_deadline_holds_for_calls_that_wait_and_for_calls_that_run() -> None:
    async def main() -> None:
        held, admission = Held(), Admission(1, 1)
        running = asyncio.create_task(admission.run(held.call("a"), timeout=0.2))
        await settled(admission, 1, 0)
        with pytest.raises(DeadlineError, match="before its turn"):
            await admission.run(held.call("b"), timeout=0.01)
        with pytest.raises(DeadlineError, match=r"within 0\.2 seconds"):
            await running
        held.gate.set()
        await settled(admission, 0, 0)
        assert held.runs in (["a"], [])  # a slow machine may see the deadline before the thread begins

    run(main())


def test_an_error_reaches_the_caller_and_frees_the_place() -> None:
    async def main() -> None:
        def fail(ticket: Ticket) -> None:
            raise ValueError("seen")

        admission = Admission(1, 1)
        for _ in range(3):
            with pytest.raises(ValueError, match="seen"):
                await admission.run(fail)
        await settled(admission, 0, 0)

    run(main())


def test_a_loop_that_ends_leaves_the_thread_alive() -> None:
    held, admission = Held(), Admission(1, 1)

    async def leave() -> None:
        with pytest.raises(DeadlineError):
            await admission.run(held.call("a"), timeout=0.05)

    run(leave())
    held.gate.set()


@pytest.mark.parametrize("bounds", [(0, 1), (1, 0), (True, 1)])
def test_bounds_are_checked(bounds: tuple[int, int]) -> None:
    with pytest.raises(QueryError, match=r"(running|waiting): got .*whole number"):
        Admission(*bounds)


def test_the_engine_answers_as_it_does_without_asyncio(engine: Engine, articles: Path) -> None:
    engine.ingest(articles)

    async def main() -> None:
        async with AsyncEngine(engine) as service:
            found, (built, _) = await asyncio.gather(
                service.search("How are webhooks signed?", 2), service.prompt("How are webhooks signed?")
            )
        assert found.hits == engine.search("How are webhooks signed?", 2).hits
        assert built == engine.prompt("How are webhooks signed?")[0]

    run(main())


def test_errors_of_the_engine_are_raised_where_it_is_awaited(engine: Engine) -> None:
    async def main() -> None:
        service = AsyncEngine(engine)
        with pytest.raises(StoreMissingError):
            await service.search("anything")
        with pytest.raises(QueryError, match="query"):
            await service.rank(" ", ["a"])
        with pytest.raises(QueryError, match="passages"):
            await service.rank("a", "b")

    run(main())


def test_rank_gives_what_the_reranker_gives(engine: Engine, stages: ModelStages) -> None:
    passages = [f"Payouts to country number {n} take {n % 5} days." for n in range(BLOCK_PASSAGES + 3)] + [""]
    wanted = Reranker(stages.scorer).rank("How long do payouts to country 7 take?", passages, top_n=len(passages))

    async def main() -> None:
        service = AsyncEngine(engine)
        assert await service.rank("How long do payouts to country 7 take?", passages, len(passages)) == wanted
        assert await service.rank("anything", []) == []

    run(main())


def test_rank_stops_between_blocks_when_nobody_waits(stages: ModelStages) -> None:
    ticket = Ticket(None)

    class GivesUp:
        calls = 0

        def score(self, query_ids: Any, passages: Any) -> Any:
            self.calls += 1
            ticket.give_up()
            return stages.scorer.score(query_ids, passages)

    scorer = GivesUp()
    tokens = stages.tokenizer.encode_batch(["a"] * (3 * BLOCK_PASSAGES))
    with pytest.raises(DeadlineError, match="nobody waits"):
        score(scorer, stages.tokenizer.encode("a"), tokens, ticket)
    assert scorer.calls == 1
