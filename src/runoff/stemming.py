"""Porter's stemmer for English words (M. F. Porter, An algorithm for suffix stripping, Program 14, 1980).

Its rules never changed since, so a stored index and a later release agree. A word is a stem and a suffix; rules replace
the longest suffix that they know, if the stem before it is long enough. Length is Porter's measure: how many times
vowels are followed by consonants.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

_DERIVED = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}  # fmt: skip
_DOUBLY_DERIVED = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_LAST = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def _ending(suffixes: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of the suffixes that a word ends in, as it begins first."""
    return re.compile(f"(?:{'|'.join(suffixes)})$")


_DERIVED_END, _DOUBLY_DERIVED_END, _LAST_END = map(_ending, (_DERIVED, _DOUBLY_DERIVED, _LAST))
_LETTERS = re.compile("[a-z]{3,}")


# A process that keeps an index fresh meets the same words again and again; 65,536 of them are less than 10 MB.
@functools.lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a lower-case English word; anything but three or more letters a to z stays as it is."""
    if not _LETTERS.fullmatch(word):
        return word
    word = _plural(word)
    word = _past(word)
    if word[-1] == "y" and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _DERIVED_END, _DERIVED)
    word = _replaced(word, _DOUBLY_DERIVED_END, _DOUBLY_DERIVED)
    return _final(_without_last(word))


def _shape(stem: str) -> str:
    """The stem with v for each vowel and c for each consonant; y is a vowel behind a consonant."""
    shape = ""
    for letter in stem:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(stem: str) -> int:
    return _shape(stem).count("vc")


def _is_short(stem: str) -> bool:
    """Whether it ends in consonant, vowel, consonant, and not in w, x or y."""
    return _shape(stem)[-3:] == "cvc" and stem[-1] not in "wxy"


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    for suffix in ("ed", "ing"):
        stem = word.removesuffix(suffix)
        if stem != word and "v" in _shape(stem):
            return _mended(stem)
    return word


def _mended(stem: str) -> str:
    """A stem that lost its -ed or -ing, with the e that it had, or without the consonant that was doubled."""
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if stem[-2:-1] == stem[-1] and _shape(stem)[-1] == "c" and stem[-1] not in "lsz":
        return stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _is_short(stem) else stem


def _replaced(word: str, end: re.Pattern[str], suffixes: Mapping[str, str]) -> str:
    found = end.search(word)
    return word[: found.start()] + suffixes[found[0]] if found and _measure(word[: found.start()]) else word


def _without_last(word: str) -> str:
    found = _LAST_END.search(word)
    if not found or (found[0] == "ion" and not word[: found.start()].endswith(("s", "t"))):
        return word
    return word[: found.start()] if _measure(word[: found.start()]) > 1 else word


def _final(word: str) -> str:
    """The word without a last e, or the second l of two, that a long enough stem does not need."""
    stem = word[:-1]
    if word.endswith("e") and (_measure(stem) > 1 or (_measure(stem) == 1 and not _is_short(stem))):
        word = stem
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
