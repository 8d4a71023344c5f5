"""Giving up preferences, one at a time, in the documented order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dovetail.solve.demand.rules import Rules

OTHER_TERM = "required node affinity term"  # an alternative is passed over: nothing that was promised is lost


# So many preferences about other pods, and so many spreads, are given up one at a time; with more, the rest
# goes in as many steps again, several at once: each step looks at all that are left.
_SINGLE = 64


def levels(rules: Rules, *, soft_taints_exist: bool) -> Iterator[tuple[Rules, tuple[str, ...]]]:
    """The rules as they are, then with the next thing given up each time, and the words for what this was.

    After the last, every alternative of the required affinity is tried once more without any preference:
    the documented order drops alternatives first, which may drop the only one that works. Each level takes
    constant time and memory but where preferences about other pods or spreads go: there, of n of them, it
    takes n, and there are no more than 128 such levels of each kind. Of alternatives and of
    preferred node affinity each level has the one that counts.
    """
    terms, preferred, spread = rules.terms or (), rules.preferred_node, rules.preferred_spread
    now = replace(rules, terms=terms[:1] if terms else rules.terms, preferred_node=preferred[:1])
    yield now, ()
    for term in terms[1:]:
        now = replace(now, terms=(term,))
        yield now, (OTHER_TERM,)
    near, apart = rules.preferred_affinity, rules.preferred_anti
    for start, end in _steps(len(near)):
        now = replace(now, preferred_affinity=near[end:])
        yield now, ("preferred pod affinity",) * (end - start)
    for start, end in _steps(len(apart)):
        now = replace(now, preferred_anti=apart[end:])
        yield now, ("preferred pod anti-affinity",) * (end - start)
    for index in range(len(preferred)):
        now = replace(now, preferred_node=preferred[index + 1 : index + 2])
        yield now, ("preferred node affinity",)
    # In this order they go: of those that are left the first, whose place the last then takes.
    turns = (*spread[:1], *spread[:0:-1])
    for start, end in _steps(len(spread)):
        kept = turns[end:]
        now = replace(now, preferred_spread=(*kept[:1], *kept[:0:-1]))
        yield now, tuple([f"topology spread on {item.topology_key}" for item in turns[start:end]])
    if rules.soft_taints and soft_taints_exist:
        now = replace(now, soft_taints=False)
        yield now, ("PreferNoSchedule taints",)
    for term in terms[:-1]:
        yield replace(now, terms=(term,)), ()


def _steps(count: int) -> Iterator[tuple[int, int]]:
    """How many of so many things are gone before and after each step."""
    rest = max(0, count - _SINGLE)
    ends = [*range(1, min(count, _SINGLE) + 1)]
    ends += (
        sorted({_SINGLE + rest * step // _SINGLE for step in range(1, _SINGLE + 1)} - {_SINGLE})
        if rest
        else []
    )
    yield from zip((0, *ends[:-1]), ends, strict=True) if ends else ()
