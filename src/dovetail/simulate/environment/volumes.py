"""Volumes that come when they are claimed, as an EBS driver and the volume controllers make them.

A claim of a class that waits for its first consumer is bound in the zone of the node that its pod got, just
before the pod is bound; any other claim at once, in a zone drawn for it. Making a volume takes no time. A
claim that names a volume is bound to it as soon as both are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from dovetail.api.core import (
    CsiVolumeSource,
    NodeSelector,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    SelectorRequirement,
    VolumeNodeAffinity,
)
from dovetail.api.meta import Meta, Object, OwnerReference
from dovetail.api.workloads import StorageClass
from dovetail.base.errors import AlreadyExists, NotFound
from dovetail.base.streams import stream
from dovetail.kube.client import Client, EventType
from dovetail.kube.informer import Informer
from dovetail.model import labels
from dovetail.model.volumes import BIND_COMPLETED, VolumeIndex, binds, claim_uses, default_class

WAIT = "WaitForFirstConsumer"


class Volumes:
    """The volume controllers of a cluster whose nodes live in `zones`."""

    def __init__(self, client: Client, zones: Sequence[str], seed: int) -> None:
        self._client = client
        self._zones = tuple(sorted(zones))
        self._seed = seed
        self._claims = Informer(client, PersistentVolumeClaim, self._claim_changed)
        self._classes = Informer(client, StorageClass, self._class_changed)
        self._volumes = Informer(client, PersistentVolume, self._volume_changed)
        self._pods = Informer(client, Pod, self._pod_changed)

    async def run(self) -> None:
        """Follow claims, classes, volumes and pods, for ever."""
        await asyncio.gather(self._classes.run(), self._volumes.run(), self._claims.run(), self._pods.run())

    async def bind(self, pod: Pod, node: Mapping[str, str]) -> None:
        """Bind the pod's claims that wait for it, in the zone of a node with these labels."""
        index = VolumeIndex(claims=self._claims.objects, classes=self._classes.objects)
        for use in claim_uses(pod, index):
            if use.claim is not None and use.storage_class is not None and not use.bound:
                await self._provide(use.claim, use.storage_class, node.get(labels.ZONE, ""))

    def _claim_changed(self, change: EventType, claim: PersistentVolumeClaim) -> None:
        if change != "DELETED" and binds(claim, self._volumes.objects.get(claim.spec.volume_name)):
            self._task(self._complete(claim, {}), claim)
        elif change != "DELETED" and not claim.spec.volume_name:
            kind = self._class_of(claim)
            if kind is not None and kind.volume_binding_mode != WAIT:
                self._task(self._provide(claim, kind, self._draw(claim, kind)), claim)

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        name, known = claim.spec.storage_class_name, self._classes.objects
        return default_class(known.values()) if name is None else known.get(name)

    def _class_changed(self, change: EventType, _: StorageClass) -> None:
        if change == "ADDED":
            for claim in self._claims.objects.values():
                self._claim_changed("MODIFIED", claim)

    def _volume_changed(self, change: EventType, volume: PersistentVolume) -> None:
        if change == "ADDED":
            for claim in self._claims.objects.values():
                if claim.spec.volume_name == volume.metadata.name:
                    self._claim_changed("MODIFIED", claim)

    def _pod_changed(self, change: EventType, pod: Pod) -> None:
        """Ephemeral volumes get a claim of their own that goes with the pod."""
        if change != "ADDED":
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                meta = pod.metadata
                claim = PersistentVolumeClaim(
                    metadata=Meta(
                        name=f"{meta.name}-{volume.name}",
                        namespace=meta.namespace,
                        owner_references=(_owner(pod),),
                    ),
                    spec=volume.ephemeral.volume_claim_template.spec,
                )
                self._task(self._create(claim), claim)

    async def _create(self, claim: PersistentVolumeClaim) -> None:
        try:
            await self._client.create(claim)
        except AlreadyExists:
            return  # of a pod of that name before

    async def _provide(self, claim: PersistentVolumeClaim, kind: StorageClass, zone: str) -> None:
        name = f"pvc-{claim.metadata.uid}"
        here = SelectorRequirement(key=labels.ZONE, operator="In", values=(zone,))
        reach = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(here,)),))
        volume = PersistentVolume(
            metadata=Meta(name=name),
            spec=PersistentVolumeSpec(
                storage_class_name=kind.metadata.name,
                node_affinity=VolumeNodeAffinity(required=reach),
                csi=CsiVolumeSource(driver=kind.provisioner, volume_handle=name.replace("pvc-", "vol-")),
                capacity=claim.spec.resources.requests,
                claim_ref=ObjectReference(
                    api_version=claim.API_VERSION,
                    kind=claim.KIND,
                    name=claim.metadata.name,
                    namespace=claim.metadata.namespace,
                    uid=claim.metadata.uid,
                ),
            ),
        )
        try:
            await self._client.create(volume)
        except AlreadyExists:
            return
        await self._complete(claim, {"volumeName": name, "storageClassName": kind.metadata.name})

    async def _complete(self, claim: PersistentVolumeClaim, spec: dict[str, str]) -> None:
        """Write down that the claim is bound, with what of its spec is new."""
        meta = claim.metadata
        bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": spec}
        try:
            await self._client.patch(PersistentVolumeClaim, meta.name, meta.namespace, merge=bound)
            phase = {"status": {"phase": "Bound"}}
            await self._client.patch(
                PersistentVolumeClaim, meta.name, meta.namespace, merge=phase, status=True
            )
        except NotFound:
            return  # the claim went meanwhile

    def _draw(self, claim: PersistentVolumeClaim, kind: StorageClass) -> str:
        """A zone for a claim that waits for no pod: any that the class allows."""
        allowed = [
            zone
            for zone in self._zones
            if not kind.allowed_topologies
            or any(
                zone in item.values
                for term in kind.allowed_topologies
                for item in term.match_label_expressions
            )
        ]
        return stream(self._seed, f"claim {claim.key}", "zone").choice(allowed or self._zones)

    def _task(self, work: Coroutine[Any, Any, None], about: Object) -> None:
        asyncio.get_running_loop().create_task(work, name=f"volumes: {about.KIND} {about.key}")


def _owner(pod: Pod) -> OwnerReference:
    return OwnerReference(
        api_version=pod.API_VERSION,
        kind=pod.KIND,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
    )
