"""From stored changes of the API server to records of the event log: the cluster's history, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Pod, ResourceList
from dovetail.base.eventlog import EventLog
from dovetail.kube.memory.store import Change
from dovetail.model import labels, resources

Document = Mapping[str, Any]
_EVICTED = "DisruptionTarget"


class Observer:
    """It only writes records; it never writes objects."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        # Provider id of a claim's instance -> (claim, pool): a Node names its claim in no other way.
        self._claims: dict[str, tuple[str, str]] = {}

    def changed(self, change: Change[Any]) -> None:
        """Pass this to the embedded API server."""
        old = change.before.document if change.before is not None else None
        self.observe(change.type, change.after.document, old)

    def observe(self, change: str, document: Document, old: Document | None) -> None:
        """`change` is ADDED, MODIFIED or DELETED; `old` is the state before it, if there was one."""
        match document.get("kind"):
            case "Pod":
                self._pod(change, document, old or {})
            case "Node":
                self._node(change, document, old or {})
            case "NodeClaim":
                self._claim(change, document, old or {})
            case "Event" if change != "DELETED":
                self._event(document)

    def _pod(self, change: str, pod: Document, old: Document) -> None:
        key = _key(pod)
        node, before = _node_name(pod), _node_name(old)
        if change == "DELETED":
            self._log.record("pod.deleted", pod=key, node=node)
            return
        if change == "ADDED":
            self._pod_created(key, pod)
        if node and not before:
            self._log.record("pod.bound", pod=key, node=node)
        if pod.get("status") == old.get("status"):
            return
        now, was = _conditions(pod), _conditions(old)
        waiting, waited = now.get("PodScheduled", {}), was.get("PodScheduled", {})
        if waiting.get("reason") == "Unschedulable" and waiting.get("message") != waited.get("message"):
            self._log.record("pod.unschedulable", pod=key, message=waiting.get("message", ""))
        if _became_true(now, was, "Ready"):
            self._log.record("pod.running", pod=key, node=node)
        if _became_true(now, was, _EVICTED):
            self._log.record("pod.evicted", pod=key, node=node, reason=now[_EVICTED].get("reason", ""))
        phase = pod.get("status", {}).get("phase")
        if phase in ("Succeeded", "Failed") and phase != old.get("status", {}).get("phase"):
            self._log.record("pod.finished", pod=key, node=node, phase=phase)

    def _pod_created(self, key: str, document: Document) -> None:
        pod = decode(document, Pod)
        containers = {one.name: resources.amounts(one.resources.requests) for one in pod.spec.containers}
        placeholder = {"placeholder": True} if pod.spec.priority < 0 else {}
        self._log.record(
            "pod.created",
            pod=key,
            owner=_owner(document),
            requests=resources.pod_requests(pod),
            labels=document["metadata"].get("labels", {}),
            containers=containers,
            **placeholder,
        )

    def _node(self, change: str, node: Document, old: Document) -> None:
        name = node["metadata"]["name"]
        if change == "DELETED":
            self._log.record("node.deleted", node=name)
            return
        if change == "ADDED":
            self._node_created(name, node)
        if _became_true(_conditions(node), _conditions(old), "Ready"):
            self._log.record("node.ready", node=name)

    def _node_created(self, name: str, node: Document) -> None:
        claim, pool = self._claims.get(node.get("spec", {}).get("providerID", ""), ("", ""))
        marks = node["metadata"].get("labels", {})
        capacity_type = marks.get(labels.CAPACITY_TYPE) or marks.get(labels.GROUP_CAPACITY_TYPE, "ON_DEMAND")
        self._log.record(
            "node.created",
            node=name,
            claim=claim,
            pool=pool,
            instance=node.get("spec", {}).get("providerID", ""),
            instanceType=marks.get(labels.INSTANCE_TYPE, ""),
            zone=marks.get(labels.ZONE, ""),
            capacityType=capacity_type.lower().replace("_", "-"),
            allocatable=_amounts(node.get("status", {}).get("allocatable")),
            capacity=_amounts(node.get("status", {}).get("capacity")),
        )

    def _claim(self, change: str, claim: Document, old: Document) -> None:
        name = claim["metadata"]["name"]
        if change == "DELETED":
            self._log.record("claim.deleted", claim=name)
            return
        pool = claim["metadata"].get("labels", {}).get(labels.NODEPOOL, "")
        provider_id = claim.get("status", {}).get("providerID")
        if provider_id:
            self._claims[provider_id] = (name, pool)
        if change == "ADDED":
            self._log.record(
                "claim.created",
                claim=name,
                pool=pool,
                requests=_amounts(claim["spec"].get("resources", {}).get("requests")),
                instanceTypes=_instance_types(claim),
            )
        was = _conditions(old)
        for kind, item in sorted(_conditions(claim).items()):
            before = was.get(kind, {})
            status, reason = item.get("status", "Unknown"), item.get("reason", "")
            if (status, reason) != (before.get("status"), before.get("reason", "")):
                self._log.record("claim.condition", claim=name, type=kind, status=status, reason=reason)

    def _event(self, event: Document) -> None:
        about = event.get("involvedObject", {})
        parts = (about.get("kind"), about.get("namespace"), about.get("name"))
        self._log.record(
            "event",
            type=event.get("type", "Normal"),
            reason=event.get("reason", ""),
            object="/".join(part for part in parts if part),
            message=event.get("message", ""),
        )


def _key(document: Document) -> str:
    meta = document["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


def _node_name(pod: Document) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")


def _owner(pod: Document) -> str:
    """ "Kind/name" of the controller, or nothing."""
    owners = pod["metadata"].get("ownerReferences", ())
    return next((f"{owner['kind']}/{owner['name']}" for owner in owners if owner.get("controller")), "")


def _conditions(document: Document) -> dict[str, Document]:
    return {item["type"]: item for item in document.get("status", {}).get("conditions", ())}


def _became_true(now: Mapping[str, Document], was: Mapping[str, Document], kind: str) -> bool:
    return now.get(kind, {}).get("status") == "True" and was.get(kind, {}).get("status") != "True"


def _amounts(quantities: object) -> dict[str, int]:
    return resources.amounts(decode(quantities or {}, ResourceList))


def _instance_types(claim: Document) -> list[str]:
    for requirement in claim["spec"].get("requirements", ()):
        if requirement["key"] == labels.INSTANCE_TYPE and requirement["operator"] == "In":
            return list(requirement.get("values", ()))
    return []
