"""Word-piece ids of usual and hostile texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
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


def test_a_batch_gives_what_single_texts_give_on_any_number_of_threads(tokenizer: Tokenizer) -> None:
    texts = ["one", "", "café 漢字 🏦", "a\x00b", "\ud800 lone", "[CLS] [SEP]"]
    expected = [tokenizer.encode(text).tolist() for text in texts]
    for parallel in (False, True):
        chosen = Tokenizer(tokenizer._native, parallel=parallel)
        assert [ids.tolist() for ids in chosen.encode_batch(texts)] == expected
        assert all(ids.dtype == np.int32 for ids in chosen.encode_batch(texts))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_a_limit_on_threads_keeps_batches_on_the_callers(tokenizer: Tokenizer) -> None:
    path = models.find(models.DEFAULT_CROSS_ENCODER).tokenizer_path
    code = (
        "import os, sys; from pathlib import Path; from runoff.tokenizer import Tokenizer\n"
        "tokenizer = Tokenizer.load(Path(sys.argv[1]), limit=1); before = len(os.listdir('/proc/self/task'))\n"
        "tokenizer.encode_batch(['some words'] * 500); print(len(os.listdir('/proc/self/task')) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"


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
