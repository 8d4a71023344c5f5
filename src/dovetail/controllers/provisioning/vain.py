"""Pods for which nodes are bought in vain: whatever the plan says, the scheduler puts them on none.

A plan knows less than the scheduler: of the pods that DaemonSets bring to a new node it counts what they ask
for, not pods that avoid them. Such a pod would have a node bought each minute, for as long as it waits.
So from the third node that came up for it and did not get it, it rests before it is planned again.

A gang rests as soon as all pods that nodes were bought for wait again: the cloud did not have all of them.
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
from dovetail.model.gangs import Gang
from dovetail.model.plan import Plan, PlannedClaim

# Nodes in vain before a pod rests: on a real scheduler bursts that must be spread took up to three plans.
# Without a rest one such pod had 65 nodes bought in an hour, with it 9 at most.
FREE = 3
FIRST_REST, LONGEST_REST = MINUTE, HOUR
# Where a cloud had three nodes for a gang of four, these were bought anew each 190 s, and ran for 70 to 105.
FIRST_REST_OF_GANG = 5 * MINUTE


@dataclass(slots=True)
class _Story:
    claim: str = ""  # bought for the pod last; "" once it was counted
    nodes: int = 0  # that came up for it in vain
    until: int = 0  # it rests up to this instant of the monotonic clock


@dataclass(slots=True)
class _GangStory:
    """Of a gang, until one of its pods is bound."""

    pods: frozenset[str] = frozenset()  # keys of those that nodes were bought for, until all wait again
    times: int = 0  # that they all did
    until: int = 0  # it rests up to this instant of the monotonic clock


@dataclass(frozen=True, slots=True)
class Resting:
    """A pod that is not planned for now."""

    pod: Pod
    nodes: int
    left: int  # nanoseconds
    gang: str = ""  # that rests as a whole

    @property
    def message(self) -> str:
        """For the event, after "Failed to schedule pod, "."""
        seconds = -(-self.left // SECOND)
        if self.gang:
            return (
                f"gang {self.gang}: nodes were bought for it, and not all of its pods had one; "
                f"it is planned again in {seconds} s"
            )
        return (
            f"{self.nodes} nodes came up for it and the scheduler put it on none of them; "
            f"it is planned again in {seconds} s"
        )


class Vain:
    """What became of the nodes that were bought for pods. It forgets a pod that is bound or gone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stories: dict[str, _Story] = {}  # by UID
        self._gangs: dict[tuple[str, str], _GangStory] = {}  # by kind and name
        context.state.subscribe(self._notice, Pod)

    def _notice(self, _: type[Object], __: ChangeType, old: Object | None, new: Object | None) -> None:
        if (isinstance(new, Pod) and new.spec.node_name) or (new is None and isinstance(old, Pod)):
            known = new or old
            assert known is not None
            self._stories.pop(known.metadata.uid, None)
            if self._gangs and isinstance(new, Pod) and (group := self._context.state.groups().of(new)):
                self._gangs.pop((group.kind, group.name), None)

    def bought(self, claims: Iterable[tuple[str, PlannedClaim]]) -> None:
        """These claims, by name, were bought for their pods."""
        for name, planned in claims:
            for key in planned.pods:
                pod = self._context.state.get(Pod, key)
                if pod is not None and not pod.spec.node_name:
                    self._stories.setdefault(pod.metadata.uid, _Story()).claim = name

    def bought_for(self, gangs: Iterable[Gang], plan: Plan) -> None:
        """The plan's claims were bought, some of them for these gangs."""
        pods = frozenset(key for claim in plan.claims for key in claim.pods)
        for gang in gangs:
            if own := pods.intersection(gang.pods):
                story = self._gangs.setdefault(gang.key, _GangStory())
                story.pods |= own

    def look(self, pods: Sequence[Pod], gangs: Iterable[Gang] = ()) -> tuple[list[Pod], list[Resting]]:
        """Of pods that need a plan now, those that get one, and those that rest; `gangs` are of them."""
        now = self._context.clock.monotonic()
        planned, resting = list[Pod](), list[Resting]()
        of_gangs = self._rests(gangs, now)
        for pod in pods:
            if pod.key in of_gangs:
                resting.append(Resting(pod, 0, *of_gangs[pod.key]))
                continue
            story = self._stories.get(pod.metadata.uid)
            if story is not None:
                self._count(story, now)
            if story is not None and story.until > now:
                resting.append(Resting(pod, story.nodes, story.until - now))
            else:
                planned.append(pod)
        return planned, resting

    def _rests(self, gangs: Iterable[Gang], now: int) -> dict[str, tuple[int, str]]:
        """By pod of a gang that rests, for how long still, and which gang that is."""
        found: dict[str, tuple[int, str]] = {}
        for gang in gangs:
            story = self._gangs.get(gang.key)
            if story is None:
                continue
            there = {key for key in story.pods if self._context.state.get(Pod, key) is not None}
            if there and there <= set(gang.pods):
                story.pods, story.times = frozenset(), story.times + 1
                story.until = now + min(FIRST_REST_OF_GANG << min(story.times - 1, 10), LONGEST_REST)
            if story.until > now:
                found.update(dict.fromkeys(gang.pods, (story.until - now, gang.name)))
        self._gangs = {key: one for key, one in self._gangs.items() if one.pods or one.until > now - HOUR}
        return found

    def _count(self, story: _Story, now: int) -> None:
        """A pod whose node came up and that needs a plan again was refused, or others took its room."""
        claim = self._context.state.get(NodeClaim, story.claim) if story.claim else None
        if claim is None or not is_true(claim.status.conditions, INITIALIZED):
            return
        story.claim = ""
        story.nodes += 1
        if story.nodes >= FREE:
            story.until = now + min(FIRST_REST << min(story.nodes - FREE, 10), LONGEST_REST)
