"""The proofs of what pods must cost, a table of provers and what they need.

By dual values of which no offering can hold more than its price; then in whole nodes within a scope, and such
a plan if one is come upon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from dovetail.model.arrays import BLOCK, ENDLESS, Amounts, Floats, Mask, alike
from dovetail.model.plan import (
    BETWEEN_PODS,
    COLUMNS,
    DEAREST_POD,
    RELAXATION,
    WHOLE_NUMBERS,
    LimitPrice,
    NodeRule,
    Proof,
    Worth,
)
from dovetail.solve.bound.relaxation import Duals, Early, most_held, relax
from dovetail.solve.bound.scope import Scope
from dovetail.solve.budget import MOST, SolveBudget
from dovetail.solve.colgen.compact_mip import Free, whole_nodes
from dovetail.solve.colgen.generation import MarketProof
from dovetail.solve.colgen.knapsack_pricing import Knapsacks
from dovetail.solve.colgen.pattern_mip import Pattern, PatternSearch, whole
from dovetail.solve.colgen.pricing_instance import PricingInstance, cliques, copies_in
from dovetail.solve.tolerances import (
    CLOSE,
    FEW,
    LARGE,
    LINEAR,
    MANY,
    NARROW,
    OPTIMAL,
    ROUNDING,
    SEVERAL,
    WIDE,
)

# (partial patterns that are followed, times the price), until it is known what a node holds at most.
# What is a little too much is easier to rule out than what is just too much.
_SEARCHES = ((NARROW, 1 + LINEAR), (WIDE, 1 + LINEAR), (WIDE, 1.0003), (WIDE, 1.001), (WIDE, 1.003))


class Proofs:
    """The proofs of one scope. No tolerance of a linear program can make a bound too high: dual values are
    scaled until no offering can hold more than its price, and rounded down to nano-dollars.
    """

    def __init__(
        self, scope: Scope, work: SolveBudget, early: Early | None = None, market: MarketProof | None = None
    ) -> None:
        """`early`: the relaxation of all pods, if there is one. It is used where it does not follow from the
        scope's own, and where that would take long and the time is over. `market` counts if it is about the
        very same market."""
        self._scope = scope
        self._work, self.sparing = work, work.sparing
        # Of a plan for less, if one was come upon: by columns of the scope, and what it costs.
        self.better: tuple[Pattern, ...] = ()
        self.price = ENDLESS
        self.slice_over = early is not None and (
            (scope.feasible.size > LARGE and (work.time_over or work.frugal))
            or (early.known is not None and work.time_over)
        )
        # Of many kinds that differ in rules, columns prove more than resources do, in less time.
        apart = scope.feasible.size > LARGE and not self.slice_over and self._coarse is not None
        known = early.duals(scope) if early and (self.slice_over or apart or early.same(scope)) else None
        self._stock = scope.unthinned() if known else self.pricing
        self.free = self._free(self._stock)
        self._copies = copies_in(self.free, self._stock.vectors, scope.demand, scope.allowed)
        self.duals = known or self._relaxed()
        self._market = market if market and market.pricing.alike(self.pricing) else None

    @property
    def ending(self) -> bool:
        """True iff the plan comes to the end of limits, and there is time to price them."""
        return bool(self._scope.limit_names) and not self.slice_over

    @cached_property
    def pricing(self) -> PricingInstance:
        """What is for sale, with as few offerings as will do."""
        return self._scope.pricing_instance()

    @cached_property
    def _coarse(self) -> tuple[PricingInstance, Amounts] | None:
        """What is for sale to kinds that differ in more than rules, and which one each kind is; None if
        that leaves many.
        """
        return self.pricing.coarse(self._scope.vectors.shape[1] - len(self._scope.rules))

    def _free(self, sold: PricingInstance) -> Amounts:
        """Free capacities with what nodes have for rules there (N, R): these hold on free nodes too."""
        extra = sold.vectors.shape[1] - self._scope.vectors.shape[1]
        return np.pad(self._scope.free, ((0, 0), (0, extra)), constant_values=1)

    @cached_property
    def _capacities(self) -> Free:
        return grouped(self._copies > 0, self._free(self.pricing))

    def _relaxed(self, limits: tuple[Amounts, Amounts] | None = None) -> Duals:
        pricing = self.pricing
        self._work.spend(pricing.feasible.size)
        # Those by domain are many: with 300 it takes two to three times as long, for bounds 1 % higher.
        most, over = MANY if self._scope.origin else 2 * FEW, lambda: self._work.time_over
        sold = pricing.feasible.T, pricing.capacity, pricing.price, pricing.vectors, self._scope.demand
        return relax(*sold, free=self._capacities, limits=limits, over=over, most=most)

    def relaxation(self) -> Proof:
        """By what pods and nodes have of each resource."""
        return self._by_resources(self._stock, self._stock.price, self.duals)

    def limited(self) -> Proof:
        """By what they have of each resource, with a price on what nodes take of NodePools' limits."""
        pricing = self.pricing
        duals = self._relaxed((pricing.takes, pricing.most))
        duals = replace(duals, limits=np.ceil(duals.limits))
        charged = pricing.takes @ (duals.limits / np.maximum(pricing.most, 1))
        return self._by_resources(pricing, pricing.price + charged, duals)

    def _by_resources(self, pricing: PricingInstance, price: Amounts | Floats, duals: Duals) -> Proof:
        most = most_held(duals, pricing.feasible.T, pricing.capacity)
        if np.any((price <= 0) & (most > 0)):
            return Proof()
        ratio = float(np.max(most / np.maximum(price, 1), initial=1.0))
        return self._proof(RELAXATION, duals.dual_values, ratio, duals)

    def columns(self, dual_values: Floats, known: int) -> Proof:
        """By what whole nodes hold at any dual values (S,); nothing if that will not exceed what is known."""
        # Free capacity takes about as much less of their worth as they are scaled down.
        total = float(self._scope.demand @ dual_values) - float(self._taken(dual_values).sum())
        pricing, proof = self.pricing, Proof()
        if self._market and np.array_equal(dual_values, self._market.dual_values) and len(self._market.most):
            enough = float(np.max(self._market.most / np.maximum(pricing.price, 1), initial=1.0))
            proof = self._proof(COLUMNS, dual_values, enough) if np.isfinite(enough) else proof
            if enough * OPTIMAL <= 1 or not self._work.left:
                return proof
        each, known = dual_values, max(known, proof.bound)
        if self._coarse is not None:
            pricing, item = self._coarse
            each = np.bincount(item, dual_values * self._scope.demand) / np.maximum(pricing.demand, 1)
            dual_values = each[item]
        ratio = highest_ratio(pricing, each, lambda highest: total <= known * highest, self._work)
        return proof if ratio is None else self._proof(COLUMNS, dual_values, ratio)

    def whole(self, linear: Proof, hourly: int) -> Proof:
        """What a plan of whole nodes costs at least, from a proof by dual values; that one where it is no
        more.
        """
        search = self._search(hourly)
        dual_values = np.zeros(len(self._scope.pods))
        kind = {pods[0]: index for index, pods in enumerate(self._scope.pods)}
        for item in linear.worth:
            dual_values[kind[item.pods[0]]] = item.each
        bound = search.run(dual_values, self._taken(dual_values), linear.bound)
        self._found(search)
        return linear if bound <= linear.bound else replace(linear, bound=bound, method=WHOLE_NUMBERS)

    def capacities(self, linear: Proof, hourly: int) -> Proof:
        """What a plan of whole nodes costs at least if pods need not be whole; or as above."""
        if self._market and self._market.capacities and not len(self.free):
            bound = self._market.capacities
        else:
            search = self._search(hourly)
            bound = search.by_capacity(pods=False)
            self._found(search)
        return linear if bound <= linear.bound else replace(linear, bound=bound, method=WHOLE_NUMBERS)

    def _search(self, hourly: int) -> WholeNumbers:
        price = min(hourly, self.price)
        free = self._free(self.pricing), self._copies
        return WholeNumbers(self._scope, self.pricing, free, price, self._work)

    def _found(self, search: WholeNumbers) -> None:
        if search.better:
            self.better, self.price = search.better, search.price

    def dearest(self) -> Proof:
        """One pod that no free capacity holds by itself has to be on a node that is bought.

        Sharper than a relaxation where a plan buys one or two nodes.
        """
        scope = self._scope
        bought = ~(self._copies > 0).any(axis=1)
        if not bought.any():
            return Proof()
        order = np.argsort(scope.price, kind="stable")
        cheapest = order[np.take(scope.feasible, order, axis=1).argmax(axis=1)]  # every kind has an offering
        least = np.where(bought, scope.price[cheapest], 0)
        if not least.any():
            return Proof()
        kind = int(least.argmax())
        bound = int(least[kind])
        return Proof(bound, bound, DEAREST_POD, (Worth(scope.pods[kind][:1], bound, scope.pools[kind]),))

    def _taken(self, dual_values: Floats) -> Amounts:
        """The most worth that each free capacity can take, (N,)."""
        taken = absorbed(dual_values, self._stock.vectors, self._copies, self.free, self.duals.resources)
        result: Amounts = np.ceil(taken).astype(np.int64)
        return result

    def _proof(self, method: str, values: Floats, ratio: float, duals: Duals | None = None) -> Proof:
        """All pods together are worth that much, less what free capacity takes and what limits are worth."""
        scope, duals = self._scope, duals or self.duals
        ends = tuple(
            LimitPrice(*name, left, int(price))
            for name, left, price in zip(scope.limit_names, scope.left, duals.limits, strict=False)
            if left and price
        )
        dual_values = np.floor(np.maximum(values, 0.0) / ratio * (1 - ROUNDING)).astype(np.int64)
        names: dict[str, int] = {}
        for name, amount in zip(
            scope.free_names, self._taken(dual_values.astype(np.float64)).tolist(), strict=True
        ):
            if amount:
                names[name] = names.get(name, 0) + amount
        total = int(dual_values @ scope.demand) - sum(names.values()) - sum(each.price for each in ends)
        if total <= 0:
            return Proof()
        listed = np.flatnonzero(dual_values)
        proven = tuple(
            Worth(scope.pods[kind], int(dual_values[kind]), scope.pools[kind]) for kind in listed.tolist()
        )
        # Prices that know of no rule between pods prove what they do without it.
        rules, apart = ((), ()) if self.slice_over else _rules(scope, listed, duals.charged)
        return Proof(total, total, method, proven, names, rules, apart, ends)


