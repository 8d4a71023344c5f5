"""Objects that Terraform files hold, each with its place in the file.

Read are `kubernetes_manifest` (an object written in HCL), `kubectl_manifest` (YAML in a heredoc, or HCL in
yamlencode) and what `helm_release` sets of the chart, one by one or as either of these. HCL is not
evaluated: an expression stands as `<its text>`, so that what is left in `${...}` of plain manifests is
distinguished from it; of a template's branches the first is read, of its loops one turn.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator

from dovetail.base.errors import InputError
from dovetail.reading.located import Located
from dovetail.reading.yamltext import read_yaml

_RESOURCE = re.compile(
    r'^[ \t]*resource[ \t]+"(kubernetes_manifest|kubectl_manifest|helm_release)"[ \t]+"[^"]*"[ \t]*\{', re.M
)
_MANIFEST = re.compile(r"\bmanifest[ \t]*=[ \t]*(?=\{)")
_ENCODED = re.compile(r"\b(?:yaml|json)encode\(\s*(?=\{)")
_HEREDOC = re.compile(r"<<-?(\w+)[ \t]*\n(.*?\n)[ \t]*\1[ \t]*(?=\n|$|\))", re.S)
_SET = re.compile(r'\bname[ \t]*=[ \t]*"([^"\n]+)"\s*,?\s*\bvalue[ \t]*=[ \t]*("(?:[^"\\\n]|\\.)*"|[^\s,}]+)')
_CHARTS = re.compile(r'\bchart[ \t]*=[ \t]*"(?:[^"]*/)?(?:karpenter|dovetail)"')
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?\*/)
    |(?P<heredoc><<-?(?P<tag>\w+)[ \t]*\n(?:[^\n]*\n)*?[ \t]*(?P=tag)(?!\w))
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<newline>\n)|(?P<space>[ \t\r]+)
    |(?P<mark>[{}\[\],]|=(?!=))
    |(?P<word>[^\s"{}\[\],=\#]+)""",
    re.X | re.S,
)
_FOR = re.compile(r"\s*for\s")
_ELSE = re.compile(r"%\{~?\s*else\b[^}\n]*\}.*?(?=%\{~?\s*endif\b)", re.S)
_DIRECTIVE = re.compile(r"(?<!%)%\{[^}\n]*\}")
_IN_TEXT = re.compile(r"(?<!\$)\$\{((?:[^{}\n]|\{[^{}\n]*\})+)\}|\$\$\{")
_STANDS_FOR = re.compile(r"<[^<>\s][^\n]*>")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# Files whose text Terraform takes for a manifest: one by one, or all that a pattern finds.
_TEMPLATE = re.compile(r'\btemplatefile\(\s*"([^"\n]+)"')
_PATTERN = re.compile(
    r'data[ \t]+"kubectl_path_documents"[ \t]+"[^"]*"[ \t]*\{[^{}]*?'
    r'\bpattern[ \t]*=[ \t]*"((?:\$\{[^}]*\}|[^"\n{}])+)"'
)
_HERE = re.compile(r"\$\{path\.(?:module|root|cwd)\}/?")
_PLAIN = re.compile(r"true|false|null|-?[0-9]+(?:\.[0-9]+)?")


def read_terraform(
    text: str, source: str, fault: Callable[[InputError], None]
) -> Iterator[tuple[str, Located]]:
    """(type of the resource, document) of every object that the file holds, in order.

    What cannot be read goes to `fault`; the rest is read all the same.
    """
    found: list[tuple[int, str, str]] = []
    for match in _RESOURCE.finditer(text):
        end = _closing(text, match.end() - 1)
        block = text[match.end() : end]
        if match[1] == "kubernetes_manifest":
            begins = [*_MANIFEST.finditer(text, match.end(), end)][:1]
        elif match[1] == "kubectl_manifest" or _CHARTS.search(block):
            begins = [*_ENCODED.finditer(text, match.end(), end)]
        else:
            continue
        for begin in begins:
            start = begin.end()
            found.append((start, match[1], _as_yaml(text[start : _closing(text, start) + 1])))
        if match[1] == "helm_release":
            if values := _settings(block):
                found.append((match.end(), match[1], values))
            for values_match in _HEREDOC.finditer(text, match.end(), end):
                found.append((values_match.start(2), match[1], _filled(values_match[2])))
    for start, body in _heredocs(text):
        if re.search(r"^\s*(?:- +)?apiVersion:", body, re.M):
            found.append((start, "kubectl_manifest", _filled(body)))
    for start, kind, body in sorted(found):
        try:
            for located in read_yaml(_padding(text, start) + body, source):
                yield from ((kind, one) for one in _objects(located))
        except InputError as error:
            fault(error)


