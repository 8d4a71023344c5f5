"""JSON manifests, such as dumps of whole clusters: fast to read, lines looked up only for errors."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dovetail.api.yamltext import Located, compose
from dovetail.base.errors import InputError


class _List(msgspec.Struct):
    """The envelope of many objects, each still as text."""

    kind: str
    items: tuple[msgspec.Raw, ...]


_ENVELOPE = msgspec.json.Decoder(_List)


def read_json(text: str, source: str) -> list[Located]:
    """The document of a text, or the parts of a `List`; raises InputError with the line if malformed."""
    try:
        envelope = _ENVELOPE.decode(text)
    except msgspec.ValidationError:
        envelope = None
    except msgspec.DecodeError:
        raise _malformed(text, source) from None
    try:
        if envelope is None or not envelope.kind.endswith("List"):
            return [_part(text, 0)]
        found, at, above = [], 0, 0
        for item in envelope.items:
            # The parts come in the order of the text, so every search starts where the last part ended.
            part = bytes(item).decode()
            start = text.index(part, at)
            above += text.count("\n", at, start)
            found.append(_part(part, above))
            above += part.count("\n")
            at = start + len(part)
        return found
    except msgspec.DecodeError:
        raise _malformed(text, source) from None


def _part(text: str, above: int) -> Located:
    value: Any = msgspec.json.decode(text)
    return Located(value, above + 1, lambda: compose(text), above)


def _malformed(text: str, source: str) -> InputError:
    """The standard library is slower, but says where."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return InputError(f"malformed JSON: {error.msg}", source=source, line=error.lineno)
    return InputError("malformed JSON", source=source)
