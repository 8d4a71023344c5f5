"""Proofs of lower bounds, checked by trying every pattern of every offering and of every free capacity."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.model.plan import DEAREST_POD, NOTHING, Proof
from dovetail.model.problem import Budget
from dovetail.solve.bound.provers import Proofs, Question, absorbed, prove
from dovetail.solve.bound.relaxation import Early, relax
from dovetail.solve.bound.scope import Scope
from dovetail.solve.budget import SolveBudget
from dovetail.solve.colgen.generation import MarketProof
from dovetail.solve.colgen.pricing_instance import copies_in


def scope(
    vectors: list[list[int]], demand: list[int], offers: list[tuple[list[int], int]], free: list[list[int]]
) -> Scope:
    """Every offering is for every pod that it has the capacity for."""
    sizes = np.array(vectors, dtype=np.int64)
    capacity = np.array([size for size, _ in offers], dtype=np.int64)
    return Scope(
        pod_classes=tuple(range(len(sizes))),
        pools=(("default",),) * len(sizes),
        pods=tuple(tuple(f"default/{kind}-{number}" for number in range(n)) for kind, n in enumerate(demand)),
        vectors=sizes,
        feasible=np.all(capacity[None] >= sizes[:, None], axis=2),
        capacity=capacity,
        price=np.array([price for _, price in offers], dtype=np.int64),
        free=np.array(free, dtype=np.int64).reshape(len(free), sizes.shape[1]),
        conflict=np.zeros((len(sizes), len(sizes)), dtype=np.bool_),
        allowed=np.ones((len(sizes), len(free)), dtype=np.bool_),
        free_names=tuple(f"node-{number}" for number in range(len(free))),
        rules=(),
        most=np.zeros(0, dtype=np.int64),
    )


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    """Up to three kinds of pods of two resources; the last offering holds any of them."""
    amounts = st.integers(1, 6)
    kinds = draw(st.integers(1, 3))
    offers = [
        ([draw(st.integers(2, 12)), draw(st.integers(2, 12))], draw(st.integers(1, 20)) * 10**8)
        for _ in range(draw(st.integers(0, 3)))
    ]
    capacities = [[draw(st.integers(0, 8)), draw(st.integers(0, 8))] for _ in range(draw(st.integers(0, 2)))]
    return scope(
        [[draw(amounts), draw(amounts)] for _ in range(kinds)],
        [draw(st.integers(1, 3)) for _ in range(kinds)],
        [*offers, ([12, 12], 21 * 10**8)],
        capacities,
    )


def optimum(asked: Scope) -> int:
    """The price of the best plan, by trying all."""
    demand = tuple(asked.demand.tolist())
    patterns = list(itertools.product(*(range(n + 1) for n in demand)))

    def fitting(capacity: np.ndarray, allowed: np.ndarray) -> list[tuple[int, ...]]:
        return [
            pattern
            for pattern in patterns
            if np.all(np.array(pattern) @ asked.vectors <= capacity) and all(allowed[np.flatnonzero(pattern)])
        ]

    left = {demand}
    for row, capacity in enumerate(asked.free):
        left = {
            tuple(max(0, a - b) for a, b in zip(state, pattern, strict=True))
            for state in left
            for pattern in fitting(capacity, asked.allowed[:, row])
        }
    priced = [
        (pattern, int(price))
        for column, price in enumerate(asked.price)
        for pattern in fitting(asked.capacity[column], asked.feasible[:, column])
        if any(pattern)
    ]
    best = {tuple([0] * len(demand)): 0}
    for state in sorted(patterns, key=sum)[1:]:
        best[state] = min(
            best[tuple(max(0, a - b) for a, b in zip(state, pattern, strict=True))] + price
            for pattern, price in priced
            if any(a and b for a, b in zip(state, pattern, strict=True))
        )
    return min(best[state] for state in left)


def proof_of(asked: Scope, found: list[float] | None = None) -> Proof:
    dual_values = None if found is None else np.array(found)
    price = max(optimum(asked), 1)
    proofs = Proofs(asked, SolveBudget(Budget()))
    return prove(Question(proofs, price, dual_values))


def most_worth(asked: Scope, proof: Proof, capacity: np.ndarray, allowed: np.ndarray) -> int:
    """The dearest pattern by the proof's dual values, by trying all."""
    kinds = [int(item.pods[0].split("/")[1].split("-")[0]) for item in proof.worth]
    best = 0
    for pattern in itertools.product(*(range(len(item.pods) + 1) for item in proof.worth)):
        used = sum((n * asked.vectors[kind] for n, kind in zip(pattern, kinds, strict=True)), np.zeros(2))
        if np.all(used <= capacity) and all(
            allowed[kind] or not n for n, kind in zip(pattern, kinds, strict=True)
        ):
            best = max(best, sum(n * item.each for n, item in zip(pattern, proof.worth, strict=True)))
    return best


