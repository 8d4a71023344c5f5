"""What goes into a plan: pods that need a place, and the cluster as a Problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.errors import in_one_line
from dovetail.cluster.devices import cluster_devices
from dovetail.cluster.nodes import KnownNodes, Machine
from dovetail.cluster.problem import Fault, OnFault, build, isolated
from dovetail.cluster.promises import BINDING, with_room
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.pods import (
    InUse,
    evicts,
    ignored,
    moves_with_node,
    provisionable,
    waits,
)
from dovetail.controllers.provisioning.trigger import disrupted
from dovetail.disrupt.pods import budgets_among, reschedulable, unbound
from dovetail.model.devices import ClusterDevices
from dovetail.model.gangs import Gang, gangs_of
from dovetail.model.problem import Options, Problem


def lingering(context: Context, on_fault: OnFault = lambda _: None) -> frozenset[str]:
    """Nodes on their way out that stay while pods there may not be evicted."""
    state, now = context.state, context.clock.now()
    budgets = budgets_among(state.all(PodDisruptionBudget))
    return frozenset(
        machine.name
        for machine in state.leaving()
        if machine.node is not None
        and any(
            stays
            for _, stays in isolated(
                state.pods_on(machine.name),
                lambda pod: reschedulable(pod) and not moves_with_node(pod, budgets, now),
                on_fault,
            )
        )
    )


class Intake:
    """Reads the state. Keeps the nodes it gave: what follows from one is worked out once.

    An object that raises while it is read is left out and goes to `on_fault`. `reserves`: nodes have the
    virtual pods of CapacityBuffers too.
    """

    def __init__(
        self,
        context: Context,
        options: Options,
        on_fault: OnFault = lambda _: None,
        *,
        reserves: bool = False,
    ) -> None:
        self._context = context
        self._options = options
        self._on_fault = on_fault
        self._reserves = reserves
        self._nodes = KnownNodes()

    def places(self) -> dict[str, str]:
        """Per key of a pod without a node, the machine that an earlier plan gave it, while that holds.

        Pods that lost their room to others keep the promise while more machines come up: the scheduler may
        well make good for it there. (Planned for at once, they bought a node too many in two of 24 bursts,
        `python -m benchmarks.realised --most 60 --seeds 1`.)
        """
        promised = self._promised()
        if self._coming(promised):
            return {pod.key: name for name, (_, pods) in promised.items() for pod in pods}
        return {pod.key: name for name, pod in self._with_room(promised)}

    def crowded(self) -> dict[str, str]:
        """Likewise for those that lost their room while the scheduler binds others still.

        More may lose theirs by the time at which the last one is bound, and one plan for all is one wave.
        """
        if not self._context.state.binding(BINDING):
            return {}
        promised = self._promised()
        if self._coming(promised):
            return {}
        roomy = {pod.key for _, pod in self._with_room(promised)}
        if not roomy:
            return {}
        return {pod.key: name for name, (_, pods) in promised.items() for pod in pods if pod.key not in roomy}

    def _promised(self) -> dict[str, tuple[Machine, list[Pod]]]:
        """By name, each machine with places that hold, and the pods that wait for them."""
        promised: dict[str, tuple[Machine, list[Pod]]] = {}
        state = self._context.state
        for pod, machine in state.places(state.pods_on("")):
            promised.setdefault(machine.name, (machine, []))[1].append(pod)
        return promised

    def _coming(self, promised: Mapping[str, tuple[Machine, list[Pod]]]) -> bool:
        return any(not machine.initialized for machine, _ in promised.values())

    def _with_room(self, promised: Mapping[str, tuple[Machine, list[Pod]]]) -> Iterator[tuple[str, Pod]]:
        """Those of the pods that the machines have room for, each with its machine's name."""
        for name, (machine, pods) in promised.items():
            for pod in with_room(machine, self._context.state.room_left(machine), pods):
                yield name, pod

    def waiting(self, places: Mapping[str, str]) -> tuple[list[Pod], list[tuple[Pod, str]]]:
        """Pods without a node or a place, and those that are left out of every plan, each with the reason."""
        state = self._context.state
        volumes = state.volumes()
        pending, left_out = list[Pod](), []
        mates = self._mates(places)
        devices = state.device_objects() is not None
        in_use = InUse(volumes, lambda: self._using(places))
        for pod in state.pods_on(""):
            try:
                if not (provisionable(pod) or pod.key in mates) or pod.key in places:
                    continue
                reason = ignored(pod, volumes, devices=devices) or in_use.refuses(pod)
            except Exception as error:
                reason = f"it cannot be understood ({in_one_line(error)})"
                self._on_fault(Fault(pod, in_one_line(error)))
            if reason:
                left_out.append((pod, reason))
            else:
                pending.append(pod)
        return pending, left_out

    def _using(self, places: Mapping[str, str]) -> Iterator[Pod]:
        """Pods on nodes, or with a place on one."""
        return (pod for pod in self._context.state.all(Pod) if pod.spec.node_name or pod.key in places)

    def _mates(self, places: Mapping[str, str]) -> frozenset[str]:
        """Pods that the scheduler has not refused, of gangs of which it has refused others.

        It may hold them until there is room for all, or not have come to them yet: either way a plan for the
        others alone would not know how many have no place.
        """
        if not self._options.gangs:
            return frozenset()
        found: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        groups = self._context.state.groups()
        for pod, group in isolated(self._context.state.pods_on(""), groups.of, lambda _: None):
            if group is None or pod.key in places or not waits(pod):
                continue
            if provisionable(pod) or not pod.spec.scheduling_gates:
                refused, others = found.setdefault((group.kind, group.name), ([], []))
                (refused if provisionable(pod) else others).append(pod.key)
        return frozenset(key for refused, others in found.values() if refused for key in others)

    def gangs(self, pods: Iterable[Pod]) -> tuple[Gang, ...]:
        """Which of the pods belong together, however many of them need each other."""
        if not self._options.gangs:
            return ()
        groups = self._context.state.groups()
        return gangs_of((pod for pod, _ in isolated(pods, groups.of, lambda _: None)), groups, ())

    def moving(self) -> tuple[Pod, ...]:
        """Pods of machines on their way out that need a place elsewhere now, and have none that is kept."""
        kept = {pod.key for pod, _ in self._kept_places()}
        surges = self._context.surges
        state, now = self._context.state, self._context.clock.now()
        budgets = budgets_among(state.all(PodDisruptionBudget))
        return tuple(
            unbound(pod)
            for machine in state.leaving()
            if machine.node is not None and not self._kept(machine)
            for pod, moves in isolated(
                state.pods_on(machine.node.metadata.name),
                lambda pod: moves_with_node(pod, budgets, now),
                self._on_fault,
            )
            if moves and pod.key not in kept and not (surges is not None and surges.replaces(pod))
        )

    def _kept_places(self) -> list[tuple[Pod, str]]:
        """Pods of machines on their way out whose places are kept and free still, with their names."""
        places: dict[str, tuple[Machine, list[Pod]]] = {}
        for pod, machine in self._context.state.kept_places():
            places.setdefault(machine.name, (machine, []))[1].append(pod)
        return [(pod, name) for name, pod in self._with_room(places)]

    def _kept(self, machine: Machine) -> bool:
        """True iff a guard keeps the machine as it is; one that lost its claim goes once it is tainted."""
        if machine.claim is not None:
            return self._context.brakes.keeps(machine.claim)
        return machine.node is not None and not disrupted(machine.node)

    def problem(
        self, pods: tuple[Pod, ...], places: Mapping[str, str], leaving: frozenset[str] = frozenset()
    ) -> Problem:
        """What to ask about these pods; `leaving` names machines to imagine away, besides those that go.

        Pools that may not launch anything now are not in it. Pods without spread constraints have those that
        the scheduler gives them.
        """
        state = self._context.state
        stuck = lingering(self._context, self._on_fault) - leaving
        problem = build(
            state.objects(),
            self._spread(pods),
            self._context.instance_types,
            self._options,
            state.marked() | leaving,
            lingering=stuck,
            replaced=leaving,
            promised=places,
            moving=self._kept_places(),
            node_class_kinds=state.node_class_kinds,
            volume_price=self._context.volume_price,
            commons=self._context.provider.supply.left(),
            on_fault=self._on_fault,
            node_of=self._nodes.of,
            standing=self._standing,
            settled=self._settled,
        )
        self._nodes.keep_only(self._present)
        paused = {
            pool.metadata.name for pool in state.all(NodePool) if self._context.brakes.launches_paused(pool)
        }
        pools = tuple(pool for pool in problem.pools if pool.name not in paused)
        return replace(problem, pools=pools, devices=self._devices(problem, leaving, stuck))

    def _devices(
        self, problem: Problem, leaving: frozenset[str], lingering: frozenset[str]
    ) -> ClusterDevices | None:
        """Devices and claims for the pods of the problem, and for those that have places on its nodes."""
        state = self._context.state
        objects = state.device_objects()
        if objects is None:
            return None
        imagined = (machine for name in leaving if (machine := state.staying(name)) is not None)
        gone = [machine for machine in (*state.leaving(), *imagined) if machine.node is not None]
        uids = {
            pod.metadata.uid
            for machine in gone
            if machine.name not in lingering
            for pod in state.pods_on(machine.name)
        }
        # Of a node that stays for now only those pods leave that are in the question.
        uids.update(
            pod.metadata.uid
            for pod in problem.pods
            if (known := state.get(Pod, pod.key)) is not None and known.spec.node_name
        )
        names = {name for machine in gone for name in machine.names()}

        def offers(name: str) -> bool:
            machine = state.staying(name) if name not in names else None
            return machine is not None and machine.node is not None and machine.initialized

        settled = (pod for node in problem.nodes for pod in node.pods if pod.spec.resource_claims)
        return cluster_devices(objects, (*problem.pods, *settled), uids, offers)

    def _settled(self) -> Iterator[Pod]:
        """Pods that need no place: they ended well, or others are evicted for them."""
        for pod in self._context.state.all(Pod):
            if pod.status.phase == "Succeeded" or (not pod.spec.node_name and evicts(pod)):
                yield pod

    def _standing(self, node: str) -> tuple[Pod, ...]:
        pods = self._context.state.standing(node)
        return self._context.buffers.beside(node, pods) if self._reserves else pods

    def _present(self, name: str) -> bool:
        get = self._context.state.get
        return get(Node, name) is not None or get(NodeClaim, name) is not None

    def _spread(self, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """With the scheduler's constraints; a pod that they cannot be deduced for goes without.

        It stays in the question: one that is about leaving its node must not forget it.
        """
        given = self._context.state.default_spreads().given
        found: list[Pod] = []
        for pod in pods:
            try:
                found += given((pod,))
            except Exception as error:
                self._on_fault(Fault(pod, in_one_line(error)))
                found.append(pod)
        return tuple(found)
