"""The engine: a store and the stages, composed into ingest, search and prompt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import manifest, models, prompt, sources
from .backends import Scores
from .chunking import ChunkSettings
from .documents import Document
from .errors import DocumentError, SourceError, StoreMissingError
from .ingest import Counts, Ingestor, Progress
from .prompt import Prompt, PromptPassage
from .reranker import check_count, check_query, sigmoid
from .results import FirstStage, IngestReport, SearchHit, SearchResult, SourceReport, Timings
from .snapshot import Snapshot
from .stages import ModelStages, Stages, chunk_identity
from .store import Store

DEFAULT_STORE = ".runoff"
DEFAULT_TOP = 5
DEFAULT_CANDIDATES = 20
DEFAULT_MAX_TOKENS = 6000

SourceProgress = Callable[[str, int, int], None]


class Engine:
    """Two-stage retrieval over one store folder.

    Any number of threads may call ``search`` and ``prompt`` while one ingests. The folder is made by the first
    ingest; until then a search raises ``StoreMissingError``.

    Args:
        folder: the store folder, which need not exist yet.
        stages: the encoders and the token counter.
        chunking: how bodies are cut; None takes what the store was made with, else the defaults.
    """

    def __init__(self, folder: Path, stages: Stages, chunking: ChunkSettings | None = None) -> None:
        self.folder = folder
        self.stages = stages
        self._chunking = chunking
        self._store: Store | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] = DEFAULT_STORE,
        *,
        bi_encoder: str = models.DEFAULT_BI_ENCODER,
        cross_encoder: str = models.DEFAULT_CROSS_ENCODER,
        backend: str = "auto",
        threads: int | None = None,
        chunking: ChunkSettings | None = None,
    ) -> Engine:
        """An engine over the store at ``path`` with models by name or folder.

        An existing store is checked at once; the encoders load when they are first used.

        Raises:
            StoreError: the store at ``path`` is damaged, or was made with other models or settings.
            ModelError: a model is not installed or damaged.
        """
        stages = ModelStages(models.find(bi_encoder), models.find(cross_encoder), backend, threads)
        engine = cls(Path(path), stages, chunking)
        if engine.folder.is_file() or (engine.folder / manifest.NAME).exists():
            engine._open_store()
        return engine

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store's files. The engine opens them again when it is used again."""
        self._store = None

    @property
    def store(self) -> Store:
        """The store.

        Raises:
            StoreMissingError: nothing was ingested yet.
        """
        return self._store or self._open_store()

    def ingest(self, *source: str | os.PathLike[str], progress: SourceProgress | None = None) -> IngestReport:
        """Read feeds, files, folders or addresses and store what is new or changed.

        A source that fails is reported in the result and the others go on; ``report.failed`` names them.

        Args:
            source: RSS/Atom/RDF file or http(s) address, .txt, .md, .html or .jsonl file, or a folder of these.
            progress: called with the source, documents done and documents in all.

        Raises:
            StoreError: the store cannot be written, or was made with other models or settings.
        """
        started = time.perf_counter()
        reports = [report for name in source for report in self._ingest_source(os.fspath(name), progress)]
        return IngestReport(tuple(reports), time.perf_counter() - started)

    def add(self, documents: Iterable[Document]) -> SourceReport:
        """Store documents that the caller made.

        Raises:
            DocumentError: an item is not a ``Document``.
            StoreError: the store cannot be written.
        """
        checked = list(documents)
        for position, document in enumerate(checked):
            if not isinstance(document, Document):
                raise DocumentError(f"item {position}: got {type(document).__name__}; expected runoff.Document")
        return SourceReport("", **asdict(self._put(checked, None)))

    def delete(self, *document_id: str) -> int:
        """Remove documents by id; returns how many there were. Once it returns they stay removed.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.store.writer() as writer:
            removed = sum(writer.delete(key) for key in document_id)
            writer.commit()
        return removed

    def search(
        self,
        query: str,
        top_n: int = DEFAULT_TOP,
        candidates: int = DEFAULT_CANDIDATES,
        *,
        rerank: bool = True,
    ) -> SearchResult:
        """The chunks that answer a query best.

        Args:
            query: what is asked; at least one character that is not white space.
            top_n: number of hits wanted, at least 1; fewer when the store holds fewer.
            candidates: number of chunks that the first stage hands to the runoff, at least 1; raised to ``top_n``.
            rerank: False returns the first stage's own order.

        Raises:
            QueryError: a setting is out of range or the query is blank.
            StoreError: there is no store, or it is damaged.
        """
        check_query(query)
        check_count("top_n", top_n)
        check_count("candidates", candidates)
        generation = self.store.current()
        # Looked up before the clock starts: the first query loads the models, which is no part of its stages.
        tokenizer, encoder = self.stages.tokenizer, self.stages.encoder
        scorer = self.stages.scorer if rerank else None
        laps = _Laps()
        query_ids = tokenizer.encode(query)
        laps.end("tokenize")
        vector = encoder.encode([query])[0]
        laps.end("embed")
        rows, similarities = generation.index.search(vector, max(candidates, top_n))
        laps.end("retrieve")
        scores = scorer.score(query_ids, generation.snapshot.passages(rows)) if scorer else None
        laps.end("rerank")
        return SearchResult(
            query=query,
            backend=self.stages.backend,
            hits=tuple(_hits(generation.snapshot, rows, similarities, scores, top_n)),
            timings_ms=laps.timings(),
            query_truncated=scores is not None and scores.query_truncated,
            reranked=rerank,
            generation=generation.number,
        )

    def prompt(
        self,
        question: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        candidates: int = DEFAULT_CANDIDATES,
        rerank: bool = True,
    ) -> tuple[Prompt, SearchResult]:
        """A prompt with the best chunks that fit a token budget, and the search that chose them.

        Args:
            question: what is asked.
            max_tokens: upper bound on the prompt's tokens, the template's own included.
            candidates: number of chunks to choose from, at least 1.
            rerank: False keeps the first stage's order.

        Raises:
            BudgetError: the budget cannot hold the template with the question.
            QueryError, StoreError: as for ``search``.
        """
        check_count("candidates", candidates)
        result = self.search(question, candidates, candidates, rerank=rerank)
        passages = [PromptPassage(title=hit.title, url=hit.url, text=hit.text) for hit in result.hits]
        return prompt.build(question, passages, max_tokens=max_tokens, counter=self.stages.counter), result

    def _open_store(self) -> Store:
        store = Store.open(self.folder)
        store.require(self._identity())
        self._store = store
        return store

    def _identity(self) -> dict[str, Any]:
        if self._chunking is not None:
            return {**self.stages.identity, **chunk_identity(self._chunking)}
        return dict(self.stages.identity)

    def _writable_store(self) -> Store:
        try:
            return self.store
        except StoreMissingError:
            chunking = self._chunking or ChunkSettings()
            self._store = Store.create(self.folder, {**self.stages.identity, **chunk_identity(chunking)})
            return self._store

    def _put(self, documents: Sequence[Document], progress: Progress | None) -> Counts:
        store = self._writable_store()
        settings = ChunkSettings(store.identity["chunk_words"], store.identity["chunk_overlap"])
        ingestor = Ingestor(self.stages.encoder, self.stages.tokenizer, settings)
        with store.writer() as writer:
            return ingestor.store(writer, documents, progress)

    def _ingest_source(self, source: str, progress: SourceProgress | None) -> Iterator[SourceReport]:
        try:
            names = sources.expand(source)
        except SourceError as error:
            yield SourceReport(source, error=str(error))
            return
        for name in names:
            yield self._ingest_one(name, progress)

    def _ingest_one(self, source: str, progress: SourceProgress | None) -> SourceReport:
        try:
            loaded = sources.load(source)
        except (SourceError, DocumentError) as error:
            return SourceReport(source, error=str(error))
        advance = partial(progress, source) if progress is not None else None
        counts = self._put(loaded.documents, advance)
        return SourceReport(source, **asdict(counts), warnings=tuple(loaded.warnings))


class _Laps:
    """Measures consecutive stages."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def end(self, stage: str) -> None:
        now = time.perf_counter()
        self._laps[stage] = (now - self._last) * 1e3
        self._last = now

    def timings(self) -> Timings:
        return Timings(**self._laps, total=(time.perf_counter() - self._started) * 1e3)


def _hits(
    snapshot: Snapshot,
    rows: NDArray[np.int64],
    similarities: NDArray[np.float32],
    scores: Scores | None,
    top_n: int,
) -> Iterator[SearchHit]:
    """The best ``top_n`` of the candidates: by logit where there are logits, ties by chunk id."""
    order = np.arange(len(rows)) if scores is None else np.lexsort((snapshot.chunks["id"][rows], -scores.logits))
    for rank, i in enumerate(order[:top_n].tolist(), start=1):
        chunk = snapshot.chunk(int(rows[i]))
        document = snapshot.document(int(snapshot.chunks["document"][rows[i]]))
        similarity = float(similarities[i])
        logit = None if scores is None else float(scores.logits[i])
        yield SearchHit(
            rank=rank,
            chunk_id=chunk.id,
            document_id=chunk.document_id,
            kind=chunk.kind,
            title=document.title,
            url=document.url,
            text=chunk.text,
            logit=logit,
            score=similarity if logit is None else sigmoid(logit),
            first_stage=FirstStage(i + 1, similarity),
            truncated=scores is not None and bool(scores.truncated[i]),
        )
