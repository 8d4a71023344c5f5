"""Who leads: one at a time, by a lease."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from dovetail.api.coordination import Lease
from dovetail.base.clock import SECOND
from dovetail.base.errors import AlreadyExists, Conflict, Unavailable
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.client import MemoryClient
from dovetail.runtime.process.election import Candidate, Election, Fence, LeadershipLost
from dovetail.simulate.time.clock import VirtualClock, run_virtual

HOUR = 3600 * SECOND
PLACE = ("karpenter-leader-election", "kube-system")


def election(
    server: MemoryServer, clock: VirtualClock, who: str, client: Any = None, **more: Any
) -> Election:
    candidate = Candidate(PLACE[1], PLACE[0], who)
    return Election(client or server.client(), clock, candidate, **more)


class Deaf(MemoryClient):
    """A server that stops answering."""

    deaf = False

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        if self.deaf:
            raise Unavailable("no answer")
        return await super().get(kind, name, namespace)


def test_the_first_one_leads_and_the_next_waits_for_its_end() -> None:
    async def main(clock: VirtualClock) -> None:
        server, holders = MemoryServer(clock), []
        first = election(server, clock, "a")
        await first.lead()
        keeping = asyncio.ensure_future(first.keep())
        second = election(server, clock, "b", waiting=holders.append)
        waiting = asyncio.ensure_future(second.lead())
        await clock.sleep(60 * SECOND)
        assert not waiting.done()
        assert holders == ["a"], "the leader is reported once"
        keeping.cancel()
        await clock.sleep(12 * SECOND)
        assert not waiting.done(), "a leader that is late may still come back"
        await clock.sleep(4 * SECOND)
        assert waiting.done(), "its time was up at most 15 s after its end"
        lease = await server.client().get(Lease, *PLACE)
        assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("b", 1)

    run_virtual(main)


def test_a_lease_that_is_given_back_is_taken_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        server, holders = MemoryServer(clock), []
        first, second = election(server, clock, "a"), election(server, clock, "b", waiting=holders.append)
        await first.lead()
        waiting = asyncio.ensure_future(second.lead())
        await clock.sleep(SECOND)
        await first.release()
        await clock.sleep(3 * SECOND)
        assert waiting.done()
        assert holders == ["a"], "a lease that is free has no holder to report"
        await first.release()
        lease = await server.client().get(Lease, *PLACE)
        assert lease.spec.holder_identity == "b", "a lease of another holder stays as it is"

    run_virtual(main)


def test_another_holder_is_believed_by_our_own_clock() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        held = {
            "holderIdentity": "karpenter-1",
            "leaseDurationSeconds": 15,
            "renewTime": "2001-01-01T00:00:00.0Z",
        }
        name, namespace = PLACE
        meta = {"name": name, "namespace": namespace}
        server.create(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": held}
        )
        waiting = asyncio.ensure_future(election(server, clock, "b").lead())
        await clock.sleep(14 * SECOND)
        assert not waiting.done(), "its clock may be wrong; it has its time from when we saw it"
        await clock.sleep(4 * SECOND)
        assert waiting.done()

    run_virtual(main)


def test_a_leader_without_an_answer_gives_up_before_others_lead() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        client = Deaf(server)
        leader = election(server, clock, "a", client)
        await leader.lead()
        keeping = asyncio.ensure_future(leader.keep())
        await clock.sleep(5 * SECOND)
        client.deaf = True
        begun = clock.now()
        with pytest.raises(LeadershipLost, match="could not be renewed"):
            await keeping
        assert clock.now() - begun <= 12 * SECOND

    run_virtual(main)


def test_a_leader_whose_lease_was_taken_gives_up_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        leader = election(server, clock, "a")
        await leader.lead()
        keeping = asyncio.ensure_future(leader.keep())
        await server.client().patch(Lease, *PLACE, merge={"spec": {"holderIdentity": "b"}})
        with pytest.raises(LeadershipLost, match="it is held by b"):
            await keeping
        assert clock.now() <= 2 * SECOND

    run_virtual(main)


def test_why_the_lease_cannot_be_taken_is_reported_once() -> None:
    async def main(clock: VirtualClock) -> None:
        server, holders = MemoryServer(clock), []
        client = Deaf(server, "")
        client.deaf = True
        waiting = asyncio.ensure_future(election(server, clock, "a", client, refused=holders.append).lead())
        await clock.sleep(30 * SECOND)
        assert holders == ["no answer"]
        client.deaf = False
        await clock.sleep(5 * SECOND)
        assert waiting.done()
        assert holders == ["no answer", ""]

    run_virtual(main)


class Set:
    """A clock whose time of day is set by hand."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.offset = 0

    def now(self) -> int:
        return self._clock.now() + self.offset

    def monotonic(self) -> int:
        return self._clock.monotonic()

    async def sleep(self, nanoseconds: int) -> None:
        await self._clock.sleep(nanoseconds)


async def lost(leader: Election, why: str) -> None:
    with pytest.raises(LeadershipLost, match=why):
        await leader.keep()


