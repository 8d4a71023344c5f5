"""Plans for pods that wait, as they would be made if no other controller bought for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND
from dovetail.base.errors import PlannerFailed
from dovetail.controllers.context import Context
from dovetail.controllers.observation.tally import Tally
from dovetail.controllers.planner import Planner
from dovetail.controllers.provisioning.intake import Intake
from dovetail.controllers.provisioning.provision import ProvisioningOptions
from dovetail.controllers.provisioning.repeat import Leftover
from dovetail.controllers.provisioning.trigger import Batcher, Window
from dovetail.disrupt.pods import reschedulable, unbound
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.units.timestamp import parse_rfc3339


class ObservedLaunches:
    """The provisioner's batches and its question, with one difference: claims that came since a batch's
    first pod are imagined away, with their pods back among those that wait.

    Every pod is answered once. One that was answered and still waits is given a place on what the acting
    controller bought meanwhile, so that the room there is not given to others. One that was left over is
    looked at again once the acting controller has a node for it.
    """

    def __init__(
        self, context: Context, batcher: Batcher, planner: Planner, options: ProvisioningOptions, tally: Tally
    ) -> None:
        self._context = context
        self._batcher = batcher
        self._planner = planner
        self._deadline = options.deadline
        self._intake = Intake(context, options.solver)
        self._tally = tally
        self._leftover = Leftover()
        self._answered: dict[str, str] = {}  # UID -> key of pods that would have got a node or a place
        self._left: dict[str, tuple[str, int]] = {}  # UID -> key of others, and when they began to wait
        context.state.subscribe(self.notice, Pod)

    def notice(self, kind: type[Object], _: str, __: Object | None, new: Object | None) -> None:
        """See State."""
        if kind is Pod and isinstance(new, Pod) and new.spec.node_name and new.metadata.uid in self._left:
            self._batcher.trigger(new.metadata.uid)

    async def run(self) -> None:
        """Look at every batch, for ever."""
        clock, state = self._context.clock, self._context.state
        while True:
            window = await self._batcher.wait()
            while not state.synced():
                await clock.sleep(SECOND)
            try:
                await self.look(window)
            except PlannerFailed as error:
                self._context.log.record("plan.failed", message=str(error))
                await clock.sleep(SECOND)

    async def look(self, window: Window) -> None:
        """Plan for the pods of the batch, and report what would be bought."""
        self._forget()
        waiting, _ = self._intake.waiting({})
        fresh = self._fresh(min(window.triggers.values(), default=window.opened))
        pods = {pod.metadata.uid: pod for pod in (*waiting, *self._back(fresh))}
        new = tuple(pod for uid, pod in pods.items() if uid not in self._answered)
        if not new:
            return
        old = tuple(pod for uid, pod in pods.items() if uid in self._answered)
        places = await self._places(old, self._names(fresh))
        leaving = self._names((*fresh, *self._coming(new, places)))
        problem = self._intake.problem((*new, *self._intake.moving()), places, leaving)
        if self._leftover.recall(problem) is not None:
            return
        plan = await self._planner.plan(problem, self._deadline)
        self._leftover.keep(problem, plan)
        self._tally.planned(plan)
        self._report(problem, plan)
        self._remember(new, plan, window)

    async def _places(self, pods: tuple[Pod, ...], leaving: frozenset[str]) -> dict[str, str]:
        """Where pods that were answered before fit by now, by key of the pod."""
        if not pods:
            return {}
        problem = replace(self._intake.problem(pods, {}, leaving), pools=())
        plan = await self._planner.plan(problem, self._deadline)
        return {pod: name for name, placed in plan.existing.items() for pod in placed}

    def _fresh(self, since: int) -> tuple[NodeClaim, ...]:
        """Claims that are not older than that, and those that took pods which were left over before."""
        claims = self._context.state.all(NodeClaim)
        return tuple(one for one in claims if _made(one) >= since // SECOND * SECOND or self._took(one))

    def _took(self, claim: NodeClaim) -> bool:
        state = self._context.state
        if not self._left or (node := state.node_of(claim)) is None:
            return False
        waited = [self._left.get(pod.metadata.uid) for pod in state.pods_on(node.metadata.name)]
        return any(one is not None and _made(claim) >= one[1] // SECOND * SECOND for one in waited)

    def _coming(self, pods: tuple[Pod, ...], places: Mapping[str, str]) -> list[NodeClaim]:
        """Claims that nothing stands on or has a place on, made since some of the pods were left over."""
        since = [one[1] for pod in pods if (one := self._left.get(pod.metadata.uid)) is not None]
        state, used = self._context.state, set(places.values())
        found = []
        for claim in state.all(NodeClaim) if since else ():
            node = state.node_of(claim)
            standing = state.pods_on(node.metadata.name) if node is not None else ()
            free = used.isdisjoint(self._names((claim,))) and not any(map(reschedulable, standing))
            if free and _made(claim) >= min(since) // SECOND * SECOND:
                found.append(claim)
        return found

    def _names(self, claims: Iterable[NodeClaim]) -> frozenset[str]:
        """Of the claims and their nodes."""
        nodes = ((claim, self._context.state.node_of(claim)) for claim in claims)
        return frozenset(
            one.metadata.name for claim, node in nodes for one in (claim, node) if one is not None
        )

    def _back(self, fresh: tuple[NodeClaim, ...]) -> list[Pod]:
        """The pods of these claims' nodes: they waited as well."""
        state = self._context.state
        nodes = [node for claim in fresh if (node := state.node_of(claim)) is not None]
        return [
            unbound(pod)
            for node in nodes
            for pod in state.pods_on(node.metadata.name)
            if reschedulable(pod) and not pod.deleting
        ]

    def _remember(self, pods: tuple[Pod, ...], plan: Plan, window: Window) -> None:
        left = {item.pod for item in plan.unschedulable}
        for pod in pods:
            uid = pod.metadata.uid
            if pod.key in left:
                since = window.triggers.get(uid, window.opened)
                self._left.setdefault(uid, (pod.key, since))
            else:
                self._left.pop(uid, None)
                self._answered[uid] = pod.key

    def _forget(self) -> None:
        """Pods that are gone."""

        def there(uid: str, key: str) -> bool:
            pod = self._context.state.get(Pod, key)
            return pod is not None and pod.metadata.uid == uid

        self._answered = {uid: key for uid, key in self._answered.items() if there(uid, key)}
        self._left = {uid: one for uid, one in self._left.items() if there(uid, one[0])}

    def _report(self, problem: Problem, plan: Plan) -> None:
        log = self._context.log
        known = {key for key, _ in self._left.values()}
        unplaced = [one.pod for one in plan.unschedulable if one.pod not in known]
        if unplaced:
            log.record("observed.unplaced", pods=unplaced)
        if not plan.claims:
            return
        log.record(
            "observed.launch",
            pods=len(problem.pods) - len(plan.unschedulable),
            nodes=[
                {
                    "nodepool": claim.pool,
                    "instance-type": claim.instance_type,
                    "zone": claim.zone,
                    "capacity-type": claim.capacity_type,
                    "pods": len(claim.pods),
                }
                for claim in plan.claims
            ],
            hourly=plan.cost.hourly,
            lowerBound=plan.cost.lower_bound,
        )


def _made(claim: NodeClaim) -> int:
    """When the claim was created, in whole seconds as nanoseconds."""
    stamp = claim.metadata.creation_timestamp
    return parse_rfc3339(stamp) if stamp else 0
