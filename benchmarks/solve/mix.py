"""The mix of pods that Karpenter's own scheduling benchmark plans, and its pods with preferences.

A fifth each of plain pods, zone spread, hostname spread (both maxSkew 1), zone affinity to themselves and
hostname anti-affinity to themselves; 400 types; the input is decoded, only the solve is timed.
"""

from __future__ import annotations

import random
from functools import partial

from benchmarks.solve import inputs
from benchmarks.solve.case import FIRST, SolveCase, Target
from benchmarks.solve.inputs import Document
from dovetail.model import labels
from dovetail.model.problem import Problem

_RIVAL = {
    100: "0.08-0.18 s, 20 nodes",
    1_000: "1.0-2.3 s, 200 nodes",
    2_000: "2.0-4.8 s, 400 nodes",
    5_000: "6.1-12.5 s, 1,000 nodes",
    10_000: "15-27 s, 2,000 nodes",
    20_000: "44-82 s, 4,000 nodes",
}
_MOST = {2_000: 0.2, 20_000: 1.5}  # seconds, for the first plan: with a deadline there is more to be gained
_VALUES = "abcdefg"


def cases() -> list[SolveCase]:
    """All of them; `crossed` draws the labels and the selectors of the spreads independently."""
    found = [
        _case(f"mix/{count}", partial(diverse, count), count)
        for count in (1, 10, 100, 500, *sorted(_RIVAL)[1:])
    ]
    found += [
        _case(f"crossed/{count}", partial(diverse, count, crossed=True), count) for count in (2_000, 20_000)
    ]
    return [
        *found,
        SolveCase(
            "preferences/respect",
            partial(preferences, 4_000, respect=True),
            targets={1.0: Target(seconds=0.5)},
            rival="48-55 s, 4,000 nodes",
        ),
        SolveCase(
            "preferences/ignore", partial(preferences, 4_000, respect=False), rival="1.0-1.2 s, 6 nodes"
        ),
    ]


def _case(name: str, make: partial[Problem], count: int) -> SolveCase:
    targets = {FIRST: Target(seconds=_MOST[count])} if count in _MOST else {}
    return SolveCase(name, make, targets=targets, rival=_RIVAL.get(count, ""))


def diverse(count: int, *, crossed: bool = False) -> Problem:
    """`count` pods of the mix. Where the labels are not `crossed`, every group selects its own pods."""
    draw = random.Random(42)
    makers = (_plain, _zone_spread, _host_spread, _zone_affinity, _host_anti_affinity)
    pods = [makers[number % len(makers)](number, draw, crossed) for number in range(count)]
    return inputs.problem(pods, inputs.linear_types())


def preferences(count: int, *, respect: bool) -> Problem:
    """Equal pods that prefer a zone that exists, and prefer neither a zone nor a node with others of them."""
    own = {"app": "preferring"}
    zone = {"key": labels.ZONE, "operator": "In", "values": [inputs.ZONES[0]]}
    apart = [
        {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": own}}}
        for weight, key in ((10, labels.ZONE), (1, labels.HOSTNAME))
    ]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {
        "nodeAffinity": {preferred: [{"weight": 100, "preference": {"matchExpressions": [zone]}}]},
        "podAntiAffinity": {preferred: apart},
    }
    pods = [inputs.pod(number, 500, 1024, own, affinity=affinity) for number in range(count)]
    return inputs.problem(pods, inputs.linear_types(), respect_preferences=respect)


def _plain(number: int, draw: random.Random, crossed: bool) -> Document:
    return inputs.pod(number, *inputs.size(draw), _drawn("spread", draw) if crossed else {"kind": "plain"})


def _zone_spread(number: int, draw: random.Random, crossed: bool) -> Document:
    return _spread(labels.ZONE, "spread" if crossed else "zone-spread", number, draw, crossed)


def _host_spread(number: int, draw: random.Random, crossed: bool) -> Document:
    return _spread(labels.HOSTNAME, "spread" if crossed else "host-spread", number, draw, crossed)


def _spread(key: str, name: str, number: int, draw: random.Random, crossed: bool) -> Document:
    own = _drawn(name, draw)
    selected = _drawn(name, draw) if crossed else own
    rules = [inputs.spread(key, selected)]
    return inputs.pod(number, *inputs.size(draw), own, topologySpreadConstraints=rules)


def _zone_affinity(number: int, draw: random.Random, _: bool) -> Document:
    own = _drawn("affinity", draw)
    return inputs.pod(number, *inputs.size(draw), own, affinity=inputs.near("podAffinity", labels.ZONE, own))


def _host_anti_affinity(number: int, draw: random.Random, _: bool) -> Document:
    own = {"alone": "true"}
    return inputs.pod(
        number, *inputs.size(draw), own, affinity=inputs.near("podAntiAffinity", labels.HOSTNAME, own)
    )


def _drawn(name: str, draw: random.Random) -> dict[str, str]:
    return {name: draw.choice(_VALUES)}
