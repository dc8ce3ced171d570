"""The script that a developer would write from the usual tutorial, as the contender of end_to_end.py.

    python tutorial.py MODELS BI_ENCODER THREADS STORE

Indexes the vectors of STORE.npy over the texts of STORE.json. Then one JSON line a question: finds, reranks, and builds
a prompt. ``MODELS`` is the folder that prepare.py made, ``BI_ENCODER`` a folder with all-MiniLM-L6-v2.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

CANDIDATES, TOP, MAX_TOKENS = 20, 5, 6000


def main() -> None:
    models, bi_encoder, threads, store = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    out, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    import faiss
    import numpy as np
    import tiktoken
    import torch
    from sentence_transformers import CrossEncoder, SentenceTransformer

    torch.set_num_threads(threads)
    embedder = SentenceTransformer(bi_encoder, device="cpu")
    reranker = CrossEncoder(f"{models}/checkpoint", device="cpu", max_length=512)
    encoding = tiktoken.get_encoding("cl100k_base")

    texts = json.loads(Path(f"{store}.json").read_text(encoding="utf-8"))
    index = faiss.IndexFlatIP(embedder.get_sentence_embedding_dimension())
    index.add(np.load(f"{store}.npy"))

    for line in sys.stdin:
        question = json.loads(line)
        laps, last = {}, time.perf_counter()
        vector = embedder.encode([question], normalize_embeddings=True)
        laps["embed"], last = lap(last)
        _, rows = index.search(vector, CANDIDATES)
        found = [texts[row] for row in rows[0]]
        laps["retrieve"], last = lap(last)
        scores = reranker.predict([(question, text) for text in found])
        ranked = [text for _, text in sorted(zip(scores, found, strict=True), reverse=True)]
        laps["rerank"], last = lap(last)
        prompt = f"Answer the question from these passages.\n\nQuestion: {question}\n"
        for text in ranked[:TOP]:
            longer = f"{prompt}\n---\n{text}\n"
            if len(encoding.encode(longer)) > MAX_TOKENS:
                break
            prompt = longer
        laps["prompt"], last = lap(last)
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"ms": laps, "rss_mib": rss}), file=out, flush=True)


def lap(last: float) -> tuple[float, float]:
    now = time.perf_counter()
    return (now - last) * 1e3, now


if __name__ == "__main__":
    main()
