"""The text form of filters: ``source = "x" and published >= 2026-01-01 and "fx" in tags``.

In EBNF, where keywords may be written in either case:

    filter     = either ;
    either     = both , { "or" , both } ;
    both       = single , { "and" , single } ;
    single     = "not" , single | "(" , either , ")" | comparison ;
    comparison = text , [ "not" ] , "in" , field
               | field , ( "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" ) , literal
               | field , [ "not" ] , "in" , "(" , literal , { "," , literal } , ")"
               | field , [ "not" ] , ( "contains" | "startswith" ) , text
               | field , "is" , ( "missing" | "present" ) ;
    literal    = text | number | date | "true" | "false" ;
    text       = '"' , { character | escape } , '"' | "'" , { character | escape } , "'" ;
    escape     = "\\" , ( "\\" | '"' | "'" | "`" | "n" | "r" | "t" | "u" , 4 * hexadecimal digit ) ;
    number     = [ "+" | "-" ] , digits , [ "." , digits ] , [ "e" , [ "+" | "-" ] , digits ] ;
    date       = year , "-" , month , "-" , day ,
                 [ "T" , hour , ":" , minute , [ ":" , second ] , [ "Z" | ( "+" | "-" ) , hour , ":" , minute ] ] ;
    field      = letter or "_" , { letter | digit | "_" | "-" | "." } , unless that is a keyword
               | "`" , { character | escape } , "`" ;
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, NamedTuple, NoReturn

from .comparisons import Compared, Contains, OneOf, Present, StartsWith
from .conditions import DEEPEST, And, Condition, Or
from .errors import FilterError
from .literals import BARE_NAME, ESCAPES, KEYWORDS, Literal, plain
from .place import Place

LONGEST = 100_000

_TOKEN = re.compile(
    rf"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<quoted>`(?:[^`\\\n]|\\.)*`)
    |(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[Tt][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?:[Zz]|[+-][0-9]{{2}}:[0-9]{{2}})?)?(?![\w.:+-]))
    |(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.:+-]))
    |(?P<operator>[!<>=]=|[<>=])
    |(?P<mark>[(),])
    |(?P<name>{BARE_NAME})
    |(?P<other>["'`].*|[^\s(),"'`]+)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED = "\\\"'`"
_LITERALS = ("text", "date", "number", "true", "false")
_EXAMPLE = 'source = "x"'


class _Token(NamedTuple):
    """``sort`` is one of _TOKEN's groups, or the token itself for keywords, operators and marks, or ``end``."""

    sort: str
    text: str
    at: int


def parse(text: str) -> Condition:
    """The condition that a filter states.

    Raises:
        FilterError: it is none; the message shows the place. Whether a store has the fields is not known before
            ``Condition.mask`` or ``Condition.check``.
    """
    if len(text) > LONGEST:
        raise FilterError(f"a filter of {len(text)} characters; expected at most {LONGEST}")
    return _Parser(text).whole()


