"""The cluster as the watchdog remembers it: which changes it takes in, and what belongs to what."""

from __future__ import annotations

from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.simulate.violations.mirror import KINDS, Change, Mirror, read_change

Document = dict[str, Any]
REFERENCE = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}
CONTAINERS = {"containers": [{"name": "main", "image": "web:1"}]}
LABELS = {"app": "web"}


def of(kind: str, api: str = "v1", *, namespaced: bool = False, **rest: Any) -> Document:
    meta = {"name": "a", **({"namespace": "default"} if namespaced else {})}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}


SEEN = [
    of("Namespace"),
    of("Node"),
    of("Pod", namespaced=True, spec=CONTAINERS),
    of("NodePool", "karpenter.sh/v1", spec={"template": {"spec": {**REFERENCE, "requirements": []}}}),
    of("NodeClaim", "karpenter.sh/v1", spec={**REFERENCE, "requirements": []}),
    of("PodDisruptionBudget", "policy/v1", namespaced=True, spec={"selector": {"matchLabels": LABELS}}),
    of("PersistentVolume", spec={}),
    of("PersistentVolumeClaim", namespaced=True, spec={}),
    of("StorageClass", "storage.k8s.io/v1", provisioner="ebs.csi.aws.com"),
    of("CSINode", "storage.k8s.io/v1", spec={"drivers": []}),
    of("PodGroup", "scheduling.x-k8s.io/v1alpha1", namespaced=True, spec={"minMember": 2}),
    of("Workload", "scheduling.k8s.io/v1alpha1", namespaced=True, spec={"podGroups": []}),
]
UNSEEN = of(
    "ReplicaSet",
    "apps/v1",
    namespaced=True,
    spec={
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": CONTAINERS},
    },
)


def test_the_kinds_that_rules_look_at_are_taken_in_and_no_others() -> None:
    async def main(clock: VirtualClock) -> None:
        server, found = MemoryServer(clock), list[Change | None]()
        server.observe(lambda change: found.append(read_change(change, 7)))
        for document in (*SEEN, UNSEEN):
            server.create(document)
        *seen, unseen = found
        assert unseen is None
        assert [one.about.KIND for one in seen if one] == [document["kind"] for document in SEEN]
        assert {one.about.KIND for one in seen if one} == {kind.KIND for kind in KINDS}
        assert all(one and (one.now, one.old) == (7, None) for one in seen)
        server.patch(Node, "a", merge_patch={"spec": {"unschedulable": True}})
        changed, was = found[-1], seen[1]
        assert changed and was and changed.old == was.new and changed.about != was.about
        assert isinstance(changed.new, Node) and changed.new.spec.unschedulable
        server.delete(Node, "a")
        gone = found[-1]
        assert gone and gone.new is None and gone.old == changed.new
        assert gone.of(Node) == (None, gone.old) and gone.of(Pod) is None

    run_virtual(main)


def node(name: str, provider_id: str = "") -> Node:
    return decode({"metadata": {"name": name}, "spec": {"providerID": provider_id}}, Node)


def claim(name: str, provider_id: str = "", pool: str = "main") -> NodeClaim:
    meta = {"name": name, "labels": {"karpenter.sh/nodepool": pool}}
    return decode({"metadata": meta, "spec": REFERENCE, "status": {"providerID": provider_id}}, NodeClaim)


def pod(name: str, on: str = "", phase: str = "Running", cpu: str = "1") -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    spec = {"nodeName": on, "containers": containers}
    document = {"metadata": {"name": name, "namespace": "d"}, "spec": spec, "status": {"phase": phase}}
    return decode(document, Pod)


def mirrored(*items: Object) -> Mirror:
    mirror = Mirror(lambda: 0)
    for item in items:
        mirror.apply(Change(1, item, None))
    return mirror


def test_nodes_and_claims_belong_together_by_their_instance() -> None:
    bare, other, first, second = node("bare"), node("other", "i-2"), node("a", "i-1"), node("b", "i-1")
    mirror = mirrored(bare, other, second, first, claim("y", "i-1"), claim("x", "i-1"), claim("new"))
    assert mirror.node_of(claim("x", "i-1")) == first
    assert mirror.node_of(claim("z", "i-3")) is None and mirror.node_of(claim("new")) is None
    assert mirror.claim_of(second) == claim("x", "i-1")
    assert mirror.claim_of(other) is None and mirror.claim_of(bare) is None


def test_the_machines_of_a_pool_come_by_name() -> None:
    mirror = mirrored(
        node("bare"),
        node("n", "i-1"),
        claim("b", "i-1"),
        claim("a"),
        claim("c", "i-9", "else"),
        claim("d", "i-2"),
    )
    found = [(item.metadata.name, on.metadata.name if on else "") for item, on in mirror.machines("main")]
    assert found == [("a", ""), ("b", "n"), ("d", "")]


def test_when_a_pod_got_its_node_and_what_moved() -> None:
    mirror = mirrored(node("n", "i-1"), pod("web"))
    assert "d/web" not in mirror.bound and mirror.moved == {"n": 1}
    waiting, bound, ended = pod("web"), pod("web", "n"), pod("web", "n", "Succeeded")
    mirror.apply(Change(2, bound, waiting))
    assert (mirror.bound, mirror.moved) == ({"d/web": 2}, {"n": 2}) and "d/web" in mirror.view.nodes["n"].pods
    mirror.apply(Change(3, bound, bound))
    assert mirror.moved == {"n": 2}  # nothing that counts
    mirror.apply(Change(4, pod("web", "n", cpu="2"), bound))
    assert (mirror.bound, mirror.moved) == ({"d/web": 2}, {"n": 4})
    mirror.apply(Change(5, ended, bound))
    assert (mirror.bound, mirror.moved) == ({}, {"n": 5}) and "d/web" not in mirror.view.nodes["n"].pods
    mirror.apply(Change(6, bound, None))
    assert mirror.bound == {"d/web": 6}
    mirror.apply(Change(7, node("n", "i-1"), node("n", "i-1")))
    assert (mirror.moved, mirror.marked) == ({"n": 7}, {})
    mirror.apply(Change(8, node("n", "i-2"), node("n", "i-1")))
    assert (mirror.moved, mirror.marked) == ({"n": 8}, {"n": 8})
    mirror.apply(Change(9, None, waiting))
    assert mirror.moved == {"n": 8}
