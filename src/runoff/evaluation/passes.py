"""Candidate passes on disk, a line each as soon as it is made, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import EvaluationError
from .candidates import Candidate, Pass

FORMAT = 2


class PassFile:
    """Passes by the question's text, on disk and in memory.

    Args:
        path: a JSON Lines file; its folder must exist.
        identity: what the passes depend on. A file with another one is refused.

    Raises:
        EvaluationError: the file is another run's or was damaged.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        require(path, identity)
        self._path = path
        self.found: dict[str, Pass] = {}
        whole = 0
        with path.open("ab+") as file:
            file.seek(0)
            for line in _whole_lines(file):
                if whole:
                    self.found.update([self._read(line)])
                whole += len(line)
            file.truncate(whole)  # a last line that was cut short
            if not whole:
                file.write(_dump({"format": FORMAT, "identity": identity}))

    def add(self, question: str, found: Pass) -> None:
        """Keep the pass of a question."""
        with self._path.open("ab") as file:
            file.write(_dump({"question": question, **asdict(found)}))
        self.found[question] = found

    def _read(self, line: bytes) -> tuple[str, Pass]:
        record = _object(self._path, line)
        try:
            chunks = {int(key): Candidate(**value) for key, value in record["chunks"].items()}
            lists = {mode: tuple((int(k), float(s)) for k, s in rows) for mode, rows in record["lists"].items()}
            times = record["milliseconds"], record["timed"], record["rerank_ms"]
            return record["question"], Pass(chunks, lists, *times)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(self._path, error) from error


def require(path: Path, identity: Mapping[str, Any]) -> None:
    """Refuse a file whose passes were made under another identity; one that is not there, or empty, is none.

    Args:
        path: a file of passes.
        identity: what is asked for; may be a part of the whole.

    Raises:
        EvaluationError: names what differs, or the file is damaged.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        line = next(_whole_lines(file), None)
    if line is None:
        return
    stored = _object(path, line).get("identity")
    if not isinstance(stored, dict):
        raise EvaluationError(f"{path}: no candidate passes; choose another folder with --out")
    for key, value in identity.items():
        if stored.get(key) != value:
            raise EvaluationError(
                f"{path}: made with {key} = {stored.get(key)!r}, asked to go on with {value!r}. Choose another folder "
                "with --out, or remove this file."
            )


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The file's lines without the last one where that was cut short."""
    return takewhile(lambda line: line.endswith(b"\n"), file)


def _object(path: Path, line: bytes) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(line)
        record.keys()
    except (ValueError, AttributeError) as error:
        raise _damaged(path, error) from error
    return record


def _damaged(path: Path, error: Exception) -> EvaluationError:
    return EvaluationError(f"{path}: a line is damaged ({error!r}); remove the file to start again")


def _dump(record: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(record, separators=(',', ':'))}\n".encode("ascii")
