"""All pods of a trace, recorded or synthetic, at once on the real types and prices of a region."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

from benchmarks.solve import inputs
from benchmarks.solve.case import FIRST, SolveCase, Target
from benchmarks.solve.floor import relaxation
from benchmarks.solve.inputs import Document
from benchmarks.solve.synthetic import Requests, requests
from dovetail.api.core import Container, Pod, PodSpec, ResourceRequirements
from dovetail.api.meta import Meta
from dovetail.base.streams import stream
from dovetail.cloud.catalog import instance_types
from dovetail.model import labels
from dovetail.model.offering import InstanceType, Offering
from dovetail.model.problem import Problem
from dovetail.model.resources import quantities
from dovetail.simulate.scenario.trace import GPU, read_trace

Pods = Callable[[], Sequence[Requests]]
_SHAPES = 600  # of the jittered traces
_JITTER = 50  # thousandths by which an amount may change
# Requirements of a pool as people write them: no accelerators, nothing old, nothing huge.
ORDINARY: tuple[Document, ...] = (
    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
    {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["33"]},
)
_MOST_ORDINARY = 31_000  # milli-CPU that a pod of such a pool may ask for
_SPOT = (320, 560)  # thousandths of the on-demand price
_MEASURED = "openb_cpu250"  # the trace that Karpenter was measured on
_RIVAL = {
    ("us-east-1", False, False): "8.9 s, 2.43 x z0",
    ("us-east-1", False, True): "9.9 s, 1.045 x bound",
    ("us-east-1", True, True): "10.1 s, 1.071 x bound",
}
_ALL = {
    FIRST: Target(seconds=0.6, over_floor=1.06),
    1.0: Target(over_floor=1.03),
    1.5: Target(over_floor=1.02),
    10.0: Target(over_bound=1.005),
    60.0: Target(over_bound=1.002),
}
_POOLED = {1.0: Target(seconds=0.2, over_bound=1.002)}


@dataclass(frozen=True, slots=True)
class Market:
    """Where nodes are bought, and for which prices."""

    region: str
    spot: bool
    ordinary: bool


def cases(paths: Sequence[Path], regions: Sequence[str]) -> list[SolveCase]:
    """Every trace in every region, on demand and with spot, on all types and on ordinary ones."""
    found = []
    for stem, pods in _traces(paths).items():
        for region in regions:
            for spot, ordinary in product((False, True), repeat=2):
                found.append(_case(stem, pods, Market(region, spot, ordinary)))
            found.append(_jittered(stem, pods, Market(region, spot=False, ordinary=False)))
    return found


def _traces(paths: Sequence[Path]) -> dict[str, Pods]:
    recorded = {path.name.partition(".")[0]: partial(read, path) for path in paths}
    return {"synthetic": partial(requests, 5_000, 120), **recorded}


def _case(stem: str, pods: Pods, market: Market) -> SolveCase:
    make = partial(question, pods, market)
    prices, kinds = "spot" if market.spot else "on-demand", "cmr" if market.ordinary else "all"
    return SolveCase(
        f"trace/{stem}/{market.region}/{prices}/{kinds}",
        make,
        budgets=(FIRST, 0.5, 1.0, 10.0) if market.ordinary else (FIRST, 0.5, 1.0, 1.5, 10.0, 60.0),
        targets=_POOLED if market.ordinary else _ALL,
        rival=_RIVAL.get((market.region, market.spot, market.ordinary), "") if stem == _MEASURED else "",
        floor=lambda: relaxation(make()),
    )


def _jittered(stem: str, pods: Pods, market: Market) -> SolveCase:
    make = partial(question, lambda: jittered(pods(), _SHAPES), market)
    return SolveCase(
        f"jittered/{stem}/{market.region}",
        make,
        budgets=(FIRST, 1.0, 10.0),
        targets={10.0: Target(over_floor=1.02)},
        floor=lambda: relaxation(make()),
    )


def question(pods: Pods, market: Market) -> Problem:
    """The pods that suit the market, and one pool."""
    return _planned([item for item in pods() if not market.ordinary or _suits(dict(item))], market)


def _suits(amounts: dict[str, int]) -> bool:
    return not amounts.get(GPU) and amounts.get("cpu", 0) <= _MOST_ORDINARY


@lru_cache(maxsize=4)
def read(path: Path) -> tuple[Requests, ...]:
    """What each pod of the trace asks for, in the file's order."""
    return tuple(tuple(sorted(row.requests.items())) for row in read_trace(path))


def jittered(pods: Sequence[Requests], shapes: int) -> list[Requests]:
    """The pods with CPU and memory changed by up to 5 %, so that just `shapes` different ones come about.

    The shapes with most pods are split first; all pods of a shape take its variants in turn.
    """
    counts = Counter(pods)
    variants = dict.fromkeys(sorted(counts), 1)
    for _ in range(shapes - len(counts)):
        widest = max(variants, key=lambda item: (counts[item] / variants[item], item))
        variants[widest] += 1
    seen: Counter[Requests] = Counter()
    result = []
    for item in pods:
        result.append(_variant(item, seen[item] % variants[item]))
        seen[item] += 1
    return result


def _variant(size: Requests, number: int) -> Requests:
    """The pod itself, or one of its slightly different fellows."""
    if not number:
        return size
    draw = stream(number, repr(size), "benchmark jitter")
    return tuple(
        (name, amount if name == GPU else amount * (1000 + draw.randint(-_JITTER, _JITTER)) // 1000)
        for name, amount in size
    )


def _planned(pods: Iterable[Requests], market: Market) -> Problem:
    capacity_types = [labels.ON_DEMAND, labels.SPOT] if market.spot else [labels.ON_DEMAND]
    requirements = [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": capacity_types},
        {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
        *(ORDINARY if market.ordinary else ()),
    ]
    asked = [_pod(number, size) for number, size in enumerate(pods)]
    return inputs.problem(asked, types(market.region), requirements=requirements)


def _pod(number: int, size: Requests) -> Pod:
    """A pod with objects of its own, as if decoded."""
    resources = ResourceRequirements(requests=quantities(dict(size)))
    container = Container(name="main", resources=resources)
    meta = Meta(name=f"pod-{number:06}", namespace="default")
    return Pod(metadata=meta, spec=PodSpec(containers=(container,)))


@lru_cache(maxsize=4)
def types(region: str) -> tuple[InstanceType, ...]:
    """The region's types; spot costs 0.32 to 0.56 of on-demand, drawn per type and zone."""
    return tuple(
        dataclasses.replace(item, offerings=tuple(_offering(item, one) for one in item.offerings))
        for item in instance_types(region)
    )


def _offering(kind: InstanceType, offering: Offering) -> Offering:
    if offering.capacity_type != labels.SPOT:
        return offering
    full = next(one.price for one in kind.offerings if one.capacity_type == labels.ON_DEMAND)
    share = stream(0, f"{kind.name}/{offering.zone}", "benchmark spot price").randint(*_SPOT)
    return dataclasses.replace(offering, price=full * share // 1000)
