"""What moves save of their pools' cost for what they disrupt of them: the policy Balanced wants enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.disrupt.candidates import NodeView

BALANCED = "Balanced"
_K = 2  # a move may disrupt so many times the share that it saves
THRESHOLD = 1 / _K


@dataclass(frozen=True, slots=True)
class Totals:
    """All nodes of a pool: nano-dollars per hour, and what disrupting all of them would come to."""

    policy: str
    price: int
    cost: float


@dataclass(frozen=True, slots=True)
class Score:
    """What a move saves and disrupts of one pool, as shares of all of it."""

    pool: str
    policy: str
    saving: float
    disruption: float

    @property
    def value(self) -> float:
        return self.saving / self.disruption if self.disruption else float("inf")

    @property
    def refused(self) -> bool:
        """True iff the pool's policy does not allow the move."""
        return self.policy == BALANCED and self.value < THRESHOLD

    def __str__(self) -> str:
        """In the words of the events."""
        sign = ">=" if self.value >= THRESHOLD else "<"
        return (
            f"score {self.value:.2f} {sign} threshold {THRESHOLD:.2f} (k: {_K}, "
            f"savings {self.saving:.1%}, disruption {self.disruption:.1%})"
        )


def totals(views: Iterable[NodeView], surcharge: int) -> dict[str, Totals]:
    """Per pool, whatever stands against disrupting its nodes; each costs `surcharge` beside its own price."""
    policies: dict[str, str] = {}
    prices: dict[str, int] = {}
    costs: dict[str, float] = {}
    for view in views:
        if view.pool is None:
            continue
        name = view.pool_name
        policies.setdefault(name, view.pool.spec.disruption.consolidation_policy)
        prices[name] = prices.get(name, 0) + (view.price or 0) + surcharge
        costs[name] = costs.get(name, 0.0) + 1 + view.disruption_cost()
    return {name: Totals(policy, prices[name], costs[name]) for name, policy in policies.items()}


def scores(
    moved: Sequence[tuple[str, int, float]], saving: int, pools: Mapping[str, Totals]
) -> tuple[Score, ...]:
    """One score for each pool; `moved` are (pool, price, disruption) of the nodes that go.

    What is saved is shared among the pools by what their nodes cost.
    """
    whole = sum(price for _, price, _ in moved)
    found = []
    for pool in sorted({pool for pool, _, _ in moved} & pools.keys()):
        price = sum(each for name, each, _ in moved if name == pool)
        cost = sum(each for name, _, each in moved if name == pool)
        part = saving * price / whole if whole else 0.0
        all_of_it = pools[pool]
        share = part / all_of_it.price if all_of_it.price else 0.0
        disrupted = cost / all_of_it.cost if all_of_it.cost else 0.0
        found.append(Score(pool, all_of_it.policy, share, disrupted))
    return tuple(found)
