"""Spot nodes that nothing can follow: seen from free capacity and prices, before pods are appraised.

Where spot may not follow spot, nearly every node is too cheap for anything else, or nothing else may follow
it at all. Such clusters change with each pod, and nearly all searches ended with that, after two linear
programs about all their pods.

What is said here is proven, whatever plan would be made: what finds no room is bounded from below by what
pods ask for and what is free, rules between pods aside, and so is what nodes for that much cost. So of the
nodes that are held back none is in any move, and the search is about the others alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dovetail.api.core import Taint, Toleration
from dovetail.base.memo import by_identity
from dovetail.disrupt.consolidation.demand import Asked, Demand, demand, may_keep_spot_out
from dovetail.disrupt.consolidation.price import SPOT_DISABLED, UNSETTLED
from dovetail.disrupt.consolidation.question import Candidate, Question
from dovetail.disrupt.consolidation.spread_room import Reach
from dovetail.model import labels
from dovetail.model.arrays import Floats, Mask
from dovetail.model.left_out import left_out
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.problem import Pool, Problem
from dovetail.model.requirement import Requirements
from dovetail.model.resources import CPU, MEMORY, PODS
from dovetail.model.taints import HARD_EFFECTS, untolerated

_NEVER = 2**63 - 1  # nano-dollars per hour of what is not sold
_EXACT = 1e-9  # of what pods ask for: sums of floats are off by less
# Of an array of several candidates: those of a cluster of 70 nodes are looked at in one go, and those of
# thousands of nodes, or of pods that all differ, a few at a time.
_ENTRIES = 1_000_000

# Rows of the roomiest nodes that are looked at first, where there are so many times as many. (50,000 pods on
# 5,231 nodes: with fewer what-ifs, a search takes 2.4 s instead of 4.2.)
_ROOMIEST, _FEW = 64, 4

_ALWAYS = (CPU, MEMORY, PODS)  # as the solver does, so that nodes know what is free of each

_Homeless = tuple[dict[str, float], dict[str, float]]


def held_back(question: Question, candidates: Sequence[Candidate], market: Market) -> dict[str, str]:
    """Nodes that stay whatever is planned, by name, and why: spot that spot may not follow, with pods that
    find no room on other nodes, and too cheap for whatever could be bought for these.

    The candidates are among the question's. They are in no larger set either: such a node goes with others
    only if all their pods find room, and those that go as well leave less of it. Room on nodes that are not
    quiet is none to go to, but nothing is bought for it. What pods of nodes on their way out need is none
    either: they had it first. (Half of all what-ifs were asked right after a command, about the room that its
    pods were about to take, and hardly one of them found a move.)
    """
    spot = [candidate for candidate in candidates if candidate.spot]
    if question.spot_to_spot or not spot:
        return {}
    volumes, devices = question.problem.volumes, question.problem.devices is not None
    found = {}
    free = free_room(question)
    crowded = free.crowded(spot)
    for candidate, (on_quiet, left) in zip(spot, free.homeless(spot), strict=True):
        if not on_quiet and candidate.name not in crowded:
            continue
        ceiling = candidate.price - candidate.needed
        sold = market.after_spot(question.problem, candidate)
        if (sold.least_for(left) if left else sold.least) > ceiling and (
            candidate.plannable or not any(left_out(pod, volumes, devices=devices) for pod in candidate.pods)
        ):  # of pods that are in no plan the search has something else to say
            found[candidate.name] = UNSETTLED if on_quiet and not left else SPOT_DISABLED
    return found


@dataclass(frozen=True, slots=True)
class Sold:
    """What nodes cost at least, in nano-dollars per hour: one node, and one of each resource on whichever
    node, all else for nothing.
    """

    least: int = _NEVER
    rates: Mapping[str, float] = field(default_factory=dict)

    def least_for(self, amounts: Mapping[str, float]) -> float:
        """All nodes for so much, one at least."""
        return max(self.least, *(amount * self.rates.get(name, _NEVER) for name, amount in amounts.items()))


class Market:
    """What may be bought in place of a spot node that spot may not follow. It knows each pool's last types.

    A claim asks for every capacity type that its pool and its pods let in, and one that asks for spot is
    refused, however cheap the same type is on demand. So a type counts where it is not sold as spot as well:
    in the same zone of the same pool, to pods of which none may keep spot out.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Types] = {}
        self._problem: Problem | None = None
        self._pools: list[tuple[Pool, _Types]] = []
        self._answers: dict[tuple[frozenset[tuple[Toleration, ...]], bool], Sold] = {}
        self._kept_out = False  # True iff pods that are part of every claim, or on nodes, may keep spot out
        self.reach = Reach()
        self._enough = 0  # so many nodes may be bought before a shared quota ends

    def after_spot(self, problem: Problem, candidate: Candidate) -> Sold:
        """What nodes cost that may follow this spot node, on which at least one of its pods goes."""
        if problem is not self._problem:
            self._read(problem)
        apart = not (
            self._kept_out
            or len(candidate.pods) + len(problem.pods) > self._enough
            or candidate.keeps_spot_out
        )
        key = candidate.tolerations, apart
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = self._sold(*key)
        return known

    def _read(self, problem: Problem) -> None:
        self._known = {pool.name: self._of(pool) for pool in problem.pools}
        self._problem, self._answers = problem, {}
        self._pools = [(pool, self._known[pool.name]) for pool in problem.pools]
        guards = (guard.pod for node in problem.nodes for guard in node.occupancy.guarded)
        self._kept_out = any(map(may_keep_spot_out, (*problem.pods, *guards)))
        drawn = ((name, most) for _, types in self._pools for name, most in types.draws.items())
        left = problem.commons
        self._enough = min((left[name] // most for name, most in drawn if name in left), default=_NEVER)

    def _sold(self, tolerated: frozenset[tuple[Toleration, ...]], apart: bool) -> Sold:
        least, rates = _NEVER, dict[str, float]()
        for pool, types in self._pools:
            if all(untolerated(pool.taints, each) for each in tolerated):
                continue
            sold = types.apart if apart else types.on_demand
            if sold.least < _NEVER:
                least = min(least, sold.least + self._extra(pool))
            for name, rate in sold.rates.items():
                rates[name] = min(rate, rates.get(name, rate))
        return Sold(least, rates)

    def _extra(self, pool: Pool) -> int:
        return self._problem.extra(pool) if self._problem is not None else 0

    def _of(self, pool: Pool) -> _Types:
        kinds, wanted = pool.instance_types, pool.requirements
        known = self._known.get(pool.name)
        if known is not None and known.kinds is kinds and known.wanted == wanted:
            return known
        return _Types(kinds, wanted)


class _Types:
    """What one pool sells: `on_demand` whatever is not spot, `apart` of that what is not sold as spot too.

    `draws`: the most that one node takes of what offerings share.
    """

    def __init__(self, kinds: tuple[InstanceType, ...], wanted: Requirements) -> None:
        self.kinds = kinds
        self.wanted = wanted
        self.draws: dict[str, int] = {}
        sold = [(kind, _offered(kind, wanted)) for kind in kinds]
        for _, offerings in sold:
            for name, amount in (each for one in offerings for each in one.draws):
                self.draws[name] = max(amount, self.draws.get(name, 1))
        self.on_demand = _cheapest((kind, _but_spot(offerings)) for kind, offerings in sold)
        self.apart = _cheapest((kind, _apart(offerings)) for kind, offerings in sold)


@dataclass(frozen=True, slots=True)
class _Pods:
    """How many of each kind, and the tolerations of each."""

    kinds: Mapping[Asked, int] = field(default_factory=dict)
    tolerations: frozenset[tuple[Toleration, ...]] = frozenset()

    @classmethod
    def of(cls, demands: Sequence[Demand]) -> _Pods:
        return cls(Counter(one.asked for one in demands), frozenset(one.tolerations for one in demands))


class FreeRoom:
    """What is free on the nodes that take pods, labels and daemons to come aside: no less than there is.

    Taints count: a few nodes for agents alone have room for all pods of many a node.
    """

    def __init__(self, question: Question, candidates: Sequence[Candidate]) -> None:
        self._moving = _Pods.of([demand(pod) for pod in question.problem.pods if pod.key in question.moving])
        some = (one.resources for one in candidates)
        wanted = frozenset(name for each in self._moving.kinds for name, _ in each).union(_ALWAYS, *some)
        self._names = tuple(sorted(wanted))
        nodes = [
            node for node in question.problem.nodes if node.initialized and node.name not in question.closed
        ]
        # Nodes of which the same is free, with the same taints, are one row if all or none of them are quiet:
        # of thousands that are nearly full there are a few hundred.
        kinds: dict[tuple[tuple[int, ...], bool, tuple[Taint, ...]], int] = {}
        self._row: dict[str, int] = {}
        for node in nodes:
            hard = tuple(taint for taint in node.taints if taint.effect in HARD_EFFECTS)
            kind = tuple(node.free(self._names)), node.name not in question.restless, hard
            self._row[node.name] = kinds.setdefault(kind, len(kinds))
        self._tainted: dict[tuple[Taint, ...], list[int]] = {}
        for (_, _, hard), row in kinds.items():
            if hard:
                self._tainted.setdefault(hard, []).append(row)
        free = [amounts for amounts, _, _ in kinds]
        self._free = np.array(free, dtype=np.float64).reshape(len(kinds), len(self._names))
        self._quiet = np.array([quiet for _, quiet, _ in kinds], dtype=np.bool_)
        self._rows = np.array(list(self._row.values()), dtype=np.intp)  # in order of the nodes
        self._place = {name: place for place, name in enumerate(self._row)}  # in that order
        many = np.bincount(self._rows, minlength=len(kinds))
        # How many nodes of each row count, once those that are quiet and once all of them, (2, N).
        self._counts = np.array([many * self._quiet, many], dtype=np.float64).reshape(2, len(kinds))
        self._column = {name: index for index, name in enumerate(self._names)}
        all_rows = np.arange(len(kinds))
        self._all = self._of(all_rows)
        self._roomiest: _Rows | None = None
        if len(kinds) > _FEW * _ROOMIEST:
            share = self._free / np.maximum(self._free.max(axis=0), 1.0)
            least = share[:, [self._column[name] for name in _ALWAYS]].min(axis=1)
            least[~self._quiet] = -1.0
            self._roomiest = self._of(np.argsort(-least, kind="stable")[:_ROOMIEST])

    def _of(self, rows: npt.NDArray[np.intp]) -> _Rows:
        """These rows alone."""
        place = {row: index for index, row in enumerate(rows.tolist())}
        tainted = {
            taints: [place[row] for row in some if row in place] for taints, some in self._tainted.items()
        }
        own = {name: place[row] for name, row in self._row.items() if row in place}
        return _Rows(self._free[rows], self._counts[:, rows], self._quiet[rows], own, tainted)

    def homeless(self, candidates: Sequence[Candidate]) -> Iterator[_Homeless]:
        """Of each, in order: what its pods ask for, at least, that find no room on other quiet nodes, and on
        any others; {} if all of them may find some.
        """
        return self._beside(candidates, _Pods())

    def crowded(self, candidates: Sequence[Candidate]) -> frozenset[str]:
        """Those whose pods, with those of nodes on their way out, find no room on other quiet nodes."""
        if not self._moving.kinds:
            return frozenset()
        found = zip(candidates, self._beside(candidates, self._moving), strict=True)
        return frozenset(one.name for one, (on_quiet, _) in found if on_quiet)

    def packs(self, candidate: Candidate) -> bool:
        """True iff first fit finds room on other quiet nodes for its pods and those of nodes on their way
        out, rules between pods aside: the largest pods first, the fullest nodes first.

        No proof, but of 26 plans of a day of 1,500 pods about nodes of which it finds none none found any.
        """
        many = Counter(self._moving.kinds)
        many.update(candidate.kinds)
        asked = self._asked(tuple(many))
        counts = self._quiet.copy()
        counts[self._all.shut(candidate.tolerations | self._moving.tolerations)] = False
        others = counts[self._rows]
        if candidate.name in self._place:
            others[self._place[candidate.name]] = False
        free = self._free[self._rows[others]]
        free = free[np.argsort(free[:, self._column[CPU]], kind="stable")]
        share = (asked / np.maximum(free.max(axis=0, initial=0.0), 1.0)).max(axis=1)
        numbers = list(many.values())
        for kind in np.argsort(-share, kind="stable").tolist():
            wanted = asked[kind] > 0
            slots = np.floor(free[:, wanted] / asked[kind, wanted]).min(axis=1, initial=np.inf).clip(0.0)
            taken = np.clip(numbers[kind] - (np.cumsum(slots) - slots), 0.0, slots)
            if taken.sum() < numbers[kind]:
                return False
            free -= taken[:, None] * asked[kind]
        return True

    def _asked(self, kinds: Sequence[Asked]) -> Floats:
        """What a pod of each kind asks for, (S, R)."""
        asked = np.zeros((len(kinds), len(self._names)))
        for index, each in enumerate(kinds):
            for name, amount in each:
                asked[index, self._column[name]] = amount
        return asked

    def _beside(self, candidates: Sequence[Candidate], others: _Pods) -> Iterator[_Homeless]:
        """Most nodes of a large cluster need no more than a few quiet nodes with much room: for the others
        alone all of them are looked at.
        """
        fits: Sequence[bool] = (False,) * len(candidates)
        if self._roomiest is not None:
            fits = [not left[0] for left in self._looked_at(self._roomiest, candidates, others)]
        short = [one for one, there in zip(candidates, fits, strict=True) if not there]
        found = self._looked_at(self._all, short, others)
        for there in fits:
            yield ({}, {}) if there else next(found)

    def _looked_at(self, rows: _Rows, candidates: Sequence[Candidate], others: _Pods) -> Iterator[_Homeless]:
        for some, kinds in _together(candidates, others, rows.free.size):
            columns = {each: column for column, each in enumerate(kinds)}
            many = []
            for one in some:  # each has a few of all kinds
                row = [others.kinds.get(each, 0) for each in kinds]
                for each, number in one.kinds.items():
                    row[columns[each]] += number
                many.append(row)
            left = rows.left(some, self._asked(kinds), np.array(many, dtype=np.float64), others.tolerations)
            for on_quiet, on_any in left.tolist():
                yield self._named(on_quiet), self._named(on_any)

    def _named(self, amounts: Sequence[float]) -> dict[str, float]:
        return {name: amount for name, amount in zip(self._names, amounts, strict=True) if amount}


@by_identity(4)
def free_room(question: Question) -> FreeRoom:
    """For all its candidates."""
    return FreeRoom(question, question.candidates)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some nodes, those alike as one row: N rows with R resources.

    `counts` (2, N): how many nodes each row stands for, once those that are quiet and once all of them;
    `own`: which row a node is of; `tainted`: rows of nodes that keep some pods away.
    """

    free: Floats  # (N, R)
    counts: Floats
    quiet: Mask  # (N,)
    own: Mapping[str, int]
    tainted: Mapping[tuple[Taint, ...], Sequence[int]]

    def left(
        self,
        candidates: Sequence[Candidate],
        asked: Floats,
        many: Floats,
        beside: frozenset[tuple[Toleration, ...]],
    ) -> Floats:
        """What finds no room at least, once on quiet nodes and once on all, its own aside, (C, 2, R).

        `asked` (S, R) is what a pod of each kind asks for, `many` (C, S) how many pods find room for each
        candidate; `beside`: the tolerations of those among them that are not its own.
        """
        slots = np.minimum(self._slots(asked), many[:, :, None])  # (C, S, N)
        nodes = np.repeat(self.counts[None], len(candidates), axis=0)  # (C, 2, N)
        shut: dict[frozenset[tuple[Toleration, ...]], list[int]] = {}  # most candidates' pods obey the same
        for index, one in enumerate(candidates):
            tolerated = one.tolerations | beside
            rows = shut.get(tolerated)
            if rows is None:
                rows = shut[tolerated] = self.shut(tolerated)
            slots[index, :, rows] = 0.0
            own = self.own.get(one.name)
            if own is not None:
                nodes[index, :, own] -= (self.quiet[own], True)
        need = many @ asked  # (C, R)
        # Each kind with all nodes to itself, (C, 2, R).
        alone = np.maximum(many[:, None, :] - nodes @ slots.transpose(0, 2, 1), 0.0) @ asked
        taken = nodes @ self._taken(asked, many > 0, slots).transpose(0, 2, 1)
        left = np.maximum(need[:, None, :] - taken, alone)
        return np.where(left > _EXACT * need[:, None, :], left, 0.0)

    def shut(self, tolerated: frozenset[tuple[Toleration, ...]]) -> list[int]:
        """Rows of nodes whose taints all such pods obey."""
        rows = list[int]()
        for taints, there in self.tainted.items():
            if all(untolerated(taints, each) for each in tolerated):
                rows += there
        return rows

    def _taken(self, asked: Floats, has: Mask, slots: Floats) -> Floats:
        """The most of each resource that such pods take of each node, (C, R, N).

        Whatever pods a node has room for, they have no more of a resource than what is free of any other one
        times the most that one of them asks of the first for each of the other. `has` (C, S): which kinds a
        candidate has; `slots` (C, S, N): how many of each a node of a row has room for, of that kind alone.
        """
        # Many candidates have the same kinds.
        known: dict[bytes, int] = {}
        which = [known.setdefault(row.tobytes(), len(known)) for row in has]
        sets = has[[which.index(each) for each in range(len(known))]]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = asked[:, None, :] / asked[:, :, None]  # (S, of what is free, of what is taken)
            ratio = np.where(asked[:, None, :] > 0, ratio, 0.0)
            most = np.where(sets[:, :, None, None], ratio, 0.0).max(axis=1, initial=0.0)[:, :, :, None]
            free = np.maximum(self.free, 0.0).T[:, None, :]
            bounds = np.where((free == 0) & np.isinf(most), np.inf, free * most).min(axis=1, initial=np.inf)
        taken: Floats = np.minimum(bounds[which], asked.T @ slots)
        return taken

    def _slots(self, asked: Floats) -> Floats:
        """How many pods of each kind each node has room for, of that kind alone, (S, N)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(asked[:, None, :] > 0, np.floor(self.free / asked[:, None, :]), np.inf)
        slots: Floats = np.maximum(each.min(axis=2, initial=np.inf), 0.0)
        return slots


def _together(
    candidates: Sequence[Candidate], others: _Pods, nodes: int
) -> Iterator[tuple[list[Candidate], tuple[Asked, ...]]]:
    """The candidates, those together that make arrays of at most `_ENTRIES` of so many nodes' resources, with
    kinds of their pods and of the others.
    """
    some: list[Candidate] = []
    kinds = dict.fromkeys(others.kinds)
    for one in candidates:
        most = len(kinds) + len(one.kinds)
        if some and (len(some) + 1) * most * nodes > _ENTRIES:
            wider = len(kinds.keys() | one.kinds.keys())
            if (len(some) + 1) * wider * nodes > _ENTRIES:
                yield some, tuple(kinds)
                some, kinds = [], dict.fromkeys(others.kinds)
        some.append(one)
        kinds.update(dict.fromkeys(one.kinds))
    if some:
        yield some, tuple(kinds)


def _cheapest(sold: Iterable[tuple[InstanceType, Sequence[Offering]]]) -> Sold:
    least, rates = _NEVER, dict[str, float]()
    for kind, offerings in sold:
        if not offerings:
            continue
        price = min(one.price for one in offerings)
        least = min(least, price)
        for name, amount in kind.capacity.items():
            if amount > 0:
                rates[name] = min(price / amount, rates.get(name, _NEVER))
    return Sold(least, rates)


def _offered(kind: InstanceType, wanted: Requirements) -> list[Offering]:
    if not wanted.overlaps(kind.requirements):
        return []
    return [one for one in kind.offerings if one.launchable and wanted.overlaps(one.requirements)]


def _but_spot(offerings: Sequence[Offering]) -> list[Offering]:
    return [one for one in offerings if one.capacity_type != labels.SPOT]


def _apart(offerings: Sequence[Offering]) -> list[Offering]:
    """Those that are not spot where there is none that differs by the capacity type alone."""
    spot = {_place(one) for one in offerings if one.capacity_type == labels.SPOT}
    return [
        one for one in _but_spot(offerings) if one.capacity_type == labels.RESERVED or _place(one) not in spot
    ]


def _place(offering: Offering) -> Requirements:
    by_key = offering.requirements.by_key
    return Requirements({key: item for key, item in by_key.items() if key != labels.CAPACITY_TYPE})
