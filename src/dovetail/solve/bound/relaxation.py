"""The linear relaxation over resources: what every pod is worth, and every resource of a node.

Classes that are nearly alike are taken together, so that it stays small however many there are. In fractions
of nodes, what a dollar buys counts and not a node's size. A solve begins with it and uses it for its proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import highspy
import numpy as np
import numpy.typing as npt

from dovetail.model.arrays import ENDLESS, Amounts, Floats, Mask, alike, numbered, share
from dovetail.solve.bound.scope import Scope
from dovetail.solve.colgen.compact_mip import Free, compact_model
from dovetail.solve.colgen.highs import quiet_solver
from dovetail.solve.colgen.pricing_instance import undominated
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.offerings import OfferingsTable
from dovetail.solve.pack.aggregation import WIDER, on_grid
from dovetail.solve.tolerances import ALIKE, FEW, MANY, ROUNDING, SEVERAL, TRIES, WIDE
from dovetail.units.money import NANO_DOLLARS


@dataclass(frozen=True, slots=True)
class Duals:
    """Worth of a pod per pod class (S,), and worth of resources per column that was looked at (K, R)."""

    dual_values: Floats
    resources: Floats
    feasible: Mask  # (S, K) of those columns
    charged: Floats  # (R,) nano-dollars per hour of the optimum that are paid for each resource
    limits: Floats  # (L,) nano-dollars per hour that all that is left of each limit is worth


def relax(
    feasible: Mask,
    capacity: Amounts,
    price: Amounts,
    vectors: Amounts,
    demand: Amounts,
    *,
    free: Free | None = None,
    limits: tuple[Amounts, Amounts] | None = None,
    over: Callable[[], bool] = lambda: False,
    most: int = MANY,
) -> Duals:
    """Solve the relaxation: fractions of nodes, pods of a pod class in fractions. All columns are given; the
    program gets what is cheapest for a pod of some kind, then what could hold more than it costs. With all of
    them it took three times as long, and ten times with hundreds of kinds.

    `feasible` (S, C), `capacity` (C, R), `price` (C,), `vectors` (S, R), `demand` (S,). `limits`: what a node
    of each column takes of what all share (C, L), and how much there is (L,). `over`: true iff
    time is over. Then fewer kinds of pods are told apart than `most`, and the first prices do: it takes next
    to no time.
    """
    pod_classes, resources = vectors.shape
    sold = len(price)
    if free is not None:
        feasible = np.concatenate([feasible, free.feasible], axis=1)
        capacity = np.concatenate([capacity, free.capacity])
        price = np.concatenate([price, np.zeros(len(free.capacity), dtype=np.int64)])
    takes, ends = limits or (np.zeros((sold, 0), dtype=np.int64), np.zeros(0, dtype=np.int64))
    if not pod_classes or not len(price):
        none = np.zeros((len(price), resources))
        return Duals(np.zeros(pod_classes), none, feasible, np.zeros(resources), np.zeros(len(ends)))
    # What is beyond a limit comes last, for more than any plan costs: else there may be no optimum while only
    # the cheapest columns are looked at, which a limit refuses.
    feasible = np.concatenate([feasible, np.zeros((pod_classes, len(ends)), dtype=np.bool_)], axis=1)
    capacity = np.concatenate([capacity, np.zeros((len(ends), resources), dtype=np.int64)])
    dear = min(int(price.max()) * int(demand.sum()), ENDLESS)
    price = np.concatenate([price, np.full(len(ends), dear)])
    kinds = kinds_of(feasible, capacity, vectors, demand, FEW if over() else most)
    some = np.flatnonzero(kinds.feasible[:, :sold].any(axis=0))
    scale = np.maximum(vectors.max(axis=0, initial=1), 1).astype(np.float64)
    shares = np.zeros((len(price), len(ends)))
    shares[:sold] = takes / np.maximum(ends, 1)
    shares[len(price) - len(ends) :] = -np.eye(len(ends))
    chosen = _cheapest(kinds, capacity[some], price[some], some)
    for _ in range(TRIES):
        kept = np.concatenate([some[chosen], np.arange(sold, len(price))])
        count, has = len(kept), np.maximum(capacity[kept], 0) / scale
        many = (kept < sold) | (price[kept] > 0)  # a free capacity is there once
        nodes = price[kept] / NANO_DOLLARS, np.where(many, highspy.kHighsInf, 1.0)
        needs, most_taken = kinds.vectors / scale, (shares[kept], np.minimum(ends, 1.0))
        model = compact_model(kinds.feasible[:, kept], needs, has, nodes, kinds.demand, limits=most_taken)
        solution, bought = _solve(model, count)
        dual_values = np.maximum(solution[: len(kinds.demand)], 0.0) * NANO_DOLLARS
        prices = np.maximum(-solution[len(kinds.demand) :], 0.0) * NANO_DOLLARS
        duals, limited = prices[: count * resources].reshape(count, resources), prices[count * resources :]
        charged = (bought[:, None] * has * duals)[: chosen.sum()].sum(axis=0)
        found = Duals(dual_values, duals / scale, kinds.feasible[:, kept], charged, limited)
        # What may hold more than it costs at these prices is missing.
        held = most_held(found, kinds.feasible[:, some], capacity[some])
        gain = np.where(chosen, 0.0, held / np.maximum(price[some] + shares[some] @ limited, 1))
        missing = np.argsort(-gain, kind="stable")[:SEVERAL]
        missing = missing[gain[missing] > 1 + ROUNDING][: max(0, WIDE // len(kinds.demand) - chosen.sum())]
        if not len(missing) or over():
            break
        chosen[missing] = True
    dual_values = _dual_values(vectors / scale, duals, feasible[:, kept], demand)
    return replace(found, dual_values=dual_values, feasible=feasible[:, kept])


# Pod classes: with more, programs that tell more kinds apart make a plan of one second late (2,000: 1.06 s).
_SURE = 1_000


def relax_classes(instance: Instance, columns: OfferingsTable, feasible: Mask) -> Duals:
    """The relaxation for all pods of an instance. Reserved capacity is left out: it is scarce, not cheap.

    `feasible` is (pod classes, columns).
    """
    vectors = np.array([pod_class.vector for pod_class in instance.pod_classes], dtype=np.int64)
    vectors = vectors.reshape(len(instance.pod_classes), len(instance.axis.names))
    feasible = feasible & ~columns.reserved
    demand = np.array([len(pod_class.pods) for pod_class in instance.pod_classes], dtype=np.int64)
    demand[~feasible.any(axis=1)] = 0
    kept = undominated(feasible, columns.capacity, columns.price, columns.reserved)
    instance.work.spend(int(feasible[:, kept].sum()))
    sold = feasible[:, kept], columns.capacity[kept], columns.price[kept]
    work, many = instance.work, len(vectors) > _SURE

    def over() -> bool:  # more time than a proof takes is kept back
        return work.time_over and (many or not work.clock.provable(scoped=True))

    return relax(*sold, vectors, demand, over=over)


def most_held(duals: Duals, feasible: Mask, capacity: Amounts) -> Floats:
    """A worth that no pattern of each column's node exceeds, (C,), whatever the duals are."""
    held = np.maximum(capacity, 0) @ duals.resources.T
    # Prices of resources are valid for a column iff they were valid for every pod class it can hold.
    lacks = ~duals.feasible & (duals.dual_values > 0)[:, None]
    some = [group[0] for group in alike(np.concatenate([feasible, lacks], axis=1))]  # one of each kind
    valid = np.where(share(feasible[some].T, lacks[some]), np.inf, held)
    fallback = np.maximum(capacity, 0) @ duals.resources.max(axis=0, initial=0.0)
    result: Floats = np.minimum(valid.min(axis=1, initial=np.inf), fallback)
    return result


