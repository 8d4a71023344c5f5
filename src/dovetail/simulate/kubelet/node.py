"""The Node object of a machine, from its registration to its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dovetail.api.codec import encode
from dovetail.api.core import Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint
from dovetail.api.meta import Condition, Meta
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import Conflict, NotFound
from dovetail.kube.client import Client
from dovetail.model.resources import Resources, quantities
from dovetail.simulate.kubelet.machine import NOT_READY, UNREACHABLE, Machine
from dovetail.simulate.scenario.latency import Distribution
from dovetail.units.timestamp import to_rfc3339

Lost = Callable[[str], Awaitable[None]]  # of a node's name: nothing is heard of it any more
# Without a heartbeat for this long a node's Ready condition becomes Unknown.
_MONITOR_GRACE = 40 * SECOND
# How long after that the cloud's node controller finds the instance gone and deletes the Node.
_CLOUD_CHECK = 5 * SECOND


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node's life takes; `startup_taints` maps a taint's key to how long after Ready it is removed."""

    seed: int
    latencies: Mapping[str, Distribution]
    startup_taints: Mapping[str, int] = field(default_factory=dict)


class NodeKeeper:
    """Registers machines as nodes and keeps the status that a kubelet and the node controllers write."""

    def __init__(self, client: Client, clock: Clock, options: NodeOptions) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._reported: dict[str, dict[str, Condition]] = {}  # by node and type, what agents say beside Ready
        self._reboots: Counter[str] = Counter()  # by node

    async def boot(self, machine: Machine, registered: Callable[[str], None]) -> None:
        """From "instance started" to a Ready node; calls `registered` once its kubelet takes pods."""
        await self._wait("boot", machine)
        await self.register(machine, ready=False)
        registered(machine.node)
        await self._wait("ready", machine)
        await self.become_ready(machine)
        await self._remove_startup_taints(machine)

    async def register(self, machine: Machine, *, ready: bool) -> None:
        """Create the Node object."""
        taints = machine.taints if ready else (*machine.taints, NOT_READY)
        node = Node(
            metadata=Meta(name=machine.node, labels=dict(machine.labels)),
            spec=NodeSpec(provider_id=machine.provider_id, taints=taints),
            status=NodeStatus(
                capacity=quantities(_present(machine.capacity)),
                allocatable=quantities(_present(machine.allocatable)),
                conditions=(self._ready_condition("True" if ready else "False"),),
                node_info=NodeSystemInfo(boot_id=self._boot_id(machine.node)),
            ),
        )
        made = await self._client.create(node)
        if not made.status.conditions:
            status = encode(node)["status"]
            await self._client.patch(Node, machine.node, merge={"status": status}, status=True)

    async def become_ready(self, machine: Machine) -> None:
        """Set Ready and take off the taint that stands for its absence."""
        await self._set_ready(machine, "True")
        await self._change_taints(machine, partial(_without, NOT_READY.key))

    async def reboot(self, machine: Machine, lost: Lost, registered: Callable[[str], None]) -> None:
        """From the reset to a Ready node that has booted anew. Agents have nothing to say of it then.

        `lost` and `registered` as above. Raises NotFound when it is gone.
        """
        count = self._reboots[machine.node] = self._reboots[machine.node] + 1
        entity = f"{machine.provider_id}/{count}"
        off = self._options.latencies["boot"].draw(self._options.seed, entity, "reboot")
        await self.silent(machine, off, lost)
        self._reported.pop(machine.node, None)
        status = {
            "nodeInfo": {"bootID": self._boot_id(machine.node)},
            "conditions": [encode(self._ready_condition("False"))],
        }
        await self._client.patch(Node, machine.node, merge={"status": status}, status=True)
        await self._change_taints(machine, partial(_without, UNREACHABLE.key))
        registered(machine.node)
        await self._clock.sleep(self._options.latencies["ready"].draw(self._options.seed, entity, "ready"))
        await self._set_ready(machine, "True")

    async def instance_gone(self, machine: Machine, lost: Lost) -> None:
        """The machine stopped: its node goes Unknown, then the cloud's node controller deletes it."""
        try:
            await self._clock.sleep(_MONITOR_GRACE)
            await self._unknown(machine, lost)
            await self._clock.sleep(_CLOUD_CHECK)
            await self._client.delete(Node, machine.node)
        except NotFound:
            return  # the usual end: the Node object went before its instance
        finally:
            self._reported.pop(machine.node, None)
            del self._reboots[machine.node]

    async def silent(self, machine: Machine, lasts: int, lost: Lost) -> None:
        """No heartbeat for that long (ns): the node goes Unknown, and `lost` is called.

        Raises NotFound when it is gone.
        """
        grace = min(_MONITOR_GRACE, lasts)
        await self._clock.sleep(grace)
        if lasts > grace:
            await self._unknown(machine, lost)
            await self._clock.sleep(lasts - grace)

    async def _unknown(self, machine: Machine, lost: Lost) -> None:
        await self._set_ready(machine, "Unknown")
        await self._change_taints(machine, _unreachable)
        await lost(machine.node)

    async def heard_again(self, machine: Machine) -> None:
        """The kubelet reports again."""
        try:
            await self._set_ready(machine, "True")
            await self._change_taints(machine, partial(_without, UNREACHABLE.key))
        except NotFound:
            return  # the Node object went meanwhile

    async def report(self, node: str, kind: str, status: str, reason: str) -> None:
        """Set one more condition of the node, as an agent on it does. Raises NotFound."""
        known = (await self._client.get(Node, node)).status.conditions
        said, since = self._reported.setdefault(node, {}), to_rfc3339(self._clock.now())
        if kind in said and said[kind].status == status:
            since = said[kind].last_transition_time  # the same is said again
        said[kind] = Condition(type=kind, status=status, reason=reason, last_transition_time=since)
        conditions = [
            encode(one) for one in (*(one for one in known if one.type not in said), *said.values())
        ]
        await self._client.patch(Node, node, merge={"status": {"conditions": conditions}}, status=True)

    async def _wait(self, purpose: str, machine: Machine) -> None:
        latency = self._options.latencies[purpose]
        await self._clock.sleep(latency.draw(self._options.seed, machine.provider_id, purpose))

    async def _remove_startup_taints(self, machine: Machine) -> None:
        known = self._options.startup_taints
        waits = sorted((known[t.key], t.key) for t in machine.taints if t.key in known)
        begun = self._clock.now()
        for after, key in waits:
            await self._clock.sleep(begun + after - self._clock.now())
            await self._change_taints(machine, partial(_without, key))

    async def _set_ready(self, machine: Machine, status: str) -> None:
        others = self._reported.get(machine.node, {}).values()
        conditions = [encode(one) for one in (self._ready_condition(status), *others)]
        merge = {"status": {"conditions": conditions}}
        await self._client.patch(Node, machine.node, merge=merge, status=True)

    def _boot_id(self, node: str) -> str:
        return f"{node}/{self._reboots[node]}"

    def _ready_condition(self, status: str) -> Condition:
        reasons = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}
        messages = {
            "True": "kubelet is posting ready status",
            "False": "container runtime network not ready",
            "Unknown": "Kubelet stopped posting node status.",
        }
        now = to_rfc3339(self._clock.now())
        return Condition(
            type="Ready",
            status=status,
            reason=reasons[status],
            message=messages[status],
            last_transition_time=now,
        )

    async def _change_taints(self, machine: Machine, change: Callable[[list[Taint]], list[Taint]]) -> None:
        """Others change taints too, so each write is bound to the version that was read."""
        while True:
            node = await self._client.get(Node, machine.node)
            taints = change(list(node.spec.taints))
            if taints == list(node.spec.taints):
                return
            merge: dict[str, Any] = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": [encode(taint) for taint in taints]},
            }
            try:
                await self._client.patch(Node, machine.node, merge=merge)
                return
            except Conflict:
                await asyncio.sleep(0)


def _without(key: str, taints: list[Taint]) -> list[Taint]:
    return [taint for taint in taints if taint.key != key]


def _unreachable(taints: list[Taint]) -> list[Taint]:
    return [*_without(UNREACHABLE.key, taints), UNREACHABLE]


def _present(amounts: Resources) -> dict[str, int]:
    """A kubelet does not list devices that the machine has not got."""
    return {name: amount for name, amount in amounts.items() if amount}
