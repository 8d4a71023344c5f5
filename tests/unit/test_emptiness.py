"""Emptiness: which nodes go, what blocks the others, in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.base.clock import SECOND
from dovetail.disrupt.candidates import NodeView, blocker
from dovetail.disrupt.emptiness import decide, validate
from dovetail.disrupt.pods import Budgets

NOW = 1_772_409_600 * SECOND
REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pool(name: str = "general", after: str = "0s", **disruption: Any) -> NodePool:
    document = {
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": REF}},
            "disruption": {"consolidateAfter": after, "budgets": [{"nodes": "100%"}], **disruption},
        },
    }
    return decode(document, NodePool)


def pod(name: str = "p", cost: str = "0", status: dict[str, Any] | None = None, **meta: Any) -> Pod:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": cost, **meta.pop("annotations", {})}
    return decode(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"app": "web"},
                "annotations": annotations,
                **meta,
            },
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", **(status or {})},
        },
        Pod,
    )


def view(name: str = "n", *pods: Pod, owner: NodePool | None = None, **changes: Any) -> NodeView:
    owner = owner or pool()
    stamped = {"karpenter.sh/nodepool": owner.metadata.name}
    claim = decode(
        {
            "metadata": {"name": f"claim-{name}", "uid": name, "labels": stamped},
            "spec": {"nodeClassRef": REF},
            "status": {"conditions": [{"type": "Consolidatable", "status": "True"}]},
        },
        NodeClaim,
    )
    node = decode(
        {
            "metadata": {"name": name, "labels": {**stamped, "karpenter.sh/initialized": "true"}},
            "status": READY,
        },
        Node,
    )
    return replace(NodeView(claim, node, owner, pods, price=100), **changes)


def budget(name: str = "b", allowed: int = 0, **spec: Any) -> PodDisruptionBudget:
    return decode(
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


KEEP = {"karpenter.sh/do-not-disrupt": "true"}
ANNOTATED = decode(
    {"metadata": {"name": "n", "annotations": KEEP, "labels": {"karpenter.sh/initialized": "true"}}}, Node
)
FRESH = decode({"metadata": {"name": "n"}}, Node)
PDB = "Pdb prevents pod evictions (PodDisruptionBudget=[default/b])"


@pytest.mark.parametrize(
    ("case", "budgets", "expected"),
    [
        (view(), (), ""),
        (view(node=None), (), "Nodeclaim does not have an associated node"),
        (view(going=True), (), "Node is deleting or marked for deletion"),
        (view(queued=True), (), "Node is deleting or marked for deletion"),
        (view(node=FRESH), (), "Node isn't initialized nor registered"),
        (view(nominated=True), (), "Node is nominated for a pending pod"),
        (
            view(node=ANNOTATED),
            (),
            'Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation',
        ),
        (view(pool=None), (), "NodePool not found (NodePool=general)"),
        (
            view("n", pod(annotations=KEEP)),
            (),
            'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/p)',
        ),
        (view("n", pod()), (budget(),), PDB),
        (view("n", pod()), (budget(allowed=1),), ""),
        (view("n", pod()), (budget(unhealthyPodEvictionPolicy="AlwaysAllow"),), ""),
        (view("n", pod(status=READY)), (budget(unhealthyPodEvictionPolicy="AlwaysAllow"),), PDB),
        (
            view("n", pod()),
            (budget("b", 1), budget("a", 1)),
            "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[default/a default/b])",
        ),
        (view("n", pod(status={"phase": "Failed"})), (budget(),), ""),
    ],
)
def test_blockers(case: NodeView, budgets: tuple[PodDisruptionBudget, ...], expected: str) -> None:
    assert blocker(case, Budgets(budgets), NOW) == expected


OWNED = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((), True),
        ((pod(),), False),
        ((pod(**OWNED),), True),
        ((pod(status={"phase": "Succeeded"}),), True),
        ((pod(deletionTimestamp="2026-03-02T00:00:00Z"),), True),
        # So cheap to evict that its cost is not positive.
        ((pod(cost=str(-(2**31))),), True),
        ((pod(cost="-1000"),), False),
        ((pod(cost="cheap"),), False),
    ],
)
def test_empty(pods: tuple[Pod, ...], expected: bool) -> None:
    assert view("n", *pods).empty is expected


def test_all_empty_nodes_go_in_one_command_dearest_first() -> None:
    owner = pool()
    views = (view("a", price=1), view("b", pod()), view("c", price=3), view("d", price=3))
    decision = decide(views, (owner,), Budgets(()), NOW)
    assert decision.command is not None
    assert [item.name for item in decision.command.candidates] == ["c", "d", "a"]
    assert decision.command.savings == 7
    assert decision.command.names()[0] == "claim-c"


@pytest.mark.parametrize(
    ("nodes", "count", "expected"), [("10%", 6, 1), ("50%", 6, 3), ("0", 6, 0), ("2", 6, 2), ("100%", 3, 3)]
)
def test_budgets(nodes: str, count: int, expected: int) -> None:
    owner = pool(budgets=[{"nodes": nodes}])
    views = tuple(view(f"n{i}", owner=owner) for i in range(count))
    decision = decide(views, (owner,), Budgets(()), NOW)
    taken = decision.command.candidates if decision.command else ()
    assert len(taken) == expected
    texts = [note.message for note in decision.notes if note.on_pool]
    blocked = "No allowed disruptions for disruption reason Empty due to blocking budget"
    assert texts == ([blocked] if expected == 0 else [])


def test_nodes_on_their_way_out_use_the_budget() -> None:
    owner = pool(budgets=[{"nodes": "1"}])
    views = (view("a", owner=owner), view("b", owner=owner, going=True))
    assert decide(views, (owner,), Budgets(()), NOW).command is None


def with_ready(status: str) -> Node:
    marks = {"karpenter.sh/nodepool": "general", "karpenter.sh/initialized": "true"}
    conditions = [{"type": "Ready", "status": status}] if status else []
    return decode({"metadata": {"name": "b", "labels": marks}, "status": {"conditions": conditions}}, Node)


@pytest.mark.parametrize(
    ("ready", "goes"), [("True", True), ("False", False), ("Unknown", False), ("", False)]
)
def test_a_node_that_is_not_ready_uses_the_budget(ready: str, goes: bool) -> None:
    owner = pool(budgets=[{"nodes": "1"}])
    views = (view("a", owner=owner), view("b", pod(), owner=owner, node=with_ready(ready)))
    assert (decide(views, (owner,), Budgets(()), NOW).command is not None) == goes


def test_nodes_that_another_process_began_to_disrupt_use_the_budget() -> None:
    owner = pool(budgets=[{"nodes": "1"}])
    views = (view("a", owner=owner), view("b", pod(), owner=owner))
    begun = Condition(type="DisruptionReason", status="True", reason="Empty")
    status = msgspec.structs.replace(views[1].claim.status, conditions=(begun,))
    claim = msgspec.structs.replace(views[1].claim, status=status)
    command = decide(views, (owner,), Budgets(()), NOW).command
    assert command is not None
    later = (views[0], replace(views[1], claim=claim))
    assert validate(command, later, (owner,), Budgets(()), NOW + 15 * SECOND) is None


def test_never_disables_it_and_says_so() -> None:
    owner = pool(after="Never")
    decision = decide((view(owner=owner),), (owner,), Budgets(()), NOW)
    assert decision.command is None
    assert [note.message for note in decision.notes] == ['NodePool "general" has consolidation disabled']


def test_validation_keeps_what_is_still_empty() -> None:
    owner = pool()
    before = (view("a"), view("b"), view("c"), view("d"))
    command = decide(before, (owner,), Budgets(()), NOW).command
    assert command is not None
    after = (view("a"), view("b", pod()), view("c", nominated=True))
    left = validate(command, after, (owner,), Budgets(()), NOW + 15 * SECOND)
    assert left is not None
    assert [item.name for item in left.candidates] == ["a"]
    assert validate(command, after[1:], (owner,), Budgets(()), NOW + 15 * SECOND) is None
