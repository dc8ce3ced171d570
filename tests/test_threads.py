"""The thread budget and the pool."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
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


@pytest.mark.parametrize(
    ("membership", "name"),
    [
        ("0::/system.slice/app.service\n", "system.slice"),
        ("1:name=systemd:/x\n4:cpu,cpuacct:/system.slice/app.service\n", "cpu,cpuacct/system.slice"),
        ("3:cpu:/system.slice/app.service\n", "cpu/system.slice"),
        ("0::/not/visible/here\n", "."),
    ],
)
def test_the_least_quota_up_to_the_root_counts(tmp_path: Path, membership: str, name: str) -> None:
    joined, group = tmp_path / "self", tmp_path / "groups" / name
    joined.write_text(membership)
    (group / "app.service").mkdir(parents=True)
    assert threads.quota(tmp_path / "groups", joined) is None
    (group / "cpu.max").write_text("200000 100000\n")
    (group / "app.service" / "cpu.max").write_text("700000 100000\n")
    assert threads.quota(tmp_path / "groups", joined) == 2


def test_the_quota_of_the_own_group_counts(tmp_path: Path) -> None:
    joined, group = tmp_path / "self", tmp_path / "system.slice/app.service"
    joined.write_text("0::/system.slice/app.service\n")
    group.mkdir(parents=True)
    (group.parent / "cpu.max").write_text("700000 100000\n")
    (group / "cpu.max").write_text("200000 100000\n")
    assert threads.quota(tmp_path, joined) == 2


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


def test_no_more_jobs_run_at_once_than_workers_whoever_asks() -> None:
    workers, running, most = Workers(2), [0], [0]
    lock = threading.Lock()

    def job(_: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.001)
        with lock:
            running[0] -= 1

    callers = [threading.Thread(target=workers.run, args=(job, range(20))) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert most[0] == 2


def test_a_short_call_takes_turns_with_a_long_one() -> None:
    workers, done, begun, enough = Workers(1), [0], threading.Event(), threading.Event()

    def long_job(_: int) -> None:
        begun.set()
        done[0] += not enough.wait(0.001)

    caller = threading.Thread(target=workers.run, args=(long_job, range(5000)))
    caller.start()
    assert begun.wait(30)
    workers.run(lambda _: None, [0, 1, 2])
    enough.set()
    caller.join()
    assert done[0] < 2500


def test_those_who_wait_are_served_in_the_order_they_came() -> None:
    workers, free = Workers(1), threading.Event()
    order: list[int] = []
    callers = [threading.Thread(target=workers.run, args=(lambda _: free.wait(20) and None, [0]))]
    callers += [threading.Thread(target=workers.run, args=(order.append, [number])) for number in range(4)]
    for position, caller in enumerate(callers):
        caller.start()
        while position and len(workers.turns._waiting) < position:
            time.sleep(0.0005)
    free.set()
    for caller in callers:
        caller.join()
    assert order == [0, 1, 2, 3]


def test_a_caller_does_not_wait_for_helpers_that_are_busy_elsewhere() -> None:
    workers, begun, release = Workers(2), threading.Event(), threading.Event()
    in_time: list[bool] = []

    def job(_: int) -> None:
        if threading.current_thread().name.startswith("runoff"):
            begun.set()
            in_time.append(release.wait(20))
        else:
            begun.wait(20)

    first = threading.Thread(target=workers.run, args=(job, [0, 1]))
    first.start()
    assert begun.wait(20)
    done: list[int] = []
    workers.run(done.append, range(4))
    release.set()
    first.join()
    assert done == [0, 1, 2, 3]
    assert in_time == [True]


def test_the_process_has_one_pool_of_a_size() -> None:
    assert threads.shared(2) is threads.shared(2)
    assert threads.shared(2) is not threads.shared(1)


def test_an_interrupted_call_leaves_the_pool_good() -> None:
    code = (
        "import os, signal, time\nfrom runoff.threads import Workers\nworkers, done = Workers(2), []\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it\n"
        "def job(item):\n    time.sleep(0.001)\n    done.append(item)\n"
        "    if item == 20: os.kill(os.getpid(), signal.SIGINT)\n"
        "try:\n    workers.run(job, range(5000))\nexcept KeyboardInterrupt:\n    print(len(done) < 5000)\n"
        "done.clear(); workers.run(done.append, range(9)); print(sorted(done) == list(range(9)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\nTrue\n", "")


def test_work_at_interpreter_exit_is_done_by_its_caller() -> None:
    code = (
        "import atexit\nfrom runoff.threads import Workers\nworkers, done = Workers(3), []\n"
        "@atexit.register\ndef last():\n    workers.run(done.append, range(9)); print(sorted(done))\n"
        "workers.run(done.append, [])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[0, 1, 2, 3, 4, 5, 6, 7, 8]\n", "")


def test_a_fork_waits_for_running_jobs_so_that_no_lock_of_theirs_is_inherited() -> None:
    code = (
        "import os, threading, time\nfrom runoff.threads import Workers\nworkers, lock = Workers(2), threading.Lock()\n"
        "def job(_):\n    with lock: time.sleep(0.002)\n"
        "threading.Thread(target=workers.run, args=(job, range(300)), daemon=True).start()\n"
        "codes = []\n"
        "for _ in range(20):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n        os._exit(int(lock.locked()))\n"
        "    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(sum(codes))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0\n"


def test_a_forked_child_makes_its_own_pool() -> None:
    code = (
        "import os\nfrom runoff.threads import Workers\nworkers = Workers(3)\nworkers.run(lambda _: None, range(9))\n"
        "child = os.fork()\ndone = []\nworkers.run(done.append, range(9))\n"
        "if child == 0:\n    os._exit(0 if sorted(done) == list(range(9)) else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(done))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0 9\n"
