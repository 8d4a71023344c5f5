"""The planner alone beside hostile objects: it never raises, keeps every rule, and places ordinary pods."""

from __future__ import annotations

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.scheme import BY_GVK
from dovetail.model.problem import Budget
from dovetail.solve.solver import solve
from dovetail.testing import problems
from dovetail.testing.hostile import Document, Place, attacks
from dovetail.testing.scenarios import to_problem
from dovetail.verify import verify

ORDINARY = 20
WORK = Budget(work=50_000)
# Kind -> where a recorded scenario keeps objects of it.
FIELDS = {
    "Pod": "pods",
    "Node": "nodes",
    "NodePool": "nodePools",
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "volumeClaims",
    "PersistentVolume": "volumes",
    "StorageClass": "storageClasses",
    "CSINode": "csiNodes",
    "DaemonSet": "daemonSets",
}
PLANNED = tuple(
    attack
    for attack in attacks()
    if attack.admitted and any(one["kind"] in FIELDS for one in attack.make(Place(many=1)))
)


def readable(document: Document) -> bool:
    """False for an object that costs itself only: the informers leave it out."""
    try:
        decode(document, BY_GVK[document["apiVersion"], document["kind"]])
    except (msgspec.ValidationError, ValueError, KeyError):
        return False
    return True


def question(*documents: Document) -> Document:
    """Twenty ordinary pods, half of them spread over zones, and the hostile objects beside."""
    spread = problems.rules("web", "api")["spread over zones"]
    pods = [
        problems.pod(f"web-{number}", "web", (900, 1024), spread if number % 2 else {})
        for number in range(ORDINARY)
    ]
    asked = problems.scenario(pods, [problems.pool("general")], problems.instance_types())
    for document in documents:
        field = FIELDS.get(document["kind"])
        if field is None or not readable(document) or "deletionTimestamp" in document["metadata"]:
            continue
        if field == "pods" and document["spec"].get("nodeName"):
            field = "boundPods"
        asked.setdefault(field, []).append(document)
    return asked


GROUP = 12  # attacks beside one plan


@pytest.mark.parametrize("first", range(0, len(PLANNED), GROUP))
def test_beside_attacks(first: int) -> None:
    documents = [
        document
        for number, attack in enumerate(PLANNED[first : first + GROUP])
        for document in attack.make(Place(name=f"hostile-{number}", many=10))
    ]
    problem = to_problem(question(*documents))
    plan = solve(problem, WORK)
    assert verify(problem, plan) == ()
    assert [pod for pod in plan.left if pod.startswith("default/web-")] == []
