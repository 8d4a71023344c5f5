"""What becomes of a plan when the scheduler places its pods: played pod by pod, without a cluster around it.

The plan is proven to hold when each pod is where it says. The scheduler takes one pod after the other, goes
by its own scores where no nomination names a node, and waits for no node that is not up. Here filters,
scores and nominations of the simulated scheduler decide, while nodes come up after times, and pods are tried
in an order, that are drawn anew for each try. What finds no place then is planned for a second time. Where
nothing is nominated, each try begins with what the controller would make of the plan for that order of the
queue (see `refit`), and its nodes open one after the other as they do there (see `openings`).
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from dovetail.api.core import Pod, PodStatus
from dovetail.base.streams import stream
from dovetail.controllers.nodeclaim.register import OPENING
from dovetail.controllers.provisioning.causes import (
    AFFINITY,
    ORDER,
    OTHER,
    PRIORITY,
    SCORE,
    SPREAD,
    TAINT,
    leans,
)
from dovetail.controllers.provisioning.dealt import dealt
from dovetail.controllers.provisioning.even import evened
from dovetail.controllers.provisioning.important import LITTLE
from dovetail.controllers.provisioning.openings import (
    FEW_PODS,
    MOST_AT_ONCE,
    MOST_BESIDE,
    MOST_NODES,
    MOST_NODES_AT_ONCE,
    Openings,
    planned_first,
)
from dovetail.controllers.provisioning.order import in_turn
from dovetail.controllers.provisioning.planned import planned_node
from dovetail.controllers.provisioning.refit import Refit
from dovetail.model.cluster_view import NodeView
from dovetail.model.filters import Placement
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.model.scores import best_node
from dovetail.simulate.scenario.latency import Distribution, Latencies
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.feasible import Feasibility, Nominations
from dovetail.solve.solver import solve

Answer = TypeVar("Answer")

MOST_TRIES = 5
_SECOND_PLAN = Budget(100_000)  # of work for the few pods that are left over


@dataclass(frozen=True, slots=True)
class Outcome:
    """One try. `elsewhere` says why of each pod that is on no node which a pod like it was planned to."""

    here: int
    elsewhere: Mapping[str, str]
    left: tuple[str, ...]  # of them, those that found no place on any node of the plan
    stranded: tuple[str, ...]  # of these, those that a second plan has no place for either
    hourly: int  # nano-dollars per hour: the plan's nodes, and those that have to be bought for what is left


@dataclass(frozen=True, slots=True)
class Forecast:
    """All tries; at least one."""

    outcomes: tuple[Outcome, ...]

    @property
    def expected(self) -> int:
        """The mean cost, in nano-dollars per hour."""
        return round(statistics.mean(one.hourly for one in self.outcomes))

    @property
    def least(self) -> int:
        return min(one.hourly for one in self.outcomes)

    @property
    def most(self) -> int:
        return max(one.hourly for one in self.outcomes)

    @property
    def here(self) -> float:
        """The share of pods that went where the plan put them, 0.0 to 1.0."""
        pods = sum(one.here + len(one.elsewhere) for one in self.outcomes)
        return sum(one.here for one in self.outcomes) / pods if pods else 1.0

    @property
    def stranded(self) -> tuple[str, ...]:
        """Pods that had no place in the end of some try, whatever was bought."""
        return tuple(sorted({pod for one in self.outcomes for pod in one.stranded}))

    @property
    def causes(self) -> Mapping[str, str]:
        """Pod -> the most frequent cause, of pods that went elsewhere in any try."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self.outcomes:
            for pod, cause in one.elsewhere.items():
                found[pod][cause] += 1
        return {pod: causes.most_common(1)[0][0] for pod, causes in sorted(found.items())}


def forecast(
    problem: Problem,
    plan: Plan,
    *,
    nominate: bool = True,
    tries: int = MOST_TRIES,
    over: Callable[[], bool] = lambda: False,
) -> Forecast | None:
    """Play the plan; as many of the `tries` as end before the time is `over`, None if not even one does.

    Without `nominate` there are no nominations. The same number of tries gives the same answer. A try
    takes the time of all filters for each pod, on one node where nominations hold and on all where not, or
    on some of a large cluster.
    """
    outcomes = []
    with suppress(_OutOfTimeError):
        for seed in range(tries):
            outcomes.append(_Try(problem, plan, seed, nominate=nominate, over=over).play())
    return Forecast(tuple(outcomes)) if outcomes else None


