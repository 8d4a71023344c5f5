"""Pods that others must not run beside, while nothing but their own node keeps them away from these.

A nomination keeps such pods off, unless they have no rule of this kind themselves and no pod with the rule is
bound yet: then the scheduler does not look at rules of others at all. One whose own node was still to come
took room on the node of three that must not be beside it. These had no place left, and a node was bought for
them. So a node with places for such pods opens after those of the pods that they keep away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dovetail.api.core import Pod
from dovetail.cluster.nodes import Machine
from dovetail.cluster.state import State
from dovetail.controllers.nodeclaim.register import OPENING
from dovetail.controllers.provisioning.exchange import owner_of
from dovetail.model.affinity import affinity_rules, required_anti_affinity

Opens = Callable[[Machine], bool]


@dataclass(frozen=True, slots=True)
class _Loose:
    """Pods alike without rules: one of them, and names of machines with places for them that are not open,
    those that open now and others.
    """

    pod: Pod
    opening: set[str] = field(default_factory=set)
    coming: set[str] = field(default_factory=set)


class Apart:
    """Which of the nodes that are held wait for others so that pods stay apart."""

    def __init__(self, state: State) -> None:
        self._state = state
        # By the UID of what made them, how many pods are bound that keep others away: the scheduler counts
        # the rules of those.
        self._guards: Counter[str] = Counter()
        self._opens: Opens = lambda _: True
        self._loose: list[_Loose] | None = None  # None until it is asked for

    def follow(self, old: Pod | None, new: Pod | None) -> None:
        """The pod changed; None for one that was not there, or is not any more."""
        for pod, step in ((old, -1), (new, 1)):
            if pod is not None and pod.spec.node_name and required_anti_affinity(pod):
                owner = owner_of(pod)
                self._guards[owner] += step
                if not self._guards[owner]:
                    del self._guards[owner]

    def look(self, opens: Opens) -> None:
        """Forget what is known of machines. `opens` says of one that is held if nothing else keeps it."""
        self._opens, self._loose = opens, None

    def keeps(self, machine: Machine) -> bool:
        """True iff the machine, which would open, is not to: a pod may take room there beside which pods that
        have places there must not run. Takes the time of all places once after each `look`.
        """
        return any(one.coming - {machine.name} for one in self._kept_away(machine))

    def follows(self, machine: Machine) -> bool:
        """True iff of the machines that open at one moment this one is to after others: what the scheduler
        tries between two of them has only the first.
        """
        return any(one.opening - {machine.name} for one in self._kept_away(machine))

    def _kept_away(self, machine: Machine) -> Iterator[_Loose]:
        seen = set[str]()
        for pod in self._waiting(machine):
            owner = owner_of(pod)
            if owner in seen or owner in self._guards or not required_anti_affinity(pod):
                continue
            if owner:
                seen.add(owner)
            rules = affinity_rules(pod).anti_affinity
            yield from (one for one in self._known() if any(rule.may_mean(one.pod) for rule in rules))

    def _known(self) -> list[_Loose]:
        if self._loose is None:
            found: dict[str, _Loose] = {}
            for machine in self._state.promised_machines():
                held = machine.node is None or OPENING in machine.node.spec.taints
                opens = self._opens(machine)
                if opens and not held:
                    continue
                for pod in self._waiting(machine):
                    if not _ruled(pod):
                        one = found.setdefault(owner_of(pod) or pod.key, _Loose(pod))
                        (one.opening if opens else one.coming).add(machine.name)
            self._loose = list(found.values())
        return self._loose

    def _waiting(self, machine: Machine) -> Iterator[Pod]:
        for key in self._state.promised_on(machine):
            pod = self._state.get(Pod, key)
            if pod is not None and not pod.spec.node_name:
                yield pod


def _ruled(pod: Pod) -> bool:
    """True iff the pod must be near others, or away from some: all rules count for it. Pure."""
    rules = affinity_rules(pod)
    return bool(rules.affinity or rules.anti_affinity)
