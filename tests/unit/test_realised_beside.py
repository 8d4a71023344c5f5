"""What the benchmark counts as astray: pods that are not where their rules, required or wished, have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.realised.beside import astray

Record = Mapping[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = {"a1": "us-east-1a", "a2": "us-east-1a", "b": "us-east-1b", "c": "us-east-1c"}
STANDING = [{"t": 0, "kind": "node.created", "node": name, "zone": zone} for name, zone in NODES.items()]


def bound(t: int, name: str, node: str, app: str = "web") -> list[Record]:
    created = {"t": t, "kind": "pod.created", "pod": name, "labels": {"app": app}}
    return [created, {"t": t, "kind": "pod.bound", "pod": name, "node": node}]


def deployment(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"spec": spec}}}


def spread(key: str, skew: int = 1) -> dict[str, Any]:
    return deployment({"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": skew}]})


def apart() -> dict[str, Any]:
    wish = {"weight": 100, "podAffinityTerm": {"topologyKey": HOST}}
    rules = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    return deployment({"affinity": rules})


@pytest.mark.parametrize(
    ("nodes", "rule", "found"),
    [
        (["a1", "b", "c"], spread(ZONE), 0),
        (["a1", "a2", "b"], spread(ZONE), 1),  # two in one zone, none in the third
        (["a1", "a2", "b"], spread(ZONE, 2), 0),
        (["a1", "a1", "b", "b"], spread(ZONE), 2),
        (["a1", "a2", "b"], spread(HOST), 0),
        (["b", "b", "b"], spread(HOST, 2), 1),
        (["b", "b", "b"], apart(), 2),
        (["b", "b", "b"], deployment({}), 0),
    ],
)
def test_pods_beyond_what_a_rule_has_in_one_place_are_astray(
    nodes: list[str], rule: dict[str, Any], found: int
) -> None:
    records = [r for n, node in enumerate(nodes) for r in bound(1, f"p{n}", node)]
    assert astray([*STANDING, *records], [rule], 1) == found


def test_pods_of_others_that_went_and_that_come_later_do_not_count() -> None:
    records = [*STANDING, *bound(1, "p", "b"), *bound(1, "other", "b", "db"), *bound(2, "gone", "b")]
    records += [{"t": 3, "kind": "pod.deleted", "pod": "gone"}, *bound(5, "late", "b")]
    assert [astray(records, [apart()], until) for until in (2, 4, 5)] == [1, 0, 1]
