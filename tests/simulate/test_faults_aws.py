"""Faults between the AWS provider and AWS: each does what it says, and the controllers survive them all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from operated import REGION, START

from dovetail.base.clock import MINUTE, SECOND
from dovetail.cloud.aws.errors import AwsError, Refusal
from dovetail.cloud.aws.fake import Account, MemoryAws
from dovetail.simulate.analysis.log import JsonlLog
from dovetail.simulate.faults import kinds
from dovetail.simulate.faults.aws import AccountFaults, FaultyAws
from dovetail.simulate.faults.dice import Dice
from dovetail.simulate.faults.epoch import Epoch
from dovetail.simulate.faults.plan import Fault, Faults
from dovetail.simulate.faults.plan import load as load_faults
from dovetail.simulate.run import Result, simulate
from dovetail.simulate.scenario.scenario import Scenario
from dovetail.simulate.scenario.scenario import load as load_scenario
from dovetail.simulate.time.clock import VirtualClock, run_virtual

EXAMPLE = Path(__file__).parents[2] / "examples" / "faults-aws"
TEMPLATE = {
    "LaunchTemplateName": "t",
    "LaunchTemplateData": {"ImageId": "ami-1"},
    "TagSpecifications": [],
}


class Account1:
    """An account in which one kind of fault always happens, seen by one process."""

    def __init__(self, clock: VirtualClock, kind: str, **fields: Any) -> None:
        fault = Fault(0, kind, clock.now(), clock.now() + 10 * MINUTE, **{"rate": 1.0, **fields})
        dice = Dice(Faults("", (fault,)), 1, clock, JsonlLog(clock))
        self.good = MemoryAws(clock, 1, Account.usual(REGION, "demo"))
        self.epoch = Epoch(1)
        self.faults = AccountFaults(dice, clock, self.good)
        self.port = FaultyAws(self.good, dice, self.epoch, self.faults)

    async def fleet(self, wanted: int) -> tuple[int, int]:
        """How many instances and how many errors a fleet of so many comes to."""
        if not self.good.ec2.launches.templates:
            await self.good.ec2.create_launch_template(TEMPLATE)
        answer = await self.port.ec2.create_fleet(self._request(wanted), token="token")
        return sum(len(given.ids) for given in answer.instances), len(answer.errors)

    def running(self) -> list[str]:
        return [machine.instance.id for machine in self.good.machines.running()]

    def _request(self, wanted: int) -> dict[str, Any]:
        subnet = self.good.ec2.account.subnets[0].id
        overrides = [{"InstanceType": name, "SubnetId": subnet} for name in ("m5.large", "m5.xlarge")]
        configs = [
            {"LaunchTemplateSpecification": {"LaunchTemplateName": "t"}, "Overrides": overrides},
        ]
        counted = {"DefaultTargetCapacityType": "on-demand", "TotalTargetCapacity": wanted}
        return {"LaunchTemplateConfigs": configs, "TargetCapacitySpecification": counted}


def on_account(kind: str, script: Callable[[Account1, VirtualClock], Awaitable[None]], **fields: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        await script(Account1(clock, kind, **fields), clock)

    run_virtual(main, start=START)


@pytest.mark.parametrize(
    ("kind", "code", "refusal"),
    [
        (kinds.AWS_THROTTLE, "RequestLimitExceeded", Refusal.THROTTLED),
        (kinds.AWS_ERROR, "InternalError", Refusal.SERVER),
    ],
)
def test_a_call_that_is_refused_has_no_effect(kind: str, code: str, refusal: Refusal) -> None:
    async def script(account: Account1, _: VirtualClock) -> None:
        with pytest.raises(AwsError) as caught:
            await account.fleet(1)
        assert (caught.value.action, caught.value.code) == ("CreateFleet", code)
        assert caught.value.refusal is refusal
        assert account.running() == []

    on_account(kind, script)


def test_a_fleet_that_was_not_answered_is_there_and_the_same_when_asked_again() -> None:
    async def script(account: Account1, _: VirtualClock) -> None:
        for _attempt in range(2):
            with pytest.raises(AwsError) as caught:
                await account.fleet(2)
            assert caught.value.refusal is Refusal.UNREACHABLE
        assert len(account.running()) == 2

    on_account(kinds.AWS_TIMEOUT, script)


@pytest.mark.parametrize(
    ("kind", "wanted", "given", "errors"),
    [
        (kinds.FLEET_SHORTAGE, 4, 0, 2),
        (kinds.FLEET_PARTIAL, 4, 2, 2),
        (kinds.FLEET_PARTIAL, 5, 3, 2),
        (kinds.FLEET_PARTIAL, 1, 1, 2),
    ],
)
def test_fleets_fall_short(kind: str, wanted: int, given: int, errors: int) -> None:
    async def script(account: Account1, _: VirtualClock) -> None:
        assert await account.fleet(wanted) == (given, errors)
        assert await account.fleet(wanted) == (given, errors)  # the token's answer
        assert len(account.running()) == given

    on_account(kind, script)


def test_credentials_expire_for_a_while_and_for_every_service() -> None:
    async def script(account: Account1, clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        parts = [loop.create_task(part) for _, part in account.faults.parts()]
        refused = 0
        for _ in range(10 * 60):
            await clock.sleep(SECOND)
            try:
                await account.port.sts.get_caller_identity()
            except AwsError as error:
                assert error.refusal is Refusal.UNAUTHORIZED
                with pytest.raises(AwsError) as caught:
                    await account.port.ec2.describe_subnets(())
                assert caught.value.refusal is Refusal.UNAUTHORIZED
                refused += 1
        assert 55 <= refused <= 61
        for part in parts:
            part.cancel()

    on_account(kinds.CREDENTIALS_EXPIRE, script, rate=0.0, times=1, lasts=MINUTE)


def test_an_instance_ends_while_it_starts() -> None:
    async def script(account: Account1, clock: VirtualClock) -> None:
        await account.fleet(1)
        identifier = account.running()[0]
        await clock.sleep(20 * SECOND)
        machine = account.good.machines.find(identifier)
        assert machine is not None and machine.instance.state == "terminated"
        assert machine.instance.state_reason == "Server.InternalError"

    on_account(kinds.LAUNCH_DEATH, script, lasts=20 * SECOND)


def test_an_instance_shows_late() -> None:
    async def script(account: Account1, clock: VirtualClock) -> None:
        await account.fleet(8)
        await clock.sleep(3 * SECOND)
        assert len(await account.port.ec2.describe_instances()) < 8
        await clock.sleep(60 * SECOND)
        assert len(await account.port.ec2.describe_instances()) == 8

    on_account(kinds.DESCRIBE_LAG, script, lasts=MINUTE)


def test_tags_are_lost() -> None:
    async def script(account: Account1, clock: VirtualClock) -> None:
        await account.fleet(1)
        await clock.sleep(5 * SECOND)
        await account.port.ec2.create_tags(account.running(), {"a": "b"})
        await clock.sleep(5 * SECOND)
        assert "a" not in (await account.port.ec2.describe_instances())[0].tags

    on_account(kinds.TAGS_LOST, script)


def test_a_message_comes_again_though_it_was_deleted() -> None:
    async def script(account: Account1, clock: VirtualClock) -> None:
        url = await account.port.sqs.get_queue_url("demo")
        account.good.send("news")
        letters = await account.port.sqs.receive(url)
        await account.port.sqs.delete(url, letters)
        await clock.sleep(MINUTE)
        assert [letter.body for letter in await account.port.sqs.receive(url)] == ["news"]

    on_account(kinds.QUEUE_DUPLICATE, script, lasts=MINUTE)


def test_a_dead_process_gets_no_answer_to_what_it_asked_for() -> None:
    async def script(account: Account1, _: VirtualClock) -> None:
        account.epoch.crash_after(1)  # after the effect of its first call
        with pytest.raises(asyncio.CancelledError):
            await account.fleet(1)
        assert len(account.running()) == 1
        with pytest.raises(asyncio.CancelledError):
            await account.port.sts.get_caller_identity()

    on_account(kinds.TAGS_LOST, script)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(EXAMPLE)


def test_the_example_has_every_kind_of_aws(scenario: Scenario) -> None:
    named = {fault.kind for fault in load_faults(EXAMPLE / "faults.yaml", scenario).faults}
    assert named >= {kind.name for kind in kinds.KINDS.values() if kind.aws}
    assert scenario.duration >= 120 * MINUTE


def played(scenario: Scenario, minutes: int) -> Result:
    short = scenario.until(minutes * MINUTE)
    faults = load_faults(EXAMPLE / "faults.yaml", scenario)
    early = tuple(one for one in faults.faults if one.since < short.start + short.duration)
    return simulate(short, faults=Faults(faults.source, early))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_all_goes_wrong_and_no_promise_is_broken(scenario: Scenario, seed: int) -> None:
    summary = played(scenario.seeded(seed), 35).summary
    assert summary.violations == []
    assert summary.invariants_checked > 4_000
    assert set(summary.faults) >= {kinds.AWS_TIMEOUT, kinds.AWS_THROTTLE, kinds.DESCRIBE_LAG, kinds.CRASH}


@pytest.mark.long
def test_a_seed_replays_its_faults_exactly(scenario: Scenario) -> None:
    assert played(scenario, 20).sha256 == played(scenario, 20).sha256
