"""Selectors of devices: the Common Expression Language as Kubernetes has it for them.

What is compiled is checked as far as types are known before there are values. Work is counted, not timed: an
evaluation that takes too much fails, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dovetail.devices.cel_library import (
    FUNCTIONS,
    SHOWN,
    TYPES,
    EvaluationError,
    Meter,
    Optional,
    Overload,
    bare,
    is_zero,
    key_of,
    type_of,
)
from dovetail.devices.cel_syntax import CompileError, Tree, parse

__all__ = ["CompileError", "EvaluationError", "Meter", "Selector", "selector"]

_REMEMBERED = 1_024  # expressions; 20 KiB each where they are of ordinary length
_MACROS = {"all": 2, "exists": 2, "exists_one": 2, "existsOne": 2, "filter": 2, "map": 2}
# What is known of `device`: type -> field -> type. Maps of maps are told apart from maps of values.
_FIELDS = {
    "device": {
        "driver": "string",
        "attributes": "attributes",
        "capacity": "capacities",
        "allowMultipleAllocations": "bool",
    }
}
_ELEMENTS = {
    "attributes": "attribute map",
    "capacities": "capacity map",
    "attribute map": "any",
    "capacity map": "quantity",
}
_OPEN = frozenset({"any", "dyn"})  # types of values that are only known once there are some

_MAYBE = "optional "  # before the type of the value
_OPTIONAL_PARTS = {"hasValue": 1, "value": 1, "or": 2, "orValue": 2}  # with the target

Scope = dict[str, Any]
Get = Callable[[Any, Any], Any]
Code = Callable[["_Run"], Any]


@dataclass(slots=True)
class _Run:
    scope: Scope
    meter: Meter


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression."""

    text: str
    _code: Code

    def matches(self, device: Mapping[str, Any], meter: Meter | None = None) -> bool:
        """Whether it is true of a device, as `environment.device_value` makes it; raises EvaluationError."""
        try:
            found = self._code(_Run({"device": device}, meter or Meter()))
        except RecursionError:
            raise EvaluationError("the expression is nested too deeply") from None
        if not isinstance(found, bool):
            raise EvaluationError(f"the expression is {SHOWN[type_of(found)]}, not bool")
        return found


@lru_cache(maxsize=_REMEMBERED)
def _compiled(text: str) -> Selector | str:
    try:
        kind, code = _Compiler().visit(parse(text), {"device": "device"})
    except CompileError as error:
        return str(error)
    except RecursionError:
        return "the expression is nested too deeply"
    if kind not in ("bool", "any"):
        return f"must evaluate to bool or the unknown type, not {_shown(kind)}"
    return Selector(text, code)


def selector(text: str) -> Selector:
    """The expression, compiled; raises CompileError."""
    found = _compiled(text)
    if isinstance(found, str):
        raise CompileError(found)
    return found


Types = Mapping[str, str]


