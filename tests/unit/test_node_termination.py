"""The end of a Node, step by step: what each step writes, asks and reports, and when it looks again."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from dovetail.api.core import Node, PersistentVolumeClaim, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object, is_true
from dovetail.api.workloads import VolumeAttachment
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import InstanceNotFound, NotFound
from dovetail.cluster.nodes import OTHERS_FIRST
from dovetail.cluster.state import State
from dovetail.controllers.brakes.brakes import BrakeOptions, Brakes
from dovetail.controllers.context import Context
from dovetail.controllers.node.terminate import NodeTermination, volumes_of
from dovetail.controllers.nodeclaim.status import status_of
from dovetail.controllers.panics import Panics
from dovetail.kube.memory import MemoryServer
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.life import Quiet
from dovetail.units.timestamp import to_rfc3339

FINALIZER = "karpenter.sh/termination"
STAMP = "karpenter.sh/nodeclaim-termination-timestamp"
BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
INSTANCE = "aws:///us-east-1a/i-1"
START = 1_772_409_600 * SECOND
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
KINDS: tuple[type[Object], ...] = (Node, NodeClaim, NodePool, Pod, PersistentVolumeClaim)


class Cloud:
    """Instances by provider id; one ends when it was asked for `patience` times."""

    def __init__(self, patience: int) -> None:
        self.patience = {INSTANCE: patience}
        self.asked: list[str] = []

    async def get(self, provider_id: str) -> None:
        if provider_id not in self.patience:
            raise InstanceNotFound(provider_id)

    async def delete(self, provider_id: str) -> None:
        self.asked.append(provider_id)
        left = self.patience.get(provider_id, 0)
        if left == 0:
            self.patience.pop(provider_id, None)
            raise InstanceNotFound(provider_id)
        self.patience[provider_id] = left - 1


class Recorded:
    """A recorder that notes events: object, kind, reason, message; and what they are deduplicated by."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []
        self.dedupes: dict[str, tuple[str, ...]] = {}

    async def publish(self, about: Any, kind: str, reason: str, message: str, **rest: Any) -> None:
        self.events.append((f"{about.KIND}/{about.metadata.name}", kind, reason, message))
        self.dedupes[reason] = rest.get("dedupe", ())


class Evictions:
    """The queue of evictions, which does nothing but note."""

    def __init__(self) -> None:
        self.added: list[tuple[str, str, str]] = []
        self.kept: list[tuple[str, frozenset[str]]] = []
        self.counted: list[str] = []  # UIDs of pods that were deleted without an eviction

    def add(self, pod: Pod, node: Node, reason: str) -> None:
        self.added.append((pod.metadata.name, node.metadata.name, reason))

    def keep_only(self, node: str, uids: frozenset[str]) -> None:
        self.kept.append((node, uids))

    def drained(self, uid: str, _: str) -> None:
        self.counted.append(uid)


