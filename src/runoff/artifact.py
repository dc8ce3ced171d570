"""A model artifact: one folder with graph, weights, tokenizer and the manifest that vouches for them.

``model.json`` is the manifest. Its first entry is its own SHA-256, taken over the file with that digest blanked, and
its ``files`` entry holds size and SHA-256 of every other file. So each byte of the folder is covered, and nothing is
parsed before its hash was checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import ArtifactDamagedError, ModelError

FORMAT_VERSION = 1
MANIFEST = "model.json"
GRAPH = "model.onnx"
WEIGHTS = "weights.bin"
TOKENIZER = "tokenizer.json"
ALIGNMENT = 64
KINDS = ("bi-encoder", "cross-encoder")
GRAPH_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
DTYPES = ("float32", "int8", "uint8")

_SEAL = re.compile(rb'\A\{"digest": "([0-9a-f]{64})",\n')
_BLANK = b'{"digest": "' + b"0" * 64 + b'",\n'
_BLOCK = 1 << 20
# Fields of an Artifact that are not entries of the manifest as they are.
_DERIVED = {"path", "tensors", "golden", "files"}


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies in ``weights.bin`` and what its numbers mean.

    A quantised value q stands for ``(q - zero_point) * scale``. The weight of a linear layer is stored as (in, out).

    Args:
        name: name in the checkpoint, such as ``bert.encoder.layer.0.output.dense.weight``.
        dtype: little-endian numpy name: ``float32``, ``int8`` or ``uint8``.
        shape: dimensions, row-major.
        offset: first byte in the file, a multiple of 64.
        nbytes: length in bytes.
        scale: None for float32; one number for the whole tensor; or the name of the float32 tensor that holds one scale
            per output channel (linear layers) or per row (embedding tables).
        zero_point: integer that stands for 0.0.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    scale: str | float | None = None
    zero_point: int = 0


@dataclass(frozen=True)
class Golden:
    """Inputs with the fp32 model's outputs, which every backend has to meet on every machine.

    Args:
        inputs: texts (bi-encoder) or (query, passage) pairs (cross-encoder).
        outputs: float32 of the torch model: [n, dimensions] unit vectors or [n] logits.
        metric: ``cosine`` (error = 1 - cosine) or ``logit`` (error = absolute difference).
        tolerance: largest error that passes.
    """

    inputs: tuple[Any, ...]
    outputs: NDArray[np.float32] = field(repr=False)
    metric: str
    tolerance: float

    def errors(self, outputs: ArrayLike) -> NDArray[np.float64]:
        """Error of each output, float64 [n]; infinite where the output is not finite.

        Raises:
            ModelError: the shape is not that of the golden outputs.
        """
        got = np.asarray(outputs, dtype=np.float64)
        if got.shape != self.outputs.shape:
            raise ModelError(
                f"golden outputs of shape {got.shape}, expected {self.outputs.shape}; this is a backend bug"
            )
        want = self.outputs.astype(np.float64)
        error = np.abs(got - want) if self.metric == "logit" else 1.0 - _cosine(got, want)
        return np.where(np.isfinite(error), error, np.inf)

    def worst(self, outputs: ArrayLike) -> float:
        """Largest error over all inputs."""
        return float(self.errors(outputs).max(initial=0.0))

    def accepts(self, outputs: ArrayLike) -> bool:
        """Whether every output is within the tolerance."""
        return self.worst(outputs) <= self.tolerance


@dataclass(frozen=True)
class FileInfo:
    """Size in bytes and SHA-256 (hex) of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A checked ``model.json``: the files it vouches for and all that it says."""

    path: Path
    files: Mapping[str, FileInfo]
    fields: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Artifact:
    """Immutable view of one model folder; made by ``Artifact.open``, safe to share between threads.

    Args:
        path: the folder.
        name: name of the model.
        kind: ``bi-encoder`` or ``cross-encoder``.
        dimensions: length of the output: of a vector (bi-encoder), or 1 (cross-encoder).
        layers: transformer layers.
        heads: attention heads in a layer.
        hidden: width of a token's state.
        intermediate: width of the feed-forward layer.
        vocabulary: rows of the word table.
        max_length: most tokens in one input, special tokens included.
        pooling: ``mean`` over tokens or ``cls``; the graph does it.
        normalize: whether vectors have unit length; the graph does it.
        layer_norm_eps: epsilon of the layer norms.
        pad_id: token id of padding.
        cls_id: token id of ``[CLS]``.
        sep_id: token id of ``[SEP]``.
        precision: ``int8`` or ``fp32``.
        tensors: table of ``weights.bin`` by name.
        golden: reference inputs and outputs.
        files: every file but the manifest.
        source: where the weights came from.
        revision: version of that source.
        licence: SPDX name of the weights' licence.
    """

    path: Path
    name: str
    kind: str
    dimensions: int
    layers: int
    heads: int
    hidden: int
    intermediate: int
    vocabulary: int
    max_length: int
    pooling: str
    normalize: bool
    layer_norm_eps: float
    pad_id: int
    cls_id: int
    sep_id: int
    precision: str
    tensors: Mapping[str, TensorInfo] = field(repr=False)
    golden: Golden = field(repr=False)
    files: Mapping[str, FileInfo] = field(repr=False)
    source: str
    revision: str
    licence: str

    @classmethod
    def open(cls, path: Path, *, verify: bool = True) -> Artifact:
        """Open a model folder.

        Args:
            path: folder with a ``model.json``.
            verify: hash every file (some 30 ms for 35 MB). Without it only the manifest is hashed and the other files'
                sizes are compared, which finds truncation but not a flipped byte.

        Raises:
            ModelError: no artifact there, or of a format that this version does not read.
            ArtifactDamagedError: a file is missing, has another size or other bytes than the manifest says.
        """
        manifest = read_manifest(path, verify=verify)
        if manifest.fields.get("kind") not in KINDS:
            raise ModelError(f"{path}: kind {manifest.fields.get('kind')!r}, expected {' or '.join(KINDS)}")
        return _build(manifest)

    @property
    def graph_path(self) -> Path:
        """The ONNX graph, which refers to the weights file."""
        return self.path / GRAPH

    @property
    def weights_path(self) -> Path:
        """All weights, laid out as ``tensors`` says."""
        return self.path / WEIGHTS

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer, without truncation and padding."""
        return self.path / TOKENIZER

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over names and hashes of all files: the identity of the model."""
        lines = (f"{name} {self.files[name].sha256}\n" for name in sorted(self.files))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def tokenizer_digest(self) -> str:
        """SHA-256 (hex) of the tokenizer file: the identity of token ids."""
        return self.files[TOKENIZER].sha256

    def load(self, name: str) -> NDArray[Any]:
        """One tensor as stored: a read-only array mapped from ``weights.bin``.

        Raises:
            ModelError: there is no tensor of that name.
        """
        info = self.tensors.get(name)
        if info is None:
            raise ModelError(f"no tensor {name!r} in model {self.name}; it has {len(self.tensors)} others")
        return np.memmap(self.weights_path, dtype=info.dtype, mode="r", offset=info.offset, shape=info.shape)


def read_manifest(folder: Path, *, verify: bool = True) -> Manifest:
    """Read and check the manifest of a model or vocabulary folder.

    Args:
        folder: folder with a ``model.json``.
        verify: hash the files that it names too, not only compare their sizes.

    Raises:
        ModelError: no manifest there, or one of a format that this version does not read.
        ArtifactDamagedError: a file is missing, has another size or other bytes than the manifest says.
    """
    path = folder / MANIFEST
    said = _parse(path, unseal(path, _read(path)))
    files = {name: FileInfo(int(entry["bytes"]), str(entry["sha256"])) for name, entry in said["files"].items()}
    for name, info in files.items():
        check_file(folder / name, info, contents=verify)
    return Manifest(folder, MappingProxyType(files), MappingProxyType(said))


def check_file(path: Path, info: FileInfo, *, contents: bool = True) -> None:
    """Compare a file with its entry in the manifest.

    Args:
        path: the file.
        info: size and hash that it should have.
        contents: compare the hash too, not only the size.

    Raises:
        ArtifactDamagedError: it is missing or differs.
    """
    try:
        size = path.stat().st_size
        if size != info.bytes:
            raise ArtifactDamagedError(
                f"{path}: {size} bytes, expected {info.bytes}; install or export the model again"
            )
        found = sha256(path) if contents else info.sha256
    except OSError as error:
        raise ArtifactDamagedError(f"{path}: {error.strerror}; install or export the model again") from error
    if found != info.sha256:
        raise ArtifactDamagedError(
            f"{path}: damaged (SHA-256 {found[:12]}..., expected {info.sha256[:12]}...);"
            " install or export the model again"
        )


def sha256(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def seal(body: bytes) -> bytes:
    """A manifest's bytes with its own digest filled in; ``body`` starts with the blank digest entry."""
    digest = hashlib.sha256(body).hexdigest().encode()
    return body.replace(b"0" * 64, digest, 1)