@dataclass(slots=True)
class Question:
    """How far a plan may be from the cheapest, and what is proven so far."""

    proofs: Proofs
    hourly: int  # nano-dollars per hour of the plan, or of a cheaper one that a proof came upon
    dual_values: Floats | None = None  # (S,) from column generation, if there was any
    tied: bool = False  # whole nodes with parts of pods prove little, as where there are rules between pods
    topology: Callable[[int], int] | None = None  # by what is known, a bound that knows rules between pods
    known: int = 0  # proven of the same promises before: a knapsack search for less is given up
    linear: Proof = field(default_factory=Proof)  # the best by dual values; whole numbers start from it
    dearest: Proof = field(default_factory=Proof)
    limited: Proof = field(default_factory=Proof)
    capacities: Proof = field(default_factory=Proof)
    ruled: int = 0  # the topology bound
    settled: bool = False  # nothing else has to be tried

    @property
    def bound(self) -> int:
        """What dual values and the dearest pod prove."""
        return max(self.linear.bound, self.dearest.bound, self.limited.bound)

    @property
    def open(self) -> bool:
        """True iff another proof may be worth its work."""
        return self.bound < self.hourly * CLOSE

    def best(self) -> Proof:
        """The best proof so far."""
        if self.ruled > max(self.bound, self.capacities.bound):
            return replace(self.linear, bound=self.ruled, method=BETWEEN_PODS)
        return max(self.linear, self.dearest, self.limited, self.capacities, key=lambda proof: proof.bound)


