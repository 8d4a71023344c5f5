"""Working out once what follows from a frozen object."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import ref

P = ParamSpec("P")
K = TypeVar("K")
V = TypeVar("V")

# For what is asked of each pod: more than the 150,000 that Kubernetes is made for. With 32,768 all of 50,000
# were forgotten again and again, and a second plan for them took as long as the first (1.2 s, now 0.95).
MOST_PODS = 160_000


class _Weak(ref[Any]):
    """A weak reference that knows under which id its object was remembered."""

    __slots__ = ("key",)
    key: int  # set by `by_identity`: an __init__ of its own doubles what remembering takes


def by_identity(size: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Remember what a pure function of one frozen object answered for that very object.

    For objects that live for long and are asked about again and again, and that hold dicts: those have no
    hash, and to compare them would cost as much as the work. There are `size` of them at most, then all are
    forgotten. An object that can be referred to weakly is forgotten when it goes, unless its answer holds
    it; any other one (a dict, a tuple) is kept alive, so that no other object can have its id. What is
    answered is shared: it must not be changed either.
    """

    def decorate(work: Callable[[K], V]) -> Callable[[K], V]:
        known: dict[int, tuple[object, V]] = {}

        def forget(gone: _Weak) -> None:
            known.pop(gone.key, None)

        @wraps(work)
        def recall(subject: K) -> Any:
            key = id(subject)
            found = known.get(key)
            if found is None:
                if len(known) >= size:
                    known.clear()
                held: object = subject
                if type(subject).__weakrefoffset__:
                    held = weak = _Weak(subject, forget)
                    weak.key = key
                found = known[key] = (held, work(subject))
            return found[1]

        return recall

    return decorate


def by_weight(
    most: int, weigh: Callable[[tuple[Any, ...], Any], int], *, same: bool = False
) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Remember what a pure function answered for equal arguments, while all entries weigh `most` at most.

    For arguments that may be a few bytes or many thousand: a number of entries says nothing of their memory
    then. `weigh` gives the weight of an entry from the arguments, given by position, and the answer; what was
    asked for longest ago is forgotten first, and what weighs more than `most` is not remembered. `same`: the
    very same objects are recognised and equal ones are not, for those whose hash costs as much as the work.
    """

    def decorate(work: Callable[P, V]) -> Callable[P, V]:
        known: dict[tuple[Any, ...], tuple[V, int, object]] = {}
        total = 0

        @wraps(work)
        def recall(*args: P.args, **kwargs: P.kwargs) -> V:
            nonlocal total
            key = tuple(map(id, args)) if same else args
            found = known.pop(key, None)
            if found is None:
                answer = work(*args, **kwargs)
                # Arguments that are kept alive leave their ids to no others.
                found = answer, weigh(args, answer), args
                if found[1] > most:
                    return answer
                total += found[1]
                while total > most:
                    total -= known.pop(next(iter(known)))[1]
            known[key] = found
            return found[0]

        return recall

    return decorate
