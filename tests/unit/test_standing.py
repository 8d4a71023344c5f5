"""What `explain node` says of a node that is to go, and of one whose pods were moved a while ago."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs
from test_emptiness import NOW, READY, REF, pod, pool

from dovetail.api.codec import decode
from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.base.clock import HOUR, MINUTE
from dovetail.cluster.problem import ClusterObjects
from dovetail.disrupt.command import REPLACES
from dovetail.disrupt.consolidation.churn import MOVED_PODS, workload
from dovetail.disrupt.consolidation.search import FRESH, RESTING
from dovetail.disrupt.rollout import MOVED
from dovetail.disrupt.standing import standing
from dovetail.model import labels
from dovetail.units.timestamp import to_rfc3339

UNIT = 10 * MINUTE


def cluster(moved: int, *, forced: bool = False, drifted: int | None = None, **more: Any) -> ClusterObjects:
    """One node with a pod that came by a move `moved` units ago; its claim drifted `drifted` units ago.

    `more` are `marks` of the NodePool, `age` of the claim (nanoseconds), after which it expires, and its
    `notes` (annotations).
    """
    there = pod("there", uid="uid-of-the-pod")
    came = structs.replace(there.metadata, creation_timestamp=to_rfc3339(NOW - moved * UNIT))
    there = structs.replace(there, metadata=came)
    made = to_rfc3339(NOW - moved * UNIT - MINUTE) + (" forced" if forced else "")
    owner = pool(consolidateAfter="5m")
    marks = {MOVED_PODS: json.dumps({made: {workload(there): 1}}), **more.get("marks", {})}
    owner = structs.replace(owner, metadata=structs.replace(owner.metadata, annotations=marks))
    stamped = {"karpenter.sh/nodepool": "general", "karpenter.sh/initialized": "true"}
    node = {"metadata": {"name": "n", "labels": stamped}, "spec": {"providerID": "i"}, "status": READY}
    conditions = [{"type": "Consolidatable", "status": "True"}]
    if drifted is not None:
        since = to_rfc3339(NOW - drifted * UNIT)
        conditions.append({"type": "Drifted", "status": "True", "lastTransitionTime": since})
    made_at = to_rfc3339(NOW - more.get("age", 0))
    claim = {
        "metadata": {
            "name": "claim-n",
            "labels": stamped,
            "annotations": more.get("notes", {}),
            "creationTimestamp": made_at,
        },
        "spec": {"nodeClassRef": REF, **({"expireAfter": "30m"} if "age" in more else {})},
        "status": {"providerID": "i", "nodeName": "n", "conditions": conditions},
    }
    return ClusterObjects((owner,), (decode(claim, NodeClaim),), (decode(node, Node),), (there,))


@pytest.mark.parametrize(
    ("objects", "until"),
    [
        (cluster(1, drifted=2), NOW + 4 * UNIT),  # an hour after the drift
        (cluster(3, drifted=2), NOW + 3 * UNIT),  # an hour after the pod came
        (cluster(1), None),  # it did not drift
        (cluster(7, drifted=2), None),  # the pod came more than an hour ago
        (cluster(1, drifted=6), None),  # the drift has waited for an hour
        (cluster(1, drifted=2, forced=True), None),  # the pod had to move, which does not keep drift waiting
    ],
)
def test_drift_waits_for_pods_that_consolidation_moved_within_the_hour(
    objects: ClusterObjects, until: int | None
) -> None:
    found = standing(objects, "n", NOW)
    assert found is not None
    assert not found.blockers
    if until is None:
        assert not found.replacement
        return
    (text,) = found.replacement
    assert text.startswith(f"Drifted: {MOVED} (until ")
    stamp = text.removeprefix(f"Drifted: {MOVED} (until ").removesuffix(" at the latest)")
    # Creation times of pods name a second, of which the end counts.
    assert stamp in {to_rfc3339(until), to_rfc3339(until + HOUR // 3600)}


def test_age_waits_as_drift_does() -> None:
    marks = {labels.EXPIRATION: "replace-first"}
    found = standing(cluster(1, marks=marks, age=4 * UNIT), "n", NOW)
    assert found is not None
    assert [text.split(":")[0] for text in found.replacement] == ["Expired"]


@pytest.mark.parametrize(("moved", "forced", "rests"), [(1, True, True), (7, True, False), (1, False, False)])
def test_consolidation_waits_for_pods_that_had_to_move(moved: int, forced: bool, rests: bool) -> None:
    found = standing(cluster(moved, forced=forced), "n", NOW)
    assert found is not None
    assert (RESTING in found.consolidation) == rests


@pytest.mark.parametrize(
    ("age", "notes", "rests"),
    [(HOUR - MINUTE, {REPLACES: "{}"}, True), (HOUR, {REPLACES: "{}"}, False), (0, {}, False)],
)
def test_consolidation_leaves_what_was_bought_in_place_of_others_for_an_hour(
    age: int, notes: dict[str, str], rests: bool
) -> None:
    found = standing(cluster(7, age=age, notes=notes), "n", NOW)
    assert found is not None
    assert (FRESH in found.consolidation) == rests


def test_what_was_moved_may_be_unreadable_or_still_to_come() -> None:
    for text in ("{", json.dumps({to_rfc3339(NOW + HOUR): {"x": 1}})):
        found = standing(cluster(1, drifted=2, marks={MOVED_PODS: text}), "n", NOW)
        assert found is not None
        assert not found.replacement