@dataclass(frozen=True, slots=True)
class Prover:
    """One way to prove a bound: `needs` tells whether it has what it needs and may prove more than is known,
    `prove` notes what it proves."""

    name: str
    needs: Callable[[Question], bool]
    prove: Callable[[Question], None]


def _dearest(question: Question) -> None:
    question.dearest = question.proofs.dearest()


def _relaxation(question: Question) -> None:
    question.linear = question.proofs.relaxation()


def _limited(question: Question) -> None:
    question.limited = question.proofs.limited()


def _capacities(question: Question) -> None:
    proofs, hourly = question.proofs, question.hourly
    question.capacities = proofs.capacities(question.linear, hourly)
    question.settled = question.capacities.bound >= hourly * CLOSE
    question.hourly = min(hourly, proofs.price)


def _columns(question: Question) -> None:
    assert question.dual_values is not None
    found = question.proofs.columns(question.dual_values, max(question.linear.bound, question.known))
    question.linear = max(question.linear, found, key=lambda proof: proof.bound)


def _topology(question: Question) -> None:
    assert question.topology is not None
    question.ruled = question.topology(question.bound)


def _whole(question: Question) -> None:
    with question.proofs.sparing(MOST if question.ruled else 0.0):  # plans follow what rules prove
        question.linear = question.proofs.whole(question.linear, question.hourly)


