"""Values and functions of selectors: arithmetic, text, lists, sets, quantities and versions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from dovetail.devices.cel_syntax import UInt
from dovetail.units.quantity import Quantity, parse_quantity

# Steps that one evaluation may take. A selector of the usual form takes about ten per comparison; Kubernetes
# ends at 1,000,000 of its own, cheaper ones. 20,000 are 20 ms here.
MOST_STEPS = 20_000
_PER_STEP = 10  # characters, or items of a list, that are looked at in one step
_LARGEST = 1 << 63
_EXACT = 1 << 53
_MOST_REGEX_BYTES = 1 << 20

# Types as messages have them.
SHOWN = {
    "list": "list(dyn)",
    "map": "map(dyn, dyn)",
    "null": "null_type",
    "any": "any",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "attributes": "map(string, map(string, any))",
    "capacities": "map(string, map(string, kubernetes.Quantity))",
    "attribute map": "map(string, any)",
    "capacity map": "map(string, kubernetes.Quantity)",
    "device": "kubernetes.DRADevice",
    "optional": "optional_type(dyn)",
    **{name: name for name in ("bool", "int", "uint", "double", "string", "bytes", "dyn", "type")},
}


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value: `type(x) == string`."""

    name: str


TYPES = {name: TypeName(name) for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map")}


class EvaluationError(ValueError):
    """There is no answer for these values."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    held: tuple[Any, ...] = ()  # the value, or nothing

    @property
    def value(self) -> Any:
        if not self.held:
            raise EvaluationError("optional.none() dereference")
        return self.held[0]


def is_zero(value: Any) -> bool:
    """True of what a type has before anything was put there: 0, false, "", none, what is empty."""
    if isinstance(value, Optional):
        return not value.held
    return value is None or (isinstance(value, int | float | str | bytes | list | Mapping) and not value)


class Meter:
    """Steps that are left. Invariant: below zero once the limit was passed, and from then on."""

    __slots__ = ("left",)

    def __init__(self, left: int = MOST_STEPS) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise EvaluationError("operation cancelled: actual cost limit exceeded")

    def look(self, *sizes: int) -> None:
        """Spend for so many characters or items."""
        self.spend(sum(sizes) // _PER_STEP + 1)


_SEMVER = re.compile(
    r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_LONGEST_VERSION = 256


@dataclass(frozen=True, slots=True)
class Semver:
    """A version of semver 2.0.0; what it was built from does not count."""

    numbers: tuple[int, int, int]
    rank: tuple[Any, ...]  # orders pre-releases, which come before the release

    @staticmethod
    def read(text: str) -> Semver | None:
        found = _SEMVER.fullmatch(text) if len(text) <= _LONGEST_VERSION else None
        if found is None:
            return None
        parts = found[4].split(".") if found[4] else []
        # Numbers come before words, and fewer parts before more.
        keys = tuple((0, len(one), one) if one.isdigit() else (1, 0, one) for one in parts)
        return Semver((int(found[1]), int(found[2]), int(found[3])), (not parts, keys))

    def __lt__(self, other: Semver) -> bool:
        return (self.numbers, self.rank) < (other.numbers, other.rank)


def type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, UInt):
        return "uint"
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return "null" if value is None else "dyn"


_KINDS: tuple[tuple[Any, str], ...] = (
    (str, "string"),
    (int, "int"),
    (float, "double"),
    (Quantity, "quantity"),
    (Semver, "semver"),
    (list, "list"),
    (Mapping, "map"),
    (bytes, "bytes"),
    (Optional, "optional"),
)


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of a map that Python takes for another one: true is 1 there."""

    value: bool


def key_of(value: Any) -> Any:
    if isinstance(value, bool):
        return _Key(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise EvaluationError(f"unsupported key type: {SHOWN[type_of(value)]}")


def bare(key: Any) -> Any:
    return key.value if isinstance(key, _Key) else key


def equal(meter: Meter, left: Any, right: Any) -> bool:
    """Values of different types are unequal; numbers are compared as numbers."""
    meter.spend(1)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(equal(meter, a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(meter, left[key], right[key]) for key in left)
    if isinstance(left, Optional) and isinstance(right, Optional):
        return equal(meter, [*left.held], [*right.held])
    kinds = {type_of(left), type_of(right)}
    if len(kinds) > 1 and not kinds <= _NUMBERS:
        return False
    if isinstance(left, str | bytes):
        meter.look(min(len(left), len(right)))
    return bool(left == right)


_NUMBERS = {"int", "uint", "double"}


@dataclass(frozen=True, slots=True)
class Overload:
    wants: tuple[str, ...]  # types of the target, if any, and of the arguments; dyn takes any
    result: str
    does: Callable[..., Any]  # the meter comes first


FUNCTIONS: dict[tuple[str, bool], list[Overload]] = {}


def _function(name: str, wants: str, result: str, does: Callable[..., Any], *, member: bool = False) -> None:
    FUNCTIONS.setdefault((name, member), []).append(Overload(tuple(wants.split()), result, does))


def _method(name: str, wants: str, result: str, does: Callable[..., Any]) -> None:
    _function(name, wants, result, does, member=True)


def _whole(value: int, kind: str) -> Any:
    if kind == "uint":
        if not 0 <= value < 2 * _LARGEST:
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    if not -_LARGEST <= value < _LARGEST:
        raise EvaluationError("integer overflow")
    return value


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return left - right * _divided(left, right)


def _ratio(left: float, right: float) -> float:
    if right:
        return left / right
    return (
        math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    )


def _joined(meter: Meter, left: Any, right: Any) -> Any:
    meter.look(len(left), len(right))
    return left + right


def _times(left: float, right: float) -> float:
    return left * right


def _arithmetic() -> None:
    for kind in ("int", "uint"):
        two = f"{kind} {kind}"
        _function("+", two, kind, lambda _, a, b, kind=kind: _whole(int(a) + int(b), kind))
        _function("-", two, kind, lambda _, a, b, kind=kind: _whole(int(a) - int(b), kind))
        _function("*", two, kind, lambda _, a, b, kind=kind: _whole(int(a) * int(b), kind))
        _function("/", two, kind, lambda _, a, b, kind=kind: _whole(_divided(a, b), kind))
        _function("%", two, kind, lambda _, a, b, kind=kind: _whole(_remainder(a, b), kind))
    two = "double double"
    _function("+", two, "double", lambda _, a, b: a + b)
    _function("-", two, "double", lambda _, a, b: a - b)
    _function("*", two, "double", lambda _, a, b: a * b)
    _function("/", two, "double", lambda _, a, b: _ratio(a, b))
    for kind in ("string", "bytes", "list"):
        _function("+", f"{kind} {kind}", kind, _joined)
    _function("-_", "int", "int", lambda _, a: _whole(-a, "int"))
    _function("-_", "double", "double", lambda _, a: -a)
    _function("!", "bool", "bool", lambda _, a: not a)
    _function("==", "dyn dyn", "bool", equal)
    _function("!=", "dyn dyn", "bool", lambda meter, a, b: not equal(meter, a, b))
    ordered = [f"{a} {b}" for a in ("int", "uint", "double") for b in ("int", "uint", "double")]
    for two in (*ordered, "string string", "bytes bytes", "bool bool"):
        _function("<", two, "bool", lambda _, a, b: a < b)
        _function("<=", two, "bool", lambda _, a, b: a <= b)
        _function(">", two, "bool", lambda _, a, b: a > b)
        _function(">=", two, "bool", lambda _, a, b: a >= b)
    _function("in", "dyn list", "bool", lambda meter, a, b: any(equal(meter, a, one) for one in b))
    _function("in", "dyn map", "bool", lambda _, a, b: type_of(a) in _KEYS and key_of(a) in b)


_KEYS = {"bool", "int", "uint", "double", "string"}


def _to_int(value: float) -> int:
    if not math.isfinite(value) or not -_LARGEST < value < _LARGEST:
        raise EvaluationError("integer overflow")
    return int(value)


def _read_whole(meter: Meter, text: str, kind: str) -> Any:
    meter.look(len(text))
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        raise EvaluationError(f"cannot convert {text[:40]!r} to {kind}")
    return _whole(int(text), kind)


def _read_double(meter: Meter, text: str) -> float:
    meter.look(len(text))
    try:
        return float(text if "_" not in text else "")
    except ValueError:
        raise EvaluationError(f"cannot convert {text[:40]!r} to double") from None


def _read_bool(_: Meter, text: str) -> bool:
    for value, spelt in ((True, "1 t T TRUE true True"), (False, "0 f F FALSE false False")):
        if text in spelt.split():
            return value
    raise EvaluationError(f"cannot convert {text[:40]!r} to bool")


def _written(meter: Meter, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return (
            repr(value).removesuffix(".0")
            if math.isfinite(value)
            else {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")
        )
    if isinstance(value, bytes):
        meter.look(len(value))
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    return str(value)


def _conversions() -> None:
    for kind in ("int", "uint"):
        for other in ("int", "uint"):
            _function(kind, other, kind, lambda _, a, kind=kind: _whole(int(a), kind))
        _function(kind, "double", kind, lambda _, a, kind=kind: _whole(_to_int(a), kind))
        _function(kind, "string", kind, lambda meter, a, kind=kind: _read_whole(meter, a, kind))
    for other in ("int", "uint", "double"):
        _function("double", other, "double", lambda _, a: float(a))
    _function("double", "string", "double", _read_double)
    for other in ("bool", "int", "uint", "double", "string", "bytes"):
        _function("string", other, "string", _written)
    _function("bool", "bool", "bool", lambda _, a: a)
    _function("bool", "string", "bool", _read_bool)
    _function("bytes", "string", "bytes", lambda meter, a: (meter.look(len(a)), a.encode())[1])
    _function("dyn", "dyn", "dyn", lambda _, a: a)
    _function("type", "dyn", "type", lambda _, a: TypeName(type_of(a)))
    for kind in ("string", "bytes", "list", "map"):
        _function("size", kind, "int", lambda _, a: len(a))
        _method("size", kind, "int", lambda _, a: len(a))


def _looking(does: Callable[..., Any]) -> Callable[..., Any]:
    """A function of texts and numbers, for all of whose characters is spent."""

    def looked(meter: Meter, *values: Any) -> Any:
        meter.look(*(len(value) for value in values if isinstance(value, str | list)))
        return does(*values)

    return looked


def _found(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _found_last(text: str, part: str, end: int | None = None) -> int:
    if end is not None and not 0 <= end <= len(text):
        raise EvaluationError(f"index out of range: {end}")
    return text.rfind(part) if end is None else text.rfind(part, 0, end + len(part))


def _cut(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text[start:end]


def _character(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def _replaced(meter: Meter, text: str, old: str, new: str, most: int = -1) -> str:
    # What comes out is paid for before it is made: a text of which each letter becomes a long one.
    times = len(text) + 1 if most < 0 else min(most, len(text) + 1)
    meter.look(len(text), len(old), len(new) * min(times, text.count(old)))
    return text.replace(old, new, most)


def _split(meter: Meter, text: str, by: str, most: int = -1) -> list[str]:
    meter.look(len(text), len(text), len(by))
    if most == 0:
        return []
    if not by:
        head = list(text) if most < 0 else list(text[: most - 1])
        return head if most < 0 or len(text) < most else [*head, text[most - 1 :]]
    return text.split(by, most - 1 if most > 0 else -1)


def _join(meter: Meter, parts: list[Any], by: str = "") -> str:
    if not all(isinstance(one, str) for one in parts):
        raise EvaluationError("no such overload")
    meter.look(sum(map(len, parts)), len(parts), len(by) * len(parts))
    return by.join(parts)


def _cased(text: str, shift: Callable[[str], str]) -> str:
    return "".join(shift(letter) if letter.isascii() else letter for letter in text)


@lru_cache(maxsize=256)
def _pattern(text: str) -> Any:
    """The pattern, by a library whose time is linear in the text; None if it is none."""
    import re2  # only selectors with patterns need it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_REGEX_BYTES
    try:
        return re2.compile(text, options)
    except re2.error:
        return None


def _searched(meter: Meter, text: str, pattern: str) -> Any:
    meter.look(len(text) * (1 + len(pattern) // 4), len(pattern))
    found = _pattern(pattern)
    if found is None:
        raise EvaluationError(f"error parsing regexp: {pattern[:80]!r}")
    return found


def _find_all(meter: Meter, text: str, pattern: str, most: int = -1) -> list[str]:
    found: list[str] = []
    for match in _searched(meter, text, pattern).finditer(text):
        if 0 <= most <= len(found):
            break
        found.append(match.group(0))
    return found


def _find(meter: Meter, text: str, pattern: str) -> str:
    match = _searched(meter, text, pattern).search(text)
    return match.group(0) if match else ""


def _text() -> None:
    _method("startsWith", "string string", "bool", _looking(str.startswith))
    _method("endsWith", "string string", "bool", _looking(str.endswith))
    _method("contains", "string string", "bool", _looking(lambda text, part: part in text))
    _method("lowerAscii", "string", "string", _looking(lambda text: _cased(text, str.lower)))
    _method("upperAscii", "string", "string", _looking(lambda text: _cased(text, str.upper)))
    _method("trim", "string", "string", _looking(str.strip))
    _method("reverse", "string", "string", _looking(lambda text: text[::-1]))
    _method("charAt", "string int", "string", _looking(_character))
    for extra in ("", " int"):
        _method("indexOf", f"string string{extra}", "int", _looking(_found))
        _method("lastIndexOf", f"string string{extra}", "int", _looking(_found_last))
        _method("substring", f"string int{extra}", "string", _looking(_cut))
        _method("replace", f"string string string{extra}", "string", _replaced)
        _method("split", f"string string{extra}", "list", _split)
        _method("findAll", f"string string{extra}", "list", _find_all)
    _method("join", "list", "string", _join)
    _method("join", "list string", "string", _join)
    _method("find", "string string", "string", _find)
    for member in (True, False):
        _function(
            "matches",
            "string string",
            "bool",
            lambda m, a, b: bool(_searched(m, a, b).search(a)),
            member=member,
        )


def _less(left: Any, right: Any) -> bool:
    kinds = {type_of(left), type_of(right)}
    if len(kinds) > 1 and not kinds <= _NUMBERS:
        raise EvaluationError("no such overload")
    try:
        return bool(left < right)
    except TypeError:
        raise EvaluationError("no such overload") from None


def _best(items: list[Any], better: Callable[[Any, Any], bool]) -> Any:
    if not items:
        raise EvaluationError("min/max called on empty list")
    best = items[0]
    for one in items[1:]:
        if better(one, best):
            best = one
    return best


def _sum(meter: Meter, items: list[Any]) -> Any:
    meter.look(len(items) * _PER_STEP)
    kinds = {type_of(one) for one in items}
    if len(kinds) > 1 or not kinds <= _NUMBERS:
        raise EvaluationError("no such overload")
    if kinds == {"double"}:
        return sum(items)
    return _whole(sum(map(int, items)), kinds.pop() if kinds else "int")


def _place(meter: Meter, items: list[Any], wanted: Any, *, last: bool) -> int:
    found = [at for at, one in enumerate(items) if equal(meter, one, wanted)]
    return (found[-1] if last else found[0]) if found else -1


def _includes(meter: Meter, items: list[Any], others: list[Any]) -> bool:
    return all(any(equal(meter, one, other) for one in items) for other in others)


def _lists() -> None:
    _method(
        "isSorted",
        "list",
        "bool",
        _looking(lambda a: all(not _less(y, x) for x, y in pairwise(a))),
    )
    _method("min", "list", "dyn", _looking(lambda a: _best(a, _less)))
    _method("max", "list", "dyn", _looking(lambda a: _best(a, lambda one, best: _less(best, one))))
    _method("sum", "list", "dyn", _sum)
    _method("indexOf", "list dyn", "int", lambda meter, a, b: _place(meter, a, b, last=False))
    _method("lastIndexOf", "list dyn", "int", lambda meter, a, b: _place(meter, a, b, last=True))
    # Written as members of `sets`, which is no value.
    _function("sets.contains", "list list", "bool", _includes)
    _function(
        "sets.equivalent", "list list", "bool", lambda m, a, b: _includes(m, a, b) and _includes(m, b, a)
    )
    _function(
        "sets.intersects",
        "list list",
        "bool",
        lambda m, a, b: any(equal(m, one, other) for one in a for other in b),
    )


def _read_quantity(meter: Meter, text: str) -> Quantity:
    meter.look(len(text))
    try:
        return parse_quantity(text)
    except ValueError:
        raise EvaluationError("quantities must match the regular expression of quantities") from None


def _is(read: Callable[..., Any]) -> Callable[..., bool]:
    def answer(meter: Meter, *values: Any) -> bool:
        meter.spend(1)
        try:
            read(meter, *values)
        except EvaluationError:
            meter.spend(0)
            return False
        return True

    return answer


def _units(value: Quantity) -> int:
    if value.nanos % 10**9 or not -_LARGEST <= value.nanos // 10**9 < _LARGEST:
        raise EvaluationError("cannot convert value to integer")
    return value.nanos // 10**9


def _as_quantity(value: Quantity | int) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(value * 10**9)


def _order(left: Any, right: Any) -> int:
    return int(right < left) - int(left < right)


def _read_version(meter: Meter, text: str, normalize: bool = False) -> Semver:
    meter.look(len(text))
    found = Semver.read(_normalized(text) if normalize else text)
    if found is None:
        raise EvaluationError(f"{text[:40]!r} is not a version of semver 2.0.0")
    return found


def _normalized(text: str) -> str:
    """Without a leading v and leading zeros, and with what is missing of three numbers."""
    text = text.removeprefix("v")
    found = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20}){0,2})([-+].*)?", text, re.ASCII)
    if found is None:
        return text
    numbers = [str(int(one)) for one in found[1].split(".")]
    return ".".join([*numbers, "0", "0"][:3]) + (found[2] or "")


def _quantities_and_versions() -> None:
    for kind, read, name in (("quantity", _read_quantity, "Quantity"), ("semver", _read_version, "Semver")):
        for extra in ("", " bool") if kind == "semver" else ("",):
            _function(kind, f"string{extra}", kind, read)
            _function(f"is{name}", f"string{extra}", "bool", _is(read))
        two = f"{kind} {kind}"
        _method("isGreaterThan", two, "bool", lambda _, a, b: b < a)
        _method("isLessThan", two, "bool", lambda _, a, b: a < b)
        _method("compareTo", two, "int", lambda _, a, b: _order(a, b))
    for at, name in enumerate(("major", "minor", "patch")):
        _method(name, "semver", "int", lambda _, a, at=at: _whole(a.numbers[at], "int"))
    _method("isInteger", "quantity", "bool", lambda m, a: _is(lambda _, b: _units(b))(m, a))
    _method("asInteger", "quantity", "int", lambda _, a: _units(a))
    _method("asApproximateFloat", "quantity", "double", lambda _, a: a.nanos / 1e9)
    _method("sign", "quantity", "int", lambda _, a: int(a.nanos > 0) - int(a.nanos < 0))
    for other in ("quantity", "int"):
        _method("add", f"quantity {other}", "quantity", lambda _, a, b: a + _as_quantity(b))
        _method("sub", f"quantity {other}", "quantity", lambda _, a, b: a - _as_quantity(b))


_arithmetic()
_conversions()
_text()
_lists()
_quantities_and_versions()
