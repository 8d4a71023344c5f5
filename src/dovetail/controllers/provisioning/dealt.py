"""Pods that are alike and must be spread over zones, dealt out over the new nodes of their zone. Pure.

The scheduler counts pods that are nominated to a node as if they were there. Of several that are alike each
is refused there until the others have lost their nominations, and what is tried meanwhile takes their room. A
cheap plan may have all of a zone on one node: of 500 pods' plan the 17 of each of three Deployments, so that
room for 16 was free at once, and of 477 nominated pods 203 went elsewhere. So they change nodes with
others of their zone until each node has about as many. Nodes, costs and zones stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dovetail.api.core import Pod
from dovetail.controllers.provisioning.even import Amounts, Kind, Rules, alike, free_room, written
from dovetail.controllers.provisioning.exchange import movable
from dovetail.model import labels
from dovetail.model.affinity import affinity_rules
from dovetail.model.plan import Plan
from dovetail.model.ports import host_ports
from dovetail.model.problem import Problem
from dovetail.model.spread import spread_rules

MOST = 8  # pods that are alike which change nodes in one step
FEW = 64  # nodes of the zone, those with the fewest of them, that they may go to: of 254 nodes 16 lacked ways
# Of a node, a number of pods and a kind that comes back: 1,979 pods take 0.9 million, in 0.1 s.
CASES = 2_000_000

Counts = NDArray[np.int64]
_NOTHING = 1e-6  # less than this is not lacking: sums of fractions
# Labels that the new nodes of one pool and zone have in common, beside those of its template.
_COMMON = frozenset((labels.NODEPOOL, labels.ZONE, labels.CAPACITY_TYPE))


def dealt(problem: Problem, plan: Plan) -> Plan:
    """The plan, in which pods that are alike and must be spread are on as many nodes of their zone as may be.

    Time: O(n) in the pods and what nodes they list, and CASES beside.
    """
    pods = {pod.key: pod for pod in problem.pods}
    allowed = partial(_in_its_zone, Rules.of(problem).besides(labels.ZONE))
    there = [alike(claim, pods, allowed) for claim in plan.claims]
    groups = defaultdict[Hashable, list[int]](list)
    for number, claim in enumerate(plan.claims):
        # Not what it is priced by: where it may as well be bought in another zone, nothing must be in one.
        may_be = map(claim.requirements.get, (labels.ZONE, labels.CAPACITY_TYPE))
        tags = tuple(sorted(claim.labels.items()))
        groups[claim.pool, *may_be, tags, claim.taints].append(number)
    spread = {kind for some in there for kind, keys in some.items() if _must_spread(pods[keys[0]])}
    if not spread:
        return plan
    names, free = free_room(problem, plan, pods)
    moved, left = dict[str, int](), CASES
    for group in groups.values():
        kinds = sorted({kind for number in group for kind in there[number]})
        if len(group) < 2 or not kinds:
            continue
        asked = np.array([[dict(kind[1]).get(name, 0) for name in names] for kind in kinds], float)
        counts = np.array([[len(there[number].get(kind, ())) for kind in kinds] for number in group])
        table = _Table(asked, counts, free[group], np.array([kind in spread for kind in kinds]))
        left -= table.deal(left)
        moved |= _named(group, kinds, there, table.counts)
    return written(plan, pods, moved) if moved else plan


def _in_its_zone(rules: Rules, pod: Pod) -> bool:
    """True iff the pod may as well run on any other new node of its pool and zone with room: none of its own
    rules, and none of these that count it, is of other domains than zones.
    """
    spec = pod.spec
    if not spec.node_selector.keys() <= _COMMON or spec.resource_claims or host_ports(pod):
        return False
    if spec.affinity is not None and spec.affinity.node_affinity is not None:
        return False
    keys = {rule.topology_key for rule in spec.topology_spread_constraints}
    keys |= {rule.key for rule in affinity_rules(pod).all}
    return keys <= {labels.ZONE} and movable(pod) and not rules.mean(pod)


def _must_spread(pod: Pod) -> bool:
    """True iff others like it keep the pod off a node to which they are nominated."""
    return any(rule.hard and rule.selects_self for rule in spread_rules(pod))


class _Table:
    """The nodes of a zone by kinds of pods: `asked` is what one of each kind asks for, `counts` how many are
    on each node, `free` what is left there; `spread` says which kinds must be.
    """

    def __init__(self, asked: Amounts, counts: Counts, free: Amounts, spread: NDArray[np.bool_]) -> None:
        self.counts = counts
        self._asked = asked
        self._free = free
        self._spread = spread

    def deal(self, cases: int) -> int:
        """Change nodes as long as it gains anything, the kind and node first that are furthest ahead; looks
        at so many cases at most, about, and answers how many these were.
        """
        stuck = np.broadcast_to(~self._spread, self.counts.shape).copy()
        changed, each, looked_at = False, min(FEW, len(self.counts)) * MOST * len(self._asked), 0
        while looked_at < cases:
            ahead = np.where(stuck, 0, self.counts - self.counts.min(axis=0))
            source, kind = divmod(int(ahead.argmax()), ahead.shape[1])
            if ahead[source, kind] > 1:
                target = self._step(source, kind)
                looked_at += each
                stuck[source, kind] = target is None
                if target is not None:
                    stuck[np.ix_(np.array([source, target]), self._spread)] = False
                    changed = True
            elif changed:  # what was stuck may find another node by now
                stuck[:, self._spread] = changed = False
            else:
                break
        return looked_at

    def _step(self, source: int, kind: int) -> int | None:
        """Some of the kind leave the source for the node where that gains most, and others of one kind come
        back as it must be: that node, or none.
        """
        targets = np.argsort(self.counts[:, kind], kind="stable")[:FEW]
        going = np.arange(1, min(MOST, int(self.counts[source, kind])) + 1)
        leaving = going[:, None] * self._asked[kind]  # by number of those that go, and resource
        lacking = np.maximum(leaving[None] - self._free[targets, None], 0)[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(lacking > _NOTHING, np.ceil(lacking / self._asked - _NOTHING), 0.0)
        back = each.max(axis=3)  # by target, number and kind: how many come back at least
        able = back <= self.counts[targets, None]
        able[targets == source] = False
        able[:, :, kind] &= back[:, :, kind] == 0
        back = np.where(able, back, 0).astype(int)
        left = self._free[source] + leaving[None, :, None] - back[..., None] * self._asked
        able &= ((left >= -_NOTHING) | (left >= self._free[source])).all(axis=3)
        # Of pairs that are alike and on one node: so many others would each keep out.
        own, others = self.counts[source], self.counts[targets]
        gain = going[None] * (own[kind] - others[:, kind, None] - going[None])
        price = back * (own - others[:, None] + back) * self._spread
        worth = np.where(able, gain[..., None] - price, 0)
        best = np.unravel_index(int(worth.argmax()), worth.shape)
        if worth[best] <= 0:
            return None
        target = int(targets[best[0]])
        self._move(source, target, kind, int(going[best[1]]))
        self._move(target, source, int(best[2]), int(back[best]))
        return target

    def _move(self, source: int, target: int, kind: int, number: int) -> None:
        self.counts[source, kind] -= number
        self.counts[target, kind] += number
        self._free[source] += number * self._asked[kind]
        self._free[target] -= number * self._asked[kind]


def _named(
    group: Sequence[int], kinds: Sequence[Kind], there: Sequence[Mapping[Kind, list[str]]], counts: Counts
) -> dict[str, int]:
    """Pods by key, with the numbers of the claims that they go to, so that each has so many of each kind."""
    moved: dict[str, int] = {}
    for column, kind in enumerate(kinds):
        over = [
            key
            for row, number in enumerate(group)
            for key in there[number].get(kind, ())[int(counts[row, column]) :]
        ]
        for row, number in enumerate(group):
            lacking = int(counts[row, column]) - len(there[number].get(kind, ()))
            for _ in range(lacking):
                moved[over.pop()] = number
    return moved