class Stage:
    """One node that was deleted, its claim, and what the termination works with."""

    def __init__(self, clock: VirtualClock, *, patience: int = 0, claim: bool = True) -> None:
        log, metrics, self.recorded = Quiet(), MemoryMetrics(), Recorded()
        self.clock, self.server, self.cloud = clock, MemoryServer(clock), Cloud(patience)
        self.state = State(self.server.client(), clock)
        self.evictions, recorder = Evictions(), cast("Any", self.recorded)
        self.context = Context(
            self.server.client(),
            cast("Any", self.cloud),
            clock,
            log,
            self.state,
            recorder,
            metrics,
            Brakes(BrakeOptions(), clock, self.state),
            Panics(log, metrics, recorder, strict=True),
        )
        self.termination = NodeTermination(self.context, cast("Any", self.evictions))
        if claim:
            self.claim()
        self.node()

    def put(self, document: dict[str, Any]) -> None:
        """Create an object, its status too."""
        kept = {key: value for key, value in document.items() if key != "status"}
        record = self.server.create(kept)
        if "status" in document:
            meta = record.view.metadata
            merge = {"status": document["status"]}
            self.server.patch(type(record.view), meta.name, meta.namespace, merge_patch=merge, status=True)

    def claim(self, name: str = "claim", provider_id: str = INSTANCE, **meta: Any) -> None:
        self.put(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"name": name, "finalizers": [FINALIZER], **meta},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [],
                },
                "status": {"providerID": provider_id, "nodeName": "node"},
            }
        )

    def node(self, name: str = "node", provider_id: str = INSTANCE, ready: str = "True", **meta: Any) -> None:
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "finalizers": [FINALIZER], **meta},
                "spec": {"providerID": provider_id},
                "status": {"conditions": [{"type": "Ready", "status": ready}] if ready else []},
            }
        )

    def pod(self, name: str, node: str = "node", grace: int = 30, owner: str = "", **spec: Any) -> None:
        made_by = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": owner,
            "uid": owner,
            "controller": True,
        }
        owners = {"ownerReferences": [made_by]} if owner else {}
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **owners},
                "spec": {
                    "containers": [{"name": "c", "image": "i"}],
                    "nodeName": node,
                    "terminationGracePeriodSeconds": grace,
                    **spec,
                },
            }
        )

    def volume(self, name: str, node: str = "node") -> None:
        self.put(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": name},
                "spec": {
                    "attacher": "ebs.csi.aws.com",
                    "nodeName": node,
                    "source": {"persistentVolumeName": f"volume-of-{name}"},
                },
            }
        )

    def claimed(self, name: str) -> list[dict[str, Any]]:
        """A claim of the volume of that attachment, as pods name it."""
        meta = {"name": name, "namespace": "default"}
        spec = {"volumeName": f"volume-of-{name}"}
        self.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})
        return [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]

    def see(self) -> None:
        """The watches show what there is."""
        for kind in KINDS:
            there = {record.view.key: record.view for record in self.server.list(kind)}
            for known in self.state.all(kind):
                if known.key not in there:
                    self.state.apply("DELETED", known)
            for obj in there.values():
                self.state.apply("MODIFIED" if self.state.get(kind, obj.key) else "ADDED", obj)

    async def step(self, name: str = "node") -> int | None:
        self.see()
        again = await self.termination.reconcile(name)
        self.see()
        return again

    def read(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        return self.server.record(kind, name, namespace).view

    def there(self, kind: type[Any], name: str, namespace: str = "") -> bool:
        try:
            self.server.record(kind, name, namespace)
        except NotFound:
            return False
        return True

    def drained(self) -> str:
        return status_of(self.read(NodeClaim, "claim"), "Drained")

    def events(self, *reasons: str) -> list[tuple[str, str, str, str]]:
        return [event for event in self.recorded.events if event[2] in reasons]


def staged(script: Any, **options: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock, **options)
        stage.server.delete(Node, "node")
        await script(stage)

    run_virtual(main, start=START)


def test_an_empty_node_goes_after_five_seconds_and_all_is_written_on_its_way() -> None:
    async def script(stage: Stage) -> None:
        assert await stage.step() == 5 * SECOND
        claim = stage.read(NodeClaim, "claim")
        assert claim.deleting  # the node was deleted, so its claim is
        node = stage.read(Node, "node")
        assert [(taint.key, taint.effect) for taint in node.spec.taints] == [tuple(DISRUPTED.values())]
        assert node.metadata.labels[BALANCERS] == "karpenter"
        assert stage.drained() == "Unknown"
        assert [item.reason for item in claim.status.conditions if item.type == "Drained"] == ["Draining"]
        version = node.metadata.resource_version
        await stage.clock.sleep(2 * SECOND)
        assert await stage.step() == 3 * SECOND
        assert stage.read(Node, "node").metadata.resource_version == version  # tainted once
        assert not stage.cloud.asked
        await stage.clock.sleep(3 * SECOND)
        assert await stage.step() == 5 * SECOND  # the instance goes, and is asked for in five seconds
        claim = stage.read(NodeClaim, "claim")
        kinds = ("Drained", "VolumesDetached", "InstanceTerminating")
        reasons = {item.type: item.reason for item in claim.status.conditions if item.type in kinds}
        assert all(is_true(claim.status.conditions, kind) for kind in kinds)
        assert reasons == {kind: kind for kind in kinds}  # a condition that holds needs no other
        assert stage.cloud.asked == [INSTANCE]
        assert stage.there(Node, "node")
        assert stage.evictions.kept == [("node", frozenset())] * 3
        assert await stage.step() is None
        assert not stage.there(Node, "node")
        assert stage.evictions.kept == [("node", frozenset())] * 4
        assert stage.events("Finalized") == [("Node/node", "Normal", "Finalized", f"Finalized {FINALIZER}")]
        assert await stage.step() is None  # it is gone
        assert not stage.evictions.added and not stage.events("FailedDraining")

    staged(script, patience=1)


def test_a_node_that_is_not_deleted_or_not_ours_is_left_alone() -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        assert await stage.step() is None
        assert not stage.read(NodeClaim, "claim").deleting and not stage.read(Node, "node").spec.taints
        stage.node("another", "aws:///us-east-1a/i-2", finalizers=["example.com/another"])
        stage.server.delete(Node, "another")
        assert await stage.step("another") is None
        assert not stage.read(Node, "another").spec.taints
        assert stage.there(Node, "another")

    run_virtual(main, start=START)


def test_other_taints_stay_and_one_of_ours_that_is_half_done_is_done() -> None:
    async def script(stage: Stage) -> None:
        others = [
            {"key": "example.com/gpu", "effect": "NoSchedule"},
            {**DISRUPTED, "value": "", "timeAdded": "2026-01-01T00:00:00Z"},
        ]
        stage.server.patch(Node, "node", merge_patch={"spec": {"taints": others}})
        await stage.step()
        node = stage.read(Node, "node")
        assert [taint.key for taint in node.spec.taints] == ["example.com/gpu", "karpenter.sh/disrupted"]
        assert node.metadata.labels[BALANCERS] == "karpenter"
        await stage.step()
        assert stage.read(Node, "node").metadata.resource_version == node.metadata.resource_version
        stage.server.patch(Node, "node", merge_patch={"spec": {"taints": others[:1]}})
        await stage.step()
        node = stage.read(Node, "node")
        assert [taint.key for taint in node.spec.taints] == ["example.com/gpu", "karpenter.sh/disrupted"]

    staged(script)


def test_a_label_that_a_user_set_for_load_balancers_stays() -> None:
    async def script(stage: Stage) -> None:
        merge = {"metadata": {"labels": {BALANCERS: "mine"}}, "spec": {"taints": [DISRUPTED]}}
        stage.server.patch(Node, "node", merge_patch=merge)
        await stage.step()
        assert stage.read(Node, "node").metadata.labels[BALANCERS] == "mine"

    staged(script)


def test_a_node_that_bears_such_a_label_already_is_tainted_nevertheless() -> None:
    async def script(stage: Stage) -> None:
        stage.server.patch(Node, "node", merge_patch={"metadata": {"labels": {BALANCERS: "mine"}}})
        await stage.step()
        assert [taint.key for taint in stage.read(Node, "node").spec.taints] == [DISRUPTED["key"]]

    staged(script)


def test_pods_are_evicted_in_their_turn_and_waited_for() -> None:
    async def script(stage: Stage) -> None:
        stage.pod("web")
        stage.pod("dns", priorityClassName="system-cluster-critical")
        stage.pod("stays", tolerations=[{"operator": "Exists"}])
        stage.pod("elsewhere", node="another")
        assert await stage.step() == 10 * SECOND
        uid = stage.read(Pod, "web", "default").metadata.uid
        assert stage.evictions.added == [("web", "node", "Forceful Termination")]
        assert stage.evictions.kept == [("node", frozenset({uid}))]
        text = "Failed to drain node, 2 pods are waiting to be evicted"
        assert stage.events("FailedDraining") == [("Node/node", "Warning", "FailedDraining", text)]
        assert stage.recorded.dedupes["FailedDraining"] == ("node",)
        assert not stage.events("TerminationGracePeriodExpiring", "Disrupted")
        await stage.clock.sleep(MINUTE)
        assert await stage.step() == 10 * SECOND  # however long it takes
        assert stage.drained() == "Unknown"
        stage.server.delete(Pod, "web", "default", grace_period_seconds=0)
        assert await stage.step() == 10 * SECOND
        assert stage.evictions.added[-1] == ("dns", "node", "Forceful Termination")
        stage.server.delete(Pod, "dns", "default", grace_period_seconds=0)
        assert await stage.step() is None
        assert not stage.there(Node, "node")
        assert stage.there(Pod, "stays", "default")

    staged(script)


def test_a_pod_that_stops_is_looked_for_when_it_should_be_gone_for_a_minute() -> None:
    async def script(stage: Stage) -> None:
        await stage.step()
        await stage.clock.sleep(10 * SECOND)
        stage.pod("slow", grace=1)
        stage.server.delete(Pod, "slow", "default")
        await stage.clock.sleep(52 * SECOND)
        assert await stage.step() == 9 * SECOND + 1
        await stage.clock.sleep(9 * SECOND + 1)
        assert await stage.step() is None  # its kubelet will not stop it any more
        assert not stage.there(Node, "node")

    staged(script)


def test_the_reason_of_a_disruption_is_in_the_events_of_evicted_pods() -> None:
    async def script(stage: Stage) -> None:
        reason = {"type": "DisruptionReason", "status": "True", "reason": "Drifted"}
        stamp = {"lastTransitionTime": to_rfc3339(START), "message": ""}
        merge = {"status": {"conditions": [{**reason, **stamp}]}}
        stage.server.patch(NodeClaim, "claim", merge_patch=merge, status=True)
        stage.pod("web")
        await stage.step()
        assert stage.evictions.added == [("web", "node", "Drifted")]

    staged(script)


def test_near_the_deadline_pods_are_deleted_with_what_is_left_and_events_warn() -> None:
    async def script(stage: Stage) -> None:
        limit = to_rfc3339(START + 100 * SECOND)
        stage.server.patch(NodeClaim, "claim", merge_patch={"metadata": {"annotations": {STAMP: limit}}})
        stage.pod("long", grace=70)
        stage.pod("short", grace=20)
        assert await stage.step() == 10 * SECOND
        assert {name for name, *_ in stage.evictions.added} == {"long", "short"}
        text = f"All pods will be deleted by {limit}"
        warned = [
            (about, "Warning", "TerminationGracePeriodExpiring", text)
            for about in ("Node/node", "NodeClaim/claim")
        ]
        assert stage.events("TerminationGracePeriodExpiring") == warned
        assert stage.recorded.dedupes["TerminationGracePeriodExpiring"] == ("NodeClaim", "claim")
        assert not stage.events("Disrupted")
        await stage.clock.sleep(25 * SECOND)
        assert await stage.step() == 5 * SECOND + 1  # when `long` must begin to stop
        stage.evictions.kept.clear()
        await stage.clock.sleep(15 * SECOND)
        await stage.step()
        event = (
            f"Deleting the pod to accommodate the terminationTime {limit} of the node."
            " The pod was granted 60 seconds of grace-period of its 70 terminationGracePeriodSeconds."
            " This bypasses the PDB of the pod and the do-not-disrupt annotation."
        )
        assert stage.events("Disrupted") == [("Pod/long", "Normal", "Disrupted", event)]
        long = stage.read(Pod, "long", "default")
        assert stage.recorded.dedupes["Disrupted"] == (long.metadata.uid,)
        assert long.deleting and long.metadata.deletion_grace_period_seconds == 60
        assert stage.evictions.counted == [long.metadata.uid]
        short = stage.read(Pod, "short", "default")
        assert not short.deleting
        assert stage.evictions.kept == [("node", frozenset({short.metadata.uid}))]

    staged(script)


def test_without_pods_no_event_warns_of_the_deadline() -> None:
    async def script(stage: Stage) -> None:
        limit = to_rfc3339(START + 100 * SECOND)
        stage.server.patch(NodeClaim, "claim", merge_patch={"metadata": {"annotations": {STAMP: limit}}})
        await stage.step()
        assert not stage.events("TerminationGracePeriodExpiring", "FailedDraining")

    staged(script)


def test_a_pod_that_is_gone_when_its_deletion_arrives_holds_up_nothing() -> None:
    async def script(stage: Stage) -> None:
        stamp = {STAMP: to_rfc3339(START)}
        stage.server.patch(NodeClaim, "claim", merge_patch={"metadata": {"annotations": stamp}})
        stage.pod("first")
        stage.pod("second")
        stage.see()
        stage.server.delete(Pod, "first", "default", grace_period_seconds=0)
        await stage.clock.sleep(SECOND)
        await stage.termination.reconcile("node")
        assert len(stage.events("Disrupted")) == 2
        assert stage.read(Pod, "second", "default").deleting

    staged(script)


def test_another_pod_of_the_same_name_is_not_deleted() -> None:
    async def script(stage: Stage) -> None:
        stamp = {STAMP: to_rfc3339(START)}
        stage.server.patch(NodeClaim, "claim", merge_patch={"metadata": {"annotations": stamp}})
        stage.pod("web")
        stage.see()
        stage.server.delete(Pod, "web", "default", grace_period_seconds=0)
        stage.pod("web", node="another")
        await stage.clock.sleep(SECOND)
        with pytest.raises(Exception, match="UID"):
            await stage.termination.reconcile("node")
        assert not stage.read(Pod, "web", "default").deleting

    staged(script)


def test_volumes_that_pods_elsewhere_may_wait_for_come_off_first() -> None:
    async def script(stage: Stage) -> None:
        stage.volume("b")
        stage.volume("a")
        stage.volume("c", node="another")
        await stage.step()
        await stage.clock.sleep(5 * SECOND)
        assert await stage.step() == SECOND
        claim = stage.read(NodeClaim, "claim")
        assert status_of(claim, "Drained") == "True"
        found = [item for item in claim.status.conditions if item.type == "VolumesDetached"]
        assert [(item.status, item.reason) for item in found] == [("Unknown", "AwaitingVolumeDetachment")]
        text = "Awaiting deletion of bound volumeattachments (a, b)"
        event = ("Node/node", "Normal", "AwaitingVolumeDetachment", text)
        assert stage.events("AwaitingVolumeDetachment") == [event]
        assert stage.recorded.dedupes["AwaitingVolumeDetachment"] == ("node",)
        assert not stage.cloud.asked
        for name in "ab":
            stage.server.delete(VolumeAttachment, name)
        assert await stage.step() == 5 * SECOND
        assert status_of(stage.read(NodeClaim, "claim"), "VolumesDetached") == "True"
        stage.volume("late")
        assert await stage.step() is None  # what was off stays so

    staged(script, patience=1)


def test_volumes_of_a_pod_that_will_not_stop_are_waited_for() -> None:
    async def script(stage: Stage) -> None:
        volumes = stage.claimed("data")
        stage.pod("slow", grace=1, volumes=volumes)
        stage.server.delete(Pod, "slow", "default")
        stage.volume("data")
        await stage.clock.sleep(2 * MINUTE)
        assert await stage.step() == 5 * SECOND
        await stage.clock.sleep(5 * SECOND)
        assert await stage.step() == SECOND

    staged(script)


def test_volumes_of_pods_that_stay_are_not_waited_for() -> None:
    async def script(stage: Stage) -> None:
        volumes = stage.claimed("data")
        stage.pod("agent", volumes=volumes, tolerations=[{"operator": "Exists"}])
        stage.volume("data")
        await stage.step()
        await stage.clock.sleep(5 * SECOND)
        assert await stage.step() is None

    staged(script)


def test_pods_hold_the_volumes_of_their_claims_that_are_bound() -> None:
    async def script(stage: Stage) -> None:
        for name in ("data", "db-scratch", "db-cache"):  # the last one is not what its pod's directory is
            stage.claimed(name)
        meta = {"name": "unbound", "namespace": "default"}
        stage.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {}})
        template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
        sources = {
            "cache": {"emptyDir": {}},
            "own": {"persistentVolumeClaim": {"claimName": "data"}},
            "scratch": {"ephemeral": {"volumeClaimTemplate": template}},
            "wait": {"persistentVolumeClaim": {"claimName": "unbound"}},
            "lost": {"persistentVolumeClaim": {"claimName": "gone"}},
        }
        stage.pod("db", volumes=[{"name": name, **source} for name, source in sources.items()])
        stage.see()
        held = volumes_of(stage.state.all(Pod), stage.state)
        assert held == {"volume-of-data", "volume-of-db-scratch"}

    staged(script)


