"""Lexical indexes behind one face: what `benchmarks/lexical.py` compares. Each keeps its files in a folder of its own.

A change is durable and seen by the next search when `add` or `delete` returns. Rows are numbered in order of arrival.
Every contender is given the same texts and the same queries without stop words, uses k1 = 1.2 and b = 0.75, folds
accents and stems English in its own way, and runs on one thread.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from runoff import lexical

Ranking = list[tuple[int, float]]

_PIECE = 100_000


class Contender(Protocol):
    """A lexical index in a folder."""

    def __init__(self, folder: Path) -> None: ...
    def build(self, texts: Iterable[str]) -> None:
        """Make the index."""

    def open(self) -> None:
        """Make an index on disk ready to search."""

    def search(self, query: str, k: int) -> Ranking:
        """Rows and scores, best first."""

    def add(self, texts: Sequence[str]) -> None:
        """Append rows."""

    def delete(self, rows: Sequence[int]) -> None:
        """Take rows out."""

    def count(self) -> int:
        """How many live rows there are."""


class Runoff:
    """`runoff.lexical`: segments and a mask of live rows, each a file. The store adds a manifest, which is not here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def build(self, texts: Iterable[str]) -> None:
        rest, parts, rows = iter(texts), [], 0
        while piece := list(islice(rest, _PIECE)):
            parts.append(np.frombuffer(lexical.build(rows, piece), np.uint8))
            rows += len(piece)
        self._write("0.bm25", parts[0].tobytes() if len(parts) == 1 else lexical.merge(parts))
        self._write("alive", np.ones(rows, bool).tobytes())

    def open(self) -> None:
        paths = sorted(self.folder.glob("*.bm25"), key=lambda path: int(path.stem))
        self.segments = [np.memmap(path, np.uint8, "r") for path in paths]
        self._show(np.fromfile(self.folder / "alive", bool))

    def search(self, query: str, k: int) -> Ranking:
        rows, scores = self.index.search(query, k)
        return list(zip(rows.tolist(), scores.tolist(), strict=True))

    def add(self, texts: Sequence[str]) -> None:
        first = len(self.index.alive)
        name = f"{len(self.segments)}.bm25"
        self._write(name, lexical.build(first, texts))
        self.segments.append(np.memmap(self.folder / name, np.uint8, "r"))
        self._show(np.concatenate([self.index.alive, np.ones(len(texts), bool)]))

    def delete(self, rows: Sequence[int]) -> None:
        alive = self.index.alive.copy()
        alive[list(rows)] = False
        self._write("alive", alive.tobytes())
        self._show(alive)

    def count(self) -> int:
        return int(self.index.alive.sum())

    def _show(self, alive: np.ndarray) -> None:
        self.index = lexical.LexicalIndex(self.segments, alive)

    def _write(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("wb") as file:
            file.write(data)
            os.fsync(file.fileno())


class Fts5:
    """SQLite's full-text table, with its text: this SQLite cannot delete from a table without (3.43 can)."""

    def __init__(self, folder: Path) -> None:
        self.database = sqlite3.connect(folder / "fts5.db")
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("PRAGMA cache_size = -262144")
        self.database.execute("PRAGMA mmap_size = 8000000000")

    def build(self, texts: Iterable[str]) -> None:
        tokenizer = "porter unicode61 remove_diacritics 2"
        with self.database:
            self.database.execute(f"CREATE VIRTUAL TABLE chunks USING fts5(text, tokenize = '{tokenizer}')")
            self.database.executemany("INSERT INTO chunks(rowid, text) VALUES (?, ?)", enumerate(texts))
        with self.database:
            self.database.execute("INSERT INTO chunks(chunks) VALUES ('optimize')")
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def open(self) -> None:
        self.rows = (self.database.execute("SELECT max(rowid) FROM chunks").fetchone()[0] or -1) + 1

    def search(self, query: str, k: int) -> Ranking:
        asked = " OR ".join(f'"{word}"' for word in query.split())
        found = "SELECT rowid, -rank FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?"
        return self.database.execute(found, (asked, k)).fetchall()

    def add(self, texts: Sequence[str]) -> None:
        with self.database:
            self.database.executemany("INSERT INTO chunks(rowid, text) VALUES (?, ?)", enumerate(texts, self.rows))
        self.rows += len(texts)

    def delete(self, rows: Sequence[int]) -> None:
        with self.database:
            self.database.executemany("DELETE FROM chunks WHERE rowid = ?", [(row,) for row in rows])

    def count(self) -> int:
        return int(self.database.execute("SELECT count(*) FROM chunks").fetchone()[0])


class Tantivy:
    """tantivy: segments under a commit point of its own; merges run in threads of its own."""

    def __init__(self, folder: Path) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", tokenizer_name="en_stem", index_option="freq")
        schema.add_integer_field("row", stored=True, indexed=True)
        self.tantivy = tantivy
        self.index = tantivy.Index(schema.build(), path=str(folder))
        self.rows = 0

    def build(self, texts: Iterable[str]) -> None:
        writer = self.index.writer(heap_size=256_000_000, num_threads=1)
        self._insert(writer, texts)
        writer.commit()
        writer.wait_merging_threads()

    def open(self) -> None:
        self.writer = self.index.writer(heap_size=64_000_000, num_threads=1)
        self.index.reload()
        self.searcher = self.index.searcher()
        self.rows = max(self.rows, self.searcher.num_docs)

    def search(self, query: str, k: int) -> Ranking:
        parsed = self.index.parse_query(
            query.replace(".", " "), ["text"]
        )  # 1.5 is a phrase, for which it lacks positions
        hits = self.searcher.search(parsed, k, count=False).hits
        return [(self.searcher.doc(address)["row"][0], score) for score, address in hits]

    def add(self, texts: Sequence[str]) -> None:
        self._insert(self.writer, texts)
        self._commit()

    def delete(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.writer.delete_documents_by_term("row", row)
        self._commit()

    def count(self) -> int:
        return int(self.searcher.num_docs)

    def _insert(self, writer: Any, texts: Iterable[str]) -> None:
        for text in texts:
            document = self.tantivy.Document()
            document.add_text("text", text)
            document.add_integer("row", self.rows)
            writer.add_document(document)
            self.rows += 1

    def _commit(self) -> None:
        self.writer.commit()
        self.index.reload()
        self.searcher = self.index.searcher()


class Bm25s:
    """bm25s on NumPy: a matrix of scores that are computed when it is built. Every change builds it anew."""

    def __init__(self, folder: Path) -> None:
        import bm25s
        import snowballstemmer

        self.bm25s, self.folder = bm25s, folder
        stemmer, self.stems = snowballstemmer.stemmer("porter"), {}
        self.stem_word = stemmer.stemWord

    def build(self, texts: Iterable[str]) -> None:
        self.texts: list[str | None] = list(texts)
        self._rebuild()

    def open(self) -> None:
        self.index = self.bm25s.BM25.load(self.folder / "bm25s", mmap=True)
        self.live = np.array(json.loads((self.folder / "live.json").read_text()))

    def search(self, query: str, k: int) -> Ranking:
        known = [token for token in self._tokens(query) if token in self.index.vocab_dict]
        if not known:
            return []
        rows, scores = self.index.retrieve([known], k=min(k, len(self.live)), show_progress=False)
        return [(int(row), float(score)) for row, score in zip(self.live[rows[0]], scores[0], strict=True) if score > 0]

    def add(self, texts: Sequence[str]) -> None:
        self.texts.extend(texts)
        self._rebuild()
        self.open()

    def delete(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.texts[row] = None
        self._rebuild()
        self.open()

    def count(self) -> int:
        return len(self.live)

    def _rebuild(self) -> None:
        live = [row for row, text in enumerate(self.texts) if text is not None]
        vocabulary: dict[str, int] = {}
        ids = [
            [vocabulary.setdefault(token, len(vocabulary)) for token in self._tokens(self.texts[row] or "")]
            for row in live
        ]
        index = self.bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        index.index((ids, vocabulary), show_progress=False)
        index.save(self.folder / "bm25s")
        (self.folder / "live.json").write_text(json.dumps(live))

    def _tokens(self, text: str) -> list[str]:
        return [self._stem(word) for word in _WORD.findall(text.lower())]

    def _stem(self, word: str) -> str:
        if word not in self.stems:
            self.stems[word] = self.stem_word(word)
        return self.stems[word]


_WORD = re.compile(r"\w+")

CONTENDERS: dict[str, type[Contender]] = {"runoff": Runoff, "fts5": Fts5, "tantivy": Tantivy, "bm25s": Bm25s}


def fresh(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
