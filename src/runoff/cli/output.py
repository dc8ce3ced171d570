"""What the commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import fetch
from . import stderr

if TYPE_CHECKING:
    from ..artifact import Artifact
    from ..engine import SourceProgress
    from ..prompt import Prompt
    from ..results import IngestReport, SearchHit, SearchResult, SourceReport

Result = TypeVar("Result")
Item = TypeVar("Item")

SNIPPET_CHARACTERS = 160


def console() -> Console:
    """A console on stdout that does not mistake text from feeds for its own markup."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=False)


def print_json(value: Any) -> None:
    """Print a value as indented JSON, in ASCII where the terminal knows nothing else: JSON has escapes for the rest."""
    print(json.dumps(value, ensure_ascii=not _can_print("é↑☃"), indent=2))


def json_or(as_json: bool, result: Result, show: Callable[[Result], None]) -> None:
    """Print a dataclass as JSON, or let ``show`` print it for people."""
    if as_json:
        print_json(asdict(result))  # type: ignore[call-overload]
    else:
        show(result)


@contextmanager
def progress() -> Iterator[SourceProgress | None]:
    """A bar of the documents done in the source at hand; None where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def advance(source: str, done: int, total: int) -> None:
            bar.update(task, description=escape(stderr.visible(_short(source, 40))), completed=done, total=total)

        yield advance


def track(items: Sequence[Item], description: str) -> Iterable[Item]:
    """The items, with a bar of those done where stderr is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.progress import track

    return track(items, description, console=Console(stderr=True), transient=True, refresh_per_second=2)


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
        stderr.line(f"warning: {report.source}: {warning}")
    if report.error is not None:
        stderr.line(f"error: {report.error}")
        return
    if report.not_modified:
        print(f"{stderr.visible(report.source)}: not modified")
        return
    print(
        f"{stderr.visible(report.source)}: {report.added} added, {report.updated} updated, "
        f"{report.unchanged} unchanged, {report.embedded} of {report.chunks} chunks embedded"
    )


def sources(names: Sequence[str], as_json: bool) -> None:
    """The sources of a store, a line each, without the passwords that addresses hold."""
    shown = list(map(fetch.redacted, names))
    if as_json:
        print_json(shown)
    else:
        for name in shown:
            print(stderr.visible(name))


def search_result(result: SearchResult) -> None:
    """A table of hits and a line of stage times."""
    if not result.hits:
        print("No chunk matches.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (("#", "right"), ("was", "right"), ("score", "right"), ("title and text", "left")):
        folds = name == "title and text"  # a long address goes on in the next line, so that it can still be copied
        table.add_column(name, justify=justify, no_wrap=not folds, overflow="fold")  # type: ignore[arg-type]
    for hit in result.hits:
        table.add_row(str(hit.rank), _movement(hit), f"{hit.score:.3f}", _title_and_snippet(hit))
    console().print(table)
    print(times_line(result))


def times_line(result: SearchResult) -> str:
    """The time of each stage, in one line."""
    times = asdict(result.timings_ms)
    parts = ", ".join(f"{name} {value:.1f}" for name, value in times.items() if name != "total")
    cut = "; the query was too long and was cut" if result.query_truncated else ""
    late = "" if result.deadline_met is None else f"; {_deadline(result)}"
    return f"{result.backend}: {times['total']:.1f} ms ({parts}){late}{cut}"


def _deadline(result: SearchResult) -> str:
    kept = "met" if result.deadline_met else "missed"
    return f"deadline {result.deadline_ms:g} ms {kept} in {result.spent_ms:.1f}, {result.scored} candidates scored"


def _movement(hit: SearchHit) -> str:
    moved = hit.first_stage.rank - hit.rank
    up, down = "↑↓" if _can_print("↑↓") else "+-"
    return f"{hit.first_stage.rank} {f'{up}{moved}' if moved > 0 else f'{down}{-moved}' if moved else '='}"


def _title_and_snippet(hit: SearchHit) -> Text:
    text = Text(stderr.visible(hit.title) or "(no title)", style="bold")
    if hit.kind == "body":
        snippet = _short(" ".join(hit.text.split()), SNIPPET_CHARACTERS)
        text.append("\n" + stderr.visible(snippet), style="not bold")
    if hit.url:
        text.append("\n" + stderr.visible(hit.url), style="not bold dim")
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
    """The prompt on stdout, to the character, as one more could break the budget; its token count on stderr."""
    print(built.text, end="")
    sys.stdout.flush()
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
    """A table of artifacts, or a block of lines for each where the table is too wide."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("name", "kind", "weights", "tokens", "licence", "sha256"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        shown = (row["name"], row["kind"], row["precision"], row["max_length"], row["licence"], row["sha256"][:8])
        table.add_row(*map(str, shown))
    screen = console()
    if screen.measure(table, options=screen.options.update(width=1000)).maximum > screen.width:
        facts({"models": rows})
    else:
        screen.print(table)


def facts(found: Mapping[str, Any]) -> None:
    """Nested names and values, a line each."""
    for line in _fact_lines(found):
        print(line)


def _fact_lines(found: Mapping[str, Any]) -> Iterator[str]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {line}" for line in _fact_lines(value))
        elif isinstance(value, list):
            yield from _list_lines(name, value)
        else:
            yield f"{name}: {stderr.visible(str(value))}"


def _list_lines(name: str, values: Sequence[Any]) -> Iterator[str]:
    if not any(isinstance(value, Mapping) for value in values):
        yield f"{name}: {', '.join(stderr.visible(str(value)) for value in values) or 'none'}"
        return
    yield f"{name}:"
    for value in values:
        yield from (f"  {'  ' if number else '- '}{line}" for number, line in enumerate(_fact_lines(value)))


def _short(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    mark = "…" if _can_print("…") else "..."
    return text[: characters - len(mark)].rstrip() + mark


def _can_print(text: str) -> bool:
    """Whether stdout's encoding has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
