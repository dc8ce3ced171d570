"""The first stage's model: a text becomes one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from . import backends, models
from .artifact import Artifact
from .assembly import Passages
from .backends import Backend, Selected
from .errors import BackendError, ModelError, QueryError
from .tokenizer import Tokenizer

BLOCK_TEXTS = 64


class BiEncoder:
    """Gives texts vectors whose inner product says how much they are about the same. Thread-safe.

    A text's vector depends on nothing but the text: not on the batch, its order or the number of threads.

    Attributes:
        artifact: the model.
        tokenizer: its tokenizer.
        backend: name of what runs it.
        backend_reason: why that was chosen.
        identity: what a text's vector depends on beside the text.
    """

    def __init__(self, artifact: Artifact, tokenizer: Tokenizer, selected: Selected) -> None:
        self.artifact = artifact
        self.tokenizer = tokenizer
        self.backend = selected.backend.name
        self.backend_reason = selected.reason
        self.identity = backends.identity(artifact, selected.backend)
        self._backend: Backend = selected.backend

    @classmethod
    def load(
        cls,
        model: str | Artifact = models.DEFAULT_BI_ENCODER,
        *,
        backend: str = backends.AUTO,
        threads: int | None = None,
    ) -> BiEncoder:
        """Load a bi-encoder by name, folder or artifact.

        Raises:
            ModelError: there is no such model, it is damaged, or no bi-encoder.
            BackendError: the backend cannot run it here.
        """
        artifact = open_as(model, "bi-encoder")
        tokenizer = Tokenizer.load(artifact.tokenizer_path, limit=threads)
        return cls(artifact, tokenizer, backends.select(artifact, backend, threads, tokenizer=tokenizer))

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self.artifact.dimensions

    def encode(self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Vectors of texts: float32, shape [n, dimensions], L2-normalised.

        Args:
            texts: any number of texts, the empty one too; what exceeds the model's maximum length is not read.
            progress: called with the number of texts done so far.

        Raises:
            QueryError: ``texts`` is one string, or an item is not a string.
            BackendError: the model gave a number that is not finite.
        """
        texts = as_texts("texts", texts)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), BLOCK_TEXTS):
            block = texts[first : first + BLOCK_TEXTS]
            vectors[first : first + len(block)] = self.embed(self.tokenizer.encode_batch(block))
            if progress is not None:
                progress(first + len(block))
        return vectors

    def embed(self, tokens: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Vectors of texts that are tokenised already."""
        vectors = self._backend.embed(Passages.pack(tokens))
        if not np.isfinite(vectors).all():
            raise BackendError(f"{self.backend} gave a vector of {self.artifact.name} that is not finite")
        return vectors


def open_as(model: str | Artifact, kind: str) -> Artifact:
    """The artifact of that name, folder or itself, if it is of the kind.

    Raises:
        ModelError: there is none, it is damaged, or it is of another kind.
    """
    artifact = model if isinstance(model, Artifact) else models.find(model)
    if artifact.kind != kind:
        raise ModelError(f"{artifact.name} is a {artifact.kind}; expected a {kind}")
    return artifact


def as_texts(name: str, texts: Iterable[str]) -> list[str]:
    """The texts as a list.

    Raises:
        QueryError: ``texts`` is one string or no series at all, or names the first item that is not a string.
    """
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise QueryError(f"{name}: got one {type(texts).__name__}; expected a sequence of strings")
    listed = list(texts)
    for position, text in enumerate(listed):
        if not isinstance(text, str):
            raise QueryError(f"{name}: item {position} is {type(text).__name__}; expected str")
    return listed