def read_template(text: str, source: str, fault: Callable[[InputError], None]) -> Iterator[Located]:
    """The objects of a file that Terraform fills in, as those of a heredoc."""
    try:
        for located in read_yaml(_filled(text), source):
            yield from _objects(located)
    except InputError as error:
        fault(error)


def templates_of(text: str) -> Iterator[str]:
    """Names and patterns, from the folder of the Terraform file on, of the files that it fills in.

    Those whose names are themselves worked out are left out.
    """
    for found in (_TEMPLATE, _PATTERN):
        for match in found.finditer(text):
            name = _HERE.sub("", match[1])
            if "${" not in name:
                yield name


def _objects(located: Located) -> Iterator[Located]:
    """What is an object, by itself or in a list of them; a script's words are none."""
    if isinstance(located.value, dict):
        yield located
    for index, item in enumerate(located.value if isinstance(located.value, list) else ()):
        if isinstance(item, dict):
            yield Located(
                item, located.source, *located.place_of(f"[{index}]"), outer=(located, f"[{index}]")
            )


def _heredocs(text: str, offset: int = 0) -> Iterator[tuple[int, str]]:
    """(start, text) of the innermost heredocs: a script that applies manifests has them in one of its own."""
    for match in _HEREDOC.finditer(text):
        inner = list(_heredocs(match[2], offset + match.start(2)))
        yield from inner or [(offset + match.start(2), match[2])]


def is_expression(value: object) -> bool:
    """True iff a value holds what Terraform works out when it is applied."""
    return isinstance(value, str) and _STANDS_FOR.search(value) is not None


def separator(heredoc: str) -> re.Pattern[str]:
    """What stands between the documents of a heredoc: `---`, indented as all of it may be."""
    lines = [line for line in heredoc.splitlines() if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    return re.compile(rf"^[ \t]{{{indent}}}---(?=\s|$)", re.M)


def _filled(template: str) -> str:
    """A heredoc with its expressions as `<their text>`; `$${` is a `${` that is meant so."""
    once = _ELSE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), template)
    once = _DIRECTIVE.sub(lambda match: " " * len(match[0]), once)
    unindented = separator(template).sub(lambda match: match[0].strip().ljust(len(match[0])), once)
    return _IN_TEXT.sub(lambda match: f"<{''.join(match[1].split())}>" if match[1] else "${", unindented)


def _padding(text: str, start: int) -> str:
    """What keeps line and column of what begins at `start`."""
    return "\n" * text.count("\n", 0, start) + " " * (start - text.rfind("\n", 0, start) - 1)


def _closing(text: str, start: int) -> int:
    """Where the brace at `start` is closed; the end of the text where it is not."""
    depth, at = 0, start
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            at += 1
            continue
        if match["mark"] in ("{", "["):
            depth += 1
        elif match["mark"] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return at
        at = match.end()
    return len(text)