class _Compiler:
    """Trees to types and closures."""

    def visit(self, part: Tree, names: Types) -> tuple[str, Code]:
        kind, code = getattr(self, f"_{part.what}")(part, names)

        def counted(run: _Run) -> Any:
            run.meter.spend(1)
            return code(run)

        return kind, counted

    def _literal(self, part: Tree, _: Types) -> tuple[str, Code]:
        value = part.value
        return type_of(value), lambda _: value

    def _name(self, part: Tree, names: Types) -> tuple[str, Code]:
        name = part.name
        if name in TYPES and name not in names:
            return "type", lambda _: TYPES[name]
        if name not in names:
            raise CompileError(f"undeclared reference to '{name}' (in container '')")
        return names[name], lambda run: run.scope[name]

    def _select(self, part: Tree, names: Types, get: Get | None = None) -> tuple[str, Code]:
        kind, target = self.visit(part.parts[0], names)
        inner, name, get = _inner(kind), part.name, get or _item
        if inner in _FIELDS and name not in _FIELDS[inner]:
            raise CompileError(f"undefined field '{name}'")
        if inner not in (*_FIELDS, *_ELEMENTS, *_OPEN, "map"):
            raise CompileError(f"type '{_shown(kind)}' does not support field selection")
        found = _FIELDS.get(inner, {}).get(name) or _ELEMENTS.get(inner, "dyn")
        optional = get is _item_if_any or inner != kind
        return (_MAYBE + found if optional else found), lambda run: get(target(run), name)

    def _select_if(self, part: Tree, names: Types) -> tuple[str, Code]:
        return self._select(part, names, _item_if_any)

    def _index(self, part: Tree, names: Types, get: Get | None = None) -> tuple[str, Code]:
        kind, target = self.visit(part.parts[0], names)
        _, index = self.visit(part.parts[1], names)
        inner, get = _inner(kind), get or _item
        if inner not in (*_ELEMENTS, *_OPEN, "map", "list"):
            raise CompileError("found no matching overload for '_[_]'")
        found = _ELEMENTS.get(inner, "dyn")
        optional = get is _item_if_any or inner != kind
        return (_MAYBE + found if optional else found), lambda run: get(target(run), index(run))

    def _index_if(self, part: Tree, names: Types) -> tuple[str, Code]:
        return self._index(part, names, _item_if_any)

    def _given(self, part: Tree, names: Types) -> tuple[str, Code]:
        """An item of a list or map that is left out where it has no value."""
        kind, item = self.visit(part.parts[0], names)
        if not kind.startswith(_MAYBE) and kind not in _OPEN:
            raise CompileError(f"expected type 'optional_type(dyn)' but found '{_shown(kind)}'")
        return "dyn", lambda run: _optional(item(run))

    def _list(self, part: Tree, names: Types) -> tuple[str, Code]:
        items = [(item.what == "given", self.visit(item, names)[1]) for item in part.parts]

        def code(run: _Run) -> Any:
            made: list[Any] = []
            for given, item in items:
                made += item(run).held if given else (item(run),)
            return made

        return "list", code

    def _map(self, part: Tree, names: Types) -> tuple[str, Code]:
        codes = [self.visit(item, names)[1] for item in part.parts]
        given = [item.what == "given" for item in part.parts[1::2]]

        def code(run: _Run) -> Any:
            made: dict[Any, Any] = {}
            for key, value, optional in zip(codes[::2], codes[1::2], given, strict=True):
                name = key_of(key(run))
                if name in made:
                    raise EvaluationError(f"Failed with repeated key {bare(name)}")
                found = value(run)
                if not optional or found.held:
                    made[name] = found.value if optional else found
            return made

        return "map", code

    def _if(self, part: Tree, names: Types) -> tuple[str, Code]:
        (kind, test), (first, yes), (second, no) = (self.visit(item, names) for item in part.parts)
        self._must_be_bool(kind, "_?_:_")
        both = _common(first, second)
        if both is None:
            raise CompileError("found no matching overload for '_?_:_'")

        def code(run: _Run) -> Any:
            found = test(run)
            if not isinstance(found, bool):
                raise EvaluationError("no such overload")
            return yes(run) if found else no(run)

        return both, code

    def _and(self, part: Tree, names: Types) -> tuple[str, Code]:
        return self._logic(part, names, decides=False)

    def _or(self, part: Tree, names: Types) -> tuple[str, Code]:
        return self._logic(part, names, decides=True)

    def _logic(self, part: Tree, names: Types, *, decides: bool) -> tuple[str, Code]:
        """Either side may fail where the other one decides."""
        codes = []
        for item in part.parts:
            kind, code = self.visit(item, names)
            self._must_be_bool(kind, "_||_" if decides else "_&&_")
            codes.append(code)
        return "bool", lambda run: _decided(codes, run, decides)

    def _must_be_bool(self, kind: str, operator: str) -> None:
        if kind != "bool" and kind not in _OPEN:
            raise CompileError(f"found no matching overload for '{operator}'")

    def _call(self, part: Tree, names: Types) -> tuple[str, Code]:
        if not part.member and part.name == "has":
            return self._has(part, names)
        if part.member and part.name == "bind" and part.parts[0] == Tree("name", "cel"):
            return self._bind(part, names)
        if part.member and part.parts[0] == Tree("name", "sets") and "sets" not in names:
            part = replace(part, name=f"sets.{part.name}", parts=part.parts[1:], member=False)
        if (
            part.member
            and part.name in _MACROS
            and len(part.parts) in (3, 4)
            and part.parts[1].what == "name"
        ):
            return self._macro(part, names)
        if part.member and part.parts[0] == Tree("name", "optional") and "optional" not in names:
            return self._optional_of(part, names)
        if part.member and len(part.parts) == 3 and part.name in ("optMap", "optFlatMap"):
            return self._mapped_if_any(part, names)
        if part.member and len(part.parts) == _OPTIONAL_PARTS.get(part.name):
            return self._of_optional(part, names)
        known = FUNCTIONS.get((part.name, part.member))
        if known is None:
            raise CompileError(f"undeclared reference to '{part.name}' (in container '')")
        visited = [self.visit(item, names) for item in part.parts]
        kinds = [_plain(kind) for kind, _ in visited]
        fit = [one for one in known if _may_fit(one, kinds)]
        if not fit:
            applied = ", ".join(map(_shown, kinds))
            raise CompileError(f"found no matching overload for '{part.name}' applied to '({applied})'")
        codes = [code for _, code in visited]
        results = {one.result for one in fit}

        def code(run: _Run) -> Any:
            values = [code(run) for code in codes]
            held = [type_of(value) for value in values]
            for one in fit:
                if all(wanted in ("dyn", have) for wanted, have in zip(one.wants, held, strict=True)):
                    return one.does(run.meter, *values)
            raise EvaluationError("no such overload")

        return (results.pop() if len(results) == 1 else "dyn"), code

    def _has(self, part: Tree, names: Types) -> tuple[str, Code]:
        if len(part.parts) != 1 or part.parts[0].what != "select":
            raise CompileError("invalid argument to has() macro")
        kind, target = self.visit(part.parts[0].parts[0], names)
        name, inner = part.parts[0].name, _inner(kind)
        if inner in _FIELDS and name not in _FIELDS[inner]:
            raise CompileError(f"undefined field '{name}'")

        def code(run: _Run) -> Any:
            held = target(run)
            if isinstance(held, Optional):
                return bool(_item_if_any(held, name).held)
            if not isinstance(held, Mapping):
                raise EvaluationError("no such overload")
            return name in held

        return "bool", code

    def _optional_of(self, part: Tree, names: Types) -> tuple[str, Code]:
        arguments = [self.visit(item, names) for item in part.parts[1:]]
        if part.name == "none" and not arguments:
            return _MAYBE + "dyn", lambda _: Optional()
        if part.name not in ("of", "ofNonZeroValue") or len(arguments) != 1:
            raise CompileError(f"undeclared reference to 'optional.{part.name}' (in container '')")
        ((kind, value),) = arguments
        if part.name == "of":
            return _MAYBE + kind, lambda run: Optional((value(run),))

        def code(run: _Run) -> Any:
            found = value(run)
            return Optional() if is_zero(found) else Optional((found,))

        return _MAYBE + kind, code

    def _of_optional(self, part: Tree, names: Types) -> tuple[str, Code]:
        """hasValue, value, or, orValue; what is behind `or` is evaluated only where there is no value."""
        (kind, target), *others = (self.visit(item, names) for item in part.parts)
        inner = _inner(kind)
        if inner == kind and kind not in _OPEN:
            raise CompileError(f"found no matching overload for '{part.name}' applied to '{_shown(kind)}'")
        if part.name == "hasValue":
            return "bool", lambda run: bool(_optional(target(run)).held)
        if part.name == "value":
            return ("dyn" if inner == kind else inner), lambda run: _optional(target(run)).value
        ((second, other),) = others
        wrapped = part.name == "or"
        if wrapped and not second.startswith(_MAYBE) and second not in _OPEN:
            raise CompileError(f"found no matching overload for 'or' applied to '{_shown(second)}'")
        both = _common(inner, _inner(second) if wrapped else second)
        if both is None:
            applied = f"({_shown(kind)}, {_shown(second)})"
            raise CompileError(f"found no matching overload for '{part.name}' applied to '{applied}'")

        def code(run: _Run) -> Any:
            found = _optional(target(run))
            if wrapped:
                return found if found.held else _optional(other(run))
            return found.value if found.held else other(run)

        return (_MAYBE + both if wrapped else both), code

    def _mapped_if_any(self, part: Tree, names: Types) -> tuple[str, Code]:
        """optMap and optFlatMap: an expression of the value, if there is one."""
        target, variable, body = part.parts
        if variable.what != "name":
            raise CompileError(f"{part.name}() variable name must be a simple identifier")
        kind, value = self.visit(target, names)
        inner, name, flat = _inner(kind), variable.name, part.name == "optFlatMap"
        if inner == kind and kind not in _OPEN:
            raise CompileError(f"found no matching overload for '{part.name}' applied to '{_shown(kind)}'")
        made, then = self.visit(body, {**names, name: inner})
        if flat and not made.startswith(_MAYBE) and made not in _OPEN:
            raise CompileError(f"found no matching overload for 'optFlatMap' applied to '{_shown(made)}'")

        def code(run: _Run) -> Any:
            found = _optional(value(run))
            if not found.held:
                return found
            result = then(_Run({**run.scope, name: found.value}, run.meter))
            return _optional(result) if flat else Optional((result,))

        return (made if flat else _MAYBE + made), code

    def _bind(self, part: Tree, names: Types) -> tuple[str, Code]:
        if len(part.parts) != 4 or part.parts[1].what != "name":
            raise CompileError("cel.bind() variable names must be simple identifiers")
        name = part.parts[1].name
        first, value = self.visit(part.parts[2], names)
        kind, body = self.visit(part.parts[3], {**names, name: first})

        def code(run: _Run) -> Any:
            return body(_Run({**run.scope, name: value(run)}, run.meter))

        return kind, code

    def _macro(self, part: Tree, names: Types) -> tuple[str, Code]:
        """all, exists, exists_one, filter and map over a list, or the keys of a map."""
        target, variable, *rest = part.parts
        kind, items = self.visit(target, names)
        if kind not in ("list", "map", *_ELEMENTS, *_OPEN):
            raise CompileError(f"expression of type '{_shown(kind)}' cannot be range of a comprehension")
        within = {**names, variable.name: "string" if kind in _ELEMENTS else "dyn"}
        visited = [self.visit(item, within) for item in rest]
        macro, name = part.name, variable.name
        if len(rest) == 2 and macro != "map":
            raise CompileError(f"undeclared reference to '{macro}' (in container '')")
        for had, _ in visited if macro != "map" else visited[:-1]:
            self._must_be_bool(had, macro)
        codes = [code for _, code in visited]

        def each(run: _Run) -> Any:
            held = items(run)
            if not isinstance(held, list | Mapping):
                raise EvaluationError("no such overload")
            inner = _Run(dict(run.scope), run.meter)
            for item in held:
                run.meter.spend(1)
                inner.scope[name] = bare(item) if isinstance(held, Mapping) else item
                yield inner, inner.scope[name]

        return ("list" if macro in ("map", "filter") else "bool"), _LOOPS[macro](codes, each)


