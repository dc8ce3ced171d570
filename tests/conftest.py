"""Shared parts of the tests: the real models, loaded once, and a small corpus of our own."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runoff import costs, models
from runoff.encoder import BiEncoder
from runoff.engine import Engine
from runoff.reranker import CrossEncoder
from runoff.stages import ModelStages

SHARED = Path(__file__).parents[2] / "shared" / "data"

ARTICLES = [
    (
        "Why cross-border payouts take two days",
        "A payout to a merchant abroad leaves our account in one currency and arrives in another. We buy the target "
        "currency first, then hand the amount to a partner bank in the merchant's country, which pays it out over the "
        "local rail. Weekends on either side add a day.",
    ),
    (
        "Domestic payouts now run every hour",
        "Merchants with a bank account in the same country as their shop receive payouts every hour. No currency is "
        "exchanged and no partner bank is involved, so a failed payout is known within minutes.",
    ),
    (
        "Evidence that wins disputes",
        "A cardholder who disputes a charge starts a clock. Upload the delivery receipt, the customer's messages and "
        "the terms that were shown at checkout before the deadline, or the bank decides without you.",
    ),
    (
        "Signing webhooks",
        "Each webhook carries a timestamp and an HMAC of the body. Compare the signature in constant time and reject "
        "anything that is older than five minutes.",
    ),
    (
        "Baking bread in the office",
        "The oven on the third floor is warm from six in the morning. Flour, water, salt and patience are all that a "
        "sourdough needs.",
    ),
]


@functools.cache
def chosen_backend() -> str:
    """Name of the backend that `auto` takes on this machine."""
    return BiEncoder.load().backend


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the costs of pairs are kept while tests run, instead of the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(costs.FOLDER_VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="session")
def stages() -> ModelStages:
    """The default models on whatever backend this machine takes."""
    bi, cross = (models.find(name) for name in (models.DEFAULT_BI_ENCODER, models.DEFAULT_CROSS_ENCODER))
    return ModelStages(bi, cross, "auto", None)


@pytest.fixture(scope="session")
def bi_encoder(stages: ModelStages) -> BiEncoder:
    return stages.encoder


@pytest.fixture(scope="session")
def cross_encoder(stages: ModelStages) -> CrossEncoder:
    return stages.scorer


@pytest.fixture
def engine(tmp_path: Path, stages: ModelStages) -> Engine:
    """An engine over a store that does not exist yet, with models that are loaded once for all tests."""
    return Engine(tmp_path / "store", stages)


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    """A .jsonl file of five short documents."""
    path = tmp_path / "articles.jsonl"
    records = [
        {"id": f"a{number}", "title": title, "text": text, "url": f"https://blog.example/{number}"}
        for number, (title, text) in enumerate(ARTICLES)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def shared_feeds() -> Path:
    """Folder of real feeds, where the machine has it."""
    if not (SHARED / "feeds").is_dir():
        pytest.skip(f"no real feeds at {SHARED / 'feeds'}")
    return SHARED / "feeds"
