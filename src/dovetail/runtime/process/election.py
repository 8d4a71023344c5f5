"""One leader at a time: what holds the lease acts, everything else waits.

Only one's own monotonic clock counts here: no other machine's is believed, nor the time of day, which may be
set back by an hour while the leader is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from dovetail.api.coordination import Lease, LeaseSpec
from dovetail.api.meta import Meta
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import AlreadyExists, ApiError, Conflict, DovetailError, NotFound
from dovetail.base.streams import stream
from dovetail.kube.client import Client

# As in Kubernetes' own components: a leader renews every 2 s; one that cannot do so within 10 s gives up;
# others wait until they have seen no renewal for 15 s.
DURATION = 15 * SECOND
RENEW_WITHIN = 10 * SECOND
RETRY = 2 * SECOND


class LeadershipLost(DovetailError):
    """The lease could not be renewed in time: another may lead by now, so nothing more may be done."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Which lease, and under which name it is held."""

    namespace: str
    name: str
    identity: str


class Fence:
    """Whether the lease is ours for sure, for whatever is about to write.

    A process that was stopped (SIGSTOP, a paused virtual machine, a loop that was busy) goes on where it was:
    its next writes may be ready to leave before anything notices how late it is. They pass `wait` first.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic()  # from then on another process may lead
        self._renewed = asyncio.Event()

    def renewed(self, asked: int) -> None:
        """The lease is ours; the renewal left at the monotonic instant `asked`.

        Others take it after DURATION. What lies between is for the requests that are under way.
        """
        self._until = asked + RENEW_WITHIN
        self._renewed.set()

    def close(self) -> None:
        """The lease is given away."""
        self._until = self._clock.monotonic()

    async def wait(self) -> None:
        """Return while the lease is ours: at once, as a rule, else after the next renewal."""
        while self._clock.monotonic() >= self._until:
            self._renewed.clear()
            await self._renewed.wait()


class Election:
    """`lead` waits for the lease, `keep` renews it, `release` gives it to whatever comes next.

    Another holder's time is counted from when its last renewal was seen here: the clocks of two machines
    need not agree. `waiting` gets the holder's name whenever it changes, `refused` why the server refuses,
    and "" once it does not any more. The client must not wait for the `fence`, which lets others through.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        who: Candidate,
        waiting: Callable[[str], None] = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
        fence: Fence | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._who = who
        self._waiting = waiting
        self._refused = refused
        self._fence = fence or Fence(clock)
        self._draw = stream(0, who.identity, "lease")  # the identity is random
        self._refusal = ""  # the last one that was reported
        self._seen = LeaseSpec()  # what was seen last
        self._since = 0  # when that was first seen, by the monotonic clock
        self._lease: Lease | None = None

    async def lead(self) -> None:
        """Return once the lease is ours. A server that refuses is asked again."""
        while True:
            refusal = ""
            try:
                if await self._try():
                    return
            except ApiError as error:
                refusal = str(error)
            finally:
                self._report(refusal)
            await self._clock.sleep(self._pause())

    async def keep(self) -> None:
        """Renew for ever. Raises LeadershipLost."""
        while True:
            await self._clock.sleep(RETRY)
            await self._renew()

    async def _renew(self) -> None:
        """Renew, before RENEW_WITHIN has passed.

        A process that was stopped for longer than the lease has one more try: the server knows whether
        another one leads, and until it has answered the fence is closed.
        """
        deadline, why = self._clock.monotonic() + RENEW_WITHIN, "no answer in time"
        while True:
            left = deadline - self._clock.monotonic()
            try:
                async with asyncio.timeout(max(0, left) / SECOND):
                    if await self._try():
                        return
            except ApiError as error:
                why = str(error)
            except TimeoutError:
                pass
            holder = self._seen.holder_identity
            left = deadline - self._clock.monotonic()
            if holder != self._who.identity or left <= 0:
                known = why if holder == self._who.identity else f"it is held by {holder or 'no replica'}"
                raise LeadershipLost(
                    f"the lease {self._who.namespace}/{self._who.name} could not be renewed; {known}"
                )
            await self._clock.sleep(min(RETRY, left))

    async def release(self) -> None:
        """Let the next one lead at once; errors are none of ours any more."""
        self._fence.close()
        if self._lease is None:  # it never led; a lease that was taken since then has another version
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
        try:
            await self._patch(self._lease, spec)
        except ApiError:
            return

    def _pause(self) -> int:
        """Until the next look, which is when the holder's time is up if that is sooner.

        Not all that wait shall ask at the same moment, therefore it is up to half shorter than RETRY.
        """
        left = self._since + self._seen.lease_duration_seconds * SECOND - self._clock.monotonic()
        pause = RETRY - int(self._draw.random() * RETRY / 2)
        return min(pause, left) if left > 0 else pause

    async def _try(self) -> bool:
        """Take or renew the lease; False while another one holds it."""
        try:
            lease = await self._client.get(Lease, self._who.name, self._who.namespace)
        except NotFound:
            return await self._create()
        self._notice(lease.spec)
        mine = lease.spec.holder_identity == self._who.identity
        age = self._clock.monotonic() - self._since
        if not mine and lease.spec.holder_identity and age < lease.spec.lease_duration_seconds * SECOND:
            return False
        now = self._stamp()
        spec: dict[str, object] = {
            "holderIdentity": self._who.identity,
            "leaseDurationSeconds": DURATION // SECOND,
            "renewTime": now,
        }
        if not mine:
            spec |= {"acquireTime": now, "leaseTransitions": lease.spec.lease_transitions + 1}
        asked = self._clock.monotonic()
        try:
            self._lease = await self._patch(lease, spec)
        except Conflict:  # something else was faster
            return False
        return self._taken(self._lease, asked)

    async def _create(self) -> bool:
        now = self._stamp()
        spec = LeaseSpec(
            holder_identity=self._who.identity,
            lease_duration_seconds=DURATION // SECOND,
            acquire_time=now,
            renew_time=now,
        )
        meta = Meta(name=self._who.name, namespace=self._who.namespace)
        asked = self._clock.monotonic()
        try:
            self._lease = await self._client.create(Lease(metadata=meta, spec=spec))
        except AlreadyExists:
            return False
        return self._taken(self._lease, asked)

    def _taken(self, lease: Lease, asked: int) -> bool:
        self._notice(lease.spec)
        self._fence.renewed(asked)
        return True

    async def _patch(self, lease: Lease, spec: dict[str, object]) -> Lease:
        merge = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        return await self._client.patch(Lease, self._who.name, self._who.namespace, merge=merge)

    def _report(self, refusal: str) -> None:
        if refusal != self._refusal:
            self._refusal = refusal
            self._refused(refusal)

    def _notice(self, spec: LeaseSpec) -> None:
        if spec == self._seen:
            return
        if spec.holder_identity not in ("", self._who.identity, self._seen.holder_identity):
            self._waiting(spec.holder_identity)
        self._seen, self._since = spec, self._clock.monotonic()

    def _stamp(self) -> str:
        moment = datetime.fromtimestamp(self._clock.now() / SECOND, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
