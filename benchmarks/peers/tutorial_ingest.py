"""The ingest that a developer would write from the usual tutorials, as the contender of ingest.py.

    python tutorial_ingest.py BI_ENCODER THREADS FOLDER FEED ...

Reads the feeds (feedparser), strips the markup (html.parser), cuts each entry into chunks of 200 words, embeds these
(sentence-transformers, fp32 on torch), indexes them (FAISS, exact), writes both to FOLDER, and searches once.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

CHUNK_WORDS = 200


class Stripper(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def plain(markup: str) -> str:
    stripper = Stripper()
    stripper.feed(markup)
    return " ".join(stripper.parts)


def chunks(path: str) -> list[str]:
    import feedparser

    found = []
    for entry in feedparser.parse(Path(path).read_bytes()).entries:
        body = entry.content[0].value if "content" in entry else entry.get("summary", "")
        words = plain(f"{entry.get('title', '')} {body}").split()
        found += [" ".join(words[first : first + CHUNK_WORDS]) for first in range(0, len(words), CHUNK_WORDS)]
    return found


def main() -> None:
    bi_encoder, threads, folder, *feeds = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    out, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    import faiss
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(int(threads))
    embedder = SentenceTransformer(bi_encoder, device="cpu")
    embedder.encode(["the model loads before the clock starts"])

    started = time.perf_counter()
    texts = [text for feed in feeds for text in chunks(feed)]
    read = time.perf_counter()
    index = faiss.IndexFlatIP(embedder.get_sentence_embedding_dimension())
    index.add(embedder.encode(texts, normalize_embeddings=True))
    faiss.write_index(index, f"{folder}/index.faiss")
    Path(f"{folder}/texts.json").write_text(json.dumps(texts), encoding="utf-8")
    index.search(embedder.encode(["When does it arrive?"], normalize_embeddings=True), 20)
    done = time.perf_counter()
    words = sum(len(text.split()) for text in texts)
    told = {"seconds": done - started, "reading_s": read - started, "chunks": len(texts), "words": words}
    told["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(told), file=out, flush=True)


if __name__ == "__main__":
    main()
