"""One pass of a method of disruption over a recorded cluster: the real loop on an API server in memory.

`play` answers what a recorded case answers: which nodes were admitted, what budgets left, which commands were
begun, what events say, and what a reboot wrote on claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dovetail.api.core import Event
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeclass import KWOKNodeClass
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import condition
from dovetail.api.workloads import PodDisruptionBudget
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cloud.inert import Inert
from dovetail.cluster.state import State
from dovetail.controllers.brakes.brakes import BrakeOptions, Brakes
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.disrupt import Disruption
from dovetail.controllers.disruption.execute import Execution
from dovetail.controllers.disruption.methods import Method, drift
from dovetail.controllers.disruption.metrics import ALLOWED
from dovetail.controllers.disruption.moves import MoveBook
from dovetail.controllers.disruption.repair import NodeRepair
from dovetail.controllers.disruption.views import node_views
from dovetail.controllers.disruption.whatif import WhatIf
from dovetail.controllers.panics import Panics
from dovetail.controllers.provisioning.intake import Intake
from dovetail.controllers.static import static_drift
from dovetail.disrupt.candidates import NodeView, blocker, repair_blocker
from dovetail.disrupt.command import DRIFTED, UNHEALTHY, Command
from dovetail.disrupt.drift import drifted_since
from dovetail.disrupt.pods import budgets_among
from dovetail.disrupt.repair import Matcher, rebooted
from dovetail.disrupt.static import is_static
from dovetail.kube.memory import MemoryServer, rules
from dovetail.kube.recorder import Recorder
from dovetail.model import labels
from dovetail.model.problem import Options
from dovetail.model.repair import RepairPolicies, RepairPolicy
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.runtime.watches import Watches
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.life import Quiet
from dovetail.units.duration import parse_duration
from dovetail.units.timestamp import parse_rfc3339

Case = dict[str, Any]
GROUP = KWOKNodeClass.API_VERSION.partition("/")[0]
REF = {"group": GROUP, "kind": KWOKNodeClass.KIND, "name": "default"}
CREATED = "2026-11-23T02:00:00Z"
REASONS = {"repair": UNHEALTHY, "drift": DRIFTED, "staticdrift": DRIFTED}
_DEADLINE = 10**9


def policies(items: list[Case]) -> tuple[RepairPolicy, ...]:
    """Policies as recorded cases write them."""
    return tuple(
        RepairPolicy(
            item["condition"],
            item["status"],
            parse_duration(item["toleration"]),
            item.get("reasonRegex", ""),
            parse_duration(item["terminationGracePeriod"]) if "terminationGracePeriod" in item else None,
            item.get("priority", 0),
            item["action"],
        )
        for item in items
    )


class Cloud(Inert):
    """Sells the recorded instance types, and is never asked for one."""

    node_class_kinds = ((GROUP, KWOKNodeClass.KIND),)

    def __init__(self, given: Case) -> None:
        self.repair_policies = RepairPolicies(current=policies(given.get("policies", [])))
        found = {item["name"]: item["instanceTypes"] for item in given["nodePools"]}
        self._types = {
            name: parse_instance_types([_type(one) for one in sold]) for name, sold in found.items()
        }

    def instance_types(self, node_class: KWOKNodeClass) -> Any:
        """Classes are named after the pools."""
        return self._types[node_class.metadata.name]

    def volume_price(self, _: object) -> int:
        return 0


def _type(item: Case) -> Case:
    offerings = []
    for one in item["offerings"]:
        found = {labels.ZONE: one["zone"], labels.CAPACITY_TYPE: one["capacityType"]}
        if "reservationID" in one:
            found[labels.RESERVATION_ID] = one["reservationID"]
        room = one.get("reservationCapacity", 0)
        offerings.append(
            {
                "price": one["price"],
                "available": one["available"],
                "reservationCapacity": room,
                "requirements": found,
            }
        )
    values: dict[str, list[str]] = {labels.INSTANCE_TYPE: [item["name"]]}
    for one in offerings:
        for key, value in one["requirements"].items():
            values.setdefault(key, []).append(value)
    requirements = [
        {"key": key, "operator": "In", "values": list(dict.fromkeys(given))} for key, given in values.items()
    ]
    capacity = {"cpu": item["cpu"], "memory": item["memory"], "pods": "110"}
    return {
        "name": item["name"],
        "requirements": requirements,
        "offerings": offerings,
        "capacity": capacity,
    }


def documents(given: Case) -> Iterator[Case]:
    """All objects of the case; classes first."""
    for item in given["nodePools"]:
        yield {
            "apiVersion": KWOKNodeClass.API_VERSION,
            "kind": KWOKNodeClass.KIND,
            "metadata": {"name": item["name"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        yield _pool(item)
    for item in given["nodes"]:
        yield _node(item)
        if item["pool"] or item.get("standalone"):
            yield _claim(item)
    for item in given.get("pods") or ():
        yield _pod(item)
    for item in given.get("pdbs") or ():
        yield {
            "apiVersion": PodDisruptionBudget.API_VERSION,
            "kind": PodDisruptionBudget.KIND,
            "metadata": {"name": item["name"], "namespace": "default"},
            "spec": {"selector": {"matchLabels": item["matchLabels"]}, "maxUnavailable": 0},
            "status": {"disruptionsAllowed": item.get("disruptionsAllowed", 0)},
        }


def _pool(item: Case) -> Case:
    template: Case = {"nodeClassRef": {**REF, "name": item["name"]}}
    template["requirements"] = item.get("requirements", [])
    spec: Case = {"template": {"spec": template}}
    spec["disruption"] = {"budgets": item.get("budgets", [{"nodes": "100%"}]), "consolidateAfter": "0s"}
    for name in ("replicas", "weight"):
        if name in item:
            spec[name] = item[name]
    if "nodeLimit" in item:
        spec["limits"] = {"nodes": str(item["nodeLimit"])}
    meta: Case = {"name": item["name"], "annotations": item.get("annotations", {})}
    if item.get("deleting"):
        meta["finalizers"] = [labels.TERMINATION_FINALIZER]
    ready = {"type": "Ready", "status": "False" if item.get("notReady") else "True"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": meta,
        "spec": spec,
        "status": {"conditions": [ready]},
    }


def _marks(item: Case) -> dict[str, str]:
    found = {
        labels.INSTANCE_TYPE: item["instanceType"],
        labels.ZONE: item["zone"],
        labels.CAPACITY_TYPE: item["capacityType"],
    }
    if item["pool"]:
        found[labels.NODEPOOL] = item["pool"]
    if "reservationID" in item:
        found[labels.RESERVATION_ID] = item["reservationID"]
    if not item.get("unregistered"):
        found[labels.REGISTERED] = "true"
        if not item.get("uninitialized"):
            found[labels.INITIALIZED] = "true"
    return found


def conditions(item: Case) -> list[Case]:
    """The node's, Ready unless said otherwise."""
    found = {"Ready": {"type": "Ready", "status": "True", "lastTransitionTime": CREATED}}
    for one in item.get("conditions", ()):
        written = {key: value for key, value in one.items() if key != "since"}
        found[one["type"]] = {**written, **({"lastTransitionTime": one["since"]} if "since" in one else {})}
    return list(found.values())


