"""Text to the terms of the lexical index: stems of words, numbers, and pairs of characters where no spaces are written.

Folding takes away what people leave out when they type a query: case, accents, width, ligatures, Hebrew and Arabic
points. It works on Unicode's compatibility decomposition (NFKD), so composed and decomposed forms are equal. Chinese,
Japanese, Korean, Thai, Lao, Khmer and Burmese runs become overlapping pairs of characters (ABC gives AB and BC), so
that any piece of at least two characters is found inside of a longer run; a run of one character is a term itself.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Any

from .stemming import stem

VERSION = 1
LONGEST = 64

# What English questions are made of; dropped from queries only, where they cost most and say least.
STOP_WORDS = frozenset(
    (
        "a about after again all also am an and any are aren as at be because been before being between both but by "
        "can could couldn did didn do does doesn doing don during each few for from further had hadn has hasn have "
        "haven having he her here hers him his how i if in into is isn it its itself just me more most my no nor not "
        "of off on once only or other our ours out over own same she should shouldn so some such than that the their "
        "theirs them then there these they this those through to too under until up very was wasn we were weren what "
        "when where which while who whom whose why will with would wouldn you your yours"
    ).split()
)

# Accents of Latin, Greek and Cyrillic, Hebrew points, Arabic vowel marks and the stroke that stretches Arabic words,
# and characters of no width. Marks of other scripts are vowels, without which their words would fall together.
_DROPPED = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\u0591-\u05bd\u05bf\u05c1\u05c2"
    "\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"
    "\xad\u061c\u200b-\u200f\u2060-\u2064\ufeff]+"
)
# Letters with a stroke or of two letters, which have no decomposition; typographic apostrophes.
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "\u0131": "i", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe"}
    | dict.fromkeys("\u2018\u2019\u02bc\uff07", "'")
)

_UNSPACED = (
    r"[[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    r"\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]&&[\p{L}\p{M}\p{N}]]"
)
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:(?<=[0-9])\.[0-9]+)*")
_CONTRACTION = re.compile(r"'(?<=[a-z]')(?:s|t|re|ve|ll|d|m)\b")
_THOUSANDS = re.compile(r",(?=[0-9]{3}(?![0-9]))(?<=[0-9],)")


def split(text: str) -> list[str]:
    """The words of a text in order, folded, each cut to at most ``LONGEST`` characters.

    ``1,000,000`` and ``2.50`` are one word each. English ``'s`` and the ends of contractions are left out.
    """
    folded = text.lower() if text.isascii() else fold(text)
    if "'" in folded:
        folded = _CONTRACTION.sub("", folded)
    if "," in folded:
        folded = _THOUSANDS.sub("", folded)
    if folded.isascii():
        found = _ASCII_WORD.findall(folded)
    else:
        found = [word for run, spaced in _word().findall(folded) for word in (_pairs(run) if run else (spaced,))]
    return [word[:LONGEST] for word in found] if any(len(word) > LONGEST for word in found) else found


def fold(text: str) -> str:
    """The text without what tells apart spellings of a word: case, accents, width, ligatures."""
    bare = _marks().sub(r"\1", _DROPPED.sub("", text))
    once = unicodedata.normalize("NFKD", bare).casefold()
    # Composed again, so that a Hangul syllable or a kana with its voicing mark is one character of a pair.
    return unicodedata.normalize("NFC", _DROPPED.sub("", unicodedata.normalize("NFKD", once))).translate(_LETTERS)


def terms(text: str) -> list[str]:
    """The terms that a text is indexed under, in order, with repetitions."""
    return [stem(word) for word in split(text)]


def query_terms(text: str) -> list[str]:
    """The terms that a query asks for: as for a text, without English stop words unless there is nothing else."""
    found = split(text)
    return [stem(word) for word in found if word not in STOP_WORDS] or [stem(word) for word in found]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


@functools.cache
def _word() -> Any:
    """Finds runs that are written without spaces (group 1) and other words (group 2)."""
    import regex  # type: ignore[import-untyped]  # ships no types

    spaced = rf"[[\p{{L}}\p{{M}}\p{{N}}]--{_UNSPACED}]+(?:(?<=\d)\.\d+)*"
    return regex.compile(rf"({_UNSPACED}+)|({spaced})", regex.VERSION1)


@functools.cache
def _marks() -> Any:
    """Finds the runs of marks whose canonical ordering would take long: it takes the square of a run's length."""
    import regex

    return regex.compile(r"(\p{M}{8})\p{M}+")
