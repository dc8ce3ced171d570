"""Feeds to documents: small ones written here, hostile ones, and real ones where the machine has them."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runoff import feeds, sources
from runoff.documents import Document
from runoff.errors import SourceError
from runoff.feeds import ParsedFeed, parse

SOURCE = "https://blog.shop.example/feed"


def rss(*items: str, head: str = "<title>Shop</title>") -> bytes:
    channel = head + "".join(f"<item>{item}</item>" for item in items)
    return f'<?xml version="1.0"?><rss version="2.0" {NAMESPACES}><channel>{channel}</channel></rss>'.encode()


def atom(*entries: str, head: str = "<title>Shop</title>") -> bytes:
    feed = head + "".join(f"<entry>{entry}</entry>" for entry in entries)
    return f'<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom">{feed}</feed>'.encode()


def json_feed(*items: object, **more: object) -> bytes:
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "items": items} | more).encode()


NAMESPACES = 'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
GOOD = "<title>Payouts</title><link>https://shop.example/1</link><guid>g1</guid><description>Two days.</description>"


def read(data: bytes, source: str = SOURCE) -> ParsedFeed:
    return parse(data, source)


def only(data: bytes) -> Document:
    """The one document of a feed without anything odd about it."""
    feed = read(data)
    assert feed.warnings == ()
    [document] = feed.documents
    return document


def refused(data: bytes) -> str:
    with pytest.raises(SourceError) as caught:
        read(data)
    assert str(caught.value).startswith(SOURCE)
    assert "expected" in str(caught.value)
    return str(caught.value)


def ids(feed: ParsedFeed) -> list[str]:
    return [document.id for document in feed.documents]


def test_an_rss_entry() -> None:
    document = only(
        rss(
            GOOD + "<pubDate>Mon, 02 Mar 2026 10:00:00 +0100</pubDate><dc:creator>Ada &amp; Co</dc:creator>"
            "<category>fx</category><category>payouts</category><category>fx</category>"
        )
    )
    assert re.fullmatch(r"[0-9a-f]{16}", document.id)
    assert document == Document(
        document.id,
        "Payouts",
        "Two days.",
        url="https://shop.example/1",
        source=SOURCE,
        published="2026-03-02T09:00:00Z",
        author="Ada & Co",
        tags=("fx", "payouts"),
    )


def test_an_atom_entry() -> None:
    document = only(
        atom(
            "<id>tag:shop.example,2026:1</id><title type='html'>&lt;b&gt;Fees&lt;/b&gt; &amp;amp; more</title>"
            "<link href='https://shop.example/fees'/><published>2026-03-02T10:00:00+01:00</published>"
            "<updated>2026-04-01T00:00:00Z</updated><author><name>Ada</name></author><category term='fx'/>"
            "<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'><p>One</p><p>Two</p></div></content>"
        )
    )
    assert (document.title, document.body) == ("Fees & more", "One\n\nTwo")
    assert (document.url, document.published) == ("https://shop.example/fees", "2026-03-02T09:00:00Z")
    assert (document.author, document.tags) == ("Ada", ("fx",))


def test_an_rdf_entry() -> None:
    document = only(
        b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">'
        b"<channel><title>Shop</title></channel><item rdf:about='https://shop.example/1'><title>Payouts</title>"
        b"<link>https://shop.example/1</link><description>Two days.</description></item></rdf:RDF>"
    )
    assert (document.title, document.body, document.url) == ("Payouts", "Two days.", "https://shop.example/1")


def test_a_json_entry() -> None:
    item = {"id": "1", "url": "https://shop.example/1", "title": "Payouts", "content_html": "<p>Two <b>days</b>"}
    item |= {"date_published": "2026-03-02T10:00:00+01:00"}
    document = only(json.dumps({"version": "https://jsonfeed.org/version/1.1", "items": [item]}).encode())
    assert (document.title, document.body, document.url) == ("Payouts", "Two days", "https://shop.example/1")
    assert document.published == "2026-03-02T09:00:00Z"


BODIES = {
    "content": ("A summary.", "<p>The whole long content.</p>", "The whole long content."),
    "summary": ("A summary that is far longer.", "<p>Short.</p>", "A summary that is far longer."),
    "by text, not by markup": ("A summary of words.", f"<p class='{'x' * 90}'>Short.</p>", "A summary of words."),
    "summary alone": ("A summary.", "", "A summary."),
}


@pytest.mark.parametrize(("summary", "content", "expected"), BODIES.values(), ids=BODIES)
def test_the_longest_of_content_and_summary(summary: str, content: str, expected: str) -> None:
    encoded = f"<content:encoded><![CDATA[{content}]]></content:encoded>" if content else ""
    assert only(rss(f"<title>t</title><description>{summary}</description>{encoded}")).body == expected


TITLES = {
    "plain": ("Fees", "Fees"),
    "entity": ("Fish &amp; chips", "Fish & chips"),
    "escaped twice": ("Fish &amp;amp; chips", "Fish & chips"),
    "escaped markup": ("&lt;b&gt;Big&lt;/b&gt; news", "Big news"),
    "CDATA markup": ("<![CDATA[<i>Big</i> news &amp; more]]>", "Big news & more"),
    "white space": ("\n  Two\n  lines \t", "Two lines"),
    "less than": ("1 &lt; 2", "1 < 2"),
    "type parameter": ("A List&lt;String&gt;", "A List<String>"),
    "script": ("a&lt;script&gt;b()&lt;/script&gt;c", "ac"),
}


@pytest.mark.parametrize(("written", "expected"), TITLES.values(), ids=TITLES)
def test_titles_of_rss(written: str, expected: str) -> None:
    assert only(rss(f"<title>{written}</title>")).title == expected


@pytest.mark.parametrize(("kind", "expected"), [("text", "Use <b> & <i>"), ("html", "Use &")])
def test_texts_of_atom_are_what_they_say(kind: str, expected: str) -> None:
    written = "Use &lt;b&gt; &amp; &lt;i&gt;"
    document = only(
        atom(f"<id>urn:a:1</id><title type='{kind}'>{written}</title><summary type='{kind}'>{written}</summary>")
    )
    assert (document.title, document.body) == (expected, expected)


def test_markup_that_is_called_text_is_markup() -> None:
    document = only(
        atom("<id>urn:a:1</id><title>t</title><summary>&lt;p&gt;One&lt;/p&gt;&lt;p&gt;Two&lt;/p&gt;</summary>")
    )
    assert document.body == "One\n\nTwo"


def test_binary_content_is_no_text() -> None:
    content = "<content type='image/png'>iVBORw0KGgoAAAANSUhEUgAA</content><summary>A picture.</summary>"
    assert only(atom(f"<id>urn:a:1</id><title>t</title>{content}")).body == "A picture."


DATES = {
    "zone": ("Mon, 02 Mar 2026 10:00:00 +0530", "2026-03-02T04:30:00Z"),
    "named zone": ("Mon, 02 Mar 2026 10:00:00 EST", "2026-03-02T15:00:00Z"),
    "no weekday, no seconds": ("2 Mar 2026 10:00 GMT", "2026-03-02T10:00:00Z"),
    "wrong weekday": ("Sun, 02 Mar 2026 10:00:00 GMT", "2026-03-02T10:00:00Z"),
    "two digits of a year": ("Mon, 02 Mar 26 10:00:00 GMT", "2026-03-02T10:00:00Z"),
    "ISO 8601": ("2026-03-02T10:00:00.123-02:00", "2026-03-02T12:00:00Z"),
    "date alone": ("2026-03-02", "2026-03-02T00:00:00Z"),
    "leap second": ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
    "before 1970": ("1901-02-03T04:05:06Z", "1901-02-03T04:05:06Z"),
    "empty": ("", None),
    "no date": ("yesterday", None),
    "no year": ("--03-02", None),
    "a time": ("10:30", None),
    "a day of no month": ("---07", None),
    "a day without a year": ("Mon, 02 Mar 10:00:00 GMT", None),
    "a weekday": ("Monday 10:00", None),
    "another language": ("Lun, 02 Mars 2026 10:00:00 GMT", "2026-03-02T10:00:00Z"),
    "impossible day": ("2026-02-30T00:00:00Z", None),
    "month 13": ("2026-13-01", None),
    "year 0": ("0000-01-01T00:00:00Z", None),
    "end of time": ("9999-12-31T23:59:59-12:00", None),
    "a number": ("1772445600", None),
}


@pytest.mark.parametrize(("written", "expected"), DATES.values(), ids=DATES)
def test_dates(written: str, expected: str | None) -> None:
    assert only(rss(f"{GOOD}<pubDate>{written}</pubDate>")).published == expected
    assert only(atom(f"<id>urn:a:1</id><title>t</title><published>{written}</published>")).published == expected


def test_no_date_is_invented() -> None:
    assert only(rss(GOOD, head="<title>x</title><pubDate>Mon, 02 Mar 2026 10:00:00 GMT</pubDate>")).published is None


def test_without_publication_the_last_change_dates_an_entry() -> None:
    entry = "<id>urn:a:1</id><title>t</title><updated>2026-04-01T00:00:00Z</updated>"
    assert only(atom(entry)).published == "2026-04-01T00:00:00Z"


DC = "<dc:language>{}</dc:language>"
LANGUAGES = {
    "of the feed": (rss(GOOD, head="<title>x</title><language>en-us</language>"), "en-US"),
    "of the feed by Dublin Core": (rss(GOOD, head="<title>x</title>" + DC.format("ja")), "ja"),
    "of the entry": (rss(GOOD + DC.format("es"), head="<title>x</title><language>en</language>"), "es"),
    "of a feed in Atom": (atom("<id>a</id><title>t</title>").replace(b"<feed ", b"<feed xml:lang='pt-br' "), "pt-BR"),
    "of an entry in Atom": (
        atom("<id>a</id><title>t</title>")
        .replace(b"<feed ", b"<feed xml:lang='pt' ")
        .replace(b"<entry", b"<entry xml:lang='de'"),
        "de",
    ),
    "of a text": (atom("<id>a</id><title xml:lang='en'>t</title><summary xml:lang='fr'>s</summary>"), "fr"),
    "none": (rss(GOOD), None),
    "empty": (rss(GOOD, head="<title>x</title><language> </language>"), None),
    "no tag": (rss(GOOD, head="<title>x</title><language>English</language>"), None),
    "no tag of the entry": (rss(GOOD + DC.format("?"), head="<title>x</title><language>en</language>"), "en"),
    "of a JSON feed": (json_feed({"id": "1", "title": "t"}, language="en-us"), "en-US"),
    "of an item": (json_feed({"id": "1", "title": "t", "language": "IT"}, language="en"), "it"),
    "no text": (json_feed({"id": "1", "title": "t", "language": []}, language=5), None),
}


@pytest.mark.parametrize(("data", "expected"), LANGUAGES.values(), ids=LANGUAGES)
def test_languages(data: bytes, expected: str | None) -> None:
    assert only(data).language == expected


MISSING = {
    "id": "<title>t</title><link>https://shop.example/1</link><description>d</description>",
    "link": "<title>t</title><guid isPermaLink='false'>g</guid><description>d</description>",
    "title": "<link>https://shop.example/1</link><guid>g</guid><description>d</description>",
    "text": "<title>t</title><link>https://shop.example/1</link><guid>g</guid>",
    "id and link": "<title>t</title><description>d</description>",
    "all but the title": "<title>t</title>",
    "all but the text": "<description>d</description>",
}


@pytest.mark.parametrize("item", MISSING.values(), ids=MISSING)
def test_an_entry_may_lack_parts(item: str) -> None:
    document = only(rss(item))
    assert document.title or document.body
    assert document.id == only(rss(item)).id
    assert (document.url is None) is ("<link>" not in item)


def test_an_entry_without_text_is_left_out() -> None:
    feed = read(
        rss(GOOD, "<link>https://shop.example/2</link>", "<title> </title><description>&lt;br&gt;</description>")
    )
    assert len(feed.documents) == 1
    assert feed.warnings == ("2 of 3 entries have neither title nor text; left out",)


@pytest.mark.parametrize("link", ["javascript:alert(1)", "http://", "https://[::1", "mailto:a@shop.example", "data:,x"])
def test_a_link_that_leads_nowhere_is_none(link: str) -> None:
    assert only(rss(f"<title>t</title><link>{link}</link>")).url is None


def test_a_relative_link_refers_to_the_feed() -> None:
    assert only(atom("<id>urn:a:1</id><title>t</title><link href='/x'/>")).url == "https://blog.shop.example/x"


EMPTY = {"RSS": rss(), "Atom": atom(), "JSON": b'{"version": "https://jsonfeed.org/version/1", "items": []}'}


@pytest.mark.parametrize("data", EMPTY.values(), ids=EMPTY)
def test_a_feed_without_entries_is_told(data: bytes) -> None:
    assert read(data) == ParsedFeed((), ("the feed has no entries",))


NO_FEEDS = {
    "empty": (b"", "empty document"),
    "white space": (b" \r\n\t", "empty document"),
    "a mark alone": (b"\xef\xbb\xbf", "empty document"),
    "NUL bytes": (bytes(100), "empty document"),
    "an HTML page": (b"<!DOCTYPE html><html><head><title>Log in</title></head><body>x</body></html>", "HTML page"),
    "an HTML page without a type": (b"\n<HTML><body>Not found", "HTML page"),
    "an HTML page behind a comment": (b"<!-- x --><!doctype  html><title>x</title>", "HTML page"),
    "JSON": (b'{"error": "not found"}', "JSON"),
    "half of JSON": (b'{"version": "https://jsonfeed.org/version/1", "items": [{"id"', "JSON"),
    "a JSON list": (b"[1, 2]", "JSON"),
    "deep JSON": (b"[" * 100_000, "JSON"),
    "other XML": (b"<?xml version='1.0'?><invoice><total>2</total></invoice>", "<invoice>"),
    "plain text": (b"Service unavailable", "Service unavailable"),
    "a picture": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR", "PNG"),
    "a feed that breaks off at once": (b'<rss version="2.0"><channel><title>Sho', "malformed XML"),
}


@pytest.mark.parametrize(("data", "came"), NO_FEEDS.values(), ids=NO_FEEDS)
def test_what_is_no_feed_is_named(data: bytes, came: str) -> None:
    assert came in refused(data)


DAMAGED = {
    "bare ampersand": rss(GOOD, "<title>Fish & chips</title>"),
    "undefined entity": rss(GOOD, "<title>Wait&hellip; &nope;</title>"),
    "wrong end tag": rss(GOOD, "<title>b</titel>"),
    "undeclared prefix": rss(GOOD, "<title>b</title><media:thumbnail url='x'/>"),
    "unescaped markup": rss(GOOD, "<title>b</title><description>a <br> b</description>"),
    "truncated in the second entry": rss(GOOD, "<title>b</title><description>Some text that goes o")[:-40],
    "text behind the end": rss(GOOD) + b"<p>Generated in 3 ms & counting",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_malformed_xml_keeps_what_can_be_read(data: bytes) -> None:
    feed = read(data)
    assert (feed.documents[0].title, feed.documents[0].body) == ("Payouts", "Two days.")
    assert "malformed XML" in feed.warnings[0]


def test_a_feed_that_is_cut_anywhere_gives_entries_or_an_error() -> None:
    whole = rss(*(GOOD.replace("g1", f"g{number}").replace("Two", f"{number}") for number in range(5)))
    counts = []
    for end in range(0, len(whole), 7):
        try:
            counts.append(len(read(whole[:end]).documents))
        except SourceError:
            counts.append(0)
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 5)


RDF = (
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">'
    b'<channel rdf:about="https://a.example/"><title>News</title></channel>'
    b'<item rdf:about="https://a.example/1"><title>One</title><link>https://a.example/1</link></item>'
    b'<item rdf:about="https://a.example/2"><title>Two</title><description>Second.</description></item></rdf:RDF>'
)
ATOM = (
    b'<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:title>News</a:title><a:entry><a:title>One</a:title>'
    b"<a:id>tag:a.example,2026:1</a:id><a:content>First.</a:content></a:entry><a:entry><a:title>Two</a:title>"
    b'<a:link href="https://a.example/2"/><a:content>Second.</a:content><a:id>tag:a.example,2026:2</a:id></a:entry></a:feed>'
)
LATE = b"<title>b</title><link>https://a.example/b</link><description>Text.</description><guid>urn:x:b</guid>"


@pytest.mark.parametrize("whole", [rss(GOOD, LATE.decode()), RDF, ATOM], ids=["RSS", "RDF", "Atom with a prefix"])
def test_no_half_entry_comes_from_a_feed_that_is_cut(whole: bytes) -> None:
    documents = read(whole).documents
    assert (len(documents), read(whole).complete) == (2, True)
    counts = []
    for end in range(len(whole)):
        try:
            feed = parse(whole[:end], SOURCE, halves=False)
        except SourceError:
            counts.append(0)
            continue
        assert set(feed.documents) <= set(documents)
        assert not feed.complete or whole[end:] == b">"
        assert feed.warnings
        counts.append(len(feed.documents))
    assert counts == sorted(counts)
    assert counts[-1] == 2


def test_half_an_entry_is_better_than_none() -> None:
    [document] = read(rss(GOOD)[:-40]).documents
    assert document.title == "Payouts"


def test_white_space_before_the_declaration_does_no_harm() -> None:
    assert only(b"\n\n  " + rss(GOOD)).title == "Payouts"


def test_nul_bytes_and_control_characters() -> None:
    item = "<title>Pay\x00outs\x08</title><guid>g\x00</guid><description>Two&#0; d&#x1F;ays.\x1b</description>"
    [document] = read(rss(item)).documents
    assert document.title == "Payouts"
    assert not re.search("[\x00-\x08\x0b-\x1f]", document.body)
    assert "ays." in document.body


def test_lone_surrogates() -> None:
    [document] = read(rss("<title>a&#xD83D;b</title>")).documents
    assert document.title == "a\ufffdb"
    item = '{"version": "https://jsonfeed.org/version/1", "items": [{"id": "\\ud83d", "title": "a\\ud83db"}]}'
    assert only(item.encode()).title == "a\ufffdb"


@pytest.mark.parametrize("unit", ["word ", "x", "&lt;a ", "日"], ids=["words", "one word", "unclosed tags", "CJK"])
def test_a_title_of_a_megabyte_is_kept(unit: str) -> None:
    title = unit * (1_000_000 // len(unit))
    document = only(rss(f"<title>{title}</title>"))
    assert document.title == title.replace("&lt;", "<").strip()


@pytest.mark.parametrize("unit", ["a.", "a@", "a@b."])
def test_an_author_of_a_megabyte_ends(unit: str) -> None:
    feed = read(rss(f"{GOOD}<dc:creator>{unit * (1_000_000 // len(unit))}</dc:creator>"))
    assert feed.documents[0].title == "Payouts"
    assert "cut" in feed.warnings[0]


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252", "koi8-r", "shift_jis", "big5"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_that_are_declared(encoding: str) -> None:
    word = {"koi8-r": "выплата", "shift_jis": "支払い", "big5": "付款"}.get(encoding, "café")
    name = encoding.removesuffix("-sig")
    data = f'<?xml version="1.0" encoding="{name}"?><rss version="2.0"><channel><item><title>{word}</title></item>'
    assert only(f"{data}</channel></rss>".encode(encoding)).title == word


def test_the_server_may_name_the_encoding() -> None:
    data = "<rss version='2.0'><channel><item><title>выплата</title></item></channel></rss>".encode("koi8-r")
    [document] = parse(data, SOURCE, content_type="text/xml; charset=koi8-r").documents
    assert document.title == "выплата"


@pytest.mark.parametrize("name", ["no-such", "base64", "idna", "utf-7", "utf-16", "utf-32", "rot13", "unicode-escape"])
def test_encodings_that_cannot_be(name: str) -> None:
    data = f'<?xml version="1.0" encoding="{name}"?>'.encode() + rss(GOOD).partition(b"?>")[2]
    for feed in (read(data), parse(rss(GOOD), SOURCE, content_type=f"text/xml; charset={name}")):
        assert feed.documents[0].title == "Payouts"


LAUGHS = "".join(f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' for level in range(1, 10))


def test_entities_do_not_expand() -> None:
    head = f'<!DOCTYPE rss [<!ENTITY l0 "lol">{LAUGHS}]>'.encode()
    feed = read(head + rss("<title>a &l9; b</title>", GOOD).partition(b"?>")[2])
    assert sum(len(document.title) + len(document.body) for document in feed.documents) < 200


def test_external_entities_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cr3t")
    for kind in ("SYSTEM", 'PUBLIC "x"'):
        head = f'<!DOCTYPE rss [<!ENTITY xxe {kind} "{secret.as_uri()}"><!ENTITY % p {kind} "{secret.as_uri()}">%p;]>'
        feed = read(head.encode() + rss("<title>before &xxe; after</title><description>&xxe;</description>", GOOD))
        assert len(feed.documents) == 2
        assert "s3cr3t" not in repr(feed)


SAME = [
    "<guid>same</guid><title>One</title><link>https://shop.example/1</link><description>first</description>",
    "<guid>same</guid><title>Two</title><link>https://shop.example/2</link><description>second</description>",
    "<guid>same</guid><title>Three</title><link>https://shop.example/2</link><description>third</description>",
    "<guid>same</guid><title>Four</title><description>fourth</description>",
    "<title>One</title><link>https://shop.example/1</link><description>without an id</description>",
    "<title>Five</title><description>without an id and link</description>",
]


def by_text(feed: ParsedFeed) -> dict[str, str]:
    return {document.body: document.id for document in feed.documents}


def test_one_guid_on_several_entries() -> None:
    feed = read(rss(*SAME))
    assert len(feed.documents) == len(SAME)
    assert len(set(ids(feed))) == len(SAME)
    assert ids(read(rss(*SAME))) == ids(feed)


def test_the_order_of_entries_changes_no_id() -> None:
    expected = by_text(read(rss(*SAME)))
    order, shuffle = list(SAME), random.Random(7)
    for _ in range(20):
        shuffle.shuffle(order)
        assert by_text(read(rss(*order))) == expected


def test_equal_texts_of_one_guid_are_one_document() -> None:
    feed = read(rss(GOOD, GOOD, GOOD.replace("Two days", "<![CDATA[<p>Two <b>days</b>]]>")))
    assert ids(feed) == ids(read(rss(GOOD)))
    assert "2 of 3 entries repeat another one" in feed.warnings[0]


def test_the_newest_version_keeps_the_id() -> None:
    old = f"{GOOD}<pubDate>Mon, 02 Mar 2026 10:00:00 GMT</pubDate>"
    new = old.replace("02 Mar", "03 Mar").replace("Two days", "One day")
    for items in ([old, new], [new, old]):
        versions = by_text(read(rss(*items)))
        assert versions["One day."] == ids(read(rss(old)))[0]
        assert versions["Two days."] != versions["One day."]


def test_an_edit_changes_no_id() -> None:
    assert ids(read(rss(GOOD))) == ids(read(rss(GOOD.replace("Two days", "Three days").replace("Payouts", "Payout"))))


def test_an_edit_changes_no_id_where_links_tell_entries_apart() -> None:
    def by_link(feed: ParsedFeed) -> dict[str | None, str]:
        return {document.url: document.id for document in feed.documents}

    before = by_link(read(rss(SAME[0], SAME[1])))
    assert len(set(before.values())) == 2
    for one, word in ((0, "first"), (1, "second")):
        edited = [item.replace(word, f"{word}, edited") for item in SAME[:2]]
        assert edited[one] != SAME[one]
        assert by_link(read(rss(*edited))) == before


def test_another_entry_changes_no_id() -> None:
    assert ids(read(rss(GOOD))) == ids(read(rss(GOOD, SAME[4])))[:1]


def test_an_id_that_is_unique_is_one_document_in_any_feed() -> None:
    for entry_id in ("https://shop.example/1", "tag:shop.example,2026:1", "urn:uuid:1-2"):
        data = rss(f"<title>t</title><guid>{entry_id}</guid>")
        assert ids(read(data)) == ids(read(data, "https://planet.example/all"))


def test_an_id_that_is_not_unique_belongs_to_its_feed() -> None:
    for entry_id in ("42", "post-1", "notes:1"):
        data = rss(f"<title>t</title><guid>{entry_id}</guid>")
        assert ids(read(data)) == ids(read(data))
        assert ids(read(data)) != ids(read(data, "https://planet.example/all"))


def test_forms_of_one_address_are_one_identity() -> None:
    forms = ("http://Shop.example/1", "https://shop.example/1/", "https://shop.example:443/1")
    found = {ids(read(rss(f"<title>t</title><link>{form}</link>")))[0] for form in forms}
    assert len(found) == 1
    assert found.isdisjoint(ids(read(rss("<title>t</title><link>https://shop.example/2</link>"))))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.text("xy<& é", max_size=4), st.text("12", max_size=1)), max_size=8))
def test_any_entries_have_ids_of_their_own(entries: Sequence[tuple[str, str, str]]) -> None:
    items = [
        f"<guid>{guid}</guid><title>{escape(title)}</title><link>https://shop.example/{link}</link>"
        for guid, title, link in entries
    ]
    feed, backwards = read(rss(*items)), read(rss(*reversed(items)))
    assert len(set(ids(feed))) == len(feed.documents)
    assert {(document.id, document.title) for document in feed.documents} == {
        (document.id, document.title) for document in backwards.documents
    }


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=6)), max_size=8))
def test_damaged_bytes_give_a_feed_or_an_error_of_ours(damage: list[tuple[int, bytes]]) -> None:
    data = bytearray(rss(GOOD, *SAME[:2]))
    for place, junk in damage:
        data[place : place + len(junk)] = junk
    with suppress(SourceError):
        feed = read(bytes(data))
        assert len(set(ids(feed))) == len(feed.documents)


@pytest.mark.parametrize("data", [rss(GOOD), atom(GOOD), EMPTY["JSON"], b"\xef\xbb\xbf\n<!-- x --><rss></rss>"])
def test_is_feed(data: bytes) -> None:
    assert feeds.is_feed(data)


@pytest.mark.parametrize("data", [b"", b"text", b"<html></html>", b'{"id": 1}', b"<p>rss", bytes(9)])
def test_is_no_feed(data: bytes) -> None:
    assert not feeds.is_feed(data)


# Files whose entries are not as many as feedparser alone finds, and why.
OTHER_COUNTS = {
    "curt_jsonfeed.json": 26,  # a JSON Feed, which feedparser does not read
    "jsonfeed_invalid_values.json": 1,  # the same; the other items have neither title nor text
    "derived_utf8_declared_utf16.rss": 1,  # the bytes decide, not the declaration
    "enc_utf16be_no_bom.xml": 1,  # the byte order shows in the bytes
    "html_page_instead_of_feed_small.html": 1,  # an HTML file is a document
    "illformed_ampersands_in_links.rss": 0,  # an entry of a link alone
    "missing_fields.atom": 0,  # an entry of an id alone
    "xml_entity_declared_in_doctype.rss": 0,  # an entry of an id alone
}
# Files that hold no feed, or break off before the first entry.
REFUSED = {
    "allthis_partial_truncated_jsonfeed.json": "JSON",
    "attack_external_entity_http_plain.xml": "<root>",
    "empty_document.xml": "XML",
    "illformed_unclosed_root.xml": "malformed XML",
    "illformed_undeclared_namespace.xml": "malformed XML",
    "scriptingnews_rss_in_json.json": "JSON",
    "zero_bytes.xml": "empty document",
}


def test_real_feeds_give_their_entries(shared_feeds: Path) -> None:
    with (shared_feeds / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        counts = {row["file"]: int(row["entries"]) for row in csv.DictReader(lines, delimiter="\t")}
    expected = {name: count for name, count in (counts | OTHER_COUNTS).items() if name not in REFUSED}
    loaded = {name: sources.load(str(shared_feeds / name)) for name in expected}
    assert {name: len(feed.documents) for name, feed in loaded.items()} == expected
    for feed in loaded.values():
        assert len({document.id for document in feed.documents}) == len(feed.documents)
        assert sources.load(feed.source) == feed
        for document in feed.documents:
            assert document.title or document.body
    assert "root:" not in repr(loaded["derived_xxe_file_in_title.rss"])


@pytest.mark.parametrize(("name", "came"), REFUSED.items(), ids=REFUSED)
def test_real_files_that_are_no_feeds(shared_feeds: Path, name: str, came: str) -> None:
    with pytest.raises(SourceError, match=re.escape(came)):
        sources.load(str(shared_feeds / name))


CLEAN = ["guardian.rss", "medium_crypto_hodl.rss", "macworld.rss", "podcast_atp.rss", "livemint_news.rss"]


@pytest.mark.parametrize("name", CLEAN)
def test_real_feeds_leave_no_markup(shared_feeds: Path, name: str) -> None:
    for document in sources.load(str(shared_feeds / name)).documents:
        for written in (document.title, document.body, document.author or "", *document.tags):
            assert not re.search(
                r"</?(p|a|div|span|img|br|li|b|i|em|strong)\b[^<>]*>|&(amp|lt|gt|quot|nbsp|#\d+);", written
            )
            assert written == "\n\n".join(" ".join(part.split()) for part in written.split("\n\n"))
