"""What happens to the cluster by itself: shortages, storms, kubelets that die, clocks that jump."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Meta
from dovetail.api.scheme import NODE_CLASSES
from dovetail.base.clock import SECOND
from dovetail.base.errors import CloudError
from dovetail.base.streams import stream
from dovetail.cloud import catalog
from dovetail.cloud.inmemory import Limit
from dovetail.cloud.interruption import InterruptionKind
from dovetail.model import labels
from dovetail.runtime.operator import Ports
from dovetail.simulate.environment.port import Cloud
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Skew
from dovetail.simulate.faults.plan import Fault, Faults, occurrences
from dovetail.simulate.kubelet.kubelets import Kubelets

_FARTHEST_JUMP = 90  # seconds, either way


def shortages(faults: Faults, region: str, seed: int) -> tuple[tuple[str, Limit], ...]:
    """(zone, limit) of every zone shortage: each concerns one zone, drawn from those that its fault names."""
    found = []
    for instant, fault in occurrences(faults, kinds.ZONE_SHORTAGE, seed):
        zones = fault.zones or tuple(catalog.zones(region))
        zone = stream(seed, str(instant), "zone of a shortage").choice(zones)
        found.append((zone, Limit(since=instant, until=instant + fault.lasts, zones=(zone,))))
    return tuple(found)


class Actors:
    """Lets timed faults happen, each at the instants that its seed drew."""

    def __init__(self, dice: Dice, ports: Ports, cloud: Cloud, kubelets: Kubelets, skew: Skew) -> None:
        """`ports` are the good ones."""
        self._dice = dice
        self._clock = ports.clock
        self._client = ports.client
        self._cloud = cloud
        self._kubelets = kubelets
        self._skew = skew

    def parts(self, region: str) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What must run besides the cluster."""
        yield "zone shortages", self._announce_shortages(region)
        acts = (
            (kinds.SPOT_STORM, self._spot_storm),
            (kinds.KUBELET_DEATH, self._kubelet_death),
            (kinds.NODE_CONDITION, self._node_condition),
            (kinds.STRAY_INSTANCE, self._stray_instance),
            (kinds.CLOCK_JUMP, self._clock_jump),
        )
        for kind, act in acts:
            yield kind, self._at_times(kind, act)

    async def _at_times(self, kind: str, act: Callable[[Fault], Coroutine[Any, Any, None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for instant, fault in occurrences(self._dice.faults, kind, self._dice.seed):
                await self._clock.sleep(instant - self._clock.now())
                tasks.create_task(act(fault), name=f"fault {kind}")

    async def _announce_shortages(self, region: str) -> None:
        for zone, limit in shortages(self._dice.faults, region, self._dice.seed):
            await self._clock.sleep(limit.since - self._clock.now())
            self._dice.happened(kinds.ZONE_SHORTAGE, zone)

    async def _spot_storm(self, fault: Fault) -> None:
        """Some spot instances are taken back: half of them two minutes after a warning, half without any."""
        draws = self._dice.stream(kinds.SPOT_STORM, "which")
        for instance in await self._cloud.list():
            spot = instance.capacity_type == labels.SPOT and not instance.terminating
            if spot and draws.random() < fault.share:
                self._dice.happened(kinds.SPOT_STORM, instance.provider_id)
                if draws.random() < 0.5:
                    self._cloud.interrupt(instance.provider_id, InterruptionKind.SPOT)
                else:
                    await self._cloud.delete(instance.provider_id)

    async def _kubelet_death(self, fault: Fault) -> None:
        """The kubelet of one node falls silent; with a length of time, it comes back after that."""
        running = self._kubelets.running()
        if not running:
            return
        node = self._dice.stream(kinds.KUBELET_DEATH, "which").choice(running)
        self._dice.happened(kinds.KUBELET_DEATH, node)
        await self._kubelets.silence(node, fault.lasts)

    async def _node_condition(self, fault: Fault) -> None:
        """A monitor says for a while that something of some nodes is not well, whatever runs on them."""
        running = self._kubelets.running()
        draws = self._dice.stream(kinds.NODE_CONDITION, "which")
        chosen = sorted(draws.sample(running, min(fault.count, len(running))))
        for node in chosen:
            self._dice.happened(kinds.NODE_CONDITION, node)
            await self._kubelets.report(node, fault.condition, "False", fault.reason)
        await self._clock.sleep(fault.lasts)
        for node in chosen:
            await self._kubelets.report(node, fault.condition, "True", "")

    async def _stray_instance(self, _: Fault) -> None:
        """An instance like that of some claim starts for one that is not there, as after a restore."""
        claims = (await self._client.list(NodeClaim)).items
        if not claims:
            return
        drawn = self._dice.stream(kinds.STRAY_INSTANCE, "which").choice(claims)
        for like in (drawn, *(claim for claim in claims if claim is not drawn)):
            if await self._started_like(like):
                return

    async def _started_like(self, like: NodeClaim) -> bool:
        """False where the cloud has nothing for such a claim, or has given it its instance before."""
        name = f"{like.metadata.name}-lost"
        if any(item.claim == name for item in await self._cloud.list()):
            return False
        reference = like.spec.node_class_ref
        node_class = await self._client.get(NODE_CLASSES[reference.group, reference.kind], reference.name)
        lost = NodeClaim(metadata=Meta(name=name, uid=name, labels=like.metadata.labels), spec=like.spec)
        try:
            made = await self._cloud.provider.create(lost, node_class)
        except CloudError:
            return False
        self._dice.happened(kinds.STRAY_INSTANCE, made.provider_id)
        return True

    async def _clock_jump(self, fault: Fault) -> None:
        """The clock of the controllers' machine is wrong until it is set right."""
        draws = self._dice.stream(kinds.CLOCK_JUMP, "how far")
        offset = draws.choice((-1, 1)) * draws.randint(1, _FARTHEST_JUMP) * SECOND
        self._dice.happened(kinds.CLOCK_JUMP, f"{offset // SECOND} s")
        self._skew.offset = offset
        await self._clock.sleep(fault.lasts)
        self._skew.offset = 0