def _inner(kind: str) -> str:
    """The type of the value that an optional one has; any other type as it is."""
    return kind.removeprefix(_MAYBE) if kind.startswith(_MAYBE) else kind


def _common(first: str, second: str) -> str | None:
    """The type of what is one or the other; None if nothing is."""
    if first == second:
        return first
    if {first, second} & _OPEN:
        return "any" if "any" in (first, second) else "dyn"
    if first.startswith(_MAYBE) and second.startswith(_MAYBE):
        inner = _common(_inner(first), _inner(second))
        return None if inner is None else _MAYBE + inner
    return None


def _shown(kind: str) -> str:
    if kind.startswith(_MAYBE):
        return f"optional_type({_shown(_inner(kind))})"
    return SHOWN.get(kind, kind)


def _plain(kind: str) -> str:
    if kind.startswith(_MAYBE):
        return "optional"
    if kind in _ELEMENTS:
        return "map"
    return "dyn" if kind in _OPEN else kind


def _may_fit(one: Overload, kinds: list[str]) -> bool:
    return len(one.wants) == len(kinds) and all(
        wanted == have or "dyn" in (wanted, have) for wanted, have in zip(one.wants, kinds, strict=True)
    )


def _item(held: Any, key: Any) -> Any:
    """What a list or map has there; of an optional one an optional item."""
    if isinstance(held, Optional):
        return _item_if_any(held, key)
    if not isinstance(held, list | Mapping):
        raise EvaluationError("no such overload")
    found = _item_if_any(held, key)
    if not found.held:
        raise EvaluationError(
            f"index out of bounds: {key}" if isinstance(held, list) else f"no such key: {bare(key_of(key))}"
        )
    return found.value


