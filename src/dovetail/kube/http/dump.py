"""Everything of a cluster that plans look at, as JSON documents: read only, by get and list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from dovetail.api import core, keda, namespaces, services, workloads
from dovetail.api.gangs import GANG_KINDS
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import KWOKNodeClass
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.base.errors import ApiError, Expired, Forbidden, InputError, NotFound, Unauthorized
from dovetail.kube.http import wire
from dovetail.kube.http.access import Access
from dovetail.kube.http.client import connect
from dovetail.kube.http.transport import Request, Transport


class Listed(NamedTuple):
    """A kind as far as a list needs it, whether anything here reads its objects or not."""

    api_version: str
    kind: str
    plural: str

    @staticmethod
    def of(kind: type[Object]) -> Listed:
        """One that has a view."""
        return Listed(kind.API_VERSION, kind.KIND, kind.PLURAL)

    @property
    def path(self) -> str:
        """Where all of them are, over all namespaces."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}/{self.plural}"

    @property
    def resource(self) -> str:
        """As roles and messages name it: plural and group."""
        group, slash, _ = self.api_version.partition("/")
        return f"{self.plural}.{group}" if slash else self.plural


# Without these there is nothing to plan; the others make the answer better.
NEEDED: tuple[type[Object], ...] = (core.Node, core.Pod)
_OTHERS: tuple[type[Object], ...] = (
    NodePool,
    NodeClaim,
    CapacityBuffer,
    NodeOverlay,
    EC2NodeClass,
    KWOKNodeClass,
    core.Namespace,
    workloads.DaemonSet,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.StatefulSet,
    workloads.Job,
    workloads.CronJob,
    workloads.PodDisruptionBudget,
    workloads.HorizontalPodAutoscaler,
    workloads.PriorityClass,
    workloads.RuntimeClass,
    workloads.PodTemplate,
    workloads.StorageClass,
    workloads.CSINode,
    core.PersistentVolume,
    core.PersistentVolumeClaim,
    namespaces.LimitRange,
    namespaces.ResourceQuota,
    services.Service,
    services.ReplicationController,
    keda.ScaledObject,
    keda.ScaledJob,
    *GANG_KINDS,
)
# Of a kind that has no view, what it recommends is read from the document.
_VERTICAL = Listed("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "verticalpodautoscalers")
KINDS = (*map(Listed.of, (*_OTHERS[:7], *NEEDED, *_OTHERS[7:])), _VERTICAL)
_PAGE = 500
Clean = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Dump:
    """`documents` in order of kind, namespace and name.

    `denied` are resources, such as "pods", that the user may not list; `absent` kinds that the cluster lacks.
    """

    documents: tuple[dict[str, Any], ...]
    denied: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def json(self) -> bytes:
        """A List, as kubectl writes it."""
        return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": self.documents})


class _Page(msgspec.Struct, frozen=True):
    metadata: wire.ListMeta = wire.ListMeta()
    items: list[dict[str, Any]] | None = None


async def dump(access: Access, clean: Clean, kinds: Sequence[Listed] = KINDS) -> Dump:
    """Asks for kind by kind. Raises InputError where nothing answers, or what is needed may not be listed.

    `clean` makes of each object what is kept, before the next page is asked for: what a snapshot leaves out
    is never together in memory.
    """
    documents: list[dict[str, Any]] = []
    denied: list[str] = []
    absent: list[str] = []
    counts: dict[str, int] = {}
    async with connect(access) as client:
        for kind in kinds:
            try:
                found = await _all(client.transport, kind, clean)
            except Forbidden:
                denied.append(kind.resource)
                continue
            except NotFound:
                absent.append(kind.kind)
                continue
            except Unauthorized:
                remedy = "log in again, or renew the token"
                raise InputError(client.transport.refused, source=access.source, remedy=remedy) from None
            except ApiError as error:
                remedy = "check the server's address and that this machine reaches it"
                raise InputError(str(error), source=access.source, remedy=remedy) from None
            counts[kind.kind] = len(found)
            documents += found
    if lacking := [
        resource for resource in (Listed.of(kind).resource for kind in NEEDED) if resource in denied
    ]:
        raise InputError(
            f"this user may not list {' and '.join(lacking)}",
            source=access.source,
            remedy=f"give it the verbs get and list on {', '.join(kind.resource for kind in kinds)}",
        )
    return Dump(tuple(documents), tuple(denied), tuple(absent), counts)


async def _all(transport: Transport, kind: Listed, clean: Clean) -> list[dict[str, Any]]:
    """The objects of a kind, page by page; in one answer where the pages have run out of time."""
    more = ""
    found: list[dict[str, Any]] = []
    path, decoder = kind.path, msgspec.json.Decoder(_Page)
    while True:
        query = {"limit": str(_PAGE), **({"continue": more} if more else {})}
        try:
            page = decoder.decode(await transport.ask(Request("GET", path, query)))
        except Expired:
            if not more:
                raise
            found.clear()
            page = decoder.decode(await transport.ask(Request("GET", path)))
        except msgspec.MsgspecError as error:
            raise InputError(f"answers no list of {kind.plural}: {error}", source=path) from None
        for item in page.items or ():
            found.append({"apiVersion": kind.api_version, "kind": kind.kind, **clean(item)})
        more = page.metadata.continues
        if not more:
            return sorted(found, key=_order)


def _order(document: Mapping[str, Any]) -> tuple[str, str]:
    meta = document.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
