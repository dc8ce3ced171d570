"""What lets a stopped benchmark go on: figures that are kept, and refused where they hold for something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Any]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import harness

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
