"""Candidate passes on disk, a line each as soon as it is made, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import EvaluationError
from .candidates import Candidate, Pass

FORMAT = 1


class PassFile:
    """Passes by question id, on disk and in memory.

    Args:
        path: a JSON Lines file; its folder must exist.
        identity: what the passes depend on. A file with another one is refused.

    Raises:
        EvaluationError: the file is another run's or was damaged.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        self._path = path
        self.found: dict[str, Pass] = {}
        lines = list(self._whole_lines()) if path.exists() else []
        if lines:
            self._require(lines[0], identity)
            self.found.update(map(self._read, lines[1:]))
        kept = "".join(f"{line}\n" for line in lines) or _dump({"format": FORMAT, "identity": identity})
        path.write_text(kept, encoding="utf-8")

    def add(self, question: str, found: Pass) -> None:
        """Keep the pass of a question id."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_dump({"question": question, **asdict(found)}))
        self.found[question] = found

    def _whole_lines(self) -> Iterator[str]:
        """The file's lines without the last one where that was cut short."""
        for line in self._path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield line[:-1]

    def _require(self, line: str, identity: Mapping[str, Any]) -> None:
        stored = self._object(line).get("identity")
        if not isinstance(stored, dict):
            raise EvaluationError(f"{self._path}: no candidate passes; choose another folder with --out")
        for key, value in identity.items():
            if stored.get(key) != value:
                raise EvaluationError(
                    f"{self._path}: made with {key} = {stored.get(key)!r}, asked to go on with {value!r}. Choose "
                    "another folder with --out, or remove this file."
                )

    def _read(self, line: str) -> tuple[str, Pass]:
        record = self._object(line)
        try:
            chunks = {int(key): Candidate(**value) for key, value in record["chunks"].items()}
            lists = {mode: tuple((int(k), float(s)) for k, s in rows) for mode, rows in record["lists"].items()}
            times = record["milliseconds"], record["timed"], record["rerank_ms"]
            return record["question"], Pass(chunks, lists, *times)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._damaged(error) from error

    def _object(self, line: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(line)
            record.keys()
        except (ValueError, AttributeError) as error:
            raise self._damaged(error) from error
        return record

    def _damaged(self, error: Exception) -> EvaluationError:
        return EvaluationError(f"{self._path}: a line is damaged ({error!r}); remove the file to start again")


def _dump(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
