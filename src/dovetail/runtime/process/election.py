"""One leader at a time: whoever holds the lease acts, everybody else waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from dovetail.api.coordination import Lease, LeaseSpec
from dovetail.api.meta import Meta
from dovetail.base.clock import SECOND, Clock
from dovetail.base.errors import AlreadyExists, ApiError, Conflict, DovetailError, NotFound
from dovetail.kube.client import Client

# As in Kubernetes' own components: a leader that could not renew for 10 s gives up; others wait for 15 s.
DURATION = 15 * SECOND
RENEW_WITHIN = 10 * SECOND
RETRY = 2 * SECOND


class LeadershipLost(DovetailError):
    """The lease could not be renewed in time: somebody else may lead by now, so nothing more may be done."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Which lease, and under which name it is held."""

    namespace: str
    name: str
    identity: str


class Election:
    """`lead` waits for the lease, `keep` renews it, `release` gives it to whoever comes next.

    Another holder's time is counted from when its last renewal was seen here: the clocks of two machines
    need not agree. `waiting` is told the holder's name whenever it changes, `refused` why the server refuses,
    and "" once it does not any more.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        who: Candidate,
        waiting: Callable[[str], None] = lambda _: None,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._who = who
        self._waiting = waiting
        self._refused = refused
        self._refusal = ""  # the last one that was told
        self._seen: tuple[str, str] = ("", "")  # holder and renewal that were seen last
        self._since = 0  # when that was first seen
        self._lasts = 0  # for how long it holds
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
                self._tell(refusal)
            await self._clock.sleep(self._pause())

    async def keep(self) -> None:
        """Renew for ever. Raises LeadershipLost."""
        renewed = self._clock.now()
        while True:
            await self._clock.sleep(RETRY)
            left = renewed + RENEW_WITHIN - self._clock.now()
            try:
                async with asyncio.timeout(max(0, left) / SECOND):
                    held = await self._try()
            except (ApiError, TimeoutError):
                held = False
            if held:
                renewed = self._clock.now()
            elif self._seen[0] != self._who.identity or self._clock.now() >= renewed + RENEW_WITHIN:
                raise LeadershipLost(
                    f"the lease {self._who.namespace}/{self._who.name} could not be renewed;"
                    f" it is held by {self._seen[0] or 'nobody'}"
                )

    async def release(self) -> None:
        """Let the next one lead at once; errors are none of ours any more."""
        if self._lease is None or self._lease.spec.holder_identity != self._who.identity:
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._stamp()}
        try:
            await self._patch(self._lease, spec)
        except ApiError:
            return

    def _pause(self) -> int:
        """Until the next look, which is when the holder's time is up if that is sooner."""
        left = self._since + self._lasts - self._clock.now()
        return min(RETRY, left) if left > 0 else RETRY

    async def _try(self) -> bool:
        """Take or renew the lease; False while another one holds it."""
        try:
            lease = await self._client.get(Lease, self._who.name, self._who.namespace)
        except NotFound:
            return await self._create()
        self._notice(lease.spec)
        mine = lease.spec.holder_identity == self._who.identity
        age = self._clock.now() - self._since
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
        try:
            self._lease = await self._patch(lease, spec)
        except Conflict:  # somebody was faster
            return False
        self._notice(self._lease.spec)
        return True

    async def _create(self) -> bool:
        now = self._stamp()
        spec = LeaseSpec(
            holder_identity=self._who.identity,
            lease_duration_seconds=DURATION // SECOND,
            acquire_time=now,
            renew_time=now,
        )
        meta = Meta(name=self._who.name, namespace=self._who.namespace)
        try:
            self._lease = await self._client.create(Lease(metadata=meta, spec=spec))
        except AlreadyExists:
            return False
        self._notice(self._lease.spec)
        return True

    async def _patch(self, lease: Lease, spec: dict[str, object]) -> Lease:
        merge = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        return await self._client.patch(Lease, self._who.name, self._who.namespace, merge=merge)

    def _tell(self, refusal: str) -> None:
        if refusal != self._refusal:
            self._refusal = refusal
            self._refused(refusal)

    def _notice(self, spec: LeaseSpec) -> None:
        seen = spec.holder_identity, spec.renew_time
        if seen == self._seen:
            return
        if spec.holder_identity not in ("", self._who.identity, self._seen[0]):
            self._waiting(spec.holder_identity)
        self._seen, self._since = seen, self._clock.now()
        self._lasts = spec.lease_duration_seconds * SECOND

    def _stamp(self) -> str:
        moment = datetime.fromtimestamp(self._clock.now() / SECOND, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
