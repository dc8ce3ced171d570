"""What the engine returns: small frozen records that turn into JSON as they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .documents import Kind


@dataclass(frozen=True, slots=True)
class FirstStage:
    """Where the first stage put a chunk: rank from 1, and its score (cosine similarity, -1..1)."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A chunk that answers a query.

    Attributes:
        rank: final rank, from 1.
        chunk_id: id of the chunk in the store, never given twice.
        document_id: id of its document, 16 hexadecimal digits.
        kind: ``"headline"`` or ``"body"``.
        title: the document's title.
        url: the document's address, or None.
        text: the chunk's text.
        logit: the cross-encoder's output, unbounded; None without a runoff.
        score: the logit's sigmoid, 0..1; without a runoff the first stage's cosine similarity.
        first_stage: where the first stage had put it.
        truncated: whether the cross-encoder saw only the chunk's beginning.
    """

    rank: int
    chunk_id: int
    document_id: str
    kind: Kind
    title: str
    url: str | None
    text: str
    logit: float | None
    score: float
    first_stage: FirstStage
    truncated: bool


@dataclass(frozen=True, slots=True)
class Timings:
    """Wall time of each stage of one query, in milliseconds."""

    tokenize: float
    embed: float
    retrieve: float
    rerank: float
    total: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to one query.

    Attributes:
        query: the query as it was given.
        backend: what ran the encoders, ``"onnxruntime"`` or ``"native"``.
        hits: best first.
        timings_ms: wall time of each stage.
        query_truncated: whether the query was too long for the encoders and was cut.
        reranked: whether the runoff took place.
        generation: the store's generation that answered.
    """

    query: str
    backend: str
    hits: tuple[SearchHit, ...]
    timings_ms: Timings
    query_truncated: bool
    reranked: bool
    generation: int

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, as ``--json`` prints them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What became of one source.

    Attributes:
        source: the address or path.
        added: documents that are new.
        updated: documents whose record changed.
        unchanged: documents that were stored already.
        chunks: chunks of the added and updated documents.
        embedded: how many of those chunks had to be embedded.
        warnings: what was odd but did not stop the source.
        error: why the source could not be read, or None.
    """

    source: str
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    chunks: int = 0
    embedded: int = 0
    warnings: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of each source, and how long all of it took (seconds)."""

    sources: tuple[SourceReport, ...] = field(default_factory=tuple)
    seconds: float = 0.0

    @property
    def failed(self) -> tuple[SourceReport, ...]:
        """The sources that could not be read."""
        return tuple(report for report in self.sources if report.error is not None)

    def total(self, name: str) -> int:
        """Sum of one of the counts over all sources."""
        return sum(int(getattr(report, name)) for report in self.sources)
