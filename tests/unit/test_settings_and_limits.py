"""Settings that are refused, limits that are checked again, and claims that never show up in the watch."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.cluster.state import EXPECTATION, State
from dovetail.cluster.usage import exceeded
from dovetail.kube.memory.server import MemoryServer
from dovetail.runtime.settings import Settings
from dovetail.simulate.time.clock import VirtualClock, run_virtual

REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


@pytest.mark.parametrize(
    ("setting", "source"),
    [
        ({"preference_policy": "respect"}, "--preference-policy"),
        ({"min_values_policy": "Loose"}, "--min-values-policy"),
        ({"node_surcharge": -1}, "--node-surcharge"),
        ({"spot_diversity": 0}, "--spot-diversity"),
        ({"spot_tolerance": -1}, "--spot-tolerance"),
        ({"spot_launch_types": 0}, "--spot-launch-types"),
        ({"batch_idle_duration": 0}, "--batch-idle-duration"),
        ({"batch_idle_duration": 11 * SECOND}, "--batch-idle-duration"),
        ({"solve_deadline": 0}, "--solve-deadline"),
    ],
)
def test_settings_that_are_refused(setting: dict[str, Any], source: str) -> None:
    with pytest.raises(InputError) as caught:
        Settings(**setting)
    assert caught.value.source == source
    assert caught.value.remedy


@pytest.mark.parametrize(("longest", "window"), [(10, 20), (30, 60), (3, 10)])
def test_the_nomination_window_follows_the_batch(longest: int, window: int) -> None:
    assert Settings(batch_max_duration=longest * SECOND).nomination_window == window * SECOND


def test_a_plan_takes_as_long_as_a_batch_stays_idle_unless_set_otherwise() -> None:
    assert Settings(batch_idle_duration=2 * SECOND).provisioning().deadline == 2 * SECOND
    assert Settings(solve_deadline=3 * SECOND).provisioning().deadline == 3 * SECOND


@pytest.mark.parametrize(
    ("usage", "limits", "expected"),
    [
        ({"cpu": 4}, {"cpu": 4}, None),
        ({"cpu": 5}, {"cpu": 4}, ("cpu", 5, 4)),
        ({"cpu": 5, "nodes": 2}, {"nodes": 1}, ("nodes", 2, 1)),
        ({}, {"cpu": 0}, None),
        ({"cpu": 5}, {}, None),
    ],
)
def test_limits(usage: dict[str, int], limits: dict[str, int], expected: tuple[str, int, int] | None) -> None:
    assert exceeded(usage, limits) == expected


def test_a_claim_that_went_unseen_is_forgotten() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        state = State(server.client(), clock)
        changes: list[str] = []

        def note(_: type[Object], change: str, __: Object | None, ___: Object | None) -> None:
            changes.append(change)

        state.subscribe(note)
        document = {"metadata": {"name": "general-a"}, "spec": {"nodeClassRef": REF}}
        state.expect(decode(document, NodeClaim))
        assert not state.synced()
        await state.settle()
        assert state.get(NodeClaim, "general-a") is not None
        await clock.sleep(EXPECTATION)
        await state.settle()
        state.check()
        assert state.get(NodeClaim, "general-a") is None
        assert state.synced()
        assert changes == ["ADDED", "DELETED"]

    run_virtual(main)
