"""A tenth of the torture of the store; `make torture` runs all of it. Each promise in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runoff
from torture.run import FULL

SMALL = {"readers": 3, "cost": 200, "trace": 4, "same_answers": 2, "same_candidates": 1}

Keep = Callable[[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def keep() -> Iterator[Keep]:
    """Keeps a promise in a child of a process that has no threads and has loaded everything."""
    roots = [str(Path(runoff.__file__).parents[1]), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roots), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-m", "torture", "--serve"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        asked, told = server.stdin, server.stdout
        assert asked is not None
        assert told is not None

        def ask(name: str, count: int) -> dict[str, Any]:
            asked.write(f"{name} {count}\n")
            asked.flush()
            found: dict[str, Any] = json.loads(told.readline())
            return found

        yield ask
        asked.close()


@pytest.mark.parametrize("name", sorted(FULL))
def test_promise(name: str, keep: Keep) -> None:
    found = keep(name, SMALL.get(name, max(1, FULL[name] // 10)))
    assert "error" not in found, found["error"]
    if reason := next((key for key in found["seen"] if key.startswith("skipped")), None):
        pytest.skip(reason)


def test_what_goes_wrong_is_told(keep: Keep) -> None:
    assert "Traceback" in keep("no_such_promise", 1)["error"]
