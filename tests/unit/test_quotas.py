"""Quotas under a spread: legal pod by pod, as many as can be, and the cheapest where that is asked."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from dovetail.solve.assign.spread_quotas import Domain, Skew, quotas


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Domain], Skew, int]:
    def domain() -> Domain:
        costs = sorted(draw(st.lists(st.integers(0, 4), min_size=1, max_size=2)))
        steps = tuple((cost, draw(st.integers(0, 4))) for cost in costs)
        return Domain(draw(st.integers(0, 3)), steps)

    domains = [domain() for _ in range(draw(st.integers(1, 3)))]
    floor = draw(st.none() | st.integers(0, 3))
    return (
        domains,
        Skew(draw(st.integers(1, 3)), floor, from_zero=draw(st.booleans())),
        draw(st.integers(1, 8)),
    )


def least(counts: list[int], skew: Skew) -> int:
    known = counts if skew.floor is None else [*counts, skew.floor]
    return 0 if skew.from_zero else min(known)


def legal_in_some_order(domains: list[Domain], skew: Skew, shares: tuple[int, ...]) -> bool:
    """Raise the lowest domain that still waits for pods; no other order allows more."""
    counts, rest = [domain.count for domain in domains], list(shares)
    while any(rest):
        index = min((index for index, number in enumerate(rest) if number), key=lambda index: counts[index])
        if counts[index] + 1 - least(counts, skew) > skew.most:
            return False
        counts[index] += 1
        rest[index] -= 1
    return True


def cost(domains: list[Domain], shares: tuple[int, ...]) -> int:
    total = 0
    for domain, share in zip(domains, shares, strict=True):
        each = [price for price, number in domain.steps for _ in range(number)]
        total += sum(each[:share])
    return total


@given(cases(), st.booleans())
def test_quotas_are_legal_as_many_as_can_be_and_cheapest(
    case: tuple[list[Domain], Skew, int], cheapest: bool
) -> None:
    domains, skew, pods = case
    every = [
        shares
        for shares in product(*(range(min(domain.capacity, pods) + 1) for domain in domains))
        if sum(shares) <= pods and legal_in_some_order(domains, skew, shares)
    ]
    most = max(sum(shares) for shares in every)
    found = tuple(quotas(domains, skew, pods, cheapest=cheapest))
    assert found in every
    assert sum(found) == most
    if cheapest and most == pods:
        assert cost(domains, found) == min(cost(domains, shares) for shares in every if sum(shares) == most)


def test_equal_prices_fill_the_first_domains_as_far_as_the_skew_allows() -> None:
    domains = [Domain(0, ((5, 1000),)) for _ in range(3)]
    assert quotas(domains, Skew(1), 301, cheapest=True) == [101, 100, 100]
    assert quotas(domains, Skew(5), 10, cheapest=False) == [4, 3, 3]


def test_a_domain_that_takes_none_holds_the_others_back() -> None:
    domains = [Domain(2, ((1, 1000),)), Domain(0, ((9, 1000),))]
    assert quotas(domains, Skew(2, floor=1), 100, cheapest=True) == [1, 3]
