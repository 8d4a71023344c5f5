"""Delete, replace, one for many, many for one: what consolidation does to a cluster in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from operated import Operated, play, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.workloads import ReplicaSet
from dovetail.base.clock import HOUR, MINUTE, SECOND
from dovetail.cluster.nodes import GOES_NEXT, OTHERS_FIRST
from dovetail.controllers.brakes.brakes import BrakeOptions
from dovetail.controllers.disruption.consolidation import Strategy
from dovetail.controllers.disruption.metrics import FAILED_VALIDATIONS
from dovetail.disrupt.consolidation.memory import Memory
from dovetail.disrupt.consolidation.question import Finding, Question
from dovetail.disrupt.consolidation.search import Asking, search
from dovetail.disrupt.pause import read_pause
from dovetail.model import labels
from dovetail.runtime.settings import FeatureGates
from dovetail.solve.budget import SolveBudget
from dovetail.testing.guests import node_class

Document = dict[str, Any]


def sizes(*types: str, capacity: tuple[str, ...] = ("on-demand",), **disruption: Any) -> Document:
    """A pool of these types, quiet after 30 s."""
    made = pool(disruption={"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}], **disruption})
    made["spec"]["template"]["spec"]["requirements"] = requirements(*types, capacity=capacity)
    return made


def requirements(*types: str, capacity: tuple[str, ...] = ("on-demand",)) -> list[Document]:
    return [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": list(capacity)},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(types)},
    ]


async def only(world: Operated, *types: str, capacity: tuple[str, ...] = ("on-demand",)) -> None:
    """Let the pool buy other types from now on."""
    merge = {"spec": {"template": {"spec": {"requirements": requirements(*types, capacity=capacity)}}}}
    await world.client.patch(NodePool, "general", merge=merge)


async def scale(world: Operated, name: str, count: int) -> None:
    await world.client.patch(ReplicaSet, name, "default", merge={"spec": {"replicas": count}})


def types_of(world: Operated) -> list[str]:
    return sorted(node.metadata.labels[labels.INSTANCE_TYPE] for node in world.state.all(Node))


def test_a_node_whose_pods_fit_elsewhere_is_deleted() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.large"), replicas("a", 3), replicas("b", 3))
        await world.clock.sleep(3 * MINUTE)
        assert len(types_of(world)) == 2
        await scale(world, "a", 1)
        await scale(world, "b", 1)
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    assert types_of(world) == ["m5.large"]
    commands = world.records("disruption")
    assert {(item["reason"], item["decision"]) for item in commands} <= {
        ("Underutilized", "delete"),
        ("Empty", "delete"),
    }


def test_a_node_is_replaced_by_a_cheaper_one() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        assert types_of(world) == ["m5.xlarge"]
        await only(world, "m5.xlarge", "m5.large")
        await scale(world, "a", 2)
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    assert types_of(world) == ["m5.large"]
    (command,) = world.records("disruption")
    assert (command["reason"], command["decision"]) == ("Underutilized", "replace")
    assert "Launching NodeClaim: Underutilized" in world.messages("DisruptionLaunching")


def test_many_nodes_become_one() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.large"), replicas("a", 8, "900m"))
        await world.clock.sleep(3 * MINUTE)
        assert types_of(world) == ["m5.large"] * 4
        await only(world, "m5.large", "c5.2xlarge")
        await world.clock.sleep(12 * MINUTE)

    world = play(script)
    (command,) = world.records("disruption")
    assert (len(command["nodes"]), len(command["replacements"])) == (4, 1)


def test_a_giant_becomes_several_small_ones() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.24xlarge"), replicas("a", 5, "1500m"))
        await world.clock.sleep(3 * MINUTE)
        assert types_of(world) == ["m5.24xlarge"]
        await only(world, "m5.24xlarge", "m5.large")
        await world.clock.sleep(12 * MINUTE)

    world = play(script)
    (command,) = world.records("disruption")
    assert (len(command["nodes"]), len(command["replacements"])) == (1, 5)
    assert types_of(world) == ["m5.large"] * 5


def test_spot_is_not_replaced_by_spot_unless_the_gate_is_open() -> None:
    types = [
        f"{family}.{size}"
        for family in ("m5", "m5a", "m6i", "c5", "c5a", "c6i", "r5", "r5a", "r6i")
        for size in ("large", "xlarge", "2xlarge")
    ]

    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.4xlarge", capacity=("spot",)), replicas("a", 4))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.4xlarge", *types, capacity=("spot",))
        await world.clock.sleep(20 * MINUTE)  # why nothing is done is reported every 15 minutes

    shut = play(script)
    assert not shut.records("disruption")
    text = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
    assert text in shut.messages("Unconsolidatable")
    opened = play(script, gates=FeatureGates(spot_to_spot_consolidation=True))
    (command,) = opened.records("disruption")
    assert command["decision"] == "replace"
    assert types_of(opened) != ["m5.4xlarge"]


def test_pennies_replace_no_node() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "m5.large")
        await scale(world, "a", 2)
        await world.clock.sleep(10 * MINUTE)

    world = play(script, minimum_saving="60%")
    assert not world.records("disruption")
    assert "Can't replace with a cheaper node" in world.messages("Unconsolidatable")


def test_when_empty_leaves_nodes_with_pods_alone() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge", consolidationPolicy="WhenEmpty"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "m5.large")
        await scale(world, "a", 2)
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    assert not world.records("disruption")
    text = 'NodePool "general" has consolidation policy WhenEmpty, but node is not empty'
    assert text in world.messages("Unconsolidatable")


def test_balanced_refuses_what_disrupts_more_than_it_saves() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge", consolidationPolicy="Balanced"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "m5a.xlarge")
        await world.clock.sleep(8 * MINUTE)

    world = play(script)
    assert not world.records("disruption")

    async def halved(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge", consolidationPolicy="Balanced"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "c5.large")
        await scale(world, "a", 2)
        await world.clock.sleep(10 * MINUTE)

    world = play(halved)
    assert len(world.records("disruption")) == 1
    approved = world.messages("ConsolidationApproved")
    assert approved[0] == "Score 0.59 >= threshold 0.50 (k: 2, savings 58.7%, disruption 100.0%)"
    (candidate,) = set(world.messages("ConsolidationCandidate"))
    assert candidate.startswith("Consolidation candidate: replace: nodepools=[general]: [ip-")
    assert candidate.endswith("-> [1 replacement] (savings: $0.14)")


def test_a_command_that_does_not_hold_any_more_is_rejected() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.xlarge"), replicas("a", 6))
        await world.clock.sleep(3 * MINUTE)
        await only(world, "m5.xlarge", "c5.large")
        await scale(world, "a", 2)
        while not world.messages("ConsolidationCandidate"):
            await world.clock.sleep(SECOND)
        nothing = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
        await world.client.patch(NodePool, "general", merge=nothing)
        await world.clock.sleep(5 * MINUTE)

    world = play(script)
    assert not world.records("disruption")
    (event,) = set(world.messages("ConsolidationRejected"))
    assert event.startswith("Consolidation rejected: ")
    assert ", reason: budget (savings: $" in event
    assert world.metrics.value(FAILED_VALIDATIONS, consolidation_type="single") == 1


def test_a_node_goes_whose_pods_find_room_in_zones_that_have_nodes() -> None:
    """The validation of a deletion asks a plan that buys nothing, which counts zones without nodes as well:
    pods that are spread then lack a place in the third one, whatever the search found.
    """
    zones = {"key": labels.ZONE, "operator": "In", "values": ["ap-northeast-2a", "ap-northeast-2b"]}

    async def script(world: Operated) -> None:
        made, spread = sizes("m5.large"), replicas("spread", 3, "300m")
        rules = made["spec"]["template"]["spec"]["requirements"]
        spread["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": labels.ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "spread"}},
            }
        ]
        made["spec"]["template"]["spec"]["requirements"] = [*rules, zones]
        world.create(node_class(), made, spread, replicas("filler", 3, "1300m"))
        await world.clock.sleep(3 * MINUTE)
        assert len(types_of(world)) == 3
        await only(world, "m5.large")  # in any zone
        await scale(world, "filler", 1)
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    assert world.messages("ConsolidationRejected") == []
    assert len(types_of(world)) == 2


DURING = "DuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": "nothing"}}}
TERMS = [{"weight": 1, "podAffinityTerm": TERM}] * 600


@pytest.mark.parametrize(
    ("hostile", "left"),
    [
        # With so many terms it is in no plan together with simpler pods.
        (pod("hostile", "100m", affinity={"podAntiAffinity": {f"preferred{DURING}": TERMS}}), 1),
        # Amounts that no node has: a scheduler that adds them up in 64 bits binds it. Its node has no room.
        (pod("hostile", "1e30"), 2),
    ],
)
def test_a_pod_that_is_in_no_plan_keeps_its_own_node_and_no_other(hostile: Document, left: int) -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.large"), replicas("a", 9))
        await world.clock.sleep(3 * MINUTE)
        assert len(types_of(world)) == 3
        node = sorted(node.metadata.name for node in world.state.all(Node))[0]
        world.create({**hostile, "spec": {**hostile["spec"], "nodeName": node}})
        await scale(world, "a", 1)
        await world.clock.sleep(10 * MINUTE)

    world = play(script)
    assert world.records("reconcile.panicked") == []
    assert len(types_of(world)) == left
    (bound,) = world.records("pod.bound", pod="default/hostile")
    assert bound["node"] in [node.metadata.name for node in world.state.all(Node)]


async def _half_empty(world: Operated) -> None:
    """Six nodes with a pod each, of which one may go at a time; three pods have room on one node."""
    made = sizes("m5.large", budgets=[{"nodes": "1"}])
    world.create(node_class(), made, replicas("large", 6, "1100m"), replicas("small", 6, "600m"))
    await world.clock.sleep(3 * MINUTE)
    await scale(world, "large", 0)
    await until(world, lambda: bool(_avoided(world)))


async def until(world: Operated, true: Callable[[], bool]) -> None:
    """Come back once it is; five minutes are enough."""
    for _ in range(300):
        if true():
            return
        await world.clock.sleep(SECOND)
    raise AssertionError("it did not become true")


def _avoided(world: Operated) -> list[str]:
    return [node.metadata.name for node in world.state.all(Node) if GOES_NEXT in node.spec.taints]


def test_nodes_that_go_next_ask_pods_to_go_elsewhere_as_long_as_they_do() -> None:
    """A pod that leaves a node comes to none that goes next, so each moves once."""

    async def script(world: Operated) -> None:
        await _half_empty(world)
        before = {one.metadata.name for one in world.state.all(Pod)}
        avoided = _avoided(world)

        def moved_to() -> list[str]:
            new = [one for one in world.state.all(Pod) if one.metadata.name not in before]
            return [one.spec.node_name for one in new if one.spec.node_name]

        await until(world, lambda: bool(moved_to()))
        assert len(avoided) == 4 and moved_to()[0] not in avoided
        await world.clock.sleep(20 * MINUTE)
        assert len(types_of(world)) == 2
        assert not _avoided(world)

    play(script)


def test_a_node_that_pods_have_just_come_to_asks_others_to_go_elsewhere_too() -> None:
    """Else what one command moves takes the room there that the next one needs."""

    def next_once_one_came(question: Question, _memory: Memory, _work: SolveBudget, _now: int) -> Asking:
        yield from ()
        came = any(each.key == "default/late" for node in question.problem.nodes for each in node.pods)
        return Finding(None, next=tuple(node.name for node in question.problem.nodes if came))

    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.large"), replicas("large", 3, "1100m"))
        await world.clock.sleep(3 * MINUTE)
        assert not _avoided(world)
        world.create(pod("late", cpu="10m"))
        await world.clock.sleep(20 * SECOND)
        late = world.state.get(Pod, "default/late")
        assert late is not None and late.spec.node_name in _avoided(world)

    play(script, strategy=Strategy(next_once_one_came))


@pytest.mark.parametrize("how", ["pool", "setting", "budget"])
def test_nodes_take_pods_as_before_once_none_may_go(how: str) -> None:
    async def script(world: Operated) -> None:
        await _half_empty(world)
        if how == "setting":
            await world.restart(brakes=BrakeOptions(pause=read_pause("disruption")))
        elif how == "pool":
            merge: Document = {"metadata": {"annotations": {labels.PAUSE: "disruption"}}}
            await world.client.patch(NodePool, "general", merge=merge)
        else:
            await world.client.patch(
                NodePool, "general", merge={"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
            )
        await world.clock.sleep(6 * MINUTE)
        assert not _avoided(world)

    play(script)


def test_a_taint_that_an_earlier_process_left_for_turns_goes() -> None:
    async def script(world: Operated) -> None:
        world.create(node_class(), sizes("m5.large"), replicas("a", 3))
        await world.clock.sleep(3 * MINUTE)
        (node,) = world.state.all(Node)
        taint = {"key": OTHERS_FIRST.key, "effect": OTHERS_FIRST.effect}
        await world.client.patch(Node, node.metadata.name, merge={"spec": {"taints": [taint]}})
        await world.clock.sleep(2 * MINUTE)
        assert not any(node.spec.taints for node in world.state.all(Node))

    play(script)


def test_a_search_that_found_nothing_is_followed_by_a_rest_in_proportion_to_the_nodes() -> None:
    """Pods that come one after the other change what is asked at each look, every 10 s."""

    def searches(rest: int) -> list[int]:
        asked: list[int] = []

        def counted(question: Question, memory: Memory, work: SolveBudget, now: int) -> Asking:
            asked.append(now)
            return (yield from search(question, memory, work, now))

        async def script(world: Operated) -> None:
            world.create(node_class(), sizes("m5.2xlarge"), replicas("a", 7, cpu="1900m"))
            await world.clock.sleep(3 * MINUTE)
            assert types_of(world) == ["m5.2xlarge"] * 2
            asked.clear()
            for number in range(24):
                world.create(pod(f"late-{number}", cpu="10m"))
                await world.clock.sleep(10 * SECOND)

        play(script, strategy=Strategy(counted, rest=rest))
        return asked

    often, seldom = searches(0), searches(20 * SECOND)
    assert len(often) > 2 * len(seldom) > 0
    assert all(later - earlier >= 40 * SECOND for earlier, later in pairwise(seldom))


def test_a_search_that_found_a_move_is_followed_by_a_rest_of_a_minute_at_most() -> None:
    """Where load falls the next one finds more that can go together."""

    def looks(rest: int) -> tuple[list[int], list[int]]:
        asked: list[int] = []
        found: list[int] = []

        def counted(question: Question, memory: Memory, work: SolveBudget, now: int) -> Asking:
            asked.append(now)
            finding = yield from search(question, memory, work, now)
            found.extend([now] if finding.move is not None else [])
            return finding

        async def script(world: Operated) -> None:
            small, large = replicas("a", 3, cpu="250m"), replicas("b", 3, cpu="1500m")
            world.create(node_class(), sizes("m5.large"), small, large)
            await world.clock.sleep(3 * MINUTE)
            await scale(world, "b", 0)
            await world.clock.sleep(10 * MINUTE)
            assert types_of(world) == ["m5.large"]

        play(script, strategy=Strategy(counted, rest=rest))
        return asked, found

    def soonest(asked: list[int], found: list[int]) -> int:
        return min(later - at for at in found for later in asked if later > at)

    assert soonest(*looks(0)) < MINUTE
    assert MINUTE <= soonest(*looks(HOUR)) < 2 * MINUTE


def test_places_that_others_rely_on_are_promised_as_the_command_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else what comes in place of its pods has none when the scheduler comes to it, milliseconds later."""
    promised: list[tuple[int, str, str]] = []

    def kept(question: Question, memory: Memory, work: SolveBudget, now: int) -> Asking:
        found = yield from search(question, memory, work, now)
        return replace(found, move=replace(found.move, kept=True) if found.move else None)

    async def script(world: Operated) -> None:
        promise = world.state.promise

        def noted(pod: Pod, name: str, **more: bool) -> None:
            promised.append((world.clock.now(), pod.spec.node_name, name))
            promise(pod, name, **more)

        small, large = replicas("a", 2, cpu="250m"), replicas("b", 2, cpu="1500m")
        world.create(node_class(), sizes("m5.large"), small, large)
        await world.clock.sleep(3 * MINUTE)
        monkeypatch.setattr(world.state, "promise", noted)
        await scale(world, "b", 0)
        await world.clock.sleep(5 * MINUTE)

    world = play(script, strategy=Strategy(kept))
    (command,) = world.records("disruption", reason="Underutilized")
    (stays,) = world.state.all(Node)
    at_once = [(left, name) for at, left, name in promised if at == command["t"] and left]
    assert at_once == [(command["nodes"][0], stays.metadata.name)] * command["pods"] != []
