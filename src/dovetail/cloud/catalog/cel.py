"""Expressions on an instance type, in the part of CEL that arithmetic on its figures needs.

Whole numbers of 64 bits, fractions, text, booleans and lists; `+ - * / %`, comparisons, `&& || !`, `?:`,
`in`, min, max, int, double, string, size and the tests of text (startsWith, endsWith, contains, matches). No
macros, maps or time: nothing here could use them. As in CEL, whole numbers and fractions do not mix in
arithmetic, and a division of whole numbers drops the fraction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import comb, inf, prod
from typing import TypeAlias

Value: TypeAlias = "int | float | bool | str | list[Value]"
Scope: TypeAlias = Mapping[str, Value]
Node: TypeAlias = Callable[[Scope], Value]

_LARGEST = 2**63


class ExpressionError(ValueError):
    """The expression cannot be read, or has no value for these variables."""


class NoValueError(ExpressionError):
    """The expression is sound; for these variables there is no value."""


def constant(value: Value) -> Node:
    return lambda _: value


def variable(scope: Scope, name: str) -> Value:
    if name not in scope:
        raise ExpressionError(f"there is no variable {name!r}; there are {', '.join(scope)}")
    return scope[name]


def combine(sign: str, left: Node, right: Node) -> Node:
    match sign:
        case "||":
            return lambda scope: truth(left(scope)) or truth(right(scope))
        case "&&":
            return lambda scope: truth(left(scope)) and truth(right(scope))
        case "==":
            return lambda scope: _equal(left(scope), right(scope))
        case "!=":
            return lambda scope: not _equal(left(scope), right(scope))
        case "in":
            return lambda scope: _member_of(left(scope), right(scope))
        case "<" | "<=" | ">" | ">=":
            return lambda scope: _ordered(sign, left(scope), right(scope))
    return lambda scope: arithmetic(sign, left(scope), right(scope))


def _equal(left: Value, right: Value) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _ordered(sign: str, left: Value, right: Value) -> bool:
    order = _compare(left, right)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


def _compare(left: Value, right: Value) -> int:
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    a, b = _number(left), _number(right)
    return (a > b) - (a < b)


def _member_of(item: Value, items: Value) -> bool:
    if not isinstance(items, list):
        raise ExpressionError("the right side of 'in' is no list")
    return any(_equal(item, other) for other in items)


def arithmetic(sign: str, left: Value, right: Value) -> Value:
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    a, b = _number(left), _number(right)
    if isinstance(a, int) and isinstance(b, int):
        return bounded(_whole_numbers(sign, a, b))
    if isinstance(a, int) or isinstance(b, int) or sign == "%":
        raise ExpressionError(f"{left} {sign} {right} mixes a whole number and a fraction; use double()")
    return {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "/" else a / b


def negative(value: Value) -> Value:
    number = _number(value)
    return bounded(-number) if isinstance(number, int) else -number


def _whole_numbers(sign: str, a: int, b: int) -> int:
    if sign in "/%":
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if sign == "/" else a - b * quotient
    return {"+": a + b, "-": a - b, "*": a * b}[sign]


def call(name: str, arguments: list[Node], *, method: bool) -> Node:
    function = (_METHODS if method else _FUNCTIONS).get(name)
    if function is None:
        known = ", ".join(_METHODS if method else _FUNCTIONS)
        raise ExpressionError(f"there is no function {name!r}; there are {known}")
    arity, made = function
    if (len(arguments) < 2) if arity is None else (len(arguments) != arity):
        raise ExpressionError(f"{name} takes {'at least 2' if arity is None else arity - method} arguments")
    return lambda scope: made([argument(scope) for argument in arguments])


def truth(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    raise ExpressionError(f"{value!r} is neither true nor false")


def _number(value: Value) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ExpressionError(f"{value!r} is no number")


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    raise ExpressionError(f"{value!r} is no text")


def bounded(value: int) -> int:
    if -_LARGEST <= value < _LARGEST:
        return value
    raise NoValueError(f"{value} does not fit into 64 bits")


def _integer(values: list[Value]) -> Value:
    try:
        return bounded(int(values[0]))  # type: ignore[arg-type]  # a list raises TypeError, caught here
    except (TypeError, ValueError, OverflowError):
        raise NoValueError(f"{values[0]!r} is no whole number") from None


# To try a pattern in so many ways took 3 ms. '(a+)+$' took 12 s for 26 letters, and twice that for each more.
_MOST_WAYS = 1_000_000
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEAT = re.compile(r"[*+{]")


def _ways(pattern: str, text: str) -> float:
    """In how many ways the pattern may be tried at most: CEL's take linear time, Python's any."""
    if _REPEATED_GROUP.search(pattern):
        return inf
    repeats = len(_REPEAT.findall(pattern)) + 1  # it may begin anywhere
    choices = prod(1 + part.count("|") for part in pattern.split("("))
    return comb(len(text) + repeats, repeats) * choices << pattern.count("?")


def _matches(values: list[Value]) -> Value:
    text, pattern = _text(values[0]), _text(values[1])
    if _ways(pattern, text) > _MOST_WAYS:
        raise ExpressionError(f"{pattern!r} may take too long to match: repeat less, and no groups")
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise ExpressionError(f"{values[1]!r} is no pattern: {error}") from None


def _size(values: list[Value]) -> Value:
    if isinstance(values[0], str | list):
        return len(values[0])
    raise ExpressionError(f"{values[0]!r} has no size")


# name -> (number of arguments or None for two or more, what it does)
_FUNCTIONS: dict[str, tuple[int | None, Callable[[list[Value]], Value]]] = {
    "min": (None, lambda values: min(map(_number, values))),
    "max": (None, lambda values: max(map(_number, values))),
    "int": (1, _integer),
    "double": (1, lambda values: float(_number(values[0]))),
    "string": (1, lambda values: str(values[0])),
    "size": (1, _size),
}
_METHODS: dict[str, tuple[int | None, Callable[[list[Value]], Value]]] = {
    "startsWith": (2, lambda values: _text(values[0]).startswith(_text(values[1]))),
    "endsWith": (2, lambda values: _text(values[0]).endswith(_text(values[1]))),
    "contains": (2, lambda values: _text(values[1]) in _text(values[0])),
    "matches": (2, _matches),
    "size": (1, _size),
}


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
            raise NoValueError("division by zero") from None


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


__all__ = ["Expression", "ExpressionError", "Scope", "Value", "read"]
