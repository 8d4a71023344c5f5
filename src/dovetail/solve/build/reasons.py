"""Why a pod is left over: per pool the first rule that fails, in the words that users know."""

from __future__ import annotations

import json

from dovetail.model.arrays import Mask
from dovetail.model.matching import untolerated
from dovetail.model.offering import Offering, affordable
from dovetail.model.plan import ALL_FULL, LIMITED, NODES_LIMITED, ONE_FULL, USED_UP, Unschedulable
from dovetail.model.requirement import Requirements
from dovetail.model.resources import TYPO_FROM, quantities
from dovetail.model.taints import taint_text
from dovetail.solve.instance.instance import Instance, lookup
from dovetail.solve.instance.limits import Limits
from dovetail.solve.instance.pod_classes import PodClass
from dovetail.solve.instance.pool_table import NODES
from dovetail.solve.instance.topology import SPREAD, Group


class Explainer:
    """Answers for one instance after its plan is made. Pods of one pod class get one answer."""

    def __init__(self, instance: Instance, limits: Limits) -> None:
        self._instance = instance
        self._limits = limits
        self._known: dict[int, tuple[str, dict[str, str]]] = {}
        self._open: dict[int, bool] = {}  # per pool with limits
        self._scarce: dict[int, list[tuple[int, Offering]]] = {}  # per pool, with the number of the type

    def explain(self, pod_class: PodClass, pod: str) -> Unschedulable:
        """The pod's reasons."""
        known = self._known.get(pod_class.index)
        if known is None:
            pools = {table.pool.name: self._pool(pod_class, table.index) for table in self._instance.tables}
            reason = "; ".join(dict.fromkeys(pools.values())) or "no nodepools found"
            known = (reason, pools)
            self._known[pod_class.index] = known
        return Unschedulable(pod, *known)

    def _pool(self, pod_class: PodClass, pool: int) -> str:
        instance = self._instance
        table = instance.tables[pool]
        if not pod_class.levels:
            return "incompatible requirements, the required node affinity has no term that a node can meet"
        remaining = self._limits.remaining.get(pool)
        named = f"(NodePool={table.pool.name})"
        if remaining is not None and remaining.get(NODES, 1) < 1:
            return f"{NODES_LIMITED} {named}"
        if remaining is not None and not self._within(pool):
            return f"{LIMITED} {named}"
        if not table.own.any() and (short := self._short(pool, table.base, None)):
            return short
        if not table.own.any():
            return "nodepool requirements filtered out all available instance types"
        level = pod_class.levels[-1]
        taint = untolerated(table.pool.taints, level.rules.tolerations, soft=level.rules.soft_taints)
        if taint is not None:
            return f"did not tolerate taint (taint={taint_text(taint)})"
        wanted = level.alternatives[0]
        if error := table.base.compatible(wanted, instance.well_known):
            return f"incompatible requirements, {error}"
        if not instance.free_of_ports(pool, pod_class.ports):
            return "checking host port usage, pod hostport conflicts with existing hostport configuration"
        if refusal := self._topology(pod_class, pool, wanted):
            return refusal
        return self._types(pod_class, pool, wanted)

    def _within(self, pool: int) -> bool:
        """True iff the pool's limits allow one more node of some type."""
        if pool not in self._open:
            self._open[pool] = bool(self._limits.types(pool).any())
        return self._open[pool]

    def _topology(self, pod_class: PodClass, pool: int, wanted: Requirements) -> str:
        """The topology rule that refuses every domain the pool can offer; '' when one would do."""
        instance, level = self._instance, pod_class.levels[-1]
        keys = sorted(
            {instance.topology.groups[index].id.key for index in (*pod_class.matching, *level.owned)}
        )
        first: Group | None = None
        for place in instance.places((pool,), wanted, pod_class.vector, tuple(keys)):
            first = instance.topology.first_refusal(
                level.owned, pod_class.matching, lookup(place.pins), skip_hosts=False
            )
            if first is None:
                return ""
        return _refusal(first) if first else ""

    def _types(self, pod_class: PodClass, pool: int, wanted: Requirements) -> str:
        instance = self._instance
        table = instance.tables[pool]
        both = table.base.add(*wanted)
        meets = table.type_mask(both)
        fits = table.fits(pod_class.vector)
        offered = table.offered(both)
        text = _type_failure(bool(meets.any()), bool(fits.any()), bool(offered.any()))
        if not (meets & fits & offered).any() and (short := self._short(pool, both, meets & fits)):
            return short
        if not text:
            text = _pair_failure(meets & fits, fits & offered, meets & offered)
        if not (meets & fits & offered).any():
            amounts = instance.axis.mapping(pod_class.vector)
            if text == "no instance type has enough resources" and amounts.get("cpu", 0) >= TYPO_FROM:
                text += " (CPU request >= 1 Million, m vs M typo?)"
            asked = {name: str(quantity) for name, quantity in quantities(amounts).items()}
            return f"{text}, requirements={both}, resources={json.dumps(asked, separators=(',', ':'))}"
        if any(item.min_values for item in both):
            named = f"(NodePool={table.pool.name})"
            return f"pod didn’t schedule because NodePool couldn’t meet minValues requirements {named}"
        if pool in self._limits.remaining:
            return f"{LIMITED} (NodePool={table.pool.name})"
        return self._short(pool, both, meets & fits) or (
            "no instance type met the requirements/resources/offering tuple"
        )

    def _short(self, pool: int, both: Requirements, types: Mask | None) -> str:
        """What there is not enough left of for these types, or for any; "" if it is not that."""
        instance, table = self._instance, self._instance.tables[pool]
        left = {
            **instance.problem.commons,
            **dict(zip(instance.commons.names, self._limits.commons, strict=True)),
        }
        if pool not in self._scarce:
            every = [(number, item) for number, kind in enumerate(table.types) for item in kind.offerings]
            self._scarce[pool] = [one for one in every if one[1].available and _scarce(one[1])]
        scarce = [item for number, item in self._scarce[pool] if types is None or types[number]]
        meets = {each: both.overlaps(each) for each in {item.requirements for item in scarce}}
        found = [item for item in scarce if meets[item.requirements]]
        short = [item for item in found if item.launchable and not affordable(item, left)]
        names = {name for item in short for name, amount in item.draws if left.get(name, amount) < amount}
        if names:
            return f"{USED_UP} {', '.join(sorted(names))}"
        if all(item.launchable for item in found) or (types is not None and types[table.offered(both)].any()):
            return ""
        return ONE_FULL if len(instance.tables) > 1 else ALL_FULL