@pytest.mark.parametrize(("late", "over"), [(-1, False), (0, True), (1, True)])
def test_at_the_deadline_volumes_are_not_waited_for_any_more(late: int, over: bool) -> None:
    async def script(stage: Stage) -> None:
        stamp = {STAMP: to_rfc3339(START + 20 * SECOND)}
        stage.server.patch(NodeClaim, "claim", merge_patch={"metadata": {"annotations": stamp}})
        stage.volume("a")
        await stage.step()
        await stage.clock.sleep(20 * SECOND + late)
        again = await stage.step()
        claim = stage.read(NodeClaim, "claim")
        found = [item for item in claim.status.conditions if item.type == "VolumesDetached"]
        wanted = (
            ("False", "TerminationGracePeriodElapsed") if over else ("Unknown", "AwaitingVolumeDetachment")
        )
        assert [(item.status, item.reason) for item in found] == [wanted]
        assert again == (5 * SECOND if over else SECOND)
        assert bool(stage.cloud.asked) == over
        if over:
            assert await stage.step() is None  # once is enough

    staged(script, patience=1)


def test_without_a_claim_a_node_is_drained_all_the_same_and_at_once() -> None:
    async def script(stage: Stage) -> None:
        stage.pod("web")
        assert await stage.step() == 10 * SECOND
        assert stage.evictions.added == [("web", "node", "Forceful Termination")]
        stage.server.delete(Pod, "web", "default", grace_period_seconds=0)
        stage.volume("a")
        assert await stage.step() == SECOND
        stage.server.delete(VolumeAttachment, "a")
        assert await stage.step() == 5 * SECOND
        assert await stage.step() is None
        assert not stage.there(Node, "node")

    staged(script, claim=False, patience=1)