def _cheapest(kinds: Kinds, capacity: Amounts, price: Amounts, columns: npt.NDArray[np.int64]) -> Mask:
    """Which of these columns are the cheapest for a pod of some kind, (C,)."""
    shares = np.max(kinds.vectors[:, None, :] / np.maximum(capacity, 1)[None, :, :], axis=2)
    cost = np.where(kinds.feasible[:, columns], shares * price, np.inf)
    chosen = np.zeros(len(columns), dtype=np.bool_)
    if len(columns):
        chosen[cost.argmin(axis=1)[np.isfinite(cost).any(axis=1)]] = True
    return chosen


def _dual_values(needs: Floats, duals: Floats, feasible: Mask, demand: Amounts) -> Floats:
    """What a pod of each pod class takes, at the resources' prices, on the column where that is least, (S,).

    So no set of pods that fits on a column is worth more than its capacity. 0 for pod classes that none asks
    for.
    """
    cost = np.where(feasible, needs @ duals.T, np.inf).min(axis=1, initial=np.inf)
    dual_values: Floats = np.where((demand > 0) & np.isfinite(cost), cost, 0.0)
    return dual_values


def _solve(model: highspy.HighsLp, columns: int) -> tuple[Floats, Floats]:
    """(duals of the rows, nodes per column); zeros where there is no optimum."""
    solver = quiet_solver()
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    duals = np.array(solution.row_dual, dtype=np.float64)
    nodes = np.array(solution.col_value, dtype=np.float64)[-columns:]
    if len(duals) != model.num_row_ or len(nodes) != columns:
        return np.zeros(model.num_row_), np.zeros(columns)
    return duals, nodes


