"""Filters: their text and Python forms, what they mean for a document, and errors that point at the place."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import conditions, segment
from runoff import Condition, Document, FilterError, QueryError, field, where
from runoff.columns import Columns

ADA = Document(
    "a" * 16,
    "Payouts abroad take two days",
    "…",
    url="https://shop.example/1",
    source="https://shop.example/feed",
    published="2026-03-02T09:00:00Z",
    author="Ada",
    tags=("fx", "payouts"),
    language="pt-BR",
    fields={
        "price": 3,
        "rate": 0.5,
        "sold": True,
        "rooms": ("hall",),
        "two words": "x",
        "and": "y",
        "day": "2026-03-02",
    },
)
GUIDE = (Path(__file__).parents[1] / "docs" / "filters.md").read_text(encoding="utf-8")
BARE = Document("b" * 16, "", "…", source="notes.txt")

MEANINGS = {
    'source = "https://shop.example/feed"': (True, False),
    "source == 'notes.txt'": (False, True),
    'id in ("bbbbbbbbbbbbbbbb", "cccccccccccccccc")': (False, True),
    "published >= 2026-01-01": (True, False),
    "published < 2026-01-01": (False, False),
    "published = 2026-03-02": (True, False),
    "published = 2026-03-03": (False, False),
    "published > 2026-03-02": (False, False),
    "published > 2026-03-01": (True, False),
    "published <= 2026-03-02": (True, False),
    "published < 2026-03-02": (False, False),
    "published >= 2026-03-02": (True, False),
    "published = 2026-03-02T09:00:00Z": (True, False),
    "published = 2026-03-02T10:00+01:00": (True, False),
    "published = 2026-03-02t09:00": (True, False),
    "published > 2026-03-02T09:00:00Z": (False, False),
    "published >= 2026-03-02T09:00:00Z": (True, False),
    "published in (2026-03-01, 2026-03-02)": (True, False),
    '"fx" in tags': (True, False),
    '"f" in tags': (False, False),
    'tags contains "payouts"': (True, False),
    '"fx" not in tags': (False, True),
    'tags not contains "fx"': (False, True),
    'title contains "take"': (True, False),
    'title contains "Take"': (False, False),
    '"two days" in title': (True, False),
    'title startswith "Pay"': (True, False),
    'title startswith "abroad"': (False, False),
    'title not startswith "Pay"': (False, True),
    'language = "pt"': (False, False),
    'language startswith "pt"': (True, False),
    'author = "Ada"': (True, False),
    'author != "Ada"': (False, True),
    'author != "Bob"': (True, True),
    'not author = "Ada"': (False, True),
    'author not in ("Ada", "Bob")': (False, True),
    'author < "B"': (True, False),
    'not author < "B"': (False, True),
    "author is missing": (False, True),
    "title is missing": (False, True),
    "tags is missing": (False, True),
    "author is present": (True, False),
    "not author is present": (False, True),
    "price = 3": (True, False),
    "price = 3.0": (True, False),
    "price > 2.5": (True, False),
    "price > 3": (False, False),
    "price in (1, 2, 3)": (True, False),
    'price in (1, "3")': (False, False),
    "rate >= 5e-1": (True, False),
    "rate < +1": (True, False),
    "rate > -1": (True, False),
    "sold = true": (True, False),
    "sold != true": (False, True),
    '"hall" in rooms': (True, False),
    '`two words` = "x"': (True, False),
    '`and` = "y"': (True, False),
    'day >= "2026-01-01" and day < "2027"': (True, False),
    'author = "Ada" or author = "Bob" and price = 9': (True, False),
    '(author = "Ada" or author = "Bob") and price = 9': (False, False),
    "not (price = 3 or price = 4)": (False, True),
    "not not price = 3": (True, False),
    "author IS Missing OR NOT price In (1, 2) AND sold = TRUE": (True, True),
    'kind = "body"': (True, True),
    'kind = "headline"': (False, False),
    'kind != "headline" and price is present': (True, False),
}
EVERY = settings(derandomize=True, deadline=None, max_examples=300)


@pytest.mark.parametrize(("text", "expected"), MEANINGS.items(), ids=MEANINGS)
def test_what_a_filter_means(text: str, expected: tuple[bool, bool]) -> None:
    condition = where.parse(text)
    assert (condition.matches(ADA), condition.matches(BARE)) == expected
    rows, bodies = np.arange(2, dtype=np.uint32), np.ones(2, dtype=np.uint32)
    assert tuple(condition.mask(Columns([segment(0, [ADA, BARE])]), rows, bodies)) == expected


def test_kinds_are_those_of_chunks() -> None:
    stored = Columns([segment(0, [ADA, BARE])])
    rows, kinds = np.array([0, 0, 1, 1], np.uint32), np.array([0, 1, 0, 1], np.uint32)
    for text, expected in {
        'kind = "headline"': [1, 0, 1, 0],
        'kind != "headline"': [0, 1, 0, 1],
        'kind in ("headline", "body")': [1, 1, 1, 1],
        'kind = "body" and author = "Ada"': [0, 1, 0, 0],
        'kind = "body" or author = "Ada"': [1, 1, 0, 1],
        'not (kind = "body" or author is missing)': [1, 0, 0, 0],
        "kind is missing": [0, 0, 0, 0],
    }.items():
        assert where.parse(text).mask(stored, rows, kinds).tolist() == list(map(bool, expected)), text


ONE_FORM = {
    "a=1": "a = 1",
    "a == 'x'": 'a = "x"',
    "NOT a=1 AND b!=2": "a != 1 and b != 2",
    "(a = 1 and (b = 2 and c = 3))": "a = 1 and b = 2 and c = 3",
    "(a = 1 or (b = 2)) and c = 3": "(a = 1 or b = 2) and c = 3",
    "not (a = 1 and b = 2)": "not (a = 1 and b = 2)",
    "not a < 1": "not a < 1",
    "not not not a = 1": "a != 1",
    "not a is missing": "a is present",
    'a contains "x"': '"x" in a',
    'not a contains "x"': '"x" not in a',
    'a not startswith "x"': 'a not startswith "x"',
    "a in(1,2.50,true)": "a in (1, 2.5, true)",
    "a not in ('x')": 'a not in ("x")',
    r"a = 'it\'s \"so\" \\ \n\u00e9'": r'a = "it' + r"'s \"so\" \\ \né" + '"',
    r'`a b` = "\u0000\u2028"': r'`a b` = "\u0000\u2028"',
    "`plain-name.x` = 1e3": "plain-name.x = 1000.0",
    "`IN` = 1": "`IN` = 1",
    "`1a` = 1": "`1a` = 1",
    "東京 = +1": "東京 = 1",
    "published = 2026-01-01": "published = 2026-01-01",
    "published = 2026-01-01T01:00+02:00": "published = 2025-12-31T23:00:00Z",
    "\n\ta\n=\r\n1 ": "a = 1",
}


@pytest.mark.parametrize(("text", "expected"), ONE_FORM.items(), ids=ONE_FORM)
def test_one_way_to_write_each(text: str, expected: str) -> None:
    condition = where.parse(text)
    assert str(condition) == expected
    assert repr(condition) == f"<Condition {expected}>"
    assert where.parse(expected) == condition


@EVERY
@given(conditions)
def test_what_is_written_is_read_again(condition: Condition) -> None:
    again = where.parse(str(condition))
    assert again == condition
    assert hash(again) == hash(condition)
    assert again.depth == condition.depth
    assert ~~again == condition


def test_the_python_form_is_the_same() -> None:
    made = (field("source") == "x") & (field("published") >= date(2026, 1, 1)) & field("tags").contains("fx")
    assert made == where.parse('source = "x" and published >= 2026-01-01 and "fx" in tags')
    made = ~(field("a").isin([1, 2]) | field("b").is_missing()) & (field("c") != True) & field("d").startswith("x")  # noqa: E712 # a value
    assert made == where.parse('not (a in (1, 2) or b is missing) and c != true and d startswith "x"')
    assert (field("a") > 1) == where.parse("a > 1")
    assert (field("a") == 1) != (field("a") == True)  # noqa: E712
    assert (field("a") == 1) != "a = 1"


def test_times_are_utc_and_cut_to_seconds() -> None:
    east = timezone(timedelta(hours=2))
    for moment in (
        datetime(2026, 1, 1, 12, 0, 0, 999_999, tzinfo=east),
        datetime(2026, 1, 1, 10),
        datetime(2026, 1, 1, 10, tzinfo=timezone.utc),
    ):
        assert str(field("published") > moment) == "published > 2026-01-01T10:00:00Z"


def test_a_condition_has_no_truth() -> None:
    condition = field("a") == 1
    with pytest.raises(TypeError, match="&"):
        bool(condition)
    with pytest.raises(TypeError, match="&"):
        condition and condition  # noqa: B018 # which asks for its truth
    with pytest.raises(TypeError):
        condition & True  # type: ignore[operator]
    with pytest.raises(TypeError):
        {field("a")}


POINTED = {
    "a number as a date": ('source = "x" and published >= 5', 30, "got the number 5; expected a date"),
    "a text as a date": ('published >= "2026-01-01"', 13, "expected a date without quotes"),
    "a date as an own field's": ("day = 2026-01-01", 6, "in quotes"),
    "a number as a text": ("source = 5", 9, "expected a text"),
    "true as a text": ("title != true", 9, "got true; expected a text"),
    "one wrong in a list": ('source in ("a", 5)', 16, "got the number 5"),
    "a list that is compared": ('tags = "x"', 7, '"x" in tags'),
    "a list that is ordered": ('tags < "x"', 7, '"x" in tags'),
    "a list's beginning": ('tags startswith "x"', 16, "lists of texts"),
    "a part of a date": ('"x" in published', 0, "dates"),
    "a number in a list": ("5 in tags", 0, "got 5; expected a field"),
    "a part that is a number": ("tags contains 5", 14, "expected a text"),
    "a kind that is none": ('kind = "boby"', 7, '"headline" or "body"'),
    "an order of truths": ("a > true", 4, "no order"),
    "an empty text": ('a = ""', 4, "is missing"),
    "an empty part": ('"" in a', 0, "is missing"),
    "a large whole number": ("a = 9223372036854775807", 4, "64 bits"),
    "a larger number": ("a = 1" + "0" * 5000, 4, "finite"),
    "an infinite number": ("a = 1e999", 4, "finite"),
    "no day": ("published = 2026-02-30", 12, "calendar"),
    "no hour": ("published = 2026-02-03T25:00", 12, "calendar"),
    "an hour alone": ("published = 2026-02-03T10", 12, "got 2026-02-03T10;"),
    "before all time": ("published = 0001-01-01T00:00+01:00", 12, "calendar"),
    "half a date": ("published = 2026-01", 12, "got 2026-01;"),
    "a date of short parts": ("published = 2026-1-1", 12, "got 2026-1-1;"),
    "letters behind a number": ("a = 5x", 4, "got 5x;"),
    "a word as a value": ("a = x", 4, "got x; expected a value"),
    "a value first": ('"x" = a', 4, "begins with the field"),
    "an open text": ('a = "x', 4, 'got "x; expected " at its end'),
    "an open name": ("`a = 1", 0, "expected ` at its end"),
    "a text over two lines": ('a = "x\ny"', 4, "at its end"),
    "an unknown escape": (r'a = "x\q"', 6, r"got \q; expected \ before"),
    "half an escape": (r'a = "\u12"', 5, r"got \u;"),
    "typographic quotes": ("a = “x”", 4, "got “x”"),
    "nothing": ("", 0, "got the end; expected a field"),
    "white space": (" \n ", 0, "got the end"),
    "half a comparison": ("a =", 3, "got the end; expected a value"),
    "a field alone": ("a", 1, "expected a comparison"),
    "no joint": ("a = 1 b = 2", 6, 'got b; expected "and"'),
    "an open bracket": ("(a = 1", 6, "closing bracket"),
    "a closing bracket": ("a = 1)", 5, 'got ); expected "and"'),
    "an empty list": ("a in ()", 6, "expected a value"),
    "an open list": ("a in (1, 2", 10, "closing bracket"),
    "no list": ("a in 5", 5, "values in brackets"),
    "not what": ("a not = 5", 6, "expected in, contains or startswith"),
    "is what": ("a is null", 5, '"missing" or "present"'),
    "C's and": ("a = 1 && b = 2", 6, 'got &&; expected "and"'),
    "a keyword as a field": ("in = 5", 0, "got in; expected a field"),
    "a nameless field": ("`` = 5", 0, "1 to 64"),
    "a long name": ("x" * 65 + " = 5", 0, "1 to 64"),
    "a name of controls": (r"`a\n` = 5", 0, "printable"),
    "an unknown sign": ("a ~ 5", 2, "got ~; expected a comparison"),
    "deep brackets": ("(" * 51 + "a = 1" + ")" * 51, 50, "50 deep"),
    "many nots": ("not " * 51 + "a = 1", 200, "50 deep"),
}


@pytest.mark.parametrize(("text", "at", "said"), POINTED.values(), ids=POINTED)
def test_errors_point_at_the_place(text: str, at: int, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        where.parse(text)
    message, _, picture = str(caught.value).partition("\n")
    assert said in message
    shown, caret = picture.split("\n")[-2:]
    assert caret.strip() == "^"
    came = shown[len(caret) - 1 :]
    assert text[at:].startswith(came[:20].rstrip())
    assert came or at == len(text.rstrip())


def test_the_line_is_shown() -> None:
    with pytest.raises(FilterError) as caught:
        where.parse('source = "x"\n  and 東京 = \x07 5\nand c = 6')
    assert str(caught.value).split("\n")[1:] == ["  line 2 of the filter:", "    and 東京 =   5", "               ^"]


@pytest.mark.parametrize("text", ["(" * 50_000, "not " * 20_000, "`" * 50_001, "a = 1" + " or a = 1" * 20_000])
def test_long_filters_end_soon(text: str) -> None:
    with pytest.raises(FilterError):
        where.parse(text)


def test_wide_filters_are_read() -> None:
    wide = " or ".join(f"a = {number}" for number in range(8000))
    assert str(where.parse(wide)) == wide
    ids = where.parse(f"a in ({', '.join(map(str, range(15_000)))})")
    assert ids.matches(Document("", "", "", fields={"a": 14_999}))


def test_python_conditions_are_bounded_too() -> None:
    condition: Condition = field("a") == 1
    while condition.depth < 49:
        condition = (condition & (field("b") == 2)) | (field("c") == 3)
    condition &= field("d") == 4
    with pytest.raises(FilterError, match="50 deep"):
        condition | condition  # which makes one
    assert where.parse(str(condition)) == condition


def test_opposites_in_opposites_are_bounded() -> None:
    condition: Condition = field("a") == 1
    while condition.depth < 48:
        condition = ~(condition & (field("b") == 2))
    assert where.parse(str(condition)) == condition
    with pytest.raises(FilterError, match="50 deep"):
        ~(~(condition & (field("b") == 2)) & (field("b") == 2))


@EVERY
@given(st.text(alphabet="ab=<>!()\"'`\\, \n10-.TZ:notinrd", max_size=40) | st.text(max_size=20))
def test_any_text_is_a_filter_or_a_typed_error(text: str) -> None:
    try:
        condition = where.parse(text)
    except FilterError:
        return
    assert where.parse(str(condition)) == condition


MISUSES = {
    "None": (lambda: field("a") == None, "got NoneType"),  # noqa: E711
    "bytes": (lambda: field("a") == b"x", "got bytes"),
    "a list": (lambda: field("a") == ["x"], "got list"),
    "a text for values": (lambda: field("a").isin("xy"), "list of values"),
    "no values": (lambda: field("a").isin([]), "at least one"),
    "nan": (lambda: field("a") > float("nan"), "finite"),
    "a number's beginning": (lambda: field("a").startswith(5), "expected a text"),
    "before all time": (lambda: field("published") > datetime.min.replace(tzinfo=timezone.max), "year 1"),
    "a nameless field": (lambda: field("") == 5, "1 to 64"),
    "a field that is no text": (lambda: field(5) == 5, "1 to 64"),
}


@pytest.mark.parametrize(("misuse", "said"), MISUSES.values(), ids=MISUSES)
def test_misuse_of_the_python_form(misuse: object, said: str) -> None:
    with pytest.raises(FilterError, match=said):
        misuse()  # type: ignore[operator]


FOREIGN = {
    "pric > 5": ("no document has a field pric; did you mean price?", 0),
    "sauce = 5": ("did you mean source?", 0),
    "zzz is missing": ("this store's own: `and`, day, price, rate, rooms, sold, `two words`", 0),
    'price = "x"': ('price: got the text "x"; this store has numbers there', 8),
    "rooms = 5": ("got the number 5; this store has lists of texts there", 8),
    'rooms startswith "h"': ("this store has lists of texts there", 17),
    "sold > 5": ("this store has true or false there", 7),
    'price = 3 or not ("x" in price)': ("this store has numbers there", 18),
}


@pytest.mark.parametrize(("text", "expected"), FOREIGN.items(), ids=FOREIGN)
def test_what_a_store_does_not_have(text: str, expected: tuple[str, int]) -> None:
    condition = where.parse(text)
    assert isinstance(condition.matches(ADA), bool)
    with pytest.raises(FilterError) as caught:
        condition.check(Columns([segment(0, [ADA])]).types)
    said, at = expected
    message, shown, caret = str(caught.value).split("\n")
    assert (shown.strip(), caret) == (text, " " * (at + 2) + "^")
    for part in said.split(": "):
        assert part in message


def test_a_filter_error_is_a_query_error() -> None:
    assert issubclass(FilterError, QueryError)


EXAMPLES = [line.partition("  #")[0].strip() for line in GUIDE.split("```text\n")[1].split("```")[0].splitlines()]


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_documentation_are_filters(text: str) -> None:
    assert where.parse(str(where.parse(text))) == where.parse(text)


def test_the_error_of_the_documentation_is_what_is_told() -> None:
    with pytest.raises(FilterError) as caught:
        where.parse('source = "x" and published >= 5')
    assert f"```text\n{caught.value}\n```" in GUIDE
