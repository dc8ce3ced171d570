"""Installs a tiktoken vocabulary file as a model folder, with manifest and licence; needs no extra."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..artifact import FORMAT_VERSION, sha256
from ..errors import ExportError
from . import manifest

CL100K_BASE = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"


def install(file: Path, out: Path, *, licence_file: Path, source: str, revision: str) -> Path:
    """Make the folder ``out/cl100k_base`` from the original file and return it.

    Raises:
        ExportError: the file is not the original.
    """
    if (found := sha256(file)) != CL100K_BASE:
        raise ExportError(f"{file}: SHA-256 {found}, expected {CL100K_BASE}; the vocabulary is another or damaged")
    folder = out / "cl100k_base"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, folder / "cl100k_base.tiktoken")
    shutil.copyfile(licence_file, folder / manifest.LICENCE)
    about = {"format_version": FORMAT_VERSION, "name": "cl100k_base", "kind": "vocabulary"}
    manifest.write_fields(folder, {**about, "source": source, "revision": revision, "licence": "MIT"})
    return folder
