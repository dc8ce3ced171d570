"""A tenth of the torture of the store; `make torture` runs all of it. Each promise in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import runoff
from torture.run import FULL

TENTH = {
    "readers": 3,
    "cost": 300,
    "trace": 5,
    "same_answers": 2,
    "same_candidates": 1,
}


@pytest.mark.parametrize("name", sorted(FULL))
def test_promise(name: str) -> None:
    count = TENTH.get(name, max(1, FULL[name] // 10))
    roots = [str(Path(runoff.__file__).parents[1]), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "torture", name, str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    if reason := next((key for key in figures if key.startswith("skipped")), None):
        pytest.skip(reason)
