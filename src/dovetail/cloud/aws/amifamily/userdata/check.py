"""User data looked at without a machine: what no node would come of, and what would have no effect.

It is read as the image of the family reads it: nodeadm and cloud-init on AL2023, cloud-init on AL2, TOML
settings on Bottlerocket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.cloud.aws.amifamily.userdata import mime, nodeadm, nodeconfig, scripts
from dovetail.cloud.aws.amifamily.userdata.bottlerocket import KUBERNETES, left_out
from dovetail.cloud.aws.amifamily.userdata.nodeconfig import Remark

_TOML_LINE = re.compile(r"at line (\d+)")
_TOML_PATH = re.compile(r"settings[\w.-]*\.([\w-]+) must be")
_SETTINGS = re.compile(r"^\[settings[.\]]", re.MULTILINE)
_SHELL = "text/x-shellscript"


def family_of(text: str, name: str = "") -> str:
    """Which family the user data was written for, by its looks and the name of its file."""
    if PurePath(name).suffix == ".toml" or _SETTINGS.search(text):
        return "Bottlerocket"
    if "<powershell>" in text:
        return "Windows2022"
    return "AL2" if "/etc/eks/bootstrap.sh" in text else "AL2023"


def remarks(text: str, family: str) -> tuple[Remark, ...]:
    """All that can be said against the text, in its order; of a text that cannot be read, why."""
    if not text:
        return ()
    try:
        match family:
            case "AL2023":
                return tuple(_al2023(text))
            case "AL2":
                return tuple(_al2(text))
            case "Bottlerocket":
                return tuple(_bottlerocket(text))
    except InputError as error:
        return (_unreadable(error, text),)
    return tuple(_windows(text)) if family.startswith("Windows") else ()


def _unreadable(error: InputError, text: str) -> Remark:
    line = error.line
    if found := _TOML_LINE.search(error.message):
        line = int(found[1])
    elif found := _TOML_PATH.search(error.message):
        line = _line_of(text, found[1])
    return Remark(True, error.message, line, remedy=error.remedy)


def _al2023(text: str) -> Iterator[Remark]:
    if not mime.is_archive(text) and nodeadm.means_document(text):
        # Whatever else it can be taken for: a NodeConfig is what it was meant to be.
        yield from nodeconfig.remarks(text)
        return
    for part, above in _placed(nodeadm.own_parts(text), text):
        if part.content_type.startswith(nodeadm.NODE_CONFIG):
            for remark in nodeconfig.remarks(part.body):
                yield replace(remark, line=None if remark.line is None else remark.line + above)
        elif part.content_type.startswith(_SHELL):
            yield from _script(part.body, above, "a NodeConfig begins with apiVersion: node.eks.aws/v1alpha1")


def _al2(text: str) -> Iterator[Remark]:
    remedy = "nodeadm and its NodeConfig are of AL2023" if nodeadm.means_document(text) else ""
    for part, above in _placed(scripts.own_parts(text), text):
        if part.content_type.startswith(nodeadm.NODE_CONFIG):
            yield Remark(False, "AL2 has no nodeadm to read a NodeConfig", above + 1, remedy="take AL2023")
        elif part.content_type.startswith(_SHELL):
            yield from _script(part.body, above, remedy)


def _placed(parts: list[mime.Part], text: str) -> Iterator[tuple[mime.Part, int]]:
    """Each part, and how many lines of the text are above it."""
    text, start = text.replace("\r\n", "\n"), 0
    for part in parts:
        at = text.find(part.body, start)
        if at >= 0:  # what was decoded stands elsewhere in the text, or nowhere
            start = at
        yield part, text.count("\n", 0, start)


def _script(body: str, above: int, remedy: str) -> Iterator[Remark]:
    if body.strip() and not body.startswith("#!"):
        message = "this is taken for a shell script, which is not run without #! at its beginning"
        yield Remark(False, message, above + 1, remedy=remedy or "write #!/bin/bash above it")


def _bottlerocket(text: str) -> Iterator[Remark]:
    for name in left_out(text):
        yield Remark(
            False,
            "Bottlerocket knows no such setting, so it is left out",
            _line_of(text, name),
            f"settings.kubernetes.{name}",
            meant(name, KUBERNETES),
        )


def _line_of(text: str, key: str) -> int | None:
    """Of a key or table in TOML."""
    found = re.search(rf"^\s*(\[.*)?[\"']?{re.escape(key)}[\"']?\s*[=\].]", text, re.MULTILINE)
    return None if found is None else text.count("\n", 0, found.end()) + 1


def _windows(text: str) -> Iterator[Remark]:
    for number, line in enumerate(text.splitlines(), 1):
        if "<powershell>" in line:
            message = "<powershell> is put around the lines for you, and stands there twice now"
            yield Remark(False, message, number, remedy="leave the tags out")
