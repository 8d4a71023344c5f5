"""All kubelets of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from dovetail.api.core import Pod
from dovetail.base.clock import Clock
from dovetail.base.errors import NotFound
from dovetail.kube.client import Client
from dovetail.kube.informer import Informer
from dovetail.simulate.kubelet.machine import Machine
from dovetail.simulate.kubelet.node import NodeKeeper, NodeOptions
from dovetail.simulate.kubelet.pods import PodRunner


class Kubelets:
    """Boots machines into nodes and runs pods on them."""

    def __init__(self, client: Client, clock: Clock, options: NodeOptions) -> None:
        self._client = client
        self._nodes = NodeKeeper(client, clock, options)
        self._pods = PodRunner(client, clock, options.seed, options.latencies)
        self._machines: dict[str, Machine] = {}  # by provider id; machines that are on
        self._boots: dict[str, asyncio.Task[None]] = {}  # by provider id

    async def run(self) -> None:
        """Follow the pods, for ever."""
        await Informer(self._client, Pod, self._pods.pod_changed).run()

    def switch_on(self, machine: Machine) -> None:
        """The instance has started: its node comes up after the scenario's latencies."""
        self._machines[machine.provider_id] = machine
        self._boots[machine.provider_id] = self._task(self._boot(machine), f"boot {machine.node}")

    async def join(self, machine: Machine) -> None:
        """A machine that was on long before the simulation began: its node is Ready at once."""
        self._machines[machine.provider_id] = machine
        await self._nodes.register(machine, ready=True)
        self._pods.start_node(machine.node)

    def switch_off(self, provider_id: str) -> None:
        """The instance is gone."""
        machine = self._machines.pop(provider_id, None)
        if machine is None:
            return
        boot = self._boots.pop(provider_id, None)
        if boot is not None:
            boot.cancel()
        self._pods.stop_node(machine.node)
        self._pods.forget_node(machine.node)
        self._task(
            self._nodes.instance_gone(machine, self._pods.lose_node), f"instance of {machine.node} gone"
        )

    def running(self) -> tuple[str, ...]:
        """Names of the nodes whose machines are on and that have registered, in order."""
        return tuple(sorted(item.node for item in self._machines.values() if self._pods.runs_on(item.node)))

    async def silence(self, node: str, lasts: int) -> None:
        """The kubelet of the node stops reporting for that long (ns); what runs on the node goes on."""
        machine = next(item for item in self._machines.values() if item.node == node)
        self._pods.stop_node(node)
        try:
            await self._nodes.silent(machine, lasts, self._pods.lose_node)
        except NotFound:
            return  # the Node object went meanwhile
        if machine.provider_id in self._machines:
            self._pods.start_node(node)
            await self._nodes.heard_again(machine)

    def reboot(self, provider_id: str) -> None:
        """The instance reboots: what ran on it is started anew then, after the scenario's latencies."""
        machine, boot = self._machines.get(provider_id), self._boots.get(provider_id)
        if machine is None or (boot is not None and not boot.done()):
            return  # it boots as it is
        self._pods.stop_node(machine.node)
        self._boots[provider_id] = self._task(self._reboot(machine), f"reboot {machine.node}")

    async def _reboot(self, machine: Machine) -> None:
        with suppress(NotFound):  # the Node was deleted meanwhile
            await self._nodes.reboot(machine, self._pods.lose_node, self._pods.restart_node)

    async def report(self, node: str, kind: str, status: str, reason: str) -> None:
        """An agent on the node says how something of it is; nothing where the Node object went."""
        with suppress(NotFound):
            await self._nodes.report(node, kind, status, reason)

    async def _boot(self, machine: Machine) -> None:
        try:
            await self._nodes.boot(machine, self._pods.start_node)
        except NotFound:
            return  # the Node was deleted while it came up

    def _task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, name=name)
