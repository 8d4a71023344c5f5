"""Structural schemas as data, and the engine that checks documents against them as an API server does.

In order: unknown fields, nulls and defaults, types and bounds, then rules. Rules are not asked while the
structure is broken, because they rely on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dovetail.api.rules import Rule
from dovetail.base.errors import Cause

UNSET: Any = object()
_NESTED = (dict, list)
_INT32, _INT64 = 1 << 31, 1 << 63
_CHECKED, _NO_SCHEMA = "Checked value must be of type", "must validate at least one schema (anyOf)"
_BLOCKING = frozenset(
    {
        "FieldValueRequired",
        "FieldValueTypeInvalid",
        "FieldValueNotSupported",
        "FieldValueTooMany",
        "FieldValueTooLong",
    }
)
_NOT_CHECKED = Cause(
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One node of a structural schema.

    `type` is object, array, string, integer, number, boolean, int-or-string,
    number-or-string or any (not looked into).
    """

    type: str
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    values: Schema | None = None  # object used as a map: what its values are
    items: Schema | None = None
    default: Any = UNSET
    enum: tuple[str, ...] = ()
    pattern: str = ""
    hint: str = ""  # the pattern in words, with an example
    format: str = ""  # int32, int64; date-time, which a server checks and `validate` does not
    min_length: int | None = None
    max_length: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    unique: bool = False  # the array is a set
    rules: tuple[Rule, ...] = ()
    # True iff it or a part of it has rules: most of a document has none, and is not walked for them.
    ruled: bool = field(init=False, repr=False, compare=False)
    # The properties that have a default, few of many.
    defaulted: tuple[tuple[str, Schema], ...] = field(init=False, repr=False, compare=False)
    free: bool = field(init=False, repr=False, compare=False)  # any text will do

    def __post_init__(self) -> None:
        parts = (*self.properties.values(), self.values, self.items)
        ruled = bool(self.rules) or any(part.ruled for part in parts if part is not None)
        object.__setattr__(self, "ruled", ruled)
        defaulted = tuple((key, part) for key, part in self.properties.items() if part.default is not UNSET)
        object.__setattr__(self, "defaulted", defaulted)
        lengths = (self.min_length, self.max_length)
        free = self.type == "string" and not (self.enum or self.pattern or any(lengths))
        object.__setattr__(self, "free", free)

    def child(self, key: str) -> Schema | None:
        """The schema of a property, if the key is known."""
        return self.properties.get(key, self.values)


_NO_FIELDS = Schema(type="object")  # of an object in a list that stands where no list belongs


