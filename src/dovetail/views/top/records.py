"""An event log as the objects that it is about: of a simulation all of them, of the controller its nodes.

What a log does not say is left out: the controller's says nothing of pods, and a simulation's of no label
beyond the ones that are made here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod, ResourceList
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.model import labels
from dovetail.model.resources import PODS, quantities
from dovetail.units.timestamp import to_rfc3339
from dovetail.views.top.board import Board

Record = Mapping[str, Any]
_CLASS = {"group": "", "kind": "", "name": ""}  # of the node class, which logs do not name
_POD = ("created", "bound", "running", "unschedulable", "deleted", "finished")
_OF_PODS = frozenset(f"pod.{what}" for what in _POD)
_QUIET = ("Ready", "Consolidatable")  # conditions that are shown elsewhere, or change with every pod


class Replay:
    """Feeds a board with the records of a log, in their order."""

    def __init__(self, board: Board) -> None:
        self._board = board
        board.partial = True
        self.now = 0  # the instant of the last record
        self._documents: dict[tuple[str, str], dict[str, Any]] = {}  # of what is there: by kind and key
        self._instances: dict[str, Record] = {}  # claim -> what the cloud gave for it
        self._unclaimed: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)  # by type and zone

    def read(self, record: Record) -> None:
        """Take in one record; kinds that say nothing about objects are passed over."""
        self.now = max(self.now, record["t"])
        match record["kind"]:
            case str() as kind if kind in _OF_PODS:
                self._pod(record)
            case "instance.started":
                self._started(record)
            case "node.created" | "node.ready" | "node.deleted":
                self._node(record)
            case "claim.created" | "claim.condition" | "claim.deleted":
                self._claim(record)
            case "event":
                kind, _, key = record["object"].partition("/")
                self._board.note(record["t"], kind, key, f"{record['reason']}: {record['message']}")
            case _:
                follow(self._board, record)

    def _pod(self, record: Record) -> None:
        key = record["pod"]
        if record["kind"] in ("pod.deleted", "pod.finished"):
            self._gone(Pod, key)
            return
        if record["kind"] == "pod.created":
            self._documents["Pod", key] = _new_pod(record)
        document = self._documents.get(("Pod", key))
        if document is None:  # it was there before the log began
            return
        match record["kind"]:
            case "pod.bound":
                document["spec"]["nodeName"] = record["node"]
                self._board.note(record["t"], "Pod", key, f"bound to {record['node']}")
            case "pod.running":
                document["status"]["phase"] = "Running"
            case "pod.unschedulable":
                self._board.note(record["t"], "Pod", key, record["message"])
        self._report(Pod, document)

    def _started(self, record: Record) -> None:
        claim = record.get("claim", "")
        if claim:
            self._instances[claim] = record
            self._price(record["instance"], record)
            self._stamp(claim, record)
        else:
            self._unclaimed[record["instanceType"], record["zone"]].append(record)

    def _price(self, provider: str, started: Record) -> None:
        """What is paid for it, where the log says it. What a plan said of it may be a NodeOverlay's price, or
        that of another type.
        """
        if "price" in started:
            self._board.cost(provider, started["price"])

    def _stamp(self, name: str, started: Record) -> None:
        """The claim has its instance."""
        document = self._documents.setdefault(("NodeClaim", name), _new_claim(name, started))
        stamped = document["metadata"]["labels"]
        stamped |= _labels(started, stamped.get(labels.NODEPOOL, ""))
        document["status"]["providerID"] = started["instance"]
        document["status"]["allocatable"] = started.get("allocatable", {})
        _set(document, "Launched", "True", "Launched", started["t"])
        self._report(NodeClaim, document)

    def _node(self, record: Record) -> None:
        name = record["node"]
        if record["kind"] == "node.deleted":
            self._gone(Node, name)
            return
        if record["kind"] == "node.created":
            self._documents["Node", name] = self._new_node(record)
        document = self._documents.get(("Node", name))
        if document is None:
            return
        if record["kind"] == "node.ready":
            _set(document, "Ready", "True", "KubeletReady", record["t"])
            document["metadata"]["labels"][labels.INITIALIZED] = "true"
        self._report(Node, document)

    def _new_node(self, record: Record) -> dict[str, Any]:
        name, claim = record["node"], record["claim"]
        started = self._instances.get(claim)
        waiting = self._unclaimed[record.get("instanceType", ""), record.get("zone", "")]
        if started is None and not claim and waiting:
            started = waiting.pop(0)
        provider = started["instance"] if started is not None else f"log:///{name}"
        if started is not None:
            self._price(provider, started)
        source = record if record.get("instanceType") else (started or record)
        amounts = record.get("allocatable") or (started or {}).get("allocatable", {})
        document = self._documents.get(("NodeClaim", claim))
        if document is not None:
            document["status"]["nodeName"] = name
            _set(document, "Registered", "True", "Registered", record["t"])
            self._report(NodeClaim, document)
        return {
            "metadata": {
                "name": name,
                "creationTimestamp": to_rfc3339(record["t"]),
                "labels": _labels(source, record.get("pool", "")) | {labels.REGISTERED: "true"},
            },
            "spec": {"providerID": provider},
            "status": {"allocatable": _written(amounts), "conditions": []},
        }

    def _claim(self, record: Record) -> None:
        name = record["claim"]
        if record["kind"] == "claim.deleted":
            node = self._documents.get(("NodeClaim", name), {}).get("status", {}).get("nodeName")
            self._gone(NodeClaim, name)
            if node:  # the controller's log has no line for nodes that were not its own to delete
                self._gone(Node, node)
            return
        document = self._documents.setdefault(("NodeClaim", name), _new_claim(name, record))
        if record["kind"] == "claim.condition":
            _set(document, record["type"], record["status"], record["reason"], record["t"])
            if record["type"] not in _QUIET and record["status"] != "Unknown":
                self._board.note(record["t"], "NodeClaim", name, f"{record['type']}: {record['status']}")
        self._report(NodeClaim, document)

    def _report(self, kind: type[Object], document: dict[str, Any]) -> None:
        self._board.take("MODIFIED", decode(document, kind))

    def _gone(self, kind: type[Object], key: str) -> None:
        document = self._documents.pop((kind.KIND, key), None)
        if document is not None:
            self._board.take("DELETED", decode(document, kind))


def follow(board: Board, record: Record) -> None:
    """What a log alone knows, also beside objects that are watched: proofs, prices, what became of nodes."""
    at = record["t"]
    match record["kind"]:
        case "efficiency":
            board.least = record["cost"], record["lowerBound"]
            board.revision += 1
        case "instance.started" if "price" in record:
            board.cost(record["instance"], record["price"])
        case "disruption":
            for node in record["nodes"]:
                board.note(at, "Node", node, f"chosen to go: {record['reason'].lower()}")
        case "disruption.failed":
            for claim in record["claims"]:
                board.note(at, "NodeClaim", claim, f"kept after all: {record['message']}")
        case "disrupted":
            reason = record["reason"].replace("_", " ")
            board.note(at, "NodeClaim", record["claim"], f"ends ({record['mode']}): {reason}")


def _new_pod(record: Record) -> dict[str, Any]:
    namespace, _, name = record["pod"].partition("/")
    asked = {name: amount for name, amount in record["requests"].items() if name != PODS}
    kind, _, owner = record.get("owner", "").partition("/")
    made_by = {"apiVersion": "", "kind": kind, "name": owner, "uid": "", "controller": True}
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "creationTimestamp": to_rfc3339(record["t"]),
            "ownerReferences": [made_by] if owner else [],
        },
        "spec": {"containers": [{"resources": {"requests": _written(asked)}}]},
        "status": {"phase": "Pending"},
    }


def _new_claim(name: str, record: Record) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": to_rfc3339(record["t"]),
            "labels": {labels.NODEPOOL: record.get("pool", "")},
        },
        "spec": {"nodeClassRef": _CLASS},
        "status": {"conditions": []},
    }


def _labels(record: Record, pool: str) -> dict[str, str]:
    found = {
        labels.INSTANCE_TYPE: record.get("instanceType", ""),
        labels.ZONE: record.get("zone", ""),
        labels.CAPACITY_TYPE: record.get("capacityType", ""),
        labels.NODEPOOL: pool,
    }
    return {key: value for key, value in found.items() if value}


def _set(document: dict[str, Any], kind: str, status: str, reason: str, at: int) -> None:
    conditions = document["status"]["conditions"]
    conditions[:] = [item for item in conditions if item["type"] != kind]
    since = to_rfc3339(at)
    conditions.append({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since})


def _written(amounts: Mapping[str, Any]) -> dict[str, str]:
    """As an object has them: a simulation's log has integers, the controller's has text."""
    if any(isinstance(amount, str) for amount in amounts.values()):
        return {name: str(amount) for name, amount in amounts.items()}
    written: ResourceList = quantities(amounts)
    return {name: str(amount) for name, amount in written.items()}
