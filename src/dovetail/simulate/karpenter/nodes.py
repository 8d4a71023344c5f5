"""The two kinds of node that a pod may be put on: one that exists, and one that is about to be bought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dovetail.api.core import Pod, Taint
from dovetail.api.meta import Meta
from dovetail.api.workloads import DaemonSet
from dovetail.base.memo import by_identity
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.ports import HostPort, port_error
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, fits, subtract, total
from dovetail.model.taints import PREFER_NO_SCHEDULE, untolerated
from dovetail.model.volumes import csi_volumes, volume_limit_error
from dovetail.simulate.karpenter.pods import PodData, pod_data, without_first_term
from dovetail.simulate.karpenter.topology import Topology

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
NO_TYPE = (
    "no instance type met the scheduling requirements or had enough resources or had a required offering"
)

FEW_VALUES = "minValues requirement is not met"


class Reserved(Exception):
    """Reserved capacity would do, but it is taken; the pod waits for it rather than going elsewhere."""


class Reservations:
    """What is left of reserved capacity while a plan is made."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._left: dict[str, int] = {}
        self._held: dict[str, set[str]] = {}  # by node
        for offering in (each for pool in pools for kind in pool.instance_types for each in kind.offerings):
            if offering.capacity_type == labels.RESERVED:
                known = self._left.get(offering.reservation_id, offering.reservation_capacity)
                self._left[offering.reservation_id] = min(known, offering.reservation_capacity)

    def free(self, node: str, offering: Offering) -> bool:
        """True iff the node may have an instance of it."""
        held = offering.reservation_id in self._held.get(node, ())
        return held or self._left.get(offering.reservation_id, 0) > 0

    def hold(self, node: str, wanted: set[str]) -> None:
        """The node may become any of these, and none of what it held besides."""
        held = self._held.get(node, set())
        for name in wanted - held:
            self._left[name] -= 1
        for name in held - wanted:
            self._left[name] += 1
        self._held[node] = wanted


class Types:
    """The instance types of a pool, and which of them meet what: worked out once for all plans."""

    def __init__(self, kinds: tuple[InstanceType, ...]) -> None:
        self.kinds = kinds
        self.allocatable = [kind.allocatable() for kind in kinds]
        self._by_key: dict[Requirement, Mask] = {}
        self._known: dict[Requirements, Mask] = {}

    def amounts(self, names: Sequence[str]) -> Ints:
        """What pods may use of each type: a row per type, a column per name."""
        rows = [[each.get(name, 0) for name in names] for each in self.allocatable]
        return np.array(rows, dtype=np.int64).reshape(len(self.kinds), len(names))

    def overlapping(self, item: Requirement) -> Mask:
        """Types that can meet one requirement, or say nothing about it."""
        known = self._by_key.get(item)
        if known is None:
            alone = Requirements({item.key: item})
            known = np.array([kind.requirements.overlaps(alone) for kind in self.kinds], dtype=np.bool_)
            self._by_key[item] = known
        return known

    def suitable(self, requirements: Requirements) -> Mask:
        """Types that can meet the requirements and of which an offering that does is available."""
        known = self._known.get(requirements)
        if known is None:
            known = np.ones(len(self.kinds), dtype=np.bool_)
            for item in requirements:
                known &= self.overlapping(item)
            for index in np.flatnonzero(known):
                known[index] = any(True for _ in offered(self.kinds[index], requirements))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[requirements] = known
        return known


_REMEMBERED = 4_096  # of sets of requirements, a byte per type each
_types = by_identity(16)(Types)


class Template:
    """What nodes of a pool may be: its types as arrays, and the daemons that each would run."""

    def __init__(self, pool: Pool, problem: Problem, names: Sequence[str]) -> None:
        self.pool = pool
        self.names = names
        self.well_known = problem.options.well_known
        stamped = {labels.REGISTERED: "true", labels.INITIALIZED: "true"}
        self.requirements = pool.requirements.add(*Requirements.from_labels(stamped))
        self.of = _types(pool.instance_types)
        self.types = pool.instance_types
        self._daemons(problem)
        allocatable = self.of.amounts(names)
        self.free: Ints = allocatable - self.overhead
        usable = (self.free >= 0).all(axis=1) & (allocatable >= 0).all(axis=1)
        self.all: Ints = np.flatnonzero(self.of.suitable(self.requirements) & usable)

    def _daemons(self, problem: Problem) -> None:
        """Overhead, and the ports that are open, per type: grouped by the very DaemonSets that it runs."""
        self.overhead: Ints = np.zeros((len(self.types), len(self.names)), dtype=np.int64)
        self.ports: list[tuple[HostPort, ...]] = [()] * len(self.types)
        for item in problem.daemonsets:
            data = None
            mask = np.zeros(len(self.types), dtype=np.bool_)
            for data in daemon_pods(item, self.pool.taints, problem):
                mask |= self._runs(data.strict)
            if data is None:
                continue
            self.overhead[mask] += vector(data.requests, self.names)
            if data.ports:
                for index in np.flatnonzero(mask):
                    self.ports[index] += data.ports

    def _runs(self, wanted: Requirements) -> Mask:
        """Types on which a node of the pool meets this."""
        found = np.ones(len(self.types), dtype=np.bool_)
        for item in wanted:
            own = self.requirements.by_key.get(item.key)
            if own is not None:
                if not self.requirements.overlaps(Requirements({item.key: item})):
                    return np.zeros(len(self.types), dtype=np.bool_)
                found &= self.of.overlapping(own.intersection(item))
            elif item.key in self.well_known or item.allows_absence():
                found &= self.of.overlapping(item)
            else:
                known = [item.key in kind.requirements.by_key for kind in self.types]
                found &= self.of.overlapping(item) & np.array(known, dtype=np.bool_)
        return found

    def within(self, left: Resources | None) -> Ints:
        """Types that do not exceed what is left of the pool's limits."""
        if left is None:
            return self.all
        kept = [
            index
            for index in self.all
            if all(
                amount <= left[name] for name, amount in self.types[index].capacity.items() if name in left
            )
        ]
        return np.array(kept, dtype=np.int64)


