"""Words that the command line does not know, reported like all wrong input: what, where, what is valid."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, get_origin

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.exceptions import RepeatArgumentError, UnknownCommandError
from cyclopts.token import Token

from dovetail.base.errors import InputError
from dovetail.base.guess import meant, nearest

_NUMBERS = {int: "a whole number", float: "a number"}


def misuse(error: CycloptsError) -> InputError:
    """The parser's complaint in our words."""
    for kind, explained in _EXPLAINED:
        if isinstance(error, kind):
            return explained(error)
    error.verbose = False
    return InputError(" ".join(str(error).split()), remedy=_help(error))


def _help(error: CycloptsError) -> str:
    words = " ".join(("dovetail", *(error.command_chain or ())))
    return f"{words} --help says what is valid"


# How commands want their files that take none by themselves.
_FILES = {"plan": "-f", "explain": "-f", "top": "--log"}
_A_FILE = re.compile(r"[./\\]")
# Flags of kubectl that are looked for here.
_KUBECTL = {
    "-k": "kubectl kustomize FOLDER | dovetail plan -f -",
    "--kustomize": "kubectl kustomize FOLDER | dovetail plan -f -",
}


def _name(error: CycloptsError, token: Token | None) -> str:
    """The flag as it was written, the variable, or the argument's own name."""
    written = (token.keyword if token else None) or getattr(error, "keyword", None)
    return str(written or (error.argument.name if error.argument else ""))


def _wrong_value(error: Any) -> InputError:
    value = error.token.value if error.token else ""
    source = _name(error, error.token)
    if get_origin(error.target_type) is Literal:
        valid = [str(word) for word in get_args(error.target_type)]
        return InputError(
            f"{value!r} is not valid", source=source, remedy=f"choose one of {', '.join(valid)}"
        )
    if error.target_type is bool:
        return InputError(f"{value!r} is not valid", source=source, remedy="give true or false")
    kind = _NUMBERS.get(error.target_type, "valid")
    return InputError(f"{value!r} is not {kind}", source=source, remedy=_help(error))


def _no_value(error: Any) -> InputError:
    name = error.argument.name
    if error.keyword:
        return InputError(
            "needs a value", source=error.keyword, remedy=f"give {error.keyword}=VALUE; {_help(error)}"
        )
    for word in error.unused_tokens or ():
        given = word.partition("=")[0]
        near = nearest(given, error.argument.names)
        if near or given.startswith("--"):
            # A flag that does not exist says more than the one that it was meant for, or that comes after it.
            hint = f"did you mean {name}? " if near else ""
            return InputError("there is no such flag", source=given, remedy=f"{hint}{_help(error)}")
    flag = "-f" if "-f" in error.argument.names else ""
    return InputError("is missing", source=name, remedy=f"{_file_without(flag, error)}{_help(error)}")


def _unknown_flag(error: Any) -> InputError:
    given = (error.token.keyword or error.token.value).partition("=")[0]
    known = [name for argument in error.argument_collection for name in argument.names if argument.parse]
    remedy = _KUBECTL.get(given) or _meant(given, known, _help(error))
    return InputError("there is no such flag", source=given, remedy=remedy)


def _unknown_command(error: Any) -> InputError:
    given = str(error.unused_tokens[0])
    valid = [name for name in error.app if not name.startswith("-")] if error.app else []
    choice = f"choose one of {', '.join(valid)}"
    return InputError("there is no such command", source=given, remedy=_meant(given, valid, choice))


def _too_much(error: Any) -> InputError:
    given = ", ".join(map(repr, error.unused_tokens))
    hint = _file_without(_FILES.get((error.command_chain or ("",))[0], ""), error)
    return InputError(f"{given}: not expected here", remedy=f"{hint}{_help(error)}")


def _file_without(flag: str, error: Any) -> str:
    """What is to be written where a file is given without its flag; "" where that is not so."""
    unused: Sequence[str] = error.unused_tokens or ()
    meant_file = flag and any(map(_A_FILE.search, unused))
    return f"did you mean {flag} {unused[0]}? " if meant_file else ""


def _twice(error: Any) -> InputError:
    name = _name(error, error.token)
    if error.token.implicit_value == []:
        # It may be given often, and stands there without a value after one that has one.
        return InputError("needs a value", source=name, remedy=f"give {name}=VALUE; {_help(error)}")
    return InputError("given more than once", source=name, remedy="give it once")


def _meant(given: str, known: Sequence[str], otherwise: str) -> str:
    return f"{meant(given, known)} {otherwise}".lstrip()


_EXPLAINED: tuple[tuple[type[CycloptsError], Callable[[Any], InputError]], ...] = (
    (CoercionError, _wrong_value),
    (MissingArgumentError, _no_value),
    (UnknownOptionError, _unknown_flag),
    (UnknownCommandError, _unknown_command),
    (UnusedCliTokensError, _too_much),
    (RepeatArgumentError, _twice),
)
