"""Single fields of a scenario or of its manifests, set from outside: `settings.minimumSaving=5%`."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from dovetail.base.errors import InputError, InputErrors, Place
from dovetail.reading import Located, Manifest, read_objects

_OBJECT = re.compile(r"(?P<kind>[A-Z][A-Za-z0-9]*)/(?P<name>[^=]+?)\.(?P<path>(?:spec|metadata|data)\..+)")
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")
_EXAMPLE = "give PATH=VALUE, such as settings.minimumSaving=5% or NodePool/default.spec.weight=10"


@dataclass(frozen=True, slots=True)
class Change:
    """One field and its value. `kind` and `name` say of which object; without them it is the scenario's."""

    text: str  # as it was given
    path: str
    value: Any
    kind: str = ""
    name: str = ""  # or namespace/name
    flag: str = "--set"  # that gave it

    @property
    def source(self) -> str:
        """As errors name it."""
        return f"{self.flag} {self.text}"

    @staticmethod
    def parse(text: str, flag: str = "--set") -> Change:
        """Raises InputError for what is no PATH=VALUE."""
        left, equals, right = text.partition("=")
        if not equals or not left.strip():
            raise InputError(f"{text!r} sets nothing", source=flag, remedy=_EXAMPLE)
        try:
            value = yaml.safe_load(right) if right.strip() else ""
        except yaml.YAMLError:
            raise InputError(f"{right!r} is no value in YAML", source=flag, remedy=_EXAMPLE) from None
        found = _OBJECT.fullmatch(left.strip())
        if found is None:
            return Change(text, left.strip(), value, flag=flag)
        return Change(text, found["path"], value, found["kind"], found["name"], flag)

    def caused(self, path: str, before: Any) -> bool:
        """True iff what is wrong there in a document is this change's fault; `before` is without it."""
        if _within(path, self.path):
            return True
        return bool(path) and _within(self.path, path) and not _holds(before, path)

    def of(self, manifest: Manifest) -> bool:
        """True iff it is about this object."""
        kind, key = manifest.written
        return kind == self.kind and self.name in (key, key.rpartition("/")[2])


def with_fields(located: Located, changes: Sequence[Change]) -> Located:
    """The document with these fields set. Raises InputError where a path leads through no map or list."""
    value = copy.deepcopy(located.value)
    for change in changes:
        _set(value, change)
    return replace(located, value=value)


def with_objects(manifests: Sequence[Manifest], changes: Sequence[Change]) -> tuple[Manifest, ...]:
    """The manifests with these fields set, admitted anew. Raises InputError, for absent objects too."""
    for change in changes:
        if not any(change.of(item) for item in manifests):
            known = sorted({"/".join(item.written) for item in manifests if item.written[0] == change.kind})
            remedy = f"there are {', '.join(known)}" if known else f"there is no {change.kind} at all"
            message = f"no manifest is the {change.kind} {change.name!r}"
            raise InputError(message, source=change.source, remedy=remedy)
    found: list[Manifest] = []
    for item in manifests:
        mine = [change for change in changes if change.of(item)]
        found += _admitted(item.located, mine) if mine else [item]
    return tuple(found)


def _admitted(located: Located, changes: Sequence[Change]) -> Sequence[Manifest]:
    """The object with these fields set. Raises InputError that names those which it is not admitted for."""
    try:
        return read_objects([with_fields(located, changes)], strict=True).manifests
    except InputError as error:
        raise InputErrors.of(tuple(_blamed(one, changes, located.value) for one in error.faults)) from None


def _blamed(error: InputError, changes: Sequence[Change], before: Any) -> InputError:
    for change in changes:
        if change.caused(error.path, before):
            place: Place = {**error.place, "source": change.source, "line": None, "column": None}
            return InputError(error.message, **place)
    return error


def _within(path: str, outer: str) -> bool:
    """True iff the path leads to that place, or into it."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def _holds(value: Any, path: str) -> bool:
    for step in _STEP.findall(path):
        if step.startswith("["):
            if not isinstance(value, list) or int(step[1:-1]) >= len(value):
                return False
            value = value[int(step[1:-1])]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return False
    return True


def _set(value: Any, change: Change) -> None:
    steps = _STEP.findall(change.path)
    place = value
    for index, step in enumerate(steps):
        last = index == len(steps) - 1
        if step.startswith("[") and isinstance(place, list) and int(step[1:-1]) < len(place):
            number = int(step[1:-1])
            if last:
                place[number] = change.value
            else:
                place = place[number]
        elif isinstance(place, dict) and not step.startswith("["):
            if last:
                place[step] = change.value
            else:
                place = place.setdefault(step, {})
        else:
            reached = "".join(f".{each}" if not each.startswith("[") else each for each in steps[:index])
            message = f"{reached.lstrip('.') or 'the document'} has no {step}"
            raise InputError(message, source=change.source, remedy=_EXAMPLE)
