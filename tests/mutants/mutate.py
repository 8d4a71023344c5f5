"""Small wrong changes of a module: each mutant is one, with an identity that other changes leave alone."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType

Change = Callable[[], ast.AST]

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_OPPOSITE = {"min": "max", "max": "min", "any": "all", "all": "any", "round": "int"}
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "_SECOND", "_MINUTE", "NANO_DOLLARS")
_BIG = 1_000  # constants from here on are amounts with a unit: one more or less means nothing
_SILENT = ("Metric", "Violation", "TypeVar", "NewType", "cast", "isinstance")  # arguments are no decisions


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` is module, function, operator, number; `code` the module with the change, or its function."""

    name: str
    function: str  # qualified name within the module; "" outside of functions
    first: int  # line of the function
    line: int  # of the statement that changes
    text: str
    code: CodeType


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, where its parent has it, and what it stands in."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    function: str
    first: int
    line: int
    quiet: bool  # within text, raised errors and the like
    test: bool  # what an `if` or a filter asks

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants(module: str, text: str, path: str) -> Iterator[Mutant]:
    """All mutants of a module's text, in order of place. Those that compile to the same code are one."""
    tree = ast.parse(text)
    shells = dict(_shells(tree))
    known: dict[int, set[object]] = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for place in list(_places(tree)):
        shell = shells[place.first] if place.first else tree
        if place.first not in known:
            known[place.first] = {_essence(compile(shell, path, "exec", dont_inherit=True))}
        for operator, changed, change in _changes(place):
            place.put(ast.fix_missing_locations(ast.copy_location(changed, place.node)))
            try:
                code = compile(shell, path, "exec", dont_inherit=True)
            finally:
                place.put(place.node)
            number = numbers[place.function, operator]
            numbers[place.function, operator] += 1
            essence = _essence(code)
            if essence not in known[place.first]:
                known[place.first].add(essence)
                name = f"{module}:{place.function or '-'}:{operator}:{number}"
                yield Mutant(name, place.function, place.first, place.line, change, code)


