"""Where nothing is nominated: a plan made for the order in which the scheduler tries the pods. Pure.

Nodes that open one after the other are filled with the pods whose turn comes first, often all of one
Deployment, whatever was planned for them. A plan that is cheap because it mixes pods that ask for CPUs with
others that ask for memory is dear then: its nodes are full of the ones, and the others are left over. So here
nodes are chosen for what becomes of them, one after the other: each time that on which the scheduler places
most for its price. Of ten bursts of 342 to 532 pods such plans cost 1.01 to 1.14 of the cheapest plan, which
does not come true, and 1.24 where pods must be spread over nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from msgspec import structs

from dovetail.api.core import Pod
from dovetail.base.streams import stream
from dovetail.controllers.provisioning.openings import Openings
from dovetail.controllers.provisioning.planned import planned_node, sold
from dovetail.model import labels
from dovetail.model.cluster_view import ClusterView, NodeView
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import ExistingNode, Problem
from dovetail.model.resources import CPU, MEMORY, add, fits, pod_requests, total

# Parts of the queue for which the solver says what nodes suit these pods: those of the first plan suit mixed
# ones. With each part planned by itself there are 7 to 32 different nodes to choose from for 342 to 500 pods.
PARTS = 10
# A node's worth is divided by its price to the power of one less this, so that large nodes are preferred.
# Small ones are each filled to the brim, but more of them must open (83 instead of 39 for 530 pods), and
# large pods find no room later on. Each of these is the best one for some of ten bursts.
BIASES = (0.1, 0.03, 0.0)
DRAWS = 8  # plans made so, of which the cheapest counts: those beyond the biases save up to 3 % more
# By how much it may be misjudged what a node is worth for its price: so that no two draws are alike.
NOISE = 0.05
MOST_STEPS = 500_000  # of `Openings`, about 3 s of a core; a plan for 500 pods takes 10,000 to 900,000


@dataclass(frozen=True, slots=True)
class Followed:
    """Claims in the order in which their nodes open, and by pod the node where it goes."""

    claims: tuple[PlannedClaim, ...]
    at: Mapping[str, str]

    @property
    def hourly(self) -> int:
        return sum(claim.price for claim in self.claims)


class ByQueue:
    """Plans for one queue. The view, which has what is there, is its own."""

    def __init__(
        self,
        problem: Problem,
        view: ClusterView,
        pods: Sequence[Pod],
        claims: Iterable[PlannedClaim],
        asked: Mapping[str, Pod],
    ) -> None:
        """`pods` in the order of the queue; `claims` are what may be bought, for `asked` pods."""
        self._problem = problem
        distinct = {
            (c.pool, c.instance_type, c.zone, c.capacity_type, c.taints, *sorted(c.labels.items())): c
            for c in claims
        }
        self._claims = tuple(distinct.values())
        self._nodes = [planned_node(problem, claim, asked) for claim in self._claims]
        self._asked = asked
        self._worth = self._worths(pods)
        # A zone counts for spreads before its first node opens: what is bought is there by then, and closed.
        closed = {(claim.pool, claim.zone): n for claim, n in zip(self._claims, self._nodes, strict=True)}
        names = [f"closed-{number}" for number in range(len(closed))]
        for name, node in zip(names, closed.values(), strict=True):
            view.set_node(NodeView.planned(_called(name, node)))
        self._openings = Openings(view, pods, names)
        self._choices = [*((number,) for number in range(len(self._claims))), *self._over_zones()]

    @property
    def steps(self) -> int:
        """As of `Openings`."""
        return self._openings.steps

    def _over_zones(self) -> Iterator[tuple[int, ...]]:
        """Nodes that are alike, one in each zone: pods that must be spread over these find room on all three
        of them, and next to none on one alone.
        """
        alike = defaultdict[object, dict[str, int]](dict)
        for number, claim in enumerate(self._claims):
            kind = claim.pool, claim.instance_type, claim.capacity_type, claim.taints
            alike[kind].setdefault(claim.zone, number)
        return (tuple(zones.values()) for zones in alike.values() if len(zones) > 1)

    def _worths(self, pods: Sequence[Pod]) -> dict[str, float]:
        """What each pod must cost at least, by its key: with the prices of a CPU and of memory at which no
        node costs less than it has, and all pods together cost most.
        """
        rooms = {
            (node.allocatable.get(CPU, 0), node.allocatable.get(MEMORY, 0), claim.price)
            for node, claim in zip(self._nodes, self._claims, strict=True)
        }
        wanted = {pod.key: pod_requests(pod) for pod in pods}
        cpus, memory = (sum(one.get(what, 0) for one in wanted.values()) for what in (CPU, MEMORY))
        prices = [
            (min(p / max(1, c) for c, _, p in rooms), 0.0),
            (0.0, min(p / max(1, m) for _, m, p in rooms)),
        ]
        for (c, m, p), (other_c, other_m, other_p) in combinations(rooms, 2):
            if apart := c * other_m - other_c * m:
                prices.append(((p * other_m - other_p * m) / apart, (c * other_p - other_c * p) / apart))
        cpu, byte = max(
            (
                (x, y)
                for x, y in prices
                if x >= 0 <= y and all(x * c + y * m <= p * (1 + 1e-9) for c, m, p in rooms)
            ),
            key=lambda one: one[0] * cpus + one[1] * memory,
        )
        return {key: cpu * one.get(CPU, 0) + byte * one.get(MEMORY, 0) for key, one in wanted.items()}

    def draw(self, number: int) -> Followed | None:
        """A plan, another one for each number; None where a pod has no place in it, where pools or quotas do
        not allow it, and once too much was tried.
        """
        chance, bias = stream(number, "by queue", "draw"), BIASES[number % len(BIASES)]
        noise = NOISE * (number >= len(BIASES))
        favour = {choice: 1 + noise * chance.uniform(-1, 1) for choice in self._choices}
        waiting, there, at = list(self._openings.waiting), list(self._openings.opened), dict[str, str]()
        bought: list[tuple[str, int]] = []
        while waiting and self.steps < MOST_STEPS:
            best, most = tuple[int, ...](), 0.0
            for choice in self._choices:
                names = self._open(choice, len(bought))
                found = dict(at)
                self._fill(waiting, names, there, found)
                worth = sum(self._worth[key] for key in found.keys() - at.keys())
                each = favour[choice] * worth / sum(self._claims[one].price for one in choice) ** (1 - bias)
                if each > most:
                    best, most = choice, each
                self._undo(names, found, at)
            if not best:
                break
            names = self._open(best, len(bought))
            waiting = self._fill(waiting, names, there, at)
            there += names
            bought += zip(names, best, strict=True)
        self._undo([name for name, _ in bought], at, {})
        return None if waiting else self._written(bought, at)

    def _open(self, choice: Sequence[int], number: int) -> list[str]:
        names = list[str]()
        for claim in choice:
            name = f"{self._claims[claim].pool}-queue-{number + len(names)}"
            node = _called(name, self._nodes[claim])
            # What is known of a pod is remembered by its key.
            self._openings.add(
                NodeView.planned(node), [_renamed(pod, f"{name}-{claim}") for pod in node.pods]
            )
            names.append(name)
        return names

    def _fill(
        self, waiting: list[Pod], names: Sequence[str], there: Sequence[str], at: dict[str, str]
    ) -> list[Pod]:
        """The pods that are left once these nodes have opened, one after the other."""
        opened = list(there)
        for name in names:
            opened.append(name)
            waiting = self._openings.fill(waiting, (name,), opened, at)
        return waiting

    def _undo(self, names: Iterable[str], found: Mapping[str, str], kept: Mapping[str, str]) -> None:
        """These nodes are not bought, and what was found beside what is kept is not there."""
        self._openings.take_back({key: self._asked[key] for key in found if key not in kept}, found)
        for name in names:
            self._openings.remove(name)

    def _written(self, bought: Sequence[tuple[str, int]], at: Mapping[str, str]) -> Followed | None:
        used = set(at.values())
        claims = tuple(replace(self._claims[one], name=name) for name, one in bought if name in used)
        return Followed(claims, at) if _allowed(self._problem, claims) else None


def _called(name: str, node: ExistingNode) -> ExistingNode:
    return replace(node, name=name, labels={**node.labels, labels.HOSTNAME: name})


def _renamed(pod: Pod, prefix: str) -> Pod:
    name = f"{prefix}-{pod.metadata.name.rsplit('-', 1)[1]}"
    return structs.replace(pod, metadata=structs.replace(pod.metadata, name=name))


def _allowed(problem: Problem, claims: Sequence[PlannedClaim]) -> bool:
    """True iff no limit of a pool, reservation or quota is in the way of all of them together."""
    drawn = defaultdict[str, int](int)
    taken = defaultdict[str, int](int)
    left = dict(problem.commons)
    for claim in claims:
        _, _, offering = sold(problem, claim)
        for name, amount in offering.draws:
            drawn[name] += amount
        if offering.reservation_id:
            taken[offering.reservation_id] += 1
            left[offering.reservation_id] = offering.reservation_capacity
    if any(amount > left.get(name, amount) for name, amount in (drawn | taken).items()):
        return False
    for pool in problem.pools:
        kinds = [sold(problem, claim)[1] for claim in claims if claim.pool == pool.name]
        used = add(pool.usage, total((*(kind.capacity for kind in kinds), {"nodes": len(kinds)})))
        if pool.limits is not None and not fits({n: used.get(n, 0) for n in pool.limits}, pool.limits):
            return False
    return True
