"""A page as one text: its parts and its data inside it, or beside it where a server gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from dovetail.base.errors import InputError
from dovetail.base.writing import write_whole

_PARTS = "dovetail.views.page"
STYLES = ("uPlot.min.css", "parts.css")
SCRIPTS = ("uPlot.iife.min.js", "parts.js")


def one_file(title: str, body: str, script: str, data: Mapping[str, Any]) -> str:
    """A page that needs nothing else. `body` is HTML, `script` JavaScript that reads #data and uses Parts."""
    styles = "".join(f"<style>{part(name)}</style>" for name in STYLES)
    scripts = "".join(f"<script>{text}</script>" for text in (*map(part, SCRIPTS), script))
    return _page(title, body, styles, scripts, embedded(data))


def linked(title: str, body: str, more: Sequence[str], data: Mapping[str, Any]) -> str:
    """A page for a server that answers the names of STYLES, SCRIPTS and `more` scripts beside it."""
    styles = "".join(f'<link rel="stylesheet" href="{name}">' for name in STYLES)
    scripts = "".join(f'<script src="{name}"></script>' for name in (*SCRIPTS, *more))
    return _page(title, body, styles, scripts, embedded(data))


def check_target(path: Path | None, flag: str = "--report") -> None:
    """A file that cannot be written is reported before the work for it, not after. Raises InputError."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder", source=flag, remedy="name a file in it")
    if not path.resolve().parent.is_dir():
        raise InputError(
            f"there is no folder {path.parent}", source=flag, remedy=f"make it first: mkdir -p {path.parent}"
        )


def write_page(page: str, path: Path) -> None:
    """Write a page to the file of --report; raises InputError when it cannot be written."""
    try:
        write_whole(path, page)
    except OSError as error:
        raise InputError(
            f"cannot write the report: {error.strerror}",
            source=str(path),
            remedy="give --report a file in a folder that may be written to",
        ) from None


def _page(title: str, body: str, styles: str, scripts: str, data: str) -> str:
    return Template(part("page.html")).substitute(
        title=escaped(title), body=body, styles=styles, scripts=scripts, data=data
    )


def embedded(data: Mapping[str, Any]) -> str:
    """JSON for a script element: "</" would end it early, wherever it stands inside the JSON."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")


def part(name: str, package: str = _PARTS) -> str:
    """The text of an asset."""
    return resources.files(package).joinpath("assets", name).read_text("utf-8")


def escaped(text: str) -> str:
    """Text as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
