"""`runoff models verify`: a line for each model, exit code 1 when one of them fails."""

from __future__ import annotations

from collections.abc import Sequence

from .. import models
from ..errors import ModelError
from . import stderr


def run(names: Sequence[str], backend: str) -> int:
    """Verify models by name or folder, all installed ones where none is named; returns the exit code."""
    chosen = list(names) or models.names()
    if not chosen:
        raise ModelError(f"no models in {models.root()}; install runoff again")
    return max([_verify(name, backend) for name in chosen])


def _verify(name: str, backend: str) -> int:
    try:
        found = models.verify(name, backend)
    except ModelError as error:
        stderr.line(f"{name}: FAILED: {error}")
        return 1
    golden = (
        f"; golden error {found.error:.4f} of at most {found.tolerance:g} on {found.backend}" if found.backend else ""
    )
    print(f"{found.name}: ok, {len(found.files)} files{golden}")
    return 0
