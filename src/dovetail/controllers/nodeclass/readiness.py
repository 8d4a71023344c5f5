"""EC2NodeClass readiness: what its selectors resolve to, as status and conditions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object, condition
from dovetail.base.clock import MINUTE
from dovetail.base.errors import NotFound
from dovetail.cloud.provider import NodeClassResolution
from dovetail.controllers.conditions import Conditions, Stamp, document, set_condition, set_ready
from dovetail.controllers.context import Context
from dovetail.controllers.reconciler import Reconciler

FINALIZER = "karpenter.k8s.aws/termination"
PERIOD = MINUTE
WAITING_TTL = 10 * MINUTE
DEPENDENCIES = ("AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady")
DEPENDENTS = (*DEPENDENCIES, "ValidationSucceeded", "PlacementGroupReady")
AWAITING = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution"


class NodeClassReadiness:
    """Resolves each class on every change and once a minute; holds its finalizer while claims use it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.queue = Reconciler("nodeclass", context.clock, self.reconcile)
        context.state.subscribe(self.notice)

    def notice(self, kind: type[Object], _: str, old: Object | None, new: Object | None) -> None:
        """Follow changes of classes, and claims that go away."""
        if kind is EC2NodeClass and new is not None:
            # A deletion counts the generation up as well.
            if old is None or old.metadata.generation != new.metadata.generation:
                self.queue.add(new.key)
        elif isinstance(old, NodeClaim) and new is None:
            self.queue.add(old.spec.node_class_ref.name)

    async def reconcile(self, key: str) -> int | None:
        """Bring status and finalizer up to date."""
        node_class = self._context.state.get(EC2NodeClass, key)
        if node_class is None:
            return None
        if node_class.deleting:
            return await self._terminate(node_class)
        client = self._context.client
        if FINALIZER not in node_class.metadata.finalizers:
            await client.patch(
                EC2NodeClass,
                key,
                merge={"metadata": {"finalizers": [*node_class.metadata.finalizers, FINALIZER]}},
            )
        resolution = await self._context.provider.resolve(node_class)
        stamp = Stamp(self._context.clock.now(), node_class.metadata.generation)
        conditions = judge(node_class, resolution, stamp)
        status = {**_status(resolution), "conditions": document(conditions)}
        await client.patch(EC2NodeClass, key, merge={"status": status}, status=True)
        return PERIOD

    async def _terminate(self, node_class: EC2NodeClass) -> int | None:
        name = node_class.metadata.name
        users = [
            claim.metadata.name
            for claim in self._context.state.all(NodeClaim)
            if claim.spec.node_class_ref.name == name
        ]
        if users:
            await self._context.recorder.publish(
                node_class,
                "Normal",
                "WaitingOnNodeClaimTermination",
                f"Waiting on NodeClaim termination for {', '.join(users)}",
                ttl=WAITING_TTL,
            )
            return WAITING_TTL
        kept = [item for item in node_class.metadata.finalizers if item != FINALIZER]
        with suppress(NotFound):
            await self._context.client.patch(EC2NodeClass, name, merge={"metadata": {"finalizers": kept}})
            await self._context.recorder.publish(node_class, "Normal", "Finalized", f"Finalized {FINALIZER}")
        return None


def judge(node_class: EC2NodeClass, resolution: NodeClassResolution, stamp: Stamp) -> Conditions:
    """The conditions of a class whose selectors resolve to this. Pure."""
    conditions = node_class.status.conditions
    faults = dict(_faults(node_class, resolution))
    for kind in (*DEPENDENCIES, "PlacementGroupReady"):
        reason, message = faults.get(kind, ("", ""))
        status = "False" if reason else "True"
        conditions = set_condition(conditions, kind, status, stamp, reason=reason, message=message)
    waiting = any(
        found is not None and found.status != "True"
        for found in (condition(conditions, kind) for kind in DEPENDENCIES)
    )
    reason, message = ("DependenciesNotReady", AWAITING) if waiting else ("", "")
    if resolution.faults:
        # Known without anything that the selectors stand for, so it is said even while that is missing.
        reason = resolution.faults[0][0]
        message = "; ".join(text for _, text in resolution.faults)
    conditions = set_condition(
        conditions,
        "ValidationSucceeded",
        "False" if reason else "True",
        stamp,
        reason=reason,
        message=message,
    )
    return set_ready(conditions, DEPENDENTS, stamp)


def _faults(
    node_class: EC2NodeClass, resolution: NodeClassResolution
) -> Iterator[tuple[str, tuple[str, str]]]:
    spec = node_class.spec
    if not resolution.subnets:
        hint = near_miss(spec.subnet_selector_terms, resolution.subnet_tag_keys)
        yield "SubnetsReady", ("SubnetsNotFound", f"SubnetSelector did not match any Subnets{hint}")
    if not resolution.security_groups:
        hint = near_miss(spec.security_group_selector_terms, resolution.security_group_tag_keys)
        message = f"SecurityGroupSelector did not match any SecurityGroups{hint}"
        yield "SecurityGroupsReady", ("SecurityGroupsNotFound", message)
    if resolution.unsupported_alias:
        yield "AMIsReady", ("UnsupportedAlias", resolution.unsupported_alias)
    elif not resolution.images:
        yield "AMIsReady", ("AMINotFound", "AMISelector did not match any AMIs")


def near_miss(terms: Iterable[SelectorTerm], existing: tuple[str, ...]) -> str:
    """ " (found key X)" for an existing tag key that looks like a selected one that does not exist, or ""."""
    wanted = sorted({key for term in terms for key in term.tags if key not in existing})
    for key in wanted:
        close = difflib.get_close_matches(key, existing, n=1, cutoff=0.8)
        if close:
            return f" (found key {close[0]!r}, but the selector asks for {key!r})"
    return ""


def _status(resolution: NodeClassResolution) -> dict[str, object]:
    return {
        "subnets": [
            {"id": item.id, "zone": item.zone, "zoneID": item.zone_id} for item in resolution.subnets
        ],
        "securityGroups": [{"id": item.id, "name": item.name} for item in resolution.security_groups],
        "amis": [{"id": item.id, "name": item.name, "requirements": []} for item in resolution.images],
    }
