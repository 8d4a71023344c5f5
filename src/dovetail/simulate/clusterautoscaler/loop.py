"""Cluster Autoscaler's loop: one group at a time helps pods that fit nowhere, nodes long unneeded go."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from dovetail.api.codec import encode
from dovetail.api.core import Node, Pod
from dovetail.api.meta import Object, condition, is_true
from dovetail.api.workloads import DaemonSet, Job, PodDisruptionBudget, ReplicaSet, StatefulSet
from dovetail.base.clock import HOUR, MINUTE, SECOND, Clock
from dovetail.base.errors import ApiError
from dovetail.base.eventlog import EventLog
from dovetail.base.streams import stream
from dovetail.kube.client import Client
from dovetail.kube.informer import Informer
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.filters import Placement
from dovetail.model.labels import HOSTNAME, ZONE, ZONE_ID
from dovetail.model.podtemplate import from_template
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, amounts, total
from dovetail.simulate.clusterautoscaler.cluster import Cluster, Events
from dovetail.simulate.clusterautoscaler.drain import Drain
from dovetail.simulate.clusterautoscaler.groups import (
    AutoScalingGroup,
    GroupInstances,
    GroupSpec,
    Surroundings,
)
from dovetail.simulate.clusterautoscaler.rotation import Rotation
from dovetail.simulate.clusterautoscaler.scaledown import (
    DrainContext,
    Flags,
    Removals,
    utilization,
)
from dovetail.simulate.clusterautoscaler.scaleup import (
    EXPANDERS,
    ByPriority,
    Expander,
    Option,
    PodGroup,
    Template,
    add_copy,
    choose,
    estimate,
    least_waste,
    parse_totals,
    unfitness,
)
from dovetail.simulate.environment.cloud import shortages
from dovetail.simulate.environment.nodegroup import Member, Place, offerings
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.scenario.latency import Distribution
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.schema import ClusterAutoscalerFlags
from dovetail.units.duration import format_duration, parse_duration
from dovetail.units.timestamp import parse_rfc3339

_NOW, _GPU_WAIT = 2 * SECOND, 30 * SECOND  # pods younger than that are waited for
_BACKOFF, _LONGEST_BACKOFF, _FORGET = 5 * MINUTE, 30 * MINUTE, 3 * HOUR
_STARTUP = 15 * MINUTE  # a node that is not ready yet is only starting for so long
_RECHECK = 5 * MINUTE  # nodes found unremovable are not looked at again for so long
_EMPTY_AT_ONCE, _DRAINED_AT_ONCE = 10, 1
_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_ALIKE, _ALIKE_MEMORY = 0.05, 0.015  # how far apart similar groups' nodes may be
_KINDS: tuple[type[Object], ...] = (Node, Pod, DaemonSet, Job, PodDisruptionBudget, ReplicaSet, StatefulSet)


@dataclass(frozen=True, slots=True)
class Options:
    """Its flags, by their defaults; lengths in nanoseconds."""

    scan_interval: int = 10 * SECOND
    expanders: tuple[Expander, ...] = (least_waste,)
    threshold: float = 0.5
    unneeded: int = 10 * MINUTE
    delay_after_add: int = 10 * MINUTE
    delay_after_failure: int = 3 * MINUTE
    provision_time: int = 15 * MINUTE
    unready_count: int = 3  # nodes that may be unready whatever their share
    unready_share: float = 0.45  # of all nodes, or of a group's
    rebalancing: bool = True  # what groups do by themselves
    expendable_below: int = -10
    balance: bool = False
    totals: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # resource -> least, most of all nodes
    most_nodes: int = 0  # of the cluster; 0: any number
    flags: Flags = field(default_factory=Flags)


@dataclass(slots=True)
class _Backoff:
    until: int
    length: int
    last: int


class ClusterAutoscaler:
    """Cluster Autoscaler on a simulated cluster. `run` never ends."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        log: EventLog,
        groups: Sequence[AutoScalingGroup],
        options: Options,
        seed: int,
    ) -> None:
        self._client = client
        self._clock = clock
        self._log = log
        self._groups = {group.spec.name: group for group in groups}
        self.instances = GroupInstances(groups, clock, log)
        self._options = options
        self._draws: random.Random = stream(seed, "cluster-autoscaler", "expander")
        self._cluster = Cluster()
        self._events = Events(client, clock)
        self._drain = Drain(client, clock, self._cluster, self._events)
        self._asked: dict[str, int] = {}  # group -> when its target last went up
        # Group -> its registered nodes and target, and since when the target is above them.
        self._short: dict[str, tuple[int, int, int]] = {}
        self._unregistered: dict[str, int] = {}  # member without a node -> since when
        self._backoffs: dict[str, _Backoff] = {}
        self._unneeded: dict[str, int] = {}  # node -> since when
        self._unremovable: dict[str, int] = {}  # node -> until when it is not looked at
        self._leaving: dict[str, bool] = {}  # node on its way out -> is it drained?
        self._last_add = self._last_failure = -HOUR * 24

    async def run(self) -> None:
        """Watch and scan, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for kind in _KINDS:
                tasks.create_task(self._follow(kind))
            for name, group in self._groups.items() if self._options.rebalancing else ():
                tasks.create_task(group.keep_zones_even(), name=f"zones of {name}")
            while True:
                await self._clock.sleep(self._options.scan_interval)
                await self._scan(tasks)

    async def _follow(self, kind: type[Object]) -> None:
        informer = Informer(self._client, kind, lambda *_: None)
        self._cluster.objects[kind.KIND] = informer.objects
        await informer.run()

    async def _scan(self, tasks: asyncio.TaskGroup) -> None:
        await self._remove_unregistered()
        await self._back_late_groups_off()
        if await self._is_unhealthy() or self._fix_sizes():
            return
        pods = self._cluster.pods()
        helped = self._to_help(pods)
        now = self._clock.now()
        if helped and self._is_too_young(helped, now):
            return
        added = bool(helped) and await self._scale_up(helped, pods)
        await self._scale_down(tasks, pods, may_delete=not added)

    # Scale-up

    def _view(self, pods: Iterable[Pod], *, upcoming: bool) -> ClusterView:
        """The ready nodes with their pods, and the nodes that were asked for as ready templates."""
        view = ClusterView(NodeView.of(node) for node in self._cluster.nodes() if _is_ready(node))
        if upcoming:
            for group in self._groups.values():
                coming = self._coming(group)
                if coming > 0:
                    template = self._template(group)
                    for number in range(coming):
                        add_copy(view, template, f"upcoming-{group.spec.name}-{number}")
        for pod in pods:
            if node := pod.spec.node_name or pod.status.nominated_node_name:
                view.add_pod(pod, node)
        return view

    def _template(self, group: AutoScalingGroup) -> Template:
        node = group.template()
        return Template(node, self._daemons(node))

    def _daemons(self, template: Node) -> tuple[Pod, ...]:
        """The daemons' pods that such a node would get."""
        alone = ClusterView([NodeView.of(template)])
        node = alone.nodes[template.metadata.name]
        found = []
        for item in self._cluster.of(DaemonSet):
            if isinstance(item, DaemonSet):
                pod = from_template(item, item.spec.template, item.metadata.name)
                if not Placement(pod, alone).examine(node):
                    found.append(pod)
        return tuple(found)

    def _to_help(self, pods: Sequence[Pod]) -> list[Pod]:
        """Pods that the scheduler refused and that neither nodes that are there nor those on their way can
        take.
        """
        refused = [
            pod for pod in pods if _is_refused(pod) and pod.spec.priority >= self._options.expendable_below
        ]
        if not refused:
            return []
        rotation = Rotation(self._view(pods, upcoming=True))
        refused.sort(key=lambda pod: (-pod.spec.priority, pod.metadata.creation_timestamp, pod.key))
        return [pod for pod in refused if rotation.place(pod, lambda _: True) is None]

    def _is_too_young(self, helped: Sequence[Pod], now: int) -> bool:
        """One loop is waited when the oldest pod, or the oldest that asks for a GPU, has only just come."""
        gpus = [pod for pod in helped if _asks_for_gpu(pod)]
        for pods, least in ((helped, _NOW), (gpus, _GPU_WAIT)):
            if pods and now - min(parse_rfc3339(pod.metadata.creation_timestamp) for pod in pods) < least:
                return True
        return False

    async def _scale_up(self, helped: Sequence[Pod], pods: Sequence[Pod]) -> bool:
        """Raise the target of the group that the expander picks; True iff one was raised."""
        if self._nodes_left() <= 0:
            most = self._options.most_nodes
            await self._events.report(
                "Warning", "MaxNodesTotalReached", f"Max total nodes in cluster reached: {most}"
            )
            await self._report_unhelped(helped, {pod.key: Counter() for pod in helped})
            return False
        alike = _alike(helped)
        options: list[Option] = []
        reasons: dict[str, Counter[str]] = {pod.key: Counter() for pod in helped}
        fitting: set[str] = set()  # pods that a node of some group could take
        for group in self._groups.values():
            refusal = self._closed(group)
            if refusal:
                for counts in reasons.values():
                    counts[refusal] += 1
                continue
            option = self._option(group, alike, pods, reasons, fitting)
            if option is not None:
                options.append(option)
        best = choose(options, self._options.expanders, self._draws)
        unhelped = [pod for pod in helped if pod.key not in fitting]
        if best is None:
            await self._report_unhelped(unhelped, reasons)
            return False
        changes = self._raise(best)
        for name, old, new, most in changes:
            sizes = f"to {new} instead of {old} (max: {most})"
            for did in (f"setting group {name} size", f"group {name} size set"):
                await self._events.report("Normal", "ScaledUpGroup", f"Scale-up: {did} {sizes}")
        plan = ", ".join(f"{{{name} {old}->{new} (max: {most})}}" for name, old, new, most in changes)
        for pod in best.pods:
            await self._events.at(pod, "TriggeredScaleUp", f"pod triggered scale-up: [{plan}]")
        await self._report_unhelped(unhelped, reasons)
        self._log.record("group.raised", changes=[list(change) for change in changes], pods=len(best.pods))
        return True

    def _closed(self, group: AutoScalingGroup) -> str:
        """Why a group cannot grow now; "" when it can."""
        backoff = self._backoffs.get(group.spec.name)
        if backoff is not None and self._clock.now() < backoff.until:
            return "in backoff after failed scale-up"
        nodes = [node for node in self._cluster.nodes() if node.metadata.name in group.members]
        if self._too_many_unready(nodes):
            return "not ready for scale-up"
        if group.target >= group.spec.most:
            return "max node group size reached"
        return self._over_totals(group, 1)

    def _over_totals(self, group: AutoScalingGroup, nodes: int) -> str:
        """The totals of the cluster that so many nodes more of the group would exceed; "" for none."""
        size, sums = amounts(group.template().status.capacity), self._sums()
        over = [
            name
            for name, (_, most) in self._options.totals.items()
            if sums.get(name, 0) + nodes * size.get(name, 0) > most
        ]
        return f"max cluster {', '.join(over)} limit reached" if over else ""

    def _sums(self) -> dict[str, int]:
        """What all nodes have, those on their way and none on its way out."""
        found = [amounts(node.status.capacity) for node in self._others()]
        for group in self._groups.values():
            found += [amounts(group.template().status.capacity)] * self._staying(group)
        return total(found)

    def _nodes_left(self) -> int:
        """How many more nodes the cluster may have."""
        if not self._options.most_nodes:
            return 2**31
        there = len(self._others()) + sum(map(self._staying, self._groups.values()))
        return self._options.most_nodes - there

    def _staying(self, group: AutoScalingGroup) -> int:
        return group.target - sum(name in self._leaving for name in group.members)

    def _others(self) -> list[Node]:
        """Nodes of no group, nor of one until now."""
        known = {name for group in self._groups.values() for name in (*group.members, *group.former)}
        return [node for node in self._cluster.nodes() if node.metadata.name not in known]

    def _option(
        self,
        group: AutoScalingGroup,
        alike: Sequence[PodGroup],
        pods: Sequence[Pod],
        reasons: Mapping[str, Counter[str]],
        could: set[str],
    ) -> Option | None:
        """What raising it would do. Pods that its nodes cannot take get reasons, others join `could`."""
        template = self._template(group)
        node = template.node
        view = self._view(pods, upcoming=True)
        add_copy(view, template, node.metadata.name)
        fitting = []
        for candidates in alike:
            refused = Placement(candidates.sample, view).examine(view.nodes[node.metadata.name])
            if refused:
                for pod in candidates.pods:
                    reasons[pod.key][", ".join(reason.text for reason in refused)] += 1
            else:
                fitting.append(candidates)
                could.update(pod.key for pod in candidates.pods)
        for key in list(view.nodes[node.metadata.name].pods):
            view.remove_pod(key)
        view.remove_node(node.metadata.name)
        if not fitting:
            return None
        most = min(group.spec.most - group.target, self._nodes_left())
        found = estimate(template, fitting, view, most=most)
        if not found.nodes:
            return None
        unfit = unfitness(node, len(self._cluster.nodes()))
        return Option(group.spec.name, node, found.nodes, found.pods, group.price, unfit)

    def _raise(self, option: Option) -> list[tuple[str, int, int, int]]:
        """Raise the group's target, or those of similar groups evenly: (group, old, new, maximum) each."""
        group = self._groups[option.group]
        sharing = [group]
        if self._options.balance:
            template = group.template()
            sharing += [
                other
                for other in self._groups.values()
                if other is not group and not self._closed(other) and _similar(template, other.template())
            ]
        targets = {item.spec.name: item.target for item in sharing}
        for number in range(option.nodes):
            if self._over_totals(group, number + 1):
                break
            open_ = [item for item in sharing if targets[item.spec.name] < item.spec.most]
            if not open_:
                break
            targets[min(open_, key=lambda item: targets[item.spec.name]).spec.name] += 1
        now, changes = self._clock.now(), []
        for item in sharing:
            name, target = item.spec.name, targets[item.spec.name]
            if target > item.target:
                changes.append((name, item.target, target, item.spec.most))
                item.raise_to(target)
                self._asked[name] = now
        self._last_add = now
        return changes

    async def _report_unhelped(self, pods: Iterable[Pod], reasons: Mapping[str, Counter[str]]) -> None:
        for pod in pods:
            counts = sorted(reasons[pod.key].items())
            text = ", ".join(f"{count} {reason}" for reason, count in counts)
            message = f"pod didn't trigger scale-up: {text}"
            await self._events.at(pod, "NotTriggerScaleUp", message, ttl=MINUTE)

    # Health of the cluster and its groups

    def _coming(self, group: AutoScalingGroup) -> int:
        """How many nodes of the group are still to become ready."""
        now = self._clock.now()
        there = (node for node in self._cluster.nodes() if node.metadata.name in group.members)
        return group.target - sum(_is_ready(node) or _is_unready(node, now) for node in there)

    async def _remove_unregistered(self) -> None:
        """Instances that have run for a while and are no node are terminated, down to the group's minimum."""
        now, nodes = self._clock.now(), {node.metadata.name for node in self._cluster.nodes()}
        missing = [
            (name, group)
            for group in self._groups.values()
            for name in group.members
            if name not in nodes and name not in self._leaving
        ]
        self._unregistered = {name: self._unregistered.get(name, now) for name, _ in missing}
        for name, group in missing:
            long = now - self._unregistered[name] > self._options.provision_time
            if long and group.target > group.spec.least:
                del self._unregistered[name]
                self._log.record("group.unregistered", group=group.spec.name, node=name)
                group.remove(name)
                await self._events.report("Normal", "DeleteUnregistered", f"Removed unregistered node {name}")

    def _too_many_unready(self, nodes: Sequence[Node]) -> bool:
        now = self._clock.now()
        unready = sum(_is_unready(node, now) for node in nodes)
        return unready > self._options.unready_count and unready > self._options.unready_share * len(nodes)

    async def _is_unhealthy(self) -> bool:
        """True iff so many nodes are not ready that nothing is done: the trouble is not one of nodes."""
        nodes = self._cluster.nodes()
        if not self._too_many_unready(nodes):
            return False
        self._unneeded.clear()
        self._log.record("cluster.unhealthy", nodes=len(nodes))
        await self._events.report("Warning", "ClusterUnhealthy", "Cluster is unhealthy")
        return True

    async def _back_late_groups_off(self) -> None:
        """A group whose nodes do not come is left alone for a while."""
        now = self._clock.now()
        for name, group in self._groups.items():
            if self._coming(group) <= 0:
                self._asked.pop(name, None)
            elif now - self._asked.get(name, now) > self._options.provision_time:
                known = self._backoffs.get(name)
                fresh = known is None or now - known.last > _FORGET
                length = _BACKOFF if fresh or known is None else min(2 * known.length, _LONGEST_BACKOFF)
                self._backoffs[name] = _Backoff(now + length, length, now)
                self._last_failure = now
                self._log.record("group.timedOut", group=name, missing=group.missing)
                within = format_duration(now - self._asked[name])
                text = f"Nodes added to group {name} failed to register within {within}"
                await self._events.report("Warning", "ScaleUpTimedOut", text)
                self._asked.pop(name, None)

    def _fix_sizes(self) -> bool:
        """Lower targets that no instance has come to for a while; True iff one was lowered."""
        now, nodes = self._clock.now(), {node.metadata.name for node in self._cluster.nodes()}
        fixed = False
        for name, group in self._groups.items():
            registered = sum(member in nodes for member in group.members)
            known = self._short.get(name)
            if registered >= group.target:
                self._short.pop(name, None)
            elif known is None or known[:2] != (registered, group.target):
                self._short[name] = (registered, group.target, now)
            elif now - known[2] > self._options.provision_time and group.missing:
                group.lower_to(len(group.members))
                fixed = True
        return fixed

    # Scale-down

    async def _scale_down(self, tasks: asyncio.TaskGroup, pods: Sequence[Pod], *, may_delete: bool) -> None:
        now, options = self._clock.now(), self._options
        group_of = {node: group for group in self._groups.values() for node in group.members}
        nodes = {node.metadata.name: node for node in self._cluster.nodes()}
        on_node: dict[str, list[Pod]] = {}
        for pod in pods:
            if pod.spec.node_name:
                on_node.setdefault(pod.spec.node_name, []).append(pod)
        candidates = [
            name
            for name in nodes
            if name in group_of
            and name not in self._leaving
            and _is_ready(nodes[name])
            and nodes[name].metadata.annotations.get(_DISABLED) != "true"
            and self._unremovable.get(name, now) <= now
            and utilization(nodes[name], on_node.get(name, ()), now).share <= options.threshold
        ]
        context = DrainContext(now, options.flags, self._cluster.budgets(), self._cluster.controllers())
        destinations = [name for name in nodes if _is_ready(nodes[name]) and name not in self._leaving]
        removals = Removals(self._view(pods, upcoming=False), on_node, destinations, context, keep=True)
        removable: dict[str, bool] = {}
        for name in candidates:
            found = removals.judge(name)
            if found.reason:
                self._unremovable[name] = now + _RECHECK
                if found.blocked is not None:
                    self._log.record(
                        "node.kept", node=name, reason=found.blocked.reason, pod=found.blocked.pod.key
                    )
            else:
                removable[name] = bool(found.drain.move)
        self._unneeded = {name: self._unneeded.get(name, now) for name in removable}
        quiet = now - self._last_add > options.delay_after_add
        if not (may_delete and quiet and now - self._last_failure > options.delay_after_failure):
            return
        due = [name for name, since in self._unneeded.items() if now - since > options.unneeded]
        for name in sorted(due, key=lambda name: removable[name]):
            self._delete(tasks, name, group_of[name], drained=removable[name])

    def _delete(self, tasks: asyncio.TaskGroup, name: str, group: AutoScalingGroup, *, drained: bool) -> None:
        """Begin the end of a node, as far as the group's minimum and the running deletions allow."""
        leaving = sum(other in self._leaving for other in group.members)
        limit = _DRAINED_AT_ONCE if drained else _EMPTY_AT_ONCE
        same = sum(kind is drained for kind in self._leaving.values())
        if (
            group.target - leaving <= group.spec.least
            or self._needed_in_all(group)
            or same >= limit
            or len(self._leaving) >= _EMPTY_AT_ONCE
        ):
            return
        self._leaving[name] = drained
        self._log.record("group.shrinks", group=group.spec.name, node=name, drained=drained)
        tasks.create_task(self._end(name, group, drained=drained), name=f"end of {name}")

    def _needed_in_all(self, group: AutoScalingGroup) -> bool:
        """True iff without one of the group's nodes the cluster would have less than its least."""
        size, sums = amounts(group.template().status.capacity), self._sums()
        return any(
            sums.get(name, 0) - size.get(name, 0) < least for name, (least, _) in self._options.totals.items()
        )

    async def _end(self, name: str, group: AutoScalingGroup, *, drained: bool) -> None:
        try:
            node = await self._client.get(Node, name)
            failure = await self._drain.empty(node, drained=drained)
            if failure:
                self._last_failure = self._clock.now()
                did = "drain and delete node" if drained else "delete empty node"
                await self._events.tell(node, f"failed to {did}: {failure}", failed=True)
                await self._drain.undo(name)
                return
            if name in group.members:  # its instance may have gone by itself
                group.remove(name)
            await self._events.tell(node, "nodes removed by cluster autoscaler")
            reason = "ScaleDown" if drained else "ScaleDownEmpty"
            what = f"node {name} removed with drain" if drained else f"empty node {name} removed"
            await self._events.report("Normal", reason, f"Scale-down: {what}")
        except ApiError:
            self._last_failure = self._clock.now()
        finally:
            self._leaving.pop(name, None)
            self._unneeded.pop(name, None)


