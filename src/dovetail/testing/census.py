"""What a controller keeps in memory: how many bytes, and whose names.

A walk over everything that can be reached from given roots, as Python's own collector sees it: attributes,
containers, closures, memoised answers, the locals of suspended tasks. What belongs to the world outside (an
API server in memory, an AWS in memory, the loop) is not entered, nor are modules, classes and code.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import re
import sys
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

# Packages that play the world around the controller.
OUTSIDE = (
    "dovetail.cloud.aws.fake",
    "dovetail.cloud.simulated",
    "dovetail.cloud.inmemory",
    "dovetail.kube.memory",
    "dovetail.simulate",
    "dovetail.testing",
)
_NEVER = (type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, asyncio.AbstractEventLoop)
_INNER = ((), None)  # the way to anything but a root, where no rule asks for it
_MEMOISED: type[Any] = type(functools.lru_cache(len))
_WORD = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]*")


@dataclass(frozen=True, slots=True)
class Find:
    """Names of what is gone in one place: of which kind, how many, one of them; the way from the owner."""

    place: str
    kind: str
    count: int
    example: str


def census(owners: Mapping[str, Sequence[object]]) -> dict[str, int]:
    """Owner -> bytes of what it keeps alive, as `sys.getsizeof` has them. What several reach is the first's.

    An estimate from below: what the allocator wastes between objects is missing. Takes about a second for a
    million objects.
    """
    found: Counter[str] = Counter(dict.fromkeys(owners, 0))
    for owner, item, _ in _walk(owners, ways=False):
        found[owner] += _size(item)
    return dict(found)


def leftovers(owners: Mapping[str, Sequence[object]], gone: Mapping[str, str]) -> list[Find]:
    """Where anything still holds one of these names, UIDs or ids, also as a word of a text; most first.

    `gone` has the kind of each.
    """
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for owner, item, way in _walk(owners, ways=True):
        if isinstance(item, str) and (named := next((word for word in words(item) if word in gone), "")):
            where = _place(owner, way), gone[named]
            counts[where] += 1
            examples.setdefault(where, named)
    return [Find(*where, count, examples[where]) for where, count in counts.most_common()]


def words(text: str) -> Iterator[str]:
    """The names that a text is made of, such as a key "namespace/name" or a provider ID."""
    return (found.group().strip(".-") for found in _WORD.finditer(text))


def memoised() -> list[object]:
    """What pure functions of Dovetail remember: every lru_cache and by_identity of the process."""
    kept: list[object] = [
        item
        for item in gc.get_objects()
        if isinstance(item, _MEMOISED)
        and str(item.__module__).startswith("dovetail.")
        and not _outside(str(item.__module__))
    ]
    for name, module in sorted(sys.modules.items()):
        if name.startswith("dovetail.") and not _outside(name):
            kept += [item for item in vars(module).values() if isinstance(item, types.FunctionType)]
    return kept


def _walk(
    owners: Mapping[str, Sequence[object]], *, ways: bool
) -> Iterator[tuple[str, object, tuple[Any, ...]]]:
    """Every object once: its owner, itself, and with `ways` its parent's way and parent, nested.

    What one owner has of another's roots is not entered from there.
    """
    seen: set[int] = set()
    kept: list[object] = []  # what exists only for the walk, so that no other object gets its id
    given = {id(root) for roots in owners.values() for root in roots}
    for owner, roots in owners.items():
        stack: list[tuple[object, tuple[Any, ...]]] = [(root, ()) for root in reversed(roots)]
        while stack:
            item, way = stack.pop()
            if id(item) in seen or (way and id(item) in given) or (id(item) not in given and _foreign(item)):
                continue
            seen.add(id(item))
            kept.append(item)
            yield owner, item, way
            here = (way, item) if ways else _INNER
            stack.extend((child, here) for child in _children(item))


def _size(item: object) -> int:
    """Bytes. msgspec.Raw (1.0) has no sound answer of its own: its bytes are an object besides."""
    return type(item).__basicsize__ if isinstance(item, msgspec.Raw) else sys.getsizeof(item)


def _children(item: object) -> Iterable[object]:
    if isinstance(item, types.FunctionType):  # its globals are the module's
        return (*(item.__closure__ or ()), *(item.__defaults__ or ()))
    if isinstance(item, types.FrameType):
        return tuple(item.f_locals.values())
    if isinstance(item, dict):  # the collector passes over keys that are texts
        return (*item.keys(), *gc.get_referents(item))
    return gc.get_referents(item)


def _foreign(item: object) -> bool:
    if isinstance(item, _NEVER):
        return True
    kind = type(item)
    if kind is types.MethodType:
        return _foreign(item.__self__)  # type: ignore[attr-defined]  # a bound method has one
    if kind is types.CoroutineType or kind is types.AsyncGeneratorType or kind is types.GeneratorType:
        return _outside(_module_of_frame(item))
    if isinstance(item, types.FunctionType):
        return _outside(item.__module__ or "")
    return _outside(kind.__module__)


def _module_of_frame(item: Any) -> str:
    frame = (
        getattr(item, "cr_frame", None) or getattr(item, "ag_frame", None) or getattr(item, "gi_frame", None)
    )
    return str(frame.f_globals.get("__name__", "")) if frame is not None else ""


@functools.lru_cache(maxsize=4096)
def _outside(module: str) -> bool:
    return module.startswith(OUTSIDE)


def _place(owner: str, way: tuple[Any, ...]) -> str:
    """Such as "controllers: Recorder._silent": the owner, and the last named attribute on the way."""
    parts: list[str] = []
    child: object = None
    while way:
        way, parent = way
        name = _attribute(parent, child) if child is not None else ""
        if name:
            parts.append(f"{type(parent).__name__}.{name}")
            if type(parent).__module__.startswith("dovetail.") and not _value(parent):
                break
        elif isinstance(parent, _MEMOISED):
            parts.append(f"{parent.__module__}.{parent.__name__}")
            break
        elif isinstance(parent, types.FunctionType):
            parts.append(f"{parent.__module__}.{parent.__qualname__}")
            break
        child = parent
    return f"{owner}: " + " > ".join(reversed(parts))


def _value(item: object) -> bool:
    """True for frozen values, which are kept by something else."""
    return type(item).__module__.startswith(("dovetail.api", "dovetail.model", "dovetail.solve"))


def _attribute(parent: object, child: object) -> str:
    if isinstance(parent, dict | list | tuple | set | frozenset | str):
        return ""
    names = [*getattr(parent, "__dict__", ()), *_slots(type(parent))]
    return next((name for name in names if getattr(parent, name, None) is child), "")


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else [*slots]
        fields = base.__dict__.get("__struct_fields__", ())
        found += fields if isinstance(fields, tuple) else ()
    return found
