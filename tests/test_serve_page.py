"""The page in a real browser: both rounds, keyboard, dropped files, a key; and nothing of what a feed says runs."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runoff import Engine
from runoff.serve.service import Service
from runoff.serve.settings import Settings
from runoff.stages import ModelStages
from serving import Running, running, until

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

QUESTION = "How long does a payout to another country take?"
ATTACK = "<script>window.ran=1</script><img src=x onerror=window.ran=1><svg onload=window.ran=1>\"'><b>bold</b>"
ESCAPED = ATTACK.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
FEED = f"""<?xml version="1.0"?>
<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel>
<title>{ESCAPED}</title><link>https://blog.example/</link><description>{ESCAPED}</description>
<item><guid>{ESCAPED}</guid><title>{ESCAPED.replace("&lt;", "&amp;lt;")}</title><link>javascript:window.ran=1</link>
<description>{ESCAPED.replace("&lt;", "&amp;lt;")} payouts</description><dc:creator>{ESCAPED}</dc:creator>
<category>{ESCAPED}</category></item></channel></rss>"""
RECORD = {"id": ATTACK, "title": ATTACK, "text": f"payouts {ATTACK}", "author": ATTACK, "tags": [ATTACK]}


@functools.cache
def browser_path() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = browser_path()
    if path is None:
        pytest.skip("no chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, stages: ModelStages) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("page")
    settings = Settings(store=folder / "store")
    engine = Engine(settings.store, stages)
    engine.ingest(_articles(folder))
    with running(Service(settings, engine, folder / "runtime")) as server:
        yield server


@pytest.fixture
def page(browser: Any, server: Running) -> Iterator[Any]:
    """A page of the service that fails its test at an error, a broken policy, or a request to elsewhere."""
    yield from _page(browser, server)


def _page(browser: Any, server: Running) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: line.type == "error" and complaints.append(line.text))
    page.on("request", lambda request: request.url.startswith(server.url) or complaints.append(request.url))
    page.goto(server.url)
    yield page
    context.close()
    assert [line for line in complaints if "401" not in line and "422" not in line] == []


def _articles(folder: Path) -> Path:
    import json

    from conftest import ARTICLES

    path = folder / "articles.jsonl"
    path.write_text("".join(json.dumps({"title": title, "text": text}) + "\n" for title, text in ARTICLES))
    return path


def ask(page: Any, question: str = QUESTION) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    wait(page, "!document.body.classList.contains('busy') && document.querySelector('#second .hit')")


def wait(page: Any, expression: str) -> None:
    """Wait until an expression is true; the page's policy forbids playwright's own way, which evaluates text in it."""
    until(lambda: page.evaluate(f"Boolean({expression})"))


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.locator(selector).all_text_contents()
    return found


def test_both_rounds_are_shown_as_the_engine_has_them(page: Any, server: Running) -> None:
    ask(page)
    wanted = server.service.engine.search(QUESTION, 20, 20)
    first = sorted(wanted.hits, key=lambda hit: hit.first_stage.rank)
    assert texts(page, "#second .name") == [hit.title for hit in wanted.hits]
    assert texts(page, "#first .name") == [hit.title for hit in first]
    places = [(hit.first_stage.dense, hit.first_stage.lexical) for hit in first]
    assert texts(page, "#first .score") == [" · ".join(str(p.rank) if p else "\u2013" for p in pair) for pair in places]
    assert page.locator("#lines path").count() == len(wanted.hits)
    assert page.locator("#lines path.up").count() == sum(hit.rank < hit.first_stage.rank for hit in wanted.hits)
    built, _ = server.service.engine.prompt(QUESTION, max_tokens=2000)
    assert page.text_content("#prompt") == built.text
    assert f"{built.tokens:,} of 2,000 tokens" in page.text_content("#budget")
    assert {"rerank", "embed", "prompt"} <= {text.split()[0] for text in texts(page, "#stages li")}
    assert page.locator("#second .hit.used").count() == len(built.used)


def test_it_can_be_used_without_a_mouse(page: Any) -> None:
    wait(page, "document.activeElement.id === 'question'")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.wait_for_selector("#second .hit")
    page.focus("#second .hit >> nth=0")
    page.keyboard.press("ArrowDown")
    second = page.text_content("#second .hit >> nth=1 >> .name")
    assert page.text_content("#passage h3") == second
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.closest('ol').id") == "first"
    assert page.evaluate("document.activeElement.querySelector('.name').textContent") == second
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "question"


def test_a_setting_searches_anew(page: Any) -> None:
    ask(page)
    with page.expect_response("**/prompt") as answer:
        page.focus("#tokens")
        page.keyboard.press("Home")
    assert answer.value.json()["prompt"]["max_tokens"] == 250
    wait(page, "document.getElementById('budget').textContent.includes('of 250')")
    assert page.text_content("output[for=tokens]") == "250"


def test_an_error_is_shown_in_its_words(page: Any) -> None:
    page.evaluate("document.getElementById('question').removeAttribute('maxlength')")
    page.fill("#question", "word " * 3000)
    page.press("#question", "Enter")
    page.wait_for_selector("#problem:visible")
    assert "question" in page.text_content("#problem")


def test_files_of_ones_own_can_be_tried(page: Any, tmp_path: Path) -> None:
    (tmp_path / "otters.txt").write_text("Otters hold hands while they sleep.")
    ask(page, "What do otters do?")
    assert "otters" not in texts(page, "#second .name")
    page.set_input_files("#files", str(tmp_path / "otters.txt"))
    page.wait_for_selector("#leave:visible")
    wait(page, "document.querySelector('#second .name').textContent === 'otters'")
    assert "1 document from 1 file" in page.text_content("#trying")
    page.click("#leave")
    wait(page, "document.querySelectorAll('#second .hit').length > 5")


@pytest.mark.parametrize("name", ["feed.xml", "records.jsonl", "page.html", "notes.md", "notes.txt"])
def test_what_documents_say_is_shown_and_never_run(page: Any, tmp_path: Path, name: str) -> None:
    import json

    content = {"feed.xml": FEED, "records.jsonl": json.dumps({**RECORD, "url": "javascript:window.ran=1"})}
    (tmp_path / name).write_text(content.get(name, f"{ESCAPED}\n\npayouts {ESCAPED}\n"))
    page.fill("#question", ATTACK)
    page.set_input_files("#files", str(tmp_path / name))
    page.wait_for_selector("#leave:visible")
    page.wait_for_selector("#second .hit")
    for row in page.locator("#first .hit, #second .hit").all():
        row.click()
    assert "onerror" in page.text_content("#result")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("document.querySelectorAll('#result b:not(li b), #result img, #result script').length") == 0
    assert page.locator("#passage a[href^='javascript']").count() == 0


def test_a_file_that_cannot_be_read_is_named(page: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.xml").write_text("<x/>")
    page.set_input_files("#files", str(tmp_path / "empty.xml"))
    page.wait_for_selector("#problem:visible")
    assert "empty.xml" in page.text_content("#problem")
    assert str(tmp_path) not in page.text_content("#problem")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    ask(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    rows = page.locator("#second .hit").all()
    assert all(row.bounding_box()["width"] > 180 for row in rows)


def test_a_key_is_asked_for_and_kept(browser: Any, tmp_path: Path, stages: ModelStages, articles: Path) -> None:
    settings = Settings(store=tmp_path / "store", api_key="open sesame")
    engine = Engine(settings.store, stages)
    engine.ingest(articles)
    with running(Service(settings, engine, tmp_path / "runtime")) as server:
        for page in _page(browser, server):
            page.wait_for_selector("#unlock:visible")
            page.fill("#question", QUESTION)
            page.fill("#key", "open sesame")
            page.press("#key", "Enter")
            page.wait_for_selector("#second .hit")
            assert page.locator("#unlock").is_hidden()


def test_the_description_of_the_api_needs_no_network(page: Any, server: Running) -> None:
    page.goto(f"{server.url}/docs")
    page.wait_for_selector("details")
    paths = set(texts(page, "summary code"))
    assert {"/search", "/prompt", "/v2/rerank", "/rerank", "/v1/embeddings", "/embed"} <= paths
    entry = page.locator("details", has=page.locator("summary code", has_text="/v2/rerank"))
    entry.locator("summary").click()
    entry.locator("button").click()
    wait(page, "[...document.querySelectorAll('pre')].some(p => p.textContent.includes('relevance_score'))")
