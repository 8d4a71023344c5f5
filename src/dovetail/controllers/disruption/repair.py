"""Unhealthy nodes are replaced first, then drained within a limit of time, or rebooted where that may mend
them: a method of disruption. Reboots are carried out in controllers/nodeclaim/reboot.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import MINUTE
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.unfinished import replaces
from dovetail.controllers.disruption.whatif import Outcome, WhatIf
from dovetail.controllers.static import replacement
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import UNHEALTHY, Command, Decision, Note, Repair
from dovetail.disrupt.pods import budgets_among
from dovetail.disrupt.repair import Diagnosis, Matcher, Rules, Turn, rebooted, turn
from dovetail.disrupt.static import is_static
from dovetail.model.repair import REBOOT, RepairPolicy


class NodeRepair:
    """One node at a time, that first which is past help for longest. See the protocol Method."""

    reason = UNHEALTHY
    quiet = 0  # what is past help has been unhealthy for long

    def __init__(
        self,
        context: Context,
        what_if: WhatIf,
        policies: Sequence[RepairPolicy] = (),
        *,
        terminates_first: bool,
    ) -> None:
        """`policies` stand in for the cloud's own, if there are any. `terminates_first`: a node goes first
        whose replacement has no place as long as it is there.
        """
        self._context = context
        self._what_if = what_if
        self._terminates_first = terminates_first
        self._matcher = Matcher(policies or context.provider.repair_policies.current)
        # What was selected last: the claim (its uid), its condition, when it was rebooted before.
        self._told: tuple[str, str, int] | None = None
        self._sick: frozenset[str] = frozenset()  # claims (by uid) whose nodes met a policy lately

    async def decide(self, views: tuple[NodeView, ...]) -> Decision:
        """A node whose pods have no other place does not keep the next one from its turn."""
        found = self._turn(views)
        self._follow(views, found.sick)
        notes = list(found.notes)
        for view, diagnosis in found.due:
            if diagnosis.action == REBOOT:
                self._tell(view, diagnosis)
                why = f"{diagnosis.repair.condition}/{diagnosis.match.reason}"
                command = Command(self.reason, (view,), repair=diagnosis.repair, reboot=why)
                return Decision(command, tuple(notes))
            outcome = await self._without(view)
            if outcome.command is not None:
                self._tell(view, diagnosis)
                return Decision(replace(outcome.command, repair=diagnosis.repair), tuple(notes))
            if outcome.obstacle:
                notes.append(Note(view.claim.metadata.name, "DisruptionBlocked", outcome.obstacle))
        # The loop looks once a minute while nothing changes: what is past help sooner is looked for.
        soon = found.next is not None and found.next - self._context.clock.now() < MINUTE
        return Decision(None, tuple(notes), soon=soon)

    def _follow(self, views: tuple[NodeView, ...], sick: tuple[NodeView, ...]) -> None:
        """Say of which nodes it is new that they meet a policy, or meet none any more."""
        now = frozenset(view.claim.metadata.uid for view in sick)
        for kind, news in (("repair.matched", now - self._sick), ("repair.recovered", self._sick - now)):
            for view in views if news else ():
                if view.claim.metadata.uid in news and view.node is not None:
                    self._context.log.record(kind, claim=view.claim.metadata.name, node=view.name)
        self._sick = now

    def _tell(self, view: NodeView, diagnosis: Diagnosis) -> None:
        """Once, however often it is selected: a brake may hold it back for long."""
        told = view.claim.metadata.uid, diagnosis.repair.condition, rebooted(view.claim)
        if told == self._told:
            return
        self._told = told
        self._context.log.record(
            "repair.selected",
            claim=view.claim.metadata.name,
            node=view.name,
            condition=diagnosis.repair.condition,
            reason=diagnosis.match.reason,
            action=diagnosis.action,
            escalated=diagnosis.escalated,
        )

    async def validate(self, command: Command, views: tuple[NodeView, ...]) -> Command | None:
        """That command, unless the node recovered while its plan was made, or may not go any more, or a
        reboot is not enough any more.
        """
        free = {
            view.claim.metadata.uid
            for view, diagnosis in self._turn(views).due
            if not command.reboot or diagnosis.action == REBOOT
        }
        return command if all(view.claim.metadata.uid in free for view in command.candidates) else None

    def _turn(self, views: tuple[NodeView, ...]) -> Turn:
        state = self._context.state
        budgets = budgets_among(state.all(PodDisruptionBudget))
        rules = Rules(state.all(Node), _origin, state.all(NodePool), budgets, self._context.clock.now())
        return turn(views, self._matcher, rules)

    async def _without(self, view: NodeView) -> Outcome:
        if is_static(view.pool):
            return replacement(self._context, view, self.reason, terminates_first=self._terminates_first)
        outcome = await self._what_if.without((view,), self.reason)
        if outcome.command is None and self._terminates_first:
            first = await self._what_if.before_replacement(view, self.reason)
            return first if first.command is not None else outcome
        return outcome


def _origin(claim: NodeClaim) -> Repair | None:
    """The repair that the claim was bought for, if it was."""
    found = replaces(claim)
    return found.repair if found is not None else None
