"""Everything that goes wrong in one simulated cluster, put together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from dovetail.cloud.provider import Instance
from dovetail.cloud.simulated import Limit
from dovetail.kube.memory import MemoryServer
from dovetail.runtime.operator import Operator, Ports
from dovetail.simulate.clouds import Cloud
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.actors import Actors, shortages
from dovetail.simulate.faults.client import FaultyClient
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch, EpochClock, EpochLog, Skew
from dovetail.simulate.faults.past import Past
from dovetail.simulate.faults.plan import Faults
from dovetail.simulate.faults.processes import Ended, Processes
from dovetail.simulate.faults.provider import FaultyProvider, FaultyQueue
from dovetail.simulate.kubelet.kubelets import Kubelets

# The controllers of one process over these ports.
Make = Callable[[Ports], Operator]


def limits(faults: Faults, region: str, seed: int) -> tuple[Limit, ...]:
    """What the cloud is short of, and when."""
    return tuple(limit for _, limit in shortages(faults, region, seed))


class Trouble:
    """Lets the faults happen. `parts` runs beside the cluster, in place of the controllers alone."""

    def __init__(self, dice: Dice, ports: Ports, server: MemoryServer, make: Make, ended: Ended) -> None:
        """`ports` are the good ones; `make` may be called often."""
        self._ports = ports
        self._dice = dice
        self._make = make
        self._skew = Skew()
        self._past = Past(server)
        self._processes = Processes(self._operator, dice, ports.clock, ended)

    @property
    def several(self) -> bool:
        """True iff more than one process acts: each may do what the other does as well."""
        return self._processes.several

    def parts(
        self, cloud: Cloud, kubelets: Kubelets, region: str
    ) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Everything that must run, by name."""
        yield "processes", self._processes.run()
        actors = Actors(self._dice, self._ports.clock, cloud, kubelets, self._skew)
        yield from actors.parts(region)

    def _operator(self, epoch: Epoch) -> Operator:
        good, dice, queue = self._ports, self._dice, self._ports.interruptions
        return self._make(
            replace(
                good,
                client=FaultyClient(good.client, dice, epoch, good.clock, self._past),
                provider=FaultyProvider(good.provider, dice, epoch),
                interruptions=FaultyQueue(queue, dice, epoch) if queue is not None else None,
                clock=EpochClock(good.clock, epoch, self._skew),
                log=EpochLog(good.log, epoch),
            )
        )


def joins(dice: Dice, instance: Instance) -> bool:
    """False iff a fault keeps the instance from ever becoming a node."""
    return dice.hit(kinds.NEVER_JOINS, "boot", instance.provider_id) is None
