"""Text to expressions: tokens, then recursive descent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from dovetail.cloud.catalog.cel.values import (
    ExpressionError,
    Node,
    Scope,
    Value,
    bounded,
    call,
    combine,
    constant,
    negative,
    truth,
    variable,
)

MOST_CHARACTERS = 1_000
_DEEPEST = 40
_TOKEN = re.compile(
    r"""\s*(?:(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)|(?P<int>\d+)"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<text>"[^"\\]*"|'[^'\\]*')"""
    r"""|(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]]))"""
)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read; `names` are the variables that it uses, sorted."""

    text: str
    names: tuple[str, ...]
    _node: Node

    def value(self, scope: Scope) -> Value:
        """Raises ExpressionError, such as for a division by zero or an unknown variable."""
        try:
            return self._node(scope)
        except ZeroDivisionError:
            raise ExpressionError("division by zero") from None


@lru_cache(maxsize=256)
def read(text: str) -> Expression:
    """Raises ExpressionError that says what was expected where."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"is longer than {MOST_CHARACTERS} characters")
    reader = _Reader(_tokens(text))
    node = reader.choice(0)
    reader.end()
    return Expression(text, tuple(sorted(reader.names)), node)


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            place = len(text) - len(text[at:].lstrip())
            raise ExpressionError(f"unexpected {text[place]!r} at character {place + 1}")
        found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        at = match.end()
    return found


class _Reader:
    """Recursive descent, one method per level of precedence, weakest first."""

    _LEVELS = (("||",), ("&&",), ("==", "!=", "<=", ">=", "<", ">", "in"), ("+", "-"), ("*", "/", "%"))

    def __init__(self, tokens: list[tuple[str, str, int]]) -> None:
        self._tokens = tokens
        self._at = 0
        self.names: set[str] = set()

    def choice(self, depth: int) -> Node:
        """condition ? a : b"""
        if depth > _DEEPEST:
            raise ExpressionError(f"is nested deeper than {_DEEPEST} levels")
        condition = self._binary(0, depth)
        if not self._take("?"):
            return condition
        yes = self.choice(depth + 1)
        self._need(":")
        no = self.choice(depth + 1)
        return lambda scope: yes(scope) if truth(condition(scope)) else no(scope)

    def end(self) -> None:
        if self._at < len(self._tokens):
            _, text, place = self._tokens[self._at]
            raise ExpressionError(f"unexpected {text!r} at character {place}")

    def _binary(self, level: int, depth: int) -> Node:
        if level == len(self._LEVELS):
            return self._unary(depth)
        left = self._binary(level + 1, depth)
        while (sign := self._peek()) in self._LEVELS[level]:
            self._at += 1
            left = combine(sign, left, self._binary(level + 1, depth))
        return left

    def _unary(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise ExpressionError(f"is nested deeper than {_DEEPEST} levels")
        if self._take("!"):
            inner = self._unary(depth + 1)
            return lambda scope: not truth(inner(scope))
        if self._take("-"):
            inner = self._unary(depth + 1)
            return lambda scope: negative(inner(scope))
        return self._member(depth)

    def _member(self, depth: int) -> Node:
        node = self._primary(depth)
        while self._take("."):
            name = self._name()
            self._need("(")
            node = call(name, [node, *self._items(")", depth)], method=True)
        return node

    def _primary(self, depth: int) -> Node:
        if self._at >= len(self._tokens):
            raise ExpressionError("ends where a value was expected")
        kind, text, place = self._tokens[self._at]
        self._at += 1
        match kind, text:
            case "int", _:
                return constant(bounded(int(text)))
            case "float", _:
                return constant(float(text))
            case "text", _:
                return constant(text[1:-1])
            case "name", "true" | "false":
                return constant(text == "true")
            case "name", _:
                return self._called(text, depth)
            case "sign", "(":
                inner = self.choice(depth + 1)
                self._need(")")
                return inner
            case "sign", "[":
                items = self._items("]", depth)
                return lambda scope: [item(scope) for item in items]
        raise ExpressionError(f"unexpected {text!r} at character {place}")

    def _called(self, name: str, depth: int) -> Node:
        if self._take("("):
            return call(name, self._items(")", depth), method=False)
        self.names.add(name)
        return lambda scope: variable(scope, name)

    def _items(self, closing: str, depth: int) -> list[Node]:
        items: list[Node] = []
        while not self._take(closing):
            if items:
                self._need(",")
            items.append(self.choice(depth + 1))
        return items

    def _name(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "name":
            self._at += 1
            return self._tokens[self._at - 1][1]
        raise ExpressionError("a name is missing after '.'")

    def _peek(self) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] == "text":
            return ""
        return self._tokens[self._at][1]

    def _take(self, sign: str) -> bool:
        found = self._peek() == sign
        self._at += found
        return found

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            rest = f"before {self._tokens[self._at][1]!r}" if self._at < len(self._tokens) else "at the end"
            raise ExpressionError(f"{sign!r} is missing {rest}")
