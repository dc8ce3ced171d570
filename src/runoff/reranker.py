"""The runoff: a cross-encoder reads the query and each candidate together and decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from . import backends, models
from .artifact import Artifact
from .assembly import Passages
from .backends import Backend, Scores, Selected
from .encoder import as_texts, open_as
from .errors import BackendError, QueryError
from .tokenizer import Tokenizer

# The logit of a passage without a single token: below what any model of this kind gives, and finite.
BLANK_LOGIT = -30.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked passage.

    Attributes:
        text: the passage.
        index: its place in the list that was given.
        logit: the cross-encoder's output, finite.
        score: the logit's sigmoid, 0..1.
        truncated: whether only the passage's beginning was read.
        query_truncated: whether only the query's beginning was read.
    """

    text: str
    index: int
    logit: float
    score: float
    truncated: bool
    query_truncated: bool = False


class CrossEncoder:
    """Scores tokenised passages against a tokenised query. Thread-safe.

    Attributes:
        artifact: the model.
        tokenizer: its tokenizer.
        backend: name of what runs it.
        backend_reason: why that was chosen.
    """

    def __init__(self, artifact: Artifact, tokenizer: Tokenizer, selected: Selected) -> None:
        self.artifact = artifact
        self.tokenizer = tokenizer
        self.backend = selected.backend.name
        self.backend_reason = selected.reason
        self._backend: Backend = selected.backend

    @classmethod
    def load(
        cls,
        model: str | Artifact = models.DEFAULT_CROSS_ENCODER,
        *,
        backend: str = backends.AUTO,
        threads: int | None = None,
    ) -> CrossEncoder:
        """Load a cross-encoder by name, folder or artifact.

        Raises:
            ModelError: there is no such model, it is damaged, or no cross-encoder.
            BackendError: the backend cannot run it here.
        """
        artifact = open_as(model, "cross-encoder")
        tokenizer = Tokenizer.load(artifact.tokenizer_path, limit=threads)
        return cls(artifact, tokenizer, backends.select(artifact, backend, threads, tokenizer=tokenizer))

    def score(self, query_ids: NDArray[np.int32], passages: Passages) -> Scores:
        """Logits of a query with each passage; a pair's logit depends on nothing but the pair.

        Args:
            query_ids: int32: the query's word-piece ids, without special tokens.
            passages: rows of a token cache.

        Raises:
            BackendError: the model gave a number that is not finite.
        """
        if not len(passages):
            return Scores(np.empty(0, np.float32), np.empty(0, bool), False)
        scores = self._backend.score(query_ids, passages)
        if not np.isfinite(scores.logits).all():
            raise BackendError(f"{self.backend} gave a logit of {self.artifact.name} that is not finite")
        return replace(scores, logits=np.where(passages.lengths == 0, np.float32(BLANK_LOGIT), scores.logits))


class Reranker:
    """Ranks plain strings, without a store.

    >>> Reranker.load().rank("how many people live in Berlin?", passages, top_n=3)  # doctest: +SKIP
    """

    def __init__(self, encoder: CrossEncoder) -> None:
        self.encoder = encoder

    @classmethod
    def load(
        cls,
        model: str | Artifact = models.DEFAULT_CROSS_ENCODER,
        *,
        backend: str = backends.AUTO,
        threads: int | None = None,
    ) -> Reranker:
        """Load a reranker; arguments and errors as for ``CrossEncoder.load``."""
        return cls(CrossEncoder.load(model, backend=backend, threads=threads))

    @property
    def backend(self) -> str:
        """Name of what runs the model."""
        return self.encoder.backend

    def rank(self, query: str, passages: Sequence[str], top_n: int = 5) -> list[Hit]:
        """The ``top_n`` passages that answer the query best, by logit, ties in the order given.

        Args:
            query: what is asked; text that is not blank.
            passages: candidates; blank ones rank last; none gives an empty list.
            top_n: number of hits wanted, at least 1.

        Raises:
            QueryError: the query is blank, ``top_n`` is below 1, or a passage is not a string.
        """
        check_query(query)
        check_count("top_n", top_n)
        passages = as_texts("passages", passages)
        tokenizer = self.encoder.tokenizer
        scores = self.encoder.score(tokenizer.encode(query), Passages.pack(tokenizer.encode_batch(passages)))
        order = np.argsort(-scores.logits, kind="stable")[:top_n]
        return [_hit(passages[i], i, scores) for i in order.tolist()]


def sigmoid(logit: float) -> float:
    """Logistic function, 0..1, without overflow."""
    if logit >= 0:
        return 1.0 / (1.0 + math.exp(-logit))
    power = math.exp(logit)
    return power / (1.0 + power)


def check_query(query: object) -> None:
    """Refuse a query that is not text, or blank.

    Raises:
        QueryError: says what came.
    """
    if not isinstance(query, str) or not query.strip():
        raise QueryError(f"query: got {query!r}; expected text with at least one visible character")


def check_count(name: str, value: object) -> None:
    """Refuse what is not a whole number of at least 1.

    Raises:
        QueryError: names the setting and its value.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise QueryError(f"{name}: got {value!r}; expected a whole number of at least 1")


def _hit(text: str, index: int, scores: Scores) -> Hit:
    logit = float(scores.logits[index])
    return Hit(text, index, logit, sigmoid(logit), bool(scores.truncated[index]), scores.query_truncated)
