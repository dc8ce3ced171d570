"""Bodies of the service's own API, with the bounds and examples that the OpenAPI document shows."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from ..engine import DEFAULT_MAX_TOKENS
from ..prompt import Prompt
from ..results import SearchResult
from ..searching import DEFAULT_TOP
from . import limits
from .options import SearchOptions, Strict

QUESTION = "How do payouts to merchants in other countries work?"

Query = Annotated[StrictStr, Field(min_length=1, max_length=limits.QUERY_CHARACTERS)]
Text = Annotated[StrictStr, Field(max_length=limits.TEXT_CHARACTERS)]
Name = Annotated[StrictStr, Field(max_length=limits.NAME_CHARACTERS)]
FieldValue = (
    StrictBool
    | StrictInt
    | StrictFloat
    | Annotated[StrictStr, Field(max_length=limits.FIELD_CHARACTERS)]
    | Annotated[list[Name], Field(max_length=limits.TAGS)]
)
Url = Annotated[StrictStr, Field(min_length=1, max_length=limits.URL_CHARACTERS)]


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError:
        raise ValueError("expected base64") from None


Data = Annotated[bytes, BeforeValidator(_decoded), WithJsonSchema({"type": "string", "contentEncoding": "base64"})]


def example(value: dict[str, Any]) -> ConfigDict:
    """Settings of a model with an example of its body."""
    return ConfigDict(json_schema_extra={"examples": [value]})


class SearchRequest(SearchOptions):
    """What to search."""

    model_config = example({"query": QUESTION, "top_n": 3})

    query: Query
    top_n: Annotated[StrictInt, Field(ge=1, le=limits.TOP)] = DEFAULT_TOP


class PromptRequest(SearchOptions):
    """What to ask a language model."""

    model_config = example({"question": QUESTION, "max_tokens": 2000})

    question: Query
    max_tokens: Annotated[StrictInt, Field(ge=1, le=limits.PROMPT_TOKENS)] = DEFAULT_MAX_TOKENS


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """A prompt, and the search that chose its passages.

    ``prompt.used`` are indices into ``search.hits``.
    """

    prompt: Prompt
    search: SearchResult
    prompt_ms: float


class DocumentRecord(Strict):
    """A document: text or title, or both. One with the ``id`` (or else the url) of a stored one replaces it."""

    id: Annotated[StrictStr, Field(max_length=limits.URL_CHARACTERS)] | None = None
    title: Annotated[StrictStr, Field(max_length=limits.URL_CHARACTERS)] = ""
    text: Text = ""
    url: Url | None = None
    published: Name | None = Field(None, description="ISO 8601.")
    author: Name | None = None
    tags: Annotated[list[Name], Field(max_length=limits.TAGS, default_factory=list)]
    fields: Annotated[dict[Name, FieldValue], Field(max_length=limits.FIELDS, default_factory=dict)] = Field(
        description="What else is known, for conditions (`where`) to ask about."
    )


class IngestRequest(Strict):
    """Documents to store, and feeds to read where the operator allows that."""

    model_config = example(
        {
            "documents": [
                {
                    "id": "payouts-1",
                    "title": "Domestic payouts now run every hour",
                    "text": "Merchants with a bank account in the same country as their shop are paid every hour.",
                    "url": "https://blog.example/payouts",
                }
            ]
        }
    )

    documents: Annotated[list[DocumentRecord], Field(max_length=limits.INGEST_DOCUMENTS, default_factory=list)]
    urls: Annotated[list[Url], Field(max_length=limits.INGEST_ADDRESSES)] = Field(
        default_factory=list,
        description="Feeds on public addresses; refused unless the service was started with --allow-urls.",
    )


class TrialFile(Strict):
    """A file for a try-out."""

    name: Annotated[StrictStr, Field(min_length=1, max_length=limits.NAME_CHARACTERS)]
    data: Data


class TrialRequest(Strict):
    """Files to try: feeds, .txt, .md, .html or .jsonl. They are forgotten after a few later trials, or at the end."""

    model_config = example({"files": [{"name": "notes.txt", "data": "UGF5b3V0cyBhYnJvYWQgdGFrZSB0d28gZGF5cy4="}]})

    files: Annotated[list[TrialFile], Field(min_length=1, max_length=limits.TRIAL_FILES)]


class ErrorBody(BaseModel):
    """Details of an error."""

    message: str
    type: str
    param: str | None = Field(None, description="Field of the body or parameter that it is about.")
    code: str


class ErrorAnswer(BaseModel):
    """What every error looks like."""

    message: str
    error: ErrorBody


class Deleted(BaseModel):
    """A document is gone."""

    id: str
    deleted: bool = True
