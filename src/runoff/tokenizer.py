"""Texts to word-piece ids, by the tokenizers library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as NativeTokenizer

Ids = NDArray[np.int32]

_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """Gives texts their word-piece ids: no special tokens, nothing cut. Safe to share between threads.

    Args:
        native: a tokenizer of the tokenizers library, without truncation and padding.
    """

    def __init__(self, native: NativeTokenizer) -> None:
        self._native = native

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a ``tokenizer.json``.

        Raises:
            ModelError: the file is missing or is no tokenizer.
        """
        from tokenizers import Tokenizer as NativeTokenizer

        try:
            native = NativeTokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise ModelError(f"{path}: not a tokenizer ({error}); install or export the model again") from error
        native.no_truncation()
        native.no_padding()
        return cls(native)

    def encode(self, text: str) -> Ids:
        """Word-piece ids of a text, int32. Lone surrogates count as U+FFFD."""
        return np.array(self._native.encode(_encodable(text), add_special_tokens=False).ids, dtype=np.int32)

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Word-piece ids of each text, int32."""
        encodings = self._native.encode_batch([_encodable(text) for text in texts], add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]


def _encodable(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)