def _node(item: Case) -> Case:
    room = {"cpu": item.get("cpu", "4"), "memory": item.get("memory", "16Gi"), "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": item["name"],
            "annotations": item.get("annotations", {}),
            "labels": {**_marks(item), labels.HOSTNAME: item["name"]},
        },
        "spec": {"providerID": f"test://{item['name']}"},
        "status": {"conditions": conditions(item), "capacity": room, "allocatable": room},
    }


def _claim(item: Case) -> Case:
    names = ["Launched"]
    names += [] if item.get("unregistered") else ["Registered"]
    names += [] if item.get("unregistered") or item.get("uninitialized") else ["Initialized"]
    found = [{"type": name, "status": "True", "lastTransitionTime": CREATED} for name in names]
    if item.get("drifted"):
        found.append({"type": DRIFTED, "status": "True", "lastTransitionTime": "2026-11-23T10:00:00Z"})
    if "rebooting" in item:
        over = item["rebooting"] == "False"
        reason = {"reason": "RebootSucceeded" if over else "RebootRequested", "message": "x"}
        when = item.get("rebootEndedAt", CREATED)
        found.append({"type": "Rebooting", "status": item["rebooting"], **reason, "lastTransitionTime": when})
    annotations = {}
    if "committedReboots" in item:
        annotations[labels.REBOOTS] = ",".join(item["committedReboots"])
    spec: Case = {"nodeClassRef": {**REF, "name": item["pool"] or "default"}, "requirements": []}
    if "nodeClaimTerminationGracePeriod" in item:
        spec["terminationGracePeriod"] = item["nodeClaimTerminationGracePeriod"]
    meta: Case = {"name": f"{item['name']}-nc", "labels": _marks(item), "annotations": annotations}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {**meta, "finalizers": [labels.TERMINATION_FINALIZER]},
        "spec": spec,
        "status": {
            "providerID": f"test://{item['name']}",
            "nodeName": item["name"],
            "conditions": found,
        },
    }


