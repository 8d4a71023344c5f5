"""The checker: a correct plan passes, and every planted fault is found by its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Pod, Taint
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.workloads import DaemonSet
from dovetail.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, WELL_KNOWN, ZONE
from dovetail.model.offering import InstanceType, Offering, Overhead
from dovetail.model.plan import Cost, Plan, PlannedClaim, Unschedulable
from dovetail.model.problem import ExistingNode, Options, Pool, Problem
from dovetail.model.requirement import Requirement, Requirements
from dovetail.verify import verify
from dovetail.verify.worlds import Catalogue

GI = 1024**3


def instance_type(name: str, cpu: int, price: int) -> InstanceType:
    offerings = tuple(
        Offering(
            zone,
            capacity_type,
            price * (10 if capacity_type == "on-demand" else 3),
            Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: capacity_type}),
            available=not (zone == "c" and capacity_type == "spot"),
        )
        for zone in ("a", "b", "c")
        for capacity_type in ("on-demand", "spot")
    )
    requirements = Requirements.of(
        (
            Requirement.new(INSTANCE_TYPE, "In", [name]),
            Requirement.new(ZONE, "In", ["a", "b", "c"]),
            Requirement.new(CAPACITY_TYPE, "In", ["on-demand", "spot"]),
            Requirement.new("example.com/family", "In", [name[0]]),
        )
    )
    return InstanceType(name, requirements, offerings, {"cpu": cpu, "memory": cpu * GI // 250, "pods": 10})


SMALL, LARGE = instance_type("m.small", 1000, 100), instance_type("r.large", 4000, 400)


def pool(name: str, weight: int = 0, **fields: Any) -> Pool:
    labels = {NODEPOOL: name}
    requirements = Requirements.from_labels(labels).add(*fields.pop("requirements", ()))
    return Pool(
        name,
        NodeClassRef(group="g", kind="k", name="c"),
        requirements,
        labels,
        (SMALL, LARGE),
        weight=weight,
        **fields,
    )


def pod(name: str, cpu: str = "300m", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    container = {"resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}
    return decode(
        {
            "metadata": {"name": name, "namespace": "d", "labels": labels or {}},
            "spec": {"containers": [container], **spec},
        },
        Pod,
    )


def spread(key: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    return [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    ]


DAEMON = decode(
    {
        "metadata": {"name": "agent", "namespace": "d"},
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"resources": {"requests": {"cpu": "200m"}}, "ports": [{"hostPort": 99}]}]
                }
            }
        },
    },
    DaemonSet,
)
WEB = [
    pod(f"web-{zone}", labels={"app": "web"}, topologySpreadConstraints=spread(ZONE))
    for zone in ("a", "b", "c")
]
APPS = [pod("app-0"), pod("app-1"), pod("app-2", nodeSelector={ZONE: "a"})]
NODE = ExistingNode(
    name="old",
    labels={"kubernetes.io/hostname": "old", ZONE: "b"},
    taints=(),
    allocatable={"cpu": 800, "memory": GI, "pods": 4},
    capacity={"cpu": 1000, "memory": GI, "pods": 4},
)
PROBLEM = Problem(
    pods=(*WEB, *APPS, pod("huge", cpu="9")),
    pools=(pool("first", 10, limits={"cpu": 9000, "nodes": 4}), pool("second")),
    nodes=(NODE,),
    daemonsets=(DAEMON,),
    options=Options(well_known=WELL_KNOWN),
)


def claim(
    name: str, pods: tuple[str, ...], zone: str = "", types: tuple[str, ...] = ("m.small",)
) -> PlannedClaim:
    own = [Requirement.new(INSTANCE_TYPE, "In", types)]
    if zone:
        own.append(Requirement.new(ZONE, "In", [zone]))
    capacity_type = "on-demand" if zone == "c" else "spot"
    cheapest = SMALL if "m.small" in types else LARGE
    return PlannedClaim(
        name=name,
        pool="first",
        pods=pods,
        requirements=Requirements.from_labels({NODEPOOL: "first"}).add(*own),
        instance_types=types,
        requests={"cpu": 300 * len(pods) + 200, "pods": len(pods) + 1},
        instance_type=cheapest.name,
        zone=zone or "a",
        capacity_type=capacity_type,
        price=min(
            item.price
            for item in cheapest.offerings
            if item.zone == (zone or "a") and item.capacity_type == capacity_type
        ),
        worst=max(
            item.price
            for kind in (SMALL, LARGE)
            for item in kind.offerings
            if kind.name in types and zone in ("", item.zone)
        ),
    )


def plan(*claims: PlannedClaim, **fields: Any) -> Plan:
    hourly = sum(item.price for item in claims)
    return Plan(
        claims=claims,
        existing=fields.pop("existing", {"old": ("d/app-1",)}),
        unschedulable=fields.pop("unschedulable", (Unschedulable("d/huge", "no instance type has enough"),)),
        cost=fields.pop("cost", Cost(hourly, hourly // 2)),
    )


CLAIMS = (
    claim("first-0", ("d/app-2", "d/web-a"), "a", ("m.small", "r.large")),
    claim("first-1", ("d/web-b",), "b"),
    claim("first-2", ("d/app-0", "d/web-c"), "c"),
)
GOOD = plan(*CLAIMS)


def changed(index: int, **fields: Any) -> Plan:
    claims = list(CLAIMS)
    claims[index] = replace(claims[index], **fields)
    return plan(*claims)


def with_pods(*extra: Pod) -> Problem:
    keys = {item.key for item in extra}
    return replace(PROBLEM, pods=(*(item for item in PROBLEM.pods if item.key not in keys), *extra))


def test_a_correct_plan_passes() -> None:
    assert verify(PROBLEM, GOOD) == ()


def test_a_pod_with_devices_is_left_over_for_a_reason() -> None:
    huge, claims = Unschedulable("d/huge", "no instance type has enough"), [{"name": "gpu"}]
    left = plan(*CLAIMS, unschedulable=(huge, Unschedulable("d/new", "not supported")))
    assert verify(with_pods(pod("new", resourceClaims=claims)), left) == ()
    assert [one.rule for one in verify(with_pods(pod("new")), left)] == ["left over"]


FAULTS: dict[str, tuple[str, Callable[[], tuple[Problem, Plan]]]] = {
    "a pod is in two places": (
        "accounting",
        lambda: (PROBLEM, plan(*CLAIMS, existing={"old": ("d/app-0", "d/app-1")})),
    ),
    "a pod is forgotten": ("accounting", lambda: (PROBLEM, plan(*CLAIMS, existing={}))),
    "a pod with devices is placed": (
        "devices",
        lambda: (with_pods(pod("app-1", resourceClaims=[{"name": "gpu"}])), GOOD),
    ),
    "the existing node is too small": (
        "existing node",
        lambda: (with_pods(pod("app-1", cpu="700m")), GOOD),
    ),
    "a listed type is too small once its daemon runs": (
        "resources",
        lambda: (with_pods(pod("app-0", cpu="600m")), changed(2, requests={"cpu": 2000, "pods": 3})),
    ),
    "a taint of the pool is not tolerated": (
        "taints",
        lambda: (
            replace(PROBLEM, pools=(replace(PROBLEM.pools[0], taints=(TAINT,)), PROBLEM.pools[1])),
            plan(*(replace(item, taints=(TAINT,)) for item in CLAIMS)),
        ),
    ),
    "a node selector is not met": (
        "node affinity",
        lambda: (with_pods(pod("app-0", nodeSelector={ZONE: "a"})), GOOD),
    ),
    "host ports clash with a daemon's": (
        "host ports",
        lambda: (with_pods(pod("app-0", ports=[{"hostPort": 99}])), GOOD),
    ),
    "an offering is not available": (
        "offerings",
        lambda: (
            PROBLEM,
            changed(
                2,
                requirements=CLAIMS[2].requirements.add(Requirement.new(CAPACITY_TYPE, "In", ["spot"])),
            ),
        ),
    ),
    "the price is not the cheapest": ("price", lambda: (PROBLEM, changed(0, price=CLAIMS[0].price * 2))),
    "the claim asks for more than its pool allows": (
        "pool",
        lambda: (
            replace(
                PROBLEM,
                pools=(
                    pool("first", 10, requirements=[Requirement.new(CAPACITY_TYPE, "In", ["spot"])]),
                    PROBLEM.pools[1],
                ),
            ),
            GOOD,
        ),
    ),
    "limits are passed within the batch": (
        "limits",
        lambda: (replace(PROBLEM, pools=(pool("first", 10, limits={"cpu": 5000}), PROBLEM.pools[1])), GOOD),
    ),
    "node limits are passed within the batch": (
        "limits",
        lambda: (replace(PROBLEM, pools=(pool("first", 10, limits={"nodes": 2}), PROBLEM.pools[1])), GOOD),
    ),
    "too few families for minValues": (
        "minValues",
        lambda: (
            replace(
                PROBLEM,
                pools=(
                    pool("first", 10, requirements=[Requirement.new("example.com/family", "Exists", (), 2)]),
                    PROBLEM.pools[1],
                ),
            ),
            plan(
                *(
                    replace(
                        item,
                        requirements=item.requirements.add(Requirement.new("example.com/family", "Exists")),
                    )
                    for item in CLAIMS
                )
            ),
        ),
    ),
    "a skew is too large": (
        "between pods",
        lambda: (
            PROBLEM,
            plan(
                claim("first-0", ("d/app-2", "d/web-a"), "a"),
                claim("first-1", ("d/web-b", "d/web-c"), "a"),
                claim("first-2", ("d/app-0",), "c"),
            ),
        ),
    ),
    "a zone that could be opened stays empty": (
        "spread",
        lambda: (
            replace(PROBLEM, pools=(pool("first", 10), PROBLEM.pools[1])),
            plan(
                claim("first-0", ("d/app-2", "d/web-a"), "a"),
                claim("first-1", ("d/web-b", "d/web-c"), "a"),
                claim("first-2", ("d/app-0",)),
                existing={"old": ("d/app-1",)},
            ),
        ),
    ),
    "an affinity has no pod to be near": (
        "between pods",
        lambda: (with_pods(pod("app-0", affinity=near("podAffinity", "nobody"))), GOOD),
    ),
    "an anti-affinity is broken": (
        "between pods",
        lambda: (with_pods(pod("app-0", affinity=near("podAntiAffinity", "web"))), GOOD),
    ),
    "a zone that pods are counted by is left open": (
        "undecided",
        lambda: (
            PROBLEM,
            plan(
                claim("first-0", ("d/app-2", "d/web-a"), "a"),
                *CLAIMS[1:2],
                claim("first-2", ("d/app-0", "d/web-c")),
            ),
        ),
    ),
    "a pool of lower weight is used without need": (
        "weight",
        lambda: (
            replace(PROBLEM, pools=(pool("best", 20), *PROBLEM.pools)),
            plan(*CLAIMS, claim("first-3", ("d/app-1",)), existing={}),
        ),
    ),
    "a pod is left over that would fit": (
        "left over",
        lambda: (
            PROBLEM,
            plan(*CLAIMS, existing={}, unschedulable=(*GOOD.unschedulable, Unschedulable("d/app-1", "?"))),
        ),
    ),
    "the bound is above the cost": (
        "cost",
        lambda: (PROBLEM, replace(GOOD, cost=Cost(GOOD.cost.hourly, 10**15))),
    ),
    "the cost is not the sum": ("cost", lambda: (PROBLEM, replace(GOOD, cost=Cost(1, 0)))),
}
TAINT = Taint(key="team", value="x", effect="NoSchedule")


def near(kind: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    rule, build = FAULTS[name]
    assert rule in {item.rule for item in verify(*build())}


def test_order_is_found_where_only_some_orders_work() -> None:
    """The follower may only come after the pod that it wants to be near."""
    follower = pod("app-0", affinity=near("podAffinity", "web"))
    assert verify(with_pods(follower), GOOD) == ()


def test_placing_on_nodes_in_flight_counts_their_daemons() -> None:
    node = replace(NODE, in_flight=True, allocatable={"cpu": 400, "memory": GI, "pods": 4})
    found = verify(replace(PROBLEM, nodes=(node,)), GOOD)
    assert [(item.rule, item.subject) for item in found] == [("existing node", "old")]


@pytest.mark.parametrize(("wanted", "rules"), [(("m.small", "r.large"), {"spread"}), (("m.small",), set())])
def test_a_zone_that_sells_no_type_of_the_pool_does_not_count_as_empty(
    wanted: tuple[str, ...], rules: set[str]
) -> None:
    sold_out = replace(
        SMALL, offerings=tuple(replace(one, available=one.zone != "c") for one in SMALL.offerings)
    )
    only = pool("first", requirements=[Requirement.new(INSTANCE_TYPE, "In", wanted)])
    _, build = FAULTS["a zone that could be opened stays empty"]
    problem, crowded = build()
    found = verify(replace(problem, pools=(replace(only, instance_types=(sold_out, LARGE)),)), crowded)
    assert {item.rule for item in found} & {"spread"} == rules


def copies(template: Pod, count: int) -> tuple[Pod, ...]:
    """As a workload makes them: one spec, each with its own name."""
    meta = template.metadata
    return tuple(
        msgspec.structs.replace(template, metadata=msgspec.structs.replace(meta, name=f"copy-{index}"))
        for index in range(count)
    )


FIELD = {
    "key": "metadata.name",
    "operator": "In",
    "values": ["first-0"],
}
BY_NAME = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [FIELD]}]}
    }
}


@pytest.mark.parametrize(
    ("spec", "change", "wrong"),
    [
        ({}, {}, set()),
        ({}, {"price": 1}, {("price", "first-2")}),
        ({}, {"requests": {"cpu": 10}}, {("requests", "first-2")}),
        ({}, {"instance_types": ("m.small", "r.large")}, {("offerings", "first-2"), ("price", "first-2")}),
        ({"cpu": "1100m"}, {}, {("resources", name) for name in ("first-0", "first-1", "first-2")}),
        # A node's name counts where a pod asks for it: what the first one is to the pod, the others are not.
        ({"affinity": BY_NAME}, {}, {("node affinity", "d/copy-1"), ("node affinity", "d/copy-2")}),
    ],
)
def test_claims_with_equal_content_are_judged_as_if_alone(
    spec: dict[str, Any], change: dict[str, Any], wrong: set[tuple[str, str]]
) -> None:
    pods = copies(pod("copy", **spec), 3)
    problem = Problem(pods=pods, pools=(pool("first"),), options=Options(well_known=WELL_KNOWN))
    cpu = 1100 if spec.get("cpu") else 300
    claims = [
        replace(claim(f"first-{index}", (one.key,), "a"), requests={"cpu": cpu, "pods": 1})
        for index, one in enumerate(pods)
    ]
    claims[2] = replace(claims[2], **change)
    found = verify(problem, plan(*claims, existing={}, unschedulable=()))
    assert {(item.rule, item.subject) for item in found} - {("cost", "plan")} >= wrong
    assert {item.subject for item in found if item.rule in dict(wrong)} == {name for _, name in wrong}


def test_worlds_that_plans_share_are_not_those_of_other_types_or_of_what_is_sold_out() -> None:
    """What follows from a pool's types is kept from plan to plan."""

    def sold(offering: Callable[[Offering], Offering]) -> Problem:
        kinds = tuple(
            replace(kind, offerings=tuple(map(offering, kind.offerings))) for kind in (SMALL, LARGE)
        )
        return replace(PROBLEM, pools=tuple(replace(one, instance_types=kinds) for one in PROBLEM.pools))

    dearer = sold(lambda item: replace(item, price=item.price + 1))
    gone = sold(lambda item: replace(item, available=False))
    for problem, rules in ((PROBLEM, set()), (dearer, {"price"}), (gone, {"offerings"}), (PROBLEM, set())):
        assert {item.rule for item in verify(problem, GOOD)} == rules
    drawing = sold(lambda item: replace(item, draws=(("quota", 1),)))
    for left, count in ((9, 5), (0, 0), (9, 5)):
        catalogue = Catalogue(replace(drawing, commons={"quota": left}))
        one = drawing.pools[0]
        assert len(catalogue.worlds_of_type(one, one.requirements, {}, SMALL.name)) == count


def test_a_type_that_two_pools_sell_has_the_room_of_each() -> None:
    """What a node class reserves differs, the type's name does not."""
    one, other = pod("one"), pod("other")
    kept = replace(SMALL, overhead=Overhead(kube_reserved={"cpu": 800}))
    pools = (pool("first"), replace(pool("second"), instance_types=(kept, LARGE)))
    problem = Problem(pods=(one, other), pools=pools, options=Options(well_known=WELL_KNOWN))
    claims = [claim("first-0", (one.key,), "a"), claim("second-0", (other.key,), "a")]
    asked = Requirements.of(
        Requirement.new(NODEPOOL, "In", ["second"]) if item.key == NODEPOOL else item
        for item in claims[1].requirements
    )
    claims[1] = replace(claims[1], pool="second", requirements=asked)
    found = verify(problem, plan(*claims, existing={}, unschedulable=()))
    assert {item.subject for item in found if item.rule == "resources"} == {"second-0"}