def offered(kind: InstanceType, requirements: Requirements) -> Iterable[Offering]:
    """Offerings of the type that are available and meet the requirements."""
    return (item for item in kind.offerings if item.launchable and requirements.overlaps(item.requirements))


def daemon_pods(item: DaemonSet, taints: Sequence[Taint], problem: Problem) -> Iterator[PodData]:
    """The pod that the DaemonSet puts on nodes with these taints, once per alternative of its affinity."""
    template = item.spec.template
    pod: Pod | None = Pod(
        metadata=Meta(
            name=item.metadata.name, namespace=item.metadata.namespace, labels=template.metadata.labels
        ),
        spec=template.spec,
    )
    hard = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE]
    while pod is not None and not untolerated(hard, pod.spec.tolerations):
        yield pod_data(pod, problem.volumes, respect=False)
        pod = without_first_term(pod)


def vector(requests: Resources, names: Sequence[str]) -> Ints:
    """Amounts in the order of `names`."""
    return np.array([requests.get(name, 0) for name in names], dtype=np.int64)


@lru_cache(maxsize=16_384)
def _both(one: Requirements, two: Requirements) -> Requirements:
    return one.add(*two)


class OpenNode:
    """A node about to be bought. It stays as open as its pods allow: all types that hold them."""

    def __init__(self, template: Template, name: str, types: Ints) -> None:
        self.template = template
        self.name = name
        self.types = types
        self.requirements = template.requirements
        self.requests: Ints = np.zeros(len(template.names), dtype=np.int64)
        self.pods: list[PodData] = []
        self.reserved: set[str] = set()
        self.relaxed_minimums = False
        self._ports: tuple[HostPort, ...] = ()
        self._host = Requirement.new(labels.HOSTNAME, "In", (name,))
        self._most: Ints = template.free[types].max(axis=0)

    def add(
        self, data: PodData, wanted: Ints, topology: Topology, reservations: Reservations, *, strict: bool
    ) -> str:
        """Put the pod here: '' if that works, else why not. Raises Reserved."""
        if (self.requests + wanted > self._most).any():
            return NO_TYPE
        taints = self.template.pool.taints
        if untolerated(taints, data.pod.spec.tolerations):
            return "did not tolerate taint"
        if data.ports and port_error(data.ports, self._ports):
            return port_error(data.ports, self._ports)
        hosts = data.requirements.by_key.get(labels.HOSTNAME)
        if hosts is not None and not hosts.has(self.name):
            return f"incompatible requirements, key {labels.HOSTNAME}"
        well_known = self.template.well_known
        if not self.requirements.suits(_hostless(data.requirements), well_known):
            return f"incompatible requirements, {self.requirements.compatible(data.requirements, well_known)}"
        merged = _both(self.requirements, _hostless(data.requirements))
        error = "incompatible volume requirements"
        for alternative in data.alternatives or (None,):
            node = merged
            if alternative is not None:
                if not merged.suits(alternative, well_known):
                    continue
                node = _both(merged, alternative)
            error = self._add(data, wanted, node, topology, reservations, strict=strict)
            if not error:
                return ""
        return error

    def _add(
        self,
        data: PodData,
        wanted: Ints,
        node: Requirements,
        topology: Topology,
        reservations: Reservations,
        *,
        strict: bool,
    ) -> str:
        taints, well_known = self.template.pool.taints, self.template.well_known
        with_host = Requirements({**node.by_key, labels.HOSTNAME: self._host})
        narrowed = topology.narrowed(data, taints, with_host, open_labels=True)
        if narrowed is None or not with_host.suits(narrowed, well_known):
            return "unsatisfiable topology constraint"
        node = _both(node, _hostless(narrowed))
        requests = self.requests + wanted
        types = self._left(node, requests, data.ports)
        if not len(types):
            return NO_TYPE
        kept = self._minimums(node, types, strict=strict)
        if kept is None:
            return FEW_VALUES
        reserved = self._reserved(kept, types, reservations)
        self.requirements, self.types, self.requests = kept, types, requests
        self.pods.append(data)
        self._ports += data.ports
        self._most = self.template.free[types].max(axis=0)
        self.reserved = reserved
        reservations.hold(self.name, reserved)
        with_host = Requirements({**kept.by_key, labels.HOSTNAME: self._host})
        topology.record(data, taints, with_host, open_labels=True)
        return ""

    def _left(self, node: Requirements, requests: Ints, ports: tuple[HostPort, ...]) -> Ints:
        template = self.template
        mask = template.of.suitable(node)[self.types]
        mask = mask & (requests[None, :] <= template.free[self.types]).all(axis=1)
        found = self.types[mask]
        if ports:
            kept = [index for index in found if not port_error(ports, template.ports[index])]
            found = np.array(kept, dtype=np.int64)
        return found

    def _minimums(self, node: Requirements, types: Ints, *, strict: bool) -> Requirements | None:
        """The requirements, with minimums of values lowered to what the types have unless `strict`."""
        for item in [each for each in node if each.min_values is not None]:
            values = {
                value
                for index in types
                for value in self.template.types[index].requirements.get(item.key).values
                if item.has(value)
            }
            if len(values) < (item.min_values or 0):
                if strict:
                    return None
                self.relaxed_minimums = True
                lowered = replace(item, min_values=len(values))
                node = Requirements({**node.by_key, item.key: lowered})
        return node

    def _reserved(self, node: Requirements, types: Ints, reservations: Reservations) -> set[str]:
        """Reservations that the node may be bought from. Raises Reserved where they are all taken."""
        there = [
            item
            for index in types
            for item in self.template.types[index].offerings
            if item.capacity_type == labels.RESERVED and item.launchable and node.overlaps(item.requirements)
        ]
        free = {item.reservation_id for item in there if reservations.free(self.name, item)}
        if there and not free:
            raise Reserved(
                "one or more instance types with compatible reserved offerings are available, "
                "but could not be reserved"
            )
        if self.reserved and not free:
            raise Reserved(
                "satisfying updated nodeclaim constraints would remove all compatible reserved "
                "offering options"
            )
        return free