def _is_ready(node: Node) -> bool:
    return is_true(node.status.conditions, "Ready") and not node.deleting


def _is_unready(node: Node, now: int) -> bool:
    """True iff it is not ready, and has had long enough to become so for the first time."""
    begun = parse_rfc3339(node.metadata.creation_timestamp) + _STARTUP
    return not _is_ready(node) and not node.deleting and begun <= now


def _is_refused(pod: Pod) -> bool:
    """True iff the scheduler has looked at the pod, and found no node and none where others go for it."""
    if pod.spec.node_name or pod.status.nominated_node_name or pod.deleting:
        return False
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable"


def _asks_for_gpu(pod: Pod) -> bool:
    return any("gpu" in name for container in pod.spec.containers for name in container.resources.requests)


_PER_CONTROLLER = 10  # groups of pods that one controller may have; its other pods stand alone


def _alike(pods: Iterable[Pod]) -> list[PodGroup]:
    """Pods of one controller with equal labels and specs, at most ten groups each; the others alone."""
    groups: dict[bytes, list[Pod]] = {}
    of_controller: Counter[str] = Counter()
    alone = []
    for pod in pods:
        owner = pod.metadata.controller()
        if owner is None:
            alone.append(PodGroup((pod,)))
            continue
        fields = (owner.uid, pod.metadata.namespace, dict(pod.metadata.labels), encode(pod.spec))
        key = msgspec.json.encode(fields, order="deterministic")
        if key not in groups and of_controller[owner.uid] >= _PER_CONTROLLER:
            alone.append(PodGroup((pod,)))
            continue
        if key not in groups:
            of_controller[owner.uid] += 1
        groups.setdefault(key, []).append(pod)
    return [*(PodGroup(tuple(found)) for found in groups.values()), *alone]


