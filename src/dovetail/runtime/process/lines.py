"""What became of claims and nodes, as log lines: derived from what the watches show."""

from __future__ import annotations

from typing import Any

from dovetail.api.core import Node
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, is_true
from dovetail.cluster.state import State
from dovetail.controllers.nodeclaim.status import INITIALIZED, LAUNCHED, REGISTERED
from dovetail.kube.client import ChangeType
from dovetail.model import labels
from dovetail.runtime.process.logs import JsonLines, shortened


class Lines:
    """Subscribed to a State; what was there at the start is no news."""

    def __init__(self, state: State, log: JsonLines) -> None:
        self._state = state
        self._log = log
        state.subscribe(self.notice)

    def notice(self, kind: type[Object], change: ChangeType, old: Object | None, new: Object | None) -> None:
        """See State."""
        if not self._state.news():
            return
        if kind is NodeClaim:
            self._claim(change, old, new)
        elif kind is Node:
            self._node(change, old, new)

    def _claim(self, change: ChangeType, old: Any, new: Any) -> None:
        if change == "ADDED":
            self._report("nodeclaim.lifecycle", "created nodeclaim", new, **_asked(new))
        elif change == "DELETED":
            self._report("nodeclaim.lifecycle", "deleted nodeclaim", old)
        for kind, message in (
            (LAUNCHED, "launched nodeclaim"),
            (REGISTERED, "registered nodeclaim"),
            (INITIALIZED, "initialized nodeclaim"),
        ):
            before = old is not None and is_true(old.status.conditions, kind)
            if new is not None and not before and is_true(new.status.conditions, kind):
                self._report("nodeclaim.lifecycle", message, new, **_reached(new, kind))

    def _node(self, change: ChangeType, old: Any, new: Any) -> None:
        if labels.NODEPOOL not in (new or old).metadata.labels:
            return
        if change == "DELETED":
            self._log.write("info", "node.termination", "deleted node", Node={"name": old.metadata.name})
            return
        before = {taint.key for taint in old.spec.taints} if old is not None else set()
        for taint in new.spec.taints:
            if taint.key == labels.DISRUPTED_TAINT and taint.key not in before:
                parts = {"taint.Key": taint.key, "taint.Value": taint.value, "taint.Effect": taint.effect}
                self._log.write(
                    "info", "node.termination", "tainted node", Node={"name": new.metadata.name}, **parts
                )

    def _report(self, logger: str, message: str, claim: NodeClaim, **fields: object) -> None:
        named = {
            "NodePool": {"name": claim.metadata.labels.get(labels.NODEPOOL, "")},
            "NodeClaim": {"name": claim.metadata.name},
        }
        self._log.write("info", logger, message, **named, **fields)


def _asked(claim: NodeClaim) -> dict[str, object]:
    types = next((item.values for item in claim.spec.requirements if item.key == labels.INSTANCE_TYPE), ())
    requests = {name: str(amount) for name, amount in claim.spec.resources.requests.items()}
    return {"requests": requests, "instance-types": shortened(types)}


def _reached(claim: NodeClaim, kind: str) -> dict[str, object]:
    found = claim.metadata.labels
    allocatable = {name: str(amount) for name, amount in claim.status.allocatable.items()}
    if kind == LAUNCHED:
        return {
            "provider-id": claim.status.provider_id,
            "instance-type": found.get(labels.INSTANCE_TYPE, ""),
            "zone": found.get(labels.ZONE, ""),
            "capacity-type": found.get(labels.CAPACITY_TYPE, ""),
            "allocatable": allocatable,
        }
    node: dict[str, object] = {"Node": {"name": claim.status.node_name}}
    return node if kind == REGISTERED else {**node, "allocatable": allocatable}
