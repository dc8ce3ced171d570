"""Stores for a try-out: a person drops files on the page, searches them, and they are forgotten."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..sources import READERS
from .problems import Problem

ID_PATTERN = "^[0-9a-f]{32}$"
_KEPT = 8
_NAME_CHARACTERS = 80
_GZIP = b"\x1f\x8b"  # which may unpack to far more than a body may hold


class Trials:
    """Folders of the newest few try-outs; an id that nobody can guess is all that is needed to search one.

    Args:
        folder: where they are; processes may share it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def create(self, files: Sequence[tuple[str, bytes]]) -> str:
        """Write named files into a new trial and return its id; beyond the newest few, old ones are dropped.

        Raises:
            Problem: 422: a file is of a kind that cannot be read, or compressed.
        """
        names = [_safe_name(name, position) for position, (name, _) in enumerate(files)]
        for position, (_, data) in enumerate(files):
            if data.startswith(_GZIP):
                field = f"files.{position}.data"
                raise Problem(422, "file_kind", f"{field}: compressed; expected the file as it is", field=field)
        trial = secrets.token_hex(16)
        for position, (name, (_, data)) in enumerate(zip(names, files, strict=True)):
            place = self.files(trial) / f"{position:02}"
            place.mkdir(parents=True)
            (place / name).write_bytes(data)
        kept = sorted((path.stat().st_mtime, path) for path in self._folder.iterdir())
        for _, path in kept[:-_KEPT]:
            shutil.rmtree(path, ignore_errors=True)
        return trial

    def files(self, trial: str) -> Path:
        """Folder of a trial's files."""
        return self._folder / trial / "files"

    def store(self, trial: str) -> Path:
        """Folder of a trial's store.

        Raises:
            Problem: 404: there is no such trial, or no more.
        """
        if not re.match(ID_PATTERN, trial) or not (self._folder / trial).is_dir():
            raise Problem(404, "trial_unknown", "trial: no such trial, or no more; drop the files again", field="trial")
        return self._folder / trial / "store"


def _safe_name(name: str, position: int) -> str:
    """A file name that is no path, with the ending that says how to read it.

    Raises:
        Problem: 422: nothing here reads files of that ending.
    """
    stem, _, ending = name.replace("\\", "/").rpartition("/")[2].rpartition(".")
    suffix = f".{ending.lower()}"
    if suffix not in READERS:
        raise Problem(
            422,
            "file_kind",
            f"files.{position}.name: got a name ending in {suffix[:20]!r}; expected one of {', '.join(READERS)}",
            field=f"files.{position}.name",
        )
    return (re.sub(r"[^\w -]", "_", stem)[:_NAME_CHARACTERS].strip() or "file") + suffix
