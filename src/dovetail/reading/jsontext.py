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
_BETWEEN = re.compile(rb"[ \t\r\n,]*")  # two items of a list


class _List(msgspec.Struct):
    """The envelope of many objects, each still as text."""

    kind: str
    items: tuple[msgspec.Raw, ...]
    api_version: str = msgspec.field(name="apiVersion", default="")


_ENVELOPE = msgspec.json.Decoder(_List)


def read_json(text: bytes, source: str) -> Iterator[Located]:
    """The documents of a text in UTF-8: one, one a line, or one after the other; of a `List` its items.

    Items that do not say it themselves get kind and apiVersion of their list. Raises InputError with the
    line if malformed.
    """
    try:
        envelope = _envelope(text)
        if envelope is not None or _is_one(text):
            yield from _document(text, source, _Lines(text), 0, envelope)
            return
        lines, characters = _Lines(text), text.decode()
        decoder, at, start = json.JSONDecoder(), 0, 0  # `start` counts bytes, all else there characters
        while (begin := _skipped(characters, at)) < len(characters):
            start += len(characters[at:begin].encode())
            _, at = decoder.raw_decode(characters, begin)
            part = characters[begin:at].encode()
            yield from _document(part, source, lines, start, _envelope(part))
            start += len(part)
    except (msgspec.DecodeError, json.JSONDecodeError):
        raise _malformed(text, source) from None
    except RecursionError:
        raise InputError("nested too deeply", source=source, line=1) from None


def _is_one(text: bytes) -> bool:
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


def _envelope(text: bytes) -> _List | None:
    """Of a text that is a list and nothing else."""
    try:
        return _ENVELOPE.decode(text)
    except msgspec.DecodeError:
        return None


def _document(part: bytes, source: str, lines: _Lines, at: int, envelope: _List | None) -> Iterator[Located]:
    """The document that begins at `at` of the text, or its items."""
    if envelope is None or not envelope.items or not envelope.kind.endswith("List"):
        yield _located(part, source, lines, at)
        return
    inherited = {"apiVersion": envelope.api_version, "kind": envelope.kind.removesuffix("List")}
    inherited = inherited if inherited["kind"] else {}
    pods, text = ServedPods(), lines.text
    for index, item in enumerate(envelope.items):
        size = len(memoryview(item))
        # The items come in the order of the text, with a comma between them.
        at = _BETWEEN.match(text, at).end() if index else text.index(bytes(item), at)  # type: ignore[union-attr]
        pod = pods.read(item, inherited)
        if pod is not None:
            yield ServedPod(pod, source, lines.place(at), _piece(text, at, at + size), inherited)
        else:
            found = _located(bytes(item), source, lines, at)
            if isinstance(found.value, dict):
                for key, value in inherited.items():
                    found.value.setdefault(key, value)
            yield found
        at += size


def _located(part: bytes, source: str, lines: _Lines, at: int) -> Located:
    """The part, which begins at `at` of the text."""
    value: Any = msgspec.json.decode(part)
    line, column = lines.place(at)()
    if isinstance(value, dict) and not is_from_server(value):  # which writes no key twice
        _refuse_twins(part, source, line)
    return Located(value, source, line, column, _piece(lines.text, at, at + len(part)))


def _piece(text: bytes, start: int, end: int) -> Callable[[], str]:
    return lambda: text[start:end].decode()


def _refuse_twins(part: bytes, source: str, line: int) -> None:
    """Raises InputError where a key is given twice."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) < len(pairs):
            key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise InputError(
                f"the key {key!r} is given twice", source=source, line=line, remedy="keep one of them"
            )

    with suppress(ValueError):  # a number that is too long is no concern of this
        json.loads(part, object_pairs_hook=check)


class _Lines:
    """Line and column of positions of a text, which are few, or ever later ones that are told beforehand."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._told: list[int] = []
        self._places: dict[int, tuple[int, int]] = {}  # of what was told, once one of them was asked for

    def place(self, at: int) -> Callable[[], tuple[int, int]]:
        """Line and column, looked up when they are asked for; positions are told in their order."""
        self._told.append(at)
        return lambda: self._place(at)

    def _place(self, at: int) -> tuple[int, int]:
        """Counted on from the place before, as all of a server's answer may be on one line."""
        if at not in self._places:
            known = len(self._places)
            before = self._told[known - 1] if known else 0
            line, column = self._places[before] if known else (1, 1)
            for position in self._told[known:]:
                breaks = self.text.count(b"\n", before, position)
                if breaks:
                    line, column = line + breaks, 1
                    before = self.text.rindex(b"\n", before, position) + 1
                column += len(self.text[before:position].decode())
                self._places[position] = line, column
                before = position
        return self._places[at]


def _malformed(written: bytes, source: str) -> InputError:
    """The standard library is slower, but says where."""
    text = written.decode()
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
