"""A quick yes to documents whose structure is sound: a schema as a type, which msgspec checks in one call.

A walk over a schema takes nine times as long (49 us instead of 5.5, mean of 125 example manifests), and
most documents have nothing wrong with them. A no may be wrong: `schema` looks closely then, and says what is
wrong and where.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from dovetail.api.schema import UNSET, Schema, compiled

_LARGEST = {"int32": (1 << 31) - 1}  # by format
_INT64 = (1 << 63) - 1


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A type that no value has, for what msgspec has no words for."""

    never: Literal["never"]


class Shape:
    """The structure of a schema: its fields, their types and bounds. A null counts as absent."""

    def __init__(self, schema: Schema) -> None:
        self._type = _type(schema)

    def fits(self, value: Any) -> bool:
        """True only if the value has no unknown field and breaks nothing of its schema but rules."""
        try:
            msgspec.convert(value, self._type)
        except (msgspec.MsgspecError, OverflowError, RecursionError):
            return False
        return True


_types: dict[int, tuple[Schema, Any]] = {}  # by the identity of the schema, which is kept for that


def _type(schema: Schema) -> Any:
    """Kinds share most of their parts, and each is made once."""
    known = _types.get(id(schema))
    if known is None:
        known = _types[id(schema)] = schema, _made(schema)
    return known[1]


def _made(schema: Schema) -> Any:
    kind = schema.type
    if kind == "any":
        return Any
    if kind == "object":
        return _object(schema)
    if kind == "array":
        items: Any = Any if schema.items is None else _type(schema.items)
        # Of a set, only what is too short to hold anything twice is known to be one.
        return _sized(list[items], schema.min_items, 1 if schema.unique else schema.max_items)
    if kind == "string":
        return _text(schema)
    if schema.enum:
        return _Nothing
    if kind == "boolean":
        return bool
    if kind == "int-or-string":
        return _number(schema, int) | _text(schema)
    if kind == "number-or-string":
        return _number(schema, float) | _text(schema)
    return _number(schema, float if kind == "number" else int)


def _object(schema: Schema) -> Any:
    if schema.values is not None:
        of: Any = _type(schema.values)
        return _Nothing if schema.properties else _sized(dict[str, of], None, schema.max_properties)
    if schema.max_properties is not None:
        return _Nothing
    fields: list[Any] = []
    for index, (key, part) in enumerate(schema.properties.items()):
        of = _type(part)
        needed = key in schema.required and part.default is UNSET
        fields.append((f"f{index}", of) if needed else (f"f{index}", of | None, None))
    names = {f"f{index}": key for index, key in enumerate(schema.properties)}
    return msgspec.defstruct("Part", fields, rename=names, forbid_unknown_fields=True, kw_only=True, gc=False)


def _sized(of: Any, least: int | None, most: int | None) -> Any:
    return (
        of
        if least is None and most is None
        else Annotated[of, msgspec.Meta(min_length=least, max_length=most)]
    )


def _text(schema: Schema) -> Any:
    if schema.enum:
        return Literal[schema.enum]
    pattern = compiled(schema.pattern).pattern if schema.pattern else None
    if pattern is None and schema.min_length is None and schema.max_length is None:
        return str
    limits = msgspec.Meta(pattern=pattern, min_length=schema.min_length, max_length=schema.max_length)
    return Annotated[str, limits]


def _number(schema: Schema, of: type) -> Any:
    largest = _LARGEST.get(schema.format, _INT64)
    least = -largest - 1 if schema.minimum is None else schema.minimum
    most = largest if schema.maximum is None else schema.maximum
    return Annotated[of, msgspec.Meta(ge=least, le=most)]