def unseal(path: Path, data: bytes) -> bytes:
    """What a sealed file says, JSON, after a look at its digest.

    Raises:
        ArtifactDamagedError: there is no digest, or that of other bytes.
    """
    match = _SEAL.match(data)
    if match is None:
        raise ArtifactDamagedError(f"{path}: does not begin with a digest; install or export the model again")
    if hashlib.sha256(_BLANK + data[match.end() :]).hexdigest().encode() != match[1]:
        raise ArtifactDamagedError(f"{path}: damaged (differs from its own digest); install or export the model again")
    return data


def blank_head() -> bytes:
    """First line of a manifest that is not sealed yet."""
    return _BLANK


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}; expected a model folder with a {MANIFEST}") from error


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(data)
    version = said.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelError(
            f"{path}: format version {version!r}, this version of runoff reads {FORMAT_VERSION}; export the model again"
        )
    return said


def _build(manifest: Manifest) -> Artifact:
    said = manifest.fields
    try:
        return Artifact(
            path=manifest.path,
            **{entry.name: said[entry.name] for entry in fields(Artifact) if entry.name not in _DERIVED},
            tensors=MappingProxyType({info.name: info for info in _tensors(manifest)}),
            golden=_golden(said["golden"]),
            files=manifest.files,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{manifest.path / MANIFEST}: not as expected ({error!r}); export the model again") from error


def _tensors(manifest: Manifest) -> Iterator[TensorInfo]:
    """The tensor table, each row checked, as native code will trust it."""
    size = manifest.files[WEIGHTS].bytes
    rows = [TensorInfo(**{**row, "shape": tuple(row["shape"])}) for row in manifest.fields["tensors"]]
    names = {info.name for info in rows}
    for info in rows:
        fits = info.dtype in DTYPES and info.nbytes == math.prod(info.shape) * np.dtype(info.dtype).itemsize
        placed = info.offset % ALIGNMENT == 0 and 0 <= info.offset <= size - info.nbytes
        if not (fits and placed) or (isinstance(info.scale, str) and info.scale not in names):
            raise ModelError(f"{manifest.path / MANIFEST}: tensor table entry {info} is not possible; export it again")
        yield info


def _golden(said: Mapping[str, Any]) -> Golden:
    outputs = np.array(said["outputs"], dtype=np.float32)
    outputs.setflags(write=False)
    inputs = tuple(entry if isinstance(entry, str) else tuple(entry) for entry in said["inputs"])
    return Golden(inputs, outputs, said["metric"], float(said["tolerance"]))


def _cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine: NDArray[np.float64] = np.sum(a * b, axis=-1) / norms
    return cosine
