"""The public face of the package."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import runoff

HEAVY = ("onnxruntime", "hnswlib", "tiktoken", "feedparser", "typer", "rich", "torch", "transformers")


def test_all_lists_exactly_the_public_names() -> None:
    visible = {name for name, value in vars(runoff).items() if not isinstance(value, ModuleType)}
    public = {name for name in visible if not name.startswith("_")} | {"__version__"}
    assert sorted(public) == sorted(runoff.__all__)


def test_every_public_name_is_documented() -> None:
    assert not [name for name in runoff.__all__ if name != "__version__" and not getattr(runoff, name).__doc__]


def test_importing_loads_neither_models_nor_heavy_packages() -> None:
    code = "import sys, runoff; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "runoff" in loaded
    assert not set(HEAVY) & set(loaded)
