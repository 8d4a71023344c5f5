"""Strict reading of a YAML document into Structs: every complaint names file, line, field and a guess."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from dovetail.base.errors import InputError

T = TypeVar("T")
_ERROR = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`")
_WORDS = {
    "tag:yaml.org,2002:bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "tag:yaml.org,2002:int": re.compile(r"[-+]?[0-9]+"),
    "tag:yaml.org,2002:float": re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"),
    "tag:yaml.org,2002:null": re.compile(r"~|null|Null|NULL|"),
}


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars: 21:05 is text, not 1,265, and dates stay text too."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


for _tag, _pattern in _WORDS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern.pattern})$"), None)


class Document:
    """A parsed YAML document that knows the line of every field."""

    def __init__(self, path: Path, text: str) -> None:
        self.source = str(path)
        self._lines: dict[str, int] = {}
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                raise self.error("the file is empty")
            self._index(node, "")
            self.value: Any = loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise InputError(
                f"not readable as YAML: {error.problem or error.context}",
                source=self.source,
                line=mark.line + 1 if mark is not None else None,
            ) from None

    @staticmethod
    def read(path: Path) -> Document:
        """Raises InputError when the file cannot be read or is not one YAML document."""
        try:
            return Document(path, path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InputError(f"cannot read the file: {reason}", source=str(path)) from None

    def decode(self, kind: type[T]) -> T:
        """The document as a Struct; raises InputError for unknown fields and wrong types."""
        try:
            return msgspec.convert(self.value, kind)
        except msgspec.ValidationError as error:
            match = _ERROR.fullmatch(str(error))
            message, path = (match["message"], match["path"] or "") if match else (str(error), "")
            unknown = _UNKNOWN.fullmatch(message)
            if unknown is None:
                raise self.error(_plain(message), path) from None
            field = unknown["field"]
            place = f"{path}.{field}" if path else field
            raise self.error(f"unknown field {field!r}{_guess(field, kind, path)}", place) from None

    def error(self, message: str, path: str = "", *, remedy: str = "") -> InputError:
        """An InputError that points at a field of this document."""
        return InputError(message, source=self.source, line=self._line(path), path=path, remedy=remedy)

    def _line(self, path: str) -> int | None:
        while path and path not in self._lines:
            path = re.sub(r"(^|\.)[^.\[\]]*$|\[[^\]]*\]$", "", path)
        return self._lines.get(path)

    def _index(self, node: yaml.Node, path: str) -> None:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self._index(item, f"{path}[{i}]")
        elif isinstance(node, yaml.MappingNode):
            for key, name in self._keys(node, path):
                place = f"{path}.{name}" if path else name
                self._lines[place] = key.start_mark.line + 1
            for key, value in node.value:
                self._index(value, f"{path}.{key.value}" if path else str(key.value))

    def _keys(self, node: yaml.MappingNode, path: str) -> Iterator[tuple[yaml.Node, str]]:
        seen: dict[Hashable, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise InputError(
                    f"the field {key.value!r} was given before, on line {seen[key.value]}",
                    source=self.source,
                    line=line,
                    path=path,
                )
            seen[key.value] = line
            yield key, str(key.value)


def suggest(word: str, choices: tuple[str, ...]) -> str:
    """ "; did you mean 'x'?" when one choice is near, else what is valid."""
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; valid are {', '.join(choices)}" if choices else ""


def _guess(field: str, kind: type, path: str) -> str:
    target: Any = kind
    for name in re.findall(r"[^.\[\]]+", re.sub(r"\[[^\]]*\]", "", path)):
        fields = {item.encode_name: item.type for item in msgspec.structs.fields(target)}
        target = _struct(fields.get(name))
        if target is None:
            return ""
    return suggest(field, tuple(item.encode_name for item in msgspec.structs.fields(target)))


def _struct(annotation: Any) -> Any:
    """The Struct inside an annotation such as `tuple[Peak, ...]` or `Trace | None`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    inner = getattr(annotation, "__args__", ())
    return next((found for item in inner if (found := _struct(item)) is not None), None)


def _plain(message: str) -> str:
    """A message without Python's or msgspec's vocabulary."""
    message = message.replace("Object missing required field", "missing the required field")
    for word, plain in (("object", "map"), ("array", "list"), ("str", "text"), ("int", "whole number")):
        message = message.replace(f"`{word}`", plain)
    return message[:1].lower() + message[1:]