def test_a_claim_that_goes_in_the_middle_is_not_missed() -> None:
    async def script(stage: Stage) -> None:
        await stage.step()
        stage.see()
        stage.server.patch(NodeClaim, "claim", merge_patch={"metadata": {"finalizers": []}})
        for known in stage.state.all(NodeClaim):
            stage.state.apply("DELETED", known)
        assert await stage.termination.reconcile("node") is None

    staged(script)


@pytest.mark.parametrize(
    ("ready", "dead"), [("Unknown", True), ("", True), ("False", False), ("True", False)]
)
def test_a_node_whose_instance_is_gone_and_whose_kubelet_is_silent_has_nothing_to_drain(
    ready: str, dead: bool
) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        stage.server.delete(Node, "node")
        merge = {"status": {"conditions": [{"type": "Ready", "status": ready}] if ready else []}}
        stage.server.patch(Node, "node", merge_patch=merge, status=True)
        del stage.cloud.patience[INSTANCE]
        stage.pod("web")
        again = await stage.step()
        assert (again is None, stage.there(Node, "node")) == (dead, not dead)
        assert bool(stage.evictions.added) is not dead
        assert not stage.cloud.asked
        assert stage.evictions.kept[-1][0] == "node"

    run_virtual(main, start=START)


def test_a_silent_kubelet_of_an_instance_that_runs_is_drained() -> None:
    async def script(stage: Stage) -> None:
        silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        stage.server.patch(Node, "node", merge_patch=silent, status=True)
        stage.pod("web")
        assert await stage.step() == 10 * SECOND

    staged(script)


