"""Flags that the environment may give as well, and lists of gates."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar, get_type_hints

from cyclopts import Parameter

from dovetail.base.errors import InputError

Bool = Literal["true", "false"]
T = TypeVar("T")
# KUBECONFIG may name several files, and has its place after the flag and before the pod's own.
_NO_VARIABLE = ("kubeconfig", "context")
# As Go reads them, which Karpenter's gates are read by.
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


def from_environment(cls: type[T]) -> type[T]:
    """Let every field of a class of flags be given by the environment, under its name in capitals."""
    hints = get_type_hints(cls, include_extras=True)
    cls.__annotations__ = {
        name: hint if name in _NO_VARIABLE else Annotated[hint, Parameter(env_var=name.upper())]
        for name, hint in hints.items()
    }
    return cls


def read_gates(text: str, source: str) -> dict[str, bool]:
    """Gates by name, those that nobody knows too, as Karpenter takes them. Raises InputError."""
    chosen: dict[str, bool] = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if not name or value not in (*_TRUE, *_FALSE):
            remedy = "give NAME=true or NAME=false, with commas between them"
            raise InputError(f"{part!r} is not valid", source=source, remedy=remedy)
        chosen[name] = value in _TRUE
    return chosen
