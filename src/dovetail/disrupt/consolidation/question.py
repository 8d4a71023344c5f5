"""What a search for cheaper nodes is asked, and what it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dovetail.api.core import Pod, Toleration
from dovetail.cluster.devices import imagined_away
from dovetail.devices.demand import in_rows
from dovetail.disrupt.consolidation.balanced import BALANCED, Score, Totals, scores
from dovetail.disrupt.consolidation.churn import MoveBudget, Moves, rests_since
from dovetail.disrupt.consolidation.demand import Asked, Demand, demand, may_keep_spot_out
from dovetail.disrupt.consolidation.saving import Minimum
from dovetail.disrupt.minimum import without
from dovetail.model import labels
from dovetail.model.devices import ClusterDevices, claims_devices
from dovetail.model.labels import ALIASES
from dovetail.model.plan import PlannedClaim
from dovetail.model.pod_sorts import Sort, sort_of
from dovetail.model.problem import ExistingNode, Pool, Problem
from dovetail.model.resources import add, subtract
from dovetail.model.shared_limits import given_back
from dovetail.model.spread import SpreadRule

NODES = "nodes"
MOST_AVOIDED = 50  # nodes that ask pods to go elsewhere at the same time: they go one after the other

MULTI, SINGLE = "multi", "single"  # sets of nodes, and one node after the other

Offer = tuple[str, str, str]  # what a node was bought as: instance type, zone, capacity type


@dataclass(frozen=True, slots=True)
class Alike:
    """Pods of a node that ask for the same and have the same labels, and the spread that they share."""

    sample: Pod
    rule: SpreadRule
    number: int


@dataclass(frozen=True)
class Candidate:
    """A node that may go, nothing stands against it. `pods` are those that would have to move, unbound.

    What follows from its pods alone is worked out once: candidates that did not change are the same.
    """

    name: str  # as in the problem
    pool: str
    offer: Offer
    price: int  # nano-dollars per hour, all parts of it
    cost: float  # of evicting its pods: 1 for each ordinary one
    pods: tuple[Pod, ...]
    minimum: Minimum = field(default_factory=Minimum)

    @property
    def spot(self) -> bool:
        return self.offer[2] == labels.SPOT

    @cached_property
    def _demands(self) -> tuple[Demand, ...]:
        return tuple(map(demand, self.pods))

    @cached_property
    def workloads(self) -> Mapping[str, int]:
        """Workload -> how many of its pods are of it."""
        return Counter([one.workload for one in self._demands])

    @cached_property
    def kinds(self) -> Mapping[Asked, int]:
        """What a pod asks for -> how many of its pods do."""
        return Counter([one.asked for one in self._demands])

    @cached_property
    def resources(self) -> frozenset[str]:
        """Names of all that its pods ask for."""
        return frozenset(name for each in self.kinds for name, _ in each)

    @cached_property
    def tolerations(self) -> frozenset[tuple[Toleration, ...]]:
        """Those of each of its pods."""
        return frozenset([one.tolerations for one in self._demands])

    @cached_property
    def keeps_spot_out(self) -> bool:
        """True iff a claim with one of its pods, or near it, may have to be of another type than spot."""
        return any(map(may_keep_spot_out, self.pods))

    @cached_property
    def plannable(self) -> bool:
        """True iff all its pods are in plans, whatever volumes there are."""
        return all(one.plannable for one in self._demands)

    @cached_property
    def spread_keys(self) -> tuple[str, ...]:
        """For each of its pods the label whose values it is spread over; "" for others."""
        rules = (one.spread for one in self._demands)
        return tuple(ALIASES.get(rule.key, rule.key) if rule is not None else "" for rule in rules)

    @cached_property
    def spread(self) -> tuple[Alike, ...]:
        """Those of its pods that nothing but a spread keeps off nodes, and that alone count for it."""
        found: dict[Sort, tuple[Pod, SpreadRule, int]] = {}
        for pod, each in zip(self.pods, self._demands, strict=True):
            if each.spread is not None:
                sort = sort_of(pod)
                _, rule, number = found.get(sort, (pod, each.spread, 0))
                found[sort] = pod, rule, number + 1
        return tuple(Alike(*each) for each in found.values() if self._counted(each[1]) == each[2])

    def _counted(self, rule: SpreadRule) -> int:
        return sum(rule.counts(pod.metadata.namespace, pod.metadata.labels) for pod in self.pods)

    @property
    def needed(self) -> int:
        """Nano-dollars per hour that replacing it must save."""
        return self.minimum.of(self.price, self.cost)

    @property
    def content(self) -> tuple[object, ...]:
        """What shows whether the node is still as it was: its price and its pods, not how these fare."""
        return (self.price, *(pod.metadata.uid for pod in self.pods))

    @property
    def rank(self) -> tuple[float, str]:
        """Sorts what saves most per disrupted pod first, if it can go without replacement."""
        return (-self.price / (1 + self.cost), self.name)


@dataclass(frozen=True)
class Question:
    """Which of the candidates should go? `problem` has every node that stays for now, with its pods.

    Its own pods are those that need a place anyway: they are part of every what-if. Those that are `moving`
    (by key) are on nodes on their way out; those of them that are `settled` have a place elsewhere. No pod
    is moved to a `restless` node to save another, but what is bought is no larger for it: pods have room
    there.
    """

    problem: Problem
    candidates: tuple[Candidate, ...]
    allowed: Mapping[str, int]  # pool -> nodes that its budgets let go
    moves: Moves = field(default_factory=Moves)
    closed: frozenset[str] = frozenset()  # nodes that no pod may be moved to
    restless: frozenset[str] = frozenset()  # nodes that none is moved to where nothing is bought
    spot_to_spot: bool = False
    moving: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    totals: Mapping[str, Totals] = field(default_factory=dict)  # pool -> all of its nodes
    # Nodes that a command bought within the hour: to take one undoes it. Until when (nanoseconds).
    fresh: Mapping[str, int] = field(default_factory=dict)
    lately: frozenset[str] = frozenset()  # pods (by UID) that were moved within the hour to save money
    # Pool -> nodes that may go without others in their place, of pools that keep a number of nodes.
    spare: Mapping[str, int] = field(default_factory=dict)
    avoided: frozenset[str] = frozenset()  # nodes that ask pods to go elsewhere, since they go next
    reserved: frozenset[str] = frozenset()  # virtual pods (by UID) on nodes: the scheduler knows of none

    # All what-ifs have the very same nodes, so that what is worked out of one is not worked out again. Most
    # searches end without one.
    @cached_property
    def _nodes(self) -> tuple[ExistingNode, ...]:
        return _without_room(self._filled_first(), self.closed)

    @cached_property
    def _quiet(self) -> tuple[ExistingNode, ...]:
        return _without_room(self._nodes, self.restless)

    def _filled_first(self) -> Sequence[ExistingNode]:
        """The nodes in the order in which plans fill them: those that go next are the last."""
        resting = self.moves.resting
        going = sorted(self.candidates, key=lambda one: (rests_since(one.pods, resting), one.rank))
        place = {candidate.name: len(going) - index for index, candidate in enumerate(going)}
        return sorted(self.problem.nodes, key=lambda node: (not node.initialized, place.get(node.name, 0)))

    def move_budget(self, *, replacing: bool = False, alone: bool = False) -> MoveBudget:
        """All that budgets and the limit on moves allow; `alone`: of nodes that go without others."""
        allowed = without(self.allowed, self.spare) if alone else self.allowed
        return MoveBudget(allowed, self.moves.replacing if replacing else self.moves.deleting)

    def replaceable(self, candidate: Candidate) -> bool:
        """False for a spot node where spot may not follow spot."""
        return self.spot_to_spot or not candidate.spot

    def scores(self, candidates: Sequence[Candidate], saving: int) -> tuple[Score, ...]:
        """What saving so much (nano-dollars per hour) by taking these nodes is worth to their pools."""
        moved = [(candidate.pool, candidate.price, 1 + candidate.cost) for candidate in candidates]
        return scores(moved, saving, self.totals)

    def weighs(self, pool: str) -> bool:
        """True iff the pool's policy may refuse a move for its scores."""
        return pool in self.totals and self.totals[pool].policy == BALANCED

    def claims_anew(self, leaving: Iterable[Candidate]) -> ClusterDevices | None:
        """Devices as they are now, of which the pods of these nodes claim others."""
        now = self.problem.devices
        if now is None:
            return None
        after = imagined_away(now, (pod for one in leaving for pod in one.pods))
        return after if after is now else replace(after, exclusive=now.exclusive, consumed=now.consumed)

    @cached_property
    def _in_rows(self) -> tuple[Question, Mapping[str, Pod]]:
        """Itself with rows for claims, and the pods of candidates that have some."""
        claiming = [one for one in self.candidates if any(map(claims_devices, one.pods))]
        if self.problem.devices is None or not (claiming or self.problem.claims_devices):
            return self, {}
        moved = [pod for one in claiming for pod in one.pods if claims_devices(pod)]
        pods = (*self.problem.pods, *moved)
        seen = in_rows(replace(self.problem, pods=pods, devices=self.claims_anew(claiming)))
        own = {pod.key for pod in moved}
        waiting = tuple(pod for pod in seen.pods if pod.key not in own)
        theirs = {pod.key: pod for pod in seen.pods if pod.key in own}
        return replace(self, problem=replace(seen, pods=waiting)), theirs

    def in_rows(self, leaving: Sequence[Candidate]) -> tuple[Question, Sequence[Candidate]]:
        """For what knows nothing of claims for devices: what these take is a resource of nodes."""
        seen, theirs = self._in_rows
        if not theirs:
            return seen, leaving
        return seen, [
            replace(one, pods=tuple(theirs.get(pod.key, pod) for pod in one.pods))
            if any(pod.key in theirs for pod in one.pods)
            else one
            for one in leaving
        ]

    def without(self, leaving: Sequence[Candidate], *, quiet: bool = False) -> Problem:
        """The problem of placing the pods of these nodes, once the nodes are gone; `quiet`: on quiet ones."""
        gone = {candidate.name for candidate in leaving}
        away = [node for node in self.problem.nodes if node.name in gone]
        devices = self.problem.devices
        if devices is not None:
            devices = imagined_away(devices, (pod for one in leaving for pod in one.pods), gone)
        return replace(
            self.problem,
            devices=devices,
            pods=(*(pod for candidate in leaving for pod in candidate.pods), *self.problem.pods),
            nodes=tuple(node for node in (self._quiet if quiet else self._nodes) if node.name not in gone),
            pools=tuple(_relieved(pool, away) for pool in self.problem.pools),
            commons=given_back(self.problem.commons, self.problem.pools, away),
        )


