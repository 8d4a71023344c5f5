"""A quick yes of a shape is never wrong: what it takes, the close look takes as well."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.admission import SCHEMAS, fits, schema_of
from dovetail.api.schema import Schema, unknown_fields, validate, with_defaults
from dovetail.api.shape import Shape
from dovetail.reading.yamltext import read_documents

EXAMPLES = sorted(Path("examples").rglob("*.yaml"))
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.0, 1.5, 1 << 31, 1 << 63, -(1 << 63) - 1,
    "", "x", "1Gi", "*", [], {}, [None], {"x": 1},
)  # fmt: skip


def documents() -> list[dict[str, Any]]:
    found = [located.value for path in EXAMPLES for located in read_documents(path.read_text("utf-8"), "")]
    return [item for item in found if isinstance(item, dict) and schema_of(item) is not None]


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything below."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [pair for key in list(keys) for pair in ((value, key), *places(value[key]))]


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def test_a_yes_is_never_wrong() -> None:
    draw, given = random.Random(24), documents()
    taken = refused = 0
    for _ in range(4_000):
        document = copied(draw.choice(given))
        container, key = draw.choice(places(document))
        if isinstance(container, dict) and draw.random() < 0.2:
            container["strange"] = container.pop(key)
        else:
            container[key] = draw.choice(ODD)
        if not fits(document):
            refused += 1
            continue
        taken += 1
        schema = schema_of(document)
        assert schema is not None
        assert list(unknown_fields(schema, document)) == []
        filled = with_defaults(schema, document)
        assert validate(schema, filled) == validate(schema, filled, sound=True)
    assert min(taken, refused) > 500  # both are tried


def test_what_is_right_is_taken_at_once() -> None:
    """Else every document would be walked as before, and no other test would fail."""
    slow = [item for item in documents() if not fits(item) and not list(faults(item))]
    assert len(slow) <= len(documents()) // 50


def faults(document: dict[str, Any]) -> list[Any]:
    schema = schema_of(document)
    assert schema is not None
    return [*unknown_fields(schema, document), *validate(schema, with_defaults(schema, document))]


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        (Schema(type="integer"), (0, -(1 << 63)), (True, 1 << 63, "1", 1.5, None)),
        (Schema(type="integer", format="int32", minimum=0), (0, (1 << 31) - 1), (-1, 1 << 31)),
        (Schema(type="number", maximum=3), (1, 2.5), (3.5, True, "2")),
        (Schema(type="boolean"), (True,), (1, "true")),
        (Schema(type="int-or-string"), (1, "10%"), (True, 1.5, [], 1 << 63)),
        (Schema(type="number-or-string", pattern="^[0-9]+$"), (1, 0.5, "10"), (True, [], "10%")),
        (Schema(type="int-or-string", pattern="^[0-9]+$"), (1, "10"), ("10%", "10\n")),
        (Schema(type="string", enum=("a", "b")), ("a",), ("c", 1)),
        (Schema(type="string", pattern="^a$"), ("a",), ("a\n", "b")),
        (Schema(type="string", min_length=1, max_length=2), ("é", "ab"), ("", "abc")),
        (Schema(type="array", items=Schema(type="string"), min_items=1, max_items=2), (["a"],), ([], [1])),
        (Schema(type="array", items=Schema(type="string"), unique=True), ([], ["a"]), (["a", "a"],)),
        (Schema(type="object", values=Schema(type="string"), max_properties=1), ({"a": "b"},), ({"a": 1},)),
        (
            Schema(
                type="object",
                properties={"a": Schema(type="string"), "b": Schema(type="integer", default=1)},
                required=("a", "b"),
            ),
            ({"a": "x"}, {"a": "x", "b": None}),
            ({}, {"a": None}, {"a": "x", "c": None}),
        ),
    ],
)  # fmt: skip
def test_bounds(schema: Schema, right: tuple[Any, ...], wrong: tuple[Any, ...]) -> None:
    shape = Shape(schema)
    assert [shape.fits(value) for value in (*right, *wrong)] == [True] * len(right) + [False] * len(wrong)


def test_kinds_that_are_not_known_fit_nothing() -> None:
    assert not fits({"apiVersion": "example.com/v1", "kind": "Thing"})
    assert all(schema_of({"apiVersion": version, "kind": kind}) for version, kind in SCHEMAS)
