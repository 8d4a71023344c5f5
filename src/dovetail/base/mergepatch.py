"""JSON merge patch (RFC 7396). It leaves its inputs as they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

_SCALARS = (str, int, float, NoneType)


def clone(value: Any) -> Any:
    """A deep copy of a JSON value; tuples become lists, mappings become dicts."""
    if isinstance(value, _SCALARS):  # most values; to ask about Mapping takes longer
        return value
    if isinstance(value, Mapping):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clone(item) for item in value]
    return value


def merge(target: Any, patch: Any) -> Any:
    """The target with the patch laid over it; parts that the patch does not touch are shared."""
    if not isinstance(patch, Mapping):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
