"""JSON documents to typed objects and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec

from dovetail.api.meta import Object
from dovetail.units.quantity import Quantity, parse_quantity

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
Document = dict[str, Any]
_ABSENT: Any = object()
_ALWAYS = ("apiVersion", "kind", "metadata")
_WHOLE = frozenset({"volumes"})  # one without its source is taken for an emptyDir


def decode(document: object, kind: type[T]) -> T:
    """A typed view of a document; fields that Dovetail does not read are dropped, and null means absent.

    Raises msgspec.ValidationError, whose text names the path (`$.spec.replicas`).
    """
    try:
        return msgspec.convert(document, kind, dec_hook=_read)
    except msgspec.ValidationError:
        # Once more, without the nulls that older servers and careless writers put for what is absent.
        return msgspec.convert(without_nulls(document), kind, dec_hook=_read)


def decode_next(document: Mapping[str, Any], old: Mapping[str, Any], view: S) -> S:
    """The view of a document that was made from an `old` one, of which `view` is the view.

    What both share, the very same part and not an equal one, is not read again: most changes leave most of
    an object as it is.
    """
    changed: dict[str, Any] = {}
    fields = _fields(type(view))
    if not old.keys() <= document.keys() and not fields.keys().isdisjoint(old.keys() - document.keys()):
        return decode(document, type(view))
    for key, item in document.items():
        before = old.get(key, _ABSENT)
        if item is before or key not in fields:
            continue
        name, kind = fields[key]
        known = getattr(view, name)
        try:
            if isinstance(known, msgspec.Struct) and isinstance(item, dict) and isinstance(before, dict):
                changed[name] = decode_next(item, before, known)
            else:
                changed[name] = msgspec.convert(item, kind, dec_hook=_read)
        except msgspec.ValidationError:
            return decode(document, type(view))  # whose complaint names the path from here on
    return msgspec.structs.replace(view, **changed)


def salvage(document: Mapping[str, Any], kind: type[S]) -> S:
    """The view of a document that `decode` refuses: what does not fit is as if it were not there.

    Where it must be there, it is empty.
    """
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        item, part = document.get(field.encode_name), field.type
        part = part.__origin__ if get_origin(part) is Annotated else part  # a number within bounds
        inside = isinstance(part, type) and issubclass(part, msgspec.Struct)
        try:
            if item is not None:
                found[field.name] = msgspec.convert(item, part, dec_hook=_read)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            if inside and isinstance(item, dict):
                found[field.name] = salvage(item, part)
        if field.required and field.name not in found:
            found[field.name] = salvage({}, part) if inside else (get_origin(part) or part)()
    return kind(**found)


def pared(document: Document, kind: type[Object]) -> Document:
    """The document without what the typed view drops; metadata stays whole. The input is left as it is.

    Of a pod as a server keeps it that is more than half: variables, probes, mounts, what its containers did.
    """
    made = _pared(document, kind)
    return {**made, **{key: document[key] for key in _ALWAYS if key in document}}


def _pared(value: Document, kind: type[msgspec.Struct]) -> Document:
    parts = _parts(kind)
    made: Document = {}
    for key, item in value.items():
        if item is None or key not in parts:
            continue
        part = parts[key]
        if part is not None:
            if isinstance(item, dict):
                item = _pared(item, part)
            elif isinstance(item, list):
                item = [_pared(one, part) if isinstance(one, dict) else one for one in item]
        made[key] = item
    return made


@lru_cache(maxsize=256)
def _parts(kind: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct] | None]:
    """By key: the struct that is read there, alone or in a list; None for anything else."""
    return {key: None if key in _WHOLE else _struct_of(of) for key, (_, of) in _fields(kind).items()}


def _struct_of(kind: Any) -> type[msgspec.Struct] | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if get_origin(kind) is dict:
        return None  # its keys are names
    return next((found for one in get_args(kind) if (found := _struct_of(one)) is not None), None)


def without_nulls(value: Any) -> Any:
    """A copy in which fields that hold nothing are not there."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


@lru_cache(maxsize=256)
def _fields(kind: type[msgspec.Struct]) -> dict[str, tuple[str, Any]]:
    return {field.encode_name: (field.name, field.type) for field in msgspec.structs.fields(kind)}


def encode(value: object) -> Any:
    """The document of an object (with apiVersion and kind) or of a part; defaults are left out."""
    document = msgspec.json.decode(written(value))
    if isinstance(value, Object):
        return {"apiVersion": value.API_VERSION, "kind": value.KIND, **document}
    return document


def written(value: object) -> bytes:
    """The same as JSON, without apiVersion and kind."""
    return _ENCODER.encode(value)


_ENCODER = msgspec.json.Encoder(enc_hook=lambda value: _write(value))


def _read(kind: type, value: object) -> object:
    if kind is Quantity and isinstance(value, str | int | float):
        return parse_quantity(value)
    raise ValueError(f"expected {kind.__name__}, got {value!r}")


def _write(value: object) -> object:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"cannot encode {type(value).__name__}")
