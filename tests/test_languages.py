"""Language tags: to one form, or none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runoff import languages

TAGS = {
    "en": "en",
    "EN-us": "en-US",
    "en_GB": "en-GB",
    "IT-it": "it-IT",
    " pt-br\n": "pt-BR",
    "zh-hans": "zh-Hans",
    "zh-Hant-TW": "zh-Hant-TW",
    "zh-cmn-Hans-CN": "zh-Hans-CN",
    "es-419": "es-419",
    "de-DE-1996": "de-DE",
    "sl-rozaj-biske": "sl",
    "en-a-bbb-x-a-ccc": "en",
    "fil": "fil",
    "iw": "he",
    "in-ID": "id-ID",
}
NONE = [
    "",
    "e",
    "english",
    "en, fr",
    "en-",
    "-en",
    "en us",
    "x-default",
    "und",
    "mul",
    "zxx-Latn",
    "i-klingon",
    "日本語",
    "1",
]


@pytest.mark.parametrize(("tag", "expected"), TAGS.items())
def test_tags(tag: str, expected: str) -> None:
    assert languages.normal(tag) == expected


@pytest.mark.parametrize("tag", [*NONE, "rss_0.93.channel.language", "en" * 1000, "a-" * 1000, "en-a-bb" * 1000])
def test_what_is_no_language_is_none(tag: str) -> None:
    assert languages.normal(tag) is None


@settings(derandomize=True, deadline=None)
@given(st.text(alphabet="enDEusx-_019", max_size=20) | st.text())
def test_any_text_is_a_tag_or_none(tag: str) -> None:
    found = languages.normal(tag)
    assert found is None or languages.normal(found) == found
