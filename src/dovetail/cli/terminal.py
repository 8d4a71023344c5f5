"""The terminal application, for the commands that show it: Textual is imported only then."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dovetail.base.errors import InputError
from dovetail.base.extras import extra

if TYPE_CHECKING:
    from dovetail.views.top.app import Top


def application_of() -> type[Top]:
    """The terminal application. Raises InputError where what it needs is not there."""
    if not sys.stderr.isatty():
        raise InputError(
            "standard error is no terminal, and what is shown is drawn there",
            remedy="leave out what redirects it (2>)",
        )
    with extra("top", "the terminal application", otherwise="dovetail top | cat does without it"):
        from dovetail.views.top.app import Top
    return Top
