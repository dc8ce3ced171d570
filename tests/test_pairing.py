"""Queries and candidates from text without labels, and the command that fits exits from them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from runoff import models, native, pairing
from runoff.chunking import ChunkSettings
from runoff.cli.app import app
from runoff.documents import Document
from runoff.encoder import BiEncoder
from runoff.errors import BackendError, SourceError
from runoff.exits import FILE, ExitHeads
from runoff.reranker import CrossEncoder, Reranker

DOCUMENTS = [
    Document("0" * 16, "Why payouts take two days", "Why so long? Banks close at night. Is there a faster way, then?"),
    Document("1" * 16, "Signing webhooks", "Compare in constant time."),
    Document("2" * 16, "Why payouts take two days", "Version 2.1 is out?\n\nOk?"),
]


def test_headlines_are_titles_of_some_length_once() -> None:
    assert pairing.headlines(DOCUMENTS) == ["Why payouts take two days"]


def test_questions_are_sentences_that_ask() -> None:
    found = pairing.questions(DOCUMENTS)
    assert "Why so long?" in found
    assert "Is there a faster way, then?" in found
    assert not any("Banks" in question or question == "Ok?" for question in found)


def test_queries_are_read_as_text_or_json(tmp_path: Path) -> None:
    path = tmp_path / "queries"
    path.write_text(
        'how long?\n\n{"id": "q1", "text": "why?"}\n{"question": "who?"}\n{"other": 1}\n{broken\nhow long?\n'
    )
    assert pairing.read_queries(path) == ["how long?", "why?", "who?", "{broken"]


def test_a_file_without_queries_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(SourceError, match="no query"):
        pairing.read_queries(tmp_path / "empty")
    with pytest.raises(SourceError, match="cannot be read"):
        pairing.read_queries(tmp_path / "missing")


def test_a_draw_is_seeded_and_keeps_the_order() -> None:
    pool = [str(number) for number in range(50)]
    drawn = pairing.draw(pool, 10, 3)
    assert drawn == pairing.draw(pool, 10, 3) != pairing.draw(pool, 10, 4)
    assert drawn == sorted(drawn, key=int)
    assert pairing.draw(pool, 99, 3) == pool


def test_candidates_are_the_nearest_chunks(bi_encoder: BiEncoder, cross_encoder: CrossEncoder) -> None:
    tokenizer = cross_encoder.tokenizer
    found = pairing.pairs(["webhook signatures"], DOCUMENTS, bi_encoder, tokenizer, 2, ChunkSettings())
    ((query, passages, similarities),) = found
    assert similarities[0] > similarities[1]
    np.testing.assert_array_equal(query, tokenizer.encode("webhook signatures"))
    first = passages.ids[passages.starts[0] : passages.starts[0] + passages.lengths[0]]
    np.testing.assert_array_equal(first, tokenizer.encode("Signing webhooks"))
    assert len(passages) == 2


def test_text_is_needed(bi_encoder: BiEncoder, cross_encoder: CrossEncoder) -> None:
    with pytest.raises(SourceError, match="no text"):
        pairing.pairs(["who?"], [Document("0" * 16, "", "")], bi_encoder, cross_encoder.tokenizer, 2, ChunkSettings())


def test_the_command_fits_heads_that_a_reranker_uses(articles: Path, tmp_path: Path) -> None:
    try:
        native.NativeBackend.load(models.find(models.DEFAULT_CROSS_ENCODER))
    except BackendError as error:
        pytest.skip(f"no native backend: {error}")
    folder = tmp_path / "model"
    shutil.copytree(models.root() / models.DEFAULT_CROSS_ENCODER, folder)
    (folder / FILE).unlink(missing_ok=True)
    queries = tmp_path / "queries.txt"
    queries.write_text(
        "".join(f"what about {word}?\n" for word in ("payouts", "bread", "disputes", "webhooks", "rails"))
    )
    command = ["models", "fit-exits", str(folder), "--text", str(articles), "--queries", str(queries)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "3 exits" in done.output
    first = (folder / FILE).read_bytes()
    CliRunner().invoke(app, command, catch_exceptions=False)
    assert (folder / FILE).read_bytes() == first
    said = json.loads(first)["fitted"]
    assert (said["queries"], said["queries_from"]) == (5, "queries.txt")
    ranker = Reranker.load(str(folder), backend="native")
    assert isinstance(ranker.encoder.exits, ExitHeads)
    hits = ranker.rank("how long do payouts take?", ["Two days.", "Bread."], 1, effort="fast")
    assert hits[0].text == "Two days."


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no text to fit on"):
        CliRunner().invoke(app, ["models", "fit-exits", models.DEFAULT_CROSS_ENCODER], catch_exceptions=False)
