"""Strict reading of one YAML document into Structs: every complaint names file, line, field and a guess."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from dovetail.base.errors import InputError
from dovetail.base.guess import nearest
from dovetail.reading import Located
from dovetail.reading.sources import decoded
from dovetail.reading.yamltext import read_documents
from dovetail.simulate.scenario.changed import Change, with_fields

T = TypeVar("T")
V = TypeVar("V")
_ERROR = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`")
_PLAIN = {"object": "map", "array": "list", "str": "text", "int": "whole number", "float": "number"}


class Document:
    """A parsed document that knows the line of every field."""

    def __init__(self, source: str, located: Located, changes: Sequence[Change] = ()) -> None:
        """`changes` are set in it: what is wrong with their fields is not the file's fault."""
        self._before = located.value
        located = with_fields(located, changes) if changes else located
        self.source = source
        self.value: Any = located.value
        self._located = located
        self._changes = changes

    @staticmethod
    def read(path: Path) -> Document:
        """Raises InputError when the file cannot be read or is not one YAML document."""
        source = str(path)
        try:
            found = read_documents(decoded(source), source)
        except OSError as error:
            raise InputError(f"cannot read the file: {error.strerror}", source=source) from None
        if len(found) != 1:
            raise InputError(f"expected one document, found {len(found)}", source=source)
        return Document(source, found[0])

    def changed(self, changes: Sequence[Change]) -> Document:
        """This document with those fields set. Raises InputError where a path leads nowhere."""
        return Document(self.source, self._located, changes)

    def decode(self, kind: type[T]) -> T:
        """The document as a Struct; raises InputError for unknown fields and wrong types."""
        try:
            return msgspec.convert(self.value, kind)
        except msgspec.ValidationError as error:
            match = _ERROR.fullmatch(str(error))
            message, path = (match["message"], match["path"] or "") if match else (str(error), "")
            unknown = _UNKNOWN.fullmatch(message)
            if unknown is None:
                choices = _choices(kind, path) if message.startswith("Invalid enum value") else ""
                raise self.error(f"{_plain(message)}{choices}", path) from None
            field = unknown["field"]
            place = f"{path}.{field}" if path else field
            raise self.error(f"unknown field {field!r}{_guess(field, kind, path)}", place) from None

    def parse(self, path: str, reader: Callable[[str], V], text: str) -> V:
        """What the field at that path means; raises InputError for a text that the reader refuses."""
        try:
            return reader(text)
        except ValueError as error:
            raise self.error(str(error), path) from None

    def error(self, message: str, path: str = "", *, remedy: str = "") -> InputError:
        """An InputError that points at a field of this document, or at the change that set it."""
        for change in self._changes:
            if change.caused(path, self._before):
                return InputError(message, source=change.source, path=path, remedy=remedy)
        line = self._located.line_of(path)
        return InputError(message, source=self.source, line=line, path=path, remedy=remedy)


def suggest(word: str, choices: tuple[str, ...]) -> str:
    """ "; did you mean 'x'?" when one choice is near, else what is valid."""
    near = nearest(word, choices)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; valid are {', '.join(choices)}" if choices else ""


def _guess(field: str, kind: type, path: str) -> str:
    target = _struct(_annotation(kind, path))
    return (
        suggest(field, tuple(item.encode_name for item in msgspec.structs.fields(target))) if target else ""
    )


def _choices(kind: type, path: str) -> str:
    """ "; valid are a, b" for a field that takes some words alone."""
    found = _annotation(kind, path)
    words = [one for inner in (found, *get_args(found)) for one in get_args(inner) if isinstance(one, str)]
    return f"; valid are {', '.join(words)}" if words else ""


def _annotation(kind: type, path: str) -> Any:
    """The type of the field at that path; None where it cannot be told."""
    found: Any = kind
    for name in re.findall(r"[^.\[\]]+", re.sub(r"\[[^\]]*\]", "", path)):
        target = _struct(found)
        if target is None:
            return None
        found = {item.encode_name: item.type for item in msgspec.structs.fields(target)}.get(name)
    return found


def _struct(annotation: Any) -> Any:
    """The Struct inside an annotation such as `tuple[Peak, ...]` or `Trace | None`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    inner = getattr(annotation, "__args__", ())
    return next((found for item in inner if (found := _struct(item)) is not None), None)


def _plain(message: str) -> str:
    """A message in the words of YAML."""
    message = message.replace("Object missing required field", "missing the required field")
    message = message.replace(" | null", "")  # what may be left out is not worth a word here
    for word, plain in _PLAIN.items():
        message = message.replace(f"`{word}`", plain)
    return message[:1].lower() + message[1:]
