"""The words for pods that fit nowhere, as users of the field know them."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.solve.solver import solve
from dovetail.testing.scenarios import to_problem

ZONE = "topology.kubernetes.io/zone"


def reason(requests: dict[str, str], **spec: Any) -> str:
    """Why a pod with these requests has no place in one pool of one small type in zone z-a."""
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    in_zone = {"requirements": {ZONE: "z-a", "karpenter.sh/capacity-type": "spot"}}
    scenario = {
        "nodePools": [
            {
                "metadata": {"name": "np"},
                "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
            }
        ],
        "instanceTypes": [
            {
                "name": "small",
                "requirements": [{"key": ZONE, "operator": "In", "values": ["z-a"]}],
                "offerings": [{"price": 0.1, "available": True, **in_zone}],
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "10"},
                "overhead": {},
            }
        ],
        "wellKnownLabels": [ZONE, "karpenter.sh/capacity-type"],
        "pods": [
            {
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"containers": [{"name": "web", "resources": {"requests": requests}}], **spec},
            }
        ],
    }
    (left,) = solve(to_problem(scenario)).unschedulable
    return left.reason


def test_too_large_names_what_was_asked_in_the_units_of_the_field() -> None:
    message = reason({"cpu": "300", "memory": "1Gi"})
    assert message.startswith("no instance type has enough resources, requirements=")
    assert message.endswith('resources={"cpu":"300","memory":"1Gi","pods":"1"}')


def test_a_million_cpus_are_taken_for_a_typo() -> None:
    message = reason({"cpu": "1M"})
    assert message.startswith(
        "no instance type has enough resources (CPU request >= 1 Million, m vs M typo?),"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"nodeSelector": {"team": "a"}},
            'incompatible requirements, label "team" does not have known values',
        ),
        (
            {"nodeSelector": {ZONE: "z-b"}},
            "no instance type met the scheduling requirements or had a required offering, requirements=",
        ),
    ],
)
def test_labels_that_no_node_would_have(spec: dict[str, Any], message: str) -> None:
    assert reason({"cpu": "1"}, **spec).startswith(message)
