"""The README's snippets run, and its session shows commands that exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from runoff.cli.app import app
from runoff.demo import tour

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = sorted(ROOT.glob("docs/*.md"))


def test_python_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert snippets
    shutil.copy(tour.feed_path(), tmp_path / "feed.xml")
    monkeypatch.chdir(tmp_path)
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6
    assert printed[-1].startswith("1 ")  # the passage with the number of inhabitants


def test_commands_and_options_in_the_documents_exist() -> None:
    text = "\n".join([README, *(path.read_text(encoding="utf-8") for path in DOCS)]).replace("\\\n", " ")
    calls = re.findall(r"^\$ runoff (.*)$", text, re.MULTILINE)
    assert len(calls) >= 4
    for call in calls:
        command, words = get_command(app), shlex.split(call)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, call


def test_files_that_the_documents_link_to_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


PRINTERS = ("report", "evaluation_page", "fusion_page", "caches_page", "deadlines_page", "scale_page")


@pytest.mark.parametrize("printer", PRINTERS)
def test_pages_are_what_the_results_give(printer: str) -> None:
    subprocess.run([sys.executable, str(ROOT / f"benchmarks/{printer}.py"), "--check"], check=True, capture_output=True)
