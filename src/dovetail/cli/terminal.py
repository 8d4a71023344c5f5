"""The terminal application, for the commands that show it: Textual is imported only then."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dovetail.base.errors import InputError

if TYPE_CHECKING:
    from dovetail.views.top.app import Top


def application_of() -> type[Top]:
    """The terminal application. Raises InputError where what it needs is not there."""
    if not sys.stderr.isatty():
        raise InputError(
            "standard error is no terminal, and what is shown is drawn there",
            remedy="leave out what redirects it (2>)",
        )
    try:
        from dovetail.views.top.app import Top
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "textual":
            raise
        raise InputError(
            "the terminal application needs Textual, which is not installed",
            remedy="pip install 'dovetail[top]'; without a terminal (dovetail top | cat) it is not needed",
        ) from None
    return Top
