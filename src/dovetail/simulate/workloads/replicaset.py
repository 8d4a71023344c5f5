"""ReplicaSet: keep a number of pods; when there are too many, the least useful go first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key

from dovetail.api.core import Pod
from dovetail.api.meta import condition
from dovetail.api.workloads import ReplicaSet
from dovetail.model.labels import POD_DELETION_COST
from dovetail.model.podtemplate import from_template
from dovetail.simulate.workloads.base import Controller
from dovetail.simulate.workloads.pods import ACTIVE, Standing, active, ready
from dovetail.units.timestamp import parse_rfc3339

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def least_useful(surplus: int, pods: Sequence[Pod], related: Iterable[Pod], now: int) -> tuple[Pod, ...]:
    """The `surplus` pods of the active `pods` to delete, in that order.

    `related` are the active pods of all replica sets of the same owner, `pods` among them: a pod that shares
    its node with more of them goes earlier.
    """
    per_node: dict[str, int] = {}
    for pod in related:
        per_node[pod.spec.node_name] = per_node.get(pod.spec.node_name, 0) + 1
    drawn = sorted(pods, key=lambda pod: hashlib.blake2b(pod.metadata.uid.encode(), digest_size=8).digest())
    ranked = sorted((_Usefulness(pod, per_node, now) for pod in drawn), key=cmp_to_key(_Usefulness.against))
    return tuple([one.pod for one in ranked[:surplus]])


class _Usefulness:
    """Unassigned, pending, not ready, cheap to delete, on a crowded node, new ones: these go first."""

    def __init__(self, pod: Pod, per_node: Mapping[str, int], now: int) -> None:
        node = pod.spec.node_name
        self.pod = pod
        self.standing = (
            1 if node else 0,
            _PHASES.get(pod.status.phase, 0),
            1 if ready(pod) else 0,
            deletion_cost(pod),
            -per_node.get(node, 0),
        )
        self.ages = (
            now - _ready_since(pod) if ready(pod) else 0,
            now - _instant(pod.metadata.creation_timestamp),
        )

    def against(self, other: _Usefulness) -> int:
        """Below zero where this goes before the other, and zero where both are alike.

        Ages count by powers of two; where two ages differ and their powers do not, the UID decides. Pods of
        the same second are alike to the real controller too, and go as its cache happens to give them.
        """
        if self.standing != other.standing:
            return -1 if self.standing < other.standing else 1
        for mine, others in zip(self.ages, other.ages, strict=True):
            if mine != others:
                return _magnitude(mine) - _magnitude(others) or (
                    -1 if self.pod.metadata.uid < other.pod.metadata.uid else 1
                )
        return 0


def deletion_cost(pod: Pod) -> int:
    """The pod-deletion-cost annotation; 0 when absent or not a number, as the real controller reads it."""
    try:
        return int(pod.metadata.annotations.get(POD_DELETION_COST, "0"))
    except ValueError:
        return 0


def _ready_since(pod: Pod) -> int:
    found = condition(pod.status.conditions, "Ready")
    return _instant(found.last_transition_time if found is not None else "")


def _instant(text: str) -> int:
    return parse_rfc3339(text) if text else 0


def _magnitude(age: int) -> int:
    """Floor of the base-2 logarithm of nanoseconds; -1 for nothing."""
    return age.bit_length() - 1 if age > 0 else -1


class ReplicaSets(Controller):
    """Keeps spec.replicas pods."""

    kind = ReplicaSet

    async def sync(self, key: str) -> None:
        replica_set = self.view.get(ReplicaSet, key)
        if replica_set is None or self.view.is_deleting(replica_set):
            return
        if self.view.count(replica_set, Standing.FINISHED):
            for pod in self.view.owned(replica_set, Pod):
                if pod.status.phase == "Failed":  # such as rejected by the kubelet: it will never run
                    await self.remove(pod)
        present, wanted = self.view.count(replica_set, *ACTIVE), replica_set.spec.replicas
        for _ in range(wanted - present):
            name = self.names.child(f"ReplicaSet {key}", replica_set.metadata.name)
            await self.create(from_template(replica_set, replica_set.spec.template, name))
        if wanted < present:
            pods = active(self.view.owned(replica_set, Pod))
            related = self._related(replica_set, pods)
            for pod in least_useful(present - wanted, pods, related, self.clock.now()):
                await self.remove(pod)
        present = self.view.count(replica_set, *ACTIVE)
        await self.report(
            replica_set, replicas=present, ready_replicas=self.view.count(replica_set, Standing.READY)
        )

    def _related(self, replica_set: ReplicaSet, pods: tuple[Pod, ...]) -> Iterable[Pod]:
        owner = replica_set.metadata.controller()
        if owner is None:
            return pods
        siblings = [
            other
            for other in self.view.all(ReplicaSet)
            if (theirs := other.metadata.controller()) is not None and theirs.uid == owner.uid
        ]
        return (pod for other in siblings for pod in active(self.view.owned(other, Pod)))
