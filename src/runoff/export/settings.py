"""What to export, and the way in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..artifact import KINDS
from ..errors import ExportError

PRECISIONS = ("int8", "fp32")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class ExportSettings:
    """One export.

    Args:
        name: name of the artifact, and of its folder.
        kind: ``bi-encoder`` or ``cross-encoder``.
        out: folder that gets the artifact's folder.
        checkpoint: hub name or folder of a checkpoint; None with ``from_onnx``.
        from_onnx: dynamically quantised ONNX file to recover a cross-encoder checkpoint from. Its tokenizer.json is
            expected beside it.
        keep_checkpoint: folder that gets the recovered checkpoint; None drops it.
        precision: ``int8`` or ``fp32``.
        revision: commit on the hub (required for a hub name), or the version of any other source, for the manifest.
        sha256: expected SHA-256 of the weights: of model.safetensors, or of the ``from_onnx`` file. Required for a
            hub name.
        source: where the weights came from, for the manifest; default: the checkpoint or file as given.
        licence: SPDX name of the weights' licence; default: what the checkpoint's README says.
        licence_file: text of that licence; default: a LICENSE file in the checkpoint.
        max_length: most tokens in one input; default: what the checkpoint says.

    Raises:
        ExportError: a setting is out of range or two exclude each other.
    """

    name: str
    kind: str
    out: Path
    checkpoint: str | None = None
    from_onnx: Path | None = None
    keep_checkpoint: Path | None = None
    precision: str = "int8"
    revision: str | None = None
    sha256: str | None = None
    source: str | None = None
    licence: str | None = None
    licence_file: Path | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        _one_of("kind", self.kind, KINDS)
        _one_of("precision", self.precision, PRECISIONS)
        if not _NAME.fullmatch(self.name):
            raise ExportError(f"name {self.name!r}, expected letters, digits, dots and dashes; give --name")
        if (self.checkpoint is None) == (self.from_onnx is None):
            raise ExportError("expected either a checkpoint or a quantised ONNX file (--from-onnx); give exactly one")
        if self.from_onnx is not None and self.kind != "cross-encoder":
            raise ExportError(f"--from-onnx recovers cross-encoders, not a {self.kind}; export it from a checkpoint")

    @property
    def described_source(self) -> str:
        """Where the weights came from, in words."""
        return self.source or self.checkpoint or str(self.from_onnx)


def run(settings: ExportSettings) -> Path:
    """Export one model and return its folder; nothing is left behind when it fails.

    Raises:
        ExportError: the extra is missing, the checkpoint is unfit, or the artifact misses its tolerance.
    """
    try:
        from . import pipeline
    except ImportError as error:
        raise ExportError(f"{error.name} is missing, exporting needs it; pip install 'runoff[export]'") from error
    return pipeline.run(settings)


def export(name: str, kind: str, out: Path, **settings: Any) -> Path:
    """``run(ExportSettings(...))`` in one call."""
    return run(ExportSettings(name=name, kind=kind, out=out, **settings))


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ExportError(f"{what} {value!r}, expected {' or '.join(allowed)}")
