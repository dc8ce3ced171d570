"""What a search may be asked for: the one place that knows the engine's options by name."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from ..engine import DEFAULT_CANDIDATES, Engine
from . import limits, trials
from .problems import Problem

_DEFAULTS: dict[str, Any] = {"rerank": True, "mode": "hybrid", "where": None, "blend": None}
SUPPORTED = tuple(name for name in _DEFAULTS if name in signature(Engine.search).parameters)

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
    mode: Literal["hybrid", "dense", "lexical"] = Field("hybrid", description="What finds candidates.")
    where: Annotated[StrictStr, Field(min_length=1, max_length=limits.QUERY_CHARACTERS)] | None = Field(
        None, description="Condition on the documents' metadata."
    )
    blend: Annotated[StrictFloat | StrictInt, Field(ge=0, le=1000)] | None = Field(
        None, description="Weight of the first stage's score beside the logit."
    )
    backend: Literal["auto", "native", "onnxruntime"] | None = Field(
        None, description="What runs the encoders; by default what the service was started with."
    )
    trial: Annotated[StrictStr, Field(pattern=trials.ID_PATTERN)] | None = Field(
        None, description="Search this trial's documents instead of the store."
    )
    timeout_ms: TimeoutMs | None = Field(None, description="Time after which the answer is of no use any more.")

    def engine_options(self) -> dict[str, Any]:
        """Arguments for ``Engine.search`` and ``Engine.prompt``.

        Raises:
            Problem: 422: an option is set that this release's engine does not have.
        """
        chosen = {name: getattr(self, name) for name in _DEFAULTS}
        for name in _DEFAULTS.keys() - set(SUPPORTED):
            if chosen.pop(name) != _DEFAULTS[name]:
                raise Problem(422, "option_unknown", f"{name}: this release does not have it; leave it out", field=name)
        return chosen
