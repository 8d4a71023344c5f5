"""A document under change, and the record of what changed: which field became which, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

Document = dict[str, Any]
Path = tuple[str | int, ...]
ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One field that is not what or where it was.

    `old` is its path in the document as it was written, None for one that is new; `new` its path now, None
    for one that is gone. `was` and `now` are its values, ABSENT where there is none.
    """

    old: Path | None
    new: Path | None
    was: Any
    now: Any
    why: str


def shown(path: Path) -> str:
    """A path as users write it: `spec.requirements[0].key`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


class Editor:
    """Changes a document step by step, from the first change on a copy of it.

    Mappings and lists keep their classes and their order. Where nothing changed, `document` is the input.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._own = False
        self._changes: list[Change] = []

    def own(self) -> Document:
        """The document as a copy that may be changed."""
        if not self._own:
            self.document, self._own = copied(self.document), True
        return self.document

    def get(self, *path: str | int, default: Any = None) -> Any:
        """The value at a path, `default` where there is none."""
        value: Any = self.document
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return default
        return value

    def has(self, *path: str | int) -> bool:
        """True iff there is a value at the path."""
        return self.get(*path, default=ABSENT) is not ABSENT

    def set(self, path: Path, value: Any, why: str) -> None:
        """Write a value, or append one to a list; parents are made. What is there already is not recorded."""
        was = self.get(*path, default=ABSENT)
        if was is not ABSENT and was == value and type(was) is type(value):
            return
        self._put(path, value)
        self._record(self._origin(path) if was is not ABSENT else None, path, was, why)

    def move(self, old: Path, new: Path, why: str) -> None:
        """Take the value at one path to another, if there is one."""
        value = self.get(*old, default=ABSENT)
        if value is ABSENT:
            return
        origin = self._origin(old)
        self._take(old)
        self._put(new, value)
        self._changes = [
            replace(change, new=(*new, *change.new[len(old) :]))
            if change.new is not None and len(change.new) > len(old) and change.new[: len(old)] == old
            else change
            for change in self._changes
        ]
        self._record(origin, new, value, why, at=old)

    def rename(self, old: Path, key: str, why: str) -> None:
        """Give a key of a mapping another name, in its place, if it is there; one that has that name wins."""
        parent = self.get(*old[:-1])
        if not isinstance(parent, dict) or old[-1] not in parent:
            return
        if key in parent:
            self.drop(old, why)
            return
        order = [key if name == old[-1] else name for name in parent]
        self.move(old, (*old[:-1], key), why)
        self.arrange(old[:-1], order)

    def arrange(self, path: Path, order: Iterable[str]) -> None:
        """Put the keys of a mapping in an order; those that it does not name follow as they were."""
        self.own()
        parent = self.get(*path)
        if isinstance(parent, dict):
            names = [key for key in order if key in parent]
            for key in [*names, *(key for key in parent if key not in names)]:
                parent[key] = parent.pop(key)

    def drop(self, path: Path, why: str) -> None:
        """Take a value away, if there is one; without a reason (what a move left behind) silently."""
        value = self.get(*path, default=ABSENT)
        if value is ABSENT:
            return
        origin = self._origin(path)
        self._take(path)
        new_here = [change for change in self._changes if change.new == path and change.old is None]
        self._changes = [
            change for change in self._changes if change.new is None or change.new[: len(path)] != path
        ]
        if why and not new_here:
            self._changes.append(Change(origin, None, copied(value), ABSENT, why))

    def tidy(self, *path: str | int) -> None:
        """Take an empty mapping away that a move left behind, and those above it."""
        while path and self.get(*path, default=None) == {}:
            self._take(path)
            path = path[:-1]

    def changes(self) -> tuple[Change, ...]:
        """What changed so far, in the order of the steps, each with the value that the document has now."""
        return tuple(
            replace(change, now=ABSENT if change.new is None else self.get(*change.new, default=ABSENT))
            for change in self._changes
        )

    def origin(self, path: Path) -> Path | None:
        """Where the value at a path was in the document as it was written; None if it is new."""
        for change in self._changes:
            if change.new is not None and change.old is None and path[: len(change.new)] == change.new:
                return None
        return self._origin(path)

    def _origin(self, path: Path) -> Path:
        best: Change | None = None
        for change in self._changes:
            if change.new is None or change.old is None or path[: len(change.new)] != change.new:
                continue
            if best is None or best.new is None or len(change.new) >= len(best.new):
                best = change
        if best is None or best.new is None or best.old is None:
            return path
        return (*best.old, *path[len(best.new) :])

    def _record(self, old: Path | None, new: Path, was: Any, why: str, at: Path | None = None) -> None:
        """Add a change, or carry on one whose field it is."""
        for index, change in enumerate(self._changes):
            if change.new == (new if at is None else at):
                words = change.why if why in change.why else f"{change.why}; {why}" if change.why else why
                self._changes[index] = replace(change, new=new, why=words)
                return
            inside = change.new is not None and new[: len(change.new)] == change.new
            if old is None and inside and change.old is None:
                return  # a part of what is new itself
        self._changes.append(Change(old, new, copied(was), ABSENT, why))

    def _put(self, path: Path, value: Any) -> None:
        parent: Any = self.own()
        for step in path[:-1]:
            if isinstance(parent, dict):
                parent = parent.setdefault(step, {})
            else:
                parent = parent[step]
        if isinstance(parent, list) and path[-1] == len(parent):
            parent.append(value)
        else:
            parent[path[-1]] = value

    def _take(self, path: Path) -> None:
        self.own()
        parent = self.get(*path[:-1])
        del parent[path[-1]]


def copied(value: Any) -> Any:
    """A deep copy in which mappings and lists keep their class, which says how they are written."""
    made: Any = value
    if isinstance(value, dict):
        made = type(value)()
        for key, item in value.items():
            made[key] = copied(item)
    elif isinstance(value, list):
        made = type(value)()
        made.extend(copied(item) for item in value)
    return made


def without_nulls(value: Any) -> Any:
    """The value as a server takes it: fields that hold nothing are not there. Itself where there is none."""
    if not any(item is None for _, item in walk(value)):
        return value
    made: Any = value
    if isinstance(value, dict):
        made = type(value)()
        for key, item in value.items():
            if item is not None:
                made[key] = without_nulls(item)
    elif isinstance(value, list):
        made = type(value)()
        made.extend(without_nulls(item) for item in value)
    return made


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every part of a value with its path, from the outside in."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, (*path, index))
