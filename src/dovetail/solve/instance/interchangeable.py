"""Pod classes that may change places: they differ in nothing but whose pods their own rules count.

Many Deployments of one size, each spread over zones by itself, are such classes. Whoever exchanges two of
their pods in a plan has another plan for as much money, so a program may look at the pods of all of them
together: each rule, added up over the classes, is a rule about their sum, which allows no less than before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dovetail.model.labels import HOSTNAME
from dovetail.solve.instance.pod_classes import Level, PodClass
from dovetail.solve.instance.topology import AFFINITY, ANTI, APART, SPREAD, Group, GroupKey

# Per group what it holds before anything is placed, see `Instance.before`.
_Before = Sequence[tuple[Mapping[str, int], Mapping[str, int], Mapping[str, None], bool]]


def interchangeable(
    pod_classes: Sequence[PodClass], groups: Sequence[Group], before: _Before, domains: Mapping[str, int]
) -> tuple[tuple[int, ...], frozenset[int]]:
    """Per pod class the first of those that it may change places with, as long as nothing is given up; and
    their rules that follow from others of them, or are about one pod.

    `domains`: how many values nodes may have of each label. Takes as long as rules are many.
    """
    concerned = [frozenset(one.matching).union(*(level.owned for level in one.levels)) for one in pod_classes]
    numbers = Counter(index for some in concerned for index in some)
    found: dict[object, int] = {}
    first, idle = [], set[int]()
    for one, some in zip(pod_classes, concerned, strict=True):
        alone = bool(one.levels) and not one.ports and not one.volumes
        for index in some if alone else ():
            held, holders, _, closed = before[index]
            known = closed or any(held.values()) or any(holders.values())
            alone = alone and numbers[index] == 1 and groups[index].id.kind != AFFINITY and not known
        key: object = one.index
        if alone:
            binding = _binding(one, {index: groups[index].id for index in some}, domains)
            told = Counter((_of_any(groups[index].id), index in one.matching) for index in binding)
            demands = _demands(one.levels[0]), _demands(one.levels[-1])
            key = one.vector.tobytes(), one.required, frozenset(told.items()), demands
            idle |= some - binding
        first.append(found.setdefault(key, one.index))
    return tuple(first), frozenset(idle)


def _demands(level: Level) -> tuple[object, ...]:
    """What a level asks of a node, whoever is on it."""
    return level.alternatives, level.rules.tolerations, level.rules.soft_taints, level.rules.needed()


def _of_any(rule: GroupKey) -> GroupKey:
    """The rule whoever it counts. Pods that must keep off each other do as those that prefer to."""
    return replace(rule, matchers=(), kind=ANTI if rule.kind == APART else rule.kind)


def _binding(one: PodClass, rules: Mapping[int, GroupKey], domains: Mapping[str, int]) -> frozenset[int]:
    """Those that a plan has to know of; pods of which each domain has one at most share no host either."""
    owned = one.levels[0].owned if len(one.pods) > 1 else ()
    apart = any(
        rules[index].key != HOSTNAME
        and index in one.matching
        and len(one.pods) <= domains.get(rules[index].key, 0)
        and (rules[index].kind != SPREAD or rules[index].max_skew == 1)
        for index in owned
    )
    return frozenset(index for index in owned if not (apart and rules[index].key == HOSTNAME))