@dataclass(frozen=True, slots=True)
class Kinds:
    """K kinds of pods: their columns (K, C), mean requests (K, R), and number of pods (K,)."""

    feasible: Mask
    vectors: Floats
    demand: Floats


def kinds_of(feasible: Mask, capacity: Amounts, vectors: Amounts, demand: Amounts, most: int = MANY) -> Kinds:
    """The pod classes by kind: equal ones together, and where there are more than `most`, near-equal ones.

    `feasible` (S, C), `capacity` (C, R), `vectors` (S, R), `demand` (S,). A kind is feasible where all of its
    pod classes are, if there is such a column.
    """
    labels = numbered(vectors, np.packbits(feasible, axis=1))
    ratio = ALIKE
    while labels.max(initial=0) >= most:
        labels = numbered(on_grid(vectors, ratio), _rules(feasible, capacity, vectors))
        if ratio > 2:
            break  # what is left differs by rules
        ratio **= WIDER
    count = int(labels.max(initial=-1)) + 1
    weight = np.maximum(demand, 1e-3).astype(np.float64)
    total = np.bincount(labels, weights=weight, minlength=count)
    sums = [np.bincount(labels, weights=weight * column, minlength=count) for column in vectors.T]
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(count))
    every: Mask = np.logical_and.reduceat(feasible[order], starts, axis=0)
    some: Mask = np.logical_or.reduceat(feasible[order], starts, axis=0)
    shared: Mask = np.where(np.any(every, axis=1, keepdims=True), every, some)
    pods: Floats = np.bincount(labels, weights=demand, minlength=count).astype(np.float64)
    return Kinds(shared, np.stack(sums, axis=1) / total[:, None], pods)


def _rules(feasible: Mask, capacity: Amounts, vectors: Amounts) -> npt.NDArray[np.uint8]:
    """What of the columns tells rules apart and not sizes: those that are large enough for every pod
    class.
    """
    large = np.all(capacity >= vectors.max(axis=0, initial=0), axis=1)
    return np.packbits(feasible[:, large], axis=1)


@dataclass(slots=True)
class Early:
    """Prices of resources for all S pod classes of an instance, whatever they give up and whether or not they
    find a place. Prices need not be the best ones of a scope to prove something about it.
    """

    solve: Callable[[], Duals]
    offerings: Amounts  # (S,) how many may hold each pod class
    columns: int  # that may hold any
    pods: int
    known: Duals | None = None  # once something asked

    @classmethod
    def of(cls, instance: Instance, columns: OfferingsTable, feasible: Mask) -> Early:
        """For all pod classes; `feasible` (S, C)."""
        sold = feasible & ~columns.reserved
        return cls(
            solve=partial(relax_classes, instance, columns, sold),
            offerings=sold.sum(axis=1),
            columns=int(np.count_nonzero(sold.any(axis=0))),
            pods=sum(len(pod_class.pods) for pod_class in instance.pod_classes),
        )

    def prices(self) -> Duals:
        """Solved when something asks for the first time."""
        self.known = self.known or self.solve()
        return self.known

    def duals(self, scope: Scope) -> Duals:
        """For the kinds of a scope; its rules cost nothing."""
        some, known = list(scope.pod_classes), self.prices()
        extra = scope.vectors.shape[1] - known.resources.shape[1]
        resources = np.concatenate([known.resources, np.zeros((len(known.resources), extra))], axis=1)
        charged = np.concatenate([known.charged, np.zeros(extra)])
        return Duals(known.dual_values[some], resources, known.feasible[some], charged, known.limits)

    def same(self, scope: Scope) -> bool:
        """True only if the scope's relaxation is this one: every pod, every offering and nothing else."""
        if scope.rules or len(scope.price) != self.columns or int(scope.demand.sum()) != self.pods:
            return False
        offerings = np.array_equal(scope.feasible.sum(axis=1), self.offerings[list(scope.pod_classes)])
        return bool(offerings) and not scope.allowed.any() and not scope.conflict.any()