# In their order, with the work that each takes. Those that take next to no time are asked in any case.
QUICK = (
    Prover("dearest pod", lambda _: True, _dearest),  # none
    Prover("relaxation", lambda _: True, _relaxation),  # kinds times offerings, once for all proofs
    Prover("limits", lambda it: it.proofs.ending, _limited),  # the same once more
)
PROVERS = (
    *QUICK,
    # A linear program of kinds and offerings, nodes whole: at most a quarter of what is left.
    Prover("capacities", lambda it: not it.tied and it.open, _capacities),
    # A knapsack search per offering, with the dual values that packing found.
    Prover("columns", lambda it: it.dual_values is not None and it.bound < it.hourly, _columns),
    # An integer program per domain: up to 70 % of what is left.
    Prover("rules between pods", lambda it: it.topology is not None and it.open, _topology),
    # An integer program over offerings or patterns, the smaller first, then the other if need be.
    Prover("whole numbers", lambda it: it.open and it.ruled < it.hourly * CLOSE, _whole),
)


def prove(question: Question, *, quick: bool = False) -> Proof:
    """The best proof for a plan; if `quick`, of those that take next to no time."""
    for prover in QUICK if quick or question.proofs.slice_over else PROVERS:
        if not question.settled and prover.needs(question):
            prover.prove(question)
    return question.best()


def highest_ratio(
    pricing: PricingInstance, dual_values: Floats, hopeless: Callable[[float], bool], work: SolveBudget
) -> float | None:
    """No node can hold more worth (S,) than this multiple, at least 1, of its price.

    None if that is not known within the work, or once the multiple is `hopeless`.
    """
    knapsacks = Knapsacks(pricing.in_units(), work)
    patterns = PatternSearch(pricing, dual_values, work) if len(dual_values) <= FEW else None
    highest = 1.0
    for column, price in enumerate(pricing.price.tolist()):
        if price <= 0 or hopeless(highest):
            return None
        if patterns is not None and work.left:
            found = patterns.of(column, price * highest, WIDE)
            if found.others <= price * highest:
                best = float(np.max(found.counts @ dual_values, initial=0.0)) * (1 + ROUNDING)
                highest = max(highest, best / price)
                continue
        most = float("inf")
        for width, much in _SEARCHES:
            if not work.left:
                return None
            above = price * max(highest, much)
            held = knapsacks.run(column, dual_values, above, width)
            most = min(most, held.most)
            if held.others <= above * (1 + ROUNDING):
                break
        highest = max(highest, most / price)
    return highest


def _rules(
    scope: Scope, listed: Amounts, charged: Floats
) -> tuple[tuple[NodeRule, ...], tuple[tuple[int, int], ...]]:
    """The rules among the kinds that are listed, and the pairs that none of them covers."""
    position = {kind: index for index, kind in enumerate(listed.tolist())}
    first = scope.vectors.shape[1] - len(scope.rules)
    groups = [
        (name, int(scope.most[row]), np.flatnonzero(scope.vectors[:, first + row]).tolist())
        for row, name in enumerate(scope.rules)
    ]
    groups += [("one of these at most", 1, group) for group in cliques(scope.conflict)]
    rules = []
    open_pairs = np.triu(scope.conflict, 1) if scope.conflict.any() else scope.conflict
    for row, (name, most, kinds) in enumerate(groups):
        mine = tuple(position[kind] for kind in kinds if kind in position)
        paid = int(charged[first + row]) if first + row < len(charged) else 0
        if mine:
            rules.append(NodeRule(name, most, mine, paid))
        if most == 1:
            open_pairs[np.ix_(kinds, kinds)] = False
    pairs = np.argwhere(open_pairs).tolist() if open_pairs.any() else []
    apart = tuple((position[a], position[b]) for a, b in pairs if a in position and b in position)
    return tuple(rules), apart


