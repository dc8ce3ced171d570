"""Documents, stages and a plain model of what a store must hold after each operation."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from runoff import index, lexical, sources, writer
from runoff.chunking import ChunkSettings, chunk
from runoff.documents import Document
from runoff.engine import Engine
from runoff.lexical import LexicalIndex
from runoff.snapshot import VECTOR
from runoff.store import Generation
from runoff.where import parse

DIMENSIONS = 16
CHUNKING = ChunkSettings(size=12)
WINDOW = 24
TOPICS = ("payout", "refund", "dispute", "webhook", "ledger")
FILTERS = ('"t1" in tags', "author = 'Ada 3' and kind = 'body'", "not 'refund' in tags or author < 'Ada 2'")


def shrink() -> None:
    """Make parts, graphs, merges and compactions happen in stores of a few hundred rows."""
    index.TAIL_ROWS, index.SCAN_ROWS = 48, 24
    writer.PART_ROWS, writer.COMPACT_ROWS = 64, 120


def vector_of(text: str) -> np.ndarray:
    """A unit vector that depends on all of a text: float32, shape [DIMENSIONS]."""
    rng = np.random.default_rng(list(hashlib.sha256(text.encode()).digest()))
    vector = rng.standard_normal(DIMENSIONS).astype(np.float32)
    return vector / np.linalg.norm(vector)


def tokens_of(text: str) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8).astype(np.int32)[: 3 + len(text) % 20] + 1000


class Encoder:
    """Vectors and word-piece ids by hashing, so that a child costs milliseconds and any text can be checked."""

    def encode(self, texts: Sequence[str], *, progress: Any = None) -> np.ndarray:
        return np.array([vector_of(text) for text in texts], dtype=np.float32).reshape(-1, DIMENSIONS)


class Tokenizer:
    def encode(self, text: str) -> np.ndarray:
        return tokens_of(text)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [tokens_of(text) for text in texts]


class Stages:
    """Stages of the two above, for an engine that never reranks."""

    encoder, tokenizer, scorer, counter = Encoder(), Tokenizer(), None, None
    backend = "torture"

    def __init__(self) -> None:
        self.identity = {
            "bi_encoder": "hash",
            "bi_encoder_digest": "0" * 64,
            "dimensions": DIMENSIONS,
            "pooling": "none",
            "max_length": 256,
            "passage_tokenizer": "1" * 64,
        }


def engine(folder: Path) -> Engine:
    return Engine(folder, Stages(), CHUNKING)  # type: ignore[arg-type]


def article(number: int, version: int) -> dict[str, Any]:
    """A record of a .jsonl source. Some paragraphs come again in other articles."""
    topic = TOPICS[number % len(TOPICS)]
    body = [
        f"The {topic} zq{number}x{version} was settled in round {version} of case {number}.",
        f"Every {topic} is told to its owner within a day, é漢.",
        f"Part two of {number} mentions {TOPICS[version % len(TOPICS)]} and zq{number}y{version} once more.",
    ]
    return {
        "id": f"n{number}",
        "title": f"Case {number} about a {topic}",
        "text": "\n\n".join(body),
        "url": f"https://a.example/{number}",
        "author": f"Ada {number % 7}",
        "tags": [f"t{number % 3}", topic],
        "number": number,
        "version": version,
    }


def document(number: int, version: int) -> Document:
    """A document that is added by hand, not by a source."""
    record = article(number, version)
    return Document(
        hashlib.sha256(record["id"].encode()).hexdigest()[:16],
        record["title"],
        record["text"],
        url=record["url"],
        author=record["author"],
        tags=tuple(record["tags"]),
        fields={"number": number, "version": version},
    )


@dataclass(frozen=True)
class Content:
    """What a store holds: its documents by id, ids that were removed by hand, and the digest of its source."""

    documents: dict[str, Document] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    source: str | None = None
    digest: str | None = None

    def stored(self, documents: Iterable[Document], *, by_hand: bool) -> Content:
        removed = self.removed - {one.id for one in documents} if by_hand else self.removed
        admitted = {one.id: one for one in documents if one.id not in removed}
        return replace(self, documents={**self.documents, **admitted}, removed=removed)

    def without(self, ids: Sequence[str]) -> Content:
        kept = {key: one for key, one in self.documents.items() if key not in ids}
        return replace(self, documents=kept, removed=self.removed | (self.documents.keys() & set(ids)))


@dataclass(frozen=True)
class Step:
    """One operation on a store, and what the store must hold once it is done."""

    name: str
    run: Callable[[Engine], Any]
    after: Content


class World:
    """Makes operations at random (from a seed), each for the content that the one before left."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.source = folder / "articles.jsonl"
        self._versions = dict.fromkeys(range(WINDOW), 1)
        self._next = 1_000

    def first(self) -> Step:
        """The first save of the source."""
        step = self.refresh(Content())
        return replace(step, name="first save", run=lambda engine: _whole(engine.ingest(self.source)))

    def refresh(self, before: Content) -> Step:
        """A source of which some articles were edited, some are new and some have left."""
        for number in self.rng.sample(sorted(self._versions), self.rng.randint(0, 4)):
            self._versions[number] += 1
        last = max(self._versions)
        self._versions.update((last + more, 1) for more in range(1, self.rng.randint(2, 8)))
        self._versions = dict(sorted(self._versions.items())[-WINDOW:])
        records = [article(*pair) for pair in self._versions.items()]
        self.source.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        digest = hashlib.sha256(self.source.read_bytes()).hexdigest()
        after = before.stored(sources.load(str(self.source)).documents, by_hand=False)
        path = str(self.source)
        return Step("refresh", lambda engine: _whole(engine.refresh(path)), replace(after, source=path, digest=digest))

    def add(self, before: Content) -> Step:
        """New documents, and another version of one that is there."""
        numbers = (one.fields.get("number", 0) for one in before.documents.values())
        own = sorted(number for number in numbers if isinstance(number, int) and number >= 1_000)
        numbers = [self._next + more for more in range(self.rng.randint(1, 6))]
        self._next += len(numbers)
        added = [document(number, 1) for number in numbers]
        if own:
            added.append(document(self.rng.choice(own), self.rng.randint(2, 99)))
        return Step("add", lambda engine: engine.add(added), before.stored(added, by_hand=True))

    def delete(self, before: Content) -> Step:
        """Some of the documents removed, of whatever origin."""
        ids = sorted(before.documents)
        chosen = self.rng.sample(ids, min(len(ids), self.rng.randint(1, 2 + len(ids) // 8)))
        return Step("delete", lambda engine: engine.delete(*chosen), before.without(chosen))

    def compact(self, before: Content) -> Step:
        return Step("compact", lambda engine: engine.compact(), before)

    def any(self, before: Content) -> Step:
        names = ["refresh"] * 5 + ["add"] * 2 + ["delete"] * 3 + ["compact"] * 3
        step: Step = getattr(self, self.rng.choice(names) if before.documents else "refresh")(before)
        return step


def _whole(report: Any) -> None:
    assert not report.failed, report.failed


def agrees(generation: Generation, content: Content) -> None:
    """Every part of a generation holds just the content; raises AssertionError where one does not."""
    generation.check()
    snapshot = generation.snapshot
    entries = {entry.document.id: entry for entry in snapshot.entries()}
    assert {key: entry.document for key, entry in entries.items()} == content.documents, "documents differ"
    for entry in entries.values():
        assert entry.chunks == chunk(entry.document, CHUNKING), f"chunks of {entry.document.id} differ"
    ids = [one for entry in entries.values() for one in entry.ids or ()]
    assert len(set(ids)) == len(ids) == snapshot.chunk_count, "chunk ids repeat"
    assert not ids or max(ids) < snapshot.manifest.next_chunk_id, "chunk ids would be given again"
    rows = np.flatnonzero(snapshot.alive)
    texts = [snapshot.text(int(row)) for row in rows]
    wanted = {one.text for entry in entries.values() for one in entry.chunks}
    assert sorted(texts) == sorted(wanted), "passages differ"
    for row, text in zip(rows.tolist(), texts, strict=True):
        assert np.array_equal(snapshot.vectors[row], vector_of(text).astype(VECTOR)), f"vector of {text!r} differs"
        assert np.array_equal(snapshot.tokens(row), tokens_of(text)), f"tokens of {text!r} differ"
    _dense_agrees(generation, rows, texts)
    _lexical_agrees(generation, texts)
    for text in FILTERS if entries else ():
        condition = parse(text)
        chosen = generation.chosen(condition)
        found = {
            (snapshot.chunk(int(row)).document_id, snapshot.chunk(int(row)).kind) for row in np.flatnonzero(chosen)
        }
        expected = {
            (entry.document.id, one.kind)
            for entry in entries.values()
            for one in entry.chunks
            if condition.matches(entry.document, one.kind)
        }
        assert found == expected, f"{text}: chosen chunks differ"
    state = generation.state
    assert state.removed == content.removed, "removed ids differ"
    assert state.sources == ((content.source,) if content.source else ()), "sources differ"
    if content.source:
        assert state.files[content.source].digest == content.digest, "digest of the source differs"


def _dense_agrees(generation: Generation, rows: np.ndarray, texts: list[str]) -> None:
    dense = generation.dense
    found, _ = dense.search(vector_of("anything"), len(rows) + 50)
    assert sorted(found.tolist()) == rows.tolist(), "the dense index finds other passages"
    for place in range(0, len(rows), max(1, len(rows) // 5)):
        found, scores = dense.search(vector_of(texts[place]), 4)
        assert found[0] == rows[place], f"{texts[place]!r} is not nearest to itself"
        exact, expected = dense.exact(vector_of(texts[place]), 4)
        assert np.array_equal(found, exact), "the dense index and the scan differ"
        assert np.array_equal(scores, expected), "the dense index and the scan differ in scores"


def _lexical_agrees(generation: Generation, texts: list[str]) -> None:
    rebuilt = LexicalIndex([np.frombuffer(lexical.build(0, texts), np.uint8)], np.ones(len(texts), dtype=bool))
    snapshot = generation.snapshot
    for query in (*TOPICS, "case 3 zq3x1 mentions refund", "漢", "settled " + " ".join(texts[:1])):
        rows, scores = generation.lexical.search(query, len(texts) + 9)
        expected, wanted = rebuilt.search(query, len(texts) + 9)
        assert [snapshot.text(int(row)) for row in rows] == [texts[row] for row in expected], f"{query!r}: BM25 differs"
        assert np.array_equal(scores, wanted), f"{query!r}: scores differ from a rebuild"
