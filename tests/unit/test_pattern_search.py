"""Patterns of one node: every maximal one that is worth enough, against trying all of them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.model.problem import Budget
from dovetail.solve.budget import SolveBudget
from dovetail.solve.colgen.knapsack_pricing import Companions, Knapsacks
from dovetail.solve.colgen.pattern_mip import PatternSearch
from dovetail.solve.colgen.pricing_instance import PricingInstance, pricing_instance


@st.composite
def markets(draw: st.DrawFn) -> tuple[PricingInstance, np.ndarray]:
    """One column, up to four items of two resources, some of which keep apart, and what they are worth."""
    items = draw(st.integers(1, 4))
    vectors = np.array([[draw(st.integers(0, 4)), draw(st.integers(1, 4))] for _ in range(items)])
    conflict = np.zeros((items, items), dtype=np.bool_)
    if items > 1 and draw(st.booleans()):
        conflict[0, 1] = conflict[1, 0] = True
    feasible = np.array([[draw(st.booleans())] for _ in range(items)])
    feasible[0] = True
    demand = np.array([draw(st.integers(1, 3)) for _ in range(items)])
    capacity = np.array([[draw(st.integers(4, 14)), draw(st.integers(4, 14))]])
    dual_values = np.array([float(draw(st.integers(0, 9))) for _ in range(items)])
    return pricing_instance(feasible, capacity, np.array([50]), vectors, conflict, demand), dual_values


def tried(pricing: PricingInstance, dual_values: np.ndarray, above: float) -> set[tuple[int, ...]]:
    """Patterns of items of worth that are worth more, and have no capacity for one more of any."""
    some = [range(int(n) + 1 if w > 0 else 1) for n, w in zip(pricing.copies()[0], dual_values, strict=True)]
    fitting = {
        pattern for pattern in itertools.product(*some) if pricing.cheapest(np.array([pattern]))[0] == 0
    }
    one_more = [tuple(row) for row in np.eye(len(dual_values), dtype=np.int64).tolist()]
    return {
        pattern
        for pattern in fitting
        if np.array(pattern) @ dual_values > above
        and not any(tuple(a + b for a, b in zip(pattern, more, strict=True)) in fitting for more in one_more)
    }


@settings(max_examples=300, deadline=None)
@given(markets(), st.integers(0, 30))
def test_every_load_that_matters_is_found(asked: tuple[PricingInstance, np.ndarray], above: int) -> None:
    pricing, dual_values = asked
    found = PatternSearch(pricing, dual_values, SolveBudget(Budget(work=10**6))).of(0, float(above), 10_000)
    assert found.others == above
    patterns = {tuple(pattern) for pattern in found.counts.tolist()}
    assert tried(pricing, dual_values, above) <= patterns
    assert all(pricing.cheapest(np.array([pattern]))[0] == 0 for pattern in patterns)


@settings(max_examples=300, deadline=None)
@given(markets(), st.integers(0, 30), st.data())
def test_pods_that_want_others_beside_them_are_priced_with_those(
    asked: tuple[PricingInstance, np.ndarray], above: int, data: st.DataObject
) -> None:
    pricing, dual_values = asked
    items, rules = len(dual_values), data.draw(st.integers(0, 2))
    some = st.lists(st.booleans(), min_size=items, max_size=items)
    drawn = [np.array([data.draw(some) for _ in range(rules)], dtype=np.bool_) for _ in range(2)]
    owners, companions = (each.reshape(rules, items) for each in drawn)
    companions &= ~owners
    price = np.array([data.draw(st.sampled_from([0.0, 5.0, np.inf])) for _ in range(rules)])
    beside = Companions(owners, companions, price)
    worth = np.where(companions.any(axis=0), dual_values - 3, dual_values)

    work = SolveBudget(Budget(work=10**6))
    found = Knapsacks(pricing, work).run(0, worth, float(above), 10_000, beside)

    def net(pattern: tuple[int, ...]) -> float:
        counts = np.array(pattern)
        lacking = [
            bool(counts[owner].any() and not counts[mate].any())
            for owner, mate in zip(beside.owners, beside.companions, strict=True)
        ]
        return float(counts @ worth - sum(cost for cost, lacks in zip(price, lacking, strict=True) if lacks))

    fitting = [
        pattern
        for pattern in itertools.product(*(range(int(n) + 1) for n in pricing.copies()[0]))
        if pricing.cheapest(np.array([pattern]))[0] == 0
    ]
    best = max(map(net, fitting))
    assert found.others <= above or best <= above
    assert best <= found.most or best <= above
    assert [net(tuple(pattern)) for pattern in found.counts.tolist()] == found.worth.tolist()
    assert (found.worth.max(initial=0.0) == best) if best > above else not len(found.worth)


def test_where_there_are_too_many_nothing_is_claimed_of_the_others() -> None:
    items = 12
    vectors = np.arange(11, 11 + items)[:, None]
    everywhere, apart = np.ones((items, 1), dtype=np.bool_), np.zeros((items, items), dtype=np.bool_)
    capacity, demand = np.array([[90]]), np.full(items, 3)
    pricing = pricing_instance(everywhere, capacity, np.array([100]), vectors, apart, demand)
    found = PatternSearch(pricing, vectors[:, 0].astype(float), SolveBudget(Budget(work=10**6))).of(
        0, 0.0, 20
    )
    assert not len(found.counts)
    assert found.others >= 90
