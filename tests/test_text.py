"""Markup to plain text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runoff import text

HTML = {
    "inline tags join": ("<p>pay<b>out</b>s</p>", "payouts"),
    "paragraphs": ("<p>one</p> <p>two</p>", "one\n\ntwo"),
    "unclosed paragraphs": ("<p>one<p>two", "one\n\ntwo"),
    "headings": ("<h2>Fees</h2>None.", "Fees\n\nNone."),
    "br is white space": ("one<br>two<br/>three", "one two three"),
    "two br are a border": ("one<br>two<br/> <br>three<br><br><br>four", "one two\n\nthree\n\nfour"),
    "blank lines are borders where nothing else is": ("<i>a</i>\n\nb<b>c</b>", "a\n\nbc"),
    "blank lines are none beside blocks": ("<p>a\n\nb</p>c", "a b\n\nc"),
    "CDATA marks": ("<![CDATA[<p>a</p>]]>b", "a\n\nb"),
    "accents are composed": ("<p>cafe\u0301", "caf\u00e9"),
    "cells are white space, rows paragraphs": (
        "<table><tr><td>EUR</td><td>2</td></tr><tr><td>JPY</td><td>0</td></tr></table>",
        "EUR 2\n\nJPY 0",
    ),
    "unclosed cells": ("<table><tr><th>a<th>b<tr><td>c</table>", "a b\n\nc"),
    "lists": ("<ul><li>one<li>two</ul>after", "one\n\ntwo\n\nafter"),
    "white space folds": ("<p> a\n\t b&nbsp;&nbsp;c </p>", "a b c"),
    "script": ("x <script>if (a<b) { '</p>' }</script> y", "x y"),
    "style": ("<style>p { color: red }</style>z", "z"),
    "script never closed": ("x<script>drop<p>this", "x"),
    "form parts": ("<textarea>draft</textarea><select><option>a</select>y", "y"),
    "comment": ("a<!-- <p>hidden</p> -->b", "ab"),
    "processing instruction": ("<?php echo 1 ?>z", "z"),
    "entities once": ("&amp;lt;b&amp;gt; &lt;i&gt; &#8364; &#x20AC; &copy;", "&lt;b&gt; <i> € € ©"),
    "Windows-1252 references": ("don&#146;t &#150; stop&#133;", "don\u2019t \u2013 stop…"),
    "unknown entity": ("a &bogus; b &; c", "a &bogus; b &; c"),
    "plain text with < and &": ("1 < 2 & 3 > 2, AT&T, x && y", "1 < 2 & 3 > 2, AT&T, x && y"),
    "> inside an attribute": ("<a href='a>b'>link</a>", "link"),
    "charset of a page that is decoded already": ("<meta charset=iso-8859-1><p>é日", "é日"),
    "unclosed tag": ("before <b>after", "before after"),
    "stray end tags": ("x</p></div> y</table>", "x y"),
    "text after the end": ("<html><body><p>a</p></body></html>tail", "a\n\ntail"),
    "self-closed block": ("a<div/>b<p/>c", "a\n\nb\n\nc"),
    "svg": ("<svg><title>icon</title><text>k</text></svg>v", "v"),
    "noscript": ("<noscript><img src=x>lazy</noscript>v", "v"),
    "title of the page": ("<head><title>T</title></head><body>b", "b"),
    "NUL": ("a\x00b", "ab"),
    "control characters": ("a\x01\x1b\x7fb\u202ec", "abc"),
    "referred control characters": ("a&#1;&#x1F;b&#x202E;c", "a bc"),
    "lone surrogates": ("\ud83d<p>b\ude00", "\ufffd\n\nb\ufffd"),
    "referred surrogate": ("a&#xD800;b", "a\ufffdb"),
    "empty": ("", ""),
    "white space only": (" \n ", ""),
    "comment only": ("<!-- nothing -->", ""),
    "tags only": ("<p></p><br><div> </div>", ""),
}


@pytest.mark.parametrize(("markup", "expected"), HTML.values(), ids=HTML)
def test_html(markup: str, expected: str) -> None:
    assert text.from_html(markup) == expected


PLAIN = {
    "paragraphs": ("one\nline\n\n\ntwo\n \nthree", "one line\n\ntwo\n\nthree"),
    "carriage returns": ("one\r\n\r\ntwo", "one\n\ntwo"),
    "paragraph separator": ("one\u2029two", "one\n\ntwo"),
    "tags stay": ("use <b> and &amp;", "use <b> and &amp;"),
    "control characters": ("a\x00\x08b\ufeffc", "abc"),
    "lone surrogate": ("a\udc80", "a\ufffd"),
    "empty": (" \n\n ", ""),
}


@pytest.mark.parametrize(("plain", "expected"), PLAIN.values(), ids=PLAIN)
def test_plain(plain: str, expected: str) -> None:
    assert text.from_plain(plain) == expected


MARKUP = {
    "tags": ("<p>a</p><p>b</p>", "a\n\nb"),
    "upper case": ("<P>a<BR>b</P>c", "a b\n\nc"),
    "only an end tag": ("a</p>b", "ab"),
    "only an entity": ("fish &amp; chips", "fish & chips"),
    "only a numeric entity": ("5 &#8364;", "5 €"),
    "only an image": ("<img src='data:image/png;base64," + "A" * 9000 + "'>after", "after"),
    "comment": ("a<!-- b -->c", "ac"),
    "less than": ("if a <b and c", "if a <b and c"),
    "less than beside an entity": ("x &lt; List<String> &amp; y", "x < List<String> & y"),
    "type parameter": ("a List<String> in Java", "a List<String> in Java"),
    "address in angles": ("write to <pay@shop.example>", "write to <pay@shop.example>"),
    "ampersand": ("AT&T; R&D", "AT&T; R&D"),
    "blank lines are borders without markup": ("a\n\nb", "a\n\nb"),
}


@pytest.mark.parametrize(("source", "expected"), MARKUP.values(), ids=MARKUP)
def test_what_may_be_markup(source: str, expected: str) -> None:
    assert text.from_markup(source) == expected


def test_line_folds_everything() -> None:
    assert text.line("<p>Two\n days</p>\n<p>&amp; more</p>") == "Two days & more"
    assert text.line("a\n\nb\x00") == "a b"


PAGES = {
    "heading, not repeated": ("<title>Shop</title><h1>The <b>H</b>eading</h1><p>x", "The Heading", "x"),
    "title": ("<html><head><title> A &amp; B\n C </title></head><body><p>x", "A & B C", "x"),
    "the first of two headings": ("<p>x</p><h1>One</h1><h1>Two</h1>", "One", "x\n\nOne\n\nTwo"),
    "empty heading": ("<title>T</title><h1> </h1>x", "T", "x"),
    "lesser heading": ("<h3>Small</h3><p>x<h2>Fees</h2>y", "Fees", "Small\n\nx\n\nFees\n\ny"),
    "caption in a drawing": ("<svg><title>Menu</title></svg>x", "", "x"),
    "inside a script": ("<script>'<h1>no</h1>'</script><h1>yes</h1>x", "yes", "x"),
    "unclosed heading": ("<h1>Open", "Open", ""),
    "none": ("<p>text", "", "text"),
    "empty": ("", "", ""),
    "control characters": ("<title>a\x00b&#1;c</title>x", "abc", "x"),
}


@pytest.mark.parametrize(("markup", "title", "body"), PAGES.values(), ids=PAGES)
def test_page(markup: str, title: str, body: str) -> None:
    assert text.page(markup) == text.Page(title, body)


PLAIN_OR_NOT = {
    "a </p> b": True,
    "a<br>b": True,
    "a &amp; b": True,
    "List<String>": False,
    "a <b> c": False,
    "AT&T": False,
}


@pytest.mark.parametrize(("source", "expected"), PLAIN_OR_NOT.items(), ids=PLAIN_OR_NOT)
def test_markup_in_what_is_called_plain(source: str, expected: bool) -> None:
    assert text.is_markup(source) is expected


HOSTILE = {
    "deep blocks": ("<div>" * 100_000 + "end" + "</div>" * 100_000, "end"),
    "deep inlines": ("<b>" * 100_000 + "end", "end"),
    "deep links": ("<a>" * 100_000 + "end", "end"),
    "deep tables": ("<table><tr><td>" * 20_000 + "end", "end"),
    "deep lists": ("<ul><li>" * 30_000 + "end", "end"),
    "stray end tags below open ones": ("<div></b>" * 60_000 + "end", "end"),
    "end tags": ("</p>" * 200_000 + "end", "end"),
    "unclosed starts": ("end<p>" + "<a " * 200_000, "end"),
    "unclosed attributes": ("end<p>" + "<a href='" * 200_000, "end"),
    "nested comments": ("end<p>" + "<!--" * 200_000, "end"),
    "dashes in a comment": ("<!-- - " * 100_000 + "-->end", "end"),
    "long comment": ("<!--" + "y" * 11_000_000 + "-->end", "end"),
    "long attribute": ("<p a='" + "y" * 11_000_000 + "'>end", "end"),
    "many attributes": ("<p " + " ".join(f"a{n}=1" for n in range(20_000)) + ">end", "end"),
    "scripts in scripts": ("end<p>" + "<script>" * 100_000, "end"),
    "declarations": ("end<p>" + "<!DOCTYPE " * 100_000, "end"),
    "white space": ("\n \t" * 300_000 + "end", "end"),
    "ampersands": ("&" * 300_000 + "end", "&" * 300_000 + "end"),
    "half references": ("&#x" * 100_000 + "zed", "&#x" * 100_000 + "zed"),
}


@pytest.mark.parametrize(("markup", "expected"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_ends(markup: str, expected: str) -> None:
    assert text.from_html(markup) == expected
    assert text.from_markup(markup)
    assert text.page(markup) == text.Page("", expected)


def test_the_depth_that_the_parser_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # A stray end tag costs it a look at each open element, so it is begun anew before these are many.
    begun: list[Any] = []
    begin = text._parser

    def counted(target: Any) -> Any:
        begun.append(target)
        return begin(target)

    monkeypatch.setattr(text, "_parser", counted)
    assert text.from_html("<div></b>" * 20_000 + "end") == "end"
    assert len(begun) > 10


DECODED = {
    "UTF-8": ("é€", "utf-8", (), 0),
    "UTF-8 with a mark": ("é€", "utf-8-sig", (), 0),
    "UTF-16 with a mark": ("payout é", "utf-16", (), 0),
    "UTF-32 with a mark": ("payout é", "utf-32", (), 0),
    "UTF-16 without": ("payouts", "utf-16-be", (), 1),
    "Windows-1252": ("un café: “très” cher", "cp1252", (), 1),
    "declared": ("выплата", "koi8-r", ("koi8-r",), 0),
    "declared as Latin-1": ("it\u2019s", "cp1252", ("iso-8859-1",), 0),
    "wrongly declared": ("выплата", "utf-8", ("ascii",), 1),
    "unknown name": ("é", "utf-8", ("no-such-encoding",), 1),
    "no text encoding": ("é", "utf-8", ("base64",), 1),
    "empty": ("", "utf-8", ("ascii",), 0),
}


@pytest.mark.parametrize(("original", "encoding", "declared", "warnings"), DECODED.values(), ids=DECODED)
def test_decode(original: str, encoding: str, declared: tuple[str, ...], warnings: int) -> None:
    decoded, told = text.decode(original.encode(encoding), *declared)
    assert decoded == original
    assert len(told) == warnings


def test_decode_replaces_a_few_bad_bytes() -> None:
    decoded, told = text.decode("ünïcödé téxt ẅïth mäny ṃarkṣ".encode() + b"\xff")
    assert decoded.endswith("ṃarkṣ\ufffd")
    assert "1 place" in told[0]


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.sampled_from([*"<>&;'\"/=! -\x00\ud800\n", "<p", "<!--", "-->", "script", "&#", "x3C", "a", "é"])))
def test_any_markup_gives_folded_text(parts: list[str]) -> None:
    markup = "".join(parts)
    for result in (text.from_html(markup), text.from_markup(markup), text.from_plain(markup)):
        assert result == text.from_plain(result)
        result.encode()
    assert text.page(markup).body == text.from_html(markup)


@settings(derandomize=True, deadline=None)
@given(st.text())
def test_escaped_text_comes_back(original: str) -> None:
    escaped = original.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert " ".join(text.from_html(escaped).split()) == " ".join(text.from_plain(original).split())