def absorbed(dual_values: Floats, vectors: Amounts, copies: Amounts, free: Amounts, prices: Floats) -> Floats:
    """Per free capacity (N,) a worth that no pattern of it exceeds, whatever the prices are.

    `dual_values` (S,), `vectors` (S, R), `copies` (S, N) that a capacity can hold of a kind alone, `free` (N,
    R). `prices` (P, R) are opinions of what a unit of a resource is worth. For any of them a pattern is worth
    at most what the capacity is, plus what its pods are worth beyond what they take: the least such sum
    counts.
    """
    some = np.flatnonzero(dual_values > 0)
    dual_values, vectors, copies = dual_values[some], vectors[some], copies[some]
    prices = np.concatenate([np.zeros((1, vectors.shape[1])), prices])
    beyond = np.maximum(dual_values[None, :] - prices @ vectors.T, 0.0)
    least = np.full(len(free), np.inf)
    for start in range(0, len(free), BLOCK):
        part = slice(start, start + BLOCK)
        most = beyond @ copies[:, part] + prices @ free[part].T
        least[part] = most.min(axis=0)
    result: Floats = least * (1 + ROUNDING)
    return result


class WholeNumbers:
    """One search. `better` are the patterns of a plan for less, by columns of the scope or by its free
    capacities.
    """

    def __init__(
        self,
        scope: Scope,
        pricing: PricingInstance,
        capacities: tuple[Amounts, Amounts],
        price: int,
        work: SolveBudget,
    ) -> None:
        """`capacities`: the free capacities (N, R), and how many of a kind each holds (S, N). `price`: of a
        plan.
        """
        self._scope, self._pricing, self._work = scope, pricing, work
        self._free, copies = capacities
        self._usable: Mask = copies > 0
        self._open = np.flatnonzero(self._usable.any(axis=0))
        self.price = price
        self.better: tuple[Pattern, ...] = ()

    def run(self, dual_values: Floats, taken: Amounts, known: int) -> int:
        """A bound in nano-dollars per hour.

        `known` by dual values (S,), less what each of the free capacities (N,) can take.
        """
        by_patterns = partial(self._by_patterns, dual_values, taken, known)
        ways: list[Callable[[], int]] = [partial(self.by_capacity, pods=True), by_patterns]
        if len(self._scope.pods) < len(self._pricing.price):  # there are few patterns of each offering
            ways.reverse()
        bound = 0
        for way in ways:
            if bound < self.price * CLOSE:
                bound = max(bound, way())
        return bound

    def by_capacity(self, *, pods: bool) -> int:
        """By what the nodes of one offering hold as one large node; in whole pods too if `pods`."""
        if len(self._open) > SEVERAL:
            free = grouped(self._usable, self._free)
            return whole_nodes(self._pricing, self._work, free, pods=pods, limit=self.price).bound
        free = Free(self._usable[:, self._open], self._free[self._open])
        found = whole_nodes(self._pricing, self._work, free, pods=pods, limit=self.price)
        self._keep(found.plan)
        return found.bound

    def _keep(self, patterns: tuple[Pattern, ...]) -> None:
        """Remember a plan by columns of the scope, if it is one and the cheapest so far."""
        price = sum(
            0 if pattern.free else pattern.number * int(self._pricing.price[pattern.column])
            for pattern in patterns
        )
        if patterns and price < self.price:
            columns = self._pricing.column
            self.price = price
            self.better = tuple(
                replace(pattern, column=int((self._open if pattern.free else columns)[pattern.column]))
                for pattern in patterns
            )

    def _by_patterns(self, dual_values: Floats, taken: Amounts, known: int) -> int:
        """By all patterns that a cheaper plan could use; such a plan is kept as well."""
        scope, capacities = self._scope, self._open
        few = len(scope.pods) <= FEW and len(capacities) <= SEVERAL
        if not (few and dual_values.any() and self._work.left):
            return 0
        there, left, price = scope.allowed[:, capacities].T, self._free[capacities], taken[capacities]
        market = replace(self._pricing, column=capacities, capacity=left, price=price)
        free = replace(market, feasible=there, own=there)
        found = whole(self._pricing, dual_values, (known, self.price), self._work, free=free)
        self._keep(found.plan)
        return found.bound


def grouped(usable: Mask, free: Amounts) -> Free:
    """Capacities that the same kinds can use as one large capacity, which holds whatever they do together."""
    groups = alike(usable.T, np.flatnonzero(usable.any(axis=0)).tolist())
    members = sorted(groups, key=lambda group: (-len(group), group))
    if len(members) > SEVERAL:
        members = [*members[:SEVERAL], [index for group in members[SEVERAL:] for index in group]]
    feasible = np.array([usable[:, group].any(axis=1) for group in members], dtype=np.bool_)
    capacity = np.array([free[group].sum(axis=0) for group in members], dtype=np.int64)
    return Free(feasible.reshape(len(members), len(usable)).T, capacity.reshape(len(members), free.shape[1]))
