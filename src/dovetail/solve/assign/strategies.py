"""How places are picked where rules leave a choice; what comes of it shows only once nodes are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.model.labels import HOSTNAME
from dovetail.solve.assign.items import Item
from dovetail.solve.assign.topology_rules import matters
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.topology import AFFINITY, Pins

_FAVOURED = 4  # domains that are tried


@dataclass(frozen=True, slots=True)
class Target:
    """So many pods of a pod class are best on one existing node (`row`), or on new ones with these labels."""

    pods: int
    row: int = -1
    domains: Pins = ()


@dataclass(frozen=True, slots=True)
class Strategy:
    """By default pods go where they cost least; evenly only as far as a spread of theirs demands it."""

    even: bool = False  # as even as can be, also where only spreads of other pods count them
    favoured: str = ""  # a domain that is picked wherever it may be, '' for none
    roomy: bool = False  # nodes that exist take whom others must be near only if these fit there as well
    apart: bool = False  # pods that others must be near go to different hosts as long as there are any
    plain: bool = False  # all preferences are given up from the start
    seen: bool = False  # spreads look at nodes that are there, and not at those that could be bought
    first: tuple[
        int, ...
    ] = ()  # pod classes whose turn comes before all others but those that they must be near
    ahead: bool = False  # before those as well
    anchors: bool = False  # of pods that others want in their zone the first show where, the rest are free
    targets: Mapping[int, tuple[Target, ...]] = field(
        default_factory=dict
    )  # per pod class; followed if legal


def turns(instance: Instance, strategy: Strategy) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """(pod class, pod) pairs: those who come first, and those whom the targets know no place for."""
    first: list[tuple[int, str]] = []
    last: list[tuple[int, str]] = []
    for pod_class in instance.pod_classes:
        targets = strategy.targets.get(pod_class.index)
        known = sum(target.pods for target in targets) if targets else len(pod_class.pods)
        first += [(pod_class.index, name) for name in pod_class.pods[:known]]
        last += [(pod_class.index, name) for name in pod_class.pods[known:]]
    return first, last


def fuller(instance: Instance, left: tuple[int, ...]) -> Iterator[Strategy]:
    """What is worth a try where pods of these pod classes were left over that could be placed alone."""
    groups = instance.topology.groups
    yield Strategy(first=left)
    if any(groups[group].id.kind == AFFINITY for index in left for group in _owned(instance, index)):
        yield Strategy(first=left, ahead=True)
    tied = any(group.id.kind == AFFINITY and group.id.key == HOSTNAME for group in groups)
    soft = any(level.lost for pod_class in instance.pod_classes for level in pod_class.levels)
    if tied:
        yield Strategy(roomy=True)
        yield Strategy(apart=True)
    if soft:
        yield Strategy(plain=True)
    if tied and soft:
        yield Strategy(roomy=True, plain=True)
    for key in sorted({group.id.key for group in instance.topology.groups} - {HOSTNAME}):
        values = {instance.nodes.domain(row, key) for row in range(len(instance.nodes.nodes))}
        for table in instance.tables:
            every = table.domains(key)
            values.update(every[column] for column in np.flatnonzero(table.own).tolist())
        for value in sorted(values - {""})[:_FAVOURED]:
            yield Strategy(favoured=value)
            yield Strategy(favoured=value, first=left)


def _owned(instance: Instance, pod_class: int) -> tuple[int, ...]:
    return tuple(group for level in instance.pod_classes[pod_class].levels[:1] for group in level.owned)


def others(instance: Instance, items: Sequence[Item]) -> Iterator[Strategy]:
    """What else is worth a try after these items, whose domains were picked by default."""
    if matters(instance):
        yield Strategy(seen=True)
    keys = sorted({key for item in items for key, _ in item.pins})
    led = _led(instance)
    if led:
        yield Strategy(anchors=True)
    if keys:
        yield Strategy(even=True)
    for key in keys:
        weight: dict[str, int] = {}
        for table in instance.tables:
            values = table.domains(key)
            weight.update({values[column]: 0 for column in np.flatnonzero(table.own).tolist()})
        for item in items:
            value = dict(item.pins).get(key, "")
            weight[value] = weight.get(value, 0) + len(item.bundles)
        weight.pop("", None)
        if len(weight) > 1:
            for value in sorted(weight, key=lambda value: (-weight[value], value))[:_FAVOURED]:
                if led:
                    yield Strategy(favoured=value, anchors=True)
                yield Strategy(favoured=value)


def _led(instance: Instance) -> bool:
    """True iff there are pods that others want in their zone or the like."""
    leading = {index for index, group in enumerate(instance.topology.groups) if group.leads}
    return any(
        not leading.isdisjoint(pod_class.matching) for pod_class in instance.pod_classes if pod_class.involved
    )
