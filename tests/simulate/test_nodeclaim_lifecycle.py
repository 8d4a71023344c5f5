"""Claims and nodes from their launch to their end, on the embedded cluster in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.codec import encode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Condition, Meta, condition, is_true
from dovetail.api.workloads import VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.base.errors import CreateFailed, InstanceNotFound, InsufficientCapacity
from dovetail.cloud.provider import Instance, Overlay
from dovetail.controllers.node import evict
from dovetail.controllers.nodeclaim.disrupted import CLAIMS
from dovetail.kube.memory.client import MemoryClient
from dovetail.model import labels
from dovetail.testing.guests import node_class
from dovetail.units.timestamp import parse_rfc3339


def lasting_pool(**template: Any) -> dict[str, Any]:
    """A pool whose nodes stay when they are empty."""
    made = pool(disruption={"consolidateAfter": "Never", "budgets": []})
    made["spec"]["template"]["spec"].update(template)
    return made


def budget(least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
    }


def web(name: str, **spec: Any) -> dict[str, Any]:
    made = pod(name, **spec)
    made["metadata"]["labels"] = {"app": "web"}
    return made


def came_to_nothing(world: Operated, reason: str, capacity_type: str = "") -> float | None:
    """How many claims of the pool came to nothing for that reason."""
    series = {"nodepool": "general", "capacity_type": capacity_type, "termination_mode": "forceful"}
    policy = "WhenEmptyOrUnderutilized"
    return world.metrics.value(CLAIMS, reason=reason, consolidation_policy=policy, **series)


async def one_claim(world: Operated) -> NodeClaim:
    (claim,) = (await world.client.list(NodeClaim)).items
    return claim


async def up(world: Operated, *documents: dict[str, Any], **template: Any) -> NodeClaim:
    """One claim, initialized, its pods running."""
    world.create(node_class(), lasting_pool(**template), *documents)
    await world.clock.sleep(90 * SECOND)
    claim = await one_claim(world)
    ready = condition(claim.status.conditions, "Ready")
    assert ready is not None and ready.status == "True", claim.status.conditions
    return claim


def count_calls(monkeypatch: pytest.MonkeyPatch, asked: Counter[str], *names: str) -> None:
    """Count the API server's calls of these names about claims, nodes and classes from now on."""

    def counted(name: str) -> None:
        plain = getattr(MemoryClient, name)

        async def call(client: MemoryClient, kind: Any, *rest: Any, **options: Any) -> Any:
            found = kind if isinstance(kind, type) else type(kind)
            asked[f"{name} {found.KIND}"] += found in (NodeClaim, Node, EC2NodeClass)
            return await plain(client, kind, *rest, **options)

        monkeypatch.setattr(MemoryClient, name, call)

    for name in names:
        counted(name)


def test_a_claim_is_read_where_it_matters_and_written_no_more_than_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[str] = Counter()

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting_pool())
        await world.clock.sleep(MINUTE)
        count_calls(monkeypatch, asked, "get", "patch")
        world.create(pod("web"))
        await world.clock.sleep(2 * MINUTE)
        ready = condition((await one_claim(world)).status.conditions, "Ready")
        assert ready is not None and ready.status == "True"

    play(script)
    # Before its instance is bought.
    assert asked["get NodeClaim"] == 1
    assert asked["get Node"] == 1  # by its kubelet, which opens it
    assert asked["get EC2NodeClass"] == 0
    # Labels, launched, registered, tagged, held for its pod, initialized, and the event of its pod.
    assert asked["patch NodeClaim"] == 7


def test_a_claim_that_goes_is_read_by_what_brings_its_node_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[str] = Counter()

    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        count_calls(monkeypatch, asked, "get")
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(3 * MINUTE)
        assert not (await world.client.list(NodeClaim)).items

    play(script)
    # By what brings the node to its end, at each turn; what does so for the claim waits for that.
    assert asked["get NodeClaim"] == 19
    assert asked["get Node"] == 20


def instant(world: Operated, kind: str, **fields: object) -> int:
    (record,) = world.records(kind, **fields)
    return int(str(record["t"]))


