"""OpenCost's filter language (version 2): `namespace:"shop"+label[team]!:"a","b"`, as a test of properties.

    filter     = element, then + element or | element: one kind of operator at a level
    element    = comparison, or a filter in parentheses
    comparison = field, operator, "value", with commas between values
    operator   = :  !:  ~:  !~:  <~:  !<~:  ~>:  !~>:   (equal, contains, begins with, ends with)

Errors are OpenCost's, in its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

UNALLOCATED = "__unallocated__"


class Owned(Protocol):
    """What a filter looks at: one allocation's properties."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def namespace_labels(self) -> Mapping[str, str]: ...

    @property
    def services(self) -> Sequence[str]: ...


Test = Callable[[Owned], bool]
_TEXTS = {
    "cluster": "cluster",
    "node": "node",
    "namespace": "namespace",
    "controllerName": "controller",
    "controllerKind": "controller_kind",
    "container": "container",
    "pod": "pod",
    "provider": "provider_id",
}
# Names that stand for a label, or else an annotation, of that key.
ALIASES = {
    "department": "department",
    "environment": "env",
    "owner": "owner",
    "product": "app",
    "team": "team",
}
_UNKNOWN = ("account",)  # OpenCost takes them and finds nothing
_LISTS = ("services",)
_MAPS = {
    "label": "labels",
    "annotation": "annotations",
    "namespaceLabel": "namespace_labels",
    "nodeLabel": "",
}
_OPERATORS = {
    "!<~:": "bangStartTildeColon",
    "!~>:": "bangTildeEndColon",
    "!~:": "bangTildeColon",
    "<~:": "startTildeColon",
    "~>:": "tildeEndColon",
    "!:": "bangColon",
    "~:": "tildeColon",
    ":": "colon",
}


@dataclass(frozen=True, slots=True)
class _Language:
    """What may be asked of: `texts` and `maps` are field -> attribute ("" for one that nothing has)."""

    texts: Mapping[str, str]
    maps: Mapping[str, str]
    aliases: Mapping[str, str]
    lists: Sequence[str]

    @property
    def fields(self) -> tuple[str, ...]:
        return *self.texts, *self.aliases, *self.lists


_ALLOCATIONS = _Language(_TEXTS | dict.fromkeys(_UNKNOWN, ""), _MAPS, ALIASES, _LISTS)
_ASSETS = _Language(
    {
        "name": "name",
        "assetType": "type",
        "category": "category",
        "cluster": "cluster",
        "project": "project",
        "provider": "provider",
        "providerID": "provider_id",
        "account": "account",
        "service": "service",
    },
    {"label": "labels"},
    ALIASES,
    (),
)
_SIGNS = {"+": "plus", "|": "or", ",": "comma", "(": "parenOpen", ")": "parenClose"}
_GROUPS = ("plus", "or")
_ENDS = ("plus", "or", "parenClose")


@dataclass(frozen=True, slots=True)
class Asset:
    """What a filter of /assets looks at; `type` is Node or Disk."""

    name: str
    type: str
    category: str
    cluster: str
    provider: str
    provider_id: str
    service: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    project: str = ""
    account: str = ""


def parse_filter(text: str) -> Test | None:
    """The test that a filter stands for; None for an empty one, which keeps everything.

    Raises ValueError with OpenCost's complaint.
    """
    return _parsed(text, _ALLOCATIONS)


def parse_asset_filter(text: str) -> Callable[[Asset], bool]:
    """A filter of assets, which have other fields; an empty one keeps everything. Raises ValueError."""
    return _parsed(text, _ASSETS) or (lambda _: True)


def _parsed(text: str, language: _Language) -> Callable[[Any], bool] | None:
    tokens, wrong = _tokens(text, language)
    if wrong:
        raise ValueError(f"lexing filter: {_listed(wrong)}")
    parser = _Parser(tokens, language)
    found = parser.filter(0)
    if parser.wrong:
        raise ValueError(f"parsing filter: {_listed(parser.wrong)}")
    return found


