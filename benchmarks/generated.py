"""Any number of chunks of seeded text whose words follow one another as they do in a collection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from runoff.words import STOP_WORDS, split

SHORTEST, LONGEST = 20, 140  # words in a chunk, 80 on average
RARE = 0.02  # share of words that are made up, so that the vocabulary grows as it does in real text
_BLOCK = 2000


def texts(sources: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """Chunks by a first-order Markov chain over the words of ``sources``.

    A word's successor is the word behind a random one of its occurrences, which keeps both the words' frequencies and
    their neighbours. A share of ``RARE`` becomes names of a Zipf-distributed rank that the sources do not have.
    """
    rng = np.random.default_rng(seed)
    words, numbers = np.unique(" ".join(sources).split(), return_inverse=True)
    words = words.astype(object)
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(words) + 1))
    following = numbers[(order + 1) % len(numbers)]
    while count:
        rows = min(count, _BLOCK)
        lengths = rng.integers(SHORTEST, LONGEST + 1, rows)
        chain = np.empty((LONGEST, rows), np.int64)
        at = numbers[rng.integers(0, len(numbers), rows)]
        for step in range(LONGEST):
            chain[step] = at
            at = following[starts[at] + (rng.random(rows) * (starts[at + 1] - starts[at])).astype(np.int64)]
        made_up = rng.random(chain.shape) < RARE
        ranks = rng.zipf(1.1, chain.shape) % 10_000_000
        for row, length in enumerate(lengths.tolist()):
            found = words[chain[:length, row]]
            column = made_up[:length, row]
            found[column] = [f"x{rank}" for rank in ranks[:length, row][column].tolist()]
            yield " ".join(found.tolist())
        count -= rows


def queries(chunks: Sequence[str], count: int, words: int, seed: int) -> list[str]:
    """Queries of ``words`` different words that are no stop words, each drawn from one chunk."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        chunk = split(chunks[int(rng.integers(len(chunks)))])
        vocabulary = [word for word in dict.fromkeys(chunk) if word not in STOP_WORDS]
        if len(vocabulary) >= words:
            found.append(" ".join(rng.choice(vocabulary, words, replace=False).tolist()))
    return found