def _pod(item: Case) -> Case:
    kind, _, name = item["owner"].partition("/")
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": item["name"],
            "namespace": "default",
            "labels": item.get("labels", {}),
            "annotations": item.get("annotations", {}),
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": item["node"],
            "containers": [
                {"name": "main", "image": "main", "resources": {"requests": {"cpu": item["cpu"]}}}
            ],
        },
        "status": {"phase": "Running"},
    }


@dataclass(slots=True)
class Answer:
    """What a pass came to, in the words of recorded cases."""

    candidates: list[str]
    budget: dict[str, int] = field(default_factory=dict)
    commands: list[Case] = field(default_factory=list)
    events: list[tuple[str, str, str, str]] = field(default_factory=list)  # object, type, reason, message
    claims: dict[str, Case] = field(default_factory=dict)


class _Noted(Execution):
    """Execution that keeps what it began."""

    def __init__(self, context: Context, moves: MoveBook) -> None:
        super().__init__(context, moves)
        self.begun: list[Command] = []

    async def start(self, command: Command) -> None:
        self.begun.append(command)
        await super().start(command)


class Played:
    """A cluster as recorded; `turn` lets the method have its way once."""

    def __init__(self, given: Case, clock: VirtualClock) -> None:
        self.given = given
        self.clock = clock
        self.server = MemoryServer(clock)
        client = self.server.client()
        cloud, log, self.metrics = Cloud(given), Quiet(), MemoryMetrics()
        self.state = State(client, clock, node_class_kinds=cloud.node_class_kinds)
        self.watches = Watches(
            client, self.state.kinds, self.state.apply, clock=clock, log=log, metrics=self.metrics
        )
        recorder = Recorder(client, clock)
        self.context = Context(
            client,
            cloud,
            clock,
            log,
            self.state,
            recorder,
            self.metrics,
            Brakes(BrakeOptions(), clock, self.state),
            Panics(log, self.metrics, recorder, strict=True),
        )
        moves = MoveBook(self.context, 1)
        self.execution = _Noted(self.context, moves)
        planner = InlinePlanner(clock)
        what_if = WhatIf(self.context, planner, Intake(self.context, Options()), _DEADLINE)
        self.loop = Disruption(self.context, self.execution, (self._method(what_if),))

    def _method(self, what_if: WhatIf) -> Method:
        gates, which = self.given.get("gates", {}), self.given["method"]
        if which == "repair":
            first = gates.get("TerminateFirstRepair", False)
            return NodeRepair(self.context, what_if, terminates_first=first)
        first = gates.get("TerminateFirstDrift", False)
        if which == "staticdrift":
            return static_drift(self.context, terminates_first=first)
        return drift(self.context, what_if, None, terminates_first=first)

    async def begin(self) -> None:
        """Put everything in place."""
        for document in documents(self.given):
            made = self.server.create(document, created=parse_rfc3339(CREATED))
            if "status" in document and rules.has_status(made.kind):
                meta = document["metadata"]
                where = made.kind, meta["name"], meta.get("namespace", "")
                self.server.patch(*where, merge_patch={"status": document["status"]}, status=True)
        await self.settled()
        for item in self.given["nodePools"]:
            if item.get("deleting"):
                await self.context.client.delete(NodePool, item["name"])
        await self.settled()
        for item in self.given["nodes"]:
            if item.get("markedForDeletion"):
                self.state.mark((f"{item['name']}-nc", item["name"]))
            if item.get("nominated"):
                self.state.nominate(item["name"])

    async def settled(self) -> None:
        """Let the watches catch up; no time passes."""
        await self.watches.wait_synced()
        for _ in range(200):
            await asyncio.sleep(0)

    async def turn(self) -> bool:
        """One turn; True iff something was begun."""
        acted = await self.loop.turn()
        await self.settled()
        return acted

    def answer(self, candidates: list[str], budget: dict[str, int]) -> Answer:
        """What came of it so far."""
        found = Answer(candidates, budget)
        found.commands = [_shown(command) for command in self.execution.begun]
        for event in (record.view for record in self.server.list(Event)):
            about = f"{event.involved_object.kind}/{event.involved_object.name}"
            found.events.append((about, event.type, event.reason, event.message))
        found.claims = {claim.metadata.name: _written(claim) for claim in self.state.all(NodeClaim)}
        return found

    def candidates(self) -> list[str]:
        """Names of the nodes that the method may take, breakers and budgets aside."""
        return sorted(view.name for view in node_views(self.context, ()) if self._admitted(view))

    def _admitted(self, view: NodeView) -> bool:
        now, which = self.clock.now(), self.given["method"]
        budgets = budgets_among(self.state.all(PodDisruptionBudget))
        if which != "repair":
            due = drifted_since(view) is not None and is_static(view.pool) == (which == "staticdrift")
            return due and not blocker(view, budgets, now, must_go=True)
        if view.node is None:
            return False
        matcher = Matcher(self.context.provider.repair_policies.current)
        found = matcher.diagnose(view.node, now, rebooted=rebooted(view.claim))
        if found is None:
            return False
        bounded = found.repair.grace is not None or view.claim.spec.termination_grace_period is not None
        return not repair_blocker(view, budgets, now, bounded=bounded)

    def budget(self) -> dict[str, int]:
        """Per pool, what the gauge says that the method may still take."""
        reason = REASONS[self.given["method"]].lower()
        pools = [item["name"] for item in self.given["nodePools"]]
        return {name: int(self.metrics.value(ALLOWED, nodepool=name, reason=reason)) for name in pools}


