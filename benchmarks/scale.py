"""What a store of ten thousand, a hundred thousand and a million chunks costs, and how fast it answers.

Texts are generated from the words of real collections; vectors are synthetic: clusters of unit vectors, since embedding
a million chunks would measure the encoder. Everything else is the store's own: writer, commits, files, indexes.

    python benchmarks/scale.py --collections DIR --work FOLDER --sizes 10000 100000 --json benchmarks/results/scale.json

Each step of each size runs in a process of its own, and its figures stay in the work folder, so that a run can be
continued: `--step NAME SIZE` runs one, and `--json` puts together those that are there.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import collection
import generated
import harness
from runoff import candidates, graph, index, where
from runoff.documents import Chunk, Document
from runoff.fusion import Ranked
from runoff.snapshot import Entry
from runoff.store import Generation, Store
from runoff.writer import Writer

NAMES = ("fiqa_test", "nq_passages", "scifact")
SIZES = (10_000, 100_000, 1_000_000)
DIMENSIONS = 384
CLUSTERS = 2_000
# Length of the noise beside a centre of length 1; neighbours then have a cosine of about 0.6, as real passages do.
SPREAD = 0.8
BLOCK = 2_048
CHUNKS_A_DOCUMENT = 4
CHANGE, CHANGES = 100, 20
ROUNDS, MOST_REPLACED = 20, 100_000
QUERIES = 200
TOP = 20
IDENTITY = {"dimensions": DIMENSIONS, "vectors": "synthetic"}


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True, help="folder of the labelled collections")
    options.add_argument("--work", type=Path, required=True, help="folder for stores and figures; 1,000,000 need 5 GB")
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--step", nargs=2, metavar=("STEP", "SIZE"), help=f"one of {', '.join(STEPS)}, and its size")
    options.add_argument("--only-kept", action="store_true", help="leave out what was not measured yet")
    chosen = options.parse_args()
    if chosen.step:
        step, size = chosen.step
        told = json.dumps(STEPS[step](chosen, int(size)))
        (chosen.work / f"figures-{size}-{step}.json").write_text(told)
        print(told)
        return
    results = {str(size): {step: _kept(chosen, step, size) for step in STEPS} for size in chosen.sizes}
    results = {size: {step: told for step, told in steps.items() if told} for size, steps in results.items()}
    settings = {"dimensions": DIMENSIONS, "clusters": CLUSTERS, "spread": SPREAD, "queries": QUERIES, "top": TOP}
    harness.finish("scale", results, settings, chosen.json)


def _kept(chosen: argparse.Namespace, step: str, size: int) -> Any:
    """The figures of a step, measured unless that was done before."""
    path = chosen.work / f"figures-{size}-{step}.json"
    if not path.exists():
        if chosen.only_kept or (step == "replaced" and size > MOST_REPLACED):
            return None
        chosen.work.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, *sys.argv, "--step", step, str(size)], check=True)
    return json.loads(path.read_text())


def ingest(chosen: argparse.Namespace, size: int) -> dict[str, float]:
    """Make the store, block by block, with one graph at the end, as an ingest does."""
    store = Store.create(chosen.work / f"store-{size}", IDENTITY)
    texts, vectors = _texts(chosen, size), Vectors(harness.SEED)
    started = time.perf_counter()
    with store.writer() as writer:
        for first in range(0, size, BLOCK):
            count = min(BLOCK, size - first)
            _put(writer, first, [next(texts) for _ in range(count)], vectors.draw(count))
            writer.commit(index=False)
        written = time.perf_counter()
        writer.commit()
    done = time.perf_counter()
    return {
        "tables and words, chunks/s": size / (written - started),
        "graph, chunks/s": size / max(done - written, 1e-9),
        "bytes": float(_bytes(store.folder)),
        "peak MB": _peak(),
    }


def change(chosen: argparse.Namespace, size: int) -> dict[str, float]:
    """Add a hundred chunks to the store, as a refresh does once they are embedded."""
    store = Store.open(chosen.work / f"store-{size}")
    snapshot = store.current().snapshot
    rows, first = len(snapshot.passages), CHUNKS_A_DOCUMENT * len(snapshot.documents)
    seed = harness.SEED + rows  # texts that no change before this one has brought
    added, vectors = list(_texts(chosen, CHANGES * CHANGE, seed)), Vectors(seed)
    times, worked, grown = [], [], []
    for number in range(CHANGES):
        drawn = vectors.draw(CHANGE)
        before, started, busy = _written(), time.perf_counter(), time.process_time()
        with store.writer() as writer:
            _put(writer, first + number * CHANGE, added[number * CHANGE :][:CHANGE], drawn)
            writer.commit()
        store.current()
        times.append((time.perf_counter() - started) * 1e3)
        worked.append((time.process_time() - busy) * 1e3)
        grown.append(float(_written() - before))
    new = len(store.current().snapshot.passages) - rows
    if new != CHANGES * CHANGE:
        raise SystemExit(f"{new} of {CHANGES * CHANGE} texts were new")
    return {
        "median ms": float(np.median(times)),
        "median processor ms": float(np.median(worked)),
        "first ms": times[0],
        "median bytes written": float(np.median(grown)),
        "most bytes written": max(grown),
    }


def replaced(chosen: argparse.Namespace, size: int) -> dict[str, Any]:
    """Replace a tenth of the chunks, twenty times, with the compactions that come by themselves; then recall.

    The recall after the last round and the lowest after any stand beside that of a graph made anew over the chunks that
    live at the end.
    """
    folder = chosen.work / f"replaced-{size}"
    if not folder.exists():
        shutil.copytree(chosen.work / f"store-{size}", folder)
    store, vectors, rng = Store.open(folder), Vectors(harness.SEED + 5), np.random.default_rng(harness.SEED)
    told: list[dict[str, Any]] = []
    queries = Vectors(harness.SEED + 2).draw(QUERIES)
    for number in range(ROUNDS):
        snapshot = store.current().snapshot
        live = np.flatnonzero(snapshot.document_alive)
        names = snapshot.documents["id"][rng.choice(live, len(live) // 10, replace=False)].tolist()
        keys = [int(name, 16) for name in names]
        texts = [f"Round {number} {' '.join(map(str, rng.integers(0, 5000, 12)))}" for _ in keys * CHUNKS_A_DOCUMENT]
        epoch = snapshot.manifest.epoch
        with store.writer() as writer:
            _put(writer, 0, texts, vectors.draw(len(texts)), keys)
            writer.commit()
        generation = store.current()
        manifest, snapshot = generation.snapshot.manifest, generation.snapshot
        told.append(
            {
                "live": snapshot.passage_count,
                "dead": len(snapshot.passages) - snapshot.passage_count,
                "graphs": len(manifest.graphs),
                "compacted": manifest.epoch - epoch,
                "recall@20": _recall(generation.dense, queries),
            }
        )
        print(number, told[-1], file=sys.stderr, flush=True)
    generation = store.current()
    rows = np.flatnonzero(generation.snapshot.alive)
    lives = generation.snapshot.vectors[rows]
    fresh = index.VectorIndex(lives, np.ones(len(lives), dtype=bool), [graph.build(lives, 0)])
    return {
        "method": generation.dense.method,
        "recall@20": _recall(generation.dense, queries),
        "lowest recall@20": min(one["recall@20"] for one in told),
        "recall@20 of a fresh build": _recall(fresh, queries),
        "compactions": sum(one["compacted"] for one in told),
        "rounds": told,
    }


def search(chosen: argparse.Namespace, size: int) -> dict[str, Any]:
    """Open the store, then ask."""
    started = time.perf_counter()
    store = Store.open(chosen.work / f"store-{size}")
    opened = time.perf_counter() - started
    generation = store.current()
    queries, vectors = _queries(chosen), Vectors(harness.SEED + 2).draw(QUERIES)
    masks = {
        "half": generation.chosen(where.parse("number >= 50")),
        "a hundredth": generation.chosen(where.parse("number = 7")),
    }
    allowed = {name: generation.snapshot.passages_of(mask) for name, mask in masks.items()}
    kinds: dict[str, Callable[[int], Any]] = {
        "dense": lambda i: generation.dense.search(vectors[i], TOP),
        "exact": lambda i: generation.dense.exact(vectors[i], TOP),
        "lexical": lambda i: generation.lexical.search(queries[i], TOP),
        "hybrid": lambda i: candidates.find(generation, queries[i], vectors[i], TOP),
        "dense, filter of a half": lambda i: generation.dense.search(vectors[i], TOP, allowed["half"]),
        "dense, filter of a hundredth": lambda i: generation.dense.search(vectors[i], TOP, allowed["a hundredth"]),
        "hybrid with a filter": lambda i: _filtered(generation, queries[i], vectors[i]),
    }
    found = {name: _timed(run) for name, run in kinds.items()}
    return {
        "open seconds": opened,
        "resident MB": _resident(),
        "method": generation.dense.method,
        "recall@20 of dense": _recall(generation.dense, vectors),
        **found,
    }


class Vectors:
    """Unit vectors around seeded centres; the centres are the same for every seed."""

    def __init__(self, seed: int) -> None:
        centres = np.random.default_rng(0).standard_normal((CLUSTERS, DIMENSIONS)).astype(np.float32)
        self._centres = centres / np.linalg.norm(centres, axis=1, keepdims=True)
        self._rng = np.random.default_rng(seed)

    def draw(self, count: int) -> np.ndarray:
        """float32, shape [count, dimensions]."""
        centres = self._centres[self._rng.integers(0, CLUSTERS, size=count)]
        noise = self._rng.standard_normal((count, DIMENSIONS)).astype(np.float32) / np.sqrt(DIMENSIONS)
        vectors = centres + np.float32(SPREAD) * noise
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _put(writer: Writer, first: int, texts: list[str], vectors: np.ndarray, keys: list[int] | None = None) -> None:
    """Stage documents of ``CHUNKS_A_DOCUMENT`` texts each, under the keys, or those from ``first`` on."""
    tokens = np.arange(100, dtype=np.uint16)
    starts = range(0, len(texts), CHUNKS_A_DOCUMENT)
    keys = [first + start for start in starts] if keys is None else keys
    places = {text: place for place, text in enumerate(texts)}
    writer.prepare(f"{key:016x}" for key in keys)
    fresh = writer.missing(texts)
    writer.add_passages(fresh, vectors[[places[text] for text in fresh]], [tokens] * len(fresh))
    for key, start in zip(keys, starts, strict=True):
        body = texts[start : start + CHUNKS_A_DOCUMENT]
        document = Document(f"{key:016x}", f"Document {key}", "", source="generated", fields={"number": key // 4 % 100})
        writer.put(Entry(document, [Chunk("body", place, text, 0, len(text)) for place, text in enumerate(body)]))


def _filtered(generation: Generation, query: str, vector: np.ndarray) -> Ranked:
    chosen = generation.chosen(where.parse("number >= 50"))
    allowed = generation.snapshot.passages_of(chosen)
    return candidates.find(generation, query, vector, TOP, allowed=allowed)


def _timed(run: Callable[[int], Any]) -> dict[str, float]:
    times = []
    for number in range(QUERIES):
        started = time.perf_counter()
        run(number)
        times.append((time.perf_counter() - started) * 1e3)
    return {"p50 ms": harness.percentile(times, 50), "p95 ms": harness.percentile(times, 95)}


def _recall(dense: index.VectorIndex, vectors: np.ndarray) -> float:
    shares = []
    for vector in vectors:
        found, exact = (method(vector, TOP)[0] for method in (dense.search, dense.exact))
        shares.append(len(np.intersect1d(found, exact)) / TOP)
    return float(np.mean(shares))


def _texts(chosen: argparse.Namespace, size: int, seed: int = harness.SEED) -> Iterator[str]:
    """Generated texts, each a line of a file in the work folder, since making them takes longer than storing them."""
    path = chosen.work / f"texts-{size}-{seed}.txt"
    if not path.exists():
        chosen.work.mkdir(parents=True, exist_ok=True)
        sources = [text for name in NAMES for text in collection.load(chosen.collections / name).documents.values()]
        new = path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in generated.texts(sources, size, seed))
        new.replace(path)
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from (line.removesuffix("\n") for line in file)


def _queries(chosen: argparse.Namespace) -> list[str]:
    """Eight words in a row of texts that were not stored."""
    rng = np.random.default_rng(harness.SEED)
    found = []
    for text in _texts(chosen, QUERIES, harness.SEED + 3):
        words = text.split()
        start = int(rng.integers(0, max(1, len(words) - 8)))
        found.append(" ".join(words[start : start + 8]))
    return found


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _written() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


STEPS: dict[str, Callable[[argparse.Namespace, int], dict[str, Any]]] = {
    "ingest": ingest,
    "search": search,
    "change": change,
    "replaced": replaced,
}
assert SIZES[0] > index.TAIL_ROWS


if __name__ == "__main__":
    main()
