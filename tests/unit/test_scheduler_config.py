"""The value of --scheduler-config: what is read, and how each fault is reported."""

from __future__ import annotations

import pytest

from dovetail.api.core import TopologySpreadConstraint
from dovetail.base.errors import InputError
from dovetail.cluster.scheduler_config import read_default_constraints

GOOD = """
podTopologySpread:
  defaultConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    minDomains: 2
  - {maxSkew: 3, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
"""
ONE = '{"podTopologySpread": {"defaultConstraints": [{"maxSkew": 2, "topologyKey": "rack",'
JSON = ONE + ' "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": null, "matchLabelKeys": []}]}}'
FIRST = "podTopologySpread.defaultConstraints[0]."


def read(text: str) -> tuple[TopologySpreadConstraint, ...]:
    return read_default_constraints(text, "--scheduler-config")


def test_yaml_and_json() -> None:
    zone, host = read(GOOD)
    assert (zone.max_skew, zone.when_unsatisfiable, zone.min_domains) == (1, "DoNotSchedule", 2)
    assert (host.max_skew, host.topology_key) == (3, "kubernetes.io/hostname")
    (rack,) = read(JSON)
    assert (rack.max_skew, rack.topology_key, rack.label_selector) == (2, "rack", None)


@pytest.mark.parametrize(
    "text", ["", " \n", "{}", "podTopologySpread:", "podTopologySpread: {defaultConstraints: []}"]
)
def test_nothing_is_no_constraint(text: str) -> None:
    assert read(text) == ()


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        ("/etc/scheduler.yaml", None, "", "expected an object with podTopologySpread"),
        ("- podTopologySpread", None, "", "expected an object with podTopologySpread"),
        ("a: [", 2, "", "malformed YAML"),
        ("{}\n---\n{}", None, "", "expected one document, found 2"),
        (GOOD + "profiles: []", 9, "profiles", "unknown field profiles"),
        (GOOD.replace("defaultC", "defaultc"), 3, "", "did you mean defaultConstraints?"),
        ("kind: KubeSchedulerConfiguration", 1, "", "of which only podTopologySpread is taken"),
        (GOOD.replace("minDomains", "minDomain"), 7, FIRST + "minDomain", "did you mean minDomains?"),
        (GOOD.replace("maxSkew: 1", "maxSkew: 0"), 4, FIRST + "maxSkew", "must be greater than zero"),
        (GOOD.replace("maxSkew: 1", "maxSkew: -2"), 4, FIRST + "maxSkew", "must be greater than zero"),
        (GOOD.replace("maxSkew: 1", "maxSkew: one"), 4, FIRST + "maxSkew", "must be of type integer"),
        (GOOD.replace("maxSkew: 1", "nodeTaintsPolicy: Honor"), 4, FIRST + "maxSkew", "Required value"),
        (
            GOOD.replace("y: topology.kubernetes.io/zone", "y: ''"),
            5,
            FIRST + "topologyKey",
            "must be non-empty",
        ),
        (
            GOOD.replace("io/zone", "io/a zone"),
            5,
            FIRST + "topologyKey",
            "'topology.kubernetes.io/a zone' is no",
        ),
        (
            GOOD.replace("DoNotSchedule", "Never"),
            6,
            FIRST + "whenUnsatisfiable",
            'supported values: "DoNotSchedule", "ScheduleAnyway"',
        ),
        (
            GOOD.replace("minDomains: 2", "labelSelector: {}"),
            7,
            FIRST + "labelSelector",
            "the scheduler deduces for each pod which pods count; leave it out",
        ),
        (
            GOOD.replace("minDomains: 2", "matchLabelKeys: [app]"),
            7,
            FIRST + "matchLabelKeys",
            "the scheduler deduces for each pod which pods count; leave it out",
        ),
        (
            GOOD + GOOD.splitlines()[-1],
            3,
            "podTopologySpread.defaultConstraints",
            "[1] and [2] have the same topologyKey and whenUnsatisfiable; keep one",
        ),
    ],
)
def test_what_is_not_valid(text: str, line: int | None, path: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in str(caught.value)
    assert caught.value.source == "--scheduler-config"
    assert caught.value.line == line
    assert path in caught.value.path
