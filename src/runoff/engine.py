"""The engine: a store and the stages, composed into ingest, search and prompt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import identity, manifest, models, prompt, refreshing, searching, sources
from .caching import DEFAULT_BYTES, Caches
from .candidates import DEFAULT_FUSION, Mode
from .chunking import ChunkSettings
from .conditions import Condition
from .deadlines import check_deadline
from .documents import Document, document_problem
from .errors import DocumentError, SourceError, StoreMissingError
from .fusion import Fusion
from .ingest import Ingestor
from .lru import CacheStats
from .prompt import Prompt, PromptPassage
from .ranking import DEFAULT_BLEND
from .reranker import EXACT, check_count, check_query
from .results import IngestReport, SearchResult, SourceReport
from .searching import DEFAULT_CANDIDATES, DEFAULT_TOP, SearchSettings, condition_of
from .sources import Loaded
from .stages import ModelStages, Stages, chunk_identity, index_identity
from .store import Store
from .writer import Writer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .searching import SearchOptions

DEFAULT_STORE = ".runoff"
DEFAULT_MAX_TOKENS = 6000

# Files of a folder are committed together up to about so many characters, a few seconds of embedding.
_BATCH_CHARACTERS = 500_000

SourceProgress = Callable[[str, int, int], None]


class Engine:
    """Two-stage retrieval over one store folder.

    Any number of threads may call ``search`` and ``prompt`` while one ingests. The folder is made by the first
    ingest; until then a search raises ``StoreMissingError``.

    Args:
        folder: the store folder, which need not exist yet.
        stages: the encoders and the token counter.
        chunking: how bodies are cut; None takes what the store was made with, else the defaults.
        caches: what need not be computed twice, which engines of one process may share; None makes them as large as
            ``open`` does. See docs/caches.md.
        target_ms: the deadline of queries that come without one, in milliseconds; None for no deadline.

    Raises:
        QueryError: ``target_ms`` is not above 0.
    """

    def __init__(
        self,
        folder: Path,
        stages: Stages,
        chunking: ChunkSettings | None = None,
        caches: Caches | None = None,
        *,
        target_ms: float | None = None,
    ) -> None:
        check_deadline("target_ms", target_ms)
        self.target_ms = target_ms
        self.folder = folder
        self.stages = stages
        self.caches = caches or Caches()
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
        target_ms: float | None = None,
        cache_bytes: int = DEFAULT_BYTES,
    ) -> Engine:
        """An engine over the store at ``path`` with models by name or folder.

        An existing store is checked at once; the encoders load when they are first used. ``cache_bytes`` bounds what is
        kept of answers and scores, so that a repeated query need not be computed again; 0 keeps nothing.

        Raises:
            QueryError: ``cache_bytes`` is not a whole number of at least 0.
            StoreError: the store at ``path`` is damaged, or was made with other models or settings.
            ModelError: a model is not installed or damaged.
        """
        stages = ModelStages(models.find(bi_encoder), models.find(cross_encoder), backend, threads)
        engine = cls(Path(path), stages, chunking, Caches(cache_bytes), target_ms=target_ms)
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

        Sources are remembered for ``refresh``. One that fails is reported in the result and the others go on;
        ``report.failed`` names them.

        Args:
            source: RSS/Atom/RDF file or http(s) address, .txt, .md, .html or .jsonl file, or a folder of these.
            progress: called with the source, documents done and documents in all.

        Raises:
            StoreError: the store cannot be written, or was made with other models or settings.
        """
        started = time.perf_counter()
        reports = [report for name in source for report in self._read_source(os.fspath(name), progress)]
        return IngestReport(tuple(reports), time.perf_counter() - started)

    def add(self, documents: Iterable[Document], *, ids: Mapping[str, Sequence[str]] | None = None) -> SourceReport:
        """Store documents that the caller made.

        Args:
            documents: of equal ids the last one counts.
            ids: for the id of a document all that it may have, where a feed gave them; see ``identity.Settled``.

        Raises:
            DocumentError: an item is not a ``Document``, or not as its attributes are described.
            StoreError: the store cannot be written.
        """
        checked = list(documents)
        for position, document in enumerate(checked):
            if not isinstance(document, Document):
                raise DocumentError(f"item {position}: got {type(document).__name__}; expected runoff.Document")
            if problem := document_problem(document):
                raise DocumentError(f"item {position}: {problem}")
        with self._ingestor() as (ingestor, writer):
            placed = refreshing.placed(writer, checked, ids or {})
            counts = ingestor.store(writer, placed)
            writer.bar(restored=[document.id for document in placed])
            writer.commit()
        return SourceReport("", **asdict(counts))

    def refresh(self, *source: str | os.PathLike[str], progress: SourceProgress | None = None) -> IngestReport:
        """Read again what changed in the sources that the store was fed from, or in the ones that are named.

        A server is asked for what changed since the last time, a file is compared by its bytes; only new or changed
        chunks are embedded, and a refresh that finds no change writes nothing. Entries that left a feed stay. What was
        removed by ``delete`` is not brought back, and an entry that another source brought is left to that one unless
        this source has a later version of it.

        Args:
            source: as for ``ingest``; a new one is remembered. Without any, all that are remembered.
            progress: called with the source, documents done and documents in all.

        Raises:
            StoreError: there is no store, or it cannot be written.
        """
        started = time.perf_counter()
        names = [os.fspath(name) for name in source] or list(self.store.current().state.sources)
        reports = [report for name in names for report in self._read_source(name, progress, refresh=True)]
        return IngestReport(tuple(reports), time.perf_counter() - started)

    def sources(self) -> tuple[str, ...]:
        """The sources that ``refresh`` reads: what ``ingest`` and ``refresh`` were given, paths made absolute."""
        return self.store.current().state.sources

    def forget(self, *source: str | os.PathLike[str]) -> int:
        """Refresh these sources no more; returns how many were remembered. Their documents stay.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.store.writer() as writer:
            known = sum(writer.forget(_remembered(os.fspath(name))) for name in source)
            writer.commit()
        return known

    def delete(self, *document_id: str) -> int:
        """Remove documents by id; returns how many there were.

        Once it returns they stay removed, and a refresh does not bring them back; naming their source to ``ingest``
        does, and so does ``add``.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.store.writer() as writer:
            removed = [key for key in document_id if writer.delete(key)]
            writer.bar(removed=removed)
            writer.commit()
        return len(removed)

    def compact(self) -> bool:
        """Rewrite the store without what was deleted or replaced, while readers go on; False when nothing is to do.

        The store does this by itself once more is dead than alive.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.store.writer() as writer:
            return writer.compact()

    def search(
        self,
        query: str,
        top_n: int = DEFAULT_TOP,
        candidates: int = DEFAULT_CANDIDATES,
        *,
        rerank: bool = True,
        mode: Mode = "hybrid",
        where: str | Condition | None = None,
        blend: float = DEFAULT_BLEND,
        effort: str = EXACT,
        deadline_ms: float | None = None,
        min_score: float | None = None,
        fusion: Fusion = DEFAULT_FUSION,
        arrived: float | None = None,
    ) -> SearchResult:
        """The chunks that answer a query best.

        The same search of the same generation is answered from memory, and says so; see docs/caches.md.

        Args:
            query: what is asked; at least one character that is not white space.
            top_n: number of hits wanted, at least 1; fewer when the store holds fewer.
            candidates: number of chunks that the first stage hands to the runoff, at least 1; raised to ``top_n``.
            rerank: False returns the first stage's own order.
            mode: the first stage's lists: ``"hybrid"``, ``"dense"`` (vectors) or ``"lexical"`` (BM25).
            where: only chunks that meet this condition; see docs/filters.md.
            blend: hits are ordered by logit + blend x cosine similarity; at least 0.
            effort: ``"exact"``, or ``"fast"``, which stops early at chunks that cannot be among the best any more; see
                docs/exits.md.
            deadline_ms: milliseconds in which the result is wanted; None takes the engine's ``target_ms``. What cannot
                be reranked in time keeps the first stage's order below the rest, and the result says what was done; see
                docs/deadlines.md.
            min_score: least probability of relevance, 0..1, of a hit; None returns ``top_n`` hits whatever they are
                worth. See docs/exits.md.
            fusion: how the lists of a hybrid search become one: ``Convex``, ``ReciprocalRank`` or ``Seats`` of
                ``runoff.fusion``; docs/decisions/fusion.md compares them.
            arrived: when the query came, by ``time.perf_counter``, where it has waited since; None is now.

        Raises:
            QueryError: a setting is out of range, the query is blank, the condition cannot be read, or the model has no
                calibration for ``min_score`` at this blend.
            StoreError: there is no store, or it is damaged.
        """
        began = time.perf_counter() if arrived is None else arrived
        check_query(query)
        target = self.target_ms if deadline_ms is None else deadline_ms
        settings = SearchSettings(
            top_n, candidates, rerank, mode, condition_of(where), blend, effort, target, min_score, fusion
        )
        generation = self.store.current()
        key = self.caches.result_key(self.stages, generation, query, settings)
        result = self.caches.result(key, settings, began)
        if result is None:
            result = searching.search(self.stages, generation, query, settings, self.caches, began)
            self.caches.keep_result(key, result)
        return result

    def prompt(
        self,
        question: str,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        candidates: int = DEFAULT_CANDIDATES,
        arrived: float | None = None,
        **options: Unpack[SearchOptions],
    ) -> tuple[Prompt, SearchResult]:
        """A prompt with the best chunks that fit a token budget, and the search that chose them.

        Args:
            question: what is asked.
            max_tokens: upper bound on the prompt's tokens, the template's own included.
            candidates: number of chunks to choose from, at least 1.
            arrived, options: as for ``search``.

        Raises:
            BudgetError: the budget cannot hold the template with the question.
            QueryError, StoreError: as for ``search``.
        """
        check_count("candidates", candidates)
        result = self.search(question, candidates, candidates, arrived=arrived, **options)
        passages = [PromptPassage(title=hit.title, url=hit.url, text=hit.text) for hit in result.hits]
        return prompt.build(question, passages, max_tokens=max_tokens, counter=self.stages.counter), result

    def cache_stats(self) -> dict[str, CacheStats]:
        """Hits, misses, entries and bytes of the caches ``embeddings``, ``pairs`` and ``results``."""
        return self.caches.stats()

    def _open_store(self) -> Store:
        self._store = Store.open(self.folder, identity=self._identity())
        return self._store

    def _identity(self) -> dict[str, Any]:
        chunking = chunk_identity(self._chunking) if self._chunking is not None else {}
        return {**self.stages.identity, **index_identity(), **chunking}

    def _writable_store(self) -> Store:
        try:
            return self.store
        except StoreMissingError:
            chunking = chunk_identity(self._chunking or ChunkSettings())
            self._store = Store.create(self.folder, {**self._identity(), **chunking})
            return self._store

    @contextmanager
    def _ingestor(self) -> Iterator[tuple[Ingestor, Writer]]:
        store = self._writable_store()
        settings = ChunkSettings(store.identity["chunk_words"], store.identity["chunk_overlap"])
        with store.writer() as writer:
            yield Ingestor(self.stages.encoder, self.stages.tokenizer, settings), writer

    def _read_source(
        self, source: str, progress: SourceProgress | None, *, refresh: bool = False
    ) -> Iterator[SourceReport]:
        try:
            names = sources.expand(source)
        except SourceError as error:
            yield SourceReport(source, error=str(error))
            return
        read: list[SourceReport | Loaded] = []
        size = 0
        for name in names:
            read.append(self._load(name, source, refresh))
            size += _characters(read[-1])
            if size >= _BATCH_CHARACTERS:
                yield from self._store_read(read, source, progress, refresh)
                read, size = [], 0
        yield from self._store_read(read, source, progress, refresh)

    def _load(self, name: str, source: str, refresh: bool) -> SourceReport | Loaded:
        """What one file or address of a source holds, or its report where there is nothing to store."""
        known = self.store.current().state.files.get(_remembered(name)) if refresh else None
        try:
            loaded = sources.load(name, known=known)
        except (SourceError, DocumentError) as error:
            return SourceReport(name, error=str(error))
        if loaded.unchanged and _remembered(source) in self.sources():
            return SourceReport(name, not_modified=True)
        return loaded

    def _store_read(
        self, read: Sequence[SourceReport | Loaded], source: str, progress: SourceProgress | None, refresh: bool
    ) -> Iterator[SourceReport]:
        """Store what was read in one commit, since a folder of small files would be mostly waits for the disk."""
        if not any(isinstance(one, Loaded) for one in read):
            yield from (one for one in read if isinstance(one, SourceReport))
            return
        with self._ingestor() as (ingestor, writer):
            reports = [
                one if isinstance(one, SourceReport) else _stage(ingestor, writer, one, source, progress, refresh)
                for one in read
            ]
            if writer.staged or not refresh:
                writer.commit()
        yield from reports


def _stage(
    ingestor: Ingestor, writer: Writer, loaded: Loaded, source: str, progress: SourceProgress | None, refresh: bool
) -> SourceReport:
    """Stage what is new or changed of one file or address, and how it is now."""
    name, key = loaded.source, _remembered(loaded.source)
    documents = refreshing.placed(writer, loaded.documents, loaded.ids)
    if refresh:
        documents = refreshing.admitted(writer, documents)
        # A feed that only says when it was built has changed its bytes and none of its entries.
        if key in writer.state.files and all(map(writer.unchanged, documents)):
            return SourceReport(name, unchanged=len(documents), warnings=loaded.warnings)
    advance = partial(progress, name) if progress is not None else None
    counts = ingestor.store(writer, documents, advance)
    writer.remember(key, loaded.state, source=_remembered(source))
    writer.bar(restored=[] if refresh else [document.id for document in documents])
    return SourceReport(name, **asdict(counts), warnings=loaded.warnings)


def _characters(read: SourceReport | Loaded) -> int:
    documents = read.documents if isinstance(read, Loaded) else ()
    return sum(len(document.title) + len(document.body) for document in documents)


def _remembered(source: str) -> str:
    """The name under which a source is remembered: one that means the same from every folder."""
    return source if identity.is_web(source) else os.path.abspath(source)  # noqa: PTH100 # links are not resolved