def _scarce(offering: Offering) -> bool:
    """True iff it is full, or others take of what it takes of."""
    return bool(offering.draws) or not offering.launchable


def _type_failure(meets: bool, fits: bool, offered: bool) -> str:
    """What no type does, whatever else it does, in the words for several criteria or for one; "" if none."""
    criteria = (
        (meets, "met the scheduling requirements", "met all requirements"),
        (fits, "had enough resources", "has enough resources"),
        (offered, "had a required offering", "has the required offering"),
    )
    failed = [words for met, *words in criteria if not met]
    texts = [words[len(failed) == 1] for words in failed]
    return f"no instance type {' or '.join(texts)}" if texts else ""


def _pair_failure(held: Mask, sized: Mask, found: Mask) -> str:
    """Each criterion is met by some type, but not all by one."""
    for some, two, third in (
        (held, "met the scheduling requirements and the required offering", "had the required resources"),
        (sized, "met the scheduling requirements and had enough resources,", "had a required offering"),
        (found, "had enough resources and the required offering", "met the scheduling requirements"),
    ):
        if not some.any():
            return f"no instance type which {two} {third}"
    return "no instance type met the requirements/resources/offering tuple"


def _refusal(group: Group) -> str:
    kinds = {SPREAD: "topology spread", "affinity": "pod affinity"}
    counts = ", ".join(f"{domain}:{count}" for domain, count in sorted(group.matched.items()) if domain)
    kind = kinds.get(group.id.kind, "pod anti-affinity")
    return f"unsatisfiable topology constraint for {kind}, key={group.id.key} (counts = {counts})"
