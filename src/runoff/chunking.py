"""Cuts documents into chunks: the title is one, the body falls at paragraph, then sentence, then word borders.

Sizes are in words. A word is what white space separates, but no more than ``WORD_CHARACTERS`` characters long: a longer
run counts as several and may be cut between them, so that text without spaces is bounded too. In scripts that are
written without spaces (Han, kana, Hangul, Thai and its neighbours) two characters count as a word, since each is about
a token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from .documents import Chunk, Document, Kind
from .errors import QueryError

WORD_CHARACTERS = 24

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_PIECE = re.compile(rf"[{_UNSPACED}]{{1,2}}[、。！？，」』）]{{0,3}}|[^\s{_UNSPACED}]{{1,{WORD_CHARACTERS}}}")
_PARAGRAPH_END = re.compile(r"\n\s*\n")
# The end of a sentence: a stop with closing marks, then white space and what can begin a sentence; or a CJK stop.
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+(?=[^\s\d,;:.)\]a-zà-öø-ÿ])|[。！？][”’」』）]*\s*|[।॥]\s+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|No|Fig|Inc|Ltd|Co|Corp|approx|dept|est)|\b[A-Z])\.\s+$"
)


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How bodies are cut.

    Attributes:
        size: most words in a chunk, at least 1.
        overlap: words that a chunk repeats from the end of the one before it; less than ``size``.

    Raises:
        QueryError: a setting is out of range.
    """

    size: int = 200
    overlap: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise QueryError(f"chunk size: got {self.size!r} words; expected a whole number of at least 1")
        if isinstance(self.overlap, bool) or not isinstance(self.overlap, int) or not 0 <= self.overlap < self.size:
            raise QueryError(
                f"chunk overlap: got {self.overlap!r} words; expected at least 0 and less than the size of {self.size}"
            )


DEFAULT = ChunkSettings()


def chunk(document: Document, settings: ChunkSettings = DEFAULT) -> list[Chunk]:
    """The chunks of a document in reading order, the headline first.

    Without overlap the chunks' slices cover title and body with only white space between them. A title longer than
    ``size`` words gives several headline chunks.
    """
    spans: list[tuple[Kind, str, int, int]] = [
        *(("headline", document.title, start, end) for start, end in _spans(document.title, settings)),
        *(("body", document.body, start, end) for start, end in _spans(document.body, settings)),
    ]
    return [
        Chunk(kind, position, text[start:end], start, end) for position, (kind, text, start, end) in enumerate(spans)
    ]


def _spans(text: str, settings: ChunkSettings) -> list[tuple[int, int]]:
    pieces = list(_pieces(text))
    if not pieces:
        return []
    ranks = _border_ranks(text, pieces)
    spans, first, last = [], 0, 0
    while True:
        last = _cut(ranks, first, last, settings.size)
        spans.append((pieces[first][0], pieces[last - 1][1]))
        if last == len(pieces):
            return spans
        first = max(first + 1, last - settings.overlap)


def _cut(ranks: bytearray, first: int, done: int, size: int) -> int:
    """Where the chunk from piece ``first`` ends: at the last of the best borders within ``size`` pieces.

    It ends after piece ``done``, where the chunk before it ended. Borders in its first half are passed over for lesser
    ones in the second, so that chunks do not become crumbs.
    """
    end = first + size
    if end >= len(ranks):
        return len(ranks)
    half = max(done, first + size // 2)
    for low, borders in ((half, (_PARAGRAPH, _SENTENCE)), (done, (_PARAGRAPH, _SENTENCE, _WORD))):
        for border in borders:
            place = ranks.rfind(border, low, end)
            if place >= 0:
                return place + 1
    return end


# What follows a piece: nothing (the run goes on), a space, the end of a sentence, the end of a paragraph.
_INSIDE, _WORD, _SENTENCE, _PARAGRAPH = range(4)


def _border_ranks(text: str, pieces: list[tuple[int, int]]) -> bytearray:
    """For each piece the rank of the border behind it."""
    ranks = bytearray(
        _INSIDE if end == following else _WORD
        for (_, end), (following, _) in zip(pieces, [*pieces[1:], (len(text) + 1, 0)], strict=True)
    )
    by_end = {end: position for position, (_, end) in enumerate(pieces)}
    for place in _sentence_ends(text):
        if place in by_end:
            ranks[by_end[place]] = _SENTENCE
    for match in _PARAGRAPH_END.finditer(text):
        if match.start() in by_end:
            ranks[by_end[match.start()]] = _PARAGRAPH
    return ranks


def _sentence_ends(text: str) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text, max(0, match.start() - 12), match.end()):
            yield match.start() + len(match[0].rstrip())


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each word; of the parts of an overlong one, which never begin with a combining mark."""
    first_end = 0
    for match in _PIECE.finditer(text):
        start, end = max(match.start(), first_end), match.end()
        while end < len(text) and _continues(text, end) and end - start < 2 * WORD_CHARACTERS:
            end += 1
        if start < end:
            yield start, end
        first_end = end


def _continues(text: str, place: int) -> bool:
    """Whether the character at ``place`` belongs to the one before it."""
    character = text[place]
    return character in "\u200d\ufe0f\ufe0e" or text[place - 1] == "\u200d" or unicodedata.combining(character) != 0
