"""A pool's rules and a pod's, one by one, each as a mask over all that the pool's provider sells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dovetail.explain import words
from dovetail.explain.grouping import refused, refusing
from dovetail.explain.miss import Change, Miss, Offer
from dovetail.explain.wanted import Wanted, either, label_change
from dovetail.model import labels
from dovetail.model.arrays import ENDLESS, Amounts, Floats, Mask
from dovetail.model.daemons import Daemon
from dovetail.model.label_values import Requirement
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirements
from dovetail.model.resources import TYPO_FROM
from dovetail.model.taints import HARD_EFFECTS, taint_text, tolerates
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.pool_table import NODES, PoolTable, reserve

# A pool's own requirements are what its owner meant: the nearest miss is looked for within them first.
_POOL_WEIGHT = 4.0
_WORTH_SAYING = 0.25  # a pod that asks for four times what there is is not helped by asking for less
_FRESH = "a new node"  # the hostname of a node to be bought


@dataclass(frozen=True, slots=True)
class Criterion:
    """One rule. `holds` (C,) says which columns meet it, `weight` (C,) how much a miss there counts."""

    holds: Mask
    weight: Floats
    miss: Callable[[int], Miss]  # for a column that does not


class PoolView:
    """One pool with everything its provider sells, what is sold out and what it does not allow included."""

    def __init__(self, instance: Instance, index: int) -> None:
        self.instance = instance
        self.index = index
        self.pool = instance.tables[index].pool
        self.base = instance.tables[index].base
        self.table = PoolTable(_unbound(self.pool), index, instance.axis, instance.problem.extra(self.pool))
        # Labels that the pool sets are known of every column: what follows from them is not the same for all.
        self.table.base, self.table.known = self.base, {}
        daemons = [Daemon(item, instance.axis) for item in instance.problem.daemonsets]
        self.daemons, _ = reserve(self.table, daemons, instance.well_known)
        self.table.reserve(self.daemons)
        self.own = self.table.mask(self.base)
        self.capacity: Amounts = self.table.capacity[self.table.column_type]
        self._available = np.array(
            [
                item.available
                for kind in self.pool.instance_types
                for item in kind.offerings
                if item.capacity_type != labels.RESERVED or item.reservation_capacity > 0
            ],
            dtype=np.bool_,
        )
        limits, used = self.pool.limits or {}, self.pool.usage
        self._remaining = {name: limits[name] - used.get(name, 0) for name in sorted(limits)}

    def name(self, column: int) -> str:
        """The instance type of a column."""
        return self.table.types[int(self.table.column_type[column])].name

    def priced(self, column: int) -> bool:
        """True iff a price is known: what is not sold at all has none."""
        return self.table.offerings[column].price > 0

    def offer(self, column: int) -> Offer:
        """A column as it is sold."""
        sold, price = self.table.offerings[column], int(self.table.price[column])
        return Offer(self.name(column), sold.zone, sold.capacity_type, price, sold.estimated)

    def criteria(self, pod_class: PodClass, wanted: Wanted) -> Iterator[Criterion]:
        """Every rule about a pod of that pod class on a new node."""
        for taint in self.pool.taints:
            if taint.effect in HARD_EFFECTS and not any(
                tolerates(item, taint) for item in pod_class.sample.spec.tolerations
            ):
                text = taint_text(taint)
                change = Change("tolerate", f"tolerate {text}", taint.key, taint.value, effect=taint.effect)
                yield self._every(Miss("taint", taint.key, f"taint {text} is not tolerated", change))
        yield from self.node_rules(pod_class.vector, wanted)
        if not self.instance.free_of_ports(self.index, pod_class.ports):
            yield self._every(self._ports_miss(pod_class))
        yield from self._topology(pod_class)

    def node_rules(self, vector: Amounts, wanted: Wanted) -> Iterator[Criterion]:
        """Every rule about a node as a whole that is to hold so much, and to have these labels."""
        yield from self._limits()
        yield from self._commons()
        for item in self.base:
            holds = self.table.mask(Requirements.of((item,)))
            if not holds.all():
                yield Criterion(holds, np.full(len(holds), _POOL_WEIGHT), partial(self._own_miss, item))
        for item in wanted.labels:
            yield self._label(item, wanted, "label")
        for item in wanted.volumes:
            yield self._label(item, wanted, "volume")
        yield from self._resources(vector, wanted.who)
        yield Criterion(self._available, np.ones(len(self._available)), self._sold_out)

    def _every(self, miss: Miss) -> Criterion:
        """A rule that no column meets."""
        size = len(self.table.offerings)
        return Criterion(np.zeros(size, dtype=np.bool_), np.ones(size), lambda _: miss)

    def _limits(self) -> Iterator[Criterion]:
        for name, rest in self._remaining.items():
            limit = (self.pool.limits or {})[name]
            if name != NODES:
                sizes = [kind.capacity.get(name, 0) for kind in self.table.types]
                taken = np.array(sizes, dtype=np.int64)[self.table.column_type]
                miss = partial(self._limit_miss, name, limit, rest, taken)
                yield Criterion(taken <= rest, 1 + _short(taken, min(max(rest, 0), ENDLESS)), miss)
            elif rest < 1:
                change = self._raise(name, limit + 1 - rest, str(limit + 1 - rest))
                text = f"limit of {limit} nodes: none left"
                yield self._every(Miss("limit", name, text, change))

    def _commons(self) -> Iterator[Criterion]:
        """What nodes of several pools draw on together: shared limits, quotas of the account."""
        problem, named = self.instance.problem, dict(self.pool.shared)
        most = {
            limit.quota(name): each for limit in problem.options.shared_limits for name, each in limit.limits
        }
        for quota, taken in sorted(self.table.draws.items()):
            rest = problem.commons.get(quota, ENDLESS)
            if (taken > rest).any():
                miss = partial(self._common_miss, quota, named.get(quota, quota), most.get(quota), taken)
                yield Criterion(taken <= rest, 1 + _short(taken, max(rest, 0)), miss)

    def _common_miss(self, quota: str, name: str, most: int | None, taken: Amounts, column: int) -> Miss:
        rest, need = self.instance.problem.commons[quota], int(taken[column])
        left = f"{words.bare(name, rest)} left, {self.name(column)} takes {words.bare(name, need)}"
        if most is None:
            return Miss("quota", quota, f"{quota}: {left}")
        least = most + need - rest
        shown = words.bare(name, least, up=True)
        change = Change("shared-limit", f"raise {quota} to {shown}", quota, amount=need - rest)
        return Miss("limit", name, f"{quota} of {words.bare(name, most)}: {left}", change)

    def _limit_miss(self, name: str, limit: int, rest: int, taken: Amounts, column: int) -> Miss:
        need = int(taken[column])
        text = (
            f"limit of {words.amount(name, limit)}: {_left(name, limit, rest)}, "
            f"{self.name(column)} takes {words.bare(name, need)}"
        )
        least = limit + need - rest
        return Miss("limit", name, text, self._raise(name, least, words.bare(name, least, up=True)))

    def _raise(self, name: str, least: int, shown: str) -> Change:
        order = f"raise the limit {name} of NodePool {self.pool.name} to {shown}"
        return Change("limit", order, name=name, pool=self.pool.name, amount=least)

    def _own_miss(self, item: Requirement, column: int) -> Miss:
        there = self._value(item.key, column)
        text = f"the pool wants {words.demand(item)}, {self.name(column)} has {there}"
        if item.key == labels.INSTANCE_TYPE:
            text = f"the pool does not allow {there}"
        order = f"let NodePool {self.pool.name} buy {words.label(item.key)} {there}"
        change = Change("pool-label", order, item.key, there, self.pool.name) if there != "none" else None
        return Miss("pool", item.key, text, change)

    def _label(self, item: Requirement, wanted: Wanted, rule: str) -> Criterion:
        key, change = item.key, label_change(item) if rule == "label" else None
        who = "its volume needs" if rule == "volume" else wanted.who
        here = self.base.by_key.get(key)
        if wanted.contradicts(item):
            text = f"what it asks of {words.label(key)} contradicts itself"
            return self._every(Miss(rule, key, text, either(item) if change else None))
        if here is None and key not in self.instance.well_known and wanted.needs(item):
            mismatch = self.base.compatible(Requirements.of((item,)), self.instance.well_known)
            hint = mismatch.partition(' (typo of "')[2].partition('"')[0]
            meant = f"; did you mean {hint}?" if hint else ""
            return self._every(Miss(rule, key, f'no node of the pool has the label "{key}"{meant}', change))
        if here is not None and not self.base.overlaps(Requirements.of((item,))):
            if not item.complement and not item.values:
                text = f"{who} nodes without the label {key}, the pool's have it"
            elif rule == "label" and not item.complement and len(item.values) == 1:
                text = f"{words.demand(item)} is not in the pool, which allows {words.values(here)}"
            else:
                text = f"{who} {words.demand(item)}, the pool allows {words.values(here)}"
            return self._every(Miss(rule, key, text, change))
        miss = Miss(rule, key, words.demand(item), change)
        both = item if here is None else here.intersection(item)
        holds = self.table.mask(Requirements.of((both,)))
        return Criterion(holds, np.ones(len(holds)), partial(self._label_miss, who, miss, holds))

    def _label_miss(self, who: str, miss: Miss, holds: Mask, column: int) -> Miss:
        """`miss` has the demand for its text, which becomes what there is instead."""
        if (holds & self.own).any():
            there = f"{self.name(column)} has {self._value(miss.name, column)}"
        else:
            found = {self._value(miss.name, each) for each in np.flatnonzero(self.own).tolist()}
            there = f"the pool can buy {words.listed(sorted(found))}"
        return replace(miss, text=f"{who} {miss.text}, {there}")

    def _value(self, key: str, column: int) -> str:
        return self.table.domains(key)[column] or "none"

    def _ports_miss(self, pod_class: PodClass) -> Miss:
        ports = words.listed(str(port.port) for port in pod_class.ports)
        text = f"a daemon of the pool's nodes holds one of its host ports ({ports})"
        return Miss("ports", ports, text, Change("ports", "use no host port"))

    def _resources(self, vector: Amounts, who: str) -> Iterator[Criterion]:
        for row, need in enumerate(vector.tolist()):
            if need:
                capacity: Amounts = self.capacity[:, row]
                miss = partial(self._resource_miss, who, row, need)
                yield Criterion(capacity >= need, 1 + _short(np.full(len(capacity), need), capacity), miss)

    def _resource_miss(self, who: str, row: int, need: int, column: int) -> Miss:
        name = self.instance.axis.names[row]
        have, most = int(self.capacity[column, row]), int(np.max(self.capacity[self.own, row], initial=0))
        if most <= 0:
            return Miss("resource", name, f"{who} {words.amount(name, need)}, no type of the pool has any")
        which = f"the largest allowed type, {self.name(column)}," if have == most else self.name(column)
        text = (
            f"needs {words.bare(name, need - max(have, 0), up=True)} more {words.resource(name)} "
            f"than {which} has for pods ({words.bare(name, need)} of {words.bare(name, max(have, 0))})"
        )
        daemons = int(self.daemons[self.table.column_type[column], row])
        if have < need <= have + daemons:
            text += f"; daemons take {words.bare(name, daemons)} there"
        if name == "cpu" and need >= TYPO_FROM:
            text += " (m and M mixed up?)"
        least = words.rounded_down(name, have)
        order = f"request at most {words.amount(name, least)}"
        helpful = least >= need * _WORTH_SAYING
        return Miss("resource", name, text, Change("request", order, name, amount=least) if helpful else None)

    def _sold_out(self, column: int) -> Miss:
        offering = self.table.offerings[column]
        name = f"{offering.capacity_type} {self.name(column)}"
        text = f"{name} cannot be had in {offering.zone} now"
        if offering.price == 0:
            text = f"{name} is not bought, as its price is unknown in {offering.zone}"
        return Miss("offer", self.name(column), text)

    def _topology(self, pod_class: PodClass) -> Iterator[Criterion]:
        owned = pod_class.levels[-1].owned if pod_class.levels else ()
        for index in dict.fromkeys((*owned, *pod_class.matching)):
            group = self.instance.topology.groups[index]
            roles = (index in owned, index in pod_class.matching)
            domains = self._domains(group.id.key)
            allowed = {each: not refused(group, each, roles) for each in dict.fromkeys(domains)}
            holds = np.array([allowed[each] for each in domains], dtype=np.bool_)
            if not holds.all():
                miss = partial(self._topology_miss, index, roles, domains)
                yield Criterion(holds, np.ones(len(holds)), miss)

    def _topology_miss(self, index: int, roles: tuple[bool, bool], domains: list[str], column: int) -> Miss:
        return refusing(self.instance.topology.groups[index], domains[column], roles)

    def _domains(self, key: str) -> list[str]:
        """Per column the domain that a new node would be in."""
        if key == labels.HOSTNAME:
            return [_FRESH] * len(self.table.offerings)
        return self.table.domains(key)


def _unbound(pool: Pool) -> Pool:
    """The pool without requirements, and nothing sold out."""
    return replace(
        pool,
        requirements=Requirements(),
        instance_types=tuple(
            replace(kind, offerings=tuple(replace(item, available=True) for item in kind.offerings))
            for kind in pool.instance_types
        ),
    )


def _left(name: str, limit: int, rest: int) -> str:
    if rest >= 0:
        return f"{words.bare(name, rest)} left"
    return f"{words.bare(name, limit - rest)} in use already"


def _short(need: Amounts, capacity: Amounts | int) -> Floats:
    """The share of what is needed that is not there, 0 to 1, shape (C,)."""
    missing = np.clip(need - np.maximum(capacity, 0), 0, None)
    share: Floats = missing / np.maximum(need, 1)
    return share


def distances(rules: list[Criterion]) -> Floats:
    """How far each column is from meeting all of them, shape (C,); 0 where it does."""
    total: Floats = np.sum([np.where(rule.holds, 0.0, rule.weight) for rule in rules], axis=0)
    return total
