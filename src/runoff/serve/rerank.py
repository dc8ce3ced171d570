"""Rerank APIs that other services have made common: Cohere's (v1 and v2), Jina's, and text-embeddings-inference's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal
from uuid import uuid4

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from ..admission import Ticket
from ..asynchronous import score
from ..backends import Scores
from ..deadlines import Deadline, Report
from ..reranker import check_query, sigmoid
from . import limits
from .access import Record
from .options import DeadlineMs, TimeoutMs
from .problems import Problem
from .routes import ERRORS
from .schemas import QUESTION, Query, Text, example
from .service import Service, respond, service_of

COMPUTING = ("/rerank", "/v1/rerank", "/v2/rerank")
_SPECIAL_TOKENS = 3  # [CLS] query [SEP] passage [SEP]

router = APIRouter(tags=["rerank"], responses=ERRORS)

_PASSAGES = [
    "Merchants with a bank account in the same country as their shop are paid every hour.",
    "A payout to a merchant abroad leaves our account in one currency and arrives in another.",
]


class Lenient(BaseModel):
    """A body of an API that is not ours: what its clients send beside the fields we know is passed over."""

    model_config = ConfigDict(allow_inf_nan=False)


class RerankRequest(Lenient):
    """A query and documents, as Cohere's and Jina's clients send them."""

    model_config = example({"query": QUESTION, "documents": _PASSAGES, "top_n": 1})

    query: Query
    documents: Annotated[
        list[Text | dict[Annotated[str, Field(max_length=limits.NAME_CHARACTERS)], Any]],
        Field(min_length=1, max_length=limits.RERANK_DOCUMENTS),
    ] = Field(description="Strings, or objects with a `text`.")
    top_n: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="Results wanted; all where it is left out."
    )
    return_documents: StrictBool | None = Field(None, description="Whether results carry their document; default: not.")
    rank_fields: Annotated[list[StrictStr], Field(max_length=limits.TAGS)] | None = Field(
        None, description="Fields of the objects to read, in this order, instead of `text`."
    )
    max_tokens_per_doc: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="Read no more word pieces of a document; the model reads 512 in all."
    )
    model: StrictStr | None = Field(None, description="Any name: there is one model, which the answer names.")
    deadline_ms: DeadlineMs | None = Field(
        None, description="Time in which the answer is wanted; texts that there is no time for come last, with 0."
    )
    timeout_ms: TimeoutMs | None = None


class RerankResult(BaseModel):
    """A document's place in the answer."""

    index: int
    relevance_score: float = Field(description="Sigmoid of the logit, 0..1.")
    document: dict[str, Any] | None = None


class RerankAnswer(BaseModel):
    """Best first; what Cohere's and Jina's clients read."""

    id: str
    model: str
    results: list[RerankResult]
    meta: dict[str, Any]
    usage: dict[str, int]


class TeiRerankRequest(Lenient):
    """A query and texts, as clients of text-embeddings-inference send them."""

    model_config = example({"query": QUESTION, "texts": _PASSAGES, "truncate": True})

    query: Query
    texts: Annotated[list[Text], Field(min_length=1, max_length=limits.RERANK_DOCUMENTS)]
    raw_scores: StrictBool = Field(False, description="Logits instead of their sigmoids.")
    return_text: StrictBool = False
    truncate: StrictBool | None = Field(False, description="Read the beginning of long texts instead of refusing them.")
    truncation_direction: Literal["right", "Right", None] = None
    deadline_ms: DeadlineMs | None = Field(
        None, description="Time in which the answer is wanted; texts that there is no time for come last, with 0."
    )
    timeout_ms: TimeoutMs | None = None


class TeiRank(BaseModel):
    """A text's place in the answer."""

    index: int
    score: float
    text: str | None = None


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Scores of texts in the order given, and the order from best to worst."""

    scores: Scores
    order: list[int]
    tokens: int
    time: Report | None

    def probability(self, index: int) -> float:
        return sigmoid(float(self.scores.logits[index])) if self.scores.has_logit(index) else 0.0

    @property
    def contract(self) -> dict[str, Any]:
        """What became of the deadline; empty without one."""
        return {} if self.time is None else {"scored": int(self.scores.final.sum()), **asdict(self.time)}


@router.post("/v1/rerank", response_model=RerankAnswer)
async def rerank_v1(body: RerankRequest, request: Request) -> Response:
    """Rerank documents: Cohere's v1 and Jina's API."""
    return await _rerank(body, request, "1")


@router.post("/v2/rerank", response_model=RerankAnswer)
async def rerank_v2(body: RerankRequest, request: Request) -> Response:
    """Rerank documents: Cohere's v2 API."""
    return await _rerank(body, request, "2")


