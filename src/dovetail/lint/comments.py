"""Comments that silence findings, as ruff has them: `# noqa: NP001` on a line, `# dovetail: noqa` for "
"a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_CODES = r"(?::\s*(?P<codes>[A-Z]{2}[0-9]*(?:[,\s]+[A-Z]{2}[0-9]*)*\b))?"
_LINE = re.compile(rf"#\s*(?i:noqa){_CODES}")
_FILE = re.compile(rf"^\s*#\s*(?i:dovetail:\s*noqa){_CODES}", re.M)
_ALL = ("",)  # every code begins so


@dataclass(frozen=True, slots=True)
class Silenced:
    """Beginnings of codes, for a whole file and by line; a comment that is alone on its line is for "
    "the next."""

    everywhere: tuple[str, ...] = ()
    lines: Mapping[int, tuple[str, ...]] | None = None

    def covers(self, code: str, line: int) -> bool:
        given = (*self.everywhere, *(self.lines or {}).get(line, ()))
        return any(code.startswith(begin) for begin in given)


def silenced(text: str) -> Silenced:
    """What the comments of a file silence."""
    if "noqa" not in text.lower():
        return Silenced()
    everywhere = tuple(code for match in _FILE.finditer(text) for code in _codes(match["codes"]))
    lines: dict[int, tuple[str, ...]] = {}
    pending: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        match = None if _FILE.match(line) else _LINE.search(line)
        codes = _codes(match["codes"]) if match else ()
        if line.strip().startswith("#"):
            pending += codes
            continue
        if codes or pending:
            lines[number] = (*pending, *codes)
        if line.strip():
            pending = ()
    return Silenced(everywhere, lines)


def _codes(text: str | None) -> tuple[str, ...]:
    return _ALL if text is None else tuple(part.upper() for part in re.split(r"[,\s]+", text) if part)