def test_a_claim_comes_up() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        (node,) = (await world.client.list(Node)).items
        (instance,) = await world.cloud.list()
        status = claim.status
        assert (status.node_name, status.provider_id) == (node.metadata.name, instance.provider_id)
        assert {item.type: item.status for item in status.conditions if item.type != "Consolidatable"} == {
            "ConsistentStateFound": "True",
            "Initialized": "True",
            "Launched": "True",
            "Ready": "True",
            "Registered": "True",
        }
        assert node.metadata.labels[labels.REGISTERED] == node.metadata.labels[labels.INITIALIZED] == "true"
        assert node.metadata.labels[labels.NODEPOOL] == "general"
        assert node.metadata.finalizers == claim.metadata.finalizers == (labels.TERMINATION_FINALIZER,)
        (owner,) = node.metadata.owner_references
        assert (owner.kind, owner.uid, owner.block_owner_deletion) == (
            "NodeClaim",
            claim.metadata.uid,
            True,
        )
        assert node.spec.taints == ()
        assert claim.metadata.labels[labels.INSTANCE_TYPE] == instance.instance_type
        assert claim.metadata.labels[labels.ZONE] == instance.zone

    world = play(script)
    reached = [
        str(record["type"])
        for record in world.records("claim.condition", status="True")
        if record["type"] in ("Launched", "Registered", "Initialized")
    ]
    assert reached == ["Launched", "Registered", "Initialized"]
    text = "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched"
    assert world.messages("Launched") == [text]


def test_no_capacity_gives_the_claim_up() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting_pool())
        await world.clock.sleep(10 * SECOND)
        requirement = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["x9.huge"]}
        world.create(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"name": "hopeless"},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [requirement],
                },
            }
        )
        await world.clock.sleep(10 * SECOND)
        assert (await world.client.list(NodeClaim)).items == ()

    world = play(script)
    (message,) = world.messages("InsufficientCapacityError")
    assert message.startswith("NodeClaim hopeless event: ")
    series = {"nodepool": "", "capacity_type": "", "consolidation_policy": ""}
    given_up = world.metrics.value(
        CLAIMS, reason="insufficient_capacity", termination_mode="forceful", **series
    )
    assert given_up == 1
    assert not world.records("disrupted")  # it had no node


def test_a_node_that_never_registers_is_given_up() -> None:
    async def script(world: Operated) -> None:
        world.kubelets.switch_on = lambda _: None  # the machine hangs in its boot
        world.create(node_class(), lasting_pool(), pod("web"))
        await world.clock.sleep(2 * MINUTE)
        claim = await one_claim(world)
        registered = condition(claim.status.conditions, "Registered")
        assert registered is not None
        assert (registered.status, registered.reason) == ("Unknown", "NodeNotFound")
        assert registered.message == "Node not registered with cluster"
        created = parse_rfc3339(claim.metadata.creation_timestamp)
        await world.clock.sleep(created + 15 * MINUTE - SECOND - world.clock.now())
        assert not (await one_claim(world)).deleting
        await world.clock.sleep(3 * MINUTE)
        assert claim.metadata.name not in [item.metadata.name for item in world.state.all(NodeClaim)]
        assert claim.status.provider_id not in [item.provider_id for item in await world.cloud.list()]

    assert came_to_nothing(play(script), "registration_timeout", "on-demand") == 1


def test_a_claim_that_never_launches_is_given_up_and_counted() -> None:
    async def refused(*_: object) -> Instance:
        raise CreateFailed("throttled", "LaunchFailed")

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting_pool())
        await world.clock.sleep(10 * SECOND)
        world.cloud.provider.create = refused  # type: ignore[method-assign]
        world.create(pod("web"))
        await world.clock.sleep(6 * MINUTE)

    assert came_to_nothing(play(script), "launch_timeout") == 1


def test_an_account_without_the_role_for_spot_is_told_of() -> None:
    async def refused(*_: object) -> Instance:
        raise InsufficientCapacity("with fleet error(s), no role for spot")

    async def script(world: Operated) -> None:
        world.create(node_class(), lasting_pool())
        await world.clock.sleep(10 * SECOND)
        world.cloud.provider.create = refused  # type: ignore[method-assign]
        world.cloud.provider.supply.lacks_spot_role = lambda _: True  # type: ignore[method-assign]
        world.create(pod("web"))
        await world.clock.sleep(MINUTE)

    (message,) = set(play(script).messages("SpotServiceLinkedRoleCreationFailure"))
    assert message.startswith("Attempted to launch a spot instance but failed due to")


