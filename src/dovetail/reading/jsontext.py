"""JSON, such as dumps of whole clusters: fast to read, places looked up only for errors."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import msgspec

from dovetail.base.errors import InputError
from dovetail.reading.kinds import is_from_server
from dovetail.reading.located import Located
from dovetail.reading.served import PodText, ServedPod, ServedPods

_SPACE = " \t\r\n"
_BETWEEN = re.compile(rb"[ \t\r\n,]*")  # two items of a list; it matches anywhere, if only nothing
_POD = re.compile(rb'"kind":\s*"Pod(?:List)?"')
_BEGIN, _END = 512, 65_536  # bytes: a pod says what it is in its first lines, and few take more in all


class _List(msgspec.Struct):
    """The envelope of many objects, each still as text."""

    kind: str
    items: tuple[msgspec.Raw, ...]
    api_version: str = msgspec.field(name="apiVersion", default="")


class _PodList(msgspec.Struct):
    """The same of pods, or of what has no other fields, in parts: each is parsed once, not twice."""

    kind: str
    items: tuple[PodText, ...]
    api_version: str = msgspec.field(name="apiVersion", default="")


_ENVELOPE = msgspec.json.Decoder(_List)
_PODS = msgspec.json.Decoder(_PodList)


def read_json(text: bytes, source: str) -> Iterator[Located]:
    """The documents of a text in UTF-8: one, one a line, or one after the other; of a `List` its items.

    Items that do not say it themselves get kind and apiVersion of their list. Raises InputError with the
    line if malformed.
    """
    try:
        pods = _pods(text)
        if pods is not None:
            yield from _pod_list(pods, text, source)
            return
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


def _pods(text: bytes) -> _PodList | None:
    """Of a text that is a list of pods, or of what looks like them, and nothing else.

    Where anything else is in the list, that was in vain (0.05 s of 0.4 for 87 MB): so it begins and ends in
    pods.
    """
    if not (_POD.search(text, 0, _BEGIN) and _POD.search(text, max(0, len(text) - _END))):
        return None
    try:
        found = _PODS.decode(text)
    except msgspec.DecodeError:
        return None
    return found if found.items and found.kind.endswith("List") else None


def _pod_list(found: _PodList, text: bytes, source: str) -> Iterator[Located]:
    inherited = _inherited(found.kind, found.api_version)
    pods, items = ServedPods(), _Items(text)
    for index, parts in enumerate(found.items):
        pod = pods.of(parts, inherited)
        if pod is not None:
            yield ServedPod(pod, source, partial(items.place, index), partial(items.text, index), inherited)
        else:
            yield items.located(index, source, inherited)


def _inherited(kind: str, api_version: str) -> dict[str, str]:
    """What the items of a list of that kind need not say."""
    own = kind.removesuffix("List")
    return {"apiVersion": api_version, "kind": own} if own else {}


class _Items:
    """Where the items of a text that is a list are: looked up once one of them is asked for."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._lines = _Lines(text)

    @cached_property
    def _found(self) -> tuple[list[tuple[int, int]], list[Callable[[], tuple[int, int]]]]:
        spans = list(_spans(_ENVELOPE.decode(self._text).items, self._text, 0))
        return spans, [self._lines.place(start) for start, _ in spans]

    def place(self, index: int) -> tuple[int, int]:
        """Line and column."""
        return self._found[1][index]()

    def text(self, index: int) -> str:
        start, end = self._found[0][index]
        return self._text[start:end].decode()

    def located(self, index: int, source: str, inherited: Mapping[str, str]) -> Located:
        """With a closer look than at a pod."""
        start, end = self._found[0][index]
        self.place(index)  # all of them are known from then on
        return _item(self._text[start:end], source, self._lines, start, inherited)


def _spans(items: Sequence[msgspec.Raw], text: bytes, at: int) -> Iterator[tuple[int, int]]:
    """The items of a list that begins at `at` come in the order of the text, with a comma between them."""
    for index, item in enumerate(items):
        start = _BETWEEN.match(text, at).end() if index else text.index(bytes(item), at)  # type: ignore[union-attr]
        at = start + len(memoryview(item))
        yield start, at


def _item(part: bytes, source: str, lines: _Lines, at: int, inherited: Mapping[str, str]) -> Located:
    found = _located(part, source, lines, at)
    if isinstance(found.value, dict):
        for key, value in inherited.items():
            found.value.setdefault(key, value)
    return found


def _document(part: bytes, source: str, lines: _Lines, at: int, envelope: _List | None) -> Iterator[Located]:
    """The document that begins at `at` of the text, or its items."""
    if envelope is None or not envelope.items or not envelope.kind.endswith("List"):
        yield _located(part, source, lines, at)
        return
    inherited = _inherited(envelope.kind, envelope.api_version)
    pods, text = ServedPods(), lines.text
    for item, (start, end) in zip(envelope.items, _spans(envelope.items, text, at), strict=True):
        pod = pods.read(item, inherited)
        if pod is not None:
            yield ServedPod(pod, source, lines.place(start), _piece(text, start, end), inherited)
        else:
            yield _item(bytes(item), source, lines, start, inherited)


def _located(part: bytes, source: str, lines: _Lines, at: int) -> Located:
    """The part, which begins at `at` of the text."""
    value: Any = msgspec.json.decode(part)
    if part[:1].isspace():
        own = part.lstrip()
        part, at = own, at + len(part) - len(own)
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


def _remedy(text: str, at: int) -> str:
    rest = text[at:].lstrip()
    if rest.startswith(("//", "/*", "#")):
        return "JSON takes no comments: delete them"
    if rest.startswith(","):  # since Python 3.13 that is the place
        rest, at = rest[1:].lstrip(), at + 1
    if rest.startswith(("}", "]")) and text[:at].rstrip().endswith((",", "[", "{")):
        return "JSON takes no comma after the last item"
    return "single quotes are none of JSON's: write double ones" if rest.startswith("'") else ""


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
            remedy=_remedy(text, error.pos),
        )
    except (RecursionError, ValueError):
        return InputError("malformed JSON: nested too deeply, or a number too long", source=source, line=1)
