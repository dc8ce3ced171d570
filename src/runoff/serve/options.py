"""What a search may be asked for: the one place that knows the engine's options by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from ..candidates import Mode
from ..ranking import DEFAULT_BLEND
from ..searching import DEFAULT_CANDIDATES
from . import limits, trials

DeadlineMs = Annotated[StrictFloat | StrictInt, Field(gt=0, le=limits.TIMEOUT_MS)]
TimeoutMs = Annotated[StrictInt, Field(ge=1, le=limits.TIMEOUT_MS)]


class Strict(BaseModel):
    """A body of our own APIs: a field that is not known is refused, so that a typo is not passed over."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SearchOptions(Strict):
    """How to search."""

    candidates: Annotated[StrictInt, Field(ge=1, le=limits.CANDIDATES)] = Field(
        DEFAULT_CANDIDATES, description="Chunks that the first stage hands to the runoff."
    )
    rerank: StrictBool = Field(True, description="False keeps the first stage's order.")
    mode: Mode = Field("hybrid", description="The first stage's lists: both, vectors alone, or words alone (BM25).")
    where: Annotated[StrictStr, Field(min_length=1, max_length=limits.QUERY_CHARACTERS)] | None = Field(
        None, description="Only chunks of documents that meet this condition, such as `published >= 2024-06`."
    )
    blend: Annotated[StrictFloat | StrictInt, Field(ge=0, le=limits.BLEND)] = Field(
        DEFAULT_BLEND, description="Weight of the cosine similarity beside the logit."
    )
    effort: Literal["exact", "fast"] = Field(
        "exact", description="`fast` stops early at chunks that cannot be among the best any more."
    )
    min_score: Annotated[StrictFloat | StrictInt, Field(ge=0, le=1)] | None = Field(
        None, description="Least probability of relevance of a hit."
    )
    backend: Literal["auto", "native", "onnxruntime"] | None = Field(
        None, description="What runs the encoders; by default what the service was started with."
    )
    trial: Annotated[StrictStr, Field(pattern=trials.ID_PATTERN)] | None = Field(
        None, description="Search this trial's documents instead of the store."
    )
    deadline_ms: DeadlineMs | None = Field(
        None,
        description="Time in which the answer is wanted; what cannot be reranked in it keeps the order it came in.",
    )
    timeout_ms: TimeoutMs | None = Field(None, description="Time after which the answer is of no use any more.")

    def engine_options(self) -> dict[str, Any]:
        """Keyword arguments that ``Engine.search`` and ``Engine.prompt`` share."""
        names = ("rerank", "mode", "where", "blend", "effort", "deadline_ms", "min_score")
        return {name: getattr(self, name) for name in names}
