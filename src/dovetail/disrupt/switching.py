"""What a cluster costs, day by day, once Dovetail consolidates it.

Pure. The moves are those that consolidation finds; when each may be made is decided by what holds it in
production too: budgets of pools, the limit on moves per pod and day, quiet times. Pods stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

from msgspec.structs import replace as changed

from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import DAY, HOUR, MINUTE, SECOND
from dovetail.cluster.problem import ClusterObjects
from dovetail.disrupt.bill import (
    Parts,
    Price,
    Prices,
    Solve,
    applied,
    bought_price,
    candidate,
    parts,
    searched,
)
from dovetail.disrupt.budgets import allows_any, pool_allows
from dovetail.disrupt.candidates import NodeView, blocker
from dovetail.disrupt.command import UNDERUTILIZED
from dovetail.disrupt.consolidation.balanced import Totals, totals
from dovetail.disrupt.consolidation.candidates import obstacle
from dovetail.disrupt.consolidation.churn import REST, WINDOW, Ledger, Present
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.question import MOST_AVOIDED, Candidate, Move, Question
from dovetail.disrupt.consolidation.saving import Minimum, pool_minimum
from dovetail.disrupt.minimum import left
from dovetail.disrupt.pods import Budgets
from dovetail.disrupt.standing import node_views
from dovetail.disrupt.static import is_static
from dovetail.model import labels
from dovetail.model.problem import ExistingNode, Problem
from dovetail.solve.budget import SolveBudget
from dovetail.units.duration import parse_nillable
from dovetail.units.timestamp import parse_rfc3339, to_rfc3339

# The nodes after a move with the pods where its plan has them, the pods that moved, and the names of nodes
# that ask pods to go elsewhere -> by key of each pod that moved the node that it is bound to.
Bind = Callable[[Sequence[ExistingNode], Sequence[Pod], Set[str]], Mapping[str, str]]

_LOOK = 5 * MINUTE  # after a search that found nothing: not every end of a quiet time is looked at
_SCHEDULED = 15 * MINUTE  # windows of budgets begin and end


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in nanoseconds, and the controller's settings.

    `rising`: from a launch to a node that takes pods. `restarted`: from a pod's eviction until the one in its
    place is ready. `ending`: from the last pod's end until nothing is paid any more.
    """

    rising: int = 36 * SECOND
    restarted: int = 7 * SECOND
    ending: int = 37 * SECOND
    quiet: int = 15 * SECOND  # from a decision to its validation
    moves_per_pod: int = 1  # within 24 h
    minimum: Minimum = field(default_factory=Minimum)
    spot_to_spot: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A move that was begun at `at` (ns since the switch): what it saves once it is done at `done`."""

    at: int
    done: int
    pods: int
    gone: int
    bought: int
    saving: int  # nano-dollars per hour


@dataclass(frozen=True, slots=True)
class Ageing:
    """A node that is there in the end, and those in its stead: it reaches its age at `first` (ns since the
    switch), its successor `age` later, and so on. Each time `pods` are made anew elsewhere.
    """

    first: int
    age: int
    pods: int

    def times(self, start: int, end: int) -> int:
        """How often in this time."""

        def until(at: int) -> int:
            return max(0, -(-(at - self.first) // self.age))

        return until(end) - until(start)


@dataclass(frozen=True, slots=True)
class Switching:
    """Money in nano-dollars per hour. `before` - `after` is packing + types + spot + daemons.

    `complete` is False iff the search ran out of time: then more may be saved than is said.
    """

    before: int
    after: int
    made: tuple[Made, ...]
    packing: int
    types: int
    spot: int
    daemons: int
    held: Mapping[str, int]  # why nodes take no part -> how many
    nodes: tuple[int, int]
    complete: bool
    on_demand: tuple[int, int]  # list prices of the instances on demand, at first and in the end
    ageing: tuple[Ageing, ...] = ()
    _steps: tuple[tuple[int, int], ...] = ()  # (ns since the switch, nano-dollars per hour from then on)

    def rate(self, at: int) -> int:
        """Nano-dollars per hour at an instant (ns since the switch)."""
        place = bisect_left(self._steps, (at + 1, 0)) - 1
        return self._steps[place][1]

    def cost(self, start: int, end: int) -> int:
        """Nano-dollars from one instant to another."""
        inside = [at for at, _ in self._steps if start < at < end]
        points = [start, *inside, end]
        paid = sum(self.rate(one) * (two - one) for one, two in pairwise(points))
        return paid // HOUR

    def moved(self, start: int, end: int) -> int:
        """Pods whose move began in this time."""
        return sum(one.pods for one in self.made if start <= one.at < end)

    def expired(self, start: int, end: int) -> tuple[int, int]:
        """Nodes that reach their age in this time, and their pods."""
        times = [(one.times(start, end), one.pods) for one in self.ageing]
        return sum(count for count, _ in times), sum(count * pods for count, pods in times)


def switching(
    problem: Problem,
    objects: ClusterObjects,
    prices: Prices,
    what_if: Solve,
    bind: Bind,
    work: SolveBudget,
    pace: Pace,
    length: int,
    now: int,
    taken: int,
) -> Switching:
    """From `now` on for `length`, with nodes as old as they were at `taken` (both ns since the epoch).

    Nodes without a NodePool or a price stay.
    """
    return _Course(problem, objects, prices, bind, pace, now, taken).played(what_if, work, length)


@dataclass(frozen=True, slots=True)
class _Flight:
    """Nodes on their way out; budgets count them until their instances are asked to end."""

    until: int
    nodes: Mapping[str, int]  # by pool


class _Course:
    """The state while time goes on. `_since` says from when on a node that got pods may be looked at."""

    def __init__(
        self,
        problem: Problem,
        objects: ClusterObjects,
        prices: Prices,
        bind: Bind,
        pace: Pace,
        now: int,
        taken: int,
    ) -> None:
        self._start = self._now = now
        self._bind = bind
        self._pace = pace
        self._pools = {pool.metadata.name: pool for pool in objects.pools}
        views = [
            replace(view, price=prices[view.name].hourly if view.name in prices else None)
            for view in node_views(objects)
        ]
        self._held = dict(self._holding(views, Budgets(objects.pdbs)))
        free = {view.name for view in views} - self._held.keys()
        self._totals: dict[str, Totals] = totals(views, 0)
        self._budgets = Budgets(objects.pdbs)
        self._standing = replace(problem, pods=())
        self._prices: dict[str, Price] = dict(prices)
        self._costs = {name: price.hourly for name, price in prices.items() if name in free}
        self._fixed = sum(price.hourly for name, price in prices.items() if name not in free)
        self._born = {
            view.name: now - taken + parse_rfc3339(view.claim.metadata.creation_timestamp) for view in views
        }
        self._ages = {view.name: view.claim.spec.expire_after for view in views}
        self._since: dict[str, int] = {}
        self._fresh: dict[str, int] = {}  # nodes that a move bought, and until when they are left alone
        self._flights: list[_Flight] = []
        self._ledger = Ledger(pace.moves_per_pod)
        self._recorded: list[int] = []
        self._avoided: frozenset[str] = frozenset()  # nodes that ask pods to go elsewhere
        self._names = count()
        self._memory = Memory()
        self._made: list[Made] = []
        self._events: list[tuple[int, int]] = []  # (instant, change of what is paid per hour)

    def played(self, what_if: Solve, work: SolveBudget, length: int) -> Switching:
        before, nodes = self._fixed + sum(self._costs.values()), len(self._standing.nodes)
        first, listed = self._parts(), self._on_demand()
        end, complete = self._start + length, True
        while self._now < end:
            if not work.left:
                complete = False
                break
            question = self._question()
            if any(question.allowed.values()):
                turn = searched(question, self._memory, what_if, work, self._now)
                if turn.next is not None:
                    self._avoided = frozenset(self._going(turn.next))
                if turn.move is not None:
                    self._make(turn.move)
                    continue
                if not turn.complete and not work.left:
                    complete = False
                    break
            if not self._wait(question.allowed, end):
                break
        last = self._parts()
        return Switching(
            before,
            self._fixed + sum(self._costs.values()),
            tuple(self._made),
            packing=first.unused - last.unused,
            types=first.listed - last.listed,
            spot=(first.used - last.used) - (first.listed - last.listed),
            daemons=first.daemons - last.daemons,
            held=dict(Counter(self._held.values()).most_common()),
            nodes=(nodes, len(self._standing.nodes)),
            complete=complete,
            on_demand=(listed, self._on_demand()),
            ageing=tuple(self._ageing()),
            _steps=tuple(self._steps(before)),
        )

    def _holding(self, views: Sequence[NodeView], budgets: Budgets) -> Iterator[tuple[str, str]]:
        """Nodes that take no part, and why, as far as it is known now."""
        for view in views:
            why = blocker(view, budgets, self._now) or obstacle(view)
            if not why and is_static(view.pool):
                why = f'NodePool "{view.pool_name}" has a number of nodes (spec.replicas)'
            if why:
                yield view.name, why

    def _allowed(self) -> dict[str, int]:
        """How many nodes budgets let go now, by pool."""
        self._flights = [one for one in self._flights if one.until > self._now]
        going = Counter[str]()
        for one in self._flights:
            going.update(one.nodes)
        there = Counter(node.pool for node in self._standing.nodes)
        return {
            name: pool_allows(pool, UNDERUTILIZED, there[name] + going[name], going[name], self._now)
            for name, pool in self._pools.items()
        }

    def _going(self, names: Sequence[str]) -> Sequence[str]:
        """Those of them that ask pods to go elsewhere: budgets let some of their pools' nodes go."""
        pools = {name for name, pool in self._pools.items() if allows_any(pool, UNDERUTILIZED, self._now)}
        pool_of = {node.name: node.pool for node in self._standing.nodes}
        return [name for name in names if pool_of[name] in pools][:MOST_AVOIDED]

    def _question(self) -> Question:
        restless = frozenset(name for name, since in self._since.items() if since > self._now)
        pods = [pod for node in self._standing.nodes for pod in node.pods]
        found = tuple(
            self._candidate(node)
            for node in self._standing.nodes
            if node.name in self._costs and node.name not in restless
        )
        return Question(
            self._standing,
            found,
            self._allowed(),
            self._ledger.left(Present(pods), self._now),
            restless=restless,
            spot_to_spot=self._pace.spot_to_spot,
            totals=self._totals,
            fresh={name: until for name, until in self._fresh.items() if until > self._now},
            spare=self._spare(),
        )

    def _spare(self) -> dict[str, int]:
        """How many nodes of pools that keep a number may go without others."""
        there = Counter(node.pool for node in self._standing.nodes)
        found = {name: left(pool, there[name]) for name, pool in self._pools.items()}
        return {name: count for name, count in found.items() if count is not None}

    def _candidate(self, node: ExistingNode) -> Candidate:
        pool = self._pools.get(node.pool)
        minimum = pool_minimum(pool.metadata.annotations if pool else {}, self._pace.minimum)
        return replace(candidate(node, self._costs[node.name]), minimum=minimum)

    def _make(self, move: Move) -> None:
        """It begins after the time that decisions rest, and the next one is looked for at once."""
        self._now += self._pace.quiet
        pods = [pod for one in move.candidates for pod in one.pods]
        drained = self._now + (self._pace.rising if move.claims else 0) + self._drained(pods)
        done = drained + self._pace.ending
        by_pool = Counter(one.pool for one in move.candidates)
        for pool in by_pool:
            moved = [pod for one in move.candidates if one.pool == pool for pod in one.pods]
            self._ledger.record(pool, moved, self._now)
        self._recorded.append(self._now + WINDOW)
        self._flights.append(_Flight(drained, by_pool))
        old = {one.name: one.price for one in move.candidates}
        known = self._costs.keys() - old.keys()
        born = to_rfc3339(done)
        planned = applied(self._standing, move, self._costs, self._names, lambda pod: _born(pod, born))
        for name in old:
            self._prices.pop(name)
        bought = self._costs.keys() - known
        by_name = {node.name: node for node in planned.nodes}
        for claim, name in zip(move.claims, sorted(bought, key=_number), strict=True):
            self._prices[name] = bought_price(claim, planned)
            self._born[name] = done
            self._fresh[name] = self._now + REST
        touched = {*move.places, *bought}
        if not move.claims:
            # Where nodes are bought first, pods are nominated; else the scheduler is faster than nominations.
            places = self._bind(planned.nodes, pods, self._avoided)
            planned = replace(planned, nodes=tuple(_rebound(planned.nodes, places)))
            touched = set(places.values())
        self._standing = planned
        for name in touched & by_name.keys():
            self._since[name] = done + self._quiet(by_name[name].pool)
        self._events += [(self._now, self._costs[name]) for name in bought]
        self._events.append((done, -sum(old.values())))
        self._made.append(
            Made(
                self._now - self._start,
                done - self._start,
                len(pods),
                len(move.candidates),
                len(move.claims),
                move.saving,
            )
        )

    def _quiet(self, pool: str) -> int:
        found = self._pools.get(pool)
        return (parse_nillable(found.spec.disruption.consolidate_after) or 0) if found is not None else 0

    def _drained(self, pods: Sequence[Pod]) -> int:
        """As many restarts one after the other as the tightest PodDisruptionBudget asks for."""
        waiting = Counter(budget.key for pod in pods for budget in self._budgets.of(pod))
        allowed = {
            budget.key: budget.status.disruptions_allowed for pod in pods for budget in self._budgets.of(pod)
        }
        waves = max((-(-number // max(1, allowed[key])) for key, number in waiting.items()), default=1)
        return waves * self._pace.restarted

    def _wait(self, allowed: Mapping[str, int], end: int) -> bool:
        """Go on to when budgets allow other than `allowed`, or all else may differ; False: never."""
        times = [one.until for one in self._flights]
        last = min(times, default=end)
        if any(allowed.values()):
            times += [since for since in self._since.values() if since > self._now]
            times += [at for at in (*self._recorded, *self._fresh.values()) if at > self._now]
            last = max(min(times, default=end), self._now + _LOOK)
        if any(self._scheduled(pool) for pool in self._pools.values()):
            while self._now + _SCHEDULED < last:
                self._now += _SCHEDULED
                if self._allowed() != allowed:
                    return True
        self._now = last
        return last < end

    def _scheduled(self, pool: NodePool) -> bool:
        return any(one.schedule is not None for one in pool.spec.disruption.budgets)

    def _parts(self) -> Parts:
        priced = (node for node in self._standing.nodes if node.name in self._prices)
        return sum((parts(node, self._prices[node.name]) for node in priced), Parts())

    def _on_demand(self) -> int:
        return sum(
            self._prices[node.name].listed
            for node in self._standing.nodes
            if node.name in self._prices and node.labels.get(labels.CAPACITY_TYPE) != labels.SPOT
        )

    def _ageing(self) -> Iterator[Ageing]:
        """Of nodes that have an age: one that is due already ends at once."""
        for node in self._standing.nodes:
            pool = self._pools.get(node.pool)
            given = self._ages.get(node.name) or (pool.spec.template.spec.expire_after if pool else "")
            age = parse_nillable(given) if given else None
            if age and node.name in self._born:
                first = max(0, self._born[node.name] + age - self._start)
                yield Ageing(first, age, len(candidate(node, 0).pods))

    def _steps(self, before: int) -> Iterator[tuple[int, int]]:
        rate = before
        yield 0, rate
        for at, change in sorted(self._events):
            rate += change
            yield at - self._start, rate


def _rebound(nodes: Sequence[ExistingNode], places: Mapping[str, str]) -> Iterator[ExistingNode]:
    """With each of these pods on its node; they may be on others."""
    came: dict[str, list[Pod]] = {}
    for node in nodes:
        for pod in node.pods:
            if places.get(pod.key, node.name) != node.name:
                came.setdefault(places[pod.key], []).append(pod)
    for node in nodes:
        stay = [pod for pod in node.pods if places.get(pod.key, node.name) == node.name]
        new = came.get(node.name, ())
        yield replace(node, pods=(*stay, *new)) if new or len(stay) < len(node.pods) else node


def _born(pod: Pod, at: str) -> Pod:
    return changed(pod, metadata=changed(pod.metadata, creation_timestamp=at))


def _number(name: str) -> int:
    """Of a node that `applied` bought, in the order in which it did."""
    return int(name.rpartition("+")[2])


def days(found: Switching, numbers: Sequence[int]) -> dict[int, int]:
    """Nano-dollars of the first, the seventh day and so on."""
    return {number: found.cost((number - 1) * DAY, number * DAY) for number in numbers}
