"""Who may compute: as many calls at once as there are cores, a bounded line behind them, and nobody else.

An event loop admits calls and threads run them. A call that is given up while it waits is never run; one that is given
up while it runs ends at its next checkpoint, and holds its place until then.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from . import threads
from .errors import DeadlineError, OverloadedError
from .reranker import check_count

Result = TypeVar("Result")

WAITING_PER_CORE = 8
_SMOOTHING = 0.1
_LONGEST_RETRY = 60.0


class Ticket:
    """What a running call knows of those who wait for it.

    Attributes:
        deadline: when nobody waits any more, by ``time.monotonic``; None for never.
        waited_seconds: how long the call waited for its turn.
    """

    def __init__(self, seconds: float | None) -> None:
        self._begun = time.monotonic()
        self.deadline = None if seconds is None else self._begun + seconds
        self.waited_seconds = 0.0
        self._given_up = False

    def start(self) -> None:
        """The wait is over."""
        self.waited_seconds = time.monotonic() - self._begun

    def give_up(self) -> None:
        """Nobody waits for the result any more."""
        self._given_up = True

    def remaining(self) -> float | None:
        """Seconds to the deadline, at least 0; None where there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def check(self) -> None:
        """A checkpoint: long calls come by here between their steps.

        Raises:
            DeadlineError: nobody waits for the result any more.
        """
        if self._given_up or self.remaining() == 0.0:
            raise DeadlineError("given up: nobody waits for the result any more")


@dataclass(slots=True)
class _Threads:
    """Daemon threads, so that a call that does not end keeps no process alive; made one by one as they are needed."""

    most: int
    jobs: queue.SimpleQueue[Callable[[], None]]
    made: int = 0

    def submit(self, job: Callable[[], None], busy: int) -> None:
        if self.made < min(self.most, busy):
            self.made += 1
            threading.Thread(target=self._work, name=f"runoff-call-{self.made}", daemon=True).start()
        self.jobs.put(job)

    def _work(self) -> None:
        while True:
            self.jobs.get()()


class Admission:
    """Runs blocking calls for one event loop.

    Args:
        running: calls that run at once; None takes as many as there are cores to use.
        waiting: calls that may wait beside those; None takes eight for each that may run.

    Raises:
        QueryError: a bound is not a whole number of at least 1.
    """

    def __init__(self, running: int | None = None, waiting: int | None = None) -> None:
        self.most_running = threads.budget() if running is None else running
        self.most_waiting = WAITING_PER_CORE * self.most_running if waiting is None else waiting
        check_count("running", self.most_running)
        check_count("waiting", self.most_waiting)
        self.running = 0
        self._line: deque[asyncio.Future[None]] = deque()
        self._threads = _Threads(self.most_running, queue.SimpleQueue())
        self._mean_seconds = 0.5

    @property
    def waiting(self) -> int:
        """Calls that wait for their turn."""
        return len(self._line)

    @property
    def full(self) -> bool:
        """Whether the next call would be refused."""
        return self.running >= self.most_running and len(self._line) >= self.most_waiting

    @property
    def retry_after(self) -> float:
        """Seconds in which half of those who wait now should have had their turn, by the mean time of a call."""
        ahead = (self.running + len(self._line) / 2) / self.most_running
        return min(_LONGEST_RETRY, ahead * self._mean_seconds)

    async def run(self, call: Callable[[Ticket], Result], *, timeout: float | None = None) -> Result:
        """The result of ``call``, run on a thread when its turn comes.

        Cancelling the task that waits here takes the call out of the line, or gives it up where it runs.

        Args:
            call: is handed its ticket, whose ``check`` it should call between long steps.
            timeout: seconds from now after which to wait no longer.

        Raises:
            OverloadedError: as many calls wait as may.
            DeadlineError: the timeout passed.
        """
        ticket = Ticket(timeout)
        await self._turn(ticket)
        try:
            done = self._start(call, ticket)
        except BaseException:
            self._leave(None)
            raise
        try:
            return await asyncio.wait_for(done, ticket.remaining())
        except asyncio.TimeoutError:  # the builtin one from Python 3.11 on
            raise DeadlineError(f"not done within {timeout:g} seconds") from None
        finally:
            ticket.give_up()

    async def _turn(self, ticket: Ticket) -> None:
        """Wait in the line, or be the one that runs at once."""
        if self.full:
            raise OverloadedError(
                f"{self.running} calls run and {self.waiting} wait, which is as many as may; try again later",
                self.retry_after,
            )
        if self.running < self.most_running:
            self.running += 1
        else:
            await self._wait(ticket)
        ticket.start()

    async def _wait(self, ticket: Ticket) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await asyncio.wait_for(asyncio.shield(turn), ticket.remaining())
        except BaseException as error:
            if turn.done():  # the place was handed over in the same moment
                self._leave(None)
            else:
                self._line.remove(turn)
            turn.cancel()
            if isinstance(error, asyncio.TimeoutError):
                raise DeadlineError("its time was over before its turn came; too many calls wait") from None
            raise

    def _start(self, call: Callable[[Ticket], Result], ticket: Ticket) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._threads.submit(partial(self._work, call, ticket, loop, done), self.running)
        return done

    def _work(
        self,
        call: Callable[[Ticket], Result],
        ticket: Ticket,
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[Result],
    ) -> None:
        """On a thread: run the call and hand the outcome to the loop."""
        began = time.perf_counter()
        outcome: partial[None]
        try:
            ticket.check()
            outcome = partial(_settle, done, done.set_result, call(ticket))
        except BaseException as error:  # whatever it is, it belongs to the one who waits
            outcome = partial(_settle, done, done.set_exception, error)
        try:
            loop.call_soon_threadsafe(self._leave, time.perf_counter() - began)
            loop.call_soon_threadsafe(outcome)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            return

    def _leave(self, seconds: float | None) -> None:
        """Hand the place on to the first in the line."""
        if seconds is not None:
            self._mean_seconds += _SMOOTHING * (seconds - self._mean_seconds)
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1


def _settle(done: asyncio.Future[Any], setter: Callable[[Any], None], value: Any) -> None:
    if not done.done():
        setter(value)
