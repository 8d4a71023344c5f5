"""How domains are picked where rules leave a choice; what comes of it shows only once nodes are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.solve.placing.items import Item
from dovetail.solve.supply.world import World

_FAVOURED = 4  # domains that are tried


@dataclass(frozen=True, slots=True)
class Policy:
    """By default pods go where they cost least; evenly only as far as a spread of theirs demands it."""

    even: bool = False  # as even as can be, also where only spreads of other pods count them
    favoured: str = ""  # a domain that is picked wherever it may be, '' for none


def others(world: World, items: Sequence[Item]) -> Iterator[Policy]:
    """What else is worth a try after these items, whose domains were picked by default."""
    keys = sorted({key for item in items for key, _ in item.pins})
    if keys:
        yield Policy(even=True)
    for key in keys:
        weight: dict[str, int] = {}
        for table in world.tables:
            values = table.domains(key)
            weight.update({values[column]: 0 for column in np.flatnonzero(table.own).tolist()})
        for item in items:
            value = dict(item.pins).get(key, "")
            weight[value] = weight.get(value, 0) + len(item.bundles)
        weight.pop("", None)
        if len(weight) > 1:
            for value in sorted(weight, key=lambda value: (-weight[value], value))[:_FAVOURED]:
                yield Policy(favoured=value)
