"""Word-piece ids of usual and hostile texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from runoff import models
from runoff.errors import ModelError
from runoff.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(models.find(models.DEFAULT_CROSS_ENCODER).tokenizer_path)


def test_ids_are_the_models_own_and_bare(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("Payouts, abroad!").tolist() == [3477, 12166, 1010, 6917, 999]
    assert tokenizer.encode("").tolist() == []


def test_nothing_is_cut(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("word " * 5000)) == 5000


def test_a_batch_gives_what_single_texts_give(tokenizer: Tokenizer) -> None:
    texts = ["one", "", "café 漢字 🏦", "a\x00b", "\ud800 lone", "[CLS] [SEP]"]
    assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == [tokenizer.encode(t).tolist() for t in texts]


def test_lone_surrogates_count_as_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a \ud800 b").tolist() == tokenizer.encode("a \ufffd b").tolist()


def test_both_models_share_one_vocabulary(tokenizer: Tokenizer) -> None:
    other = Tokenizer.load(models.find(models.DEFAULT_BI_ENCODER).tokenizer_path)
    text = "Ünïcode façade, 3.5 % of £20 — naïve? 漢字 #hashtag @name"
    assert other.encode(text).tolist() == tokenizer.encode(text).tolist()


def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Tokenizer.load(path)
    path.write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Tokenizer.load(path)
