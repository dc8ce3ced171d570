"""The parts an engine is made of, each behind a small protocol, and the ones that load when they are first used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from . import chunking, lexical, models, words
from .artifact import Artifact
from .assembly import Passages
from .backends import Scores
from .chunking import ChunkSettings
from .deadlines import Deadline
from .encoder import BiEncoder
from .ingest import TextEncoder
from .reranker import EXACT, CrossEncoder
from .threads import budget
from .timed import Timed
from .tokenizer import Tokenizer
from .tokens import Counter, TokenCounter

Part = TypeVar("Part")


class PairScorer(Protocol):
    """Scores cached passages against a query's word-piece ids."""

    def score(
        self,
        query_ids: Any,
        passages: Passages,
        *,
        effort: str = EXACT,
        top_n: int = ...,
        offsets: NDArray[np.float32] | None = None,
    ) -> Scores: ...


@runtime_checkable
class ClockedScorer(Protocol):
    """A scorer that can keep deadlines; see ``CrossEncoder.score_within``. One that cannot scores all, however long."""

    def score_within(
        self,
        query_ids: Any,
        passages: Passages,
        deadline: Deadline,
        *,
        effort: str = EXACT,
        top_n: int = ...,
        offsets: NDArray[np.float32] | None = None,
    ) -> Timed: ...


class Stages(Protocol):
    """What an engine needs to ingest, search and build prompts. Any object with these attributes fits.

    Attributes:
        encoder: gives texts their vectors.
        tokenizer: gives texts the word-piece ids that the scorer reads.
        scorer: gives query and passage their logit.
        counter: counts the tokens of a prompt.
        identity: what stored data depends on; a store made under another identity is refused.
        backend: name of what runs the encoders.
    """

    @property
    def encoder(self) -> TextEncoder: ...
    @property
    def tokenizer(self) -> Any: ...
    @property
    def scorer(self) -> PairScorer: ...
    @property
    def counter(self) -> Counter: ...
    @property
    def identity(self) -> Mapping[str, Any]: ...
    @property
    def backend(self) -> str: ...


class _Once:
    """Makes a part at most once, whatever the number of threads that ask for it."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def get(self, name: str, make: Callable[[], Part]) -> Part:
        with self._guard:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            if name not in self._parts:
                self._parts[name] = make()
        part: Part = self._parts[name]
        return part


class ModelStages:
    """Stages over two model artifacts; each encoder is loaded when it is first used.

    Args:
        bi_encoder: artifact of the first stage.
        cross_encoder: artifact of the runoff.
        backend: ``"auto"`` or the name of a backend.
        threads: upper bound on threads; None takes what the machine grants.
    """

    def __init__(self, bi_encoder: Artifact, cross_encoder: Artifact, backend: str, threads: int | None) -> None:
        self.artifacts = (bi_encoder, cross_encoder)
        self._bi, self._cross = bi_encoder, cross_encoder
        self._backend, self._threads = backend, threads
        self._once = _Once()

    @property
    def encoder(self) -> BiEncoder:
        """The bi-encoder."""
        return self._once.get("encoder", lambda: BiEncoder.load(self._bi, backend=self._backend, threads=self._threads))

    @property
    def scorer(self) -> CrossEncoder:
        """The cross-encoder."""
        return self._once.get(
            "scorer", lambda: CrossEncoder.load(self._cross, backend=self._backend, threads=self._threads)
        )

    @property
    def tokenizer(self) -> Tokenizer:
        """The cross-encoder's tokenizer, which does not need the cross-encoder."""
        return self._once.get("tokenizer", lambda: Tokenizer.load(self._cross.tokenizer_path))

    @property
    def counter(self) -> TokenCounter:
        """The counter of prompt tokens."""
        return self._once.get("counter", lambda: TokenCounter.load(models.vocabulary_path()))

    @property
    def backend(self) -> str:
        """Name of the backend that runs the bi-encoder."""
        return self.encoder.backend

    @property
    def threads(self) -> int:
        """Most threads that the encoders compute on."""
        return budget(self._threads)

    def vector_identity(self) -> str:
        """What the bi-encoder's vectors depend on beside the text."""
        return self.encoder.identity

    def logit_identity(self) -> str:
        """What the cross-encoder's exact logits depend on beside query and passage."""
        return self.scorer.identity

    @property
    def identity(self) -> dict[str, Any]:
        """Names and digests of what vectors and token ids depend on."""
        return {
            "bi_encoder": self._bi.name,
            "bi_encoder_digest": self._bi.digest,
            "dimensions": self._bi.dimensions,
            "pooling": self._bi.pooling,
            "max_length": self._bi.max_length,
            "passage_tokenizer": self._cross.tokenizer_digest,
        }


def chunk_identity(settings: ChunkSettings) -> dict[str, Any]:
    """The part of a store's identity that its chunking fixes."""
    return {"chunk_words": settings.size, "chunk_overlap": settings.overlap}


def index_identity() -> dict[str, Any]:
    """The part of a store's identity that this release fixes: how texts are cut, and how words are indexed."""
    return {
        "vectors": "float16",
        "chunker": chunking.VERSION,
        "words": words.VERSION,
        "bm25_k1": lexical.K1,
        "bm25_b": lexical.B,
    }
