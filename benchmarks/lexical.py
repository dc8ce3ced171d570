"""Which lexical index should the store have? SQLite FTS5, tantivy, bm25s and `runoff.lexical` over the same chunks.

Each step runs in a process of its own, on one thread, and leaves its figures in the work folder, so that a run can be
continued; --json collects them at the end. tantivy, bm25s and snowballstemmer are needed beside Runoff.

    build     the index from nothing: time, size on disk, peak memory
    search    open it, then the best 100 rows for queries of ten and of three words without stop words: time, memory
    change    add 100 chunks, delete 100: time until a search sees it and the disk has it
    deletes   whether rankings and scores after deletes are those of an index that never had the rows
    crash     kill -9 while chunks are added: what opens again
    quality   BM25 alone on the labelled collections (Runoff's analyser, with and without its parts)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import collection
import generated
import harness
import lexical_contenders
from lexical_contenders import CONTENDERS, Contender, fresh, size_of
from runoff import lexical, words

NAMES = ("fiqa_test", "nq_passages", "scifact")
MEASURED = ("build", "search", "change", "deletes", "crash", "quality")
SIZES = (100_000, 1_000_000)
K = 100
QUERIES = 40
BATCH = 100
CHANGES = 7
DELETES_OF = 5_000
CRASHES = 20
CRASH_OF = 5_000


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--collections", type=Path, required=True, help="folder of the three labelled collections")
    options.add_argument("--work", type=Path, required=True, help="folder for texts, indexes and figures; needs 10 GB")
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    options.add_argument("--steps", nargs="+", default=MEASURED, choices=MEASURED)
    options.add_argument("--step", nargs=3, help=argparse.SUPPRESS)  # a child: step, contender, size
    chosen = options.parse_args()
    if chosen.step:
        step, contender, size = chosen.step
        print(json.dumps(STEPS[step](chosen, contender, int(size))))
        return
    for step in chosen.steps:
        if step == "quality":
            _keep(chosen.work, "quality", lambda: _quality(chosen.collections))
            continue
        for size in chosen.sizes if step in ("build", "search", "change") else (0,):
            _texts(chosen, size or DELETES_OF)
            for contender in chosen.contenders:
                name = f"{contender}-{size}-{step}"
                _keep(
                    chosen.work, name, lambda step=step, contender=contender, size=size: _child(step, contender, size)
                )
    _finish(chosen)


def _keep(work: Path, name: str, measure: Callable[[], Any]) -> None:
    """Measure unless that was done before."""
    path = work / "figures" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        result = measure()
        path.write_text(json.dumps(result))
        print(name, json.dumps(result), file=sys.stderr, flush=True)


def _child(step: str, contender: str, size: int) -> Any:
    command = [sys.executable, *sys.argv, "--step", step, contender, str(size)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | threads)
    return json.loads(ran.stdout)


def _finish(chosen: argparse.Namespace) -> None:
    results: dict[str, Any] = {}
    for path in sorted((chosen.work / "figures").glob("*.json")):
        figures = json.loads(path.read_text())
        if path.stem == "quality":
            results["quality"] = figures
        else:
            contender, size, step = path.stem.split("-")
            results.setdefault(step, {}).setdefault(size, {})[contender] = figures
    versions = {name: metadata.version(name) for name in ("tantivy", "bm25s", "numpy")}
    settings = {"k": K, "queries": QUERIES, "batch": BATCH, "seed": harness.SEED, "versions": versions}
    settings["versions"]["sqlite"] = lexical_contenders.sqlite3.sqlite_version
    harness.finish("lexical", results, settings, chosen.json)


def _texts(chosen: argparse.Namespace, size: int) -> None:
    """Write the chunks, a line each."""
    path = _path(chosen, size)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    sources = [text for name in NAMES for text in collection.load(chosen.collections / name).documents.values()]
    partial = path.with_suffix(".part")
    with partial.open("w", encoding="utf-8") as file:
        file.writelines(text + "\n" for text in generated.texts(sources, size, harness.SEED))
    partial.rename(path)


def _path(chosen: argparse.Namespace, size: int) -> Path:
    return chosen.work / "texts" / f"{size}.txt"


def _read(chosen: argparse.Namespace, size: int) -> Iterator[str]:
    with _path(chosen, size).open(encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def _some(chosen: argparse.Namespace, size: int) -> list[str]:
    """Every hundredth chunk."""
    return [text for number, text in enumerate(_read(chosen, size)) if number % 100 == 0]


def _folder(chosen: argparse.Namespace, contender: str, size: int) -> Path:
    return chosen.work / "indexes" / f"{contender}-{size}"


def _build(chosen: argparse.Namespace, contender: str, size: int) -> dict[str, float]:
    folder = fresh(_folder(chosen, contender, size))
    index = CONTENDERS[contender](folder)
    started = time.perf_counter()
    index.build(_read(chosen, size))
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time(),
        "megabytes": size_of(folder) / 1e6,
        "peak_mb": _peak(),
    }


def _search(chosen: argparse.Namespace, contender: str, size: int) -> dict[str, Any]:
    asked = {count: generated.queries(_some(chosen, size), QUERIES, count, harness.SEED) for count in (3, 10)}
    before = _resident()
    index = CONTENDERS[contender](_folder(chosen, contender, size))
    opened = _both(index.open)
    figures: dict[str, Any] = {"open_ms": opened[0], "open_cpu_ms": opened[1]}
    for count, queries in asked.items():
        for query in queries:
            index.search(query, K)
        times, busy = zip(*(_both(lambda query=query: index.search(query, K)) for query in queries), strict=True)
        figures[f"{count} words"] = {
            **{f"p{part}_ms": harness.percentile(list(times), part) for part in (50, 95)},
            **{f"p{part}_cpu_ms": harness.percentile(list(busy), part) for part in (50, 95)},
        }
    figures["resident_mb"] = _resident() - before
    return figures


def _change(chosen: argparse.Namespace, contender: str, size: int) -> dict[str, Any]:
    if contender == "bm25s":
        return {}  # a build
    index = CONTENDERS[contender](_folder(chosen, contender, size))
    index.open()
    extra = _some(chosen, size)[: BATCH * CHANGES]
    grown = size_of(_folder(chosen, contender, size))
    adds = [_both(lambda at=at: index.add(extra[at : at + BATCH])) for at in range(0, BATCH * CHANGES, BATCH)]
    grown = size_of(_folder(chosen, contender, size)) - grown
    rows = np.random.default_rng(harness.SEED).choice(size, BATCH * CHANGES, replace=False).reshape(CHANGES, BATCH)
    deletes = [_both(lambda batch=batch: index.delete(batch.tolist())) for batch in rows]
    figures = {"added_kb": grown / CHANGES / 1e3}
    for name, times in (("add", adds), ("delete", deletes)):
        figures[f"{name}_ms"], figures[f"{name}_cpu_ms"] = np.median(np.array(times), axis=0).tolist()
    return figures


def _deletes(chosen: argparse.Namespace, contender: str, size: int) -> dict[str, Any]:
    """Three rows in ten deleted, against an index of the others."""
    texts = list(_read(chosen, DELETES_OF))
    gone = np.random.default_rng(harness.SEED).random(len(texts)) < 0.3
    deleted, rebuilt = (_index(chosen, f"{contender}-{name}", contender) for name in ("deleted", "rebuilt"))
    deleted.build(texts)
    deleted.open()
    deleted.delete(np.flatnonzero(gone).tolist())
    rebuilt.build([text for text, dead in zip(texts, gone, strict=True) if not dead])
    rebuilt.open()
    queries = generated.queries(texts, 100, 5, harness.SEED)
    live = np.flatnonzero(~gone)
    worst, same = 0.0, 0
    for query in queries:
        after, expected = deleted.search(query, K), rebuilt.search(query, K)
        same += [row for row, _ in after] == [int(live[row]) for row, _ in expected]
        pairs = zip(after, expected, strict=False)
        worst = max(worst, *(abs(ours / theirs - 1) for (_, ours), (_, theirs) in pairs))
    return {"queries": len(queries), "same_rankings": same, "largest_difference": worst}


def _crash(chosen: argparse.Namespace, contender: str, size: int) -> dict[str, Any]:
    """Kill a process that adds batches, at random moments; count what the files hold then."""
    if contender == "runoff":
        return {}  # one file that no manifest names yet; the store's own tests kill
    draw = random.Random(harness.SEED)
    outcome = {"kills": CRASHES, "all acknowledged": 0, "more than acknowledged": 0, "lost or damaged": 0}
    for _ in range(CRASHES):
        acknowledged = _killed(chosen, contender, draw.uniform(0.05, 1.0))
        try:
            index = CONTENDERS[contender](chosen.work / "indexes" / f"{contender}-crash")
            index.open()
            held, found = index.count(), len(index.search("bank", K))
        except Exception:
            held, found = -1, 0
        whole = found > 0 and (held - CRASH_OF) % BATCH == 0
        extra = held - CRASH_OF - acknowledged * BATCH
        outcome[
            "lost or damaged" if not whole or extra < 0 else "more than acknowledged" if extra else "all acknowledged"
        ] += 1
    return outcome


def _killed(chosen: argparse.Namespace, contender: str, seconds: float) -> int:
    """How many batches were acknowledged before the kill."""
    command = [sys.executable, *sys.argv[: sys.argv.index("--step")], "--step", "adds", contender, "0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    child.stdout.readline()  # built
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    lines = child.stdout.read().splitlines()
    child.wait()
    return len(lines)


def _adds(chosen: argparse.Namespace, contender: str, size: int) -> None:
    index = _index(chosen, f"{contender}-crash", contender)
    texts = list(_read(chosen, DELETES_OF))[:CRASH_OF]
    index.build(texts)
    index.open()
    while True:
        print("done", flush=True)
        index.add(texts[:BATCH])


def _index(chosen: argparse.Namespace, name: str, contender: str) -> Contender:
    return CONTENDERS[contender](fresh(chosen.work / "indexes" / name))


def _quality(folder: Path) -> dict[str, Any]:
    """Recall@20 and nDCG@10 of BM25 alone: as it is, and with one part of the analyser or one setting changed."""
    data = {name: collection.load(folder / name) for name in NAMES}
    stem, stops, settings = words.stem, words.STOP_WORDS, (lexical.K1, lexical.B)
    plain: Callable[[str], str] = str
    variants: dict[str, tuple[Callable[[str], str], frozenset[str], tuple[float, float]]] = {
        "as it is": (stem, stops, settings),
        "without stems": (plain, stops, settings),
        "stop words kept in queries": (stem, frozenset(), settings),
        **{f"k1 {k1}, b {b}": (stem, stops, (k1, b)) for k1, b in ((0.9, 0.4), (1.2, 0.6), (1.5, 0.75), (2.0, 0.75))},
    }
    results = {}
    for name, (stemmer, dropped, (k1, b)) in variants.items():
        words.stem = lexical.stem = stemmer
        words.STOP_WORDS, lexical.K1, lexical.B = dropped, k1, b
        results[name] = {key: _measures(entry) for key, entry in data.items()}
    return results


def _measures(data: collection.Collection) -> dict[str, float]:
    import ir_measures
    from ir_measures import R, nDCG

    ids = list(data.documents)
    segment = np.frombuffer(lexical.build(0, list(data.documents.values())), np.uint8)
    index = lexical.LexicalIndex([segment], np.ones(len(ids), bool))
    run = {}
    for query, text in data.queries.items():
        rows, scores = index.search(text, 20)
        run[query] = {ids[row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}
    found = ir_measures.calc_aggregate([R @ 20, nDCG @ 10], data.relevant, run)
    return {"recall@20": found[R @ 20], "nDCG@10": found[nDCG @ 10]}


def _both(run: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds by the clock, and of processor time in all threads, which other work on the machine moves less."""
    started, busy = time.perf_counter(), time.process_time()
    run()
    return (time.perf_counter() - started) * 1e3, (time.process_time() - busy) * 1e3


def _peak() -> float:
    """Megabytes of memory that this process ever had at once (getrusage would count what its parent had)."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1e3


def _resident() -> float:
    """Megabytes of memory in use, mapped files included."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


STEPS: dict[str, Callable[[argparse.Namespace, str, int], Any]] = {
    "build": _build,
    "search": _search,
    "change": _change,
    "deletes": _deletes,
    "crash": _crash,
    "adds": _adds,
}

if __name__ == "__main__":
    main()
