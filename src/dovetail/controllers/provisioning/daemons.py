"""Pods of DaemonSets that wait for a new node: its room for them is kept as that of the planned pods is.

A plan leaves room for what DaemonSets bring, the scheduler does not. Of 1,922 pods and 44 nodes, some of
which opened before others, pods whose own nodes were still closed took it on three: what their DaemonSets
brought, to which the scheduler came seconds later, could never run.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.api.core import Namespace, Node, Pod
from dovetail.cluster.nodes import Machine
from dovetail.cluster.promises import ready_since
from dovetail.cluster.state import NOMINATION_WINDOW, State
from dovetail.controllers.nodeclaim.register import OPENING
from dovetail.controllers.provisioning.causes import open_to
from dovetail.disrupt.pods import owned_by
from dovetail.model.affinity import affinity_rules
from dovetail.model.daemons import node_of


def of_daemons(pod: Pod) -> bool:
    """True iff a DaemonSet made the pod."""
    return owned_by(pod, "DaemonSet")


def closed_to(pod: Pod, node: Node) -> bool:
    """True iff the waiting pod is not to be nominated to that node yet.

    What DaemonSets bring may be let in by all taints, and most of it is bound before the node opens.
    """
    return not open_to(pod, node) or (of_daemons(pod) and OPENING in node.spec.taints)


class DaemonPods:
    """Those that wait, by the one node that each may run on."""

    def __init__(self, state: State, now: Callable[[], int]) -> None:
        self._state = state
        self._now = now
        self._waiting: dict[str, dict[str, None]] = {}  # by name of a node, keys of pods

    def follow(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of a pod."""
        pod = new or old
        if pod is None or not of_daemons(pod):
            return
        if new is not None and not new.spec.node_name and not new.deleting:
            self._waiting.setdefault(node_of(new), {})[new.key] = None
        elif old is not None and not old.spec.node_name and (name := node_of(old)) in self._waiting:
            self._waiting[name].pop(old.key, None)
            if not self._waiting[name]:
                del self._waiting[name]

    def on(self, name: str) -> list[Pod]:
        """Those that wait for the node of that name and are to be nominated to it."""
        pods = (self._state.get(Pod, key) for key in self._waiting.get(name, ()))
        return [pod for pod in pods if pod is not None and self.node(pod) is not None]

    def node(self, pod: Pod) -> Node | None:
        """The node that the pod is to be nominated to; None for one that a claim did not bring, or that has
        been up for long enough: what has no room by then would be refused, and nominated again, for ever.
        None, too, where a planned pod and it keep away from each other: no plan knows of that, and nodes
        would be bought in vain for that pod if it was not the first.
        """
        node = self._state.get(Node, node_of(pod))
        claim = self._state.claim_of(node) if node is not None else None
        if node is None or claim is None:
            return None
        place = Machine(node, claim)
        since = ready_since(place)
        early = since is None or self._now() - since < NOMINATION_WINDOW
        return node if early and not self._apart(pod, place) else None

    def _apart(self, pod: Pod, place: Machine) -> bool:
        """True iff the pod, or one that is planned there, may not be where the other is. One node is in one
        domain of any kind.
        """
        planned = (self._state.get(Pod, key) for key in self._state.promised_on(place))
        others = [one for one in planned if one is not None]
        mine = affinity_rules(pod).anti_affinity
        meant = [(rule, pod.metadata) for one in others for rule in affinity_rules(one).anti_affinity]
        meant += [(rule, one.metadata) for one in others for rule in mine]
        if not meant:
            return False
        spaces = {space.metadata.name: space.metadata.labels for space in self._state.all(Namespace)}
        return any(rule.matches(meta.namespace, meta.labels, spaces) for rule, meta in meant)
