"""Writes TOML; the standard library only reads it.

The layout is that of the Go library whose output users of Karpenter know from their launch templates: literal
strings where they do, tables after the values of the table above them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NOT_LITERAL = re.compile(r"['\x00-\x08\x0a-\x1f\x7f]")


def write(document: Mapping[str, Any]) -> str:
    """The document in the order of its mappings. Raises TypeError for values that TOML does not have."""
    return "".join(_table((), document))


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    if path:
        yield f"[{'.'.join(map(_key, path))}]\n"
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    for name, value in values.items():
        yield f"{_key(name)} = {_value(value)}\n"
    after = bool(values)
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ("\n",) if after else ()
            yield from _table((*path, name), value)
            after = True


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            pairs = (f"{_key(name)} = {_value(item)}" for name, item in value.items())
            return f"{{{', '.join(pairs)}}}"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _text(text: str) -> str:
    if not _NOT_LITERAL.search(text):
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
