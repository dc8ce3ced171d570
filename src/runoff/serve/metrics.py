"""What the service counts, in the format of Prometheus."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

if TYPE_CHECKING:
    from ..admission import Admission
    from ..lru import CacheStats
    from ..store import Generation

CONTENT_TYPE = CONTENT_TYPE_LATEST
DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The instruments of one service, in a registry of their own.

    Where several worker processes share a folder named by ``PROMETHEUS_MULTIPROC_DIR``, each of them tells the sums.
    """

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter(
            "runoff_requests", "Requests answered", ["route", "method", "status"], registry=registry
        )
        self.seconds = Histogram(
            "runoff_request_seconds", "Time to answer a request", ["route"], buckets=_SECONDS, registry=registry
        )
        self.stages = Histogram(
            "runoff_stage_seconds",
            "Time of each stage; wait is the time in the queue, cache that of an answer kept from before",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.refusals = Counter("runoff_refusals", "Requests refused before any work", ["reason"], registry=registry)
        self.abandoned = Counter("runoff_abandoned", "Requests whose client went away", registry=registry)
        self.scored = Counter("runoff_candidates_scored", "Candidates that got a logit, new or kept", registry=registry)
        self.embedded = Counter("runoff_texts_embedded", "Texts that got a vector on request", registry=registry)
        self.truncations = Counter(
            "runoff_truncations", "Texts longer than the model reads", ["what"], registry=registry
        )
        self.deadlines = Counter(
            "runoff_deadlines", "Queries with a deadline: met or missed", ["outcome"], registry=registry
        )
        self.token_cache = Counter(
            "runoff_token_cache",
            "Passages scored from cached word pieces (hit) or tokenised first (miss)",
            ["outcome"],
            registry=registry,
        )
        self.cache_hits = Counter("runoff_cache_hits", "Values found in a cache", ["cache"], registry=registry)
        self.cache_misses = Counter("runoff_cache_misses", "Values not found in it", ["cache"], registry=registry)
        self.cache_bytes = Gauge(
            "runoff_cache_bytes",
            "Memory that a cache's values take",
            ["cache"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.cache_entries = Gauge(
            "runoff_cache_entries", "Values in a cache", ["cache"], registry=registry, multiprocess_mode="livesum"
        )
        self._told: dict[str, tuple[int, int]] = {}
        self._guard = threading.Lock()
        self.running = Gauge("runoff_running", "Calls that compute", registry=registry, multiprocess_mode="livesum")
        self.queue = Gauge("runoff_queue_depth", "Calls that wait", registry=registry, multiprocess_mode="livesum")
        self.generation = Gauge(
            "runoff_store_generation", "Generation of the store in use", registry=registry, multiprocess_mode="livemax"
        )
        self.documents = Gauge(
            "runoff_store_documents", "Documents in the store", registry=registry, multiprocess_mode="livemostrecent"
        )
        self.chunks = Gauge(
            "runoff_store_chunks", "Chunks in the store", registry=registry, multiprocess_mode="livemostrecent"
        )

    def spent(self, stages_ms: Mapping[str, float]) -> None:
        """Record the milliseconds of some stages."""
        for stage, milliseconds in stages_ms.items():
            self.stages.labels(stage).observe(milliseconds / 1e3)

    def deadline(self, met: bool | None) -> None:
        """Count a query's deadline, where it had one."""
        if met is not None:
            self.deadlines.labels("met" if met else "missed").inc()

    def load(self, admission: Admission) -> None:
        """Record what runs and waits now."""
        self.running.set(admission.running)
        self.queue.set(admission.waiting)

    def store(self, generation: Generation) -> None:
        """Record what the store holds now."""
        self.generation.set(generation.number)
        self.documents.set(generation.snapshot.document_count)
        self.chunks.set(generation.snapshot.chunk_count)

    def caches(self, stats: Mapping[str, CacheStats]) -> None:
        """Record what the caches hold now, and what they were asked for since the last time."""
        with self._guard:
            for name, now in stats.items():
                hits, misses = self._told.get(name, (0, 0))
                self.cache_hits.labels(name).inc(max(0, now.hits - hits))
                self.cache_misses.labels(name).inc(max(0, now.misses - misses))
                self.cache_bytes.labels(name).set(now.bytes)
                self.cache_entries.labels(name).set(now.entries)
                self._told[name] = (max(hits, now.hits), max(misses, now.misses))

    def exposition(self) -> bytes:
        """All of it as Prometheus reads it."""
        if os.environ.get(DIRECTORY_VARIABLE):
            shared = CollectorRegistry()
            MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
            return generate_latest(shared)
        return generate_latest(self.registry)
