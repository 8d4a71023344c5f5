"""MIME archives as cloud-init reads them: several scripts and documents in one text.

What is taken and what is refused, and in which words, is as Go's standard library has it (net/mail, mime and
mime/multipart), which reads these archives for Karpenter; the standard library of Python is more lenient.
What belongs to a part comes out as it went in.
"""

from __future__ import annotations

import json
import quopri
import re
from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.base.errors import InputError

_BOUNDARY = "//"
_SHELL = 'text/x-shellscript; charset="us-ascii"'
_OPENINGS = ("MIME-Version:", "Content-Type:")
_PATH = "spec.userData"
_REMEDY = "see https://cloudinit.readthedocs.io/en/latest/explanation/format.html for the format"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`{|}~0-9A-Za-z]*")
_QUOTED = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"')
_BLANK = " \t"
_SPECIAL = re.compile(r'\\([()<>@,;:\\"/\[\]?=])')
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Headers by name, and the text, which ends without the line break before the boundary."""

    headers: Headers
    body: str

    @staticmethod
    def of(content_type: str, body: str) -> Part:
        return Part((("Content-Type", content_type),), body)

    @staticmethod
    def shell(body: str) -> Part:
        return Part.of(_SHELL, body)

    @property
    def content_type(self) -> str:
        return next((value for name, value in self.headers if name == "Content-Type"), "")


@dataclass(frozen=True, slots=True)
class Faults:
    """How a family words what is wrong; the texts are those of Karpenter's conditions."""

    no_type: str
    not_multipart: str
    header: str = ""  # what goes before a fault of the header
    content: str = ""  # what goes before a fault of the body
    shows_rest: bool = False  # True iff a part without an end is reported


def is_archive(text: str) -> bool:
    """True iff the text is meant to be an archive. Case counts, as it does for Karpenter."""
    return text.strip().startswith(_OPENINGS)


def read(text: str, doing: str, faults: Faults) -> list[Part]:
    """The parts of an archive. Raises InputError, its message beginning with `doing`."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    try:
        headers, start = _outer(lines)
    except _Malformed as fault:
        raise _broken(f"{doing} {faults.header}{fault}", fault.line) from None
    written = next((value for name, value in headers if name == "Content-Type"), "")
    try:
        kind, boundary = _media_type(written)
    except _Malformed as fault:
        raise _broken(f"{doing} {faults.no_type} {fault}") from None
    if not kind.startswith("multipart/"):
        raise _broken(f"{doing} {faults.not_multipart}")
    if not boundary:
        raise _broken(f"{doing} {faults.content}multipart: boundary is empty")
    try:
        return _parts(lines, start, boundary)
    except _Malformed as fault:
        raise _broken(f"{doing} {faults.content}{fault}", fault.line) from None
    except _Unfinished as unfinished:
        rest = f"{unfinished}, " if faults.shows_rest else ""
        raise _broken(f"{doing} {faults.content}{rest}unexpected EOF", len(text.splitlines())) from None


def write(parts: Iterable[Part]) -> str:
    """The archive of these parts."""
    text = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
    for part in parts:
        headers = "".join(f"{name}: {value}\n" for name, value in part.headers)
        text += f"--{_BOUNDARY}\n{headers}\n{part.body}\n"
    return f"{text}--{_BOUNDARY}--\n".replace("\r", "")


class _Malformed(Exception):
    """What is wrong, in Go's words, and in which line."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class _Unfinished(Exception):
    """The archive ends within a part; the argument is what there is of it."""


def _outer(lines: list[str]) -> tuple[Headers, int]:
    """The headers of the archive, and the index of the line after them."""
    if lines[0].startswith((" ", "\t")):
        raise _Malformed(f"malformed initial line: {lines[0]}", 1)
    found, end, _ = _headers(lines, 0, "malformed header line: {}")
    return found, end


def _headers(lines: list[str], start: int, malformed: str) -> tuple[Headers, int, bool]:
    """Headers up to an empty line, the index of the line after it, and True iff there is such a line."""
    found: list[tuple[str, str]] = []
    index = start
    # The last line is what stands after the last line break: nothing, where the text ends with one.
    while index < len(lines):
        number, line = index + 1, lines[index].strip(_BLANK)
        index += 1
        if not line:
            return tuple(found), index, index < len(lines)
        while index < len(lines) and lines[index].startswith((" ", "\t")):
            line = " ".join(filter(None, (line, lines[index].strip(_BLANK))))
            index += 1
        name, colon, value = line.partition(":")
        if not colon:
            raise _Malformed(malformed.format(line), number)
        if name:
            found.append((_canonical(name), value.lstrip(" \t")))
    return tuple(found), index, False


def _media_type(text: str) -> tuple[str, str]:
    """The type in small letters, and the parameter `boundary`, "" where there is none."""
    base, semicolon, _ = text.partition(";")
    kind = base.lower().strip()
    _check_type(kind)
    found: dict[str, str] = {}
    rest = (text[len(base) :] if semicolon else "").strip()
    while rest and rest != ";":
        name, value, rest = _parameter(rest)
        if found.setdefault(name, value) != value:
            raise _Malformed("mime: duplicate parameter name")
        rest = rest.lstrip()
    return kind, found.get("boundary", "")


def _check_type(kind: str) -> None:
    first, rest = _token(kind)
    if not first:
        raise _Malformed("mime: no media type")
    if rest and not rest.startswith("/"):
        raise _Malformed("mime: expected slash after first token")
    second, after = _token(rest[1:])
    if rest and not second:
        raise _Malformed("mime: expected token after slash")
    if after:
        raise _Malformed("mime: unexpected content after media subtype")


def _parameter(text: str) -> tuple[str, str, str]:
    """Name, value and what follows, of a text that begins with ";"."""
    invalid = _Malformed("mime: invalid media parameter")
    if not text.startswith(";"):
        raise invalid
    name, rest = _token(text[1:].lstrip())
    rest = rest.lstrip()
    if not name or not rest.startswith("="):
        raise invalid
    rest = rest[1:].lstrip()
    quoted = _QUOTED.match(rest)
    if quoted:
        return name.lower(), _SPECIAL.sub(r"\1", quoted[1]), rest[quoted.end() :]
    value, after = _token(rest)
    if not value:
        raise invalid
    return name.lower(), value, after


def _token(text: str) -> tuple[str, str]:
    found = _TOKEN.match(text)
    end = found.end() if found else 0
    return text[:end], text[end:]


def _parts(lines: list[str], start: int, boundary: str) -> list[Part]:
    """What stands between the boundaries; what is before the first and after the last belongs to none.

    A part whose headers are not whole when the text ends is left out without a word.
    """
    opening, closing = f"--{boundary}", f"--{boundary}--"
    parts: list[Part] = []
    index = start
    while index < len(lines):
        mark = lines[index].rstrip(" \t")
        index += 1
        if mark == closing:
            break
        if mark != opening:
            continue
        if index < len(lines) and lines[index].startswith((" ", "\t")):
            raise _Malformed(f"malformed MIME header initial line: {lines[index]}", index + 1)
        try:
            headers, index, whole = _headers(lines, index, "malformed MIME header: missing colon: {}")
        except _Malformed as fault:
            words, _, line = str(fault).rpartition(": ")
            raise _Malformed(f"{words}: {json.dumps(line, ensure_ascii=False)}", fault.line) from None
        if not whole:
            break
        end = next((at for at in range(index, len(lines)) if _ends_part(lines[at], opening)), None)
        if end is None:
            raise _Unfinished("\n".join(lines[index:]).removesuffix("\n"))
        parts.append(_part(headers, "\n".join(lines[index:end])))
        index = end
    return parts


def _ends_part(line: str, opening: str) -> bool:
    return line.rstrip(" \t") in (opening, f"{opening}--")


def _part(headers: Headers, body: str) -> Part:
    encoding = next((value for name, value in headers if name == "Content-Transfer-Encoding"), "")
    if encoding.lower() == "quoted-printable":
        headers = tuple(item for item in headers if item[0] != "Content-Transfer-Encoding")
        body = quopri.decodestring(body.encode()).decode(errors="replace")
    return Part(tuple(sorted(headers, key=lambda item: item[0])), body)


def _canonical(name: str) -> str:
    return "-".join(word.capitalize() for word in name.strip().split("-"))


def _broken(message: str, line: int | None = None) -> InputError:
    return InputError(message, line=line, path=_PATH, remedy=_REMEDY)
