"""Gauges about what the provider sells, and about what is left of what launches share."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.metrics import Metric
from dovetail.controllers.context import Context
from dovetail.model.offering import NANO_DOLLARS, InstanceType
from dovetail.model.resources import CPU, MEMORY
from dovetail.runtime.figures.text import header, series

_TYPE = ("instance_type",)
_OFFERING = ("instance_type", "capacity_type", "zone")
CORES = Metric("karpenter_cloudprovider_instance_type_cpu_cores", "gauge", "The vCPUs of a type.", _TYPE)
BYTES = Metric("karpenter_cloudprovider_instance_type_memory_bytes", "gauge", "The memory of a type.", _TYPE)
AVAILABLE = Metric(
    "karpenter_cloudprovider_instance_type_offering_available",
    "gauge",
    "1 where some NodePool may launch the type so, 0 where it was refused lately.",
    _OFFERING,
)
PRICE = Metric(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "gauge",
    "What the type costs there, in dollars per hour.",
    _OFFERING,
)
LEFT = Metric(
    "dovetail_launch_room", "gauge", "What is left of what launches share: vCPUs, addresses.", ("of",)
)
LASTS = Metric(
    "dovetail_launch_room_lasts_seconds",
    "gauge",
    "In what time nothing is left of it at the rate of the last hour; +Inf if it does not shrink.",
    ("of",),
)
_SHORTEST = MINUTE  # a rate over less than that says nothing


class OfferFigures:
    """Lines of types are kept until the provider says something else."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._types: list[tuple[InstanceType, ...]] = []
        self._told: tuple[str, ...] = ()
        self._before: deque[tuple[int, dict[str, int]]] = deque()

    def text(self) -> Iterator[str]:
        """The lines."""
        state = self._context.state
        types = [self._context.instance_types(pool) for pool in state.all(NodePool)]
        known = self._types
        if len(types) != len(known) or any(one is not two for one, two in zip(types, known, strict=True)):
            self._types, self._told = types, tuple(_told(types))
        yield from self._told
        yield from self._room()

    def _room(self) -> Iterator[str]:
        now, left = self._context.clock.now(), dict(self._context.provider.commons())
        yield header(LEFT)
        yield from (f"{series(LEFT, (('of', name),))}{left[name]}\n" for name in sorted(left))
        while self._before and now - self._before[0][0] > HOUR:
            self._before.popleft()
        then, before = self._before[0] if self._before else (now, left)
        if not self._before or now - self._before[-1][0] >= _SHORTEST:
            self._before.append((now, left))
        yield header(LASTS)
        for name in sorted(left):
            lasts = _lasts(left[name], before.get(name, left[name]), now - then)
            yield f"{series(LASTS, (('of', name),))}{'+Inf' if math.isinf(lasts) else lasts}\n"


def _lasts(left: int, before: int, passed: int) -> float:
    """Seconds until nothing is left, at the rate at which it shrank."""
    if not left:
        return 0.0
    if passed < _SHORTEST or left >= before:
        return math.inf
    return left * passed / (before - left) / SECOND


def _told(types: list[tuple[InstanceType, ...]]) -> Iterator[str]:
    kinds = {item.name: item for some in types for item in some}
    offers: dict[tuple[str, str, str], tuple[bool, int]] = {}
    for some in types:
        for item in some:
            for one in item.offerings:
                key = item.name, one.capacity_type, one.zone
                known = offers.get(key, (False, one.price))
                offers[key] = known[0] or one.available, min(known[1], one.price)
    for metric, resource, unit in ((CORES, CPU, 1000), (BYTES, MEMORY, 1)):
        yield header(metric)
        for name in sorted(kinds):
            amount = kinds[name].capacity.get(resource, 0) / unit
            yield f"{series(metric, (('instance_type', name),))}{amount}\n"
    yield header(AVAILABLE)
    rows = [(tuple(zip(_OFFERING, key, strict=True)), found) for key, found in sorted(offers.items())]
    yield from (f"{series(AVAILABLE, named)}{int(found[0])}\n" for named, found in rows)
    yield header(PRICE)
    yield from (f"{series(PRICE, named)}{found[1] / NANO_DOLLARS}\n" for named, found in rows)