def _as_yaml(text: str) -> str:
    """An object of HCL in YAML's flow style, character by character at its place as far as that goes."""
    tokens = list(_TOKEN.finditer(text))
    out: list[str] = []
    index, expecting = 0, "key"  # in a map: its key or its value; in a list: an item
    stack: list[str] = []
    while index < len(tokens):
        token = tokens[index]
        kind, word = token.lastgroup, token[0]
        if kind in ("space", "newline"):
            out.append(word)
        elif kind == "comment":
            out.append("\n" * word.count("\n") or "")
        elif kind == "mark" and word in "{[" and not (expecting != "key" and _FOR.match(text, token.end())):
            stack.append(word)
            expecting = "key" if word == "{" else "item"
            out.append(word)
        elif kind == "mark" and word in "}]":
            if stack:
                stack.pop()
            out.append(f"{word}{_comma(tokens, index, stack)}")
            expecting = "key" if stack and stack[-1] == "{" else "item"
        elif kind == "mark" and word == ",":
            out.append("" if _written_comma(out) else ",")
            expecting = "key" if stack and stack[-1] == "{" else "item"
        elif word == "=":
            spaced = index + 1 < len(tokens) and tokens[index + 1].lastgroup in ("space", "newline")
            out.append(":" if spaced else ": ")
            expecting = "value"
        elif expecting == "key":
            out.append(word if kind == "text" or _NAME.fullmatch(word) else f'"{word}"')
        else:
            # An expression goes on to the end of the line, or to the comma or bracket that ends it.
            end, depth = index + 1, _opened(token)
            while end < len(tokens) and not (
                depth <= 0
                and (
                    tokens[end].lastgroup in ("newline", "comment") or tokens[end]["mark"] in ("}", "]", ",")
                )
            ):
                depth += _opened(tokens[end])
                end += 1
            written = "".join(part[0] for part in tokens[index:end])
            whole = written.strip()
            if kind == "heredoc" and end == index + 1:
                out.append(_block(whole))
            else:
                out.append(_value(whole, (kind == "text" and end == index + 1) or _is_text(whole)))
            out.append(_comma(tokens, end - 1, stack))
            out.append(" " * (len(written) - len(written.rstrip())))
            if not _is_text(whole):
                out.append("\n" * whole.count("\n"))
            expecting = "key" if stack and stack[-1] == "{" else "item"
            index = end
            continue
        index += 1
    return "".join(out)


def _opened(token: re.Match[str]) -> int:
    """How many brackets a part of an expression opens, less those that it closes."""
    if token.lastgroup in ("text", "comment", "heredoc"):
        return 0
    return sum(token[0].count(mark) for mark in "([{") - sum(token[0].count(mark) for mark in ")]}")


def _block(heredoc: str) -> str:
    """The text of a heredoc, in quotes."""
    first, _, rest = heredoc.partition("\n")
    body = rest[: rest.rfind("\n") + 1]
    return json.dumps(_filled(textwrap.dedent(body) if first.startswith("<<-") else body))


def _is_text(whole: str) -> bool:
    return re.fullmatch(r'"(?:[^"\\]|\\.)*"', whole, re.S) is not None


def _value(whole: str, text: bool) -> str:
    if text:
        return re.sub(r"\$\{([^}]*)\}", lambda match: f"<{match[1]}>", whole)
    if _PLAIN.fullmatch(whole):
        return whole
    words = " ".join(whole.split()).replace("\\", "\\\\").replace('"', "'")
    return f'"<{words}>"'


def _comma(tokens: list[re.Match[str]], index: int, stack: list[str]) -> str:
    """What separates one part from the next, which HCL does by the end of a line."""
    if not stack:
        return ""
    following = next(
        (item for item in tokens[index + 1 :] if item.lastgroup not in ("space", "newline", "comment")), None
    )
    if following is None or following["mark"] in ("}", "]", ","):
        return ""
    return ","


def _written_comma(out: list[str]) -> bool:
    return next((part for part in reversed(out) if part.strip()), "").endswith(",")


def _settings(block: str) -> str:
    """What a release sets, as YAML with each value in its line; "" if nothing."""
    lines: dict[int, str] = {}
    for match in _SET.finditer(block):
        column = match.start(1) - block.rfind("\n", 0, match.start(1)) - 2
        value = match[2] if match[2].startswith('"') else f'"<{match[2]}>"'
        if _PLAIN.fullmatch(match[2]):
            value = match[2]
        lines[block.count("\n", 0, match.start())] = f'{" " * max(0, column)}"{match[1]}": {value},'
    if not lines:
        return ""
    last = max(lines)
    return "{\n" + "\n".join(lines.get(number, "") for number in range(1, last + 1)) + "\n}"