def test_a_node_with_less_than_was_bought_is_told_of() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        assert is_true((await one_claim(world)).status.conditions, "ConsistentStateFound")
        name, had = claim.status.node_name, (await world.client.list(Node)).items[0].status.capacity
        for memory, status in (("6Gi", "False"), (str(had["memory"]), "True")):
            capacity = {"status": {"capacity": {"memory": memory}}}
            await world.client.patch(Node, name, merge=capacity, status=True)
            await world.clock.sleep(11 * MINUTE)
            found = condition((await one_claim(world)).status.conditions, "ConsistentStateFound")
            assert found is not None and found.status == status

    (message,) = set(play(script).messages("FailedConsistencyCheck"))
    assert message == "Expected 7577Mi of resource memory, but found 6Gi (81.1% of expected)"


def test_a_claim_expires_to_the_second_and_leaves_in_order() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"), expireAfter="10m")
        created = parse_rfc3339(claim.metadata.creation_timestamp)
        await world.clock.sleep(created + 10 * MINUTE - 1 - world.clock.now())
        assert not (await one_claim(world)).deleting
        await world.clock.sleep(SECOND // 2)
        assert (await world.client.get(NodeClaim, claim.metadata.name)).deleting
        (node,) = (await world.client.list(Node)).items
        assert node.deleting and labels.EXCLUDE_BALANCERS in node.metadata.labels
        assert [taint.key for taint in node.spec.taints] == [labels.DISRUPTED_TAINT]
        await world.clock.sleep(5 * MINUTE)
        assert (await world.client.list(NodeClaim)).items == (await world.client.list(Node)).items == ()
        assert await world.cloud.list() == []

    world = play(script)
    (evicted,) = world.messages("Evicted")
    assert evicted == "Evicted pod: Forceful Termination"
    pod_gone = instant(world, "pod.deleted")
    gone = [instant(world, kind) for kind in ("instance.terminated", "node.deleted", "claim.deleted")]
    assert pod_gone < gone[0] <= gone[1] <= gone[2]
    drained = instant(world, "claim.condition", type="Drained", status="True")
    draining = instant(world, "claim.condition", type="Drained", status="Unknown")
    assert drained - draining >= 4 * SECOND  # five, less what the stamp's whole seconds hide
    assert sorted(set(world.messages("Finalized"))) == ["Finalized karpenter.sh/termination"]


@pytest.mark.parametrize("blocked_by", ["budget", "two budgets", "annotation"])
def test_what_blocks_a_drain_blocks_it_until_the_deadline(blocked_by: str) -> None:
    async def script(world: Operated) -> None:
        annotations = {labels.DO_NOT_DISRUPT: "true"} if blocked_by == "annotation" else {}
        documents = [web("web", annotations=annotations, terminationGracePeriodSeconds=60)]
        if "budget" in blocked_by:
            documents.append(budget(1))
        if blocked_by == "two budgets":
            second = budget(0)
            second["metadata"]["name"] = "second"
            documents.append(second)
        claim = await up(world, *documents, terminationGracePeriod="10m")
        await world.client.delete(NodeClaim, claim.metadata.name)
        deleted = world.clock.now()
        await world.clock.sleep(9 * MINUTE - SECOND)
        assert not (await world.client.get(Pod, "web", "default")).deleting
        claim = await world.client.get(NodeClaim, claim.metadata.name)
        stamp = claim.metadata.annotations[labels.TERMINATION_TIMESTAMP]
        assert parse_rfc3339(stamp) == deleted // SECOND * SECOND + 10 * MINUTE
        await world.clock.sleep(4 * MINUTE)
        left = [item.metadata.name for item in (await world.client.list(NodeClaim)).items]
        assert claim.metadata.name not in left

    world = play(script)
    reasons = " ".join(world.messages("FailedDraining"))
    assert {
        "budget": "evicting pod violates a PDB (Pod=default/web)",
        "two budgets": "eviction does not support multiple PDBs (Pod=default/web)",
        "annotation": "1 pods are waiting to be evicted",
    }[blocked_by] in reasons
    (text,) = world.messages("Disrupted")
    assert "of its 60 terminationGracePeriodSeconds" in text
    assert world.metrics.value(evict.PODS, reason="Forceful Termination") == 1
    warnings = world.messages("TerminationGracePeriodExpiring")
    assert warnings and all(item.startswith("All pods will be deleted by 2026-") for item in warnings)


def test_critical_pods_go_last() -> None:
    async def script(world: Operated) -> None:
        quick = web("quick", terminationGracePeriodSeconds=5)
        critical = web("critical", priorityClassName="system-cluster-critical")
        claim = await up(world, pod("web"), critical, quick)
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    order = [str(record["pod"]) for record in world.records("pod.evicted")]
    assert order[-1] == "default/critical" and len(order) == 3


def test_a_vanished_instance_takes_its_claim_along() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        await world.cloud.delete(claim.status.provider_id)
        await world.clock.sleep(6 * MINUTE)
        left = [item.metadata.name for item in (await world.client.list(NodeClaim)).items]
        assert claim.metadata.name not in left
        nodes = [item.metadata.name for item in (await world.client.list(Node)).items]
        assert claim.status.node_name not in nodes

    play(script)


def test_an_instance_without_a_claim_is_terminated() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        stray = NodeClaim(metadata=Meta(name="stray"), spec=claim.spec)
        found = await world.client.get(EC2NodeClass, claim.spec.node_class_ref.name)
        instance = await world.cloud.provider.create(stray, found)
        await world.clock.sleep(20 * SECOND)
        assert not (await world.cloud.provider.get(instance.provider_id)).terminating
        await world.clock.sleep(4 * MINUTE)
        assert [item.provider_id for item in await world.cloud.list()] == [claim.status.provider_id]

    play(script)


def test_an_instance_launched_before_a_crash_is_adopted() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        found = await world.client.get(EC2NodeClass, claim.spec.node_class_ref.name)
        world._operating.cancel()
        await world.clock.sleep(SECOND)
        meta = Meta(name="interrupted", labels=claim.metadata.labels)
        made = await world.client.create(NodeClaim(metadata=meta, spec=claim.spec))
        instance = await world.cloud.provider.create(made, found)
        await world.clock.sleep(MINUTE)
        await world.restart()
        await world.clock.sleep(2 * MINUTE)
        adopted = await world.client.get(NodeClaim, "interrupted")
        assert adopted.status.provider_id == instance.provider_id
        ready = condition(adopted.status.conditions, "Ready")
        assert ready is not None and ready.status == "True"
        assert len(await world.cloud.list()) == 2

    play(script)


@pytest.mark.parametrize("maker_launches", [True, False])
def test_a_new_claim_is_its_makers_until_that_one_must_have_ended(maker_launches: bool) -> None:
    """The leader changed: another process made the claim, and what it is buying cannot be seen."""

    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        found = await world.client.get(EC2NodeClass, claim.spec.node_class_ref.name)
        meta = Meta(name="another", labels=claim.metadata.labels)
        made = await world.client.create(NodeClaim(metadata=meta, spec=claim.spec))
        await world.clock.sleep(5 * SECOND)
        assert len(await world.cloud.list()) == 1
        bought = await world.cloud.provider.create(made, found) if maker_launches else None
        await world.clock.sleep(20 * SECOND)
        assert len(await world.cloud.list()) == 2
        latest = await world.client.get(NodeClaim, "another")
        assert latest.status.provider_id
        assert bought is None or latest.status.provider_id == bought.provider_id

    play(script)


def test_of_two_processes_that_launch_for_one_claim_the_second_ends_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader changed in the middle: the old one does not know, and both were answered."""

    async def script(world: Operated) -> None:
        create, others = world.cloud.provider.create, []

        async def second(claim: NodeClaim, chosen: EC2NodeClass, overlay: Overlay) -> Instance:
            first, made = await create(claim, chosen, overlay), await create(claim, chosen, overlay)
            others.append(made.provider_id)
            launched = Condition(type="Launched", status="True", last_transition_time="2026-03-02T00:00:00Z")
            merge = {"status": {"providerID": first.provider_id, "conditions": [encode(launched)]}}
            await world.client.patch(NodeClaim, claim.metadata.name, merge=merge, status=True)
            return made

        monkeypatch.setattr(world.cloud.provider, "create", second)
        world.create(node_class(), lasting_pool(), pod("web"))
        await world.clock.sleep(20 * SECOND)
        claim = await one_claim(world)
        assert len(others) == 1 and claim.status.provider_id not in ("", *others)
        ending = {item.provider_id: item.terminating for item in await world.cloud.list()}
        assert ending == {claim.status.provider_id: False, others[0]: True}

    play(script)


def test_a_node_that_comes_up_is_not_dead_because_the_cloud_does_not_show_its_instance_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def script(world: Operated) -> None:
        async def unseen(provider_id: str) -> Instance:
            raise InstanceNotFound(f"there is no instance {provider_id}")

        monkeypatch.setattr(world.cloud.provider, "get", unseen)
        world.create(node_class(), lasting_pool(), pod("web"))
        await world.clock.sleep(36 * SECOND)
        (node,) = (await world.client.list(Node)).items
        ready = condition(node.status.conditions, "Ready")
        assert ready is not None and ready.status == "False"
        await world.client.delete(Node, node.metadata.name)
        await world.clock.sleep(3 * MINUTE)
        ended = [instant(world, kind) for kind in ("instance.terminated", "node.deleted")]
        assert ended == sorted(ended)

    play(script)


def test_an_attached_volume_holds_the_instance() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"))
        attachment = VolumeAttachment(
            metadata=Meta(name="csi-1"),
            spec=VolumeAttachmentSpec(
                attacher="ebs.csi.aws.com",
                node_name=claim.status.node_name,
                source=VolumeAttachmentSource(persistent_volume_name="pv-1"),
            ),
        )
        await world.client.create(attachment)
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(2 * MINUTE)
        held = await world.client.get(NodeClaim, claim.metadata.name)
        detached = condition(held.status.conditions, "VolumesDetached")
        assert detached is not None
        assert (detached.status, detached.reason) == ("Unknown", "AwaitingVolumeDetachment")
        assert not (await world.cloud.provider.get(claim.status.provider_id)).terminating
        await world.client.delete(VolumeAttachment, "csi-1")
        await world.clock.sleep(2 * SECOND)
        assert (await world.cloud.provider.get(claim.status.provider_id)).terminating

    world = play(script)
    assert (
        world.messages("AwaitingVolumeDetachment")[0]
        == "Awaiting deletion of bound volumeattachments (csi-1)"
    )


def test_the_deadline_does_not_wait_for_volumes_either() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web"), terminationGracePeriod="3m")
        attachment = VolumeAttachment(
            metadata=Meta(name="csi-1"),
            spec=VolumeAttachmentSpec(
                attacher="ebs.csi.aws.com",
                node_name=claim.status.node_name,
                source=VolumeAttachmentSource(persistent_volume_name="pv-1"),
            ),
        )
        await world.client.create(attachment)
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(3 * MINUTE - 5 * SECOND)
        assert not (await world.cloud.provider.get(claim.status.provider_id)).terminating
        await world.clock.sleep(10 * SECOND)
        assert (await world.cloud.provider.get(claim.status.provider_id)).terminating
        held = await world.client.get(NodeClaim, claim.metadata.name)
        detached = condition(held.status.conditions, "VolumesDetached")
        assert detached is not None
        assert (detached.status, detached.reason) == ("False", "TerminationGracePeriodElapsed")

    play(script)


def test_an_instance_that_goes_while_its_node_drains_ends_the_drain() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, web("web"), budget(1))
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(2 * MINUTE)
        assert (await world.client.get(Node, claim.status.node_name)).deleting, "the budget holds it"
        await world.cloud.delete(claim.status.provider_id)
        await world.clock.sleep(3 * MINUTE)
        assert claim.metadata.name not in [item.metadata.name for item in world.state.all(NodeClaim)]
        assert claim.status.node_name not in [item.metadata.name for item in world.state.all(Node)]

    world = play(script)
    assert world.records("pod.evicted") == []


def test_a_pod_that_takes_an_hour_to_stop_does_not_outlast_the_deadline() -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web", terminationGracePeriodSeconds=3600), terminationGracePeriod="5m")
        silent = asyncio.create_task(world.kubelets.silence(claim.status.node_name, 2 * HOUR))
        await world.clock.sleep(MINUTE)  # no kubelet will stop the pod from now on
        await world.client.delete(Pod, "web", "default")
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(4 * MINUTE)
        assert (await world.client.get(Node, claim.status.node_name)).deleting
        # Five minutes, one more until the pod counts as stuck, and the instance's own end.
        await world.clock.sleep(5 * MINUTE)
        assert claim.metadata.name not in [item.metadata.name for item in world.state.all(NodeClaim)]
        silent.cancel()

    world = play(script)
    (text,) = world.messages("Disrupted")
    assert "of its 3600 terminationGracePeriodSeconds" in text


@pytest.mark.parametrize(("policy", "leaves"), [("IfHealthyBudget", False), ("AlwaysAllow", True)])
def test_a_sick_pod_leaves_only_where_its_budget_says_so(policy: str, leaves: bool) -> None:
    async def script(world: Operated) -> None:
        document = budget(1)
        document["spec"]["unhealthyPodEvictionPolicy"] = policy
        claim = await up(world, web("web"), document)
        sick = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await world.client.patch(Pod, "web", "default", merge=sick, status=True)
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(3 * MINUTE)

    world = play(script)
    assert bool(world.records("pod.evicted")) == leaves
    assert (not world.state.all(NodeClaim)) == leaves
    refused = "Failed to drain node, evicting pod violates a PDB (Pod=default/web)"
    assert (refused in world.messages("FailedDraining")) != leaves


def test_a_pod_without_an_owner_leaves_like_any_other_and_does_not_come_back() -> None:
    async def script(world: Operated) -> None:
        bare = pod("bare")
        assert "ownerReferences" not in bare["metadata"]
        claim = await up(world, bare)
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(5 * MINUTE)
        assert not [item for item in world.state.all(Pod) if item.metadata.name == "bare"]

    world = play(script)
    assert [record["pod"] for record in world.records("pod.evicted")] == ["default/bare"]


@pytest.mark.parametrize("after", [1_500, 3_000, 4_000, 8_000, 35_000, 42_000, 60_000])
def test_a_restart_anywhere_on_the_way_up(after: int) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), lasting_pool(), pod("web"))
        await world.clock.sleep(after * SECOND // 1000)
        await world.restart()
        await world.clock.sleep(3 * MINUTE)
        claim = await one_claim(world)
        assert [item.provider_id for item in await world.cloud.list()] == [claim.status.provider_id]
        assert (await world.client.get(Pod, "web", "default")).status.phase == "Running"

    play(script)


@pytest.mark.parametrize("after", [1, 500, 2_500, 5_500, 10_000, 30_000, 60_000])
def test_a_restart_anywhere_on_the_way_down(after: int) -> None:
    async def script(world: Operated) -> None:
        claim = await up(world, pod("web", terminationGracePeriodSeconds=20))
        await world.client.delete(NodeClaim, claim.metadata.name)
        await world.clock.sleep(after * SECOND // 1000)
        await world.restart()
        await world.clock.sleep(4 * MINUTE)
        assert (await world.client.list(NodeClaim)).items == (await world.client.list(Node)).items == ()
        assert await world.cloud.list() == []

    play(script)


def test_instances_bear_the_names_of_their_claims_and_nodes() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), pool(), replicas("web", 3, cpu="1500m"))
        await world.clock.sleep(3 * MINUTE)
        nodes = {node.spec.provider_id: node.metadata.name for node in world.state.all(Node)}
        claims = {claim.status.provider_id: claim for claim in world.state.all(NodeClaim)}
        found = await world.aws.ec2.describe_instances()
        assert len(found) == len(nodes) > 1
        for item in found:
            place = f"aws:///{item.zone}/{item.id}"
            assert item.tags["Name"] == nodes[place]
            assert item.tags["karpenter.sh/nodeclaim"] == claims[place].metadata.name
            assert claims[place].metadata.annotations["karpenter.k8s.aws/tagged"] == "true"
        assert world.aws.gate.calls["ec2:CreateTags"] == len(found)

    play(script)
