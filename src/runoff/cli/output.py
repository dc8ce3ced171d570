"""What the commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..artifact import Artifact
    from ..engine import SourceProgress
    from ..prompt import Prompt
    from ..results import IngestReport, SearchHit, SearchResult, SourceReport

Result = TypeVar("Result")

SNIPPET_CHARACTERS = 160


def console() -> Console:
    """A console on stdout that does not mistake text from feeds for its own markup."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def json_or(as_json: bool, result: Result, show: Callable[[Result], None]) -> None:
    """Print a dataclass as JSON, or let ``show`` print it for people."""
    if as_json:
        print_json(asdict(result))  # type: ignore[call-overload]
    else:
        show(result)


@contextmanager
def progress() -> Iterator[SourceProgress | None]:
    """A bar of documents done, a source a line; None where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def advance(source: str, done: int, total: int) -> None:
            if source not in tasks:
                tasks[source] = bar.add_task(_short(source, 40), total=total)
            bar.update(tasks[source], completed=done, total=total)

        yield advance


def ingest_report(report: IngestReport) -> None:
    """A line for each source and one for all; what went wrong goes to stderr."""
    for source in report.sources:
        _source_line(source)
    total = report.total
    print(
        f"{len(report.sources) - len(report.failed)} of {len(report.sources)} sources: "
        f"{total('added')} documents added, {total('updated')} updated, {total('unchanged')} unchanged; "
        f"{total('embedded')} chunks embedded in {report.seconds:.1f} s"
    )


def _source_line(report: SourceReport) -> None:
    for warning in report.warnings:
        print(f"warning: {report.source}: {warning}", file=sys.stderr)
    if report.error is not None:
        print(f"error: {report.error}", file=sys.stderr)
        return
    print(
        f"{report.source}: {report.added} added, {report.updated} updated, {report.unchanged} unchanged, "
        f"{report.embedded} of {report.chunks} chunks embedded"
    )


def search_result(result: SearchResult) -> None:
    """A table of hits and a line of stage times."""
    if not result.hits:
        print("No chunk matches: the store is empty.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (("#", "right"), ("was", "right"), ("score", "right"), ("title and text", "left")):
        table.add_column(name, justify=justify, no_wrap=name != "title and text")  # type: ignore[arg-type]
    for hit in result.hits:
        table.add_row(str(hit.rank), _movement(hit), f"{hit.score:.3f}", _title_and_snippet(hit))
    console().print(table)
    print(times_line(result))


def times_line(result: SearchResult) -> str:
    """The time of each stage, in one line."""
    times = asdict(result.timings_ms)
    parts = ", ".join(f"{name} {value:.1f}" for name, value in times.items() if name != "total")
    cut = "; the query was too long and was cut" if result.query_truncated else ""
    return f"{result.backend}: {times['total']:.1f} ms ({parts}){cut}"


def _movement(hit: SearchHit) -> str:
    moved = hit.first_stage.rank - hit.rank
    arrow = "=" if not moved else f"↑{moved}" if moved > 0 else f"↓{-moved}"
    return f"{hit.first_stage.rank} {arrow}"


def _title_and_snippet(hit: SearchHit) -> Text:
    text = Text(hit.title or "(no title)", style="bold")
    if hit.kind == "body":
        text.append("\n" + _short(" ".join(hit.text.split()), SNIPPET_CHARACTERS), style="not bold")
    if hit.url:
        text.append("\n" + hit.url, style="not bold dim")
    return text


def prompt_fields(built: Prompt, result: SearchResult) -> dict[str, Any]:
    """A prompt, its token count and the hits that it holds."""
    return {
        "prompt": built.text,
        "tokens": built.tokens,
        "max_tokens": built.max_tokens,
        "cut": built.cut,
        "omitted": built.omitted,
        "hits": [asdict(result.hits[index]) for index in built.used],
        "timings_ms": asdict(result.timings_ms),
    }


def prompt_text(built: Prompt) -> None:
    """The prompt on stdout, its token count on stderr."""
    print(built.text, end="")
    print(
        f"{built.tokens} of {built.max_tokens} tokens, {len(built.used)} passages"
        f"{', the first one cut' if built.cut else ''}, {built.omitted} left out",
        file=sys.stderr,
    )


def artifact_fields(artifact: Artifact) -> dict[str, Any]:
    """What identifies an artifact."""
    return {
        "name": artifact.name,
        "kind": artifact.kind,
        "precision": artifact.precision,
        "dimensions": artifact.dimensions,
        "layers": artifact.layers,
        "max_length": artifact.max_length,
        "licence": artifact.licence,
        "source": artifact.source,
        "sha256": artifact.digest,
        "path": str(artifact.path),
    }


def artifacts(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table of artifacts."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("name", "kind", "precision", "layers", "max_length", "licence", "sha256"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*(str(row[name])[:12] if name == "sha256" else str(row[name]) for name in _columns(table)))
    console().print(table)


def facts(found: Mapping[str, Any], indent: str = "") -> None:
    """Nested names and values, a line each."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            print(f"{indent}{name}:")
            facts(value, indent + "  ")
        elif isinstance(value, list):
            print(f"{indent}{name}: {', '.join(map(str, value)) if not _nested(value) else ''}".rstrip())
            for item in value if _nested(value) else ():
                facts(item, indent + "  ")
        else:
            print(f"{indent}{name}: {value}")


def _nested(values: Sequence[Any]) -> bool:
    return any(isinstance(value, Mapping) for value in values)


def _columns(table: Table) -> list[str]:
    return [str(column.header) for column in table.columns]


def _short(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"