def first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Where its code begins, decorators included."""
    return min([node.lineno, *(item.lineno for item in node.decorator_list)])


def _shells(tree: ast.Module) -> Iterator[tuple[int, ast.Module]]:
    """Per outermost function, by its first line: a module that has it alone, for the speed."""
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)

    def found(node: ast.AST, around: tuple[ast.ClassDef, ...]) -> Iterator[tuple[int, ast.Module]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from found(child, (*around, child))
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner: ast.stmt = child
                for each in reversed(around):
                    inner = ast.copy_location(ast.ClassDef(each.name, [], [], [inner], []), each)
                yield first_line(child), ast.fix_missing_locations(ast.Module([future, inner], []))

    yield from found(tree, ())


def _essence(code: CodeType) -> object:
    """What a code does, without where it stands."""
    inner = tuple(
        _essence(item) if isinstance(item, CodeType) else (type(item), repr(item)) for item in code.co_consts
    )
    return code.co_code, code.co_exceptiontable, inner, code.co_names, code.co_varnames, code.co_freevars


def _places(tree: ast.Module) -> Iterator[_Place]:
    yield from _within(tree, "", 0, 0, False)


def _within(node: ast.AST, function: str, first: int, line: int, quiet: bool) -> Iterator[_Place]:
    outside = not first  # in no function yet
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _left_alone(node, field, child):
                continue
            here, start, at, still = function, first, line, quiet or _silent(child)
            if isinstance(child, ast.stmt):
                at = child.lineno
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and outside:
                here = f"{function}.{child.name}" if function else child.name
                if not isinstance(child, ast.ClassDef):
                    start = first_line(child)
            elif isinstance(child, ast.arguments) and _outermost(node, first):
                start = 0  # defaults are worked out where the function is made
            test = field in ("test", "ifs")
            yield _Place(child, node, field, index, here, start, at, still, test)
            yield from _within(child, here, start, at, still)


def _outermost(node: ast.AST, first: int) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and first_line(node) == first


def _left_alone(parent: ast.AST, field: str, child: ast.AST) -> bool:
    """Types, docstrings, imports, decorators: nothing is decided there."""
    if field in ("annotation", "returns", "decorator_list", "type_params", "bases", "keywords") and (
        isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.arg | ast.AnnAssign)
    ):
        return True
    if isinstance(child, ast.Import | ast.ImportFrom | ast.Assert | ast.expr_context):
        return True
    if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name) and not child.col_offset:
        alias = isinstance(child.value, ast.Subscript) and _is_type(child.value)
        if alias or child.targets[0].id == "__all__":
            return True
    if (
        isinstance(parent, ast.Assign)
        and isinstance(parent.targets[0], ast.Name)
        and _is_amount(parent.value)
    ):
        return parent.col_offset == 0
    if isinstance(child, ast.BinOp) and any(isinstance(item, ast.Pow) for item in ast.walk(child)):
        return True  # a bound that nothing reaches
    if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
        return True
    return isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)


def _is_amount(value: ast.expr) -> bool:
    """Whether it is an amount with a unit, such as 5 * MINUTE: that is changed as a whole."""
    parts = list(ast.walk(value))
    if not all(
        isinstance(item, ast.BinOp | ast.operator | ast.Constant | ast.Name | ast.Load) for item in parts
    ):
        return False
    named = any(isinstance(item, ast.Name) and item.id in _UNITS for item in parts)
    return named or any(isinstance(item, ast.Constant) and item.value in (10**9, 10**6) for item in parts)


def _is_type(value: ast.Subscript) -> bool:
    """Whether an assigned value is an alias of a type, such as tuple[str, int]."""
    return isinstance(value.value, ast.Name) and (
        value.value.id in ("tuple", "dict", "list", "type") or value.value.id[0].isupper()
    )


def _silent(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Raise):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SILENT


def _changes(place: _Place) -> Iterator[tuple[str, ast.AST, str]]:
    """Operator, the node in the place of this one, and the change in words."""
    node = place.node
    if place.quiet and not isinstance(node, ast.stmt):
        return
    for operator, changed in _mutations(place):
        yield operator, changed, f"{_short(node)}  ->  {_short(changed)}"


def _mutations(place: _Place) -> Iterator[tuple[str, ast.AST]]:
    node = place.node
    match node:
        case ast.Compare():
            for number, found in enumerate(node.ops):
                if place.test and len(node.ops) == 1 and not isinstance(found, _ORDERED):
                    continue  # "always" and "never" say more
                changed = copy.copy(node)
                changed.ops = [*node.ops[:number], _COMPARED[type(found)](), *node.ops[number + 1 :]]
                yield "compare", changed
        case ast.BoolOp():
            for number in range(1 if _defaulting(node) else len(node.values)):
                rest = [*node.values[:number], *node.values[number + 1 :]]
                yield "part", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            if not _defaulting(node):
                other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield "bool", ast.BoolOp(other, node.values)
        case ast.UnaryOp(op=ast.Not()) if not place.test:
            yield "not", node.operand
        case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(op=ast.FloorDiv()) as ratio) if isinstance(
            ratio.left, ast.UnaryOp | ast.BinOp
        ):
            yield "rounding", _rounded_down(ratio)
        case ast.UnaryOp(op=ast.USub()) if not isinstance(place.parent, ast.BinOp):
            yield "sign", node.operand
        case ast.BinOp() if type(node.op) in _COMPUTED and not _is_text(node):
            yield "compute", ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in _COMPUTED:
            yield "drop", ast.Pass()
            if isinstance(node.op, ast.Add | ast.Sub):
                yield "compute", ast.AugAssign(node.target, _COMPUTED[type(node.op)](), node.value)
        case ast.Constant():
            yield from _constants(place, node.value)
        case ast.Tuple() | ast.List() | ast.Set() if (
            isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load)
        ) and _listing(place, node):
            for number in range(len(node.elts)):
                changed = copy.copy(node)
                changed.elts = [*node.elts[:number], *node.elts[number + 1 :]]
                yield "element", changed
        case ast.Name(ctx=ast.Load()) if node.id in _OPPOSITE:
            yield "opposite", ast.Name(_OPPOSITE[node.id], ast.Load())
        case ast.Name(ctx=ast.Load()) if node.id in _UNITS:
            yield "scale", ast.BinOp(node, ast.Mult(), ast.Constant(60))
        case ast.Call(func=ast.Name("sorted")):
            yield "order", ast.Call(ast.Name("list", ast.Load()), node.args, [])
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Delete():
            yield "drop", ast.Pass()
        case ast.Assign() if isinstance(node.targets[0], ast.Attribute | ast.Subscript) and not _first_value(
            place
        ):
            yield "drop", ast.Pass()
        case ast.Assign() if not place.first and _is_amount(node.value):
            yield "scale", ast.Assign(node.targets, ast.BinOp(node.value, ast.Mult(), ast.Constant(60)))
            yield "scale", ast.Assign(node.targets, ast.BinOp(node.value, ast.FloorDiv(), ast.Constant(24)))
        case ast.Continue():
            yield "jump", ast.Break()
        case ast.Break():
            yield "jump", ast.Continue()
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield from _returns(value)
    if place.test and not isinstance(node, ast.BoolOp) and not isinstance(place.parent, ast.While):
        yield "always", ast.Constant(True)
        if place.field == "test":
            yield "never", ast.Constant(False)


def _returns(value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """What is clearly true or false is turned round."""
    logical = isinstance(value, ast.Compare | ast.BoolOp) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    )
    if logical and not _defaulting(value):
        yield "return", ast.Return(ast.UnaryOp(ast.Not(), value))


def _defaulting(value: ast.expr) -> bool:
    """`a or b` as "b where a is missing"."""
    if not isinstance(value, ast.BoolOp) or not isinstance(value.op, ast.Or):
        return False
    last = value.values[-1]
    return isinstance(last, ast.Constant | ast.Dict | ast.Tuple | ast.List)


def _first_value(place: _Place) -> bool:
    """Whether a constructor gives an object its first values: without one, all else breaks."""
    return place.function.endswith(".__init__")


def _constants(place: _Place, value: object) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        if value >= _BIG:
            yield "scale", ast.Constant(value * 60)
            yield "scale", ast.Constant(value // 60)
            return
        if not isinstance(place.parent, ast.Subscript):
            yield "more", ast.Constant(value + 1)
        if value != 0:
            yield "less", ast.Constant(value - 1)
        if value >= 10:
            yield "scale", ast.Constant(value * 60)
    elif isinstance(value, float) and value not in (float("inf"),):
        yield "scale", ast.Constant(value * 2 if value else 1.0)
        if value:
            yield "scale", ast.Constant(value / 2)
    elif isinstance(value, str) and _is_key(place, value):
        yield "text", ast.Constant(value + "~" if value else "~")


def _is_key(place: _Place, value: str) -> bool:
    """Whether a text is compared or looked up, rather than shown."""
    if " " in value or (
        isinstance(place.parent, ast.keyword) and place.parent.arg in ("description", "message")
    ):
        return False
    return isinstance(place.parent, ast.Compare | ast.Call | ast.Subscript | ast.Tuple | ast.Set | ast.Assign)


def _listing(place: _Place, node: ast.Tuple | ast.List | ast.Set) -> bool:
    """Whether it is a list of like things, of which one may be missing, rather than a record."""
    if len(node.elts) < 2 or any(isinstance(item, ast.Starred) for item in node.elts):
        return False
    if isinstance(place.parent, ast.Subscript | ast.Return | ast.Yield | ast.Lambda):
        return False
    if isinstance(place.parent, ast.Assign):
        return isinstance(place.parent.targets[0], ast.Name)
    return isinstance(place.parent, ast.Compare | ast.For | ast.comprehension | ast.Dict | ast.Call)


def _is_text(node: ast.BinOp) -> bool:
    """Whether the sum is one of texts."""
    return isinstance(node.op, ast.Add | ast.Mod) and any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _rounded_down(ratio: ast.BinOp) -> ast.AST:
    """-(-a // b) without both signs; -(-a * c // b) has its sign deeper."""
    left = copy.deepcopy(ratio.left)
    inner = left
    while isinstance(inner, ast.BinOp) and isinstance(inner.left, ast.BinOp):
        inner = inner.left
    if isinstance(left, ast.UnaryOp):
        left = left.operand
    elif isinstance(inner, ast.BinOp) and isinstance(inner.left, ast.UnaryOp):
        inner.left = inner.left.operand
    return ast.BinOp(left, ast.FloorDiv(), ratio.right)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())
    return text if len(text) <= 90 else f"{text[:87]}..."
