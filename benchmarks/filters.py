"""What a filter costs: its mask over a million chunks of 300,000 documents, with metadata in 1, 20 or 100 segments.

python benchmarks/filters.py --json benchmarks/results/filters.json
"""

from __future__ import annotations

import random
import time
from functools import partial
from itertools import pairwise

import numpy as np

import harness
from runoff import columns, where
from runoff.columns import Columns, Segment
from runoff.documents import Document

DOCUMENTS, CHUNKS = 300_000, 1_000_000
LATER = 1000  # documents of each segment after the first
TAGS = ("fx", "cards", "rails", "law", "operations", "risk", "people", "events")
TOPICS = ("payouts", "fees", "cards", "rails")
FILTERS = {
    "three": 'source = "https://feed7.example/rss" and published >= 2024-01-01 and "fx" in tags',
    "equal": 'source = "https://feed7.example/rss"',
    "date": "published >= 2024-01-01",
    "tag": '"fx" in tags',
    "number or truth": "price > 500 and rate < 0.3 or paid = true",
    "one of three": 'author in ("Author 1", "Author 2", "Author 3")',
    "kind": 'kind = "body" and language = "de"',
    "beginning": 'title startswith "Article 1"',
    "part": '"rails" in title',
}


def main() -> None:
    chosen = harness.parser(__doc__).parse_args()
    documents = some_documents()
    rng = np.random.default_rng(harness.SEED)
    rows = np.sort(rng.integers(0, DOCUMENTS, CHUNKS)).astype(np.uint32)
    kinds = rng.integers(0, 2, CHUNKS).astype(np.uint32)
    ids = ", ".join(f'"{document.id}"' for document in documents[:1000])
    filters = {name: where.parse(text) for name, text in {**FILTERS, "one of 1000": f"id in ({ids})"}.items()}

    started = time.perf_counter()
    whole = columns.build(0, documents)
    results = {"build_us_per_document": (time.perf_counter() - started) * 1e6 / DOCUMENTS}
    results["bytes_per_document"] = len(whole) / DOCUMENTS
    for count in (1, 20, 100):
        layout = segments(documents, count)
        started = time.perf_counter()
        stored = Columns(layout)
        opened = time.perf_counter()
        filters["three"].mask(stored, rows, kinds)
        first = time.perf_counter()
        masks = {name: partial(one.mask, stored, rows, kinds) for name, one in filters.items()}
        results[f"{count} segments"] = {
            "open_ms": (opened - started) * 1e3,
            "three_first_ms": (first - opened) * 1e3,
            **harness.alternate(masks, chosen.rounds),
        }
    started = time.perf_counter()
    columns.merge(layout)
    results["merge_us_per_document"] = (time.perf_counter() - started) * 1e6 / DOCUMENTS
    harness.finish("filters", results, {"rounds": chosen.rounds, "documents": DOCUMENTS, "chunks": CHUNKS}, chosen.json)


def some_documents() -> list[Document]:
    """Documents of a service's feeds; a third of them with numbers of their own."""
    draw = random.Random(harness.SEED)

    def one(number: int) -> Document:
        day = draw.randrange(1, 29)
        published = f"{draw.randrange(2018, 2027)}-{draw.randrange(1, 13):02}-{day:02}T10:{draw.randrange(60):02}:00Z"
        own = {"price": draw.randrange(1000), "rate": draw.random(), "paid": draw.random() < 0.5}
        return Document(
            f"{draw.getrandbits(64):016x}",
            f"Article {number} of a long series about {draw.choice(TOPICS)}",
            "",
            url=f"https://news{draw.randrange(40)}.example/articles/{number}",
            source=f"https://feed{draw.randrange(40)}.example/rss",
            published=published if draw.random() < 0.98 else None,
            author=f"Author {draw.randrange(5000)}" if draw.random() < 0.7 else None,
            tags=tuple(draw.sample(TAGS, draw.randrange(5))),
            language=draw.choice(("en", "de", None)),
            fields=own if number % 3 == 0 else {},
        )

    return [one(number) for number in range(DOCUMENTS)]


def segments(documents: list[Document], count: int) -> list[Segment]:
    """One large segment and, behind it, small ones as refreshes leave them."""
    borders = [0, *range(len(documents) - LATER * (count - 1), len(documents) + 1, LATER)]
    built = (columns.build(low, documents[low:high]) for low, high in pairwise(borders))
    return [Segment(np.frombuffer(data, dtype=np.uint8)) for data in built]


if __name__ == "__main__":
    main()