def unknown_fields(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Paths of all fields that the schema does not define, in document order."""
    if schema.type == "any":
        return
    if isinstance(value, dict):
        properties, values = schema.properties, schema.values
        for key, item in value.items():
            child = properties.get(key, values)
            if child is None:
                yield _below(path, key)
            elif isinstance(item, _NESTED):
                yield from unknown_fields(child, item, _below(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, _NESTED):
                yield from unknown_fields(schema.items or _NO_FIELDS, item, f"{path}[{index}]")


def with_defaults(schema: Schema, value: Any) -> Any:
    """A copy in which nulls are dropped and absent fields have their defaults. The input is left as it is."""
    if schema.type == "any":
        return _copy(value)
    if isinstance(value, dict):
        properties, values = schema.properties, schema.values
        result: dict[str, Any] = {}
        for key, item in value.items():
            if isinstance(item, _NESTED):
                child = properties.get(key, values)
                result[key] = item if child is None else with_defaults(child, item)
            elif item is not None:
                result[key] = item
            elif values is not None and key not in properties and values.default is not UNSET:
                result[key] = values.default
        for key, child in schema.defaulted:
            if key not in result:
                result[key] = with_defaults(child, _copy(child.default))
        return result
    if isinstance(value, list) and schema.items is not None:
        items = schema.items
        return [with_defaults(items, item) if isinstance(item, _NESTED) else item for item in value]
    return value


def without_unknown(schema: Schema, value: Any) -> Any:
    """A copy without the fields that the schema does not define."""
    if schema.type == "any":
        return value
    if isinstance(value, dict):
        known = ((key, schema.child(key), item) for key, item in value.items())
        return {key: without_unknown(child, item) for key, child, item in known if child is not None}
    if isinstance(value, list):
        return [without_unknown(schema.items or _NO_FIELDS, item) for item in value]
    return value


def _copy(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: _copy(item) if isinstance(item, _NESTED) else item for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) if isinstance(item, _NESTED) else item for item in value]
    return value


def validate(
    schema: Schema, value: Any, old: Any | None = None, *, sound: bool = False, found: tuple[Cause, ...] = ()
) -> tuple[Cause, ...]:
    """Every broken rule of a document that has its defaults; `old` is what an update replaces.

    `sound`: its structure is known to be right (see `shape`), and is not looked at again. `found` is what is
    known to be wrong with it already: rules are not asked where that is about the structure.
    """
    causes = () if sound else tuple(_structure(schema, value, ""))
    if any(cause.reason in _BLOCKING for cause in (*found, *causes)):
        return (*_metadata_rules(schema, value, causes), *causes)
    return causes + tuple(_rules(schema, value, old, ""))


def _metadata_rules(schema: Schema, document: Any, causes: tuple[Cause, ...]) -> Iterator[Cause]:
    """Metadata is the same for all kinds: what is wrong with it is said whatever the rest looks like."""
    part = schema.child("metadata")
    written = document.get("metadata") if isinstance(document, dict) else None
    if part is None or written is None or any(cause.field.startswith("metadata") for cause in causes):
        return
    yield from _rules(part, written, None, "metadata")


def with_unchecked(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """The causes, and that rules were not asked where one is about the structure."""
    blocked = any(cause.reason in _BLOCKING for cause in causes)
    return (*causes, _NOT_CHECKED) if blocked else causes


def join(path: str, key: str) -> str:
    """The path of a property; either part may be empty."""
    return f"{path}.{key}" if path and key else path or key


def _below(path: str, key: str) -> str:
    """The path of a property, which may have an empty name."""
    return f"{path}.{key}" if path else key


def _structure(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if schema.type == "any":
        return
    if not _is_type(schema.type, value):
        yield Cause(path, _wrong_type(schema.type, value), "FieldValueTypeInvalid")
        yield from _mistyped(schema, value, path)
        return
    if isinstance(value, dict):
        yield from _object(schema, value, path)
    elif isinstance(value, list):
        yield from _array(schema, value, path)
    else:
        yield from _scalar(schema, value, path)


def _mistyped(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    """What a server says besides of a value of another type."""
    if schema.type == "int-or-string":
        yield Cause("<nil>", f'Invalid value: "": "{path}" {_NO_SCHEMA}')
        yield from (_not_whole(schema, path),) if _type_of(value) == "number" else ()
    elif schema.type == "integer" and _type_of(value) == "number":
        yield _not_whole(schema, path)
        yield from _scalar(schema, value, path)
    elif schema.enum:
        yield from _unsupported(schema, value, path)


def _not_whole(schema: Schema, path: str) -> Cause:
    form = f"with format {schema.format}" if schema.format else "(default format)"
    return Cause("<nil>", f'Invalid value: "": {_CHECKED} integer {form} in {path}')


def is_echo(cause: Cause) -> bool:
    """True iff the cause only says in the server's other words what one with a path says."""
    return any(words in cause.message for words in (_NO_SCHEMA, _CHECKED, _NOT_CHECKED.message))


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Cause]:
    for key in schema.required:
        if key not in value:
            yield Cause(_below(path, key), "Required value", "FieldValueRequired")
    limit = schema.max_properties
    if limit is not None and len(value) > limit:
        message = f"Too many: {len(value)}: must have at most {limit} items"
        yield Cause(path, message, "FieldValueTooMany")
    for key, item in value.items():
        child = schema.child(key)
        if child is not None and not (child.free and isinstance(item, str)):
            yield from _structure(child, item, _below(path, key))


