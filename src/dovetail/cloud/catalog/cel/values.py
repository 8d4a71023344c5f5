"""What operators and functions do with values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

Value: TypeAlias = "int | float | bool | str | list[Value]"
Scope: TypeAlias = Mapping[str, Value]
Node: TypeAlias = Callable[[Scope], Value]

_LARGEST = 2**63


class ExpressionError(ValueError):
    """The expression cannot be read, or has no value for these variables."""


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
    raise ExpressionError(f"{value} does not fit into 64 bits")


def _integer(values: list[Value]) -> Value:
    try:
        return bounded(int(values[0]))  # type: ignore[arg-type]  # a list raises TypeError, caught here
    except (TypeError, ValueError, OverflowError):
        raise ExpressionError(f"{values[0]!r} is no whole number") from None


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
    "size": (1, _size),
}
