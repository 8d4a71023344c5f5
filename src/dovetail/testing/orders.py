"""In which ways pods can come one after the other that obey the same spreads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dovetail.model.spread import SpreadRule
from dovetail.testing.exhaustive.market import Kind

Cell = tuple[str, ...]  # a domain of each rule
Way = tuple[int, ...]  # pods in each cell

_MOST = 200  # ways to place all pods
_STATES = 1_000  # ways to place some of them


def ways(rules: Sequence[SpreadRule], cells: Sequence[Cell], pods: int, domains: Sequence[int]) -> list[Way]:
    """How they may stand in the end; empty where that would take too long to find out.

    `domains`: how many there are of each rule, whoever may be there.
    """
    states: set[Way] = {tuple(0 for _ in cells)}
    for _ in range(pods):
        states = {
            more
            for state in states
            for cell in range(len(cells))
            if _allowed(rules, cells, more := _one_more(state, cell), cell, domains)
        }
        if len(states) > _STATES:
            return []
    return sorted(states) if len(states) <= _MOST else []


def _one_more(state: Way, cell: int) -> Way:
    return (*state[:cell], state[cell] + 1, *state[cell + 1 :])


def _allowed(
    rules: Sequence[SpreadRule], cells: Sequence[Cell], state: Way, cell: int, domains: Sequence[int]
) -> bool:
    """True iff the pod that made it this state could come into the cell."""
    for number, rule in enumerate(rules):
        held: dict[str, int] = {}
        for each, count in zip(cells, state, strict=True):
            held[each[number]] = held.get(each[number], 0) + count
        least = min(held.values()) if domains[number] >= rule.min_domains else 0
        if held[cells[cell][number]] - least > rule.max_skew:
            return False
    return True


def party(kinds: Sequence[Kind], rules: Sequence[SpreadRule]) -> list[int]:
    """Kinds that obey all these rules, if each rule counts them and no other pods, on the same nodes."""
    mine = [number for number, kind in enumerate(kinds) if rules and set(rules) <= set(kind.facts.spread)]
    same = all(kinds[number].facts.node_rule == kinds[mine[0]].facts.node_rule for number in mine)
    for rule in rules:
        counted = [n for n, kind in enumerate(kinds) if rule.counts(kind.facts.namespace, kind.facts.labels)]
        if counted != mine or (rule.honor_affinity and not same):
            return []
    return mine


def cells_of(rules: Sequence[SpreadRule], labels: Mapping[int, Mapping[str, str]]) -> dict[Cell, list[int]]:
    """Sites, by their labels, that are in the same domain of each rule."""
    found: dict[Cell, list[int]] = {}
    for number, some in labels.items():
        cell = tuple(some.get(rule.key, "") for rule in rules)
        if all(cell):
            found.setdefault(cell, []).append(number)
    return found


def counting_alike(kinds: Sequence[Kind], rule: SpreadRule, owners: Sequence[int]) -> Iterable[list[int]]:
    """Those of the owners together for which the same nodes count."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for number in owners:
        facts = kinds[number].facts
        keys = tuple(sorted({item.key for item in facts.spread}))
        affinity = facts.node_rule if rule.honor_affinity else None
        taints = facts.pod.spec.tolerations if rule.honor_taints else ()
        alike.setdefault((affinity, taints, keys), []).append(number)
    return alike.values()
