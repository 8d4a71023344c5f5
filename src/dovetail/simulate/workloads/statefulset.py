"""StatefulSet: pods with numbers and claims of their own, one after another or all at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from dovetail.api.core import Pod
from dovetail.api.workloads import StatefulSet
from dovetail.model.podtemplate import REVISION_LABEL, claims_of_pod, revision_of, stateful_pod
from dovetail.simulate.workloads.base import Controller
from dovetail.simulate.workloads.pods import ready


class Slot(Enum):
    """What stands at one ordinal."""

    READY = "ready"
    WAITING = "waiting"  # exists, not ready yet
    LEAVING = "leaving"
    FINISHED = "finished"  # Failed or Succeeded: must be deleted before it can be made again


@dataclass(frozen=True, slots=True)
class Steps:
    """The ordinals to act on now."""

    create: tuple[int, ...] = ()
    delete: tuple[int, ...] = ()


def decide(numbers: range, slots: Mapping[int, Slot], *, parallel: bool, outdated: frozenset[int]) -> Steps:
    """What to do next; `slots` maps the ordinals that have a pod, `outdated` those of an older revision.

    Ordered: one pod at a time, each waits until all before it are ready; removal and renewal go from the
    highest ordinal down, each only while all that stay are ready. Parallel: creation and removal at once.
    """
    finished = tuple(sorted(ordinal for ordinal, slot in slots.items() if slot is Slot.FINISHED))
    missing = [ordinal for ordinal in numbers if ordinal not in slots]
    surplus = sorted((n for n, slot in slots.items() if n not in numbers and slot in _ALIVE), reverse=True)
    if parallel:
        if finished or missing or surplus:
            return Steps(create=tuple(missing), delete=(*finished, *surplus))
    else:
        if finished:
            return Steps(delete=finished[:1])
        unready = [n for n, slot in slots.items() if slot is not Slot.READY]
        if missing:
            blocked = any(ordinal < missing[0] for ordinal in unready)
            return Steps() if blocked else Steps(create=(missing[0],))
        if surplus:
            # The one that goes may itself be unready; another one that is unready must come back first.
            blocked = any(ordinal != surplus[0] for ordinal in unready)
            return Steps() if blocked else Steps(delete=(surplus[0],))
    if any(slots[n] is not Slot.READY for n in numbers if n in slots and n not in outdated):
        return Steps()
    stale = sorted((n for n in outdated if n in numbers), reverse=True)
    if stale and slots[stale[0]] in _ALIVE and all(slots[n] is not Slot.LEAVING for n in stale):
        return Steps(delete=(stale[0],))
    return Steps()


_ALIVE = (Slot.READY, Slot.WAITING)


class StatefulSets(Controller):
    """Acts on `decide`. Volume claims outlive their pods, as with the default retention policy."""

    kind = StatefulSet

    async def sync(self, key: str) -> None:
        stateful = self.view.get(StatefulSet, key)
        if stateful is None or self.view.is_deleting(stateful):
            return
        pods = self._by_ordinal(stateful)
        revision = revision_of(stateful)
        steps = decide(
            stateful.spec.numbers,
            {ordinal: self._slot(pod) for ordinal, pod in pods.items()},
            parallel=stateful.spec.pod_management_policy == "Parallel",
            outdated=frozenset(
                n for n, pod in pods.items() if pod.metadata.labels.get(REVISION_LABEL) != revision
            ),
        )
        for ordinal in steps.delete:
            await self.remove(pods[ordinal])
        for ordinal in steps.create:
            await self._create(stateful, ordinal, revision)
        present = self.view.owned(stateful, Pod)
        await self.report(stateful, replicas=len(present), ready_replicas=sum(map(ready, present)))

    def _by_ordinal(self, stateful: StatefulSet) -> dict[int, Pod]:
        prefix = f"{stateful.metadata.name}-"
        everyone = (*self.view.owned(stateful, Pod), *self.view.leaving(stateful, Pod))
        suffixes = ((pod.metadata.name.removeprefix(prefix), pod) for pod in everyone)
        return {int(suffix): pod for suffix, pod in suffixes if suffix.isdecimal()}

    def _slot(self, pod: Pod) -> Slot:
        if self.view.is_deleting(pod):
            return Slot.LEAVING
        if pod.terminal:
            return Slot.FINISHED
        return Slot.READY if ready(pod) else Slot.WAITING

    async def _create(self, stateful: StatefulSet, ordinal: int, revision: str) -> None:
        for claim in claims_of_pod(stateful, ordinal):
            await self.create(claim)
        await self.create(stateful_pod(stateful, ordinal, revision))
