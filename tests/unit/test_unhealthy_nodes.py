"""When a node is past help, what is done about it, and when so many are that none is repaired."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from dovetail.api.codec import decode
from dovetail.api.core import Node, NodeSpec, NodeStatus
from dovetail.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Condition, Meta
from dovetail.base.clock import MINUTE
from dovetail.base.errors import CloudError, InstanceNotFound, NotFound, RebootRefused, Unavailable
from dovetail.cloud.kwok.cloud import KwokCloud
from dovetail.cloud.listed import ListedCloud
from dovetail.cloud.repair import EKS_POLICIES
from dovetail.disrupt.candidates import NodeView
from dovetail.disrupt.command import Repair
from dovetail.disrupt.pods import Budgets
from dovetail.disrupt.repair import Matcher, Rules, Turn, too_many, turn
from dovetail.model import labels
from dovetail.model.repair import REBOOT, REPLACE, RepairPolicies, RepairPolicy
from dovetail.runtime.process.clock import WallClock
from dovetail.units.timestamp import parse_rfc3339

SINCE = "2026-03-02T10:00:00Z"
AT = parse_rfc3339(SINCE)


def ill(kind: str, status: str = "False", reason: str = "Broken", since: str = SINCE) -> Condition:
    return Condition(type=kind, status=status, reason=reason, last_transition_time=since)


def node(*conditions: Condition, name: str = "n", created: str = "2026-03-02T09:00:00Z") -> Node:
    marks = {labels.NODEPOOL: "one", labels.REGISTERED: "true", labels.INITIALIZED: "true"}
    return Node(
        metadata=Meta(name=name, creation_timestamp=created, labels=marks),
        spec=NodeSpec(provider_id=name),
        status=NodeStatus(conditions=conditions),
    )


@pytest.mark.parametrize(
    ("kind", "status", "reason", "minutes", "legacy"),
    [
        ("Ready", "True", "", None, None),
        ("Ready", "False", "", 30, 30),
        ("Ready", "Unknown", "NodeStatusUnknown", 30, 30),
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", 10, 10),
        ("AcceleratedHardwareReady", "False", "XID48", 10, 10),
        ("AcceleratedHardwareReady", "False", "XID13", 30, 10),
        ("AcceleratedHardwareReady", "False", "", 30, 10),
        ("AcceleratedHardwareReady", "Unknown", "XID79", None, None),
        ("StorageReady", "False", "", 30, 30),
        ("NetworkingReady", "False", "", 30, 30),
        ("KernelReady", "False", "", 30, 30),
        ("ContainerRuntimeReady", "False", "", 30, 30),
        ("MemoryPressure", "False", "", None, None),
    ],
)
def test_each_fault_has_its_time(
    kind: str, status: str, reason: str, minutes: int | None, legacy: int | None
) -> None:
    for policies, wanted in ((EKS_POLICIES.current, minutes), (EKS_POLICIES.legacy, legacy)):
        found = Matcher(policies).matches(node(ill(kind, status, reason)))
        assert [one.since - AT for one in found] == ([] if wanted is None else [wanted * MINUTE])


@pytest.mark.parametrize("policies", [EKS_POLICIES, KwokCloud.repair_policies])
def test_a_set_has_one_fallback_which_replaces(policies: RepairPolicies) -> None:
    (fallback,) = (policy for policy in policies.current if not policy.reason)
    assert fallback.action == REPLACE
    assert all(policy.toleration > 0 and 0 <= policy.priority <= 100 for policy in policies.current)
    assert all(policy.action == REPLACE and policy.reason for policy in policies.legacy)


def test_a_fault_counts_from_the_creation_at_the_earliest() -> None:
    matcher = Matcher(EKS_POLICIES.current)
    for since in ("", "1970-01-01T00:00:00Z"):
        (found,) = matcher.matches(node(ill("Ready", since=since), created=SINCE))
        assert found.since == AT + 30 * MINUTE


SET = (
    RepairPolicy("A", "False", 10 * MINUTE),
    RepairPolicy("B", "False", 5 * MINUTE, "hot", grace=9 * MINUTE, priority=50, action=REBOOT),
    RepairPolicy("B", "False", 5 * MINUTE, "h.t|x", grace=3 * MINUTE, priority=10),
    RepairPolicy("C", "False", MINUTE, ".*", grace=5 * MINUTE, priority=100, action=REBOOT),
)


def test_of_several_conditions_replacing_wins_and_the_shortest_grace() -> None:
    matcher = Matcher(SET)
    sick = node(ill("C", reason=""), ill("B", reason="too hot"))
    assert matcher.diagnose(sick, AT + MINUTE - 1) is None
    found = matcher.diagnose(sick, AT + MINUTE)
    assert found is not None
    assert (found.repair.condition, found.action, found.repair.grace) == ("C", REBOOT, 5 * MINUTE)
    assert found.score == 3  # the highest of four ranks
    found = matcher.diagnose(sick, AT + 5 * MINUTE)
    assert found is not None
    assert (found.repair.condition, found.action, found.repair.grace) == ("B", REPLACE, 3 * MINUTE)


@pytest.mark.parametrize(("again", "minutes"), [(0, 60), (1, 120), (2, 240), (3, 360), (500, 360)])
def test_what_came_in_place_of_one_with_the_same_condition_is_waited_for_longer(
    again: int, minutes: int
) -> None:
    matcher, sick = Matcher(EKS_POLICIES.current), node(ill("KernelReady"))
    origin = Repair("KernelReady", 0, again)
    (found,) = matcher.patient(sick, origin)
    assert found.since == AT + minutes * MINUTE
    diagnosis = matcher.diagnose(sick, found.since, origin)
    assert diagnosis is not None
    assert diagnosis.repair == Repair("KernelReady", 10 * MINUTE, again + 1)
    assert matcher.patient(sick, Repair("Ready", 0, again)) == matcher.matches(sick)


def test_what_no_reason_names_falls_back_with_its_own_condition() -> None:
    found = Matcher(SET).diagnose(node(ill("B", reason="cold")), AT + 40 * MINUTE)
    assert found is not None
    assert (found.repair.condition, found.action, found.repair.grace, found.score) == (
        "B",
        REPLACE,
        None,
        1.0,
    )
    # A condition that the set does not list falls back on nothing.
    assert not Matcher(SET).matches(node(ill("D"), ill("A", status="True")))


@pytest.mark.parametrize(
    ("sick", "nodes", "blocked"),
    [(1, 1, False), (2, 2, True), (1, 5, False), (2, 5, True), (2, 6, False), (3, 11, False), (4, 11, True)],
)
def test_more_than_a_fifth_rounded_up_stops_all_repairs(sick: int, nodes: int, blocked: bool) -> None:
    assert too_many(sick, nodes) is blocked


REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
POOL = decode(
    {
        "metadata": {"name": "one"},
        "spec": {
            "template": {"spec": {"nodeClassRef": REF}},
            "disruption": {"budgets": [{"nodes": "10%"}]},
        },
    },
    NodePool,
)


def view(item: Node, *, going: bool = False, pool: str = "one") -> NodeView:
    marks = {labels.NODEPOOL: pool} if pool else {}
    meta = {"name": f"claim-{item.metadata.name}", "labels": marks}
    claim = decode({"metadata": meta, "spec": {"nodeClassRef": REF}}, NodeClaim)
    return NodeView(claim, item, POOL if pool else None, going=going)


def decided(*views: NodeView, healthy: int = 9, minutes: int = 31) -> Turn:
    more = tuple(view(node(ill("Ready", "True"), name=f"well-{number}")) for number in range(healthy))
    nodes = tuple(item.node for item in (*views, *more) if item.node is not None)
    rules = Rules(nodes, lambda _: None, (POOL,), Budgets(()), AT + minutes * MINUTE)
    return turn((*views, *more), Matcher(EKS_POLICIES.current), rules)


def names(found: Turn) -> list[str]:
    return [one.name for one, _ in found.due]


def test_what_waits_for_longest_is_in_front_then_what_is_cheapest_to_disrupt() -> None:
    old = view(node(ill("Ready", since="2026-03-02T09:59:00Z"), name="z"))
    first, second = (view(node(ill("KernelReady"), name=name)) for name in ("a", "b"))
    assert names(decided(second, old, first, healthy=20)) == ["z", "a", "b"]


def test_nothing_is_due_before_its_time_which_is_known() -> None:
    found = decided(view(node(ill("Ready"))), minutes=29)
    assert (found.due, found.notes, found.next) == ((), (), AT + 30 * MINUTE)
    assert decided().next is None


def test_nodes_on_their_way_out_use_the_budget_up_and_those_that_are_not_ready_do_not() -> None:
    sick, other = view(node(ill("Ready"), name="a")), view(node(ill("Ready"), name="b"))
    assert names(decided(sick, other)) == ["a", "b"]
    leaving = view(node(ill("Ready", "True"), name="c"), going=True)
    found = decided(sick, leaving, healthy=8)
    assert not found.due
    assert [note.message for note in found.notes if note.on_pool] == [
        "No allowed disruptions for disruption reason Unhealthy due to blocking budget"
    ]


def test_a_registered_node_that_is_not_initialized_needs_no_budget() -> None:
    sick = node(ill("Ready"), name="a")
    del sick.metadata.labels[labels.INITIALIZED]
    leaving = view(node(ill("Ready", "True"), name="c"), going=True)
    assert names(decided(view(sick), leaving)) == ["a"]
    del sick.metadata.labels[labels.REGISTERED]
    found = decided(view(sick))
    assert [note.message for note in found.notes] == ["Node isn't initialized nor registered"]


def test_a_node_without_a_nodepool_is_not_repaired() -> None:
    found = decided(view(node(ill("Ready")), pool=""))
    assert not found.due
    text = "Repair requires a NodePool to construct and budget a safe replacement"
    assert [note.message for note in found.notes] == [text]


def test_conditions_that_come_and_go_are_never_due() -> None:
    sick = node(ill("Ready", since="2026-03-02T10:30:59Z"))
    assert not decided(view(sick)).due


def test_one_pool_with_too_many_does_not_stop_another() -> None:
    sick = [view(node(ill("Ready"), name=f"sick-{number}")) for number in range(4)]
    found = decided(*sick, healthy=4)
    assert not found.due
    assert {note.reason for note in found.notes} == {"NodeRepairBlocked"}
    assert len([note for note in found.notes if note.on_pool]) == 1
    assert len(found.notes) == 5


def test_one_that_rebooted_has_its_whole_time_anew() -> None:
    matcher, over = Matcher(SET), AT + 20 * MINUTE
    (found,) = matcher.patient(node(ill("C")), None, over)
    assert found.since == over + MINUTE
    assert matcher.diagnose(node(ill("C")), over, rebooted=over) is None
    assert matcher.diagnose(node(ill("C")), over + MINUTE, rebooted=over) is not None


def test_a_rebooting_node_is_nothing_to_repair_and_uses_budgets_up() -> None:
    gone = node(ill("Ready"), name="a")
    del gone.metadata.labels[labels.INITIALIZED]
    status = NodeClaimStatus(conditions=(Condition(type="Rebooting", status="True"),))
    away, other = view(gone), view(node(ill("Ready"), name="b"))
    away = replace(away, claim=structs.replace(away.claim, status=status))
    found = decided(away, other, healthy=8)
    assert not found.due
    messages = [note.message for note in found.notes]
    assert messages[0] == "Node is rebooting"
    assert messages[1].startswith("No allowed disruptions")
    assert away.counts and away.leaves


class Nodes:
    """What kwok's reboots are written to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.boots: list[tuple[str, str]] = []
        self.error = error

    async def set_boot(self, name: str, boot: str) -> None:
        if self.error is not None:
            raise self.error
        self.boots.append((name, boot))


def test_kwok_writes_a_boot_id_that_names_the_operation() -> None:
    nodes = Nodes()
    asyncio.run(KwokCloud(WallClock(), nodes, ()).machines.reboot("kwok://n", "7"))  # type: ignore[arg-type]
    assert nodes.boots == [("n", "kwok-7")]
    for error, raised in ((NotFound("no"), InstanceNotFound), (Unavailable("later"), CloudError)):
        cloud = KwokCloud(WallClock(), Nodes(error), ())  # type: ignore[arg-type]
        with pytest.raises(raised):
            asyncio.run(cloud.machines.reboot("kwok://n", "7"))


def test_a_provider_without_reboots_says_so() -> None:
    with pytest.raises(RebootRefused, match="not implemented"):
        asyncio.run(ListedCloud().machines.reboot("aws:///a/i-1", "7"))
