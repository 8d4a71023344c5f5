"""Cases that are hard for schedulers that place one pod after the other: groups, sizes, one pod per node."""

from __future__ import annotations

import random
from functools import partial

from benchmarks.solve import inputs
from benchmarks.solve.case import FIRST, SolveCase, Target
from dovetail.model import labels
from dovetail.model.problem import Problem

_TEAMS = 20
_SPREAD = {
    2_000: "2.2-4.8 s, 100 nodes",
    5_000: "5.3-14.2 s, 250 nodes",
    10_000: "70 s, 500 nodes",
}
_DISTINCT = {5_000: "1.6 s, 29 nodes", 20_000: "66 s, 242 nodes"}
_APART = {2_000: "11 s, 2,000 nodes", 4_000: "32 s, 4,000 nodes", 8_000: "over 200 s"}
_ONE_SECOND = {FIRST: Target(seconds=1.0)}  # whoever is given a second takes it


def cases() -> list[SolveCase]:
    """All of them."""
    found = [
        SolveCase(
            f"deployments/{count}",
            partial(deployments, count),
            targets=_ONE_SECOND if count == 10_000 else {},
            rival=rival,
        )
        for count, rival in _SPREAD.items()
    ]
    found += [
        SolveCase(
            f"distinct/{count}",
            partial(distinct, count),
            targets=_ONE_SECOND if count == 5_000 else {},
            rival=rival,
        )
        for count, rival in _DISTINCT.items()
    ]
    found += [
        SolveCase(
            f"apart/{count}",
            partial(apart, count),
            targets=_ONE_SECOND if count == 8_000 else {},
            rival=rival,
        )
        for count, rival in _APART.items()
    ]
    return [*found, SolveCase("hosts/10000", partial(hosts, 10_000), rival="40 s, 527 nodes")]


def deployments(count: int) -> Problem:
    """Twenty deployments of equal pods, each spread over zones and over hostnames, maxSkew 1."""
    draw = random.Random(42)
    sizes = [inputs.size(draw) for _ in range(_TEAMS)]
    pods = []
    for number in range(count):
        team = number % _TEAMS
        own = {"app": f"team-{team}"}
        rules = [inputs.spread(key, own) for key in (labels.ZONE, labels.HOSTNAME)]
        pods.append(inputs.pod(number, *sizes[team], own, topologySpreadConstraints=rules))
    return inputs.problem(pods, inputs.linear_types())


def distinct(count: int) -> Problem:
    """No two pods ask for the same: 100 m to 4.5 CPUs, 101 MiB and one more each."""
    draw = random.Random(42)
    pods = [inputs.pod(number, draw.randint(100, 4_500), 101 + number) for number in range(count)]
    return inputs.problem(pods, inputs.linear_types())


def apart(count: int) -> Problem:
    """Pods of the mix's sizes, no two on one node."""
    draw = random.Random(42)
    own = {"app": "apart"}
    affinity = inputs.near("podAntiAffinity", labels.HOSTNAME, own)
    pods = [inputs.pod(number, *inputs.size(draw), own, affinity=affinity) for number in range(count)]
    return inputs.problem(pods, inputs.linear_types())


def hosts(count: int) -> Problem:
    """Pods of the mix's sizes in twenty groups, each spread over hostnames, maxSkew 1."""
    draw = random.Random(42)
    pods = []
    for number in range(count):
        own = {"app": f"team-{draw.randrange(_TEAMS)}"}
        rules = [inputs.spread(labels.HOSTNAME, own)]
        pods.append(inputs.pod(number, *inputs.size(draw), own, topologySpreadConstraints=rules))
    return inputs.problem(pods, inputs.linear_types())
