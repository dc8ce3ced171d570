"""Counts tokens as the reader of a prompt will, from a vocabulary on disk and without a network."""

from __future__ import annotations

import hashlib
import re
from binascii import a2b_base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .errors import ArtifactDamagedError, ModelError

if TYPE_CHECKING:
    from tiktoken import Encoding

CL100K_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"

# The published pattern of cl100k_base with possessive quantifiers: the same pieces, no backtracking on long runs.
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_SPECIAL_TOKENS = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}

_SURROGATE = re.compile("[\ud800-\udfff]")

# tiktoken's regular expressions overflow their stack at a million white space characters in a row and then raise
# outside of Exception. The class is Unicode's White_Space, which is what they call \s.
_LONG_RUN = 100_000
_WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LONG_SPACE = re.compile(f"[{_WHITE_SPACE}]{{{_LONG_RUN},}}")


class Counter(Protocol):
    """Anything that says how many tokens a text is for one model."""

    def count(self, text: str) -> int:
        """Number of tokens of ``text``, at least 0."""
        ...


class TokenCounter:
    """Counts tokens of cl100k_base, or of any other tiktoken encoding. Safe to share between threads.

    What looks like a special token (``<|endoftext|>``) is counted as the plain text that it is, and surrogates are
    counted as ``encodable`` writes them.

    Args:
        encoding: a ready tiktoken encoding; ``TokenCounter.load`` builds the one that Runoff carries.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    @classmethod
    def load(cls, path: Path | None = None) -> TokenCounter:
        """Build the counter from a ``cl100k_base.tiktoken`` file; None takes the one that Runoff carries.

        Raises:
            ModelError: the file cannot be read.
            ArtifactDamagedError: its bytes are not those of cl100k_base.
        """
        if path is None:
            from . import models

            path = models.vocabulary_path()
        return cls(_encoding(_verified(path)))

    def count(self, text: str) -> int:
        """Number of tokens of ``text``; the time grows a little faster than the length (1 MB: 20 to 270 ms)."""
        return sum(len(self.encoding.encode_ordinary(part)) for part in _parts(encodable(text)))

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``."""
        return [token for part in _parts(encodable(text)) for token in self.encoding.encode_ordinary(part)]


def encodable(text: str) -> str:
    """The text with pairs of surrogates joined and lone ones replaced by U+FFFD, so that UTF-8 can hold it."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _parts(text: str) -> Iterator[str]:
    """Pieces of the text that cost the same tokens apart as together, with no long run of white space inside one.

    The pattern cuts a run of white space, unless it ends the text, after its last line break and before its last
    character, so those are the places where it can be cut first.
    """
    start = 0
    for run in _LONG_SPACE.finditer(text):
        after_break = run.start() + max(run[0].rfind("\n"), run[0].rfind("\r")) + 1
        for end in (after_break, run.end() - 1):
            if start < end and run.end() < len(text):
                yield text[start:end]
                start = end
    yield text[start:]


def _verified(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read ({error.strerror}); expected the cl100k_base vocabulary. Reinstall Runoff."
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != CL100K_SHA256:
        raise ArtifactDamagedError(
            f"{path}: {len(data)} bytes with sha256 {digest}; expected cl100k_base, {CL100K_SHA256}. Reinstall Runoff."
        )
    return data


def _encoding(data: bytes) -> Encoding:
    from tiktoken import Encoding

    words = data.split()
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return Encoding("cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL_TOKENS)