def _listed(wrong: Sequence[str]) -> str:
    head = "1 error occurred:" if len(wrong) == 1 else f"{len(wrong)} errors occurred:"
    return head + "".join(f"\n\t* {line}" for line in wrong) + "\n\n"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # of an operator or sign: its name; else str, field, map, key, identifier, eof
    text: str


def _tokens(text: str, language: _Language) -> tuple[list[_Token], list[str]]:
    tokens: list[_Token] = []
    wrong: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        operator = next((one for one in _OPERATORS if text.startswith(one, at)), "")
        if operator:
            tokens.append(_Token(_OPERATORS[operator], operator))
            at += len(operator)
        elif char in _SIGNS:
            tokens.append(_Token(_SIGNS[char], char))
            at += 1
        elif char in '"[':
            end = text.find('"' if char == '"' else "]", at + 1)
            if end < 0:
                what = "access" if char == "[" else "string"
                wrong.append(f"unterminated {what} starting at {at}")
                break
            tokens.append(_Token("str" if char == '"' else "key", text[at + 1 : end]))
            at = end + 1
        elif char in " \t\n\r":
            at += 1
        elif char.isalnum() or char in "-_":
            start = at
            while at < len(text) and (text[at].isalnum() or text[at] in "-_"):
                at += 1
            word = text[start:at]
            tokens.append(
                _Token(
                    "field" if word in language.fields else "map" if word in language.maps else "identifier",
                    word,
                )
            )
        else:
            at, complaint = _complaint(text, at)
            wrong.append(complaint)
    return [*tokens, _Token("eof", "")], wrong


def _complaint(text: str, at: int) -> tuple[int, str]:
    """A beginning of an operator without its end, or a character that begins nothing."""
    char = text[at]
    if char not in "!<~":
        shown = f"unexpected Unicode character '{char}' (U+{ord(char):04X})"
        where = len(text[:at].encode()) + len(char.encode()) - 1
        return at + 1, f"{shown if ord(char) > 127 else f'unexpected character {char!r}'} at position {where}"
    last = at
    for more in ("<~", "~>") if char == "!" else ("~",) if char == "<" else (">",):
        taken = 0
        while taken < len(more) and text[at + 1 + taken : at + 2 + taken] == more[taken]:
            taken += 1
        last = max(last, at + taken)
    return last + 1, f"Position {last}: Unexpected '{text[last]}'"


class _Parser:
    """Goes on after a mistake to the next operator, so that all of them are reported at once."""

    def __init__(self, tokens: list[_Token], language: _Language) -> None:
        self._tokens = tokens
        self._language = language
        self._at = 0
        self.wrong: list[str] = []

    def filter(self, depth: int) -> Test | None:
        """A filter up to its closing parenthesis, or the end; None for nothing."""
        if depth == 0 and self._next.kind == "eof":
            return None
        found = self._element(depth)
        if self._take("parenClose"):
            self._closed(depth)
            return found
        kind = self._next.kind
        if kind in _GROUPS:
            members = [found]
            while self._take(kind):
                members.append(self._element(depth))
                if self._take("parenClose"):
                    self._closed(depth)
                    return _group(kind, members)
                other = self._next.kind
                if other not in ("eof", kind):
                    self.wrong.append(f'Found "{_go_kind(other)}", Expected "{kind}"')
                    self._at += 1
                    self._synchronize()
                    if self._take("parenClose"):
                        return _group(kind, members)
            found = _group(kind, members)
        if depth > 0:
            self.wrong.append("Found '(' without matching ')'")
        return found

    def _element(self, depth: int) -> Test | None:
        if self._take("parenOpen"):
            return self.filter(depth + 1)
        try:
            return self._comparison()
        except ValueError as error:
            self.wrong.append(str(error))
            self._synchronize()
            return None

    def _comparison(self) -> Test:
        token, key = self._next, ""
        if self._take("map"):
            if self._next.kind == "key":
                key = self._next.text
                self._at += 1
        elif not self._take("field"):
            raise self._unexpected("expect filter field")
        operator = self._next
        if operator.kind not in _OPERATORS.values():
            raise self._unexpected("expect filter op like ':', '!:', '~:', or '!~:'")
        self._at += 1
        values = [self._value()]
        while self._take("comma"):
            values.append(self._value())
        negated = operator.text.startswith("!")
        test = _comparison(self._language, token.text, key, operator.text.lstrip("!"), tuple(values))
        return (lambda one: not test(one)) if negated else test

    def _value(self) -> str:
        token = self._next
        if not self._take("str"):
            raise self._unexpected("expect string as filter value")
        return token.text

    def _closed(self, depth: int) -> None:
        if depth <= 0:
            self.wrong.append("Found ')' without matching '('")

    def _synchronize(self) -> None:
        while self._next.kind not in ("eof", *_ENDS):
            self._at += 1

    @property
    def _next(self) -> _Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take(self, kind: str) -> bool:
        if self._next.kind != kind or kind == "eof":
            return False
        self._at += 1
        return True

    def _unexpected(self, expected: str) -> ValueError:
        token = self._next
        return ValueError(f"at end: {expected}" if token.kind == "eof" else f"at '{token.text}': {expected}")


