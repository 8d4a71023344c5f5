"""Paths of fields, such as `spec.rules[0].key`, followed into a document."""

from __future__ import annotations

from typing import Any

Path = tuple[str | int, ...]


def steps(value: Any, path: str) -> Path | None:
    """A path such as `spec.rules[0].key` step by step; keys may hold dots. None for one that leads "
    "nowhere."""
    found: list[str | int] = []
    while path:
        path = path.removeprefix(".")
        step: str | int
        if path.startswith("["):
            index, _, path = path[1:].partition("]")
            if not (isinstance(value, list) and index.isdecimal() and int(index) < len(value)):
                return None
            step = int(index)
        else:
            keys = [
                key
                for key in (value if isinstance(value, dict) else ())
                if path.startswith(key) and path[len(key) :][:1] in ("", ".", "[")
            ]
            if not keys:
                return None
            key = max(keys, key=len)
            step, path = key, path[len(key) :]
        found.append(step)
        value = value[step]
    return tuple(found)


def at(value: Any, path: str) -> Any:
    """What is at a path; None where nothing is."""
    found = steps(value, path)
    for step in found or ():
        value = value[step]
    return value if found is not None else None
