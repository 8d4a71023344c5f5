"""Text of the Common Expression Language to trees, within bounds on length and depth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

LONGEST = 10 * 1024  # characters, as the API server admits of a selector
# Levels of a tree, and of brackets while it is read. Python allows 1,000 calls, one in another: a bracket
# takes 13 of them to read, a level of a tree three to evaluate. Selectors in the wild have six of each.
DEEPEST = 60
DEEPEST_BRACKETS = 30

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
      | (?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
      | (?P<int>0x[0-9a-fA-F]+|\d+)
      | (?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"{3}(?s:.*?)(?<!\\)\"{3}|'{3}(?s:.*?)(?<!\\)'{3}
            |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    r"""\\(?:(?P<one>[abfnrtv\\?"'`])|x(?P<x>[0-9a-fA-F]{2})|X(?P<X>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})"""
    r"""|U(?P<U>[0-9a-fA-F]{8})|(?P<o>[0-3][0-7]{2}))"""
)
_ONE = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_WORDS = {"true": True, "false": False, "null": None}
_RESERVED = frozenset(
    re.findall("[a-z]+", "as break const continue else for function if import let loop package namespace")
) | {"return", "var", "void", "while"}
_LEVELS = (("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
_LARGEST = 1 << 63


class CompileError(ValueError):
    """The expression is not one of the language, or of these variables and functions."""


class UInt(int):
    """A value of the unsigned type: no operator mixes it with the signed one."""


@dataclass(frozen=True, slots=True)
class Tree:
    """`what` is literal, name, select, index, call, list, map, and, or, if; `name` is what it is called.

    What need not be there (`a.?b`, `a[?b]`, `[?a]`, `{?a: b}`) is select_if, index_if,
    or an item that is wrapped as given.
    Parts of a call are its target, where it is a member (`a.f(b)`), and its arguments.
    """

    what: str
    name: str = ""
    parts: tuple[Tree, ...] = ()
    value: Any = None
    member: bool = False
    depth: int = 1


def tree(what: str, *parts: Tree, name: str = "", value: Any = None, member: bool = False) -> Tree:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > DEEPEST:
        raise CompileError(f"the expression is nested more than {DEEPEST} levels deep")
    return Tree(what, name, parts, value, member, depth)


def parse(text: str) -> Tree:
    """The tree of an expression; raises CompileError with the place."""
    if len(text) > LONGEST:
        raise CompileError(f"the expression is longer than {LONGEST} characters")
    return _Parser(text).whole()


class _Parser:
    """Invariant: `at` is the index of the first token that is not read yet."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0
        self.inside = 0  # brackets that are open

    def whole(self) -> Tree:
        made = self.expression()
        if self.at < len(self.tokens):
            raise self.wrong("an operator or the end")
        return made

    def expression(self) -> Tree:
        self.inside += 1
        if self.inside > DEEPEST_BRACKETS:
            raise CompileError(f"the expression has more than {DEEPEST_BRACKETS} brackets inside each other")
        made = self.either()
        if self.take("?"):
            yes = self.either()
            self.need(":")
            made = tree("if", made, yes, self.expression())
        self.inside -= 1
        return made

    def either(self) -> Tree:
        return self.chain("||", "or", lambda: self.chain("&&", "and", lambda: self.binary(0)))

    def chain(self, sign: str, what: str, operand: Any) -> Tree:
        parts = [operand()]
        while self.take(sign):
            parts.append(operand())
        return parts[0] if len(parts) == 1 else tree(what, *parts)

    def binary(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self.unary()
        made = self.binary(level + 1)
        while self.at < len(self.tokens) and self.tokens[self.at][1] in _LEVELS[level]:
            kind, sign, _ = self.tokens[self.at]
            if kind == "string":
                break
            self.at += 1
            made = tree("call", made, self.binary(level + 1), name=sign)
        return made

    def unary(self) -> Tree:
        signs = []
        while self.at < len(self.tokens) and self.tokens[self.at][:2] in (("sign", "!"), ("sign", "-")):
            signs.append(self.tokens[self.at][1])
            self.at += 1
        if signs and signs[-1] == "-" and self.at < len(self.tokens) and self.tokens[self.at][0] == "int":
            signs.pop()
            made = self.member(negative=True)
        else:
            made = self.member()
        for sign in reversed(signs):
            made = tree("call", made, name="!" if sign == "!" else "-_")
        return made

    def member(self, negative: bool = False) -> Tree:
        made = self.primary(negative)
        while True:
            if self.take("."):
                if self.take("?"):
                    made = tree("select_if", made, name=self.name())
                    continue
                name = self.name()
                if self.take("("):
                    made = tree("call", made, *self.arguments(")"), name=name, member=True)
                else:
                    made = tree("select", made, name=name)
            elif self.take("["):
                what = "index_if" if self.take("?") else "index"
                made = tree(what, made, self.expression())
                self.need("]")
            else:
                return made

    def primary(self, negative: bool) -> Tree:
        if self.at >= len(self.tokens):
            raise self.wrong("a value")
        kind, text, _ = self.tokens[self.at]
        if kind in ("int", "uint", "double", "string"):
            self.at += 1
            return tree("literal", value=_literal(kind, text, negative))
        if self.take("("):
            made = self.expression()
            self.need(")")
            return made
        if self.take("["):
            return tree("list", *self.arguments("]"))
        if self.take("{"):
            return tree("map", *self.entries())
        if kind == "name" and text in _WORDS:
            self.at += 1
            return tree("literal", value=_WORDS[text])
        self.take(".")
        name = self.name()
        if name in _RESERVED:
            raise CompileError(f"reserved identifier: {name}")
        if self.take("("):
            return tree("call", *self.arguments(")"), name=name)
        return tree("name", name=name)

    def arguments(self, end: str) -> list[Tree]:
        found: list[Tree] = []
        while not self.take(end):
            if found:
                self.need(",")
                if end == "]" and self.take(end):
                    break
            optional = end == "]" and self.take("?")
            found.append(self.item(optional))
        return found

    def item(self, optional: bool) -> Tree:
        made = self.expression()
        return tree("given", made) if optional else made

    def entries(self) -> list[Tree]:
        found: list[Tree] = []
        while not self.take("}"):
            if found:
                self.need(",")
                if self.take("}"):
                    break
            optional = self.take("?")
            found.append(self.expression())
            self.need(":")
            found.append(self.item(optional))
        return found

    def name(self) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            raise self.wrong("a name")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def take(self, sign: str) -> bool:
        found = self.at < len(self.tokens) and self.tokens[self.at][:2] == ("sign", sign)
        self.at += found
        return found

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise self.wrong(repr(sign))

    def wrong(self, wanted: str) -> CompileError:
        if self.at >= len(self.tokens):
            return CompileError(f"syntax error at the end: {wanted} is missing")
        _, text, place = self.tokens[self.at]
        line = self.text.count("\n", 0, place)
        column = place - (self.text.rfind("\n", 0, place) + 1)
        return CompileError(
            f"syntax error at {line + 1}:{column + 1}: {wanted} is missing before {text[:20]!r}"
        )


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CompileError(f"syntax error: {text[at : at + 1]!r} at character {at + 1} begins nothing")
        if match.lastgroup != "space":
            found.append((match.lastgroup or "", match[0], at))
        at = match.end()
    return found


def _literal(kind: str, text: str, negative: bool) -> Any:
    if kind == "double":
        return float(text)
    if kind == "string":
        return _string(text)
    value = int(text.rstrip("uU"), 16 if text.startswith("0x") else 10) if len(text) < 25 else 1 << 80
    if kind == "uint":
        if value >= 2 * _LARGEST:
            raise CompileError(f"{text[:30]} is beyond 64 bits")
        return UInt(value)
    value = -value if negative else value
    if not -_LARGEST <= value < _LARGEST:
        raise CompileError(f"{text[:30]} is beyond 64 bits")
    return value


def _string(text: str) -> str | bytes:
    start = next(index for index, letter in enumerate(text) if letter in "\"'")
    marks, body = text[:start].lower(), text[start:]
    body = body[3:-3] if body[:3] in ('"""', "'''") and len(body) >= 6 else body[1:-1]
    if "r" not in marks:
        body = _unescaped(body)
    return (
        body.encode("latin-1" if "r" not in marks and body.isascii() else "utf-8") if "b" in marks else body
    )


def _unescaped(body: str) -> str:
    parts: list[str] = []
    at = 0
    while (slash := body.find("\\", at)) >= 0:
        match = _ESCAPE.match(body, slash)
        if match is None:
            raise CompileError(f"syntax error: {body[slash : slash + 2]!r} is not an escape")
        parts.append(body[at:slash])
        if match["one"]:
            parts.append(_ONE.get(match["one"], match["one"]))
        elif match["o"]:
            parts.append(chr(int(match["o"], 8)))
        else:
            code = int(match["x"] or match["X"] or match["u"] or match["U"], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise CompileError(f"syntax error: {match[0]!r} is no character")
            parts.append(chr(code))
        at = match.end()
    return "".join((*parts, body[at:]))
