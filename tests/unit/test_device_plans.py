"""Plans for pods that claim devices: nodes with the devices, none given twice, reasons for what is left."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from benchmarks.solve import mix
from dovetail.api.codec import decode
from dovetail.api.core import Affinity, Pod
from dovetail.api.devices import CounterSet, Device, DeviceClass, ResourceClaim, ResourceSlice
from dovetail.cloud.catalog.devices import devices as sold
from dovetail.devices.cel import selector
from dovetail.devices.claims import Answers
from dovetail.devices.demand import ROW, in_rows
from dovetail.devices.pools import template_pools
from dovetail.model.devices import ClusterDevices, TemplateDevices, TemplateSlice
from dovetail.model.labels import INSTANCE_TYPE
from dovetail.model.left_out import DEVICES
from dovetail.model.problem import Budget, ExistingNode, Problem
from dovetail.solve.solver import solve
from dovetail.verify import verify

REAL = ("g5.12xlarge", "g6.48xlarge", "p4d.24xlarge", "g4dn.xlarge")
CLASSES = {
    name: decode(
        {
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
        },
        DeviceClass,
    )
    for name, driver in (("gpu", "gpu.nvidia.com"), ("efa", "dra.net"))
}
ROOT = "resource.kubernetes.io/pcieRoot"
OWN = 'device.attributes["gpu.nvidia.com"]'


def claim(name: str, *requests: tuple[str, int, str], match: str = "") -> ResourceClaim:
    body: dict[str, Any] = {
        "requests": [
            {
                "name": f"r{at}",
                "exactly": {
                    "deviceClassName": kind,
                    "count": count,
                    "selectors": [{"cel": {"expression": text}}] if text else [],
                },
            }
            for at, (kind, count, text) in enumerate(requests)
        ]
    }
    if match:
        body["constraints"] = [{"matchAttribute": match}]
    return decode({"metadata": {"name": name, "namespace": "d"}, "spec": {"devices": body}}, ResourceClaim)


def pod(name: str, *claims: str) -> Pod:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": [{"name": one} for one in claims]}
    spec = {
        "resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims],
        "containers": [{"name": "a", "resources": resources}],
    }
    return decode({"metadata": {"name": name, "namespace": "d"}, "spec": spec}, Pod)


def problem(claims: list[ResourceClaim], pods: list[Pod], *, plain: int = 3) -> Problem:
    """Every tenth type has the devices of a real one."""
    made = mix.diverse(plain)
    pools = tuple(
        replace(
            pool,
            instance_types=tuple(
                replace(kind, devices=sold(REAL[at // 10 % 4], None, gpus=True, efas=True))
                if at % 10 == 0
                else kind
                for at, kind in enumerate(pool.instance_types)
            ),
        )
        for pool in made.pools
    )
    known = ClusterDevices(classes=CLASSES, claims={one.key: one for one in claims})
    return replace(made, pods=(*made.pods, *pods), pools=pools, devices=known)


@pytest.mark.parametrize(
    ("requests", "match", "drivers"),
    [
        ([("gpu", 1, "")], "", ("gpu.nvidia.com",)),
        ([("gpu", 2, f'{OWN}.architecture == "Ampere"')], "", ("gpu.nvidia.com",)),
        ([("gpu", 2, ""), ("efa", 1, "")], ROOT, ("dra.net", "gpu.nvidia.com")),
    ],
)
def test_claims_are_planned_for(requests: Any, match: str, drivers: tuple[str, ...]) -> None:
    claims = [claim(f"c{at}", *requests, match=match) for at in range(6)]
    asked = problem(claims, [pod(f"p{at}", f"c{at}") for at in range(6)])
    plan = solve(asked, Budget())
    assert not plan.unschedulable
    assert verify(asked, plan) == ()
    nodes = [one for one in plan.claims if any(key.startswith("d/p") for key in one.pods)]
    assert {one.drivers for one in nodes} == {drivers}
    assert not any(name.startswith("devices.") for one in plan.claims for name in one.requests)


def test_a_mix_shares_nodes_as_far_as_there_are_devices() -> None:
    claims = [claim(f"c{at}", ("gpu", 1 + at % 3, "")) for at in range(9)]
    asked = problem(claims, [pod(f"p{at}", f"c{at}") for at in range(9)])
    plan = solve(asked, Budget())
    assert not plan.unschedulable
    assert verify(asked, plan) == ()


def test_a_bound_holds_whichever_partitions_are_taken() -> None:
    """The allocator takes the first that matches, all of the device: another choice serves four pods."""
    parts = [("whole", 40), *((f"quarter-{at}", 10) for at in range(4))]
    pool = {
        "devices": [
            {
                "name": name,
                "consumesCounters": [
                    {"counterSet": "memory", "counters": {"memory": {"value": f"{size}Gi"}}}
                ],
            }
            for name, size in parts
        ],
        "sharedCounters": [{"name": "memory", "counters": {"memory": {"value": "40Gi"}}}],
    }
    made = TemplateSlice(
        "gpu.nvidia.com",
        "gpus",
        tuple(decode(one, Device) for one in pool["devices"]),
        tuple(decode(one, CounterSet) for one in pool["sharedCounters"]),
    )
    asked = problem([claim(f"c{at}", ("gpu", 1, "")) for at in range(4)], [], plain=0)
    pools = tuple(
        replace(
            one,
            instance_types=tuple(
                replace(kind, devices=TemplateDevices((made,))) for kind in one.instance_types
            ),
        )
        for one in asked.pools
    )
    asked = replace(asked, pools=pools, pods=tuple(pod(f"p{at}", f"c{at}") for at in range(4)))
    plan = solve(asked, Budget())
    assert verify(asked, plan) == ()
    assert len(plan.claims) == 4
    # One node that has room for all four is enough where quarters are taken.
    without = replace(asked, devices=None, pods=tuple(pod(f"p{at}") for at in range(4)))
    assert 0 < plan.cost.lower_bound <= solve(without, Budget()).cost.hourly


def test_pods_of_different_claims_share_the_devices_of_a_bound() -> None:
    claims = [claim("c0", ("gpu", 4, ""), match=ROOT), claim("c1", ("gpu", 4, ""), match=ROOT)]
    claims += [claim(f"c{at}", ("gpu", 1, "")) for at in range(2, 8)]
    asked = problem(claims, [pod(f"p{at}", f"c{at}") for at in range(8)])
    plan = solve(asked, Budget())
    assert not plan.unschedulable
    assert verify(asked, plan) == ()
    assert plan.cost.lower_bound > 0.95 * plan.cost.hourly


def test_what_no_type_has_is_left_over_with_the_nearest_miss() -> None:
    asked = problem(
        [claim("c", ("gpu", 1, f'{OWN}.productName == "H900"'))], [pod("p", "c"), pod("q", "none")]
    )
    plan = solve(asked, Budget())
    reasons = {item.pod: item.reason for item in plan.unschedulable}
    assert set(reasons) == {"d/p", "d/q"}
    assert 'claim "c" request "r0" wants 1 device' in reasons["d/p"]
    assert "H900" in reasons["d/p"]
    assert not any(item.pools for item in plan.unschedulable)
    assert reasons["d/q"] == 'resourceclaim "d/none" not found'
    assert verify(asked, plan) == ()


def test_what_is_left_over_for_other_reasons_says_nothing_of_rows() -> None:
    asked = problem([claim("c", ("gpu", 1, ""))], [pod("p", "c")])
    asked = replace(asked, pools=tuple(replace(pool, limits={"cpu": 0}) for pool in asked.pools))
    (left,) = [item for item in solve(asked, Budget()).unschedulable if item.pod == "d/p"]
    assert left.reason or left.pools
    assert "devices.dovetail" not in f"{left.reason} {left.pools}"


def test_without_knowledge_of_devices_the_pod_waits() -> None:
    asked = replace(problem([claim("c", ("gpu", 1, ""))], [pod("p", "c")]), devices=None)
    assert [item.reason for item in solve(asked, Budget()).unschedulable] == [DEVICES]


def test_the_checker_finds_a_device_that_is_given_twice() -> None:
    claims = [claim(f"c{at}", ("gpu", 1, "")) for at in range(2)]
    asked = problem(claims, [pod(f"p{at}", f"c{at}") for at in range(2)])
    plan = solve(asked, Budget())
    greedy = [claim("c0", ("gpu", 1, "")), claim("c1", ("gpu", 8, ""))]
    assert asked.devices is not None
    changed = replace(asked, devices=replace(asked.devices, claims={one.key: one for one in greedy}))
    assert {one.rule for one in verify(changed, plan)} == {"devices"}


def existing(asked: Problem, name: str, kind: str, *pods: Pod, initialized: bool = False) -> Problem:
    """The problem with a node that is there, of that type, with these pods."""
    found = next(one for one in asked.pools[0].instance_types if one.name == kind)
    node = ExistingNode(
        name=name,
        pool=asked.pools[0].name,
        labels={INSTANCE_TYPE: kind, "kubernetes.io/hostname": name},
        allocatable=dict(found.capacity),
        capacity=dict(found.capacity),
        taints=(),
        initialized=initialized,
        pods=pods,
    )
    return replace(asked, nodes=(*asked.nodes, node))


def test_pods_with_a_place_on_a_node_on_its_way_hold_its_devices() -> None:
    """A type with one GPU: the next pod that claims one needs another node."""
    claims = [claim(f"c{at}", ("gpu", 1, "")) for at in range(2)]
    asked = problem(claims, [pod("p1", "c1")], plain=0)
    one = next(
        kind.name
        for kind in asked.pools[0].instance_types
        if [len(each.devices) for each in kind.devices.slices if each.driver == "gpu.nvidia.com"] == [1]
    )
    coming = existing(asked, "coming", one, pod("p0", "c0"))
    assert not solve(existing(asked, "coming", one), Budget()).claims
    plan = solve(coming, Budget())
    assert [one.pods for one in plan.claims] == [("d/p1",)]
    assert verify(coming, plan) == ()


def test_pods_that_would_be_moved_hold_nothing_where_they_still_are() -> None:
    """As consolidation sees them: they are not tied to the nodes that they would leave, nor do they take
    devices there that are free for others.
    """
    claims = [claim(f"c{at}", ("gpu", 1, "")) for at in range(3)]
    pods = [pod(f"p{at}", f"c{at}") for at in range(3)]
    asked = problem(claims, pods, plain=0)
    kinds = [
        one
        for one in asked.pools[0].instance_types
        if one.devices == sold(REAL[0], None, gpus=True, efas=True)
    ]
    four = max(kinds, key=lambda kind: kind.capacity["cpu"]).name
    asked = existing(existing(asked, "left", four, *pods[:2]), "right", four, pods[2])
    seen = in_rows(asked)
    (row,) = {name for one in seen.pods for name in one.spec.containers[0].resources.requests} & {f"{ROW}0"}
    assert [node.allocatable[row] for node in seen.nodes] == [4, 4]
    for moved, stays in ((seen.pods[:2], seen.nodes[1]), (seen.pods[2:], seen.nodes[0])):
        plan = solve(replace(seen, pods=moved, nodes=(stays,)), Budget())
        assert dict(plan.existing) == {stays.name: tuple(one.key for one in moved)}


@pytest.mark.parametrize("room", [True, False])
def test_a_claim_that_is_allocated_on_a_node_keeps_its_pods_there(room: bool) -> None:
    """As kube-scheduler writes it: by the node's name."""
    ours = claim("c0", ("gpu", 1, ""))
    selector = {
        "nodeSelectorTerms": [
            {
                "matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["here" if room else "gone"]}
                ]
            }
        ]
    }
    result = {"request": "r0", "driver": "gpu.nvidia.com", "pool": "here", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
    ours = msgspec.structs.replace(ours, status=decode({"status": status}, ResourceClaim).status)
    asked = problem([ours], [pod("p", "c0")], plain=0)
    asked = existing(asked, "there", asked.pools[0].instance_types[0].name, initialized=True)
    asked = existing(asked, "here", asked.pools[0].instance_types[0].name, initialized=True)
    plan = solve(asked, Budget())
    assert verify(asked, plan) == ()
    assert not plan.claims
    assert dict(plan.existing) == ({"here": ("d/p",)} if room else {})
    reasons = [item.reason for item in plan.unschedulable]
    assert reasons == (
        [] if room else ["devices of its claims are allocated on node gone, which has no place for it"]
    )


@pytest.mark.parametrize(
    ("pods", "nodes"),
    [
        # Each pod with the claims that it names; pods that have to be on one node.
        ([("c0",), ("c0",), ("c0",)], [{0, 1, 2}]),
        ([("c0",), ("c0", "c1"), ("c1",), ("c2",)], [{0, 1, 2}]),
        ([("c0", "c1"), ("c2",), ("c1", "c2")], [{0, 1, 2}]),
        ([("c0",), ("c0",), ("c1",), ("c1",)], [{0, 1}, {2, 3}]),
        ([("c0",) for _ in range(12)], [set(range(12))]),
    ],
)
def test_pods_that_share_claims_are_planned_together(
    pods: list[tuple[str, ...]], nodes: list[set[int]]
) -> None:
    claims = [claim(f"c{at}", ("gpu", 1 + at % 2, "")) for at in range(3)]
    asked = problem(claims, [pod(f"p{at}", *mine) for at, mine in enumerate(pods)])
    plan = solve(asked, Budget())
    assert not plan.unschedulable
    assert verify(asked, plan) == ()
    for together in nodes:
        keys = {f"d/p{at}" for at in together}
        assert any(keys <= set(one.pods) for one in plan.claims), plan.claims


def test_pods_that_share_claims_of_which_no_node_has_enough_all_wait() -> None:
    """No type has 17 GPUs: no pod is planned for as if it claimed nothing."""
    claims = [claim("c0", ("gpu", 1, "")), claim("c1", ("gpu", 16, ""))]
    asked = problem(claims, [pod("p0", "c0"), pod("p1", "c0", "c1"), pod("p2", "c1")], plain=0)
    plan = solve(asked, Budget())
    assert {one.pod for one in plan.unschedulable} == {"d/p0", "d/p1", "d/p2"}
    assert not plan.claims
    shared = "it shares claims for devices with 2 other pods, all of which have to be on one node; "
    assert all(one.reason.startswith(f"{shared}allocating dynamic resources") for one in plan.unschedulable)
    assert verify(asked, plan) == ()


def test_the_next_pod_of_a_claim_comes_to_the_node_that_was_bought_for_the_first() -> None:
    asked = problem([claim("c0", ("gpu", 1, ""))], [pod("p1", "c0")], plain=0)
    kind = [one.name for one in asked.pools[0].instance_types if one.devices.slices][-1]
    other = existing(asked, "other", kind)
    plan = solve(existing(other, "coming", kind, pod("p0", "c0")), Budget())
    assert dict(plan.existing) == {"coming": ("d/p1",)}


@pytest.mark.parametrize("pins", [True, False])
def test_pods_that_share_what_every_node_can_use_may_be_apart(pins: bool) -> None:
    """A device of the network, of which no node has its own."""
    spec = {"driver": "net.example.com", "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1}}
    fabric = decode({"spec": {**spec, "allNodes": True, "devices": [{"name": "d0"}]}}, ResourceSlice)
    selector = {"cel": {"expression": 'device.driver == "net.example.com"'}}
    net = decode({"metadata": {"name": "net"}, "spec": {"selectors": [selector]}}, DeviceClass)
    claims = [claim("c0", ("net", 1, ""))] + ([claim("c1", ("gpu", 1, ""))] if pins else [])
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    names = [one.metadata.name for one in claims]
    pods = [msgspec.structs.replace(pod(f"p{at}", *names)) for at in range(2)]
    pods = [
        msgspec.structs.replace(
            one,
            metadata=msgspec.structs.replace(one.metadata, labels={"a": "b"}),
            spec=msgspec.structs.replace(one.spec, affinity=decode(rule, Affinity)),
        )
        for one in pods
    ]
    asked = problem(claims, pods, plain=0)
    assert asked.devices is not None
    known = replace(asked.devices, classes={**CLASSES, "net": net}, slices=(fabric,))
    asked = replace(asked, devices=known)
    plan = solve(asked, Budget())
    assert verify(asked, plan) == ()
    assert len(plan.unschedulable) == (1 if pins else 0)


def test_costly_expressions_end_together_and_leave_cheap_ones_theirs() -> None:
    """1,024 of them, each of which may take a fiftieth of all steps that there are."""
    (device,) = template_pools(
        TemplateDevices((TemplateSlice("gpu.nvidia.com", "gpus", (decode({"name": "gpu-0"}, Device),)),))
    )[0].candidates
    many = ", ".join(map(str, range(40)))
    answers = Answers()
    for at in range(1024):
        loops = f"[{many}].all(x, [{many}].all(y, [{many}].all(z, x + y + z + {at} >= 0)))"
        assert answers.answer(selector(loops), device) is not True
    assert answers.steps < 1_000_000 + 50_000 + 1024 * 2_000 + 1024 * 100
    assert answers.answer(selector('device.driver == "gpu.nvidia.com"'), device) is True