def _array(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    if schema.min_items is not None and len(value) < schema.min_items:
        yield Cause(path, f"Invalid value: {len(value)}: must have at least {schema.min_items} items")
    if schema.max_items is not None and len(value) > schema.max_items:
        message = f"Too many: {len(value)}: must have at most {schema.max_items} items"
        yield Cause(path, message, "FieldValueTooMany")
    for index, item in enumerate(value):
        if schema.unique and value[:index].count(item) == 1:  # a third is not told of
            yield Cause(f"{path}[{index}]", f"Duplicate value: {json.dumps(item)}", "FieldValueDuplicate")
        if schema.items is not None:
            yield from _structure(schema.items, item, f"{path}[{index}]")


def _scalar(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if schema.enum:
        yield from _unsupported(schema, value, path)
    if isinstance(value, str):
        if schema.max_length is not None and len(value) > schema.max_length:
            message = f"Too long: may not be more than {schema.max_length} bytes"
            yield Cause(path, message, "FieldValueTooLong")
        elif schema.min_length is not None and len(value) < schema.min_length:
            message = f"Invalid value: {_shown(value)}: should be at least {schema.min_length} chars long"
            yield Cause(path, message)
        elif schema.pattern and not compiled(schema.pattern).search(value):
            words = schema.hint or f"text that matches '{schema.pattern}'"
            yield Cause(path, f"Invalid value: {_shown(value)}: must be {words}")
        return
    if schema.format == "int32" and not -_INT32 <= value < _INT32 and _type_of(value) == "integer":
        yield _not_whole(schema, path)
    if schema.minimum is not None and value < schema.minimum:
        message = f"Invalid value: {_shown(value)}: must be greater than or equal to {schema.minimum}"
        yield Cause(path, message)
    if schema.maximum is not None and value > schema.maximum:
        message = f"Invalid value: {_shown(value)}: must be less than or equal to {schema.maximum}"
        yield Cause(path, message)


def _unsupported(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if value not in schema.enum:
        supported = ", ".join(json.dumps(item) for item in schema.enum)
        shown = json.dumps(_as_read(value), ensure_ascii=False, separators=(",", ":"))
        message = f"Unsupported value: {shown}: supported values: {supported}"
        yield Cause(path, message, "FieldValueNotSupported")


def _as_read(value: Any) -> Any:
    """A server shows 3.0 as 3, and what is no int64 as the nearest number that it can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return int(value) if _type_of(value) == "integer" else float(value)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wrong_type(wanted: str, value: Any) -> str:
    kind = _type_of(value)
    if kind in ("object", "array", "null"):
        return f"Invalid value: must be of type {wanted}, not {kind}"
    shown = _shown(value)
    # YAML takes a bare 5, true or 1.30 for something else than text.
    quotes = f'; write it in quotes: "{shown}"' if wanted == "string" else ""
    return f"Invalid value: {shown}: must be of type {wanted}, not {kind}{quotes}"


def _rules(schema: Schema, value: Any, old: Any | None, path: str) -> Iterator[Cause]:
    if not schema.ruled:
        return
    for rule in schema.rules:
        fault = rule.fault(value, old)
        if fault:
            scalar = isinstance(value, str | int | float)
            shown = f"{_shown(value)}: " if scalar else ""
            yield Cause(join(path, rule.at) or "<nil>", f"Invalid value: {shown}{fault}")
    if isinstance(value, dict) and schema.type != "any":
        before = old if isinstance(old, dict) else {}
        for key, item in value.items():
            child = schema.child(key)
            if child is None or not child.ruled:
                continue
            known = before.get(key)
            # What was admitted stays admitted; a status is stored as controllers write it.
            if known is None or key == "status" or known != item:
                yield from _rules(child, item, known, _below(path, key))
    elif isinstance(value, list) and schema.items is not None:
        # Items of a list have no identity across updates, so rules on them see no old value.
        for index, item in enumerate(value):
            yield from _rules(schema.items, item, None, f"{path}[{index}]")


def _is_type(wanted: str, value: Any) -> bool:
    kind = _type_of(value)
    if wanted == "int-or-string":
        return kind in ("integer", "string")
    if wanted == "number-or-string":
        return kind in ("integer", "number", "string")
    return kind == wanted or (wanted == "number" and kind == "integer")


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if -_INT64 <= value < _INT64 and value == int(value) else "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "null"


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Of a schema: `$` means the end of the text, not also the place before a last newline.

    Digits and blanks are those of ASCII, as a server reads them.
    """
    plain = pattern.replace(r"\d", "[0-9]").replace(r"\s", r"[\t\n\f\r ]")
    return re.compile(re.sub(r"\$$", r"\\Z", plain))
