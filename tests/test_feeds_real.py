"""Every file of the collection of real and odd feeds, where the machine has it, through to chunks."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest

from runoff import sources
from runoff.chunking import LONGEST_WORD, ChunkSettings, chunk, words
from runoff.documents import Document
from runoff.errors import SourceError

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "feeds"
NAMES = sorted(path.name for path in FOLDER.glob("*") if path.name != "MANIFEST.tsv") or ["none"]


def documents(name: str) -> tuple[Document, ...]:
    if name == "none":
        pytest.skip(f"no real feeds at {FOLDER}")
    with suppress(SourceError):  # which of them, another test knows
        return sources.load(str(FOLDER / name)).documents
    return ()


@pytest.mark.parametrize("name", NAMES)
def test_documents_are_plain_and_the_same_again(name: str) -> None:
    found = documents(name)
    assert documents(name) == found
    assert len({document.id for document in found}) == len(found)
    for document in found:
        for written in (document.title, document.body, document.author or "", *document.tags):
            controls = {character for character in written if unicodedata.category(character) in ("Cc", "Cs")}
            assert controls <= {"\n"}
            assert all(line == " ".join(line.split()) for line in written.split("\n\n"))
        assert "\n" not in document.title
        assert document.url is None or document.url.startswith("http")
        assert document.published is None or len(document.published) == len("2026-03-02T10:00:00Z")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("setting", [ChunkSettings(), ChunkSettings(40, 10)], ids=["200", "40, 10"])
def test_chunks_cover_the_text_within_bounds(name: str, setting: ChunkSettings) -> None:
    for document in documents(name):
        place = {"headline": 0, "body": 0}
        for piece in chunk(document, setting):
            text = document.title if piece.kind == "headline" else document.body
            assert piece.text == text[piece.start : piece.end] == piece.text.strip() != ""
            assert not text[place[piece.kind] : piece.start].strip()
            assert words(piece.text) <= setting.size
            assert len(piece.text) <= setting.size * (LONGEST_WORD + 2)
            place[piece.kind] = piece.end
        assert not document.title[place["headline"] :].strip()
        assert not document.body[place["body"] :].strip()
