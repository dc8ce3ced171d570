"""A checkpoint on disk or from the hub: its files, what they say, and the torch model in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import Tokenizer

from ..artifact import sha256
from ..errors import ExportError
from .recover import recover
from .settings import ExportSettings

WEIGHTS_FILE = "model.safetensors"
_HUB_FILES = ["*.json", "*/config.json", WEIGHTS_FILE, "README.md", "LICENSE*"]
_TASKS = {"bi-encoder": "AutoModel", "cross-encoder": "AutoModelForSequenceClassification"}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint folder that was looked over.

    Args:
        folder: the files.
        kind: what to make of it.
        config: its config.json.
        max_length: most tokens in one input.
        pooling: ``mean`` or ``cls``.
        normalize: whether vectors have unit length.
        source_sha256: SHA-256 (hex) of the weights' file as it was given.
    """

    folder: Path
    kind: str
    config: dict[str, Any]
    max_length: int
    pooling: str
    normalize: bool
    source_sha256: str

    def model(self) -> Any:
        """The fp32 torch model, ready to infer.

        Raises:
            ExportError: the weights are not those of such a model.
        """
        import transformers

        loader = getattr(transformers, _TASKS[self.kind])
        model, loaded = loader.from_pretrained(self.folder, attn_implementation="eager", output_loading_info=True)
        missing = [name for name in loaded["missing_keys"] if self.kind == "cross-encoder" or "pooler" not in name]
        if missing:
            raise ExportError(
                f"{self.folder}: no weights {missing[:3]}, expected those of a {self.kind}; give its --kind"
            )
        return model.float().eval()

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, without truncation and padding: the run time does its own."""
        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


@contextmanager
def opened(settings: ExportSettings) -> Iterator[Checkpoint]:
    """The checkpoint that the settings name: a folder, the hub's, or one recovered from ONNX.

    Raises:
        ExportError: it is not there, has other bytes than expected, or is not a model that can be exported.
    """
    with TemporaryDirectory(prefix="runoff-checkpoint-") as scratch:
        if settings.from_onnx is not None:
            digest = _checked(settings.from_onnx, settings.sha256)
            folder = settings.keep_checkpoint or Path(scratch)
            recover(settings.from_onnx, folder)
        else:
            folder = _folder(settings)
            digest = _checked(folder / WEIGHTS_FILE, settings.sha256)
        yield _look_over(folder, settings, digest)


def _folder(settings: ExportSettings) -> Path:
    given = settings.checkpoint or ""
    if Path(given).is_dir():
        return Path(given)
    if given.count("/") != 1 or given.startswith((".", "/")):
        raise ExportError(f"{given}: no such folder, expected a checkpoint folder or a hub name such as owner/model")
    return _download(given, settings)


def _download(name: str, settings: ExportSettings) -> Path:
    if settings.revision is None or settings.sha256 is None:
        raise ExportError(
            f"{name} is a hub name, expected it pinned; give --revision COMMIT and --sha256 of its {WEIGHTS_FILE}"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=settings.revision, allow_patterns=_HUB_FILES))
    except (OSError, ValueError) as error:
        raise ExportError(
            f"{name} cannot be downloaded ({error}); download it elsewhere and give its folder"
        ) from error


def _checked(path: Path, expected: str | None) -> str:
    try:
        found = sha256(path)
    except OSError as error:
        raise ExportError(f"{path}: {error.strerror}, expected the model's weights; give another checkpoint") from error
    if expected is not None and found != expected.lower():
        raise ExportError(f"{path}: SHA-256 {found}, expected {expected}; the source is another or damaged")
    return found


def _look_over(folder: Path, settings: ExportSettings, digest: str) -> Checkpoint:
    config = _json(folder / "config.json")
    _fit(folder, config, settings.kind)
    pooling = _json(folder / "1_Pooling" / "config.json", default={"pooling_mode_mean_tokens": True})
    modules = _json(folder / "modules.json", default=[{"type": "Normalize"}])
    mean = settings.kind == "bi-encoder" and pooling.get("pooling_mode_mean_tokens", False)
    if settings.kind == "bi-encoder" and not mean and not pooling.get("pooling_mode_cls_token", False):
        raise ExportError(f"{folder}: pools by neither mean nor [CLS], expected one of them")
    return Checkpoint(
        folder=folder,
        kind=settings.kind,
        config=config,
        max_length=_max_length(folder, config, settings),
        pooling="mean" if mean else "cls",
        normalize=settings.kind == "bi-encoder" and any(m["type"].endswith("Normalize") for m in modules),
        source_sha256=digest,
    )


def _fit(folder: Path, config: dict[str, Any], kind: str) -> None:
    expected = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    for key, value in expected.items():
        if config.get(key, value) != value:
            raise ExportError(
                f"{folder}: {key} {config[key]!r}, expected {value!r}; only such BERT models are supported"
            )
    labels = len(config.get("id2label", {"0": ""}))
    if kind == "cross-encoder" and labels != 1:
        raise ExportError(f"{folder}: {labels} labels, expected a cross-encoder with one score")
    if not (folder / "tokenizer.json").is_file():
        raise ExportError(f"{folder}: no tokenizer.json, expected the fast tokenizer; save one with transformers")


def _max_length(folder: Path, config: dict[str, Any], settings: ExportSettings) -> int:
    positions = int(config["max_position_embeddings"])
    said = _json(folder / "sentence_bert_config.json", default={}).get("max_seq_length")
    length = settings.max_length or said or positions
    if not 8 <= length <= positions:
        raise ExportError(f"a maximum length of {length} tokens, expected 8 to {positions}, the model's position table")
    return int(length)


def _json(path: Path, default: Any = None) -> Any:
    if not path.is_file():
        if default is None:
            raise ExportError(f"{path}: no such file, expected it in a checkpoint")
        return default
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ExportError(f"{path}: not JSON ({error}); get the checkpoint again") from error
