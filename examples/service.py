"""An answer service of one's own around the engine: STORE=.runoff uvicorn service:app"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query

from runoff import AsyncEngine, DeadlineError, OverloadedError


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncEngine.open(os.environ.get("STORE", ".runoff")) as app.state.engine:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/prompt")
async def prompt(question: Annotated[str, Query(min_length=1, max_length=1000)]) -> dict[str, object]:
    try:
        built, result = await app.state.engine.prompt(question, max_tokens=2000, timeout=5.0)
    except OverloadedError as error:
        raise HTTPException(429, "busy", {"Retry-After": str(round(error.retry_after) + 1)}) from error
    except DeadlineError as error:
        raise HTTPException(504, "took too long") from error
    return {"prompt": built.text, "sources": [result.hits[index].url for index in built.used]}
