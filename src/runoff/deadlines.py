"""The moment until which an answer is wanted."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from .errors import QueryError


@dataclass(frozen=True, slots=True)
class Deadline:
    """A number of milliseconds from the moment when a call or a request arrived.

    Attributes:
        milliseconds: how many, above 0.
        arrived: that moment, by ``time.perf_counter``.
    """

    milliseconds: float
    arrived: float

    def spent(self) -> float:
        """Milliseconds since the arrival."""
        return (time.perf_counter() - self.arrived) * 1e3

    def remaining(self) -> float:
        """Milliseconds that are left; negative when it has passed."""
        return self.milliseconds - self.spent()


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a deadline.

    Attributes:
        deadline_ms: the deadline in milliseconds from the arrival of the query, or None.
        deadline_met: whether the result was there in time; None without a deadline.
        planned_ms: when it was to be there by the plan; None where nothing was planned.
        spent_ms: when it was there, in milliseconds from the arrival.
    """

    deadline_ms: float | None
    deadline_met: bool | None
    planned_ms: float | None
    spent_ms: float

    @classmethod
    def now(cls, deadline_ms: float | None, arrived: float, planned_ms: float | None) -> Report:
        """The report of a query that is answered in this moment."""
        spent = (time.perf_counter() - arrived) * 1e3
        return cls(deadline_ms, None if deadline_ms is None else spent <= deadline_ms, planned_ms, spent)


def check_deadline(name: str, value: object) -> None:
    """Refuse what is not a finite number of milliseconds above 0, or None.

    Raises:
        QueryError: names the setting and its value.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise QueryError(f"{name}: got {value!r}; expected milliseconds above 0, or None for no deadline")
