"""Rules that a bound may rely on because they are about a single node: hostname spreads, pods kept apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.solve.instance.arrays import Amounts, Mask
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.matching import port_clashes
from dovetail.solve.instance.topology import ANTI, APART, SPREAD


@dataclass(frozen=True, slots=True)
class NodeRules:
    """H rules that count pods, for S kinds: a pod takes `takes` (S, H), and a node has `most` (H,)."""

    names: tuple[str, ...]
    takes: Amounts
    most: Amounts
    conflict: Mask  # (S, S)


def node_rules(instance: Instance, kinds: Sequence[tuple[int, int]]) -> NodeRules:
    """The rules of (pod class, level) kinds that hold in whichever order pods arrive.

    Only pods that own a rule and are counted by it are bound by it for certain: others may come later, when
    none asks. A required anti-affinity works in both directions, so there either is enough.
    """
    groups = instance.topology.groups
    owned = [owned_by(instance, pod_class, level) for pod_class, level in kinds]
    matching = [frozenset(instance.pod_classes[pod_class].matching) for pod_class, _ in kinds]
    both = [mine & matched for mine, matched in zip(owned, matching, strict=True)]
    # Where limits allow no further node, hosts may be filled beyond `maxSkew` as long as they are alike.
    stuck = {
        group
        for (pod_class, level), each in zip(kinds, both, strict=True)
        if each and not endless(instance, pod_class, level)
        for group in each
    }
    hosts = sorted(
        {
            group
            for each in both
            for group in each - stuck
            if groups[group].id.kind == SPREAD and groups[group].id.key == HOSTNAME
        }
    )
    takes, capped = _capped(instance, hosts, both, matching)
    return NodeRules(
        names=tuple(f"topology spread over {HOSTNAME}" for _ in capped),
        takes=takes,
        most=np.array([groups[group].id.max_skew for group in capped], dtype=np.int64),
        conflict=_conflict(instance, kinds, owned, matching),
    )


def _capped(
    instance: Instance, hosts: list[int], both: list[frozenset[int]], matching: list[frozenset[int]]
) -> tuple[Amounts, list[int]]:
    """Which kinds a cap of pods per node is about, (S, H), and the H spreads over hosts that it is by."""
    same, groups = alike(instance, matching), instance.topology.groups
    bound: dict[tuple[int, ...], int] = {}
    owners, some = _by_group(both), set(hosts)
    for group in sorted(hosts, key=lambda group: (groups[group].id.max_skew, group)):
        kinds = tuple(sorted({kind for each in some.intersection(same[group]) for kind in owners[each]}))
        bound.setdefault(kinds, group)
    ordered = sorted(bound.items(), key=lambda item: item[1])
    takes = np.zeros((len(both), len(ordered)), dtype=np.int64)
    for column, (kinds, _) in enumerate(ordered):
        takes[list(kinds), column] = 1
    return takes, [group for _, group in ordered]


def alike(instance: Instance, matching: Sequence[Collection[int]]) -> dict[int, tuple[int, ...]]:
    """Per spread those that count the same and allow no more than it does: its owners and theirs are as one.

    Whichever of them comes last in a domain is ahead of what all these spreads see. `matching`: the groups
    that count each kind of pods that matters; spreads that count none of them are left out.
    """
    groups = instance.topology.groups
    counted: dict[int, list[int]] = {}
    for number, each in enumerate(matching):
        for index in each:
            counted.setdefault(index, []).append(number)
    found: dict[tuple[object, ...], list[int]] = {}
    for index in sorted(counted):
        one, runs = groups[index].id, tuple(sorted(instance.before[index][0].items()))
        if one.kind == SPREAD:
            found.setdefault((one.key, one.node_filter, runs, *counted[index]), []).append(index)
    return {
        index: tuple(other for other in some if groups[other].id.max_skew <= groups[index].id.max_skew)
        for some in found.values()
        for index in some
    }


def endless(instance: Instance, pod_class: int, level: int) -> bool:
    """True iff one more node can be bought for such a pod whatever else is bought."""
    free = [
        table.index for table in instance.tables if table.pool.limits is None and not instance.commons.any
    ]
    if len(free) == len(instance.tables):
        return True
    known, last = instance.pod_classes[pod_class], instance.pod_classes[pod_class].levels[level]
    return any(
        instance.suits(pool, wanted, last.rules) and bool(instance.columns(pool, wanted, known.vector).any())
        for wanted in last.alternatives
        for pool in free
    )


def owned_by(instance: Instance, pod_class: int, level: int) -> frozenset[int]:
    """The groups whose rules the pod class obeys at that level and at all before it."""
    levels = instance.pod_classes[pod_class].levels[: level + 1]
    return frozenset.intersection(*(frozenset(each.owned) for each in levels))


def _conflict(
    instance: Instance,
    kinds: Sequence[tuple[int, int]],
    owned: Sequence[frozenset[int]],
    matching: Sequence[frozenset[int]],
) -> Mask:
    result = np.zeros((len(kinds), len(kinds)), dtype=np.bool_)
    owners, counted = _by_group(owned), _by_group(matching)
    for number, mine in sorted(owners.items()):
        group = instance.topology.groups[number]
        if group.id.kind not in (ANTI, APART) or group.id.key != HOSTNAME:
            continue
        mates = counted.get(number, [])
        # Pods that merely prefer to be apart look only at those that came before them.
        if group.id.kind == APART:
            mates = [index for index in mine if number in matching[index]]
        repelling = mine if group.id.kind == ANTI else mates
        pairs = np.ix_(np.array(repelling, dtype=np.int64), np.array(mates, dtype=np.int64))
        result[pairs] = True
        result.T[pairs] = True
    result |= port_clashes([instance.pod_classes[pod_class].ports for pod_class, _ in kinds])
    return result


def _by_group(groups: Sequence[frozenset[int]]) -> dict[int, list[int]]:
    """Per group the kinds that have to do with it."""
    found: dict[int, list[int]] = {}
    for index, some in enumerate(groups):
        for number in some:
            found.setdefault(number, []).append(index)
    return found
