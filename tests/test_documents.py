"""Documents: their own fields, and the record that a store keeps of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from filters import documents
from runoff import Document, DocumentError


@settings(derandomize=True, deadline=None)
@given(documents)
def test_a_record_holds_all_of_a_document(document: Document) -> None:
    record = json.loads(json.dumps(document.to_record()))
    again = Document.from_record(record)
    assert again == document
    assert hash(again) == hash(document)
    assert {name: type(value) for name, value in again.fields.items()} == {
        name: type(value) for name, value in document.fields.items()
    }


def test_a_record_of_before_has_no_language_and_no_fields() -> None:
    record = Document("0" * 16, "t", "b", tags=("x",)).to_record()
    del record["language"], record["fields"]
    assert Document.from_record(record) == Document("0" * 16, "t", "b", tags=("x",))


def test_fields_are_a_copy() -> None:
    fields = {"a": ["x"]}
    document = Document("", "", "", fields=fields)  # type: ignore[arg-type] # lists become tuples
    fields["a"].append("y")
    fields["b"] = []
    assert document.fields == {"a": ("x",)}


WRONG = {
    "a name that is taken": ({"author": "x"}, "author: the name is taken"),
    "no name": ({"": "x"}, "1 to 64"),
    "a name that is no text": ({5: "x"}, "1 to 64"),
    "nothing": ({"a": None}, "got NoneType"),
    "bytes": ({"a": b"x"}, "got bytes"),
    "an object": ({"a": {}}, "got dict"),
    "numbers": ({"a": (1,)}, "list of other things"),
    "a large number": ({"a": 2**63 - 1}, "64 bits"),
    "no number": ({"a": float("nan")}, "finite"),
    "a long text": ({"a": "x" * 1001}, "1000 characters"),
    "many texts": ({"a": ("x",) * 101}, "101 texts"),
    "many fields": ({f"f{number}": 1 for number in range(51)}, "got 51 fields"),
}


@pytest.mark.parametrize(("fields", "said"), WRONG.values(), ids=WRONG)
def test_fields_that_cannot_be(fields: dict[str, object], said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        Document("", "", "", fields=fields)  # type: ignore[arg-type] # on purpose