@pytest.mark.parametrize("jump", [-8766 * HOUR, -HOUR, HOUR, 8766 * HOUR])
def test_two_never_lead_whatever_happens_to_the_leaders_clock(jump: int) -> None:
    async def main(clock: VirtualClock) -> None:
        server, mine = MemoryServer(clock), Set(clock)
        client = Deaf(server)
        fence = Fence(mine)
        leader = Election(client, mine, Candidate(PLACE[1], PLACE[0], "a"), fence=fence)
        await leader.lead()
        keeping = asyncio.ensure_future(lost(leader, "no answer"))
        await clock.sleep(5 * SECOND)
        second = asyncio.ensure_future(election(server, clock, "b").lead())
        client.deaf, mine.offset = True, jump
        cut_off = clock.now()
        passed = asyncio.ensure_future(fence.wait())
        await asyncio.sleep(0)
        assert passed.done(), "a clock that is set does not stop a leader"
        await clock.sleep(11 * SECOND)
        late = asyncio.ensure_future(fence.wait())
        await asyncio.sleep(0)
        assert not late.done(), "nothing is written any more before another one may lead"
        await second
        assert clock.now() - cut_off > 10 * SECOND
        await keeping
        assert not late.done()
        late.cancel()

    run_virtual(main, start=10_000 * HOUR)


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_candidate_whose_clock_is_set_waits_as_long_as_any(jump: int) -> None:
    async def main(clock: VirtualClock) -> None:
        server, mine = MemoryServer(clock), Set(clock)
        await election(server, clock, "a").lead()
        waiting = asyncio.ensure_future(
            Election(server.client(), mine, Candidate(PLACE[1], PLACE[0], "b")).lead()
        )
        await clock.sleep(5 * SECOND)
        mine.offset = jump
        await clock.sleep(9 * SECOND)
        assert not waiting.done()
        await clock.sleep(4 * SECOND)
        assert waiting.done()

    run_virtual(main, start=10_000 * HOUR)


class Stopped(Set):
    """A process that is stopped for a while: its clock has gone on when it comes to itself."""

    ahead = 0

    def monotonic(self) -> int:
        return super().monotonic() + self.ahead


@pytest.mark.parametrize("taken", [False, True])
def test_a_process_that_was_stopped_writes_nothing_before_it_knows_that_it_leads(taken: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        server, mine = MemoryServer(clock), Stopped(clock)
        fence = Fence(mine)
        leader = Election(server.client(), mine, Candidate(PLACE[1], PLACE[0], "a"), fence=fence)
        await leader.lead()
        keeping = asyncio.ensure_future(lost(leader, "it is held by b") if taken else leader.keep())
        await clock.sleep(SECOND)
        mine.ahead = 60 * SECOND
        if taken:
            await server.client().patch(Lease, *PLACE, merge={"spec": {"holderIdentity": "b"}})
            # What took it has its time from now on, also by the clock of the one that comes to itself.
        writing = asyncio.ensure_future(fence.wait())
        await asyncio.sleep(0)
        assert not writing.done()
        await clock.sleep(2 * SECOND)
        assert writing.done() is not taken
        if taken:
            await keeping
        keeping.cancel()
        writing.cancel()

    run_virtual(main)


def test_nothing_is_written_before_leading_and_after_the_lease_was_given_back() -> None:
    async def main(clock: VirtualClock) -> None:
        fence = Fence(clock)
        leader = Election(
            MemoryServer(clock).client(), clock, Candidate(PLACE[1], PLACE[0], "a"), fence=fence
        )
        for change, allowed in ((None, False), (leader.lead, True), (leader.release, False)):
            if change is not None:
                await change()
            writing = asyncio.ensure_future(fence.wait())
            await asyncio.sleep(0)
            assert writing.done() is allowed
            writing.cancel()

    run_virtual(main)


class Counted(MemoryClient):
    """Notes when it was asked for the lease, and may hang, or be too late with a write."""

    hung = False
    late = False
    refusing = False
    slow = 0  # nanoseconds until it answers

    def __init__(self, server: MemoryServer, clock: VirtualClock) -> None:
        super().__init__(server)
        self._at = clock
        self.looks: list[int] = []

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        self.looks.append(self._at.now())
        if self.hung:
            await asyncio.Event().wait()
        if self.refusing:
            raise Unavailable("no answer")
        await self._at.sleep(self.slow)
        return await super().get(kind, name, namespace)

    async def create(self, obj: Any) -> Any:
        if self.late:
            self.late = False
            raise AlreadyExists("another one was faster")
        return await super().create(obj)

    async def patch(self, kind: Any, name: str, namespace: str = "", **changes: Any) -> Any:
        if self.late:
            self.late = False
            raise Conflict("another one was faster")
        return await super().patch(kind, name, namespace, **changes)


def hold(server: MemoryServer, holder: str, seconds: int = 15) -> None:
    """A lease that is held."""
    name, namespace = PLACE
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": "2001-01-01T00:00:00.0Z"}
    meta = {"name": name, "namespace": namespace}
    server.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})