class _OutOfTimeError(Exception):
    """A try is given up."""


class _Try:
    """Invariant: `_waiting` holds the pods of the plan without a node, in the order of the queue."""

    def __init__(
        self, problem: Problem, plan: Plan, seed: int, *, nominate: bool, over: Callable[[], bool]
    ) -> None:
        self._over = over
        self._problem = problem
        self._seed = seed
        self._nominate = nominate
        pods = []
        for pod in problem.pods:
            self._look_at_time()
            pods.append(_named(pod))
        stream(seed, "queue", "order").shuffle(pods)
        pods.sort(key=lambda pod: -pod.spec.priority)
        queue = [pod.key for pod in pods]
        if not nominate:
            plan = _done(Refit(problem, queue, _asked, self._pause).better(plan))
        self._plan = plan = in_turn(problem, dealt(problem, evened(problem, plan)), queue)
        self._meant = {pod: one.name for one in plan.claims for pod in one.pods}
        self._meant |= {pod: node for node, pods in plan.existing.items() for pod in pods}
        self._waiting = {pod.key: pod for pod in pods if pod.key in self._meant}
        self._pods = dict(self._waiting)
        self._at: dict[str, str] = {}
        self._why: dict[str, str] = {}
        asked = {pod.key: pod for pod in problem.pods}
        self._claims: dict[str, tuple[PlannedClaim, ExistingNode]] = {}
        for one in plan.claims:
            self._look_at_time()
            self._claims[one.name] = one, planned_node(problem, one, asked)
        self._cluster = Cluster()
        self._cluster.view.volumes = problem.volumes
        for name, tags in problem.namespaces.items():
            self._cluster.set_namespace(name, dict(tags))
        for node in problem.nodes:
            if not node.in_flight:
                self._add(node)
        self._nominations = Nominations(self._cluster.view)
        self._feasibility = Feasibility(self._cluster, self._nominations)

    def play(self) -> Outcome:
        """Nodes open, one group after the other; after each the scheduler tries all pods until none fits."""
        self._schedule()
        coming = [*self._claims, *(node.name for node in self._problem.nodes if node.in_flight)]
        for names in self._one_by_one(coming) if self._in_turn(coming) else self._as_they_come(coming):
            self._look_at_time()
            for name in names:
                self._add(self._opened(name))
            self._schedule()
        return self._outcome()

    async def _pause(self) -> None:
        self._look_at_time()

    def _look_at_time(self) -> None:
        if self._over():
            raise _OutOfTimeError

    def _add(self, node: ExistingNode) -> None:
        self._cluster.set_view(NodeView.planned(node))
        for pod in node.pods:
            self._cluster.bind(pod, node.name)

    def _opened(self, name: str) -> ExistingNode:
        if name in self._claims:
            return self._claims[name][1]
        return next(node for node in self._problem.nodes if node.name == name)

    def _in_turn(self, coming: Sequence[str]) -> bool:
        """True iff the nodes are held until all are up, and open one after the other."""
        view = self._cluster.view
        ordered = any(one.opens for one in self._plan.claims)
        pods, nodes = (MOST_AT_ONCE, MOST_NODES_AT_ONCE) if ordered else (FEW_PODS, MOST_NODES)
        few = len(self._waiting) <= pods and len(view.nodes) <= MOST_BESIDE
        return not self._nominate and few and 1 < len(coming) <= nodes

    def _one_by_one(self, coming: Sequence[str]) -> Iterator[Sequence[str]]:
        """Groups of nodes, in the order in which most pods find room; it is looked for after each anew. What
        was planned to open at once does so.
        """
        turns = {one.name: one.opens for one, _ in self._claims.values() if one.opens}
        order, closed = list(turns), list(coming)
        for name in closed:
            self._add(self._opened(name))
        while closed:
            openings = Openings(self._cluster.view, tuple(self._waiting.values()), closed)
            names = first = planned_first({name: turns[name] for name in order})
            if len(first) < 2:
                for found in openings.search(order):
                    self._look_at_time()
                    names, order = found.order[0], list(found.turns)
            order, closed = ([name for name in some if name not in names] for some in (order, closed))
            yield names

    def _as_they_come(self, coming: Sequence[str]) -> Iterator[Sequence[str]]:
        """Groups of nodes in the order in which they are up; those on which pods lean are held for all."""
        times = Latencies()
        parts = [Distribution.of(one) for one in (times.launch, times.boot, times.ready)]
        up = {name: sum(one.draw(self._seed, name, str(n)) for n, one in enumerate(parts)) for name in coming}
        together = {self._meant[key] for key, pod in self._pods.items() if leans(pod)} & up.keys()
        up |= dict.fromkeys(together, max(up.values(), default=0))
        groups: dict[int, list[str]] = defaultdict(list)
        for name, at in up.items():
            groups[at].append(name)
        for at in sorted(groups):
            yield groups[at]

    def _schedule(self) -> None:
        bound = True
        while bound and self._waiting:
            self._nominate_all()
            bound = False
            for pod in tuple(self._waiting.values()):
                bound = self._try(pod) or bound

    def _nominate_all(self) -> None:
        if self._nominate:
            for key, pod in self._waiting.items():
                name = self._meant[key]
                if name in self._cluster.view.nodes:
                    self._waiting[key] = _nominated(pod, name)
                    self._nominations.set(pod, name)

    def _try(self, pod: Pod) -> bool:
        """One attempt; one that fails takes the nomination away."""
        self._look_at_time()
        key = pod.key
        found = self._feasibility.judge(pod).nodes
        meant = self._cluster.view.nodes.get(self._meant[key])
        meant = meant if meant is not None and OPENING not in meant.taints else None
        if meant is not None and meant.name not in {node.name for node in found}:
            self._why.setdefault(key, self._refusal(pod, meant))
        self._nominations.drop(pod.metadata.uid)
        if not found:
            self._waiting[key] = _nominated(pod, "")
            return False
        name = best_node(pod, found, self._cluster.occupancy, self._seed, "choice").name
        self._why.setdefault(key, TAINT if meant is None else SCORE)
        del self._waiting[key]
        self._at[key] = name
        self._cluster.bind(pod, name)
        return True

    def _refusal(self, pod: Pod, meant: NodeView) -> str:
        """Why the scheduler does not put the pod where it was meant to go; of a large cluster it may not even
        have looked there.
        """
        ahead = self._nominations.ahead_of(pod, meant.name)
        reasons = Placement(pod, self._cluster.view).examine(meant, ahead)
        if not reasons:
            return SCORE
        text = reasons[0].text
        if text.startswith(("Insufficient", "Too many pods")):
            others = (*meant.pods.values(), *ahead)
            above = any(one.pod.spec.priority > pod.spec.priority for one in others)
            return PRIORITY if above else ORDER
        if "topology spread" in text:
            return SPREAD
        return AFFINITY if "affinity" in text else OTHER

    def _outcome(self) -> Outcome:
        like = Counter((self._meant[key], _owner(pod)) for key, pod in self._pods.items())
        here, elsewhere = 0, {}
        for key, pod in self._pods.items():
            place = self._at.get(key, ""), _owner(pod)
            if like[place] > 0:
                like[place] -= 1
                here += 1
            else:
                elsewhere[key] = self._why.get(key, TAINT)
        left = tuple(self._waiting)
        second = self._planned_again(left) if left else Plan()
        stranded = tuple(item.pod for item in second.unschedulable)
        return Outcome(here, elsewhere, left, stranded, self._plan.cost.hourly + second.cost.hourly)

    def _planned_again(self, left: Sequence[str]) -> Plan:
        there: dict[str, list[Pod]] = defaultdict(list)
        for key, name in self._at.items():
            there[name].append(self._pods[key])
        known = [*self._problem.nodes, *(node for _, node in self._claims.values())]
        nodes = tuple(replace(node, pods=(*node.pods, *there[node.name])) for node in known)
        pods = tuple(self._pods[key] for key in left)
        return solve(replace(self._problem, pods=pods, nodes=nodes), _SECOND_PLAN)


async def _asked(problem: Problem, work: int) -> Plan:
    return solve(problem, Budget.within(work * LITTLE))


def _done(work: Coroutine[Any, Any, Answer]) -> Answer:
    """What it comes to; it waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    raise AssertionError


def _named(pod: Pod) -> Pod:
    """With a UID, which pods of manifests have not."""
    meta = pod.metadata
    return (
        pod if meta.uid else msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, uid=pod.key))
    )


def _nominated(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, status=PodStatus(nominated_node_name=node))


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller()
    return owner.uid or owner.name if owner is not None else pod.key