@dataclass(frozen=True, slots=True)
class Move:
    """These nodes go; `claims` are bought first. `places` says which nodes that stay take which pods.

    `kept` is True iff the pods are to go to those very places, since nodes that go next rely on the rest;
    then `places` says it of the claims as well, and these hold pods of nodes that go next.
    """

    candidates: tuple[Candidate, ...]
    claims: tuple[PlannedClaim, ...] = ()
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scores: tuple[Score, ...] = ()
    kept: bool = False

    @property
    def saving(self) -> int:
        """Nano-dollars per hour."""
        return sum(candidate.price for candidate in self.candidates) - sum(
            claim.price for claim in self.claims
        )

    @property
    def cost(self) -> float:
        """Of evicting the pods, and of starting anew what runs on the nodes."""
        return sum(1 + candidate.cost for candidate in self.candidates)

    @property
    def rate(self) -> float:
        """Nano-dollars per hour that are saved per disrupted pod."""
        return self.saving / self.cost


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node stays, in the words of the event."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The best move that was found, or None, and what is known of nodes that stay.

    `bound` is what the pods of all candidates must cost at least, `hourly` what their nodes cost
    (nano-dollars); the bound is worked out with a move only.
    """

    move: Move | None
    refusals: tuple[Refusal, ...] = ()
    bound: int = 0
    hourly: int = 0
    others: tuple[Move, ...] = ()  # that were found as well and save less per disrupted pod, or in all
    tried: int = 0  # sets of nodes that were planned
    cut: str = ""  # MULTI or SINGLE: what was not looked at to the end, and will be when it is asked again
    # Nodes that should go after it, the emptiest in front; None if nothing new is known of that.
    next: tuple[str, ...] | None = None

    @property
    def complete(self) -> bool:
        """True iff the search has nothing more to look at."""
        return not self.cut


def _without_room(nodes: Sequence[ExistingNode], names: frozenset[str]) -> tuple[ExistingNode, ...]:
    return tuple(node.without_room() if node.name in names else node for node in nodes)


def _relieved(pool: Pool, away: Sequence[ExistingNode]) -> Pool:
    """The pool without these nodes: they count for its limits no more."""
    usage = pool.usage
    for node in away:
        if node.pool == pool.name:
            usage = subtract(usage, add(node.capacity, {NODES: 1}))
    return pool if usage is pool.usage else replace(pool, usage=usage)
