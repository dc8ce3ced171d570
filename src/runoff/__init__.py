"""Two-stage retrieval for RAG on plain CPUs: vector search narrows, a cross-encoder decides."""

from ._version import __version__
from .asynchronous import AsyncEngine
from .chunking import ChunkSettings
from .conditions import Condition
from .documents import Chunk, Document
from .encoder import BiEncoder
from .engine import Engine
from .errors import (
    ArtifactDamagedError,
    BackendError,
    BudgetError,
    DeadlineError,
    DocumentError,
    EvaluationError,
    ExportError,
    FetchError,
    FilterError,
    ModelError,
    OverloadedError,
    QueryError,
    RunoffError,
    SourceError,
    StoreDamagedError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
    StoreMissingError,
)
from .evaluate import evaluate
from .fields import field
from .prompt import Prompt
from .reranker import Hit, Reranker
from .results import FirstStage, IngestReport, SearchHit, SearchResult, SourceReport, Timings

__all__ = [
    "ArtifactDamagedError",
    "AsyncEngine",
    "BackendError",
    "BiEncoder",
    "BudgetError",
    "Chunk",
    "ChunkSettings",
    "Condition",
    "DeadlineError",
    "Document",
    "DocumentError",
    "Engine",
    "EvaluationError",
    "ExportError",
    "FetchError",
    "FilterError",
    "FirstStage",
    "Hit",
    "IngestReport",
    "ModelError",
    "OverloadedError",
    "Prompt",
    "QueryError",
    "Reranker",
    "RunoffError",
    "SearchHit",
    "SearchResult",
    "SourceError",
    "SourceReport",
    "StoreDamagedError",
    "StoreError",
    "StoreLockedError",
    "StoreMismatchError",
    "StoreMissingError",
    "Timings",
    "__version__",
    "evaluate",
    "field",
]
