"""What `runoff info` tells: the machine, the thread budget, the models, the backends and the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import cpu, fetch, models, threads
from ._version import __version__
from .artifact import Artifact
from .caching import Caches
from .encoder import BiEncoder
from .errors import ModelError, StoreError
from .reranker import CrossEncoder
from .store import Store


def collect(store: Path, *, backend: str = "auto", threads_setting: int | None = None) -> dict[str, Any]:
    """Facts about this installation as plain dictionaries; what cannot be had is there as its error's text."""
    return {
        "version": __version__,
        "cpu": {"model": cpu.model_name(), "features": list(cpu.features())},
        "threads": threads.budget(threads_setting),
        "models_folder": str(models.root()),
        "models": [_model(name, backend, threads_setting) for name in models.names() if name != models.VOCABULARY],
        "caches": {name: stats.bound for name, stats in Caches().stats().items()},
        "store": _store(store),
    }


def _model(name: str, backend: str, threads_setting: int | None) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": name}
    try:
        artifact = Artifact.open(models.root() / name)
        fields |= {"kind": artifact.kind, "sha256": artifact.digest}
        loader = BiEncoder if artifact.kind == "bi-encoder" else CrossEncoder
        encoder = loader.load(artifact, backend=backend, threads=threads_setting)
    except ModelError as error:
        return {**fields, "error": str(error)}
    return {**fields, "backend": encoder.backend, "reason": encoder.backend_reason}


def _store(folder: Path) -> dict[str, Any]:
    try:
        generation = Store.open(folder).current()
    except StoreError as error:
        return {"path": str(folder), "error": str(error)}
    snapshot = generation.snapshot
    return {
        "path": str(folder),
        "generation": generation.number,
        "documents": snapshot.document_count,
        "chunks": snapshot.chunk_count,
        "passages": snapshot.passage_count,
        "sources": [fetch.redacted(name) for name in generation.state.sources],
        "tokens": int(snapshot.passages["token_count"][snapshot.alive].sum()),
        "bytes": sum(state.bytes for state in snapshot.manifest.files.values()),
        "index": generation.dense.method,
        **snapshot.manifest.identity,
    }
