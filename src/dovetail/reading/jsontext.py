"""JSON, such as dumps of whole clusters: fast to read, places looked up only for errors."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from dovetail.base.errors import InputError
from dovetail.reading.kinds import is_from_server
from dovetail.reading.located import Located
from dovetail.reading.served import ServedPod, ServedPods

_SPACE = " \t\r\n"
_BETWEEN = re.compile(f"[{_SPACE},]*")  # two items of a list


class _List(msgspec.Struct):
    """The envelope of many objects, each still as text."""

    kind: str
    items: tuple[msgspec.Raw, ...]
    api_version: str = msgspec.field(name="apiVersion", default="")


_ENVELOPE = msgspec.json.Decoder(_List)


def read_json(text: str, source: str) -> Iterator[Located]:
    """The documents of a text: one, one a line, or one after the other; of a `List` its items.

    Items that do not say it themselves get kind and apiVersion of their list. Raises InputError with the
    line if malformed.
    """
    try:
        envelope = _envelope(text)
        if envelope is not None or _is_one(text):
            yield from _document(text, source, text, 0, envelope)
            return
        decoder, at = json.JSONDecoder(), _skipped(text, 0)
        while at < len(text):
            _, end = decoder.raw_decode(text, at)
            part = text[at:end]
            yield from _document(part, source, text, at, _envelope(part))
            at = _skipped(text, end)
    except (msgspec.DecodeError, json.JSONDecodeError):
        raise _malformed(text, source) from None
    except RecursionError:
        raise InputError("nested too deeply", source=source, line=1) from None


def _is_one(text: str) -> bool:
    """True iff a text is a single JSON value; raises what is wrong with one that is none at all."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        if "trailing characters" not in str(error):
            raise
        return False
    return True


def _skipped(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _envelope(text: str) -> _List | None:
    """Of a text that is a list and nothing else."""
    try:
        return _ENVELOPE.decode(text)
    except msgspec.DecodeError:
        return None


def _document(part: str, source: str, text: str, at: int, envelope: _List | None) -> Iterator[Located]:
    """The document that begins at `at` of the text, or its items."""
    place = _Place(text)
    if envelope is None or not envelope.items or not envelope.kind.endswith("List"):
        yield _located(part, source, text, at, place)
        return
    inherited = {"apiVersion": envelope.api_version, "kind": envelope.kind.removesuffix("List")}
    inherited = inherited if inherited["kind"] else {}
    pods = ServedPods()
    ascii_only = text.isascii()
    for index, item in enumerate(envelope.items):
        size = len(memoryview(item)) if ascii_only else len(bytes(item).decode())
        # The items come in the order of the text, with a comma between them.
        at = _BETWEEN.match(text, at).end() if index else text.index(bytes(item).decode(), at)  # type: ignore[union-attr]
        pod = pods.read(item, inherited)
        if pod is not None:
            yield ServedPod(pod, source, *place.of(at), _piece(text, at, at + size), inherited)
        else:
            found = _located(bytes(item).decode(), source, text, at, place)
            if isinstance(found.value, dict):
                for key, value in inherited.items():
                    found.value.setdefault(key, value)
            yield found
        at += size


def _located(part: str, source: str, text: str, at: int, place: _Place) -> Located:
    """The part, which begins at `at` of the text."""
    value: Any = msgspec.json.decode(part)
    line, column = place.of(at)
    end = at + len(part)
    if isinstance(value, dict) and not is_from_server(value):  # which writes no key twice
        _refuse_twins(part, source, line)
    return Located(value, source, line, column, _piece(text, at, end))


def _piece(text: str, start: int, end: int) -> Callable[[], str]:
    return lambda: text[start:end]


def _refuse_twins(part: str, source: str, line: int) -> None:
    """Raises InputError where a key is given twice."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) < len(pairs):
            key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise InputError(
                f"the key {key!r} is given twice", source=source, line=line, remedy="keep one of them"
            )

    with suppress(ValueError):  # a number that is too long is no concern of this
        json.loads(part, object_pairs_hook=check)


class _Place:
    """Line and column of ever later positions of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1

    def of(self, at: int) -> tuple[int, int]:
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line, at - self._text.rfind("\n", 0, at)


def _malformed(text: str, source: str) -> InputError:
    """The standard library is slower, but says where."""
    decoder, at = json.JSONDecoder(), _skipped(text, 0)
    try:
        while at < len(text) or not text.strip():
            _, end = decoder.raw_decode(text, at)
            at = _skipped(text, end)
        return InputError("malformed JSON: a number is out of range", source=source, line=1)
    except json.JSONDecodeError as error:
        return InputError(
            f"malformed JSON: {error.msg[:1].lower()}{error.msg[1:]}",
            source=source,
            line=error.lineno,
            column=error.colno,
        )
    except (RecursionError, ValueError):
        return InputError("malformed JSON: nested too deeply, or a number too long", source=source, line=1)