def _more(stage: Stage, count: int, *, ours: bool = True) -> None:
    meta: dict[str, Any] = {} if ours else {"finalizers": []}
    for number in range(count):
        stage.node(f"more-{number}", f"aws:///us-east-1a/i-more-{number}", **meta)


@pytest.mark.parametrize(("others", "ours", "kept"), [(4, True, False), (5, True, True), (9, False, False)])
def test_nodes_that_lost_their_claims_all_at_once_are_kept(others: int, ours: bool, kept: bool) -> None:
    async def script(stage: Stage) -> None:
        _more(stage, others, ours=ours)
        again = await stage.step()
        assert (again == MINUTE) == kept
        assert stage.there(Node, "node") == kept
        assert not kept or not stage.read(Node, "node").spec.taints

    staged(script, claim=False)


def test_a_node_that_lost_its_claim_goes_where_all_others_have_theirs() -> None:
    async def script(stage: Stage) -> None:
        _more(stage, 6)
        for number in range(6):
            stage.claim(f"claim-{number}", f"aws:///us-east-1a/i-more-{number}")
        assert await stage.step() is None
        assert not stage.there(Node, "node")

    staged(script, claim=False)


def test_a_node_with_a_claim_goes_while_others_are_kept() -> None:
    async def script(stage: Stage) -> None:
        _more(stage, 6)
        assert await stage.step() == 5 * SECOND

    staged(script)


