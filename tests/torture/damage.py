"""A store with bytes that are not as written: a typed error that names the file, or the right answer."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runoff import manifest
from runoff.candidates import MODES, find
from runoff.cli import app  # noqa: F401 # loaded once, not by each child
from runoff.cli import main as command
from runoff.errors import StoreError
from runoff.store import Generation, Store
from runoff.where import parse

from . import children
from .world import FILTERS, TOPICS, World, engine, shrink, vector_of

Files = Mapping[str, bytes]


def answers(generation: Generation) -> list[Any]:
    """What a generation answers to some queries in each mode, with and without filters, and what it remembers."""
    snapshot = generation.snapshot
    found: list[Any] = [generation.number, sorted(generation.state.removed), list(generation.state.files)]
    for query in (*TOPICS, "case 3 and its part two", "漢"):
        for condition in (None, *FILTERS):
            chosen = None if condition is None else snapshot.passages_of(generation.chosen(parse(condition)))
            for mode in MODES:
                ranked = find(generation, query, vector_of(query), 12, mode=mode, allowed=chosen)
                texts = [snapshot.text(int(row)) for row in ranked.rows]
                owners = [snapshot.chunk(snapshot.chunk_of(int(row))).document_id for row in ranked.rows]
                tokens = [snapshot.tokens(int(row)).tolist() for row in ranked.rows]
                found.append([texts, owners, tokens, ranked.scores.tolist(), ranked.similarities.tolist()])
    documents = [snapshot.document(int(row)).to_record() for row in np.flatnonzero(snapshot.document_alive)]
    return json.loads(json.dumps([*found, documents]))


def flips(folder: Path, count: int, seed: int) -> dict[str, int]:
    """One bit of one byte, in each kind of file in turn, is not as written."""

    def flip(rng: random.Random, name: str, data: bytes) -> bytes:
        place = rng.randrange(len(data))
        return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]

    return _damaged(folder, count, seed, flip)


def truncations(folder: Path, count: int, seed: int) -> dict[str, int]:
    """A file ends early, or is empty."""

    def cut(rng: random.Random, name: str, data: bytes) -> bytes:
        return data[: rng.choice([0, len(data) - 1, rng.randrange(len(data))])]

    return _damaged(folder, count, seed, cut)


def swaps(folder: Path, count: int, seed: int) -> dict[str, int]:
    """A file is that of another generation or kind. An old manifest gives its own generation, or an error."""
    history, recorded = _history(folder / "store", seed, every=True)
    rng, store = random.Random(seed), folder / "store"
    seen: Counter[str] = Counter()
    for number in range(count):
        name = _in_turn(history[-1], number)
        kind = name.split("-")[0]
        others = [data for files in history for other, data in files.items() if other.split("-")[0] == kind]
        if number % 3 == 2:
            others = list(history[-1].values())
        others = [data for data in others if data != history[-1][name]] or [b""]
        _put(store, {**history[-1], name: rng.choice(others)})
        outcome = _opened(store, recorded)
        seen[_outcome(outcome, store, name)] += 1
    return dict(sorted(seen.items()))


def verify(folder: Path, count: int, seed: int) -> dict[str, int]:
    """`runoff verify` exits with 0 for a sound store and with 1 for a damaged one, naming the file."""
    history, _ = _history(folder / "store", seed)
    rng, store = random.Random(seed), folder / "store"

    def job() -> None:
        sys.argv = ["runoff", "verify", "--store", str(store)]
        command()

    code, out, err = children.printed(job)
    assert (code, err) == (0, ""), (code, err)
    assert "ok" in out, out
    for number in range(count):
        name = _in_turn(history[-1], number)
        data = bytearray(history[-1][name])
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if name == manifest.NAME and json.loads(history[-1][name]) == _json(bytes(data)):
            continue
        _put(store, {**history[-1], name: bytes(data)})
        code, out, err = children.printed(job)
        assert (code, out) == (1, ""), (code, out, err)
        assert name in err, err
        assert err.count("\n") == 1, err
    return {"exit code 0": 1, "exit code 1": count}


def _damaged(
    folder: Path, count: int, seed: int, damage: Callable[[random.Random, str, bytes], bytes]
) -> dict[str, int]:
    history, recorded = _history(folder / "store", seed)
    rng, store, sound = random.Random(seed), folder / "store", history[-1]
    seen: Counter[str] = Counter()
    for number in range(count):
        name = _in_turn(sound, number)
        data = damage(rng, name, sound[name])
        (store / name).write_bytes(data)
        seen[_outcome(_opened(store, recorded[-1:]), store, name)] += 1
        (store / name).write_bytes(sound[name])
    assert _opened(store, recorded[-1:]) == "answered right"
    assert seen["a typed error"] >= 0.9 * count
    return dict(sorted(seen.items()))


def _in_turn(files: Files, number: int) -> str:
    """Each kind of file in turn, so that small ones are hit as often as large ones."""
    kinds = sorted({name.split("-")[0] for name in files})
    names = sorted(name for name in files if name.split("-")[0] == kinds[number % len(kinds)])
    return names[number // len(kinds) % len(names)]


def _history(store: Path, seed: int, *, every: bool = False) -> tuple[list[Files], list[Any]]:
    """The files of each generation of a store, with every kind in the last; and what that (or each) answered."""
    shrink()
    world = World(store.parent, seed)
    step, history, recorded = world.first(), list[Files](), list[Any]()
    while True:
        children.run(lambda step=step: step.run(engine(store)) and None)
        history.append({path.name: path.read_bytes() for path in sorted(store.iterdir()) if path.name != "lock"})
        complete = len(history) >= 12 and len({name.split("-")[0] for name in history[-1]}) == 13
        if complete or every:
            recorded.append(answers(Store.open(store).current()))
        if complete:
            return history, recorded
        step = world.any(step.after)


def _put(store: Path, files: Files) -> None:
    for name, data in files.items():
        (store / name).write_bytes(data)


def _opened(store: Path, recorded: list[Any]) -> str:
    """How opening and asking a store went, in a child: an error's text or that it answered as one that is recorded."""

    def job() -> str:
        try:
            found = answers(Store.open(store).current())
        except StoreError as error:
            return f"{type(error).__name__}: {error}"
        return "answered right" if found in recorded else "ANSWERED WRONG"

    return children.run(job)


def _outcome(told: str, store: Path, name: str) -> str:
    if told == "answered right":
        return told
    assert told.startswith("Store"), f"{name}: {told}"
    # With a manifest that is sound but another one's, the file that does not fit is one that it names.
    assert str(store) in told if name == manifest.NAME else name in told, f"{name} is not named: {told}"
    return "a typed error"


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