_OWN_LABELS = frozenset({HOSTNAME, ZONE, ZONE_ID, "eks.amazonaws.com/nodegroup"})


def _similar(one: Node, other: Node) -> bool:
    """True iff two groups' nodes differ in nothing but zone, names and a little room."""
    labels = [
        {key: value for key, value in node.metadata.labels.items() if key not in _OWN_LABELS}
        for node in (one, other)
    ]
    if labels[0] != labels[1]:
        return False
    first, second = amounts(one.status.allocatable), amounts(other.status.allocatable)
    for name, apart in ((CPU, _ALIKE), (MEMORY, _ALIKE_MEMORY), (EPHEMERAL_STORAGE, _ALIKE)):
        low, high = sorted((first.get(name, 0), second.get(name, 0)))
        if high - low > apart * high:
            return False
    return True


def cluster_autoscaler(
    scenario: Scenario,
    place: Place,
    members: Sequence[tuple[Member, ...]],
    kubelets: Kubelets,
    client: Client,
    clock: Clock,
    log: EventLog,
) -> ClusterAutoscaler:
    """The loop over the scenario's groups that have a maximum; `members` are the nodes of all its groups.

    Raises InputError when the type of a group is not known or not sold.
    """
    file = scenario.file
    around = Surroundings(
        clock=clock,
        log=log,
        kubelets=kubelets,
        limits=shortages(scenario),
        seed=scenario.seed,
        latency=Distribution.of(file.cluster_autoscaler.group_latency),
        terminate=scenario.latencies["terminate"],
        unregistered=file.cluster_autoscaler.group_join_failures,
    )
    groups = []
    for i, group in enumerate(file.node_groups):
        if group.max is not None:
            kind, sold = offerings(group, place, path=f"nodeGroups[{i}]")
            spec = GroupSpec(group, kind, sold, place, least=group.min, most=group.max)
            groups.append(AutoScalingGroup(spec, members[i], around))
    return ClusterAutoscaler(client, clock, log, groups, options(file.cluster_autoscaler), scenario.seed)