def _shown(command: Command) -> Case:
    found: Case = {"candidates": [view.name for view in command.candidates], "decision": command.decision}
    if command.terminate_first:
        found["terminateFirstReason"] = command.terminate_first
    grace = command.repair.grace if command.repair is not None else None
    if grace is not None:
        own = [view.claim.spec.termination_grace_period for view in command.candidates]
        found["drainBound"] = min([grace, *(parse_duration(text) for text in own if text is not None)])
    found["replacements"] = [
        {
            "nodePool": one.pool,
            "instanceTypes": list(one.instance_types) or None,
            "capacityType": list(one.requirements.get(labels.CAPACITY_TYPE).values),
            "reservation": list(one.requirements.get(labels.RESERVATION_ID).values),
        }
        for one in command.replacements
    ]
    return found


def _written(claim: NodeClaim) -> Case:
    found = {}
    for name in ("Rebooting", "DisruptionReason"):
        one = condition(claim.status.conditions, name)
        if one is not None and one.status == "True":
            found[name] = one.reason + (f": {one.message}" if one.message else "")
    if labels.REBOOT_GRACE in claim.metadata.annotations:
        found[labels.REBOOT_GRACE] = claim.metadata.annotations[labels.REBOOT_GRACE]
    return found


def play(given: Case) -> Answer:
    """One pass over the case: static pools take as many turns as they want, the others one."""

    async def main(clock: VirtualClock) -> Answer:
        world = Played(given, clock)
        watching = asyncio.get_running_loop().create_task(world.watches.run())
        await world.begin()
        admitted = world.candidates()
        acted = await world.turn()
        budget = world.budget()
        while acted and given["method"] == "staticdrift":
            acted = await world.turn()
        watching.cancel()
        return world.answer(admitted, budget)

    return run_virtual(main, start=parse_rfc3339(given["now"]))
