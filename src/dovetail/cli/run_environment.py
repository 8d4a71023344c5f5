"""Flags that the environment may give as well."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar, get_type_hints

from cyclopts import Parameter

Bool = Literal["true", "false"]
T = TypeVar("T")
# KUBECONFIG may name several files, and has its place after the flag and before the pod's own.
_NO_VARIABLE = ("kubeconfig", "context")


def from_environment(cls: type[T]) -> type[T]:
    """Let every field of a class of flags be given by the environment, under its name in capitals."""
    hints = get_type_hints(cls, include_extras=True)
    cls.__annotations__ = {
        name: hint if name in _NO_VARIABLE else Annotated[hint, Parameter(env_var=name.upper())]
        for name, hint in hints.items()
    }
    return cls
