"""Libraries that only some commands need: extras of the package, imported where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dovetail.base.errors import InputError


@contextmanager
def extra(name: str, what: str, *, source: str = "", otherwise: str = "") -> Iterator[None]:
    """Imports within the block are of the extra `name`; raises InputError where one of them is not installed.

    `what` needs them ("the AWS provider"); `otherwise` says how to do without.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("dovetail"):
            raise
        remedy = f"install the extra: pip install 'dovetail[{name}]'"
        remedy += f"; {otherwise}" if otherwise else ""
        message = f"{what} needs {missing.partition('.')[0]}, which is not installed"
        raise InputError(message, source=source, remedy=remedy) from None
