"""Ids: stable, and the same for the same thing only."""

from __future__ import annotations

import random
import re
from itertools import chain

import pytest

from runoff import identity
from runoff.documents import Document

SCOPE = "https://shop.example/feed"


def entry(title: str, url: str | None = None, published: str | None = None) -> Document:
    return Document("", title, "", url=url, published=published)


def test_a_digest_is_16_hexadecimal_digits_for_good() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", identity.digest("a\ud800"))
    assert identity.digest("a") == "ca978112ca1bbdca"  # how sha256("a") begins


SAME = [
    ("http://shop.example/a", "https://shop.example/a"),
    ("https://shop.example/a/", "https://shop.example/a"),
    ("https://SHOP.example/a", "https://shop.example/a"),
    ("https://shop.example", "https://shop.example/"),
    ("https://shop.example:443/a", "https://shop.example/a"),
    ("http://shop.example:80/a", "https://shop.example/a"),
    ("https://user:pass@shop.example/a", "https://shop.example/a"),
    (" https://shop.example/a\n", "https://shop.example/a"),
]
OTHER = [
    ("https://shop.example/a", "https://shop.example/A"),
    ("https://shop.example/a", "https://shop.example/a?page=2"),
    ("https://shop.example/a", "https://shop.example/a#v2"),
    ("https://shop.example/a", "https://shop.example:444/a"),
    ("https://shop.example/a", "https://www.shop.example/a"),
    ("tag:shop.example,2026:a", "tag:shop.example,2026:A"),
    ("urn:a", "urn:a/"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_forms_of_one_address(one: str, two: str) -> None:
    assert identity.address(one) == identity.address(two)


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_different_addresses(one: str, two: str) -> None:
    assert identity.address(one) != identity.address(two)


@pytest.mark.parametrize("uri", ["http://[::1", "", "http://", "\x00", "a b"])
def test_any_text_has_a_form(uri: str) -> None:
    assert isinstance(identity.address(uri), str)


@pytest.mark.parametrize(
    "uri", ["https://shop.example/1", "tag:shop.example,2026:1", "urn:uuid:0", "URN:x", "doi:10.1/x"]
)
def test_unique_everywhere(uri: str) -> None:
    assert identity.is_unique(uri)


@pytest.mark.parametrize("uri", ["", "42", "post:42", "http:", "https://", "mailto:a@shop.example", "urn:", "/a/b"])
def test_unique_in_its_feed_at_most(uri: str) -> None:
    assert not identity.is_unique(uri)


def test_the_rules_in_their_order() -> None:
    linked = entry("a", "https://shop.example/1")
    assert identity.of_entry("urn:1", linked, SCOPE) == "urn:1"
    assert identity.of_entry("1", linked, SCOPE) == identity.of_entry("1", entry("b"), SCOPE)
    assert identity.of_entry("1", linked, SCOPE) != identity.of_entry("1", linked, "https://other.example/feed")
    assert identity.of_entry(" ", linked, SCOPE) == identity.address("https://shop.example/1")
    bare = {identity.of_entry("", entry(title), scope) for title in "ab" for scope in (SCOPE, "other")}
    assert len(bare) == 4


def settled(*entries: tuple[str, Document]) -> dict[str, str]:
    """Ids by title."""
    return {one.document.title: one.document.id for one in identity.settle(entries)}


def test_links_tell_apart_what_shares_an_id() -> None:
    found = settled(("same", entry("a", "https://shop.example/a")), ("same", entry("b", "https://shop.example/b")))
    assert len(set(found.values())) == 2
    edited = settled(("same", entry("A", "https://shop.example/a")), ("same", entry("b", "https://shop.example/b")))
    assert edited["A"] == found["a"]


def test_the_newest_version_has_the_identity() -> None:
    old, new = entry("old", published="2026-01-01T00:00:00Z"), entry("new", published="2026-02-01T00:00:00Z")
    both = settled(("x", old), ("x", new))
    assert both["new"] == settled(("x", new))["new"] == identity.digest("x")
    assert both["old"] != both["new"]


def test_repetitions_are_one_document_whatever_the_order() -> None:
    repeated = [entry("a", published=None), entry("a", published="2026-01-01T00:00:00Z"), entry("a")]
    results = {identity.settle([("x", document) for document in order]) for order in (repeated, repeated[::-1])}
    [[one]] = results
    assert one.document.published == "2026-01-01T00:00:00Z"


def test_no_order_changes_an_id() -> None:
    shuffle = random.Random(3)
    entries = [
        (key, entry(title, link, date))
        for key in ("x", "y")
        for title in ("a", "b", "c")
        for link in (None, "https://shop.example/1", "http://shop.example/1/")
        for date in (None, "2026-01-01T00:00:00Z")
    ]
    wanted = set(identity.settle(entries))
    assert len({one.document.id for one in wanted}) == len(wanted)
    for _ in range(20):
        shuffle.shuffle(entries)
        assert set(identity.settle(entries)) == wanted


def test_the_ids_of_an_entry_are_the_same_whatever_stands_beside_it() -> None:
    entries = [
        ("x", entry(title, f"https://shop.example/{link}", f"2026-01-0{day}T00:00:00Z"))
        for day, (title, link) in enumerate([("a", 1), ("b", 1), ("c", 2)], start=1)
    ]
    ids = {one.document.title: one.ids for one in identity.settle(entries)}
    for chosen in ([0], [1], [2], [0, 1], [0, 2], [1, 2]):
        for one in identity.settle([entries[number] for number in chosen]):
            assert one.document.id in one.ids
            assert set(ids[one.document.title]) <= set(one.ids)
    assert len(set(chain(*ids.values()))) == 9  # the plain id is what b and c may share
