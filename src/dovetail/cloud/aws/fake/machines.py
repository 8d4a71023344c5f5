"""Instances of the fake: they start, run, end, and stay in sight for a while after that."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dovetail.base.clock import HOUR, SECOND, Clock
from dovetail.base.streams import stream
from dovetail.cloud.aws.api import CapacityReservation, Instance, StatusCheck
from dovetail.cloud.aws.fake.market import Market
from dovetail.cloud.choice import Pool
from dovetail.cloud.inmemory import Delay, Uniform

REMEMBERED = HOUR  # how long a terminated instance is still described


@dataclass(frozen=True, slots=True)
class LifeOptions:
    """How long things take.

    `answer`: until CreateFleet answers; `settles`: until a launch or a tag shows in Describe calls.
    """

    start: Delay = field(default_factory=lambda: Uniform(5 * SECOND, 12 * SECOND))
    terminate: Delay = field(default_factory=lambda: Uniform(25 * SECOND, 60 * SECOND))
    settles: Delay = field(default_factory=lambda: Uniform(0, 2 * SECOND))
    answer: Delay = field(default_factory=lambda: Uniform(0, 0))


@dataclass(slots=True)
class Machine:
    """An instance and what the fake knows besides. `shown` is what Describe calls answer until `settled`."""

    instance: Instance
    pool: Pool
    addresses: int
    seen_from: int
    shown: Mapping[str, str]
    settled: int
    life: asyncio.Task[None] | None = None
    ending: bool = False
    gone: int | None = None
    check: StatusCheck | None = None


class Machines:
    """All instances of the account; `addresses` counts those in use per subnet."""

    def __init__(self, clock: Clock, seed: int, market: Market, options: LifeOptions) -> None:
        self._clock = clock
        self._seed = seed
        self._market = market
        self.options = options
        self._all: dict[str, Machine] = {}
        self.addresses: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()  # instances per capacity reservation
        self.on_started: list[Callable[[Instance], None]] = []
        self.on_ended: list[Callable[[Instance], None]] = []
        self.on_rebooted: list[Callable[[Instance], None]] = []

    def start(self, instance: Instance, pool: Pool, addresses: int) -> None:
        """It exists from now on, and shows a little later."""
        now = self._clock.now()
        settled = now + self.options.settles.draw(self._seed, instance.id, "launch shows")
        machine = Machine(instance, pool, addresses, settled, instance.tags, settled)
        self._all[instance.id] = machine
        self._market.take(pool)
        self.addresses[instance.subnet] += addresses
        self._reserved[instance.reservation] += 1
        self._run(machine, self._boot(machine))
        for observe in self.on_started:
            observe(instance)

    def left(self, reservation: CapacityReservation) -> int:
        """How many instances may still start in it."""
        return max(0, reservation.total - self._reserved[reservation.id])

    def find(self, identifier: str) -> Machine | None:
        """One that Describe calls show already, or still."""
        machine = self._all.get(identifier)
        return machine if machine is not None and self._visible(machine) else None

    def there(self, identifier: str) -> Machine | None:
        """One that runs, whether it shows or not."""
        machine = self._all.get(identifier)
        return machine if machine is not None and machine.gone is None else None

    def running(self) -> Iterator[Machine]:
        """All that are not gone, in order of launch."""
        return (machine for machine in tuple(self._all.values()) if machine.gone is None)

    def late(self, machine: Machine, nanoseconds: int) -> None:
        """It and its tags show in Describe calls so much later."""
        machine.seen_from += nanoseconds
        machine.settled += nanoseconds

    def visible(self, only: Collection[str] | None = None) -> Iterator[Machine]:
        """What Describe calls show, in order of launch; `only`: of those with these ids."""
        found = [one for name, one in self._all.items() if only is None or name in only]
        return (machine for machine in found if self._visible(machine))

    def described(self, machine: Machine) -> Instance:
        """As Describe calls have it: tags show late."""
        if self._clock.now() < machine.settled:
            return replace(machine.instance, tags=dict(machine.shown))
        return machine.instance

    def tag(self, machine: Machine, tags: Mapping[str, str]) -> None:
        """They show a little later."""
        now, old = self._clock.now(), machine.instance.tags
        machine.shown = old if now >= machine.settled else machine.shown
        entity = f"{machine.instance.id}/{len(old)}"
        machine.settled = now + self.options.settles.draw(self._seed, entity, "tag shows")
        machine.instance = replace(machine.instance, tags={**old, **tags})

    def terminate(self, machine: Machine) -> None:
        """It ends after a while; asking twice is one end."""
        if machine.ending:
            return
        machine.ending = True
        machine.instance = replace(
            machine.instance, state="shutting-down", state_reason="Client.UserInitiatedShutdown"
        )
        self._run(machine, self._end(machine))

    def reboot(self, machine: Machine) -> None:
        """It goes on with the same disks and addresses; one that ends already does not come back."""
        for observe in () if machine.ending else self.on_rebooted:
            observe(machine.instance)

    def lose(self, machine: Machine, reason: str = "Server.SpotInstanceTermination") -> None:
        """It is gone from one moment to the next."""
        if machine.gone is not None:
            return
        if machine.life is not None:
            machine.life.cancel()
        machine.instance = replace(machine.instance, state_reason=reason)
        self._gone(machine)

    def _visible(self, machine: Machine) -> bool:
        now = self._clock.now()
        if machine.gone is not None and now - machine.gone > REMEMBERED:
            del self._all[machine.instance.id]
            return False
        return now >= machine.seen_from

    def _run(self, machine: Machine, life: Coroutine[Any, Any, None]) -> None:
        if machine.life is not None:
            machine.life.cancel()
        machine.life = asyncio.get_running_loop().create_task(life, name=f"ec2: {machine.instance.id}")

    async def _boot(self, machine: Machine) -> None:
        await self._clock.sleep(self.options.start.draw(self._seed, machine.instance.id, "start"))
        machine.instance = replace(machine.instance, state="running")

    async def _end(self, machine: Machine) -> None:
        await self._clock.sleep(self.options.terminate.draw(self._seed, machine.instance.id, "end"))
        self._gone(machine)

    def _gone(self, machine: Machine) -> None:
        machine.instance = replace(machine.instance, state="terminated")
        machine.gone = self._clock.now()
        machine.check = None
        self._market.take(machine.pool, -1)
        self.addresses[machine.instance.subnet] -= machine.addresses
        self._reserved[machine.instance.reservation] -= 1
        for observe in self.on_ended:
            observe(machine.instance)


def instance_id(seed: int, entity: str) -> str:
    """The id of the instance that comes of a launch."""
    return f"i-0{stream(seed, entity, 'instance id').getrandbits(64):016x}"
