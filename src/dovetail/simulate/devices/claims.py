"""The resource claim controller: claims are made from templates, and let go once no pod uses them."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.core import Pod, PodResourceClaim
from dovetail.api.devices import ResourceClaim, ResourceClaimTemplate
from dovetail.api.meta import Meta, Object, OwnerReference
from dovetail.base.errors import Conflict, NotFound
from dovetail.kube.client import Client, EventType
from dovetail.kube.informer import Informer

OF_POD = "resource.kubernetes.io/pod-claim-name"  # an annotation: which claim of the pod it is


class ResourceClaims:
    """Makes claims, and takes pods off the list of those that a claim is reserved for.

    A claim that is made for a pod is the pod's: it goes with it. One that is named by pods stays, and is
    allocated to none once the last of them has ended.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods = Informer(client, Pod, self._pod_changed)
        self._templates = Informer(client, ResourceClaimTemplate, self._template_changed)
        self._claims = Informer(client, ResourceClaim, self._claim_changed)
        self._queue: dict[tuple[type[Object], str], None] = {}
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Follow pods, templates and claims, for ever."""
        await asyncio.gather(self._templates.run(), self._claims.run(), self._pods.run(), self._work())

    def _ask(self, kind: type[Object], key: str) -> None:
        self._queue[kind, key] = None
        self._news.set()

    def _pod_changed(self, change: EventType, pod: Pod) -> None:
        if not pod.spec.resource_claims:
            return
        self._ask(Pod, pod.key)
        if change == "DELETED" or pod.terminal:
            for claim in self._claims.objects.values():
                if any(one.uid == pod.metadata.uid for one in claim.status.reserved_for):
                    self._ask(ResourceClaim, claim.key)

    def _template_changed(self, _: EventType, template: ResourceClaimTemplate) -> None:
        for pod in self._pods.objects.values():
            if pod.metadata.namespace == template.metadata.namespace and pod.spec.resource_claims:
                self._ask(Pod, pod.key)

    def _claim_changed(self, change: EventType, claim: ResourceClaim) -> None:
        if change != "DELETED":
            self._ask(ResourceClaim, claim.key)

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                kind, key = next(iter(self._queue))
                del self._queue[kind, key]
                try:
                    await (self._make(key) if kind is Pod else self._let_go(key))
                except (NotFound, Conflict):
                    continue  # its next change comes

    async def _make(self, key: str) -> None:
        """The claims of the pod that are still to be made, and their names in its status."""
        pod = self._pods.objects.get(key)
        if pod is None or pod.terminal or pod.deleting:
            return
        made = {item.name: item.resource_claim_name for item in pod.status.resource_claim_statuses}
        fresh: dict[str, str] = {}
        for wanted in pod.spec.resource_claims:
            if wanted.resource_claim_template_name and wanted.name not in made:
                claim = await self._made(pod, wanted)
                if claim is not None:
                    fresh[wanted.name] = claim.metadata.name
        if not fresh:
            return
        statuses = [
            {"name": name, "resourceClaimName": found} for name, found in (made | fresh).items() if found
        ]
        merge = {"status": {"resourceClaimStatuses": statuses}}
        meta = pod.metadata
        await self._client.patch(Pod, meta.name, meta.namespace, merge=merge, status=True)

    async def _made(self, pod: Pod, wanted: PodResourceClaim) -> ResourceClaim | None:
        """The claim; None while its template is missing."""
        meta = pod.metadata
        for claim in self._claims.objects.values():  # made already, and not written down
            owned = any(owner.uid == meta.uid for owner in claim.metadata.owner_references)
            if owned and claim.metadata.annotations.get(OF_POD) == wanted.name:
                return claim
        template = self._templates.objects.get(f"{meta.namespace}/{wanted.resource_claim_template_name}")
        if template is None:
            return None
        owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
        return await self._client.create(
            ResourceClaim(
                metadata=Meta(
                    generate_name=f"{meta.name}-{wanted.name}-",
                    namespace=meta.namespace,
                    annotations={OF_POD: wanted.name},
                    owner_references=(owner,),
                ),
                spec=template.spec.spec,
            )
        )

    async def _let_go(self, key: str) -> None:
        claim = self._claims.objects.get(key)
        if claim is None or claim.status.allocation is None:
            return
        users = {pod.metadata.uid for pod in self._pods.objects.values() if not pod.terminal}
        kept = [one for one in claim.status.reserved_for if one.resource != "pods" or one.uid in users]
        if len(kept) == len(claim.status.reserved_for):
            return
        status: dict[str, Any] = {"reservedFor": [encode(one) for one in kept]}
        if not kept:
            status = {"reservedFor": None, "allocation": None}
        meta = claim.metadata
        merge = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        await self._client.patch(ResourceClaim, meta.name, meta.namespace, merge=merge, status=True)
