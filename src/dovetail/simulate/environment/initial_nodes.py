"""The nodes of NodePools that a scenario begins with: claims, instances and Nodes that have been there for a
while, and the pods that ran on them, each of which is made where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from msgspec.structs import replace as changed

from dovetail.api.admission import admit
from dovetail.api.codec import decode, encode
from dovetail.api.core import Node, PersistentVolumeClaim, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.workloads import DaemonSet, ReplicaSet
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import CloudError, NotFound
from dovetail.cloud.simulated import SimulatedCloud
from dovetail.controllers.conditions import Stamp, document, set_condition, set_ready
from dovetail.controllers.nodeclaim.launch import launched
from dovetail.controllers.nodeclaim.register import registration
from dovetail.controllers.nodeclaim.status import ROOT
from dovetail.controllers.provisioning.claims import node_claim
from dovetail.kube.memory.server import MemoryServer
from dovetail.kube.memory.store import Change
from dovetail.model import labels
from dovetail.model.plan import PlannedClaim
from dovetail.model.requirement import Requirement, Requirements
from dovetail.model.resources import Resources, fits, pod_requests, subtract
from dovetail.simulate.kubelet.kubelets import Kubelets
from dovetail.simulate.kubelet.machine import Machine, NodeNames, from_claim
from dovetail.simulate.scenario.initial_nodes import InitialNode, Located
from dovetail.simulate.workloads.daemonset import fit

Document = dict[str, Any]
T = TypeVar("T", bound=Object)
_FIRST_MOMENTS = 10 * SECOND  # pods that are made later than that are new ones


class InitialNodes:
    """Makes them once, with `begin`; `admitted` is the admission of the cluster's API server."""

    def __init__(self, nodes: Sequence[Located], clock: Clock, seed: int) -> None:
        self._nodes = nodes
        self._clock = clock
        self._seed = seed
        self._until = clock.now() + _FIRST_MOMENTS
        self._server: MemoryServer | None = None
        self._free: dict[str, Resources] = {}  # node -> room for pods that are no daemons'
        # Workload -> node -> pods that ran there and are not made yet; positive.
        self._places: dict[str, dict[str, int]] = {}

    async def begin(
        self, server: MemoryServer, cloud: SimulatedCloud, kubelets: Kubelets, names: NodeNames
    ) -> None:
        """Put them into the cluster. Raises InputError for one that cannot be, with its line."""
        self._server = server
        server.observe(self._changed)
        daemons = [record.view for record in server.list(DaemonSet)]
        for located in self._nodes:
            node = located.node
            names.take(node.name)
            claim, machine = self._launched(located, server, cloud)
            await kubelets.join(machine)
            known = server.record(Node, node.name).view
            mark = registration(known, claim)
            mark["metadata"]["labels"][labels.INITIALIZED] = "true"
            ready = server.patch(Node, node.name, merge_patch=mark).view
            self._free[node.name] = _room(machine, ready, daemons)
            for workload, count in node.pods.items():
                if count:
                    self._places.setdefault(workload, {})[node.name] = count

    def _launched(
        self, located: Located, server: MemoryServer, cloud: SimulatedCloud
    ) -> tuple[NodeClaim, Machine]:
        """The claim with its instance, both as old as the node, and the machine that runs it."""
        node, since = located.node, self._clock.now() - located.age
        pool = _known(server, NodePool, node.node_pool, located)
        node_class = _known(server, EC2NodeClass, pool.spec.template.spec.node_class_ref.name, located)
        draft = node_claim(_planned(node, pool), pool)
        if node.node_claim:
            draft = changed(draft, metadata=changed(draft.metadata, name=node.node_claim, generate_name=""))
        claim = server.create(encode(draft), created=since).view
        try:
            instance = cloud.adopt(claim, node_class, since)
        except CloudError as error:
            raise located.error(str(error), "leave it out, or name what the region sells") from None
        marks, fields = launched(claim, instance)
        conditions, stamp = claim.status.conditions, Stamp(since, claim.metadata.generation)
        for kind in ROOT:
            conditions = set_condition(conditions, kind, "True", stamp)
        fields |= {
            "nodeName": node.name,
            "conditions": document(set_ready(conditions, ROOT, stamp)),
        }
        server.patch(NodeClaim, claim.metadata.name, merge_patch={"metadata": marks})
        claim = server.patch(NodeClaim, claim.metadata.name, merge_patch={"status": fields}, status=True).view
        machine = from_claim(instance, claim, name=node.name, seed=self._seed)
        return claim, replace(machine, taints=claim.spec.taints)

    def admitted(self, new: Document, old: Document | None = None) -> Document:
        """The document as the API server stores it; a pod that ran on one of the nodes is made there."""
        found = admit(new, old)
        if old is None and found["kind"] == "Pod" and self._places and not found["spec"].get("nodeName"):
            if self._clock.now() > self._until:
                self._places.clear()
            elif place := self._place(decode(found, Pod)):
                return {**found, "spec": {**found["spec"], "nodeName": place}}
        return found

    def _place(self, pod: Pod) -> str:
        """The first node that has a pod of its workload missing, and room for it; "" for none."""
        assert self._server is not None
        requests = pod_requests(pod)
        for workload in (f"Pod/{pod.key}", _workload(pod, self._server)):
            for node, missing in self._places.get(workload, {}).items():
                if fits(requests, self._free[node]) and _has_volumes(pod, self._server):
                    self._places[workload][node] = missing - 1
                    if missing == 1:
                        del self._places[workload][node]
                    return node
        return ""

    def _changed(self, change: Change[Any]) -> None:
        """A pod that came to a node takes its room; that of daemons is kept for them already."""
        if not self._places or change.after.kind is not Pod:
            return
        before = change.before.view.spec.node_name if change.before is not None else ""
        pod = change.after.view
        owner = pod.metadata.controller()
        if (
            pod.spec.node_name in self._free
            and not before
            and (owner is None or owner.kind != DaemonSet.KIND)
        ):
            self._free[pod.spec.node_name] = subtract(self._free[pod.spec.node_name], pod_requests(pod))


