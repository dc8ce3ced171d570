"""Cuts documents into chunks: the title is one, the body falls at paragraph, then sentence, then word borders.

Sizes are in words. A word is what white space separates; but a run of more than ``LONGEST_WORD`` characters (an
address, a hash, a line without spaces) counts as one word for each ``PART`` characters and may be cut between these, so
that no text escapes the bound. In scripts written without spaces (Han, kana, Thai and its neighbours; Hangul, whose
words are long) two characters count as a word, since each is about a word piece. A chunk of ``size`` words thus has at
most ``size * LONGEST_WORD`` characters, combining marks and white space apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from .documents import Chunk, Document, Kind
from .errors import QueryError

VERSION = 1  # of the rules below: with another one the same text gives other chunks
LONGEST_WORD = 24
PART = 6

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"[{_UNSPACED}]{{1,2}}[、。！？，；：」』）】》]{{0,3}}|[^\s{_UNSPACED}]+")
_PARAGRAPH_END = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*(?=\s)|[。！？][”’」』）]*|[।॥](?=\s)")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[“\"'’/-])(?:e\.g|i\.e|a\.k\.a|[ap]\.m|etc|vs|cf|al|Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|No|Nos|Fig|Eq|Sec|Vol|pp"
    r"|Inc|Ltd|Co|Corp|approx|dept|est|Jan|Feb|Mar|Apr|Aug|Sept|Oct|Nov|Dec)$|(?:^|[^\w])[A-Z]$"
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

    Without overlap the chunks' slices cover title and body with only white space between them; with overlap each slice
    begins ``overlap`` words before the end of the last one, or one word further on than that one began. A title longer
    than ``size`` words gives several headline chunks. The time grows with the length of the text.
    """
    spans: list[tuple[Kind, str, int, int]] = [
        *(("headline", document.title, start, end) for start, end in _spans(document.title, settings)),
        *(("body", document.body, start, end) for start, end in _spans(document.body, settings)),
    ]
    return [
        Chunk(kind, position, text[start:end], start, end) for position, (kind, text, start, end) in enumerate(spans)
    ]


def words(text: str) -> int:
    """How many words a text counts as."""
    return sum(1 for _ in _words(text))


def _spans(text: str, settings: ChunkSettings) -> list[tuple[int, int]]:
    parts = list(_words(text))
    if not parts:
        return []
    ranks = _border_ranks(text, parts)
    spans, first, last = [], 0, 0
    while True:
        last = _cut(ranks, first, last, settings.size)
        spans.append((parts[first][0], parts[last - 1][1]))
        if last == len(parts):
            return spans
        first = max(first + 1, last - settings.overlap)


def _cut(ranks: bytearray, first: int, done: int, size: int) -> int:
    """Where the chunk from word ``first`` ends: behind the last of the best borders within ``size`` words.

    It ends after word ``done``, where the chunk before it ended. Borders in its first half are passed over for lesser
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


# What follows a word: its own run, white space, the next sentence, the next paragraph.
_INSIDE, _WORD, _SENTENCE, _PARAGRAPH = range(4)


def _border_ranks(text: str, parts: list[tuple[int, int]]) -> bytearray:
    """For each word the rank of the border behind it."""
    starts = [start for start, _ in parts[1:]]
    ranks = bytearray(
        _INSIDE if end == start else _WORD for (_, end), start in zip(parts, [*starts, len(text) + 1], strict=True)
    )
    word_at = {end: number for number, (_, end) in enumerate(parts)}
    for rank, ends in ((_SENTENCE, _sentence_ends(text)), (_PARAGRAPH, _paragraph_ends(text))):
        for end in ends:
            if end in word_at:
                ranks[word_at[end]] = rank
    return ranks


def _paragraph_ends(text: str) -> Iterator[int]:
    return (match.start() for match in _PARAGRAPH_END.finditer(text))


def _sentence_ends(text: str) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text):
        following = text[match.end() : match.end() + 3].lstrip()[:1]
        if match[0][0] in ".!?…" and (following.islower() or following in (",", ";", ":", ")")):
            continue
        before = text[max(0, match.start() - 12) : match.start()]
        if match[0][0] != "." or not _ABBREVIATION.search(before):
            yield match.end()


def _words(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each word and of each countable part of a long run; none begins with a mark that combines."""
    done = 0
    for match in _RUN.finditer(text):
        start, last = max(match.start(), done), match.end()
        step = last - start if last - start <= LONGEST_WORD else PART
        while start < last:
            end = _whole(text, start, min(start + step, last))
            yield start, end
            start = done = end


def _whole(text: str, start: int, end: int) -> int:
    """``end``, moved on past marks that belong to the character before it, within bounds."""
    bound = min(len(text), start + 2 * LONGEST_WORD)
    while end < bound and _continues(text[end - 1], text[end]):
        end += 1
    return end


def _continues(before: str, character: str) -> bool:
    if character.isascii() or character.isspace():
        return False
    joined = character == "\u200d" or before == "\u200d" or "\U0001f3fb" <= character <= "\U0001f3ff"
    return joined or unicodedata.category(character).startswith("M")
