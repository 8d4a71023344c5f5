"""Pods that are alike and nominated to one node get nominations that they lost again in turn."""

from __future__ import annotations

from dovetail.api.core import Pod
from dovetail.base.clock import SECOND

TURN = SECOND  # for which one that lost its nomination leaves the turn to others like it


class Turns:
    """Pods that are alike and must be spread, nominated to one node: which of them is to be tried next.

    The scheduler counts all that are nominated to a node as if they were there, so of several only the one
    passes that is tried when the others have lost their nominations. One that gets it again meanwhile keeps
    the others from passing: it waits until none of them is nominated there, TURN at most.
    """

    def __init__(self) -> None:
        self._nominated: dict[tuple[str, str], set[str]] = {}  # by node and owner: keys of pods
        self._waiting: dict[tuple[str, str], dict[str, int]] = {}  # likewise: key -> until when

    def follow(self, old: Pod | None, new: Pod | None) -> tuple[str, ...]:
        """Take in a change of a pod; the keys of those that waited for it, once none else keeps them."""
        before, after = _nominated(old), _nominated(new)
        if after is not None and new is not None:
            self._nominated.setdefault(after, set()).add(new.key)
            self._waiting.get(after, {}).pop(new.key, None)
        if before is None or before == after or old is None:
            return ()
        others = self._nominated.get(before, set())
        others.discard(old.key)
        if others:
            return ()
        self._nominated.pop(before, None)
        return tuple(self._waiting.pop(before, ()))

    def wait(self, pod: Pod, node: str, now: int) -> int:
        """Nanoseconds for which the pod, which lost its nomination to that node, leaves others the turn."""
        group = _group(pod, node)
        if group is None or not self._nominated.get(group):
            return 0
        until = self._waiting.setdefault(group, {}).setdefault(pod.key, now + TURN)
        return max(0, until - now)


def _nominated(pod: Pod | None) -> tuple[str, str] | None:
    """The group of a pod that waits and is nominated; None for others."""
    if pod is None or pod.spec.node_name or pod.deleting or not pod.status.nominated_node_name:
        return None
    return _group(pod, pod.status.nominated_node_name)


def _group(pod: Pod, node: str) -> tuple[str, str] | None:
    """That node and the pod's owner; None for a pod without one, and for one that need not be spread."""
    owner, rules = pod.metadata.controller(), pod.spec.topology_spread_constraints
    spread = any(rule.when_unsatisfiable == "DoNotSchedule" for rule in rules)
    return (node, owner.uid) if owner is not None and spread else None