def test_what_happens_to_a_node_that_goes_and_to_its_pods_is_looked_at() -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        queue = stage.context.queues[0]
        looked: list[str] = []
        queue.add = looked.append  # type: ignore[assignment, method-assign]
        stage.node("stays", "aws:///us-east-1a/i-2")
        stage.pod("web")
        stage.pod("there", node="stays")
        stage.pod("pending", node="")
        stage.see()
        assert looked == []
        stage.server.delete(Node, "node")
        stage.state.apply("MODIFIED", stage.read(Node, "node"))
        assert looked == ["node"]
        stage.server.delete(NodeClaim, "claim")
        stage.state.apply("MODIFIED", stage.read(NodeClaim, "claim"))
        assert looked == ["node"]
        stage.state.apply("MODIFIED", stage.read(Pod, "there", "default"))
        assert looked == ["node"]
        stage.state.apply("DELETED", stage.read(Pod, "web", "default"))
        assert looked == ["node", "node"]
        stage.server.bind("pending", "default", "node")
        stage.state.apply("MODIFIED", stage.read(Pod, "pending", "default"))
        assert looked == ["node"] * 3

    run_virtual(main, start=START)


def test_at_the_start_every_node_is_looked_at() -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        stage.server.delete(Node, "node")
        stage.see()
        queue = stage.context.queues[0]
        looked: list[str] = []
        added = queue.add

        def add(name: str) -> None:
            looked.append(name)
            added(name)

        queue.add = add  # type: ignore[assignment, method-assign]
        task = asyncio.ensure_future(stage.termination.run())
        await clock.sleep(4 * SECOND)
        assert looked == ["node"] and stage.read(Node, "node").spec.taints
        task.cancel()

    run_virtual(main, start=START)