def test_a_leader_renews_every_two_seconds() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        client = Counted(server, clock)
        leader = election(server, clock, "a", client)
        await leader.lead()
        keeping = asyncio.ensure_future(leader.keep())
        await clock.sleep(21 * SECOND)
        keeping.cancel()
        assert client.looks == [second * SECOND for second in range(0, 21, 2)]
        lease = await server.client().get(Lease, *PLACE)
        assert lease.spec.renew_time == "1970-01-01T00:00:20.000000Z"
        assert lease.spec.acquire_time == "1970-01-01T00:00:00.000000Z"
        assert lease.spec.lease_duration_seconds == 15

    run_virtual(main)


def test_a_leader_gives_up_ten_seconds_after_a_renewal_that_hangs_began() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        client = Counted(server, clock)
        leader = election(server, clock, "a", client)
        await leader.lead()
        keeping = asyncio.ensure_future(leader.keep())
        await clock.sleep(5 * SECOND)
        client.hung = True
        with pytest.raises(LeadershipLost, match="no answer in time"):
            await keeping
        assert clock.now() == 16 * SECOND  # the renewal at 6 s was the one that hung

    run_virtual(main)


def test_a_leader_that_is_refused_tries_every_two_seconds_and_once_at_the_end() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        client = Counted(server, clock)
        leader = election(server, clock, "a", client)
        await leader.lead()
        client.refusing = True
        with pytest.raises(LeadershipLost, match="no answer"):
            await leader.keep()
        assert client.looks == [0, *(second * SECOND for second in range(2, 13, 2))]
        assert clock.now() == 12 * SECOND

    run_virtual(main)


def test_a_server_that_needs_nine_seconds_for_an_answer_is_fast_enough() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        client = Counted(server, clock)
        leader = election(server, clock, "a", client)
        await leader.lead()
        client.slow = 9 * SECOND
        keeping = asyncio.ensure_future(leader.keep())
        await clock.sleep(60 * SECOND)
        assert not keeping.done()
        assert client.looks == [0, *(second * SECOND for second in range(2, 60, 11))]
        keeping.cancel()

    run_virtual(main)


def test_a_candidate_looks_every_one_to_two_seconds_and_when_the_time_is_up() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        hold(server, "another")
        client = Counted(server, clock)
        await election(server, clock, "b", client).lead()
        assert clock.now() == 15 * SECOND
        pauses = [later - earlier for earlier, later in pairwise(client.looks)]
        assert all(SECOND <= pause <= 2 * SECOND for pause in pauses[:-1])
        assert len(set(pauses)) > 3, "not all candidates ask at the same moments"
        assert min(pauses[:-1]) < 1.3 * SECOND
        assert 0 < pauses[-1] <= 2 * SECOND

    run_virtual(main)


def test_a_lease_without_a_holder_is_free() -> None:
    async def main(clock: VirtualClock) -> None:
        server, holders = MemoryServer(clock), []
        hold(server, "")
        await election(server, clock, "a", waiting=holders.append, refused=holders.append).lead()
        assert (clock.now(), holders) == (0, [])

    run_virtual(main)


@pytest.mark.parametrize("there", [False, True])
def test_one_that_is_too_late_to_take_the_lease_does_not_lead(there: bool) -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        if there:
            hold(server, "")
        client = Counted(server, clock)
        client.late = True
        await election(server, clock, "a", client).lead()
        assert len(client.looks) == 2, "it looks again"
        assert SECOND <= clock.now() <= 2 * SECOND

    run_virtual(main)


def test_each_new_holder_is_reported_and_never_oneself() -> None:
    async def main(clock: VirtualClock) -> None:
        server, holders = MemoryServer(clock), []
        hold(server, "x")
        mine = election(server, clock, "a", waiting=holders.append)
        leading = asyncio.ensure_future(mine.lead())
        await clock.sleep(5 * SECOND)
        for holder in ("x", "y", "y"):
            spec = {"holderIdentity": holder, "renewTime": f"2001-01-01T00:00:0{len(holders)}.5Z"}
            await server.client().patch(Lease, *PLACE, merge={"spec": spec})
            await clock.sleep(3 * SECOND)
        await leading
        keeping = asyncio.ensure_future(mine.keep())
        await clock.sleep(10 * SECOND)
        keeping.cancel()
        assert holders == ["x", "y"]

    run_virtual(main)


def test_what_is_given_back_is_free_at_once_and_only_by_its_holder() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        mine, other = election(server, clock, "a"), election(server, clock, "b")
        await other.release()  # it never led
        await mine.lead()
        await other.release()
        lease = await server.client().get(Lease, *PLACE)
        assert lease.spec.holder_identity == "a"
        await clock.sleep(90 * SECOND)
        await mine.release()
        lease = await server.client().get(Lease, *PLACE)
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("", 1)
        assert lease.spec.renew_time == "1970-01-01T00:01:30.000000Z"

    run_virtual(main)
