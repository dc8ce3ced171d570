"""Token counts against tiktoken's own cl100k_base, built from the same file without a network."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest
import tiktoken
import tiktoken.load
from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # ships no types

from runoff import models, tokens
from runoff.errors import ArtifactDamagedError, ModelError
from runoff.tokens import Counter, TokenCounter, encodable

FRAGMENTS = [
    *("payouts", " abroad", "Don't", "WE'LL", " 1234567", "<|endoftext|>", "<|fim_prefix|>", "!?…", "://", "\t"),
    *(" ", "  ", "\n", "\r\n", "\n\n \n", "\x85", "\u2028", "\u3000", "\xa0", "\x1c", "\x00", "\ud83d", "\ude00"),
    *(
        "日本語",
        "한국어",
        "ไทย",
        "العربية",
        "e\u0301",
        "🙂",
        "👨‍👩‍👧‍👦",
        "🇩🇪",
        "ﬁ",
        "\u017f",
        "\ufeff",
        "\u200b",
        "\U0010ffff",
        "aaaa",
    ),
]


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return TokenCounter.load()


@pytest.fixture(scope="module")
def reference() -> tiktoken.Encoding:
    """The encoding that tiktoken itself defines, over the vocabulary of this repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", "")
        path = str(models.vocabulary_path())
        patch.setattr(
            openai_public,
            "load_tiktoken_bpe",
            lambda _, expected_hash: tiktoken.load.load_tiktoken_bpe(path, expected_hash),
        )
        return tiktoken.Encoding(**openai_public.cl100k_base())


def test_tokens_are_those_of_tiktoken(counter: TokenCounter, reference: tiktoken.Encoding) -> None:
    rng = random.Random(1)
    for _ in range(3000):
        text = "".join(rng.choices(FRAGMENTS, k=rng.randint(0, 30)))
        expected = reference.encode(text, disallowed_special=())
        assert counter.encode(text) == expected
        assert counter.count(text) == len(expected)


def test_special_tokens_are_those_of_tiktoken(counter: TokenCounter, reference: tiktoken.Encoding) -> None:
    assert counter.encoding.special_tokens_set == reference.special_tokens_set
    assert counter.encoding.n_vocab == reference.n_vocab


def test_what_looks_like_a_special_token_is_text(counter: TokenCounter) -> None:
    assert counter.count("<|endoftext|>") == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("\ud800\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude42", "🙂"),
        ("\ufeffmark", "\ufeffmark"),
    ],
)
def test_surrogates_are_joined_or_replaced(counter: TokenCounter, text: str, expected: str) -> None:
    assert encodable(text) == expected
    assert counter.encode(text) == counter.encode(expected)


@pytest.mark.parametrize("run", [" ", "\t", "\n", "\u3000", " \n", "\r\n", "\n \t"])
@pytest.mark.parametrize("before", ["", "word", "stop!"])
@pytest.mark.parametrize("after", ["", "word", "!", "7"])
def test_a_long_run_of_white_space_is_cut_where_the_pattern_cuts(
    counter: TokenCounter, reference: tiktoken.Encoding, before: str, run: str, after: str
) -> None:
    text = before + run * 120_000 + after
    assert counter.encode(text) == reference.encode(text, disallowed_special=())


def test_a_long_run_may_end_in_spaces_after_its_last_line_break(
    counter: TokenCounter, reference: tiktoken.Encoding
) -> None:
    text = "stop!" + "\n" * 70_000 + " " * 70_000 + "word" + " " * 110_000 + "\n" + "\t" * 5 + "word"
    assert counter.encode(text) == reference.encode(text, disallowed_special=())


@pytest.mark.parametrize("text", [" " * 1_000_001 + "x", "\t" * 1_100_000 + "x", "a" * 1_000_000, "^" * 1_000_000])
def test_a_megabyte_of_one_character_is_counted(counter: TokenCounter, text: str) -> None:
    assert 0 < counter.count(text) < len(text)


def test_any_tiktoken_encoding_fits() -> None:
    encoding = tiktoken.Encoding(
        "bytes", pat_str=".", mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={}
    )
    counter: Counter = TokenCounter(encoding)
    assert counter.count("aé") == 3


def test_threads_share_a_counter(counter: TokenCounter) -> None:
    texts = [f"passage {number} " * 200 for number in range(16)]
    expected = [counter.count(text) for text in texts]
    counts: dict[int, list[int]] = {}
    threads = [
        threading.Thread(target=lambda n=number: counts.update({n: [counter.count(text) for text in texts]}))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [counts[number] for number in range(4)] == [expected] * 4


def test_a_missing_vocabulary_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.tiktoken: cannot be read"):
        TokenCounter.load(tmp_path / "nothing.tiktoken")


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "not a vocabulary"])
def test_a_damaged_vocabulary_is_refused_before_it_is_parsed(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    shutil.copyfile(models.vocabulary_path(), path)
    data = path.read_bytes()
    flipped = data[:1000] + bytes([data[1000] ^ 1]) + data[1001:]
    path.write_bytes({"flip": flipped, "truncate": data[:-1], "empty": b""}.get(damage, b"<html>"))
    monkeypatch.setattr(tokens, "_encoding", lambda _: pytest.fail("parsed"))
    with pytest.raises(ArtifactDamagedError, match=r"cl100k_base\.tiktoken: .* expected cl100k_base"):
        TokenCounter.load(path)
