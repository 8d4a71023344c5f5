"""What is reported of a round besides its plan: what is wrong with pods and pools, once until it changes.

Pods get an event with the node that they are to run on, or why there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import MINUTE
from dovetail.base.eventlog import EventLog
from dovetail.cluster.problem import Fault
from dovetail.controllers.context import Context
from dovetail.model.plan import Plan
from dovetail.model.problem import Pool, Problem
from dovetail.model.resources import Resources

FAILED_SCHEDULING_TTL = 5 * MINUTE


async def nominate(context: Context, pods: tuple[str, ...], name: str) -> None:
    """Say to the pods where to expect to run; `name` is a node's or, before it comes up, a claim's."""
    state = context.state
    state.nominate(name)
    node = state.get(Node, name)
    claim = state.claim_of(node) if node is not None else state.get(NodeClaim, name)
    places = []
    if claim is not None:
        places.append(f"nodeclaim/{claim.metadata.name}")
    if node is not None:
        places.append(f"node/{node.metadata.name}")
    for key in pods:
        context.log.record(
            "nominated",
            pod=key,
            claim=claim.metadata.name if claim else "",
            node=node.metadata.name if node else "",
        )
        pod = state.get(Pod, key)
        if pod is not None:
            state.promise(pod, name)
            message = f"Pod should schedule on: {', '.join(places)}"
            await context.recorder.publish(pod, "Normal", "Nominated", message)


async def failed(context: Context, key: str, reason: str) -> None:
    """Say to the pod, if it is still there, why no plan has a place for it."""
    pod = context.state.get(Pod, key)
    if pod is None:
        return
    message = f"Failed to schedule pod, {reason}"
    await context.recorder.publish(pod, "Warning", "FailedScheduling", message, ttl=FAILED_SCHEDULING_TTL)


_NODES = "nodes"


class Remarks:
    """Goes into the log; what the last round said as well is not said again."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._said: dict[str, dict[str, str]] = {}  # topic -> subject -> what was said
        self._excluded: dict[str, tuple[Pool, int]] = {}

    def on_ignored(self, left_out: Iterable[tuple[Pod, str]]) -> None:
        """Pods that no plan is made for, and why."""
        for pod, reason in self._news("pod.ignored", {pod.key: reason for pod, reason in left_out}):
            self._log.record("pod.ignored", pod=pod, message=reason)

    def on_faults(self, faults: Iterable[Fault]) -> None:
        """Objects that cannot be understood and are in no plan."""
        now = {f"{fault.about.KIND} {fault.about.key}": fault.cause for fault in faults}
        for name, cause in self._news("input.left_out", now):
            self._log.record("input.left_out", about=name, message=cause)

    def on_pools(self, faults: dict[str, str]) -> None:
        """What keeps pools from launching anything at all, by their names."""
        for pool, message in self._news("pool.empty", faults):
            self._log.record("pool.empty", pool=pool, message=message)

    def on_problem(self, problem: Problem) -> None:
        """What is known before a plan is made: pools without room, and wishes that keep nodes alive."""
        if self._news("pools.none", {} if problem.pools else {"": "none"}):
            self._log.record("pools.none")
        full = {pool.name: "full" for pool in problem.pools if _nodes_used_up(pool)}
        for pool, _ in self._news("pool.full", full):
            self._log.record("pool.full", pool=pool)
        excluded = {pool.name: self._beyond(pool) for pool in problem.pools if pool.limits}
        self._excluded = {name: self._excluded[name] for name in excluded}  # pools that went are forgotten
        counts = {name: str(count) for name, count in excluded.items() if count}
        types = {pool.name: len(pool.instance_types) for pool in problem.pools}
        for pool, _ in self._news("pool.limited", counts):
            self._log.record("pool.limited", pool=pool, excluded=excluded[pool], types=types[pool])
        if problem.options.respect_preferences:
            self._wishes("pods.apart", [pod.key for pod in problem.pods if _wants_apart(pod)])
            self._wishes("pods.spread", [pod.key for pod in problem.pods if _wants_spread(pod)])

    def on_plan(self, problem: Problem, plan: Plan) -> None:
        """Pods that a node which is not up yet has room for, and those that have no place."""
        coming = {node.name for node in problem.nodes if not node.initialized}
        waited = {name: pods for name, pods in sorted(plan.existing.items()) if name in coming and pods}
        if waited:
            self._log.record("pods.awaited", nodes=list(waited), pods=sum(map(len, waited.values())))
        # Without any pool that is the whole story; what there was no time for comes with the next plan.
        judged = [item for item in plan.unschedulable if not item.untried]
        left = {item.pod: item.reason for item in judged} if problem.pools else {}
        for pod, reason in self._news("pod.unplaced", left):
            self._log.record("pod.unplaced", pod=pod, message=reason)

    def _wishes(self, kind: str, pods: list[str]) -> None:
        news = [pod for pod, _ in self._news(kind, dict.fromkeys(pods, ""))]
        if news:
            self._log.record(kind, pods=news)

    def _news(self, topic: str, now: dict[str, str]) -> list[tuple[str, str]]:
        before = self._said.get(topic, {})
        self._said[topic] = now
        return [(key, value) for key, value in now.items() if before.get(key) != value]

    def _beyond(self, pool: Pool) -> int:
        """How many of its types are larger than what its limits leave."""
        known = self._excluded.get(pool.name)
        if known is not None and _same_room(known[0], pool):
            return known[1]
        left = _left(pool)
        count = sum(_exceeds(item.capacity, left) for item in pool.instance_types)
        self._excluded[pool.name] = (pool, count)
        return count


def _same_room(one: Pool, other: Pool) -> bool:
    same_types = one.instance_types is other.instance_types
    return same_types and (one.limits, one.usage) == (other.limits, other.usage)


def _left(pool: Pool) -> dict[str, int]:
    limits = pool.limits or {}
    return {name: amount - pool.usage.get(name, 0) for name, amount in limits.items()}


def _exceeds(capacity: Resources, left: Mapping[str, int]) -> bool:
    return any(capacity.get(name, 0) > amount for name, amount in left.items() if name != _NODES)


def _nodes_used_up(pool: Pool) -> bool:
    return _left(pool).get(_NODES, 1) <= 0


def _wants_apart(pod: Pod) -> bool:
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return affinity is not None and bool(affinity.preferred)


def _wants_spread(pod: Pod) -> bool:
    return any(item.when_unsatisfiable == "ScheduleAnyway" for item in pod.spec.topology_spread_constraints)
