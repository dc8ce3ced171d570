"""Texts to word-piece ids, by the tokenizers library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import threads
from .errors import ModelError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as NativeTokenizer

Ids = NDArray[np.int32]

_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """Gives texts their word-piece ids: no special tokens, nothing cut. Safe to share between threads.

    Args:
        native: a tokenizer of the tokenizers library, without truncation and padding.
        parallel: whether a batch may use the library's own threads, which are as many as the system grants.
    """

    def __init__(self, native: NativeTokenizer, *, parallel: bool = False) -> None:
        self._native = native
        self._parallel = parallel

    @classmethod
    def load(cls, path: Path, *, limit: int | None = None) -> Tokenizer:
        """Read a ``tokenizer.json``.

        Args:
            path: the file.
            limit: upper bound on threads; below what the system grants, batches are done on the caller's thread.

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
        return cls(native, parallel=threads.budget(limit) == threads.granted() > 1)

    def encode(self, text: str) -> Ids:
        """Word-piece ids of a text, int32. Lone surrogates count as U+FFFD."""
        return np.array(self._native.encode(_encodable(text), add_special_tokens=False).ids, dtype=np.int32)

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Word-piece ids of each text, int32."""
        if not self._parallel:
            return [self.encode(text) for text in texts]
        encodings = self._native.encode_batch_fast([_encodable(text) for text in texts], add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]


def _encodable(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)
