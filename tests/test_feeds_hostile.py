"""Feeds made to keep a reader busy, or to fill its memory: each would take hours or gigabytes where it is not bounded.

Sizes are such that time growing with the square would be plain from a test that does not end.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from runoff.errors import SourceError
from runoff.feeds import parse

SIZE = 2_000_000
ITEM = "<title>Payouts</title><guid>1</guid>"


def rss(inside: str = "", head: str = "") -> bytes:
    return f'{head}<rss version="2.0"><channel><item>{ITEM}{inside}</item></channel></rss>'.encode()


def filled(unit: str) -> str:
    return unit * (SIZE // len(unit))


def entities(*declared: tuple[str, str]) -> str:
    inside = "".join(f'<!ENTITY {name} "{value}">' for name, value in declared)
    return f'<?xml version="1.0"?><!DOCTYPE rss [{inside}]>'


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    """Address space for 1.5 GB more than there is, so that a failure here ends one test and not the machine."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 1_500_000_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


LONG_AUTHORS = {
    "one word": filled("a"),
    "half an address": "x@" + filled("a."),
    "in pieces between comments": filled("a" * 200 + "<!---->"),
    "in CDATA sections": filled(f"<![CDATA[{'a' * 200}]]>"),
    "in references": filled("&#97;"),
}


@pytest.mark.parametrize("author", LONG_AUTHORS.values(), ids=LONG_AUTHORS)
@pytest.mark.parametrize("element", ["author", "managingEditor", "dc:creator"])
def test_long_authors(element: str, author: str) -> None:
    namespace = ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
    feed = parse(rss(f"<{element}{namespace}>{author}</{element}>"), "feed")
    assert feed.documents[0].title == "Payouts"
    assert len(feed.documents[0].author or "") <= 200


AUTHORS = {
    "<author>ada@shop.example (Ada L.)</author>": "Ada L.",
    "<author>Ada &lt;ada@shop.example&gt;</author>": "Ada",
    "<author>ada@shop.example</author>": "ada@shop.example",
    "<author>Ada &amp; Bo</author>": "Ada & Bo",
    "<author><name>Ada</name><email>ada@shop.example</email></author>": "Ada",
    "<author><name>Ada</name></author><author><name>Bo</name></author>": "Ada, Bo",
    "<author><name>Ada</name><email>a@x.example</email></author><author><name>Bo</name></author>": "Ada, Bo",
    "<author> </author>": None,
}


@pytest.mark.parametrize(("written", "expected"), AUTHORS.items(), ids=AUTHORS)
def test_usual_authors(written: str, expected: str | None) -> None:
    [document] = parse(rss(written), "feed").documents
    assert document.author == expected


def test_many_tags() -> None:
    feed = parse(rss("".join(f"<category>{number}</category>" for number in range(100_000))), "feed")
    assert feed.documents[0].tags == tuple(map(str, range(1000)))
    assert "1000 tags" in feed.warnings[0]


HEADS = {
    "line breaks": filled("\n"),
    "line breaks in a comment": f"<!--{filled(chr(10) + 'x')}-->",
    "half declarations": filled("<!"),
    "half document types": filled("<!DOCTYPE "),
    "half entities": filled("<!ENTITY "),
    "half values": filled('<!ENTITY a "'),
    "open angles": filled("< "),
    "entities": "<!DOCTYPE rss [" + "".join(f'<!ENTITY a{number} "x">' for number in range(80_000)) + "]>",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_long_heads(head: str) -> None:
    assert parse(rss(head=head), "feed").documents[0].title == "Payouts"


@pytest.mark.parametrize("head", [filled("<?xml "), filled("<?a?"), filled("<!--")], ids=["xml", "PI", "comment"])
def test_heads_without_end(head: str) -> None:
    with pytest.raises(SourceError, match="without any element"):
        parse(rss(head=head), "feed")


UNITS = ["<a ", "<!--", "<!x", "<", "&", "<a b='", "</", "<![CDATA[", "<div>", "<b></i>", "&#", "<x:y>", "<item>"]


@pytest.mark.parametrize("unit", UNITS)
def test_malformed_bodies(unit: str) -> None:
    body = unit * (200_000 // len(unit))
    assert parse(rss(f"<description>{body}</description>"), "feed").documents[0].title == "Payouts"


@pytest.mark.usefixtures("bounded_memory")
def test_a_long_entity_many_times() -> None:
    data = rss(f"<description>{'&a;' * 300_000}</description>", head=entities(("a", "x" * 1_000_000)))
    assert parse(data, "feed").documents[0].title == "Payouts"


@pytest.mark.usefixtures("bounded_memory")
def test_entities_of_entities() -> None:
    levels = [
        ("a", "ha" * 10),
        *((after, f"&{before};" * 10) for before, after in zip("abcdefgh", "bcdefghi", strict=True)),
    ]
    [document] = parse(rss("<description>&i;</description>", head=entities(*levels)), "feed").documents
    assert len(document.body) < 1000


def test_short_entities_are_read() -> None:
    head = entities(("shop", "Shop &#38; Co"), ("nbsp", "&#160;"), ("euro", "€"))
    [document] = parse(rss("<description>5&nbsp;&euro; for you</description>", head=head), "feed").documents
    assert document.body == "5 € for you"


@pytest.mark.parametrize("reference", ["&#0;", "&#xD800;", "&#x110000;", f"&#{'9' * 5000};", "&#xFFFF;", "&#1;"])
def test_references_to_no_character_do_no_harm(reference: str) -> None:
    feed = parse(rss(f"<description>a{reference}b</description>"), "feed")
    assert feed.documents[0].body == "a\ufffdb"
    assert feed.warnings == ()
