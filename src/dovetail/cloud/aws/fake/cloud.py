"""The AWS in memory as a whole, and what happens to its instances without being asked for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from dovetail.base.clock import MINUTE, Clock
from dovetail.cloud import eventbridge
from dovetail.cloud.aws.api import StatusCheck
from dovetail.cloud.aws.fake.account import Account
from dovetail.cloud.aws.fake.ec2 import MemoryEc2
from dovetail.cloud.aws.fake.gate import Gate, GateOptions
from dovetail.cloud.aws.fake.machines import LifeOptions, Machine, Machines
from dovetail.cloud.aws.fake.market import Market, MarketOptions
from dovetail.cloud.aws.fake.services import (
    MemoryEks,
    MemoryIam,
    MemoryPricing,
    MemoryQuotas,
    MemorySqs,
    MemorySsm,
    MemorySts,
    MemoryZonalShift,
)
from dovetail.cloud.interruption import ENDS_AFTER, InterruptionKind

_WATCHED = MINUTE  # how often pools that became too shallow are looked for


@dataclass(frozen=True, slots=True)
class Options:
    """How the account behaves."""

    gate: GateOptions = field(default_factory=GateOptions)
    market: MarketOptions = field(default_factory=MarketOptions)
    life: LifeOptions = field(default_factory=LifeOptions)


class MemoryAws:
    """Implements `api.Aws`. Every draw is keyed by what it is for, never by what came before."""

    def __init__(self, clock: Clock, seed: int, account: Account, options: Options | None = None) -> None:
        options = options or Options()
        self._clock = clock
        self.region = account.region
        self.gate = Gate(clock, seed, options.gate)
        self.market = Market(account.region, seed, options.market)
        self.machines = Machines(clock, seed, self.market, options.life)
        self.ec2 = MemoryEc2(self.gate, clock, seed, account, self.market, self.machines)
        self.ssm = MemorySsm(self.gate, account)
        self.iam = MemoryIam(self.gate, clock, account)
        self.eks = MemoryEks(self.gate, account)
        self.sqs = MemorySqs(self.gate, clock, account)
        self.quotas = MemoryQuotas(self.gate, options.market.quotas)
        self.zonal_shift = MemoryZonalShift(self.gate)
        self.pricing = MemoryPricing(self.gate, account)
        self.sts = MemorySts(self.gate, account)

    def send(self, body: str) -> None:
        """A message for every queue: EventBridge's rules lead to all of them."""
        for queue in self.sqs.queues.values():
            queue.send(body)

    async def interrupt(self, identifier: str, kind: InterruptionKind) -> None:
        """It happens to the instance now: a message comes, and what it says follows; returns after that."""
        machine = self.machines.there(identifier)
        if machine is None:
            return
        self.send(eventbridge.write(kind, identifier, self._clock.now()))
        after = ENDS_AFTER.get(kind)
        if after:
            await self._clock.sleep(after)
        if after is not None:
            self.machines.lose(machine)

    def impair(self, identifier: str, category: str) -> None:
        """From now on a status check of the instance fails, or an event is announced for it."""
        machine = self.machines.there(identifier)
        if machine is not None:
            machine.check = StatusCheck(identifier, category, self._clock.now(), machine.instance.zone)

    async def run(self) -> None:
        """Let spot pools that became too shallow take instances back, for ever."""
        warned: set[str] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._clock.sleep(_WATCHED)
                for machine in self.shallow():
                    identifier = machine.instance.id
                    if identifier not in warned:
                        warned.add(identifier)
                        ends = self.interrupt(identifier, InterruptionKind.SPOT)
                        tasks.create_task(ends, name=f"ec2: take {identifier} back")

    def shallow(self) -> tuple[Machine, ...]:
        """Instances that spot pools hold no longer, the youngest of each pool first."""
        running = [
            machine
            for machine in self.machines.visible()
            if machine.gone is None and not machine.ending and machine.instance.spot
        ]
        excess = self.market.excess({machine.pool: None for machine in running}, self._clock.now())
        found = []
        for machine in reversed(running):
            if excess.get(machine.pool, 0) > 0:
                excess[machine.pool] -= 1
                found.append(machine)
        return tuple(found)
