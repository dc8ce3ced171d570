"""The commands, each a few lines over the Python API."""

from __future__ import annotations

from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ModelError, QueryError

app = typer.Typer(
    name="runoff",
    help="Two-stage retrieval for RAG on plain CPUs: vector search narrows, a cross-encoder decides.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
models_app = typer.Typer(help="List, check and make model artifacts.", no_args_is_help=True)
app.add_typer(models_app, name="models")


class Backend(str, Enum):
    """What runs the encoders."""

    auto = "auto"
    native = "native"
    onnxruntime = "onnxruntime"


class Kind(str, Enum):
    """What an artifact is for."""

    bi_encoder = "bi-encoder"
    cross_encoder = "cross-encoder"


class Precision(str, Enum):
    """Number format of an artifact's weights."""

    int8 = "int8"
    fp32 = "fp32"


class Mode(str, Enum):
    """Which lists the first stage uses."""

    hybrid = "hybrid"
    dense = "dense"
    lexical = "lexical"


class Effort(str, Enum):
    """How much of the cross-encoder runs."""

    exact = "exact"
    fast = "fast"


EffortOption = Annotated[Effort, typer.Option("--effort", help="fast stops early at chunks that cannot win any more.")]
StoreOption = Annotated[Path, typer.Option("--store", envvar="RUNOFF_STORE", help="Store folder.")]
BackendOption = Annotated[Backend, typer.Option("--backend", help="What runs the encoders.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", help="Most threads to use; default: all granted.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]
CandidatesOption = Annotated[int, typer.Option("--candidates", help="Chunks that the first stage hands over.")]
NoRerankOption = Annotated[bool, typer.Option("--no-rerank", help="Keep the first stage's order.")]
ModeOption = Annotated[Mode, typer.Option("--mode", help="First stage: both lists, vectors, or BM25.")]
WhereOption = Annotated[
    str | None, typer.Option("--where", help="Only chunks that meet a condition, as in docs/filters.md.")
]
BlendOption = Annotated[
    float, typer.Option("--blend", help="Order by logit + BLEND x cosine similarity; 0 is the logit alone.")
]
MinScoreOption = Annotated[
    float | None, typer.Option("--min-score", help="Least probability of relevance of a hit, 0 to 1.")
]
DeadlineOption = Annotated[
    float | None, typer.Option("--deadline-ms", help="Time for the answer; what it leaves no time for is not reranked.")
]
BiEncoderOption = Annotated[str | None, typer.Option("--bi-encoder", help="Name or folder of the first model.")]
CrossEncoderOption = Annotated[str | None, typer.Option("--cross-encoder", help="Name or folder of the second.")]
DEFAULT_STORE = Path(".runoff")
DEFAULT_BLEND = 20.0


@app.command()
def ingest(
    source: Annotated[list[str], typer.Argument(help="Feed, document, .jsonl file, folder or http(s) address.")],
    store: StoreOption = DEFAULT_STORE,
    chunk_words: Annotated[int | None, typer.Option("--chunk-words", help="Most words in a chunk [200].")] = None,
    chunk_overlap: Annotated[int | None, typer.Option("--chunk-overlap", help="Words that chunks share [0].")] = None,
    backend: BackendOption = Backend.auto,
    threads: ThreadsOption = None,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read sources, store what is new or changed in them, and remember them for `refresh`."""
    from . import output

    engine = _engine(store, backend, threads, bi_encoder, cross_encoder, chunk_words, chunk_overlap)
    with engine, output.progress() as progress:
        report = engine.ingest(*source, progress=progress)
    output.json_or(as_json, report, output.ingest_report)
    if report.failed:
        raise typer.Exit(1)


@app.command()
def refresh(
    source: Annotated[list[str] | None, typer.Argument(help="Sources; default: all that were ingested.")] = None,
    every: Annotated[str | None, typer.Option("--every", help="Go on for ever, waiting so long: 90s, 15m, 1h.")] = None,
    store: StoreOption = DEFAULT_STORE,
    backend: BackendOption = Backend.auto,
    threads: ThreadsOption = None,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read again what changed in the sources of a store."""
    from . import output, repeat

    def once() -> bool:
        with output.progress() as progress:
            report = engine.refresh(*(source or ()), progress=progress)
        output.json_or(as_json, report, output.ingest_report)
        return not report.failed

    with _engine(store, backend, threads, bi_encoder, cross_encoder) as engine:
        sound = once() if every is None else repeat.run(once, repeat.seconds(every))
    if not sound:
        raise typer.Exit(1)


@app.command()
def sources(
    forget: Annotated[list[str] | None, typer.Option("--forget", help="Refresh this source no more.")] = None,
    store: StoreOption = DEFAULT_STORE,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the sources that `refresh` reads. What came from a source that is forgotten stays."""
    from . import output

    with _engine(store, bi_encoder=bi_encoder, cross_encoder=cross_encoder) as engine:
        known = engine.forget(*forget) if forget else 0
        found = engine.sources()
    output.sources(found, as_json)
    if forget and known < len(forget):
        raise typer.Exit(1)


@app.command()
def compact(
    store: StoreOption = DEFAULT_STORE,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
) -> None:
    """Rewrite a store without what was deleted or replaced. Searches go on meanwhile."""
    with _engine(store, bi_encoder=bi_encoder, cross_encoder=cross_encoder) as engine:
        typer.echo("compacted" if engine.compact() else "nothing to compact")


@app.command()
def verify(store: StoreOption = DEFAULT_STORE) -> None:
    """Check every byte of a store, and that its parts agree."""
    from ..store import Store

    generation = Store.open(store).current()
    generation.check()
    snapshot = generation.snapshot
    typer.echo(
        f"{store}: ok, generation {generation.number}, {len(snapshot.manifest.files)} files, "
        f"{snapshot.document_count} documents, {snapshot.chunk_count} chunks"
    )


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What is asked.")],
    top: Annotated[int, typer.Option("--top", help="Number of hits.")] = 5,
    candidates: CandidatesOption = 20,
    no_rerank: NoRerankOption = False,
    mode: ModeOption = Mode.hybrid,
    where: WhereOption = None,
    blend: BlendOption = DEFAULT_BLEND,
    effort: EffortOption = Effort.exact,
    deadline_ms: DeadlineOption = None,
    min_score: MinScoreOption = None,
    store: StoreOption = DEFAULT_STORE,
    backend: BackendOption = Backend.auto,
    threads: ThreadsOption = None,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the chunks that answer a query best."""
    from . import output

    with _engine(store, backend, threads, bi_encoder, cross_encoder) as engine:
        result = engine.search(
            query,
            top,
            candidates,
            rerank=not no_rerank,
            mode=mode.value,
            where=where,
            blend=blend,
            effort=effort.value,
            deadline_ms=deadline_ms,
            min_score=min_score,
        )
    output.json_or(as_json, result, output.search_result)


@app.command()
def prompt(
    query: Annotated[str, typer.Argument(help="What is asked.")],
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Upper bound on the prompt's tokens.")] = 6000,
    candidates: CandidatesOption = 20,
    no_rerank: NoRerankOption = False,
    mode: ModeOption = Mode.hybrid,
    where: WhereOption = None,
    blend: BlendOption = DEFAULT_BLEND,
    effort: EffortOption = Effort.exact,
    deadline_ms: DeadlineOption = None,
    min_score: MinScoreOption = None,
    store: StoreOption = DEFAULT_STORE,
    backend: BackendOption = Backend.auto,
    threads: ThreadsOption = None,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a prompt with the best chunks that fit a token budget."""
    from . import output

    with _engine(store, backend, threads, bi_encoder, cross_encoder) as engine:
        built, result = engine.prompt(
            query,
            max_tokens=max_tokens,
            candidates=candidates,
            rerank=not no_rerank,
            mode=mode.value,
            where=where,
            blend=blend,
            effort=effort.value,
            deadline_ms=deadline_ms,
            min_score=min_score,
        )
    if as_json:
        output.print_json({"query": query, **output.prompt_fields(built, result)})
    else:
        output.prompt_text(built)


@app.command()
def delete(
    document_id: Annotated[list[str], typer.Argument(help="Document ids, as search --json shows them.")],
    store: StoreOption = DEFAULT_STORE,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
) -> None:
    """Remove documents from the store."""
    ids = set(document_id)
    with _engine(store, bi_encoder=bi_encoder, cross_encoder=cross_encoder) as engine:
        removed = engine.delete(*ids)
    typer.echo(f"removed {removed} of {len(ids)} documents")
    if removed < len(ids):
        raise typer.Exit(1)


@app.command()
def info(
    store: StoreOption = DEFAULT_STORE,
    backend: BackendOption = Backend.auto,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the machine, the models, the backend and why it was chosen, and the store."""
    from .. import info as facts
    from . import output

    found = facts.collect(store, backend=backend.value, threads_setting=threads)
    if as_json:
        output.print_json(found)
    else:
        output.facts(found)


@app.command("eval")
def evaluate(
    target: Annotated[Path, typer.Argument(help="Folder with corpus, queries and qrels, or a .jsonl of questions.")],
    store: Annotated[Path | None, typer.Option("--store", help="Store that the questions are asked of.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("runoff-eval"),
    limit: Annotated[int | None, typer.Option("--limit", help="Most questions; default: all.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draw, tests and intervals.")] = 20,
    candidates: CandidatesOption = 20,
    blend: BlendOption = DEFAULT_BLEND,
    whole: Annotated[bool, typer.Option("--whole", help="One chunk a document, as BEIR's figures are made.")] = False,
    split: Annotated[str | None, typer.Option("--split", help="File of BEIR's qrels folder [test].")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Fit probabilities to the labels too.")] = False,
    backend: BackendOption = Backend.auto,
    threads: ThreadsOption = None,
    bi_encoder: BiEncoderOption = None,
    cross_encoder: CrossEncoderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure first stages and reranking on labelled questions (needs the extra `eval`)."""
    from . import evaluation

    def open_engine(folder: Path, chunking: Any) -> Any:
        return _engine(folder, backend, threads, bi_encoder, cross_encoder, chunking=chunking)

    settings = {"limit": limit, "seed": seed, "candidates": candidates, "blend": blend, "calibrate": calibrate}
    evaluation.run(target, store, out, open_engine, whole=whole, split=split, settings=settings, as_json=as_json)


@app.command()
def serve(
    store: StoreOption = DEFAULT_STORE,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = 8080,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that share port and store.")] = 1,
    api_key: Annotated[
        str | None, typer.Option("--api-key", envvar="RUNOFF_API_KEY", help="Key that requests must show.")
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Serve the network without a key.")
    ] = False,
    allow_host: Annotated[list[str] | None, typer.Option("--allow-host", help="Further name of the service.")] = None,
    allow_urls: Annotated[
        bool, typer.Option("--allow-urls", help="Let clients name feeds on the web to read.")
    ] = False,
    running: Annotated[int | None, typer.Option("--running", help="Calls that compute at once [cores].")] = None,
    waiting: Annotated[int | None, typer.Option("--waiting", help="Calls that may wait [8 a core].")] = None,
    timeout_ms: Annotated[int, typer.Option("--timeout-ms", min=1, help="Time of a request that sets none.")] = 30_000,
    body_bytes: Annotated[int, typer.Option("--body-bytes", min=1, help="Most bytes of a body.")] = 4_000_000,
    cache_mb: Annotated[
        int, typer.Option("--cache-mb", min=0, help="Most MB of answers and scores to keep; 0 keeps none.")
    ] = 64,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Show queries in the log.")] = False,
    backend: BackendOption = Backend.auto,
    target_ms: Annotated[
        float | None, typer.Option("--target-ms", help="Deadline of a request that sets none; default: no deadline.")
    ] = None,
    threads: ThreadsOption = None,
) -> None:
    """Serve search, prompts, reranking and embeddings over HTTP (needs the extra `serve`)."""
    try:
        from ..serve import launch
        from ..serve.settings import Settings
    except ImportError as error:
        raise QueryError(f"{error.name} is not installed; pip install 'runoff[serve]'") from error

    launch.run(
        Settings(
            store=store,
            host=host,
            port=port,
            workers=workers,
            backend=backend.value,
            threads=threads,
            running=running,
            waiting=waiting,
            timeout_ms=timeout_ms,
            target_ms=target_ms,
            body_bytes=body_bytes,
            api_key=api_key,
            allow_anonymous=allow_anonymous,
            allowed_hosts=tuple(allow_host or ()),
            allow_urls=allow_urls,
            cache_bytes=cache_mb * 1_000_000,
            log_texts=log_texts,
        )
    )


@app.command()
def demo(
    backend: BackendOption = Backend.auto,
    threads: ThreadsOption = None,
) -> None:
    """Run the main job on the sample feed that ships with the package."""
    from ..demo import tour

    tour.run(backend=backend.value, threads=threads)


@models_app.command("list")
def models_list(as_json: JsonOption = False) -> None:
    """List the models that are installed."""
    from .. import models
    from . import output

    rows = [output.artifact_fields(artifact) for artifact in models.installed()]
    if not rows:
        raise ModelError(f"no models in {models.root()}; install runoff again")
    if as_json:
        output.print_json(rows)
    else:
        output.artifacts(rows)


@models_app.command("verify")
def models_verify(
    name: Annotated[list[str] | None, typer.Argument(help="Names or folders; default: all installed.")] = None,
    backend: BackendOption = Backend.auto,
) -> None:
    """Check files against their hashes, then golden texts against the reference outputs on this machine."""
    from . import verify

    raise typer.Exit(verify.run(name or [], backend.value))


@models_app.command("export")
def models_export(
    name: Annotated[str, typer.Option("--name", help="Name of the artifact.")],
    kind: Annotated[Kind, typer.Option("--kind", help="What it is for.")],
    checkpoint: Annotated[str | None, typer.Argument(help="Hub name or folder of a checkpoint.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder that gets the artifact's folder.")] = Path("models"),
    from_onnx: Annotated[Path | None, typer.Option("--from-onnx", help="Recover from a quantized ONNX file.")] = None,
    keep_checkpoint: Annotated[Path | None, typer.Option("--keep-checkpoint", help="Keep what was recovered.")] = None,
    precision: Annotated[Precision, typer.Option("--precision", help="Number format of weights.")] = Precision.int8,
    revision: Annotated[str | None, typer.Option("--revision", help="Commit on the hub, or version.")] = None,
    sha256: Annotated[str | None, typer.Option("--sha256", help="Expected hash of the source's weights.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Where the weights came from.")] = None,
    licence: Annotated[str | None, typer.Option("--licence", help="SPDX name of their licence.")] = None,
    licence_file: Annotated[Path | None, typer.Option("--licence-file", help="Text of that licence.")] = None,
    max_length: Annotated[int | None, typer.Option("--max-length", help="Most tokens in one input.")] = None,
) -> None:
    """Turn a checkpoint into an artifact (needs the extra `export`)."""
    from .. import export

    settings = export.ExportSettings(
        name=name,
        kind=kind.value,
        out=out,
        checkpoint=checkpoint,
        from_onnx=from_onnx,
        keep_checkpoint=keep_checkpoint,
        precision=precision.value,
        revision=revision,
        sha256=sha256,
        source=source,
        licence=licence,
        licence_file=licence_file,
        max_length=max_length,
    )
    typer.echo(f"wrote {export.run(settings)}")


@models_app.command("fit-exits")
def models_fit_exits(
    model: Annotated[str, typer.Argument(help="Name or folder of a cross-encoder.")],
    text: Annotated[list[str] | None, typer.Option("--text", help="File, feed or folder; may be repeated.")] = None,
    store: Annotated[Path | None, typer.Option("--store", help="Store whose documents are used too.")] = None,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", help="Queries, one a line; default: headlines and questions of the text."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Most queries, drawn from all.")] = 1000,
    candidates: CandidatesOption = 20,
    seed: Annotated[int, typer.Option("--seed", help="Of the draw and of the folds.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: beside the model.")] = None,
    threads: ThreadsOption = None,
    bi_encoder: BiEncoderOption = None,
) -> None:
    """Fit what `effort=fast` needs, from text without labels: the model is its own teacher."""
    from dataclasses import replace

    from . import fit_exits, output

    job = fit_exits.Job(model, tuple(text or ()), store, queries, limit, candidates, out=out, threads=threads)
    job = replace(job, settings=replace(job.settings, seed=seed), bi_encoder=bi_encoder or job.bi_encoder)
    with output.progress() as bar:
        path, heads = fit_exits.run(job, partial(bar, "pairs of") if bar else None)
    kept = heads.fitted["agreement_out_of_fold"]
    typer.echo(
        f"wrote {path}: {len(heads.heads)} exits, margin {heads.margin:g}, keeps {kept:.1%} of the top out of fold"
    )


def _engine(
    store: Path,
    backend: Backend = Backend.auto,
    threads: int | None = None,
    bi_encoder: str | None = None,
    cross_encoder: str | None = None,
    chunk_words: int | None = None,
    chunk_overlap: int | None = None,
    chunking: Any = None,
) -> Any:
    from ..chunking import ChunkSettings
    from ..engine import Engine

    named: dict[str, Any] = {"bi_encoder": bi_encoder, "cross_encoder": cross_encoder}
    sizes = {"size": chunk_words, "overlap": chunk_overlap}
    chosen = {key: value for key, value in sizes.items() if value is not None}
    return Engine.open(
        store,
        backend=backend.value,
        threads=threads,
        chunking=ChunkSettings(**chosen) if chosen else chunking,
        **{key: value for key, value in named.items() if value is not None},
    )
