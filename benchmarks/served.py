"""A service in a process of its own, for the benchmarks that call it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runoff import Engine


@dataclass(frozen=True, slots=True)
class Running:
    """A service's process and address."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def resident_bytes(self) -> int:
        """Memory of the process that is resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024


def ingest(store: Path, *sources: Path) -> None:
    """Make a store."""
    with Engine.open(store) as engine:
        engine.ingest(*sources)


@contextmanager
def service(store: Path, *words: str) -> Iterator[Running]:
    """``runoff serve`` over a store, on a free port, ready."""
    call = [sys.executable, "-m", "runoff", "serve", "--store", str(store), "--port", "0", *words]
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url = json.loads(process.stderr.readline())["url"].rstrip("/")
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    drain.start()
    try:
        _wait(url)
        yield Running(process, url)
    finally:
        process.terminate()
        process.wait(30)


def _wait(url: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=30):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the service did not become ready within a minute")
