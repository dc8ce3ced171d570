"""The thread budget and the pool."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runoff import threads
from runoff.errors import QueryError
from runoff.threads import Workers


def test_budget_is_the_least_of_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNOFF_THREADS", raising=False)
    granted = threads.budget()
    assert 1 <= granted <= len(os.sched_getaffinity(0))
    assert threads.budget(10_000) == granted
    assert threads.budget(1) == 1
    monkeypatch.setenv("RUNOFF_THREADS", "1")
    assert threads.budget(10_000) == 1


def test_budget_follows_affinity() -> None:
    pin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code = f"{pin}; from runoff import threads; print(threads.budget())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


@pytest.mark.parametrize("value", ["0", "-3", "two", "1.5"])
def test_nonsense_is_refused_by_name(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNOFF_THREADS", value)
    with pytest.raises(QueryError, match=f"RUNOFF_THREADS: got '{value}'"):
        threads.budget()
    monkeypatch.delenv("RUNOFF_THREADS")
    with pytest.raises(QueryError, match="threads: got 0"):
        threads.budget(0)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("cpu.max", "150000 100000\n", 2),
        ("cpu.max", "50000 100000\n", 1),
        ("cpu.max", "max 100000\n", None),
        ("cpu.max", "garbage", None),
    ],
)
def test_quota_of_cgroup_2(tmp_path: Path, name: str, text: str, expected: int | None) -> None:
    (tmp_path / name).write_text(text)
    assert threads.quota(tmp_path) == expected


@pytest.mark.parametrize(("granted", "expected"), [("300000", 3), ("-1", None)])
def test_quota_of_cgroup_1(tmp_path: Path, granted: str, expected: int | None) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text(granted + "\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert threads.quota(tmp_path) == expected


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_item_is_done_once(count: int) -> None:
    done: list[int] = []
    Workers(count).run(done.append, range(100))
    assert sorted(done) == list(range(100))


def test_work_is_shared_between_threads() -> None:
    meeting = threading.Barrier(3, timeout=30)
    Workers(3).run(lambda _: meeting.wait() and None, range(3))


def test_an_error_is_raised_after_all_have_ended() -> None:
    running = []

    def job(item: int) -> None:
        running.append(item)
        if item == 3:
            raise ValueError("three")

    workers = Workers(2)
    with pytest.raises(ValueError, match="three"):
        workers.run(job, range(1000))
    assert len(running) < 1000
    workers.run(running.append, [1, 2])  # the pool is still good


def test_many_callers_at_once() -> None:
    workers = Workers(2)
    sums = [0] * 8

    def call(position: int) -> None:
        results: list[int] = []
        workers.run(results.append, range(50))
        sums[position] = sum(results)

    callers = [threading.Thread(target=call, args=(position,)) for position in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sums == [sum(range(50))] * 8


def test_a_forked_child_makes_its_own_pool() -> None:
    code = (
        "import os\nfrom runoff.threads import Workers\nworkers = Workers(3)\nworkers.run(lambda _: None, range(9))\n"
        "child = os.fork()\ndone = []\nworkers.run(done.append, range(9))\n"
        "if child == 0:\n    os._exit(0 if sorted(done) == list(range(9)) else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(done))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0 9\n"
