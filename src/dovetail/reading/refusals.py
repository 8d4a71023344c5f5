"""Why an object is refused: the place, what is wrong there, and what would be valid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dovetail.api.schema import Schema, is_echo, join
from dovetail.base.errors import Cause, InputError, InputErrors
from dovetail.base.guess import nearest
from dovetail.reading.located import Located
from dovetail.reading.paths import at
from dovetail.reading.sources import STDIN
from dovetail.units.quantity import meant_quantity

TEMPLATE = "it looks like a template of Helm: helm template CHART | dovetail plan -f -"
VARIABLE = re.compile(r"\$(?:\{[A-Za-z_][^}]*\}|\([A-Za-z_]\w*\)|[A-Z_][A-Z0-9_]*\b)")
_NO_QUANTITY = "must be a quantity"


def subject(document: dict[str, Any]) -> dict[str, str]:
    """Kind and name of a document, as an InputError takes them; empty where they are not text."""
    meta = document.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = meta.get("name") or meta.get("generateName") or ""
    space = meta.get("namespace")
    name = name if isinstance(name, str) else ""
    kind = document.get("kind")
    return {
        "kind": kind if isinstance(kind, str) else "",
        "name": f"{space}/{name}" if name and isinstance(space, str) and space else name,
    }


def refusal(located: Located, path: str, message: str, remedy: str = "") -> InputError:
    """That something is wrong at a path of an object."""
    line, column = located.place_of(path)
    return InputError(
        message,
        source=located.source,
        line=line,
        column=column,
        path=path,
        remedy=remedy,
        **subject(located.value),
    )


def broken(causes: tuple[Cause, ...], located: Located) -> InputError:
    """All faults in the order of their places."""
    fields = {cause.field for cause in causes}
    # ".spec.replicas" is how the server calls spec.replicas once more, for the scale subresource.
    reported = [
        cause
        for cause in causes
        if not is_echo(cause) and not (cause.field.startswith(".") and cause.field[1:] in fields)
    ]
    places = ["" if cause.field == "<nil>" else cause.field.removeprefix(".") for cause in reported]
    faults = [
        refusal(located, path, cause.message, _remedy(at(located.value, path), cause.message, located.source))
        for path, cause in zip(places, reported, strict=True)
    ]
    return InputErrors.of(tuple(sorted(faults, key=lambda fault: (fault.line or 0, fault.column or 0))))


def _remedy(value: Any, message: str, source: str) -> str:
    """What to do about a value that was refused, where it shows what was meant by it."""
    if not isinstance(value, str | int | float):
        return ""
    text = str(value)
    if "{{" in text:
        return TEMPLATE
    if found := VARIABLE.search(text):
        return filled_in(found[0], source)
    if _NO_QUANTITY in message and (near := meant_quantity(text)):
        return f"did you mean {near}?"
    if "must be of type integer, not string" in message and text.isascii() and text.isdigit():
        return f"write it without quotes: {text}"
    return ""


def filled_in(variable: str, source: str) -> str:
    """What to do about a variable of the shell or of a tool, for which something is to be put."""
    if source.endswith(".tf"):
        return ""
    name = "FILE" if source == STDIN else source
    return f"fill {variable} in, as envsubst < {name} does"


def unknown_field(schema: Schema, path: str, located: Located) -> InputError:
    """That the schema has no field at `path`, with the nearest one, or all."""
    parent, key, known = _known_names(schema, path, located.value)
    near = nearest(key, known) or [name for name in known if name.lower() == key.lower()]
    hint = f"; did you mean {near[0]}?" if near else ""
    remedy = "" if near or not known else f"valid in {parent or 'the object'}: {', '.join(sorted(known))}"
    return refusal(located, path, f"unknown field {key}{hint}", remedy)


def _known_names(schema: Schema, path: str, value: Any, parent: str = "") -> tuple[str, str, list[str]]:
    """The object that lacks the field, the field's name, and what the object may hold."""
    for where, key, item in _children(value, parent):
        child = schema.items if isinstance(value, list) else schema.child(key)
        if child is None and where == path:
            return parent, key, list(schema.properties)
        if child is not None and path.startswith(where) and path[len(where) : len(where) + 1] in (".", "["):
            return _known_names(child, path, item, where)
    return parent, path, []


def _children(value: Any, parent: str) -> Iterator[tuple[str, str, Any]]:
    """(path, key, item) of everything right below a value."""
    if isinstance(value, list):
        yield from ((f"{parent}[{index}]", "", item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((join(parent, str(key)), str(key), item) for key, item in value.items())
