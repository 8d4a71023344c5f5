"""Ordinary pods beside a hostile tenant are served as quickly as without it, and no promise is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.kube.memory import MemoryServer
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.analysis.waiting import Wait, waits
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.kinds import HOSTILE_TENANT
from dovetail.simulate.faults.plan import Fault, Faults
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.faults.tenant import NAMESPACE, HostileTenant
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import Scenario, load
from dovetail.simulate.time.clock import VirtualClock, run_virtual

EXAMPLE = Path(__file__).parents[2] / "examples" / "hostile"
# One batching window: a pod of the tenant may keep the window open until its greatest length.
WINDOW = 10 * SECOND


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load(EXAMPLE).until(20 * MINUTE)


@pytest.fixture(scope="module")
def beside(scenario: Scenario) -> Result:
    found = load_faults(EXAMPLE / "faults.yaml", load(EXAMPLE))
    (tenant,) = found.of(HOSTILE_TENANT)
    early = replace(tenant, until=scenario.start + 12 * MINUTE, times=4)
    return simulate(scenario, faults=Faults(found.source, (early,)))


def of(result: Result, namespace: str) -> list[Wait]:
    """The waits of a namespace's pods that came early enough to be bound before the end."""
    found = waits(result.records, result.end)
    early = result.end - 2 * MINUTE
    return [one for one in found if one.pod.startswith(f"{namespace}/") and one.created < early]


def p99(found: list[Wait]) -> int:
    """Nanoseconds from creation to a node."""
    pending = sorted(one.pending for one in found)
    return pending[min(len(pending) - 1, len(pending) * 99 // 100)]


def test_ordinary_pods_do_not_feel_it(scenario: Scenario, beside: Result) -> None:
    alone, with_it = of(simulate(scenario), "default"), of(beside, "default")
    assert len(with_it) == len(alone) > 50
    assert [one.pod for one in with_it if one.bound is None] == []
    assert p99(with_it) <= 1.1 * p99(alone) + WINDOW


def test_no_promise_is_broken_and_its_pods_are_served_too(beside: Result) -> None:
    assert beside.summary.violations == []
    assert beside.summary.faults[HOSTILE_TENANT] > 20
    tenant = of(beside, "tenant")
    assert len([one for one in tenant if one.bound is not None]) >= 10


def test_of_a_long_day_no_more_stays_than_a_quota_would_have() -> None:
    async def main(clock: VirtualClock) -> None:
        visits = Fault(0, HOSTILE_TENANT, clock.now(), clock.now() + HOUR, times=40, count=10, lasts=MINUTE)
        dice, server = Dice(Faults("", (visits,)), 1, clock, JsonlLog(clock)), MemoryServer(clock)
        await HostileTenant(dice, clock, server).run()
        assert dice.fired[HOSTILE_TENANT] > 300
        kept = [
            record
            for table in server.store.tables.values()
            for record in table.records.values()
            if record.document["metadata"].get("namespace") == NAMESPACE
            and "deletionTimestamp" not in record.document["metadata"]
        ]
        assert 80 < len(kept) <= 100

    run_virtual(main)
