"""YAML as Kubernetes reads it.

The parser is libyaml's; values are made from its events rather than from its tree, which takes a third of the
time and a tenth of the memory, and lets what is too deep or too much be refused while it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from yaml._yaml import CParser

from dovetail.base.errors import InputError
from dovetail.reading.located import Located, Span
from dovetail.reading.refusals import TEMPLATE, VARIABLE, filled_in

DEEPEST = 200  # levels; the deepest schemas of published definitions have about sixty
_MOST_ALIASED = 1_000_000  # values that aliases stand for in one document
_LONGEST_NUMBER = 400  # digits

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_INTEGER = re.compile(r"[-+]?(?:0b[01]+|0x[0-9a-fA-F]+|0o?[0-7]+|0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?[0-9]+")  # with zeros before it too, where it is not octal
_LARGEST_WHOLE = 1e21  # from here on kubectl sends a float as one
_FLOAT = re.compile(
    r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
)
_NUMERIC = frozenset("-+.0123456789")  # how numbers begin
_NO_KEY: Any = object()
_MERGE: Any = object()
_TAG = "tag:yaml.org,2002:"
# What programs say before what they were asked for, and how a manifest begins.
_WORDS_BEFORE = re.compile(r"(?:[A-Z]{4,}|[\w./-]+:\d+|[A-Z]\d{4} |\d{4}[-/]\d\d|level=|time=)")
_KEY = re.compile(r"(?:---|#|apiVersion:|kind:|metadata:|items:)")
_OF_TERRAFORM = (
    "it looks like a template of Terraform: give what it makes of it (terraform console has templatefile)"
)


def read_yaml(text: str, source: str) -> Iterator[Located]:
    """The documents of a text, one by one; empty ones are left out.

    Raises InputError with the line for malformed YAML, for keys that are given twice, for tags that are not
    Kubernetes', and for what is nested or repeated beyond all measure.
    """
    parser = CParser(text)
    try:
        builder = _Builder(text, source, parser.get_event)
        while (event := parser.get_event()) is not None:
            if isinstance(event, yaml.DocumentStartEvent):
                found = builder.document()
                if found is not None:
                    yield found
    except yaml.YAMLError as error:
        raise _malformed(error, text, source) from None
    except InputError as error:
        if error.remedy or "{{" not in text:
            raise
        raise InputError(
            error.message,
            source=source,
            line=error.line,
            column=error.column,
            path=error.path,
            remedy=TEMPLATE,
        ) from None
    finally:
        parser.dispose()


def read_documents(text: str, source: str) -> list[Located]:
    """All documents of a text at once, as `read_yaml` reads them."""
    return list(read_yaml(text, source))


class _Frame:
    """A mapping or a sequence that is being read."""

    __slots__ = ("anchor", "key", "marks", "merges", "size", "spans", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Any = _NO_KEY  # of a mapping, of which the value comes next
        self.marks: dict[str, Any] = {}  # of a mapping: where its keys are
        self.merges: list[Any] = []
        self.size = 1  # values in it, those behind aliases as often as they are meant
        self.spans: list[Span] | None = None  # of the items of a `List`


class _Builder:
    """Makes values from the events of a parser."""

    def __init__(self, text: str, source: str, next_event: Callable[[], Any]) -> None:
        self._text = text
        self._source = source
        self._next = next_event
        self._known: dict[str, Any] = {}  # plain scalars: most are repeated

    def document(self) -> Located | None:
        """The document whose start was just read, None for an empty one."""
        first = self._next()
        if isinstance(first, yaml.ScalarEvent) and first.implicit[0] and _NULL.fullmatch(first.value):
            return None
        value, spans, end = self._value(first)
        mark = first.start_mark
        text, start = self._text, mark.index
        return Located(
            value,
            self._source,
            mark.line + 1,
            mark.column + 1,
            lambda: text[start:end],
            tuple(Span(item.start - start, item.end - start, item.line, item.column) for item in spans),
        )

    def _value(self, event: Any) -> tuple[Any, list[Span], int]:
        """What begins with this event, the spans of its items, and where it ends."""
        stack: list[_Frame] = []
        anchors: dict[str, tuple[Any, int]] = {}
        listed: list[Span] = []
        aliased = 0
        while True:
            kind, size = type(event), 1
            if kind is yaml.ScalarEvent:
                is_key = bool(stack) and stack[-1].key is _NO_KEY and type(stack[-1].value) is dict
                value = self._scalar(event, stack, is_key)
                if event.anchor:
                    anchors[event.anchor] = (value, 1)
                if is_key:
                    self._open_key(stack, value, event)
                    event = self._next()
                    continue
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._refuse_tag(event, stack)
                if stack and stack[-1].key is _NO_KEY and type(stack[-1].value) is dict:
                    raise self._error("a key must be text", event, stack)
                if len(stack) == DEEPEST:
                    raise self._error(f"nested deeper than {DEEPEST} levels", event, [])
                frame = _Frame({} if kind is yaml.MappingStartEvent else [], event.anchor)
                if kind is yaml.SequenceStartEvent and len(stack) == 1 and stack[0].key == "items":
                    frame.spans = listed
                stack.append(frame)
                if frame.spans is not None:
                    event = self._next()
                    self._begin(frame, event)
                    continue
                event = self._next()
                continue
            elif kind is yaml.AliasEvent:
                if any(frame.anchor == event.anchor for frame in stack):
                    raise self._error("the anchor refers to itself", event, stack)
                if event.anchor not in anchors:
                    raise self._error(f"there is no anchor {event.anchor!r} above", event, stack)
                value, size = anchors[event.anchor]
                aliased += size
                if aliased > _MOST_ALIASED:
                    raise self._error(
                        f"its aliases stand for more than {_MOST_ALIASED:,} values", event, stack
                    )
                if stack and stack[-1].key is _NO_KEY and type(stack[-1].value) is dict:
                    self._open_key(stack, self._key(value, event, stack), event)
                    event = self._next()
                    continue
            else:  # the end of a mapping or of a sequence
                frame = stack.pop()
                value, size = frame.value, frame.size
                if frame.merges:
                    self._merge(frame, event, stack)
                if frame.anchor:
                    anchors[frame.anchor] = (value, size)
            if not stack:
                return value, listed, event.end_mark.index
            top = stack[-1]
            top.size += size
            if type(top.value) is list:
                top.value.append(value)
                if top.spans is not None:
                    top.spans[-1] = _ended(top.spans[-1], event.end_mark.index)
                    event = self._next()
                    self._begin(top, event)
                    continue
            elif top.key is _MERGE:
                top.merges.append(value)
                top.key = _NO_KEY
            else:
                top.value[top.key] = value
                top.key = _NO_KEY
            event = self._next()

    @staticmethod
    def _begin(frame: _Frame, event: Any) -> None:
        """Note where the next item of a `List` begins."""
        if type(event) is not yaml.SequenceEndEvent and frame.spans is not None:
            mark = event.start_mark
            frame.spans.append(Span(mark.index, mark.index, mark.line + 1, mark.column + 1))

    def _open_key(self, stack: list[_Frame], key: Any, event: Any) -> None:
        top = stack[-1]
        if key is _MERGE:
            top.key = _MERGE
            return
        if key in top.marks:
            where = _path([*stack[:-1]], key, top)
            raise InputError(
                f"the key {key!r} is given twice, first on line {top.marks[key].line + 1}",
                source=self._source,
                line=event.start_mark.line + 1,
                column=event.start_mark.column + 1,
                path=where,
                remedy="put --- between two objects"
                if where in ("apiVersion", "kind")
                else "keep one of them",
            )
        top.marks[key] = event.start_mark
        top.key = key

    def _merge(self, frame: _Frame, event: Any, stack: list[_Frame]) -> None:
        """What `<<` brings in; what the mapping says itself, and what came first, wins."""
        for given in frame.merges:
            for part in given if isinstance(given, list) else [given]:
                if not isinstance(part, dict):
                    raise self._error("<< takes a map or a list of maps", event, stack)
                for key, item in part.items():
                    frame.value.setdefault(key, item)

    def _scalar(self, event: Any, stack: list[_Frame], is_key: bool) -> Any:
        text: str = event.value
        if event.implicit[0]:
            if is_key and text == "<<":
                return _MERGE
            value = self._known.get(text, _NO_KEY)
            if value is _NO_KEY:
                value = self._known[text] = self._plain(text, event, stack)
        elif event.tag is None or event.tag == "!" or event.implicit[1]:
            value = text
        else:
            value = self._tagged(event, stack)
        return self._key(value, event, stack) if is_key else value

    def _plain(self, text: str, event: Any, stack: list[_Frame]) -> Any:
        """What a scalar without quotes means; dates and times of day ("21:00") stay text."""
        if text[:1] in _NUMERIC and text:
            digits = text.replace("_", "")
            if _INTEGER.fullmatch(digits) or _DECIMAL.fullmatch(digits):
                return self._integer(digits, event, stack)
            if _FLOAT.fullmatch(digits):
                number = float(digits)
                if number in (float("inf"), float("-inf")):
                    raise self._error(f"the number {_short(text)} is too large", event, stack)
                return int(number) if number.is_integer() and abs(number) < _LARGEST_WHOLE else number
            return text
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        return None if _NULL.fullmatch(text) else text

    def _integer(self, text: str, event: Any, stack: list[_Frame]) -> int:
        if len(text) > _LONGEST_NUMBER:
            raise self._error(f"the number {_short(text)} is too long", event, stack)
        sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
        octal = digits[0] == "0" and _INTEGER.fullmatch(digits) is not None
        base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2], 8 if octal else 10)
        return sign * int(digits, base)

    def _tagged(self, event: Any, stack: list[_Frame]) -> Any:
        """A scalar that says its type."""
        kind = event.tag.removeprefix(_TAG)
        if kind in ("str", "binary", "timestamp"):
            return event.value
        if kind in ("int", "float", "bool", "null"):
            value = self._plain(event.value, event, stack)
            if kind == "float" and isinstance(value, int):
                value = float(value)
            wanted = {"int": int, "float": float, "bool": bool, "null": type(None)}[kind]
            if type(value) is wanted:
                return value
            raise self._error(f"{event.value!r} is no {kind}", event, stack)
        raise self._unknown_tag(event, stack)

    def _refuse_tag(self, event: Any, stack: list[_Frame]) -> None:
        if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            raise self._unknown_tag(event, stack)

    def _unknown_tag(self, event: Any, stack: list[_Frame]) -> InputError:
        name = event.tag.replace(_TAG, "!!")
        return self._error(
            f"Kubernetes does not know the tag {name}", event, stack, remedy="write the value without a tag"
        )

    def _key(self, value: Any, event: Any, stack: list[_Frame]) -> Any:
        """Keys are text: a number or a truth value becomes what JSON would write."""
        if isinstance(value, str) or value is _MERGE:
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        raise self._error("a key must be text", event, stack)

    def _error(self, message: str, event: Any, stack: list[_Frame], *, remedy: str = "") -> InputError:
        mark = event.start_mark
        path = _path(stack[:-1], stack[-1].key, stack[-1]) if stack else ""
        return InputError(
            message,
            source=self._source,
            line=mark.line + 1,
            column=mark.column + 1,
            path=path,
            remedy=remedy,
        )


def _ended(span: Span, end: int) -> Span:
    return Span(span.start, end, span.line, span.column)


def _path(above: list[_Frame], key: Any, top: _Frame) -> str:
    """The path of a key of the innermost mapping."""
    path = ""
    for frame, inner in [*((frame, frame.key) for frame in above), (top, key)]:
        if type(frame.value) is list:
            path += f"[{len(frame.value)}]"
        elif isinstance(inner, str):
            path += f".{inner}" if path else inner
    return path


def _short(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:17]}..."


def _malformed(error: yaml.YAMLError, text: str, source: str) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    line = None if mark is None else mark.line + 1
    position = getattr(error, "position", None)
    if line is None and isinstance(position, int):
        line = text.encode("utf-8", "replace").count(b"\n", 0, position) + 1
    remedy = TEMPLATE if "{{" in text else _OF_TERRAFORM if "%{" in text else _remedy(text, line, source)
    return InputError(
        f"malformed YAML: {problem}",
        source=source,
        line=line,
        column=None if mark is None else mark.column + 1,
        remedy=remedy,
    )


def _remedy(text: str, line: int | None, source: str) -> str:
    """What a line that is no YAML comes from, mostly."""
    lines = text.split("\n", line or 0)
    wrong = lines[line - 1] if line is not None and line <= len(lines) else ""
    if wrong[: len(wrong) - len(wrong.lstrip())].count("\t"):
        return "indent with spaces: YAML takes no tabs"
    if found := VARIABLE.search(wrong):
        return filled_in(found[0], source)
    if wrong.startswith("```"):
        return "keep what is between the fences of Markdown"
    if "\x1b" in wrong:
        return "have the program write without colours"
    if line is not None and _WORDS_BEFORE.match(wrong) and not any(map(_KEY.match, lines[:line])):
        return (
            "a program's warning, it seems: keep standard error out of it (2>/dev/null), or delete the line"
        )
    return "look at the indentation and at quotes and colons on this line and on the one before"
