"""Rules about limits that NodePools share, as the chart's values have them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dovetail.base.errors import InputError
from dovetail.cluster.shared_limits import read_shared_limits
from dovetail.lint import shelf
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, nested
from dovetail.lint.rules.nodepool import used_by
from dovetail.model.resources import quantities, total
from dovetail.model.shared_limits import HOURLY_COST, NODES, SharedLimit
from dovetail.reading import Located

_KNOWN = (*shelf.RESOURCES, NODES, HOURLY_COST)


@rule(
    "HV006",
    "shared-limit-amiss",
    Severity.WARNING,
    "A limit of several NodePools that binds nothing, or more than it should",
)
def shared_limit_amiss(inventory: Inventory) -> Iterator[Remark]:
    for located in inventory.values:
        settings = nested(located.value).get("settings")
        given = settings.get("sharedLimits") if isinstance(settings, dict) else None
        if not isinstance(given, dict | str) or not given:
            continue
        try:
            limits = read_shared_limits(given if isinstance(given, str) else json.dumps(given), "")
        except InputError:
            continue  # HV005 says what is wrong
        for index, limit in enumerate(limits):
            path = (
                f"settings.sharedLimits.limits[{index}]"
                if isinstance(given, dict)
                else "settings.sharedLimits"
            )
            yield from _of_pools(inventory, located, path, limit)
            yield from _of_amounts(inventory, located, path, limit)


def _of_pools(inventory: Inventory, located: Located, path: str, limit: SharedLimit) -> Iterator[Remark]:
    """Which pools it is about: known only where there are some."""
    there = {view.name for view in inventory.pools}
    if not there:
        return
    missing = [name for name in limit.pools if name not in there]
    if missing:
        yield Remark(
            located,
            path,
            f"there is no NodePool {', '.join(missing)}, which the shared limit {limit.name} names",
            "what was meant buys without that limit",
            f"name one of {', '.join(sorted(there))}, or give the NodePool's manifest too",
        )
    elif not any(limit.holds(view.name, view.pool.metadata.labels) for view in inventory.pools):
        yield Remark(
            located,
            path,
            f"the shared limit {limit.name} selects no NodePool",
            "it bounds nothing",
            "nodePoolSelector is about metadata.labels of the NodePool itself, not of its template",
        )


def _of_amounts(inventory: Inventory, located: Located, path: str, limit: SharedLimit) -> Iterator[Remark]:
    under = [view for view in inventory.pools if limit.holds(view.name, view.pool.metadata.labels)]
    used = total(used_by(inventory, view)[1] for view in under)
    for name, most in limit.limits:
        if meant := shelf.meant_resource(name, _KNOWN):
            yield Remark(
                located,
                path,
                f"no node has a resource {name}, which the shared limit {limit.name} bounds",
                "it bounds nothing",
                f"did you mean {meant}?",
            )
        elif name != HOURLY_COST and used.get(name, 0) > most:
            has, may = (quantities({name: amount})[name] for amount in (used[name], most))
            yield Remark(
                located,
                path,
                f"the nodes under the shared limit {limit.name} have {has} {name}, more than {may}",
                "nothing more is bought for any of its NodePools",
                "raise the limit, or let nodes go first",
            )


RULES = (shared_limit_amiss,)
