"""JSON documents to typed objects and back."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from dovetail.api.meta import Object
from dovetail.units.quantity import Quantity, parse_quantity

T = TypeVar("T")
Document = dict[str, Any]


def decode(document: object, kind: type[T]) -> T:
    """A typed view of a document; fields that Dovetail does not read are dropped.

    Raises msgspec.ValidationError, whose text names the path (`$.spec.replicas`).
    """
    return msgspec.convert(document, kind, dec_hook=_read)


def encode(value: object) -> Any:
    """The document of an object (with apiVersion and kind) or of a part; defaults are left out."""
    document = msgspec.json.decode(_ENCODER.encode(value))
    if isinstance(value, Object):
        return {"apiVersion": value.API_VERSION, "kind": value.KIND, **document}
    return document


_ENCODER = msgspec.json.Encoder(enc_hook=lambda value: _write(value))


def _read(kind: type, value: object) -> object:
    if kind is Quantity and isinstance(value, str | int | float):
        return parse_quantity(value)
    raise ValueError(f"expected {kind.__name__}, got {value!r}")


def _write(value: object) -> object:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"cannot encode {type(value).__name__}")
