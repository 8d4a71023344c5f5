"""Everything that goes wrong in one simulated cluster, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from dovetail.cloud.inmemory import Limit
from dovetail.cloud.provider import Instance
from dovetail.kube.memory import MemoryServer
from dovetail.runtime.operator import Operator, Ports
from dovetail.simulate.environment.aws import CloudOnAws
from dovetail.simulate.environment.port import Cloud, Connection
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.actors import Actors, shortages
from dovetail.simulate.faults.aws import AccountFaults, FaultyAws
from dovetail.simulate.faults.client import FaultyClient, Past
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch, EpochClock, EpochLog, Skew
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.faults.processes import Ended, Process, Processes
from dovetail.simulate.faults.provider import FaultyProvider, FaultyQueue
from dovetail.simulate.faults.tenant import HostileTenant
from dovetail.simulate.kubelet.kubelets import Kubelets

# The controllers of one process over these ports.
Make = Callable[[Ports], Operator]


def limits(faults: Faults, region: str, seed: int) -> tuple[Limit, ...]:
    """What the cloud is short of, and when."""
    return tuple(limit for _, limit in shortages(faults, region, seed))


class Trouble:
    """Lets the faults happen. `parts` runs beside the cluster, in place of the controllers alone."""

    def __init__(
        self, dice: Dice, cloud: Cloud, ports: Ports, server: MemoryServer, make: Make, *, ended: Ended
    ) -> None:
        """`ports` are the good ones; `make` may be called often."""
        self._ports = ports
        self._cloud = cloud
        self._account: AccountFaults | None = None
        if isinstance(cloud, CloudOnAws):
            self._account = AccountFaults(dice, ports.clock, cloud.aws)
        self._dice = dice
        self._make = make
        self._skew = Skew()
        self._past = Past(server)
        self._tenant = HostileTenant(dice, ports.clock, server)
        self._processes = Processes(self._process, dice, ports.clock, ended)

    @property
    def several(self) -> bool:
        """True iff more than one process acts: each may do what the other does as well."""
        return self._processes.several

    def parts(self, kubelets: Kubelets, region: str) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Everything that must run, by name."""
        yield "processes", self._processes.run()
        actors = Actors(self._dice, self._ports, self._cloud, kubelets, self._skew)
        yield from actors.parts(region)
        yield "hostile tenant", self._tenant.run()
        if self._account is not None:
            yield from self._account.parts()

    def _process(self, epoch: Epoch) -> Process:
        good, dice = self._ports, self._dice
        clock, log = EpochClock(good.clock, epoch, self._skew), EpochLog(good.log, epoch)
        connection = self._connection(epoch, clock, log)
        provider, queue = good.provider, good.interruptions
        if connection is not None:
            provider, queue = connection.provider, connection.queue if queue is not None else None
        operator = self._make(
            replace(
                good,
                client=FaultyClient(good.client, dice, epoch, good.clock, self._past),
                provider=FaultyProvider(provider, dice, epoch),
                interruptions=FaultyQueue(queue, dice, epoch) if queue is not None else None,
                clock=clock,
                log=log,
            )
        )
        return operator if connection is None else _Connected(operator, connection)

    def _connection(self, epoch: Epoch, clock: EpochClock, log: EpochLog) -> Connection | None:
        """To AWS, for a process that begins; None where the cloud has nothing that a process remembers."""
        if not isinstance(self._cloud, CloudOnAws) or self._account is None:
            return None
        aws = FaultyAws(self._cloud.aws, self._dice, epoch, self._account)
        return self._cloud.connect(aws, clock, log)


class _Connected:
    """Controllers with a provider of their own."""

    def __init__(self, operator: Operator, connection: Connection) -> None:
        self._operator = operator
        self._connection = connection

    async def run(self) -> None:
        """For ever."""
        await self._connection.start()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._operator.run(), name="operator")
            tasks.create_task(self._connection.run(), name="provider")


def joins(dice: Dice, instance: Instance) -> bool:
    """False iff a fault keeps the instance from ever becoming a node."""
    return dice.hit(kinds.NEVER_JOINS, "boot", instance.provider_id) is None
