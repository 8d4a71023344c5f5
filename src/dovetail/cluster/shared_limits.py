"""Limits that several NodePools share: the value of --shared-limits, and what machines take of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core_schema import core_schema
from dovetail.api.karpenter.common_schema import RESOURCES
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import LabelSelector, Part
from dovetail.api.schema import Schema
from dovetail.base.errors import InputError, InputErrors
from dovetail.cluster.nodes import Machine, capacity
from dovetail.model import labels
from dovetail.model.arrays import ENDLESS
from dovetail.model.offering import InstanceType, Offering, by_name
from dovetail.model.requirement import Requirements
from dovetail.model.resources import CPU, Resources
from dovetail.model.selector import Selector
from dovetail.model.shared_limits import HOURLY_COST, NODES, Drawn, SharedLimit, drawn_by, takes
from dovetail.reading import Located
from dovetail.reading.refusals import refusal
from dovetail.reading.settings import read_setting
from dovetail.units.money import DEAREST, NANO_DOLLARS
from dovetail.units.quantity import Quantity

_EXAMPLE = "limits: [{name: team-a, nodePools: [a, b], limits: {cpu: 400, hourly-cost: 60}}]"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _Limit(Part, frozen=True, kw_only=True):
    name: str
    limits: dict[str, Quantity]
    node_pools: tuple[str, ...] = ()
    node_pool_selector: LabelSelector | None = None


class _Limits(Part, frozen=True, kw_only=True):
    limits: tuple[_Limit, ...] = ()


def read_shared_limits(text: str, source: str) -> tuple[SharedLimit, ...]:
    """The limits, none for an empty text. Raises InputError with line, field and remedy, named after
    `source`.
    """
    found = read_setting(text, source, _schema(), holds="limits", example=_EXAMPLE, mend=_with_numbers)
    if found is None:
        return ()
    document, located = found
    listed = decode(document, _Limits).limits
    if not listed:
        raise refusal(located, "limits", "no limit is listed", "leave the setting out, or list one")
    if wrong := tuple(_faults(listed, located)):
        raise InputErrors.of(wrong)
    return tuple(
        SharedLimit(
            one.name,
            tuple(sorted((name, _amount(name, quantity)) for name, quantity in one.limits.items())),
            one.node_pools,
            Selector.read(one.node_pool_selector) if one.node_pool_selector is not None else None,
        )
        for one in listed
    )


def _schema() -> Schema:
    deployment = core_schema("apps/v1", "Deployment")
    assert deployment is not None, "deployments have a selector of labels"
    text = Schema(type="string")
    one = Schema(
        type="object",
        properties={
            "name": text,
            "nodePools": Schema(type="array", items=text),
            "nodePoolSelector": deployment.properties["spec"].properties["selector"],
            "limits": RESOURCES,
        },
        required=("name", "limits"),
    )
    listed = Schema(type="array", items=one)
    return Schema(type="object", properties={"limits": listed}, required=("limits",))


def _with_numbers(document: Any) -> Any:
    """Amounts of dollars may be written as 59.5 without quotes, and as $60."""
    listed = document.get("limits")
    for one in listed if isinstance(listed, list) else ():
        given = one.get("limits") if isinstance(one, dict) else None
        if isinstance(given, dict):
            one["limits"] = {name: _plain(name, amount) for name, amount in given.items()}
    return document


def _plain(name: str, amount: Any) -> Any:
    if isinstance(amount, float):
        return repr(amount)
    return amount.strip().removeprefix("$") if name == HOURLY_COST and isinstance(amount, str) else amount


def _faults(listed: Sequence[_Limit], located: Located) -> Iterator[InputError]:
    seen: dict[str, int] = {}
    for index, one in enumerate(listed):
        path = f"limits[{index}]"
        if not _NAME.fullmatch(one.name):
            remedy = "give lower-case letters, digits and -, 63 at most, such as team-a"
            yield refusal(located, f"{path}.name", f"{one.name!r} is no name of a limit", remedy)
        elif one.name in seen:
            text = f"limits[{seen[one.name]}] has the name {one.name} as well"
            yield refusal(located, f"{path}.name", text, "give each its own: events and metrics name it")
        seen.setdefault(one.name, index)
        if one.node_pools and one.node_pool_selector is not None:
            text = "nodePools and nodePoolSelector are both given"
            yield refusal(
                located, f"{path}.nodePoolSelector", text, "keep one; without either it is all NodePools"
            )
        if not one.limits:
            yield refusal(
                located, f"{path}.limits", "nothing is limited", "name a resource, such as cpu: 400"
            )
        for name, quantity in one.limits.items():
            if quantity.nanos < 0:
                yield refusal(located, f"{path}.limits.{name}", f"{quantity} is below zero", "give 0 or more")
            elif name == HOURLY_COST and quantity.nanos > DEAREST * NANO_DOLLARS:
                text = f"{quantity} is more than ${DEAREST:,} an hour"
                yield refusal(located, f"{path}.limits.{name}", text, "give dollars per hour, such as 60")


def _amount(name: str, quantity: Quantity) -> int:
    if name == HOURLY_COST:
        return quantity.nanos
    return min(ENDLESS, quantity.milli() if name == CPU else quantity.value())


# What a pool may buy and what the volumes of a node of it cost, by the pool's name.
Sold = Callable[[str], tuple[tuple[InstanceType, ...], int]]


@dataclass(frozen=True, slots=True)
class Way:
    """As what a claim may come up, and what it takes then, by quota."""

    kind: InstanceType
    offering: Offering
    takes: Resources


class Counting:
    """Counts machines against limits. `pools` are all NodePools, whether they may buy or not."""

    def __init__(self, limits: Sequence[SharedLimit], pools: Iterable[NodePool], sold: Sold) -> None:
        self.limits = tuple(limits)
        self._labels = {pool.metadata.name: pool.metadata.labels for pool in pools}
        self._sold = sold
        self._drawn: dict[str, Drawn] = {}
        self._coming: dict[tuple[object, ...], dict[str, int]] = {}

    def drawn(self, pool: str) -> Drawn:
        """On which quotas the nodes of a pool draw."""
        if pool not in self._drawn:
            self._drawn[pool] = drawn_by(self.limits, pool, self._labels.get(pool, {}))
        return self._drawn[pool]

    def used(self, machines: Iterable[Machine]) -> dict[str, int]:
        """By quota what they take together."""
        total: dict[str, int] = {}
        for machine in machines:
            if machine.pool and self.drawn(machine.pool):
                for quota, amount in self._of(machine).items():
                    total[quota] = total.get(quota, 0) + amount
        return total

    def ways(self, pool: str, wanted: Requirements, listed: Sequence[str] = ()) -> list[Way]:
        """As what such a claim may come up. Whether that can be launched now does not count: it may be so
        again by then.
        """
        types, volumes = self._sold(pool)
        known, drawn = by_name(types), self.drawn(pool)
        named = wanted.get(labels.INSTANCE_TYPE)
        names = listed or known.keys()
        zones, sold_as = wanted.get(labels.ZONE), wanted.get(labels.CAPACITY_TYPE)
        found = []
        for name in names:
            kind = known.get(name) if named.has(name) else None
            # A claim that lists its types has had them chosen; without a list the labels of types count.
            if kind is None or (not listed and kind.requirements.intersects(wanted)):
                continue
            for one in kind.offerings:
                if zones.has(one.zone) and sold_as.has(one.capacity_type):
                    found.append(Way(kind, one, takes(kind, one, drawn, volumes)))
        return found

    def _of(self, machine: Machine) -> Resources:
        drawn = self.drawn(machine.pool)
        has = capacity(machine)
        claim = machine.claim
        if machine.node is None and claim is not None and not has:
            return self._worst(machine.pool, claim)
        found = {
            quota: 1 if name == NODES else has.get(name, 0) for quota, name in drawn if name != HOURLY_COST
        }
        money = [quota for quota, name in drawn if name == HOURLY_COST]
        return {**found, **dict.fromkeys(money, self._price(machine))} if money else found

    def _worst(self, pool: str, claim: NodeClaim) -> Resources:
        """The most that a claim may come up as: the cloud has not said which it is."""
        key = pool, claim.spec.requirements
        if key not in self._coming:
            wanted = Requirements.read(claim.spec.requirements)
            worst = {quota: 1 for quota, name in self.drawn(pool) if name == NODES}
            for way in self.ways(pool, wanted):
                for quota, amount in way.takes.items():
                    worst[quota] = max(amount, worst.get(quota, 0))
            self._coming[key] = worst
        return self._coming[key]

    def _price(self, machine: Machine) -> int:
        """What the machine costs now; the dearest of its type where the offering is sold no more, and nothing
        but its volumes where the type is not.
        """
        types, volumes = self._sold(machine.pool)
        subjects = (one for one in (machine.node, machine.claim) if one is not None)
        carried = {key: value for one in subjects for key, value in one.metadata.labels.items()}
        kind = by_name(types).get(carried.get(labels.INSTANCE_TYPE, ""))
        at = carried.get(labels.ZONE), labels.capacity_type(carried)
        offerings = kind.offerings if kind is not None else ()
        exact = [one.asked for one in offerings if (one.zone, one.capacity_type) == at]
        return max(exact or [one.asked for one in offerings], default=0) + volumes
