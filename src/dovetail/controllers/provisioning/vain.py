"""Pods for which nodes are bought in vain: whatever the plan says, the scheduler puts them on none.

A plan knows less than the scheduler: of the pods that DaemonSets bring to a new node it counts what they ask
for, not pods that avoid them. Such a pod would have a node bought each minute, for as long as it waits.
So from the third node that came up for it and did not get it, it rests before it is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, is_true
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.controllers.context import Context
from dovetail.controllers.nodeclaim.status import INITIALIZED
from dovetail.kube.client import ChangeType
from dovetail.model.plan import PlannedClaim

# Nodes in vain before a pod rests: on a real scheduler bursts that must be spread took up to three plans.
# Without a rest one such pod had 65 nodes bought in an hour, with it 9 at most.
FREE = 3
FIRST_REST, LONGEST_REST = MINUTE, HOUR


@dataclass(slots=True)
class _Story:
    claim: str = ""  # bought for the pod last; "" once it was counted
    nodes: int = 0  # that came up for it in vain
    until: int = 0  # it rests up to this instant of the monotonic clock


@dataclass(frozen=True, slots=True)
class Resting:
    """A pod that is not planned for now."""

    pod: Pod
    nodes: int
    left: int  # nanoseconds

    @property
    def message(self) -> str:
        """For the event, after "Failed to schedule pod, "."""
        seconds = -(-self.left // SECOND)
        return (
            f"{self.nodes} nodes came up for it and the scheduler put it on none of them; "
            f"it is planned again in {seconds} s"
        )


class Vain:
    """What became of the nodes that were bought for pods. It forgets a pod that is bound or gone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stories: dict[str, _Story] = {}  # by UID
        context.state.subscribe(self._notice, Pod)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        if (isinstance(new, Pod) and new.spec.node_name) or (new is None and isinstance(old, Pod)):
            known = new or old
            assert known is not None
            self._stories.pop(known.metadata.uid, None)

    def bought(self, claims: Iterable[tuple[str, PlannedClaim]]) -> None:
        """These claims, by name, were bought for their pods."""
        for name, planned in claims:
            for key in planned.pods:
                pod = self._context.state.get(Pod, key)
                if pod is not None and not pod.spec.node_name:
                    self._stories.setdefault(pod.metadata.uid, _Story()).claim = name

    def look(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Resting]]:
        """Of pods that need a plan now, those that get one, and those that rest."""
        now = self._context.clock.monotonic()
        planned, resting = [], []
        for pod in pods:
            story = self._stories.get(pod.metadata.uid)
            if story is not None:
                self._count(story, now)
            if story is not None and story.until > now:
                resting.append(Resting(pod, story.nodes, story.until - now))
            else:
                planned.append(pod)
        return planned, resting

    def _count(self, story: _Story, now: int) -> None:
        """A pod whose node came up and that needs a plan again was refused, or others took its room."""
        claim = self._context.state.get(NodeClaim, story.claim) if story.claim else None
        if claim is None or not is_true(claim.status.conditions, INITIALIZED):
            return
        story.claim = ""
        story.nodes += 1
        if story.nodes >= FREE:
            story.until = now + min(FIRST_REST << min(story.nodes - FREE, 10), LONGEST_REST)