def _hostless(requirements: Requirements) -> Requirements:
    if labels.HOSTNAME not in requirements.by_key:
        return requirements
    return Requirements({key: item for key, item in requirements.by_key.items() if key != labels.HOSTNAME})


class StandingNode:
    """A node that exists, or is on its way."""

    def __init__(self, node: ExistingNode, problem: Problem) -> None:
        self.node = node
        self.name = node.name
        self.pods: list[PodData] = []
        occupancy = node.occupancy
        self.requirements = occupancy.labels
        self._free = subtract(node.allocatable, occupancy.requests)
        self._free = subtract(self._free, _missing(node, problem))
        self._ports = occupancy.ports
        self._attached: dict[str, frozenset[str]] = {}
        for pod in occupancy.attached:
            self._attach(csi_volumes(pod, problem.volumes))

    def _attach(self, found: Mapping[str, frozenset[str]]) -> None:
        for driver, items in found.items():
            self._attached[driver] = self._attached.get(driver, frozenset()) | items

    def add(self, data: PodData, topology: Topology) -> bool:
        """Put the pod here; False where it cannot be."""
        if not fits(data.requests, self._free):
            return False
        if untolerated(self.node.taints, data.pod.spec.tolerations):
            return False
        if data.attachments and volume_limit_error(data.attachments, self._attached, self.node.volume_limits):
            return False
        if data.ports and port_error(data.ports, self._ports):
            return False
        if not self.requirements.suits(data.requirements):
            return False
        merged = _both(self.requirements, data.requirements)
        for alternative in data.alternatives or (None,):
            node = merged
            if alternative is not None:
                if not merged.suits(alternative):
                    continue
                node = _both(merged, alternative)
            narrowed = topology.narrowed(data, self.node.taints, node, open_labels=False)
            if narrowed is None or not node.suits(narrowed):
                continue
            self.requirements = _both(node, narrowed)
            self._free = subtract(self._free, data.requests)
            self._ports += data.ports
            self._attach(data.attachments)
            self.pods.append(data)
            topology.record(data, self.node.taints, self.requirements, open_labels=False)
            return True
        return False


def _missing(node: ExistingNode, problem: Problem) -> Resources:
    """What daemons that are not there yet will take."""
    if not node.pool or not problem.daemonsets:
        return {}
    expected: list[Resources] = []
    for item in problem.daemonsets:
        here = daemon_pods(item, node.taints, problem)
        data = next((one for one in here if node.occupancy.labels.suits(one.strict)), None)
        if data is not None:
            expected.append(data.requests)
    left = subtract(total(expected), node.occupancy.daemons)
    return {name: amount for name, amount in left.items() if amount > 0}