def _item_if_any(held: Any, key: Any) -> Optional:
    """The same where it need not be there. What has no items at all has not this one."""
    if isinstance(held, Optional):
        return _item_if_any(held.value, key) if held.held else held
    if isinstance(held, list):
        if isinstance(key, bool) or not isinstance(key, int):
            raise EvaluationError("no such overload")
        return Optional((held[key],)) if 0 <= key < len(held) else Optional()
    if not isinstance(held, Mapping):
        return Optional()
    try:
        return Optional((held[key_of(key)],))
    except KeyError:
        return Optional()


def _optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise EvaluationError("no such overload")
    return value


def _decided(codes: list[Code], run: _Run, decides: bool) -> bool:
    fault: EvaluationError | None = None
    for code in codes:
        try:
            found = code(run)
        except EvaluationError as error:
            if run.meter.left < 0:
                raise
            fault = fault or error
            continue
        if not isinstance(found, bool):
            fault = fault or EvaluationError("no such overload")
        elif found == decides:
            return decides
    if fault is not None:
        raise fault
    return not decides


Each = Callable[[_Run], Any]


def _all(codes: list[Code], each: Each) -> Code:
    return lambda run: _decided_over(codes[0], each, run, decides=False)


def _exists(codes: list[Code], each: Each) -> Code:
    return lambda run: _decided_over(codes[0], each, run, decides=True)


def _decided_over(test: Code, each: Each, run: _Run, *, decides: bool) -> bool:
    fault: EvaluationError | None = None
    for inner, _ in each(run):
        try:
            if _decided([test], inner, decides) is decides:
                return decides
        except EvaluationError as error:
            if run.meter.left < 0:
                raise
            fault = fault or error
    if fault is not None:
        raise fault
    return not decides


def _exists_one(codes: list[Code], each: Each) -> Code:
    return lambda run: sum(_truth(codes[0](inner)) for inner, _ in each(run)) == 1


def _filter(codes: list[Code], each: Each) -> Code:
    return lambda run: [item for inner, item in each(run) if _truth(codes[0](inner))]


def _mapped(codes: list[Code], each: Each) -> Code:
    if len(codes) == 1:
        return lambda run: [codes[0](inner) for inner, _ in each(run)]
    return lambda run: [codes[1](inner) for inner, _ in each(run) if _truth(codes[0](inner))]


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("no such overload")
    return value


_LOOPS: dict[str, Callable[[list[Code], Each], Code]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _mapped,
}
