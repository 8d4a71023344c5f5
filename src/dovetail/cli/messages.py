"""Messages on standard error: errors and notes, as text or as one line of JSON each."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from dovetail.base.errors import InputError, InputErrors

_as_json: ContextVar[bool] = ContextVar("as_json", default=False)
_noted: ContextVar[set[str] | None] = ContextVar("noted", default=None)  # within `each_once`
_KEPT = "\n\t"


def choose_form(arguments: Sequence[str]) -> None:
    """JSON for a program that asks for its answer as JSON, text otherwise."""
    given = iter(arguments)
    asked = False
    for word in given:
        flag, separator, value = word.partition("=")
        if flag in ("-o", "--output"):
            asked = (value if separator else next(given, "")) == "json"
        elif word == "-ojson":
            asked = True
    _as_json.set(asked)


def complain(error: InputError) -> None:
    """Everything that is wrong, as far as a screen or a log holds it."""
    if not _as_json.get():
        print_error(str(error))
        return
    shown = error.faults[: InputErrors.MOST_SHOWN]
    for fault in shown:
        renamed = {"file" if key == "source" else key: value for key, value in fault.place.items()}
        _print_json("error", fault.message, renamed)
    if len(error.faults) > len(shown):
        _print_json("error", f"and {len(error.faults) - len(shown)} more errors")


def print_error(message: str) -> None:
    """An error that has no place, such as a fault of Dovetail's own."""
    from rich.console import Console
    from rich.text import Text

    if _as_json.get():
        _print_json("error", message)
        return
    text = Text.assemble(("dovetail: ", "bold red"), visible(message))
    Console(stderr=True, soft_wrap=True, highlight=False).print(text)


@contextmanager
def each_once() -> Iterator[None]:
    """Within it the same note is said once: the same manifests may be read for several questions."""
    before = _noted.set(set())
    try:
        yield
    finally:
        _noted.reset(before)


def notes(messages: Iterable[str]) -> None:
    """The same of several things, each once."""
    with each_once():
        for message in messages:
            note(message)


def note(message: str) -> None:
    """Something that is not wrong, and that a user should know."""
    from rich.console import Console
    from rich.text import Text

    noted = _noted.get()
    if noted is not None:
        if message in noted:
            return
        noted.add(message)
    if _as_json.get():
        _print_json("note", message)
        return
    text = Text.assemble(("note: ", "yellow"), visible(message))
    Console(stderr=True, soft_wrap=True, highlight=False).print(text)


def visible(text: str) -> str:
    """The text with its control characters written out: what a file holds must not steer a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character in _KEPT or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def _print_json(level: str, message: str, more: Mapping[str, object] = MappingProxyType({})) -> None:
    from rich.console import Console

    fields = {key: value for key, value in more.items() if value not in (None, "", 0)}
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).out(
        json.dumps({"level": level, **fields, "message": message}), highlight=False
    )
