"""What the engine returns: small frozen records that turn into JSON as they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .candidates import Mode
from .documents import Kind


@dataclass(frozen=True, slots=True)
class ListPlace:
    """Where one list of the first stage has a chunk: rank from 1, and the list's score."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class FirstStage:
    """Where the first stage put a chunk, and which of its lists found it.

    Attributes:
        rank: rank from 1 in the order that the runoff was given.
        score: what that order goes by: cosine similarity, BM25 score or the fused score of both.
        similarity: cosine similarity of query and chunk, -1..1, whichever list found it.
        dense: place in the list by vector, score -1..1; None where that list did not find it.
        lexical: place in the list by BM25, score above 0; None where that list did not find it.
    """

    rank: int
    score: float
    similarity: float
    dense: ListPlace | None
    lexical: ListPlace | None


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
        source: the feed or file that the document came from.
        published: UTC time of publication as ``YYYY-MM-DDTHH:MM:SSZ``, or None.
        text: the chunk's text.
        logit: the cross-encoder's output, unbounded, or a prediction of it; None without a runoff, and where a deadline
            left no time for the chunk.
        blended: logit + blend x similarity, by which hits are ordered; None where the logit is.
        score: the logit's sigmoid, 0..1; without a logit the first stage's score.
        first_stage: where the first stage had put it.
        truncated: whether the cross-encoder saw only the chunk's beginning.
        exit_layer: layer after which the chunk left the runoff with a predicted logit; None where the logit is final.
        windowed: whether the cross-encoder read only a window of the chunk, for want of time.
        probability: how probable it is that the chunk is relevant, 0..1; None without a logit, or without a calibration
            for this blend.
    """

    rank: int
    chunk_id: int
    document_id: str
    kind: Kind
    title: str
    url: str | None
    source: str
    published: str | None
    text: str
    logit: float | None
    blended: float | None
    score: float
    first_stage: FirstStage
    truncated: bool
    exit_layer: int | None = None
    windowed: bool = False
    probability: float | None = None


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
        backend: what ran the encoders, ``"native"`` or ``"onnxruntime"``; ``"native, onnxruntime"`` where one, the
            bi-encoder here, ran on the first and the other on the second.
        hits: best first.
        timings_ms: wall time of each stage.
        query_truncated: whether the query was too long for the encoders and was cut.
        reranked: whether the runoff took place.
        mode: which lists the first stage used: ``"hybrid"``, ``"dense"`` or ``"lexical"``.
        blend: weight of the similarity beside the logit.
        generation: the store's generation that answered.
        effort: ``"exact"`` or ``"fast"``, as asked for.
        scored: how many candidates have a logit that is the model's own, of the passage or of a window of it.
        complete: whether all of them have, of all that the model reads of a passage; False too where ``fast`` let some
            leave early.
        deadline_ms: the deadline in milliseconds from the arrival of the query, or None.
        deadline_met: whether the result was there in time; None without a deadline.
        planned_ms: when it was to be there by the plan; None where nothing was planned.
        spent_ms: when it was there, in milliseconds from the arrival.
        answerable: how probable it is that any candidate is relevant, 0..1; None without a runoff, where there was
            no time for any, or without a calibration for this blend.
        cached: whether the engine had this answer already; then no stage ran, and ``timings_ms.total`` is what the look
            took.
    """

    query: str
    backend: str
    hits: tuple[SearchHit, ...]
    timings_ms: Timings
    query_truncated: bool
    reranked: bool
    mode: Mode
    blend: float
    generation: int
    effort: str = "exact"
    scored: int = 0
    complete: bool = True
    deadline_ms: float | None = None
    deadline_met: bool | None = None
    planned_ms: float | None = None
    spent_ms: float = 0.0
    answerable: float | None = None
    cached: bool = False

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
        not_modified: whether the source is as it was, so that nothing of it was read again.
        warnings: what was odd but did not stop the source.
        error: why the source could not be read, or None.
    """

    source: str
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    chunks: int = 0
    embedded: int = 0
    not_modified: bool = False
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