def options(flags: ClusterAutoscalerFlags) -> Options:
    """The loop's options; the scenario's rules have checked the flags."""
    return Options(
        scan_interval=parse_duration(flags.scan_interval),
        expanders=tuple(_expander(name, flags.priorities) for name in flags.expander),
        threshold=flags.scale_down_utilization_threshold,
        unneeded=parse_duration(flags.scale_down_unneeded_time),
        delay_after_add=parse_duration(flags.scale_down_delay_after_add),
        provision_time=parse_duration(flags.max_node_provision_time),
        unready_count=flags.ok_total_unready_count,
        unready_share=flags.max_total_unready_percentage / 100,
        rebalancing=flags.group_zone_rebalancing,
        expendable_below=flags.expendable_pods_priority_cutoff,
        balance=flags.balance_similar_node_groups,
        totals={
            CPU: _times(parse_totals(flags.cores_total), 1000),
            MEMORY: _times(parse_totals(flags.memory_total), 2**30),
        },
        most_nodes=flags.max_nodes_total,
        flags=Flags(
            skip_local_storage=flags.skip_nodes_with_local_storage,
            skip_system_pods=flags.skip_nodes_with_system_pods,
        ),
    )


def _times(span: tuple[int, int], unit: int) -> tuple[int, int]:
    return span[0] * unit, span[1] * unit


def _expander(name: str, priorities: Mapping[str, tuple[str, ...]]) -> Expander:
    if name == "priority":
        return ByPriority({int(number): patterns for number, patterns in priorities.items()})
    return EXPANDERS[name]
