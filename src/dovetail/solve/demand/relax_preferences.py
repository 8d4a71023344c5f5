"""Giving up preferences, one at a time, in the documented order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dovetail.solve.demand.rules import Rules

OTHER_TERM = "required node affinity term"  # an alternative is passed over: nothing that was promised is lost


def levels(rules: Rules, *, soft_taints_exist: bool) -> Iterator[tuple[Rules, tuple[str, ...]]]:
    """The rules as they are, then with one thing more given up each time, and the words for what was.

    After the last, every alternative of the required affinity is tried once more without any preference:
    the documented order drops alternatives first, which may drop the only one that works.
    """
    given_up: tuple[str, ...] = ()
    current: Rules | None = rules
    last = rules
    while current is not None:
        yield current, given_up
        last = current
        current, what = relax_one(current, soft_taints_exist=soft_taints_exist)
        given_up = (*given_up, what)
    for term in (rules.terms or ())[:-1]:
        yield replace(last, terms=(term,)), given_up[:-1]


def relax_one(rules: Rules, *, soft_taints_exist: bool) -> tuple[Rules | None, str]:
    """The rules with the next thing given up, and its name; None when nothing is left to give up."""
    if rules.terms and len(rules.terms) > 1:
        return replace(rules, terms=rules.terms[1:]), OTHER_TERM
    if rules.preferred_affinity:
        return replace(rules, preferred_affinity=rules.preferred_affinity[1:]), "preferred pod affinity"
    if rules.preferred_anti:
        return replace(rules, preferred_anti=rules.preferred_anti[1:]), "preferred pod anti-affinity"
    if rules.preferred_node:
        return replace(rules, preferred_node=rules.preferred_node[1:]), "preferred node affinity"
    if rules.preferred_spread:
        # The list is consumed from its end towards its start after the first: the field swaps with the last.
        head, *rest = rules.preferred_spread
        kept = (rest[-1], *rest[:-1]) if rest else ()
        return replace(rules, preferred_spread=tuple(kept)), f"topology spread on {head.topology_key}"
    if rules.soft_taints and soft_taints_exist:
        return replace(rules, soft_taints=False), "PreferNoSchedule taints"
    return None, ""
