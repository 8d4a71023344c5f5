"""Types that nobody knows a price of: they are never bought, and whoever allowed them is told so."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from dovetail.model.problem import Pool

_SHOWN = 3


def unpriced(pools: Iterable[Pool]) -> tuple[str, ...]:
    """Names of the types that some pool allows and of which no offering has a price, sorted."""
    found = {
        item.name
        for pool in pools
        for item in pool.instance_types
        if all(one.price == 0 for one in item.offerings)
        and not pool.requirements.intersects(item.requirements)
    }
    return tuple(sorted(found))


def warn_of_unpriced(pools: Iterable[Pool], region: str) -> None:
    """To standard error; nothing where all prices are known."""
    names = unpriced(pools)
    if not names:
        return
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    one = len(names) == 1
    text = (
        f"note: no price is known in {region} of {len(names)} type{'' if one else 's'} that the NodePools "
        f"allow, so {'it is' if one else 'they are'} not bought: {', '.join(names[:_SHOWN])}{more}\n"
        f"  `dovetail catalog refresh --region {region}` asks AWS for today's prices"
    )
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(text)
