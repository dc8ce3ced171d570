"""Writes ``model.json``: readable, one table row a line, sealed with its own digest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..artifact import FORMAT_VERSION, GRAPH_INPUTS, MANIFEST, Golden, TensorInfo, blank_head, seal, sha256
from ..errors import ExportError
from .settings import ExportSettings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from .checkpoint import Checkpoint

LICENCE = "LICENSE"


def write(
    folder: Path,
    settings: ExportSettings,
    checkpoint: Checkpoint,
    table: Mapping[str, TensorInfo],
    golden: Golden,
    versions: Mapping[str, str],
) -> None:
    """Complete an artifact folder: licence text and manifest, over the files that are there."""
    licence = settings.licence or _card_licence(checkpoint.folder)
    _write_licence(folder, settings, checkpoint, licence)
    config = checkpoint.config
    write_fields(
        folder,
        {
            "format_version": FORMAT_VERSION,
            "name": settings.name,
            "kind": settings.kind,
            "architecture": "bert",
            "precision": settings.precision,
            "dimensions": config["hidden_size"] if settings.kind == "bi-encoder" else 1,
            "layers": config["num_hidden_layers"],
            "heads": config["num_attention_heads"],
            "hidden": config["hidden_size"],
            "intermediate": config["intermediate_size"],
            "vocabulary": config["vocab_size"],
            "positions": config["max_position_embeddings"],
            "activation": config["hidden_act"],
            "layer_norm_eps": config["layer_norm_eps"],
            "pooling": checkpoint.pooling,
            "normalize": checkpoint.normalize,
            "max_length": checkpoint.max_length,
            **_special_ids(checkpoint),
            "linear_layout": "in, out",
            "graph_inputs": list(GRAPH_INPUTS),
            "graph_output": "embedding" if settings.kind == "bi-encoder" else "logits",
            "source": settings.described_source,
            "source_sha256": checkpoint.source_sha256,
            "revision": settings.revision or "unknown",
            "licence": licence,
            "made_with": dict(versions),
            "tensors": [_tensor(info) for info in table.values()],
            "golden": _golden(golden),
        },
    )


def write_fields(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write a sealed manifest that vouches for every other file in a folder."""
    paths = sorted(path for path in folder.iterdir() if path.name != MANIFEST)
    files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}
    lines = [f"{json.dumps(key)}: {_value(value)}" for key, value in {**fields, "files": files}.items()]
    body = blank_head() + (",\n".join(lines) + "\n}\n").encode()
    (folder / MANIFEST).write_bytes(seal(body))


def _value(value: Any) -> str:
    """JSON, with the entries of a table on a line each."""
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return "[\n" + ",\n".join(f"  {_compact(entry)}" for entry in value) + "\n]"
    if isinstance(value, dict) and any(isinstance(entry, (dict, list)) for entry in value.values()):
        return "{\n" + ",\n".join(f"  {json.dumps(key)}: {_value(entry)}" for key, entry in value.items()) + "\n}"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _tensor(info: TensorInfo) -> dict[str, Any]:
    return {**vars(info), "shape": list(info.shape)}


def _golden(golden: Golden) -> dict[str, Any]:
    digits = 6 if golden.metric == "logit" else 7
    outputs = np.round(golden.outputs.astype(np.float64), digits).tolist()
    inputs = [entry if isinstance(entry, str) else list(entry) for entry in golden.inputs]
    return {"metric": golden.metric, "tolerance": golden.tolerance, "inputs": inputs, "outputs": outputs}


def _special_ids(checkpoint: Checkpoint) -> dict[str, int]:
    tokenizer = checkpoint.tokenizer()
    return {f"{name.lower()}_id": _token_id(tokenizer, f"[{name}]") for name in ("PAD", "CLS", "SEP")}


def _token_id(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ExportError(f"the tokenizer has no {token}, expected a BERT tokenizer; choose another checkpoint")
    return found


def _card_licence(folder: Path) -> str:
    card = folder / "README.md"
    lines = card.read_text("utf-8").splitlines()[:40] if card.is_file() else []
    found = next((line for line in lines if line.startswith("license:")), "license: unknown")
    return found.split(":", 1)[1].strip()


def _write_licence(folder: Path, settings: ExportSettings, checkpoint: Checkpoint, licence: str) -> None:
    path = settings.licence_file or checkpoint.folder / LICENCE
    if path.is_file():
        shutil.copyfile(path, folder / LICENCE)
    else:
        text = f"These weights are their authors', under the licence {licence!r}; see {settings.described_source}.\n"
        (folder / LICENCE).write_text(text, "utf-8")
