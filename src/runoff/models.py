"""The models on this machine: where they are, what there is, whether they are sound."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .artifact import MANIFEST, Artifact, read_manifest
from .errors import BackendError, ModelError

DEFAULT_BI_ENCODER = "all-MiniLM-L6-v2"
DEFAULT_CROSS_ENCODER = "ms-marco-MiniLM-L-12-v2"
VOCABULARY = "cl100k_base"

Runner = Callable[[Artifact, str, Sequence[Any]], tuple[str, NDArray[np.float32]]]


@dataclass(frozen=True)
class Verification:
    """What ``verify`` found on a model that passed.

    Args:
        name: name of the model.
        files: names of the files whose size and hash were compared.
        backend: what ran the golden inputs; empty for a vocabulary, which has none.
        error: largest golden error (see ``Golden.metric``).
        tolerance: largest error that passes.
    """

    name: str
    files: tuple[str, ...]
    backend: str = ""
    error: float = 0.0
    tolerance: float = 0.0


def root() -> Path:
    """Folder of the installed models: ``RUNOFF_MODELS``, else the package's own, else ``models/`` of a source tree."""
    chosen = os.environ.get("RUNOFF_MODELS")
    if chosen:
        return Path(chosen)
    packaged = Path(__file__).parent / "_models"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "models"


def find(name_or_path: str | Path, *, verify: bool = True) -> Artifact:
    """Open a model by name or by folder.

    Args:
        name_or_path: name of an installed model, or a path to a model folder.
        verify: hash every file first; see ``Artifact.open``.

    Raises:
        ModelError: there is no such model.
        ArtifactDamagedError: one of its files differs from the manifest.
    """
    return Artifact.open(_folder(name_or_path), verify=verify)


def installed(*, verify: bool = True) -> list[Artifact]:
    """All encoders under ``root()``, by name.

    Raises:
        ArtifactDamagedError: a file of one of them differs from its manifest.
    """
    return [Artifact.open(root() / name, verify=verify) for name in names() if name != VOCABULARY]


def names() -> list[str]:
    """Names of all model folders under ``root()``, sorted; nothing in them is read."""
    folder = root()
    return sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}")) if folder.is_dir() else []


def vocabulary_path() -> Path:
    """The cl100k_base vocabulary file.

    Raises:
        ModelError: it is not installed.
    """
    path = root() / VOCABULARY / f"{VOCABULARY}.tiktoken"
    if not path.is_file():
        raise ModelError(f"{path}: no such file; expected the {VOCABULARY} vocabulary; install runoff again")
    return path


def verify(model: str | Path | Artifact, backend: str = "onnxruntime", *, runner: Runner | None = None) -> Verification:
    """Check a model's files, then its golden inputs on this machine.

    Args:
        model: an artifact, name or folder; the vocabulary's name checks its files only.
        backend: what runs the golden inputs.
        runner: maps (artifact, backend, inputs) to the name of what ran and its outputs; default: the real encoder.

    Raises:
        ModelError: there is no such model.
        ArtifactDamagedError: a file differs from the manifest.
        BackendError: the backend misses the golden outputs.
    """
    manifest = read_manifest(model.path if isinstance(model, Artifact) else _folder(model))
    files = (MANIFEST, *manifest.files)
    if manifest.fields.get("kind") == "vocabulary":
        return Verification(str(manifest.fields["name"]), files)
    artifact = Artifact.open(manifest.path, verify=False)
    files += _extras(artifact)
    golden = artifact.golden
    ran_on, outputs = (runner or run_golden)(artifact, backend, golden.inputs)
    error = golden.worst(outputs)
    if error > golden.tolerance:
        raise BackendError(
            f"{artifact.name} on {ran_on}: golden {golden.metric} error {error:.4f}, expected at most"
            f" {golden.tolerance}; choose another backend"
        )
    return Verification(artifact.name, files, ran_on, error, golden.tolerance)


def run_golden(artifact: Artifact, backend: str, inputs: Sequence[Any]) -> tuple[str, NDArray[np.float32]]:
    """Name of the backend that was taken, and the real encoder's outputs: float32 [n, dimensions] or [n] logits."""
    if artifact.kind == "bi-encoder":
        from .encoder import BiEncoder

        encoder = BiEncoder.load(artifact, backend=backend)
        return encoder.backend, encoder.encode(inputs)
    from .assembly import Passages
    from .reranker import CrossEncoder

    scorer = CrossEncoder.load(artifact, backend=backend)
    encode = scorer.tokenizer.encode
    logits = [scorer.score(encode(query), Passages.pack([encode(passage)])).logits for query, passage in inputs]
    return scorer.backend, np.concatenate(logits)


def _extras(artifact: Artifact) -> tuple[str, ...]:
    """Names of the files beside the artifact that were fitted to it, each read, and so checked against its digest."""
    from . import calibration, exits

    exits.ExitHeads.find(artifact)
    calibration.Calibration.find(artifact)
    return tuple(name for name in (exits.FILE, calibration.FILE) if (artifact.path / name).exists())


def _folder(name_or_path: str | Path) -> Path:
    given = Path(name_or_path)
    if (given / MANIFEST).is_file() or len(given.parts) != 1:
        return given
    folder = root() / given
    if not folder.is_dir():
        known = ", ".join(names()) or "a model, but there is none"
        raise ModelError(f"no model {str(given)!r} in {root()}; expected {known}, or the path of a model folder")
    return folder