@given(scopes(), st.lists(st.integers(0, 10), min_size=3, max_size=3))
@settings(max_examples=150, deadline=None)
def test_a_proof_can_be_checked_by_itself(asked: Scope, some: list[int]) -> None:
    proof = proof_of(asked, [value * 1e8 for value in some[: len(asked.pods)]])
    for column, price in enumerate(asked.price.tolist()):
        assert most_worth(asked, proof, asked.capacity[column], asked.feasible[:, column]) <= price
    anything = np.ones(len(asked.pods), dtype=np.bool_)
    for name, capacity in zip(asked.free_names, asked.free, strict=True):
        if proof.method != DEAREST_POD:
            assert most_worth(asked, proof, capacity, anything) <= proof.absorbed.get(name, 0)
    total = sum(len(item.pods) * item.each for item in proof.worth)
    assert proof.linear <= total - sum(proof.absorbed.values())
    assert proof.linear <= proof.bound <= optimum(asked)


@given(scopes(), scopes())
@settings(max_examples=100, deadline=None)
def test_prices_of_another_relaxation_prove_something_when_it_is_late(asked: Scope, other: Scope) -> None:
    kinds = [kind % len(other.pods) for kind in asked.pod_classes]
    offers = (other.capacity, other.price, asked.vectors)
    every = np.ones((len(kinds), len(other.price)), dtype=np.bool_)
    prices = relax(every, *offers, other.demand[kinds])
    early = Early(lambda: prices, every.sum(axis=1), len(other.price), -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dovetail.solve.bound.provers.LARGE", 0)
        time_over = Proofs(asked, SolveBudget(Budget(), lambda: 1.0), early)
    proof = time_over.relaxation()
    assert proof.bound <= optimum(asked)
    for column, price in enumerate(asked.price.tolist()):
        assert most_worth(asked, proof, asked.capacity[column], asked.feasible[:, column]) <= price
    assert "goods" not in vars(time_over)  # nothing that takes long was made


def test_the_first_relaxation_is_not_solved_again_for_the_same_pods() -> None:
    asked = scope([[1, 2], [3, 1]], [4, 2], [([8, 8], 10**9), ([4, 8], 6 * 10**8)], [])
    prices = relax(asked.feasible, asked.capacity, asked.price, asked.vectors, asked.demand)
    early = Early(lambda: prices, np.array([2, 2]), 2, 6)
    assert (
        Proofs(asked, SolveBudget(Budget()), early).relaxation()
        == Proofs(asked, SolveBudget(Budget())).relaxation()
    )
    assert early.same(asked)
    assert not replace(early, pods=7).same(asked)
    assert not early.same(replace(asked, feasible=asked.feasible & [[True, False], [True, True]]))


def test_what_packing_proved_counts_where_no_more_is_known_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = scope([[1, 2], [3, 1]], [4, 2], [([8, 8], 10**9), ([4, 8], 6 * 10**8)], [])
    dual_values, pricing = np.array([1e8, 2e8]), Proofs(asked, SolveBudget(Budget())).pricing
    market = MarketProof(pricing, dual_values=dual_values, most=1.5 * pricing.price)
    proofs = Proofs(asked, SolveBudget(Budget()), market=market)
    sharper = proofs.columns(dual_values, 0).bound
    monkeypatch.setattr("dovetail.solve.bound.provers.highest_ratio", lambda *_: None)
    assert 5 * 10**8 < proofs.columns(dual_values, 0).bound < 6 * 10**8 <= sharper <= optimum(asked)


@pytest.mark.parametrize(
    ("demand", "free", "bound"),
    [
        ([1, 0], [], 10),
        ([5, 1], [], 25),  # the large pod decides, at its cheapest
        ([1, 1], [[4, 0]], 10),  # the large pod has capacity, though none is left for the small ones
        ([1, 1], [[4, 0], [1, 1]], 0),
    ],
)
def test_some_node_has_to_hold_the_dearest_pod(demand: list[int], free: list[list[int]], bound: int) -> None:
    asked = scope([[1, 1], [4, 0]], demand, [([3, 9], 10), ([9, 9], 25)], free)
    if not demand[1]:
        asked = scope([[1, 1]], demand[:1], [([3, 9], 10), ([9, 9], 25)], free)
    proof = proof_of(asked)
    assert proof.bound == bound
    assert proof.method == (DEAREST_POD if bound else NOTHING)
    assert sum(len(item.pods) for item in proof.worth) == bool(bound)


def test_free_room_absorbs_worth() -> None:
    vectors, demand = np.array([[6, 2], [4, 4], [3, 1]]), np.array([7, 9, 1])
    capacity = np.array([[12, 8], [0, 0]])
    copies = copies_in(capacity, vectors, demand, np.ones((3, 2), dtype=np.bool_))
    assert copies.tolist() == [[2, 0], [2, 0], [1, 0]]
    dual_values = np.array([4e8, 4e8, 2e8])
    no_opinion, opinion = np.zeros((0, 2)), np.array([[0.5e8, 0.5e8]])
    assert absorbed(dual_values, vectors, copies, capacity, no_opinion) == pytest.approx([18e8, 0])
    assert absorbed(dual_values, vectors, copies, capacity, opinion) == pytest.approx([10e8, 0])
