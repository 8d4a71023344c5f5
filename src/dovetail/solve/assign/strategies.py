"""How places are picked where rules leave a choice; what comes of it shows only once nodes are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.model.arrays import UNLIMITED
from dovetail.model.labels import HOSTNAME
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.topology import AFFINITY, SPREAD, DomainOf, Pins

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

    favoured: str = ""  # a domain that is picked wherever it may be, '' for none
    roomy: bool = False  # nodes that exist take pods that others must be near only if these fit there as well
    apart: bool = False  # pods that others must be near go to different hosts as long as there are any
    scattered: bool = False  # pods that others must be near go to as many domains as a spread of these wants
    plain: bool = False  # all preferences are given up from the start
    seen: bool = False  # spreads look at nodes that are there, and not at those that could be bought
    # Pod classes whose turn comes before all others but those that they must be near.
    first: tuple[int, ...] = ()
    ahead: bool = False  # before those as well
    targets: Mapping[int, tuple[Target, ...]] = field(default_factory=dict)  # per pod class, if legal


def turns(instance: Instance, strategy: Strategy) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """(pod class, pod) pairs: those that come first, and those for which the targets have no place."""
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
        yield Strategy(scattered=True)
        yield Strategy(scattered=True, first=left)
    tied = any(group.id.kind == AFFINITY and group.id.key == HOSTNAME for group in groups)
    soft = any(level.lost for pod_class in instance.pod_classes for level in pod_class.levels)
    if tied:
        yield Strategy(roomy=True)
        yield Strategy(apart=True)
        yield Strategy(apart=True, scattered=True)
    if soft:
        yield Strategy(plain=True)
    if tied and soft:
        yield Strategy(roomy=True, plain=True)
    for key in sorted({group.id.key for group in instance.topology.groups} - {HOSTNAME}):
        values = {*instance.nodes.column(key)}
        for table in instance.tables:
            every = table.domains(key)
            values.update(every[column] for column in np.flatnonzero(table.own).tolist())
        for value in sorted(values - {""})[:_FAVOURED]:
            yield Strategy(favoured=value)
            yield Strategy(favoured=value, first=left)


def _owned(instance: Instance, pod_class: int) -> tuple[int, ...]:
    return tuple(group for level in instance.pod_classes[pod_class].levels[:1] for group in level.owned)


class Scatter:
    """Where pods go first if others must be near them: to domains that a spread of the others still lacks.

    A spread over zones with an affinity to pods that are all in one zone leaves pods over, however much may
    be bought elsewhere.
    """

    def __init__(self, instance: Instance) -> None:
        groups = instance.topology.groups
        self._instance = instance
        # Per affinity, the labels that pods with it are spread over, with these pods.
        self._followers: dict[int, dict[str, list[PodClass]]] = {}
        for pod_class in instance.pod_classes:
            owned = _owned(instance, pod_class.index)
            keys = {groups[index].id.key for index in owned if groups[index].id.kind == SPREAD} - {HOSTNAME}
            for index in owned if keys else ():
                if groups[index].id.kind == AFFINITY:
                    for key in sorted(keys):
                        self._followers.setdefault(index, {}).setdefault(key, []).append(pod_class)
        self._counted: dict[tuple[int, str], dict[str, int]] = {}  # pods per value, by affinity and label
        self._useless: dict[tuple[int, int, str], Counter[str]] = {}

    def leads(self, pod_class: PodClass) -> bool:
        """True iff such pods should be scattered."""
        return any(index in self._followers for index in pod_class.matching)

    def crowd(self, pod_class: PodClass, domain_of: DomainOf) -> int:
        """How many such pods are there already; very many where those that must be near them cannot be."""
        most = 0
        for index in pod_class.matching:
            for key in self._followers.get(index, ()):
                domain = domain_of(key)
                there = self._counted.get((index, key), {}).get(domain, 0)
                most = max(most, there + UNLIMITED * self._kept_out(pod_class, index, key)[domain])
        return most

    def placed(self, pod_class: PodClass, domain_of: DomainOf, pods: int) -> None:
        """So many more are there."""
        for index in pod_class.matching:
            for key in self._followers.get(index, ()):
                counted = self._counted.setdefault((index, key), {})
                counted[domain_of(key)] = counted.get(domain_of(key), 0) + pods

    def _kept_out(self, pod_class: PodClass, index: int, key: str) -> Counter[str]:
        """Per domain, how many classes of followers no new node there holds, beside the pod if they must."""
        known = self._useless.get((pod_class.index, index, key))
        if known is None:
            beside = pod_class.vector if self._instance.topology.groups[index].id.key == HOSTNAME else None
            every = self._instance.reachable(pod_class, key)
            known = self._useless[pod_class.index, index, key] = Counter()
            for follower in self._followers[index][key]:
                known.update(set(every).difference(self._instance.reachable(follower, key, beside)))
        return known