class Places:
    """Three pods with kept places, two on the node `one` and one on `two`, and one with no other place."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        for number, name in enumerate(("one", "two", "three"), start=2):
            stage.node(name, f"aws:///us-east-1a/i-{number}")
        for name in ("a", "b", "c", "d"):
            stage.pod(name, owner=f"owner-{name}")
        stage.see()
        for pod, place in (("a", "one"), ("b", "two"), ("c", "one")):
            found = stage.state.get(Pod, f"default/{pod}")
            assert found is not None
            stage.state.promise(found, place, kept=True)

    async def evicted(self, node: str = "node") -> set[str]:
        """Which pods are asked to go, once the node was looked at again."""
        await self.stage.step(node)
        of, uids = self.stage.evictions.kept[-1]
        assert of == node
        return {pod.metadata.name for pod in self.stage.state.all(Pod) if pod.metadata.uid in uids}

    def asking(self) -> list[str]:
        """The nodes that ask pods to go elsewhere while others have their turn."""
        nodes = self.stage.state.all(Node)
        return sorted(node.metadata.name for node in nodes if OTHERS_FIRST in node.spec.taints)

    def move(self, pod: str, place: str) -> None:
        """The pod is gone, and what comes in its stead is bound there."""
        self.stage.server.delete(Pod, pod, "default", grace_period_seconds=0)
        self.stage.see()
        self.stage.pod(f"{pod}-again", "", owner=f"owner-{pod}")
        self.stage.see()
        self.stage.server.bind(f"{pod}-again", "default", place)


def test_pods_go_to_the_places_that_are_kept_for_them_on_one_node_after_the_other() -> None:
    """All at once, one of them would be bound to another node with room than the one meant for it."""

    async def script(stage: Stage) -> None:
        places = Places(stage)
        assert await places.evicted() == {"a", "c", "d"}
        assert places.asking() == ["two"]
        places.move("a", "one")
        assert await places.evicted() == {"c", "d"}
        stage.server.delete(Pod, "c", "default", grace_period_seconds=0)
        assert await places.evicted() == {"d"}  # what comes in place of the other is not there yet
        stage.pod("c-again", "", owner="owner-c")
        assert await places.evicted() == {"d"}  # it is not bound yet
        stage.server.bind("c-again", "default", "one")
        assert await places.evicted() == {"b", "d"}
        assert places.asking() == ["one"]
        places.move("b", "two")
        assert await places.evicted() == {"d"}
        assert places.asking() == []

    staged(script)


def test_a_turn_ends_after_ten_seconds_whatever_holds_its_pods() -> None:
    async def script(stage: Stage) -> None:
        places = Places(stage)
        assert await places.evicted() == {"a", "c", "d"}
        await stage.clock.sleep(10 * SECOND)
        assert await places.evicted() == {"b", "d"}
        await stage.clock.sleep(10 * SECOND)
        assert await places.evicted() == {"a", "b", "c", "d"}
        assert places.asking() == []

    staged(script)


def test_nodes_with_kept_places_that_are_drained_at_the_same_time_have_their_turns_one_after_the_other() -> (
    None
):
    async def script(stage: Stage) -> None:
        places = Places(stage)
        stage.node("another", "aws:///us-east-1a/i-9")
        stage.server.delete(Node, "another")
        for name, place in (("e", "two"), ("f", "one"), ("g", "")):
            stage.pod(name, "another", owner=f"owner-{name}")
            stage.see()
            found = stage.state.get(Pod, f"default/{name}")
            assert found is not None
            if place:
                stage.state.promise(found, place, kept=True)
        assert await places.evicted() == {"a", "c", "d"}
        assert await places.evicted("another") == {"g"}
        for pod, place in (("a", "one"), ("c", "one"), ("b", "two")):
            places.move(pod, place)
            await stage.step()
        assert await places.evicted("another") == {"e", "g"}
        assert places.asking() == ["one"]

    staged(script)


def test_nodes_ask_for_no_turns_any_more_once_the_node_is_gone() -> None:
    async def script(stage: Stage) -> None:
        places = Places(stage)
        assert await places.evicted() == {"a", "c", "d"}
        stage.server.patch(Node, "node", merge_patch={"metadata": {"finalizers": []}})
        assert await stage.step() is None
        assert places.asking() == []

    staged(script)


def test_places_on_one_node_alone_need_no_turns() -> None:
    async def script(stage: Stage) -> None:
        places = Places(stage)
        found = stage.state.get(Pod, "default/b")
        assert found is not None
        stage.state.promise(found, "one", kept=True)
        assert await places.evicted() == {"a", "b", "c", "d"}
        assert places.asking() == []

    staged(script)
