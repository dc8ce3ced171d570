"""What an engine need not compute twice: query embeddings, exact logits of pairs, and whole results.

A result is kept under the generation that gave it, and every call looks for the newest generation first; so what was
deleted or edited cannot come from a cache. A pair is kept under the content of query and passage; so it survives a
refresh.

All keys are keyed BLAKE2b digests (RFC 7693) of 128 bits with a secret of this process: texts come from strangers, and
without the secret nobody can look for two that have one key.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .assembly import Passages
from .backends import Scores
from .conditions import Condition
from .deadlines import Deadline, Report
from .errors import QueryError
from .lru import LRU, CacheStats, allocated
from .reranker import EXACT
from .results import SearchResult, Timings
from .stages import ClockedScorer

if TYPE_CHECKING:
    from .searching import SearchSettings
    from .stages import Stages
    from .store import Generation

DEFAULT_BYTES = 64_000_000
# Shares of the bound. An embedding takes 1.7 kB, a pair 0.2, a result of five hits some 8.
EMBEDDINGS, PAIRS, RESULTS = 1 / 8, 1 / 2, 3 / 8

KEY_BYTES = 16
PAIR = np.dtype([("logit", "<f4"), ("truncated", "?"), ("query_truncated", "?")])
_UNKNOWN = np.array((np.nan, False, False), dtype=PAIR).tobytes()


@runtime_checkable
class Identified(Protocol):
    """Stages that say what their outputs depend on beside the input. Those of others are not cached."""

    def vector_identity(self) -> str:
        """What a text's vector depends on: model and what runs it."""
        ...

    def logit_identity(self) -> str:
        """What the exact logit of a pair depends on: model, its tokenizer and what runs it."""
        ...


@dataclass(frozen=True, slots=True)
class _KeptResult:
    result: SearchResult
    bytes: int


class Caches:
    """The three caches of one engine, or of several in one process. Thread-safe.

    Args:
        bound: most bytes for all three; 0 keeps nothing.

    Raises:
        QueryError: the bound is not a whole number of at least 0.
    """

    def __init__(self, bound: int = DEFAULT_BYTES) -> None:
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            raise QueryError(f"cache_bytes: got {bound!r}; expected a whole number of at least 0")
        self.bound = bound
        self._secret = secrets.token_bytes(32)
        self._embeddings: LRU[bytes] = LRU(int(bound * EMBEDDINGS), allocated)
        self._pairs: LRU[bytes] = LRU(int(bound * PAIRS), allocated)
        self._results: LRU[_KeptResult] = LRU(int(bound * RESULTS), lambda kept: allocated(kept) + kept.bytes)

    def stats(self) -> dict[str, CacheStats]:
        """Hits, misses, entries and bytes of ``embeddings``, ``pairs`` and ``results``."""
        return {
            "embeddings": self._embeddings.stats(),
            "pairs": self._pairs.stats(),
            "results": self._results.stats(),
        }

    def embedding(self, stages: Stages, query: str) -> NDArray[np.float32]:
        """A query's vector: float32, shape [dimensions], read-only where it was kept."""
        encoder, key = stages.encoder, None
        if self.bound and isinstance(stages, Identified):
            key = self._digest(stages.vector_identity().encode(), query.encode("utf-8", "surrogatepass"))
            (kept,) = self._embeddings.find([key])
            if kept is not None:
                return np.frombuffer(kept, dtype=np.float32)
        vector: NDArray[np.float32] = encoder.encode([query])[0]
        if key is not None:
            self._embeddings.keep([(key, vector.tobytes())])
        return vector

    def pairs(self, stages: Stages, query_ids: NDArray[np.int32], passages: Passages) -> CachedPairs:
        """The pairs of a query and some passages, to look for and to keep.

        Args:
            stages: whose scorer gives the logits.
            query_ids: int32: the query's word-piece ids.
            passages: rows of a token cache.
        """
        if not (self.bound and isinstance(stages, Identified)):
            return CachedPairs(self._pairs, None, passages)
        begun = self._begun(stages.logit_identity().encode(), passages.ids.dtype.str.encode(), query_ids.tobytes())
        flat, width = passages.ids.view(np.uint8).data, passages.ids.itemsize
        keys: list[bytes] = []
        for start, length in zip(passages.starts.tolist(), passages.lengths.tolist(), strict=True):
            digest = begun.copy()
            digest.update(flat[start * width : (start + length) * width])
            keys.append(digest.digest())
        return CachedPairs(self._pairs, keys, passages)

    def scores(
        self,
        stages: Stages,
        query_ids: NDArray[np.int32],
        passages: Passages,
        *,
        effort: str,
        top_n: int,
        offsets: NDArray[np.float32],
        deadline: Deadline | None = None,
    ) -> tuple[Scores, float | None]:
        """Logits of a query with each passage, and when a deadline planned them to be there.

        They are what ``CrossEncoder.score``, and with a deadline ``score_within``, give, where the arguments are
        explained. An exact logit is its pair's own, so only pairs that are not kept are scored. A fast search scores
        all, as who leaves early is decided among all, and final logits of it are kept.
        """
        pairs = self.pairs(stages, query_ids, passages)
        known = pairs.known() if effort == EXACT else None
        missing = np.arange(len(passages)) if known is None else np.flatnonzero(np.isnan(known.logits))
        if known is not None and len(passages) and not len(missing):
            return known, None
        scorer, rest, planned = stages.scorer, passages.take(missing), None
        wanted: dict[str, Any] = {"effort": effort, "top_n": top_n, "offsets": offsets[missing]}
        if deadline is not None and isinstance(scorer, ClockedScorer):
            timed = scorer.score_within(query_ids, rest, deadline, **wanted)
            fresh, planned = timed.scores, timed.planned_ms
        else:
            fresh = scorer.score(query_ids, rest, **wanted)
        pairs.keep(fresh, missing)
        return (fresh if known is None or len(missing) == len(passages) else _merged(known, fresh, missing)), planned

    def result_key(self, stages: Stages, generation: Generation, query: str, settings: SearchSettings) -> bytes | None:
        """The key of a whole result; None where it is not to be kept."""
        if not (self.bound and isinstance(stages, Identified)):
            return None
        models = (stages.vector_identity(), stages.logit_identity() if settings.rerank else None)
        # A deadline changes no result that is kept: only those are that had time enough.
        values = [getattr(settings, field.name) for field in fields(settings) if field.name != "deadline_ms"]
        texts = [str(value) if isinstance(value, Condition) else value for value in values]
        return self._digest(repr((generation.serial, models, query, texts)).encode())

    def result(self, key: bytes | None, settings: SearchSettings, began: float) -> SearchResult | None:
        """The result that was kept under a key, with the time since ``began`` (of ``time.perf_counter``) as its own."""
        (kept,) = self._results.find([key]) if key is not None else (None,)
        if kept is None:
            return None
        report = Report.now(settings.deadline_ms, began, None)
        times = Timings(0.0, 0.0, 0.0, 0.0, report.spent_ms)
        return replace(kept.result, timings_ms=times, cached=True, **asdict(report))

    def keep_result(self, key: bytes | None, result: SearchResult) -> None:
        """Keep a result that depends on nothing but what made its key: a deadline had no say in it."""
        if key is not None and (result.deadline_ms is None or result.complete):
            self._results.keep([(key, _KeptResult(result, held_bytes(result)))])

    def _digest(self, *parts: bytes) -> bytes:
        return self._begun(*parts).digest()

    def _begun(self, *parts: bytes) -> hashlib.blake2b:
        """A digest of parts, each behind its length, so that no two sequences of parts read alike."""
        digest = hashlib.blake2b(digest_size=KEY_BYTES, key=self._secret)
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest


class CachedPairs:
    """Pairs of one query, with what is known of them.

    Args:
        cache: where they are kept.
        keys: the key of each; None where nothing is to be kept.
        passages: the passages, in the order of the keys.
    """

    def __init__(self, cache: LRU[bytes], keys: list[bytes] | None, passages: Passages) -> None:
        self._cache = cache
        self._keys = keys
        self._spoken = passages.lengths > 0

    def known(self) -> Scores:
        """Exact logits and flags of the pairs that are kept; logits are NaN, and flags False, where one is not."""
        found = self._cache.find(self._keys) if self._keys is not None else [None] * len(self._spoken)
        records = np.frombuffer(b"".join(value or _UNKNOWN for value in found), dtype=PAIR)
        return Scores(records["logit"].copy(), records["truncated"].copy(), bool(records["query_truncated"].any()))

    def keep(self, scores: Scores, positions: NDArray[np.int64] | None = None) -> None:
        """Keep final logits. Those that were predicted are passed over, and passages without a token.

        Args:
            scores: of the pairs at ``positions``.
            positions: int64, shape [n]; None for all pairs.
        """
        if self._keys is None:
            return
        places = np.arange(len(self._keys)) if positions is None else positions
        final = self._spoken[places] & scores.whole
        records = np.empty(len(places), dtype=PAIR)
        records["logit"], records["truncated"] = scores.logits, scores.truncated
        records["query_truncated"] = scores.query_truncated
        self._cache.keep((self._keys[places[i]], records[i].tobytes()) for i in np.flatnonzero(final).tolist())


def held_bytes(value: object) -> int:
    """Bytes of a record and of all that it holds."""
    if is_dataclass(value):
        return allocated(value) + sum(held_bytes(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, tuple):
        return allocated(value) + sum(map(held_bytes, value))
    return allocated(value)


def _merged(known: Scores, fresh: Scores, positions: NDArray[np.int64]) -> Scores:
    logits, truncated = known.logits, known.truncated
    logits[positions], truncated[positions] = fresh.logits, fresh.truncated
    exits, reached, windowed = np.zeros(len(logits), np.int64), np.ones(len(logits), bool), np.zeros(len(logits), bool)
    for all_of_them, of_some in ((exits, fresh.exits), (reached, fresh.reached), (windowed, fresh.windowed)):
        if of_some is not None:
            all_of_them[positions] = of_some
    return Scores(logits, truncated, known.query_truncated or fresh.query_truncated, exits, reached, windowed)
