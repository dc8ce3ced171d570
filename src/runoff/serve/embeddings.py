"""Embedding APIs that other services have made common: OpenAI's and text-embeddings-inference's."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from ..admission import Ticket
from ..encoder import BLOCK_TEXTS, BiEncoder
from . import limits
from .access import Record
from .options import TimeoutMs
from .problems import Problem
from .rerank import Lenient
from .routes import ERRORS
from .schemas import Text, example
from .service import Service, respond, service_of

COMPUTING = ("/embed", "/v1/embeddings")
_SPECIAL_TOKENS = 2  # [CLS] text [SEP]
_TOKEN_IDS = 100_256  # ordinary tokens of cl100k_base

router = APIRouter(tags=["embeddings"], responses=ERRORS)

Token = Annotated[StrictInt, Field(ge=0, lt=_TOKEN_IDS)]
Tokens = Annotated[list[Token], Field(min_length=1, max_length=limits.EMBEDDING_TOKENS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=limits.EMBEDDING_INPUTS)]
TokenLists = Annotated[list[Tokens], Field(min_length=1, max_length=limits.EMBEDDING_INPUTS)]


class EmbeddingsRequest(Lenient):
    """Texts, or cl100k_base tokens of texts, as OpenAI's clients send them."""

    model_config = example({"model": "all-MiniLM-L6-v2", "input": ["Payouts abroad take two days."]})

    input: Text | Texts | Tokens | TokenLists
    model: StrictStr | None = Field(None, description="Any name: there is one model, which the answer names.")
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: StrictInt | None = Field(None, description="Where given, the model's own number.")
    timeout_ms: TimeoutMs | None = None


class Embedding(BaseModel):
    """The vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="Numbers, or base64 of little-endian 32-bit floats.")


class EmbeddingsAnswer(BaseModel):
    """Vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: dict[str, int]


class TeiEmbedRequest(Lenient):
    """Texts, as clients of text-embeddings-inference send them."""

    model_config = example({"inputs": ["Payouts abroad take two days."], "truncate": True})

    inputs: Text | Texts
    normalize: StrictBool = Field(True, description="The model's vectors are unit vectors; false is refused.")
    truncate: StrictBool | None = Field(False, description="Read the beginning of long texts instead of refusing them.")
    truncation_direction: Literal["right", "Right", None] = None
    timeout_ms: TimeoutMs | None = None


class ModelRow(BaseModel):
    """A model that can be called."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "runoff"


class ModelsAnswer(BaseModel):
    """The models that can be called."""

    object: Literal["list"] = "list"
    data: list[ModelRow]


@router.post("/v1/embeddings", response_model=EmbeddingsAnswer)
async def embeddings(body: EmbeddingsRequest, request: Request) -> Response:
    """Vectors of texts: OpenAI's API."""
    service = service_of(request)

    def call(ticket: Ticket, record: Record) -> Response:
        encoder = service.models.encoder
        if body.dimensions not in (None, encoder.dimensions):
            raise Problem(
                422,
                "dimensions",
                f"dimensions: this model gives {encoder.dimensions}; leave it out",
                field="dimensions",
            )
        vectors, count = _embed(service, encoder, _texts(service, body.input), ticket, record)
        shown = _base64(vectors) if body.encoding_format == "base64" else vectors.tolist()
        data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(shown)]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return respond({"object": "list", "data": data, "model": encoder.artifact.name, "usage": usage})

    return await service.compute(request, call, body.timeout_ms)


@router.post("/embed", response_model=list[list[float]])
async def embed(body: TeiEmbedRequest, request: Request) -> Response:
    """Vectors of texts: the API of text-embeddings-inference."""
    service = service_of(request)
    if not body.normalize:
        raise Problem(422, "normalize", "normalize: this model's vectors are always unit vectors", field="normalize")

    def call(ticket: Ticket, record: Record) -> Response:
        encoder = service.models.encoder
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        vectors, _ = _embed(service, encoder, texts, ticket, record, refuse_long=not body.truncate)
        return respond(vectors.tolist())

    return await service.compute(request, call, body.timeout_ms)


@router.get("/v1/models", response_model=ModelsAnswer)
async def models(request: Request) -> Response:
    """The models that run here: OpenAI's API."""
    names = [artifact.name for artifact in service_of(request).models.artifacts]
    return respond(ModelsAnswer(data=[ModelRow(id=name) for name in names]).model_dump())


def _texts(service: Service, given: str | Sequence[Any]) -> list[str]:
    """The inputs as texts; tokens become the text that they stand for."""
    if isinstance(given, str):
        return [given]
    if isinstance(given[0], int):
        given = [given]
    decode = service.models.counter.encoding.decode
    return [item if isinstance(item, str) else decode(item) for item in given]


def _embed(
    service: Service,
    encoder: BiEncoder,
    texts: Sequence[str],
    ticket: Ticket,
    record: Record,
    *,
    refuse_long: bool = False,
) -> tuple[NDArray[np.float32], int]:
    """Vectors, float32, shape [texts, dimensions], and the number of tokens read; with a checkpoint in every block.

    Raises:
        Problem: 413: a text is longer than the model reads, and that is to be refused.
    """
    began = time.perf_counter()
    tokens = encoder.tokenizer.encode_batch(texts)
    tokenized = time.perf_counter()
    most = encoder.artifact.max_length - _SPECIAL_TOKENS
    long = [position for position, ids in enumerate(tokens) if len(ids) > most]
    if long and refuse_long:
        field = f"inputs.{long[0]}"
        raise Problem(
            413,
            "text_too_long",
            f"{field}: {len(tokens[long[0]])} tokens; expected at most {most}, or truncate = true",
            field=field,
        )
    blocks = []
    for first in range(0, len(tokens), BLOCK_TEXTS):
        ticket.check()
        blocks.append(encoder.embed(tokens[first : first + BLOCK_TEXTS]))
    record.stages_ms |= {"tokenize": (tokenized - began) * 1e3, "embed": (time.perf_counter() - tokenized) * 1e3}
    record.facts |= {"texts": len(texts), "backend": encoder.backend}
    service.metrics.embedded.inc(len(texts))
    service.metrics.truncations.labels("text").inc(len(long))
    return np.concatenate(blocks), sum(min(len(ids), most) for ids in tokens)


def _base64(vectors: NDArray[np.float32]) -> list[str]:
    return [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in vectors]