@router.post("/rerank", response_model=list[TeiRank])
async def rerank_tei(body: TeiRerankRequest, request: Request) -> Response:
    """Rerank texts: the API of text-embeddings-inference."""
    service = service_of(request)

    def call(ticket: Ticket, record: Record) -> Response:
        ranked = _rank(
            service,
            body.query,
            body.texts,
            ticket,
            record,
            deadline_ms=body.deadline_ms,
            refuse_long=not body.truncate,
        )
        rows: list[dict[str, Any]] = []
        for index in ranked.order:
            raw = body.raw_scores and ranked.scores.has_logit(index)
            shown = float(ranked.scores.logits[index]) if raw else ranked.probability(index)
            rows.append({"index": index, "score": shown} | ({"text": body.texts[index]} if body.return_text else {}))
        answer = respond(rows)
        answer.headers.update(
            {f"x-runoff-{name.replace('_', '-')}": str(value) for name, value in ranked.contract.items()}
        )
        return answer

    return await service.compute(request, call, body.timeout_ms)


async def _rerank(body: RerankRequest, request: Request, version: str) -> Response:
    service = service_of(request)
    texts = [_text(document, body.rank_fields, position) for position, document in enumerate(body.documents)]

    def call(ticket: Ticket, record: Record) -> Response:
        ranked = _rank(
            service,
            body.query,
            texts,
            ticket,
            record,
            deadline_ms=body.deadline_ms,
            most_tokens=body.max_tokens_per_doc,
        )
        results: list[dict[str, Any]] = []
        for index in ranked.order[: body.top_n]:
            result: dict[str, Any] = {"index": index, "relevance_score": ranked.probability(index)}
            if body.return_documents:
                given = body.documents[index]
                result["document"] = given if isinstance(given, dict) else {"text": given}
            results.append(result)
        cut = int(ranked.scores.truncated.sum())
        warnings = [f"{cut} documents are longer than the model reads: only their beginning counts"] if cut else []
        meta = {"api_version": {"version": version}, "billed_units": {"search_units": 1}, "warnings": warnings}
        if ranked.contract:
            meta["deadline"] = ranked.contract
        usage = {"total_tokens": ranked.tokens, "prompt_tokens": ranked.tokens}
        name = service.models.scorer.artifact.name
        return respond({"id": str(uuid4()), "model": name, "results": results, "meta": meta, "usage": usage})

    return await service.compute(request, call, body.timeout_ms)


def _text(document: str | dict[str, Any], fields: Sequence[str] | None, position: int) -> str:
    """What is read of a document.

    Raises:
        Problem: 422: an object lacks a text.
    """
    if isinstance(document, str):
        return document
    if fields:
        return "\n".join(f"{name}: {document[name]}" for name in fields if name in document)[: limits.TEXT_CHARACTERS]
    text = document.get("text")
    if not isinstance(text, str):
        field = f"documents.{position}.text"
        raise Problem(422, "missing", f"{field}: expected a string, or rank_fields to read others", field=field)
    if len(text) > limits.TEXT_CHARACTERS:
        field = f"documents.{position}.text"
        raise Problem(422, "string_too_long", f"{field}: more than {limits.TEXT_CHARACTERS} characters", field=field)
    return text


def _rank(
    service: Service,
    query: str,
    texts: Sequence[str],
    ticket: Ticket,
    record: Record,
    *,
    deadline_ms: float | None,
    most_tokens: int | None = None,
    refuse_long: bool = False,
) -> _Ranked:
    """Scores of texts, with their times in the record.

    Raises:
        QueryError: the query is blank.
        Problem: 413: a text is longer than the model reads, and that is to be refused.
    """
    check_query(query)
    stages = service.models
    scorer = stages.scorer
    began = time.perf_counter()
    query_ids = stages.tokenizer.encode(query)
    tokens = [ids[:most_tokens] for ids in stages.tokenizer.encode_batch(texts)]
    tokenized = time.perf_counter()
    if refuse_long:
        _check_lengths(query_ids, tokens, scorer.artifact.max_length)
    target = service.settings.target_ms if deadline_ms is None else deadline_ms
    deadline = None if target is None else Deadline(target, record.arrived)
    scores, planned = score(scorer, query_ids, tokens, ticket, deadline)
    time_report = None if target is None else Report.now(target, record.arrived, planned)
    record.stages_ms |= {
        "tokenize": (tokenized - began) * 1e3,
        "rerank": (time.perf_counter() - tokenized) * 1e3,
    }
    record.facts |= {"documents": len(texts), "backend": scorer.backend}
    if service.settings.log_texts:
        record.facts["query"] = query
    metrics = service.metrics
    metrics.scored.inc(len(texts))
    metrics.token_cache.labels("miss").inc(len(texts))
    metrics.truncations.labels("passage").inc(int(scores.truncated.sum()))
    metrics.truncations.labels("query").inc(scores.query_truncated)
    metrics.deadline(time_report.deadline_met if time_report else None)
    read = sum(min(len(ids), scorer.artifact.max_length) for ids in tokens) + len(query_ids) * len(tokens)
    return _Ranked(scores, scores.order().tolist(), read, time_report)


def _check_lengths(query_ids: NDArray[np.int32], tokens: Sequence[NDArray[np.int32]], most: int) -> None:
    for position, ids in enumerate(tokens):
        length = len(query_ids) + len(ids) + _SPECIAL_TOKENS
        if length > most:
            field = f"texts.{position}"
            raise Problem(
                413,
                "text_too_long",
                f"{field}: {length} tokens with the query; expected at most {most}, or truncate = true",
                field=field,
            )
