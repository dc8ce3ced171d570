"""The onnxruntime session: imported late, within its memory, its failures typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runoff import models
from runoff.errors import BackendError
from runoff.session import Session

SMAPS = Path("/proc/self/smaps_rollup")


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.load(models.find(models.DEFAULT_BI_ENCODER).graph_path)


def run(session: Session, length: int) -> None:
    ids = np.full((1, length), 2003, dtype=np.int64)
    session.run(ids, np.zeros_like(ids), np.ones_like(ids))


def test_onnxruntime_is_imported_when_a_session_is_loaded_and_not_before() -> None:
    code = (
        "import sys, runoff\nfrom runoff import models\nfrom runoff.session import Session\n"
        "print('onnxruntime' in sys.modules, 'tokenizers' in sys.modules)\n"
        "Session.load(models.find(models.DEFAULT_BI_ENCODER).graph_path); print('onnxruntime' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_a_run_takes_the_callers_thread_and_no_other() -> None:
    code = (
        "import os\nimport numpy as np, onnxruntime\nfrom runoff import models\nfrom runoff.session import Session\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "session = Session.load(models.find(models.DEFAULT_BI_ENCODER).graph_path); ids = np.full((4, 64), 2003)\n"
        "session.run(ids, ids * 0, ids * 0 + 1); print(len(os.listdir('/proc/self/task')) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


@pytest.mark.skipif(not SMAPS.is_file(), reason="memory is read from /proc")
def test_memory_is_flat_over_runs_of_every_length(session: Session) -> None:
    for length in (256, 3, 256):
        run(session, length)
    before = _anonymous_kib()
    for length in np.random.default_rng(7).permutation(np.arange(3, 257)):
        run(session, int(length))
    assert _anonymous_kib() - before < 4096


def test_a_failing_run_is_a_typed_error_and_prints_nothing(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    ids = np.full((1, 600), 2003, dtype=np.int64)
    with pytest.raises(BackendError, match=r"batch of shape \(1, 600\)"):
        session.run(ids, np.zeros_like(ids), np.ones_like(ids))
    run(session, 5)
    assert capfd.readouterr() == ("", "")


def test_what_is_no_graph_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(BackendError, match=r"model\.onnx: onnxruntime cannot load it"):
        Session.load(path)
    path.write_bytes(b"no graph")
    with pytest.raises(BackendError, match=r"model\.onnx: onnxruntime cannot load it"):
        Session.load(path)


def _anonymous_kib() -> int:
    (line,) = (line for line in SMAPS.read_text().splitlines() if line.startswith("Anonymous:"))
    return int(line.split()[1])
