"""Pools whose requirements leave no instance type to launch."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.model.offering import InstanceType
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirements

NONE_LEFT = "NodePool requirements filtered out all compatible available instance types"
MIN_VALUES = " due to minValues incompatibility"


class Offers:
    """Finds what is wrong with a pool's choice; remembers the answer while pool and types stay the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Requirements, tuple[InstanceType, ...], str]] = {}

    def keep_only(self, pools: Iterable[Pool]) -> None:
        """Forget all others: they are gone, or sell nothing now."""
        self._known = {pool.name: self._known[pool.name] for pool in pools if pool.name in self._known}

    def fault(self, pool: Pool, *, strict_min_values: bool) -> str:
        """ "" iff the pool could launch something now, else the message of its event."""
        known = self._known.get(pool.name)
        if known is not None and known[0] == pool.requirements and known[1] is pool.instance_types:
            return known[2]
        message = _fault(pool, strict_min_values)
        self._known[pool.name] = (pool.requirements, pool.instance_types, message)
        return message


def _fault(pool: Pool, strict_min_values: bool) -> str:
    left = [item for item in pool.instance_types if _launchable(item, pool.requirements)]
    if not left:
        return NONE_LEFT
    if strict_min_values:
        for requirement in pool.requirements:
            wanted = requirement.min_values
            if wanted is not None and _distinct(left, requirement.key) < wanted:
                return NONE_LEFT + MIN_VALUES
    return ""


def _launchable(item: InstanceType, requirements: Requirements) -> bool:
    if item.requirements.intersects(requirements):
        return False
    return any(
        offering.available and not offering.requirements.intersects(requirements)
        for offering in item.offerings
    )


def _distinct(types: list[InstanceType], key: str) -> int:
    return len({value for item in types for value in item.requirements.get(key).values})
