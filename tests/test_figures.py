"""What benchmarks share: their options, and figures that let a stopped one go on."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Any]
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("harness")


@pytest.fixture
def figures(harness: Any, tmp_path: Path) -> Make:
    return lambda **settings: harness.Figures("contest", tmp_path, settings)


def never() -> Any:
    raise AssertionError("measured again")


def test_a_later_run_takes_only_what_is_missing(figures: Make) -> None:
    first = figures(threads=2)
    assert first.take("round 0, a", lambda: 1.5) == 1.5
    assert first.take("round 0, a", never) == 1.5
    later = figures(threads=2)
    assert later.take("round 0, a", never) == 1.5
    assert later.take("round 0, b", lambda: {"ms": [2.0]}) == {"ms": [2.0]}


def test_what_failed_is_not_kept(figures: Make) -> None:
    with pytest.raises(AssertionError):
        figures().take("a", never)
    assert figures().take("a", lambda: 3) == 3


def test_a_line_that_was_cut_short_costs_itself_only(figures: Make, tmp_path: Path) -> None:
    figures().take("a", lambda: 1)
    path = tmp_path / "contest.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + '["b", [1, 2', encoding="utf-8")
    later = figures()
    later.take("c", lambda: 3)
    assert later.take("b", lambda: 2) == 2
    assert [figures().take(name, never) for name in "abc"] == [1, 2, 3]


def test_figures_of_other_settings_are_refused(figures: Make) -> None:
    figures(threads=2).take("a", lambda: 1)
    with pytest.raises(SystemExit, match="other settings"):
        figures(threads=1)


def test_every_benchmark_has_its_line_and_takes_the_options_of_all() -> None:
    readme = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+\.py)`", "".join(line for line in readme.splitlines() if line.startswith("| `"))))
    takes = {
        path.name
        for path in BENCHMARKS.glob("*.py")
        if re.search(r"^(?=.*= (_parser|harness\.parser|contenders\.options)\()", path.read_text("utf-8"), re.MULTILINE)
    } - {"contenders.py"}
    assert takes == listed
    makefile = (BENCHMARKS.parent / "Makefile").read_text(encoding="utf-8")
    assert not [name for name in listed if not re.search(rf"\b{name.removesuffix('.py')}\b", makefile)]


def test_threads_bound_the_process_and_are_what_is_told(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNOFF_THREADS", "64")
    assert harness.parser("").parse_args([]).threads is None
    assert harness.parser("").parse_args(["--threads", "1"]).threads == 1
    assert harness.machine()["threads"] == 1


@pytest.mark.parametrize(
    ("times", "expected"),
    [([1.0], [1.0]), ([2.0, 1.0], [2.0, 1.0]), ([2.0, 3.0, 4.0, 1.0], [2.0, 3.0, 4.0])],
)
def test_the_quick_form_repeats_before_it_fails(
    harness: Any, monkeypatch: pytest.MonkeyPatch, times: list[float], expected: list[float]
) -> None:
    quick, left = importlib.import_module("quick"), iter(times)
    rows = lambda pair, rounds: {"fast": {"median_ms": next(left)}, "slow": {"median_ms": 1.0}}  # noqa: E731
    monkeypatch.setattr(harness, "alternate", rows)
    assert quick.compare({}, 1.1, 1) == expected