class _Parser:
    """Recursive descent: a method for each rule of the grammar, and one token of foresight."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = next(self._tokens)
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._either()
        if self._next.sort != "end":
            self._fail('"and", "or" or the end')
        return condition

    def _either(self) -> Condition:
        conditions = [self._both()]
        while self._accept("or"):
            conditions.append(self._both())
        return Or.of(conditions)

    def _both(self) -> Condition:
        conditions = [self._single()]
        while self._accept("and"):
            conditions.append(self._single())
        return And.of(conditions)

    def _single(self) -> Condition:
        if self._next.sort not in ("not", "("):
            return self._comparison()
        self._depth += 1
        if self._depth > DEEPEST:
            raise FilterError(f"nested more than {DEEPEST} deep; expected a simpler filter{self._place(self._next)}")
        if self._accept("not"):
            condition = ~self._single()
        else:
            self._take()
            condition = self._either()
            self._expect(")", 'a comparison, "and", "or" or a closing bracket')
        self._depth -= 1
        return condition

    def _comparison(self) -> Condition:
        if self._next.sort == "text":
            return self._membership()
        name, place = self._field(f"a field, such as in {_EXAMPLE}")
        token = self._take()
        if token.sort == "operator":
            return self._compared(token.text, name, place)
        if token.sort == "is":
            return self._presence(name, place)
        negated = token.sort == "not"
        word = self._take() if negated else token
        if word.sort not in ("in", "contains", "startswith"):
            expected = "in, contains or startswith"
            self._fail(expected if negated else f"a comparison: =, !=, <, <=, >, >=, is, not, {expected}", word)
        condition = self._containment(word.sort, name, place)
        return ~condition if negated else condition

    def _membership(self) -> Condition:
        part, part_place = self._literal()
        negated = self._accept("not")
        self._expect("in", f'"in" and a field, since a comparison begins with the field, as in {_EXAMPLE}')
        name, place = self._field("a field")
        condition = Contains(name, part, places=(place, part_place))
        return ~condition if negated else condition

    def _compared(self, operator: str, name: str, place: Place) -> Condition:
        literal, literal_place = self._literal()
        sign = "=" if operator in ("==", "!=") else operator
        condition = Compared(name, sign, literal, places=(place, literal_place))
        return ~condition if operator == "!=" else condition

    def _presence(self, name: str, place: Place) -> Condition:
        present = Present(name, places=(place,))
        if self._accept("missing"):
            return ~present
        self._expect("present", '"missing" or "present"')
        return present

    def _containment(self, word: str, name: str, place: Place) -> Condition:
        if word == "in":
            literals, places = zip(*self._listed(), strict=True)
            return OneOf(name, literals, places=(place, *places))
        part, part_place = self._literal()
        return (Contains if word == "contains" else StartsWith)(name, part, places=(place, part_place))

    def _listed(self) -> Iterator[tuple[Any, Place]]:
        self._expect("(", 'values in brackets, as in ("x", "y")')
        yield self._literal()
        while self._accept(","):
            yield self._literal()
        self._expect(")", "a comma or a closing bracket")

    def _field(self, expected: str) -> tuple[str, Place]:
        if self._next.sort not in ("name", "quoted"):
            self._fail(expected)
        token = self._take()
        name = token.text if token.sort == "name" else self._unquoted(token)
        return name, self._place(token)

    def _literal(self) -> tuple[Any, Place]:
        """Any, since what fits is for the comparison to tell."""
        if self._next.sort not in _LITERALS:
            self._fail("a value: a text in quotes, a number, a date such as 2026-01-31, true or false")
        token = self._take()
        return self._value(token), self._place(token)

    def _value(self, token: _Token) -> Literal:
        if token.sort == "text":
            return self._unquoted(token)
        if token.sort == "number":
            return _number(token.text)
        if token.sort == "date":
            return self._date(token)
        return token.sort == "true"

    def _unquoted(self, token: _Token) -> str:
        def character(match: re.Match[str]) -> str:
            escape = match[1]
            if len(escape) > 1:
                return chr(int(escape[1:], 16))
            if escape not in ESCAPES and escape not in _ESCAPED:
                wrong = _Token("other", match[0], token.at + 1 + match.start())
                self._fail("\\ before one of " + " ".join((*_ESCAPED, *ESCAPES)) + " or u and four digits", wrong)
            return ESCAPES.get(escape, escape)

        return _ESCAPE.sub(character, token.text[1:-1])

    def _date(self, token: _Token) -> date:
        text = token.text.upper().replace("Z", "+00:00")
        try:
            if "T" not in text:
                return date.fromisoformat(text)
            moment: date = plain(datetime.fromisoformat(text))
            return moment
        except ValueError:
            self._fail("a date of the calendar, such as 2026-01-31 or 2026-01-31T10:00:00Z", token)

    def _accept(self, sort: str) -> bool:
        found = self._next.sort == sort
        if found:
            self._take()
        return found

    def _expect(self, sort: str, expected: str) -> None:
        if not self._accept(sort):
            self._fail(expected)

    def _take(self) -> _Token:
        token = self._next
        if token.sort != "end":
            self._next = next(self._tokens)
        return token

    def _place(self, token: _Token) -> Place:
        return Place(self._text, token.at)

    def _fail(self, expected: str, token: _Token | None = None) -> NoReturn:
        token = token or self._next
        came = token.text[:40] or "the end"
        if token.sort == "other" and came[0] in "\"'`":
            expected = f"{came[0]} at its end as well"
        raise FilterError(f"filter: got {came}; expected {expected}{self._place(token)}")


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        yield _Token(_sort(match), match[0], match.start())
    yield _Token("end", "", len(text.rstrip()))


def _sort(match: re.Match[str]) -> str:
    group = str(match.lastgroup)
    if group == "name" and match[0].lower() in KEYWORDS:
        return match[0].lower()
    return match[0] if group == "mark" else group


def _number(text: str) -> int | float:
    """A whole number, or another; what is too large for either is an infinity."""
    whole = text.lstrip("+-").isdigit() and len(text) < 40
    return int(text) if whole else float(text)