def _known(server: MemoryServer, kind: type[T], name: str, located: Located) -> T:
    try:
        return server.record(kind, name).view
    except NotFound:
        there = ", ".join(sorted(record.view.metadata.name for record in server.list(kind)))
        raise located.error(
            f"the manifests have no {kind.KIND} {name!r}", f"there is {there}" if there else ""
        ) from None


def _planned(node: InitialNode, pool: NodePool) -> PlannedClaim:
    """As if it had just been decided on, with one type and one offering."""
    pins = {
        labels.INSTANCE_TYPE: node.instance_type,
        labels.ZONE: node.zone,
        labels.CAPACITY_TYPE: node.capacity_type,
    }
    asked = Requirements.read(pool.spec.template.spec.requirements)
    others = (one for one in asked if one.key not in pins and one.key not in node.labels)
    wanted = Requirements.of((*others, *(Requirement.new(key, "In", (text,)) for key, text in pins.items())))
    return PlannedClaim(
        name=node.name,
        pool=node.node_pool,
        pods=(),
        requirements=wanted,
        instance_types=(node.instance_type,),
        requests={},
        instance_type=node.instance_type,
        zone=node.zone,
        capacity_type=node.capacity_type,
        price=0,
        worst=0,
        labels=node.labels,
    )


def _room(machine: Machine, node: Node, daemons: Sequence[DaemonSet]) -> Resources:
    free = dict(machine.allocatable)
    for item in daemons:
        if fit(item.spec.template, node).run:
            free = subtract(free, pod_requests(Pod(spec=item.spec.template.spec)))
    return free


def _workload(pod: Pod, server: MemoryServer) -> str:
    """Kind/namespace/name of what makes the pod; of a ReplicaSet's its Deployment."""
    owner, namespace = pod.metadata.controller(), pod.metadata.namespace
    if owner is not None and owner.kind == ReplicaSet.KIND:
        owner = server.record(ReplicaSet, owner.name, namespace).view.metadata.controller() or owner
    return f"{owner.kind}/{namespace}/{owner.name}" if owner is not None else ""


def _has_volumes(pod: Pod, server: MemoryServer) -> bool:
    """False while a claim of the pod waits for its first consumer: the scheduler chooses its node."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        name = volume.persistent_volume_claim.claim_name
        try:
            claim = server.record(PersistentVolumeClaim, name, pod.metadata.namespace).view
        except NotFound:
            return False
        if not claim.spec.volume_name:
            return False
    return True
