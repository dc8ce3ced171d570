"""`runoff models fit-exits`: from unlabelled text to the file of exit heads beside a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import fitting, models, pairing, sources
from ..chunking import ChunkSettings
from ..documents import Document
from ..encoder import BiEncoder
from ..errors import SourceError
from ..exits import FILE, ExitHeads
from ..ranking import DEFAULT_BLEND
from ..reranker import CrossEncoder

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Job:
    """What to fit on.

    Attributes:
        model: name or folder of the cross-encoder.
        text: files, feeds or folders, as for ``runoff ingest``.
        store: store folder whose documents are used too, or None.
        queries: file of queries; None takes headlines and questions of the text itself.
        limit: most queries, drawn from all that there are.
        candidates: chunks that each query meets.
        bi_encoder: name or folder of the first stage's model.
        out: file to write; None writes it beside the model.
        threads: most threads to use.
        settings: how heads are fitted.
    """

    model: str
    text: tuple[str, ...] = ()
    store: Path | None = None
    queries: Path | None = None
    limit: int = 1000
    candidates: int = 20
    bi_encoder: str = models.DEFAULT_BI_ENCODER
    out: Path | None = None
    threads: int | None = None
    settings: fitting.FitSettings = field(default_factory=fitting.FitSettings)


def run(job: Job, progress: Progress | None = None) -> tuple[Path, ExitHeads]:
    """Fit heads and write them; returns the file and what is in it.

    Raises:
        SourceError: there is no text, or no query.
        BackendError: no backend here can stop half way.
        ModelError: a model is missing, or there are too few queries.
    """
    model = CrossEncoder.load(job.model, threads=job.threads, exits=False)
    documents = _documents(job)
    pool = _queries(job, documents)
    asked = pairing.draw(pool, job.limit, job.settings.seed)
    encoder = BiEncoder.load(job.bi_encoder, threads=job.threads)
    pairs = pairing.pairs(asked, documents, encoder, model.tokenizer, job.candidates, ChunkSettings())
    ranked = [(query, passages, np.float32(DEFAULT_BLEND) * cosines) for query, passages, cosines in pairs]
    evidence = fitting.gather(model.start, ranked, job.settings.layers, progress)
    about = {
        "text": [Path(source).name for source in job.text] + (["store"] if job.store else []),
        "text_sha256": _digest(text for document in documents for text in (document.title, document.body)),
        "queries_from": job.queries.name if job.queries else "headlines and questions of the text",
        "queries_sha256": _digest(asked),
        "candidates": job.candidates,
        "blend": DEFAULT_BLEND,
        "bi_encoder": encoder.artifact.name,
        "bi_encoder_digest": encoder.artifact.digest,
        "backend": f"{model.backend} {model.kernel}",
    }
    heads = fitting.fit(evidence, model.artifact.digest, job.settings, about)
    path = job.out or model.artifact.path / FILE
    heads.write(path)
    return path, heads


def _documents(job: Job) -> list[Document]:
    found = [
        document for source in job.text for name in sources.expand(source) for document in sources.load(name).documents
    ]
    if job.store is not None:
        from ..store import Store

        found.extend(entry.document for entry in Store.open(job.store).current().snapshot.entries())
    if not found:
        raise SourceError("no text to fit on; expected files, feeds or folders, or --store")
    return found


def _queries(job: Job, documents: Sequence[Document]) -> list[str]:
    if job.queries is not None:
        return pairing.read_queries(job.queries)
    found = [*pairing.headlines(documents), *pairing.questions(documents)]
    if not found:
        raise SourceError("the text has no headlines and no questions; name a file of queries with --queries")
    return list(dict.fromkeys(found))


def _digest(texts: Any) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
