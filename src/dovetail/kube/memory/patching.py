"""JSON patch (RFC 6902). It leaves its inputs as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.base.errors import BadRequest, Cause, Invalid
from dovetail.base.mergepatch import clone
from dovetail.kube.memory.texts import REJECTED


def apply_json(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """The target after the operations, all or nothing.

    Raises BadRequest for an operation that is no JSON patch, Invalid when a path is missing or a test fails.
    """
    # One level of nesting holds the root, so that a path of "" needs no case of its own.
    root = _Root({"": target})
    for operation in operations:
        _apply(root, operation)
    return root[""]


class _Root(dict[str, Any]):
    """A value that may be changed: what of it is changed is copied first, once; the rest is shared."""

    def __init__(self, content: dict[str, Any]) -> None:
        super().__init__(content)
        self._own: dict[int, Any] = {}  # the copies by identity, which they keep

    def parent(self, path: tuple[str, ...]) -> Any:
        """The object or list that the path's last part is in, as a copy."""
        place: Any = self
        for length, part in enumerate(path[:-1], 1):
            child = _find(self, path[:length])
            if id(child) not in self._own and isinstance(child, dict | list):
                child = child.copy()
                self._own[id(child)] = child
                place[int(part) if isinstance(place, list) else part] = child
            place = child
        return place


def _apply(root: _Root, operation: Mapping[str, Any]) -> None:
    verb = operation.get("op")
    path = _pointer(operation, "path")
    if verb == "add":
        _add(root, path, clone(_value(operation)))
    elif verb == "remove":
        _remove(root, path)
    elif verb == "replace":
        _replace(root, path, clone(_value(operation)))
    elif verb == "move":
        source = _pointer(operation, "from")
        if path[: len(source)] == source and path != source:
            raise _refused(f"cannot move {_text(source)} into itself")
        _add(root, path, _remove(root, source))
    elif verb == "copy":
        _add(root, path, clone(_find(root, _pointer(operation, "from"))))
    elif verb == "test":
        if not _same(_tested(root, path), clone(_value(operation))):
            raise _refused(f"testing path {_text(path)} failed")
    else:
        raise BadRequest(
            f"{verb!r} is no JSON patch operation; valid are add, remove, replace, move, copy, test"
        )


def _same(one: Any, other: Any) -> bool:
    """JSON equality: unlike Python's, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise BadRequest(f"JSON patch operation {operation.get('op')!r} needs a value")
    return operation["value"]


def _pointer(operation: Mapping[str, Any], field: str) -> tuple[str, ...]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise BadRequest(
            f"JSON patch {field} {text!r} is no JSON pointer; valid is one such as /metadata/labels"
        )
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/"))


def _find(root: Any, path: tuple[str, ...]) -> Any:
    place = root
    for part in path:
        if isinstance(place, dict) and part in place:
            place = place[part]
        elif isinstance(place, list):
            place = place[_index(part, len(place) - 1, path)]
        else:
            raise _refused(f"missing path {_text(path)}")
    return place


def _tested(root: Any, path: tuple[str, ...]) -> Any:
    """What is there; null for a field that its object does not have."""
    parent = _find(root, path[:-1])
    return parent.get(path[-1]) if isinstance(parent, dict) else _find(root, path)


def _add(root: _Root, path: tuple[str, ...], value: Any) -> None:
    parent, last = root.parent(path), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent), path), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _refused(f"missing path {_text(path)}")


def _remove(root: _Root, path: tuple[str, ...]) -> Any:
    parent, last = root.parent(path), path[-1]
    if isinstance(parent, list):
        return parent.pop(_index(last, len(parent) - 1, path))
    if isinstance(parent, dict) and last in parent:
        return parent.pop(last)
    raise _refused(f"missing path {_text(path)}")


def _replace(root: _Root, path: tuple[str, ...], value: Any) -> None:
    _find(root, path)
    parent, last = root.parent(path), path[-1]
    parent[int(last) if isinstance(parent, list) else last] = value


def _index(text: str, largest: int, path: tuple[str, ...]) -> int:
    plain = text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
    if not plain or int(text) > largest:
        raise _refused(f"missing path {_text(path)}")
    return int(text)


def _text(path: tuple[str, ...]) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in path) or '""'


def _refused(detail: str) -> Invalid:
    return Invalid(REJECTED, (Cause("", detail, "UnexpectedServerResponse"),))
