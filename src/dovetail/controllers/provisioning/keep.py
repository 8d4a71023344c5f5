"""The room that CapacityBuffers keep: placed anew after each round for pods, bought where none is left.

Pods come first. No plan for them knows of virtual pods, so they take the room of a buffer as soon as they are
there, with the scheduler, which does not know of any either; then the buffer moves. Where a NodePool's limit
keeps a pod from its node, buffers buy nothing of that pool, and give up its nodes that no pod runs on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from dovetail.api.core import Pod
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.base.errors import PlannerFailed, in_one_line
from dovetail.controllers.context import Context
from dovetail.controllers.provisioning.intake import Intake
from dovetail.controllers.provisioning.pods import ignored
from dovetail.disrupt.pods import reschedulable
from dovetail.model import labels
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import ExistingNode, Problem

Ask = Callable[[Problem], Awaitable[Plan]]


class Buys(Protocol):
    """What Buyer does."""

    async def buy(self, claims: Sequence[PlannedClaim], bought: list[tuple[str, PlannedClaim]]) -> None:
        """See Buyer."""


class RoomKeeper:
    """Virtual pods are never bound, nominated or told anything: their buffers have conditions."""

    def __init__(self, context: Context, intake: Intake, buyer: Buys, ask: Ask) -> None:
        self._context = context
        self._intake = intake
        self._buyer = buyer
        self._ask = ask
        self._made: dict[str, frozenset[str]] = {}  # by name of a claim: the buffers that it was bought for

    async def keep(self, limited: Collection[str]) -> None:
        """Place all virtual pods, and buy what they need; `limited` pools are short of nodes for pods.

        Where that cannot be planned all stays as it was: whatever is written into a buffer, it is no concern
        of the pods' plans. Raises ApiError.
        """
        if not self._context.buffers.enabled:
            return
        with self._context.panics.alone("capacitybuffer"):
            try:
                await self._keep(limited)
            except PlannerFailed as error:
                self._context.log.record("plan.failed", message=str(error))
        self._context.buffers.settled = True

    async def _keep(self, limited: Collection[str]) -> None:
        asked = self._context.buffers.pods()
        pods, left = self._planned(asked)
        known = {pod.key: pod for pod in pods}
        places: dict[str, tuple[str, ...]] = {}
        new: set[str] = set()
        if pods:
            problem = self._problem(pods, limited)
            plan = await self._ask(problem)
            left = (*left, *(one.pod for one in plan.unschedulable))
            places |= plan.existing
            vain = self._in_vain(problem, places.keys())
            claims = {claim.name: claim for claim in plan.claims if not _of(claim, known) & vain}
            bought: list[tuple[str, PlannedClaim]] = []
            try:
                # Without their pods: none waits for its node, so that it opens at once.
                await self._buyer.buy([replace(claim, pods=()) for claim in claims.values()], bought)
            finally:
                for name, bare in bought:
                    claim = claims[bare.name]
                    places[name] = claim.pods
                    new.update(claim.pods)
                    self._made[name] = _of(claim, known)
                    self._report(name, claim, self._made[name])
                refused = (key for claim in plan.claims for key in claim.pods if key not in new)
                where = {name: tuple(known[key] for key in keys) for name, keys in places.items()}
                self._done(asked, where, new, (*left, *refused))
        else:
            self._done(asked, {}, (), left)

    def _in_vain(self, problem: Problem, used: Collection[str]) -> frozenset[str]:
        """Buffers for which a node was bought that is up, and that neither they nor pods have any use for.

        What is bought for them does not do: until that node is gone nothing more is.
        """
        there = {node.name: node for node in problem.nodes}
        found: set[str] = set()
        for name in list(self._made):
            machine = self._context.state.staying(name)
            if machine is None:
                del self._made[name]
                continue
            node = there.get(machine.name)
            if node is not None and node.initialized and node.name not in used and _idle(node):
                found |= self._made[name]
        return frozenset(found)

    def _report(self, name: str, claim: PlannedClaim, buffers: frozenset[str]) -> None:
        self._context.log.record(
            "buffer.launched",
            buffers=sorted(buffers),
            claim=name,
            pool=claim.pool,
            instanceType=claim.instance_type,
            zone=claim.zone,
            capacityType=claim.capacity_type,
            price=claim.price,
            pods=len(claim.pods),
        )

    def _done(
        self,
        asked: Mapping[str, tuple[Pod, ...]],
        where: Mapping[str, tuple[Pod, ...]],
        bought: Collection[str],
        left: Collection[str],
    ) -> None:
        if self._context.buffers.place(asked, where, bought, left):
            self._context.state.outdate()

    def _planned(self, asked: Mapping[str, tuple[Pod, ...]]) -> tuple[tuple[Pod, ...], tuple[str, ...]]:
        """The virtual pods that plans can be made for, and the keys of the others."""
        state = self._context.state
        volumes = state.volumes()
        found: list[Pod] = []
        left: list[str] = []
        for key, pods in asked.items():
            try:
                why = ignored(pods[0], volumes)
            except Exception as error:
                why = in_one_line(error)
                self._context.panics.caught("capacitybuffer", key, error, state.get(CapacityBuffer, key))
            for pod in pods:
                # A real pod may have that name: whoever made it has the room of this one less.
                if why or state.get(Pod, pod.key) is not None:
                    left.append(pod.key)
                else:
                    found.append(pod)
        return tuple(found), tuple(left)

    def _problem(self, pods: tuple[Pod, ...], limited: Collection[str]) -> Problem:
        problem = self._intake.problem(pods, self._intake.places())
        if not limited:
            return problem
        return replace(
            problem,
            pools=tuple(pool for pool in problem.pools if pool.name not in limited),
            nodes=tuple(
                node.without_room() if node.pool in limited and _idle(node) else node
                for node in problem.nodes
            ),
        )


def _of(claim: PlannedClaim, known: Mapping[str, Pod]) -> frozenset[str]:
    """Keys of the buffers that the claim is for."""
    meta = (known[key].metadata for key in claim.pods)
    return frozenset(f"{one.namespace}/{one.annotations[labels.BUFFER_NAME]}" for one in meta)


def _idle(node: ExistingNode) -> bool:
    return not any(map(reschedulable, node.pods))