def _go_kind(kind: str) -> str:
    return {"field": "filterField1", "map": "filterField2", "key": "keyedAccess"}.get(kind, kind)


def _group(kind: str, members: Sequence[Test | None]) -> Test:
    tests = [test for test in members if test is not None]
    if kind == "plus":
        return lambda one: all(test(one) for test in tests)
    return lambda one: any(test(one) for test in tests)


def _comparison(language: _Language, field: str, key: str, operator: str, values: tuple[str, ...]) -> Test:
    """Is one of the values met? A negated comparison is met when none is."""
    wanted = tuple("" if value == UNALLOCATED else value for value in values)
    met = _TEXT_TESTS[operator]
    if field in language.aliases:
        return _alias(sanitized(language.aliases[field]), operator, wanted)
    if field in language.lists:
        return lambda one: any(_listed_met(one.services, operator, value) for value in wanted)
    if field in language.maps and key:
        name, exact = language.maps[field], sanitized(key)
        return lambda one: any(met(_map(one, name).get(exact, ""), value) for value in wanted)
    if field in language.maps:
        name, keys = language.maps[field], tuple(map(sanitized, wanted))
        whole = "~:" if operator in (":", "~:") else operator
        return lambda one: any(_key_met(_map(one, name), whole, value) for value in keys)
    attribute = language.texts[field]
    if not attribute:
        return lambda _: False
    return lambda one: any(met(getattr(one, attribute), value) for value in wanted)


_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    ":": lambda have, value: have == value,
    "~:": lambda have, value: value in have,
    "<~:": lambda have, value: have.startswith(value),
    "~>:": lambda have, value: have.endswith(value),
}


def _map(one: Owned, name: str) -> Mapping[str, str]:
    found: Mapping[str, str] = getattr(one, name) if name else {}
    return found


def _listed_met(have: Sequence[str], operator: str, value: str) -> bool:
    if not have:
        return value == ""
    if operator in (":", "~:"):
        return value in have
    return any(_TEXT_TESTS[operator](one, value) for one in have)


def _key_met(have: Mapping[str, str], operator: str, value: str) -> bool:
    return value in have if operator == "~:" else any(_TEXT_TESTS[operator](key, value) for key in have)


def _alias(key: str, operator: str, values: tuple[str, ...]) -> Test:
    met = _TEXT_TESTS[operator]

    def test(one: Owned) -> bool:
        have = one.labels.get(key, one.annotations.get(key))
        if have is None:
            return "" in values
        return any(met(have, value) for value in values)

    return test


def sanitized(key: str) -> str:
    """A label's key as Prometheus, and so OpenCost, writes it: what is no letter or digit becomes _."""
    clean = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    return f"_{clean}" if clean[:1].isdigit() else clean
