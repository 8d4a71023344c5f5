"""Which of its offerings a fleet request gets: the order in which the simulated EC2 tries them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dovetail.base.streams import stream
from dovetail.cloud.choice import Candidate, Pool
from dovetail.model import labels


def attempts(
    found: Iterable[Candidate], seed: int, claim: str, room: Callable[[Pool], int | None]
) -> Iterator[Candidate]:
    """The order in which offerings are tried.

    On-demand and reserved: the lowest price; zones of one price in an order drawn per claim. Spot: price and
    capacity together, see `_by_price_and_depth`.
    """
    left = list(found)
    if left and left[0].offering.capacity_type == labels.SPOT:
        yield from _by_price_and_depth(left, seed, room)
        return
    zones = sorted({candidate.offering.zone for candidate in left})
    stream(seed, claim, "zone order").shuffle(zones)
    yield from sorted(
        left, key=lambda one: (one.offering.price, one.instance_type.name, zones.index(one.offering.zone))
    )


def depth(seed: int, pool: Pool) -> int:
    """How deep a spot pool is, 1 to 100: drawn once per type and zone, the same for a whole simulation."""
    _, instance_type, zone = pool
    return stream(seed, f"{instance_type}/{zone}", "spot depth").randint(1, 100)


def _by_price_and_depth(
    left: list[Candidate], seed: int, room: Callable[[Pool], int | None]
) -> Iterator[Candidate]:
    """Of the pools that are at least half as deep as the deepest, the cheapest; then again without it.

    A model of price-capacity-optimized: EC2 publishes the aim, not the rule. A pool with a limit is no deeper
    than what is left of it.
    """
    depths = {}
    for candidate in left:
        free = room(candidate.pool)
        drawn = depth(seed, candidate.pool)
        depths[candidate.pool] = drawn if free is None else min(drawn, free)
    while left:
        deepest = max(depths[candidate.pool] for candidate in left)
        choice = min(
            (candidate for candidate in left if 2 * depths[candidate.pool] >= deepest),
            key=lambda one: (one.offering.price, -depths[one.pool], one.pool),
        )
        left.remove(choice)
        yield choice
