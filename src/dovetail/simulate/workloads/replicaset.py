"""ReplicaSet: keep a number of pods; when there are too many, the least useful go first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.api.core import Pod
from dovetail.api.meta import condition
from dovetail.api.workloads import ReplicaSet
from dovetail.model.labels import POD_DELETION_COST
from dovetail.simulate.workloads.base import Controller
from dovetail.simulate.workloads.pods import active, from_template, ready
from dovetail.units.timestamp import parse_rfc3339

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Scale:
    """How many pods to make, and which to delete, in this order."""

    create: int = 0
    delete: tuple[Pod, ...] = ()


def decide(replicas: int, pods: Sequence[Pod], related: Iterable[Pod], now: int) -> Scale:
    """Bring the active `pods` to `replicas`.

    `related` are the active pods of all replica sets of the same owner, `pods` among them: a pod that shares
    its node with more of them goes earlier.
    """
    difference = replicas - len(pods)
    if difference >= 0:
        return Scale(create=difference)
    per_node: dict[str, int] = {}
    for pod in related:
        per_node[pod.spec.node_name] = per_node.get(pod.spec.node_name, 0) + 1
    ranked = sorted(pods, key=lambda pod: _usefulness(pod, per_node, now))
    return Scale(delete=tuple(ranked[:-difference]))


def _usefulness(
    pod: Pod, per_node: Mapping[str, int], now: int
) -> tuple[int, int, int, int, int, int, int, str]:
    """Sorts least useful first: unassigned, pending, not ready, cheap to delete, on a crowded node, new.

    Ages count by powers of two, and the UID decides inside one: equally old pods go in no particular order.
    """
    node = pod.spec.node_name
    return (
        1 if node else 0,
        _PHASES.get(pod.status.phase, 0),
        1 if ready(pod) else 0,
        deletion_cost(pod),
        -per_node.get(node, 0),
        _magnitude(now - _ready_since(pod)) if ready(pod) else 0,
        _magnitude(now - _instant(pod.metadata.creation_timestamp)),
        pod.metadata.uid,
    )


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
    """Acts on `decide`."""

    kind = ReplicaSet

    async def sync(self, key: str) -> None:
        replica_set = self.view.get(ReplicaSet, key)
        if replica_set is None or self.view.is_deleting(replica_set):
            return
        for pod in self.view.owned(replica_set, Pod):
            if pod.status.phase == "Failed":  # such as rejected by the kubelet: it will never run
                await self.remove(pod)
        pods = active(self.view.owned(replica_set, Pod))
        wanted = replica_set.spec.replicas
        related = self._related(replica_set, pods) if wanted < len(pods) else pods
        scale = decide(wanted, pods, related, self.clock.now())
        for _ in range(scale.create):
            name = self.names.child(f"ReplicaSet {key}", replica_set.metadata.name)
            await self.create(from_template(replica_set, replica_set.spec.template, name))
        for pod in scale.delete:
            await self.remove(pod)
        pods = active(self.view.owned(replica_set, Pod))
        await self.report(replica_set, len(pods), sum(ready(pod) for pod in pods))

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
