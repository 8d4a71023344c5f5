"""MIME archives as cloud-init reads them: several scripts and documents in one text.

Headers are read by the standard library; bodies are cut out by hand, because its parser takes a part that is
an archive itself apart, and what belongs to a part must come out as it went in.
"""

from __future__ import annotations

import quopri
from collections.abc import Iterable
from dataclasses import dataclass
from email import message_from_string
from email.errors import MissingHeaderBodySeparatorDefect
from email.message import Message

from dovetail.base.errors import InputError

_BOUNDARY = "//"
_SHELL = 'text/x-shellscript; charset="us-ascii"'
_OPENINGS = ("MIME-Version:", "Content-Type:")
_PATH = "spec.userData"
_REMEDY = "see https://cloudinit.readthedocs.io/en/latest/explanation/format.html for the format"


@dataclass(frozen=True, slots=True)
class Part:
    """Headers by name, and the text, which ends without the line break before the boundary."""

    headers: tuple[tuple[str, str], ...]
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
    not_multipart: str = ""  # "" where any type goes
    content: str = ""  # what goes before a fault of the body


def is_archive(text: str) -> bool:
    """True iff the text is meant to be an archive. Case counts, as it does for Karpenter."""
    return text.strip().startswith(_OPENINGS)


def read(text: str, doing: str, faults: Faults) -> list[Part]:
    """The parts of an archive. Raises InputError, its message beginning with `doing`."""
    text = text.replace("\r\n", "\n")
    outer = message_from_string(text)
    headers, _, body = text.partition("\n\n")
    if any(isinstance(defect, MissingHeaderBodySeparatorDefect) for defect in outer.defects):
        number, line = next(
            (number, line)
            for number, line in enumerate(headers.split("\n"), 1)
            if ":" not in line and not line.startswith((" ", "\t"))
        )
        raise _broken(f"{doing} malformed header line: {line}", number)
    boundary = _boundary(outer, doing, faults)
    try:
        return [_part(section) for section in _sections(body, boundary)]
    except _Unfinished as unfinished:
        rest = f"{unfinished}, " if faults.content else ""
        raise _broken(f"{doing} {faults.content}{rest}unexpected EOF", len(text.splitlines())) from None


def write(parts: Iterable[Part]) -> str:
    """The archive of these parts."""
    text = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
    for part in parts:
        headers = "".join(f"{name}: {value}\n" for name, value in part.headers)
        text += f"--{_BOUNDARY}\n{headers}\n{part.body}\n"
    return f"{text}--{_BOUNDARY}--\n".replace("\r\n", "\n")


class _Unfinished(Exception):
    """The archive ends within a part; the argument is what there is of it."""


def _boundary(outer: Message, doing: str, faults: Faults) -> str:
    written = outer.get("Content-Type")
    if written is None:
        raise _broken(f"{doing} {faults.no_type} mime: no media type")
    boundary = outer.get_boundary()
    if boundary == "":
        raise _broken(f"{doing} {faults.no_type} mime: invalid media parameter")
    if faults.not_multipart and outer.get_content_maintype() != "multipart":
        raise _broken(f"{doing} {faults.not_multipart}")
    if boundary is None:
        raise _broken(f"{doing} {faults.content}multipart: boundary is empty")
    return boundary


def _sections(body: str, boundary: str) -> list[str]:
    """What stands between the boundaries; before the first and after the last is nobody's."""
    sections: list[list[str]] = []
    for line in body.split("\n"):
        mark = line.rstrip(" \t")
        if mark == f"--{boundary}--":
            return ["\n".join(lines) for lines in sections]
        if mark == f"--{boundary}":
            sections.append([])
        elif sections:
            sections[-1].append(line)
    if sections:
        unfinished = _part("\n".join(sections[-1]))
        raise _Unfinished(unfinished.body.strip())
    return []


def _part(section: str) -> Part:
    headers, _, body = ("", "", section[1:]) if section.startswith("\n") else section.partition("\n\n")
    parsed = message_from_string(headers + "\n\n")
    encoding = str(parsed.get("Content-Transfer-Encoding", "")).lower()
    if encoding == "quoted-printable":
        del parsed["Content-Transfer-Encoding"]
        body = quopri.decodestring(body.encode()).decode(errors="replace")
    return Part(tuple(sorted((_canonical(name), str(value)) for name, value in parsed.items())), body)


def _canonical(name: str) -> str:
    return "-".join(word.capitalize() for word in name.split("-"))


def _broken(message: str, line: int | None = None) -> InputError:
    return InputError(message, line=line, path=_PATH, remedy=_REMEDY)
