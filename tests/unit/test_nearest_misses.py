"""What stands between a pod and a place, in amounts that people use, and what would help."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.explain.change import widened
from dovetail.explain.pod import PodStory, nearest_misses, pod_story
from dovetail.model.label_values import Requirement
from dovetail.solve.solver import solve
from dovetail.testing.scenarios import to_problem

ZONE, ARCH, HOST = "topology.kubernetes.io/zone", "kubernetes.io/arch", "kubernetes.io/hostname"
CAPACITY = "karpenter.sh/capacity-type"


def instance_type(name: str, cpu: int, zones: str = "ab", **extra: str) -> dict[str, Any]:
    offerings = [
        {
            "price": 0.05 * cpu,
            "available": True,
            "requirements": {ZONE: f"z-{zone}", CAPACITY: "on-demand"},
        }
        for zone in zones
    ]
    return {
        "name": name,
        "requirements": [
            {"key": ZONE, "operator": "In", "values": [f"z-{zone}" for zone in zones]},
            {"key": ARCH, "operator": "In", "values": ["amd64"]},
            {"key": "size", "operator": "In", "values": [str(cpu)]},
        ],
        "offerings": offerings,
        "capacity": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "20", **extra},
        "overhead": {"memory": "512Mi"},
    }


def pool(name: str = "np", *requirements: dict[str, Any], **spec: Any) -> dict[str, Any]:
    reference = {"group": "example.com", "kind": "Class", "name": "any"}
    template: dict[str, Any] = {"nodeClassRef": reference, "requirements": list(requirements)}
    if "taints" in spec:
        template["taints"] = spec.pop("taints")
    return {"metadata": {"name": name}, "spec": {"template": {"spec": template}, **spec}}


def pod(name: str = "web", cpu: str = "1", memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    extra = spec.pop("extra", {})
    requests = {"cpu": cpu, "memory": memory, **extra}
    container = {"name": "c", "resources": {"requests": requests}, "ports": spec.pop("ports", [])}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name.partition("-")[0]}},
        "spec": {"containers": [container], **spec},
    }


def story(pods: list[dict[str, Any]], name: str, *pools: dict[str, Any], **more: Any) -> PodStory:
    scenario = {
        "nodePools": list(pools) or [pool()],
        "instanceTypes": [instance_type("small", 2), instance_type("large", 4)],
        "wellKnownLabels": [ZONE, CAPACITY, ARCH, "size", HOST],
        "pods": pods,
        **more,
    }
    problem = to_problem(scenario)
    plan = solve(problem)
    found = pod_story(problem, plan, f"default/{name}")
    listed = nearest_misses(problem, plan).get(f"default/{name}", {})
    # The list of `dovetail plan` and the story say the same.
    assert listed == {item.pool: item.text for item in found.verdict.pools if found.reason}
    return found


def miss(requests: dict[str, Any], *pools: dict[str, Any], **more: Any) -> tuple[str, list[str]]:
    """The nearest miss in the first pool, and the changes that help."""
    found = story([pod(**requests)], "web", *pools, **more)
    assert found.reason
    assert found.verdict.refused
    first = found.verdict.pools[0]
    return first.text, [" and ".join(change.words for change in way.changes) for way in first.ways]


def spread(key: str, **fields: Any) -> dict[str, Any]:
    chosen = {"labelSelector": {"matchLabels": {"app": "web"}}, "maxSkew": 1}
    return {"topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **chosen, **fields}


def affinity(kind: str, key: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


GPU_TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("requests", "pools", "text", "helps"),
    [
        (
            {"memory": "18Gi"},
            (),
            "needs 2.5 GiB more memory than the largest allowed type, large, has for pods "
            "(18 GiB of 15.5 GiB)",
            ["request at most 15.5 GiB memory"],
        ),
        (
            {"cpu": "2500m"},
            (pool("np", {"key": "size", "operator": "Lt", "values": ["4"]}),),
            "needs 0.5 more CPU than the largest allowed type, small, has for pods (2.5 of 2)",
            ["let NodePool np buy size 4", "request at most 2 CPU"],
        ),
        (
            {"extra": {"example.com/fpga": "1"}},
            (),
            "the pod needs 1 example.com/fpga, no type of the pool has any",
            [],
        ),
        (
            {"nodeSelector": {ZONE: "z-c"}},
            (pool("np", {"key": ZONE, "operator": "In", "values": ["z-a", "z-b"]}),),
            "zone z-c is not in the pool, which allows z-a or z-b",
            ["do not ask for zone z-c"],
        ),
        (
            {"nodeSelector": {ZONE: "z-c"}},
            (),
            "the pod needs zone z-c, the pool can buy z-a and z-b",
            ["do not ask for zone z-c"],
        ),
        (
            {"nodeSelector": {"team": "a"}},
            (pool("np", {"key": "example.com/team", "operator": "In", "values": ["a"]}),),
            'no node of the pool has the label "team"; did you mean example.com/team?',
            ["do not ask for team a"],
        ),
        (
            {"nodeSelector": {ARCH: "arm64"}, "cpu": "9"},
            (),
            "the pod needs architecture arm64, the pool can buy amd64; "
            "needs 5 more CPU than the largest allowed type, large, has for pods (9 of 4)",
            ["do not ask for architecture arm64 and request at most 4 CPU"],
        ),
        (
            {},
            (pool(taints=[GPU_TAINT]),),
            "taint dedicated=gpu:NoSchedule is not tolerated",
            ["tolerate dedicated=gpu:NoSchedule"],
        ),
        (
            {"cpu": "3"},
            (pool(limits={"cpu": "3"}),),
            "limit of 3 CPU: 3 left, large takes 4",
            ["raise the limit cpu of NodePool np to 4", "request at most 2 CPU"],
        ),
        (
            {},
            (pool(limits={"nodes": "0"}),),
            "limit of 0 nodes: none left",
            ["raise the limit nodes of NodePool np to 1"],
        ),
        (
            {"cpu": "3"},
            (pool("np", {"key": "size", "operator": "Exists", "minValues": 2}),),
            "minValues 2 of size: only 1 among what could hold the pod",
            ["lower minValues of size in NodePool np to 1"],
        ),
        (
            {"affinity": affinity("podAffinity", ZONE, "ghost")},
            (),
            "affinity to app=ghost in namespace default: no such pod runs or is planned",
            ["make the pod affinity over zone preferred"],
        ),
    ],
)
def test_the_nearest_miss_and_what_would_help(
    requests: dict[str, Any], pools: tuple[dict[str, Any], ...], text: str, helps: list[str]
) -> None:
    assert miss(requests, *pools) == (text, helps)


def test_daemons_are_named_where_they_take_the_room() -> None:
    agent = {
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "resources": {"requests": {"cpu": "500m"}},
                            "ports": [{"hostPort": 9100, "containerPort": 9100}],
                        }
                    ]
                },
            },
        },
    }
    text, helps = miss({"cpu": "3800m"}, daemonSets=[agent])
    assert text.endswith("(3.8 of 3.5); daemons take 0.5 there")
    assert helps == ["request at most 3.5 CPU"]
    text, helps = miss({"ports": [{"hostPort": 9100, "containerPort": 9100}]}, daemonSets=[agent])
    assert text == "a daemon of the pool's nodes holds one of its host ports (9100)"
    assert helps == ["use no host port"]


def test_a_pod_that_keeps_off_all_pools_has_that_reason() -> None:
    expression = {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity_ = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    text, helps = miss({"affinity": affinity_})
    assert text == "the pod needs nodes without the label karpenter.sh/nodepool, the pool's have it"
    assert helps == ["allow a label NodePool"]


def test_what_is_sold_out_is_kept_apart_from_what_is_too_small() -> None:
    large = instance_type("large", 4, "a")
    large["offerings"][0]["available"] = False
    text, helps = miss({"cpu": "3"}, instanceTypes=[instance_type("small", 2), large])
    assert text in (
        "on-demand large cannot be had in z-a now",
        "needs 1 more CPU than the largest allowed type, small, has for pods (3 of 2)",
    )
    assert helps == ["request at most 2 CPU"]


def test_what_has_no_price_is_not_called_sold_out() -> None:
    large = instance_type("large", 4, "a")
    large["offerings"][0].update(available=False, price=0)
    text, _ = miss({"cpu": "1"}, instanceTypes=[large])
    assert text == "on-demand large is not bought, as its price is unknown in z-a"


def test_a_spread_names_the_domains_and_their_counts() -> None:
    constraint = spread(ZONE, minDomains=3)
    pods = [pod(f"web-{number}", topologySpreadConstraints=[constraint]) for number in range(3)]
    found = story(pods, "web-2")
    (verdict,) = found.verdict.pools
    assert verdict.text == (
        "spread over zone, maxSkew 1, of app=web in namespace default: "
        "zone z-a has 1 (minDomains 3, but only 2 can be reached)"
    )
    assert [way.changes[0].words for way in verdict.ways] == [
        "make the topology spread over zone ScheduleAnyway"
    ]


def test_two_pods_that_keep_apart_need_two_zones() -> None:
    apart = affinity("podAntiAffinity", ZONE, "web")
    pods = [pod(f"web-{number}", affinity=apart) for number in range(3)]
    (verdict,) = story(pods, "web-2").verdict.pools
    assert verdict.text == "anti-affinity to app=web in namespace default: zone z-a runs 1 of them"
    assert [way.changes[0].words for way in verdict.ways] == [
        "make the pod anti-affinity over zone preferred"
    ]


def node(name: str, zone: str, cpu: str, **spec: Any) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "metadata": {"name": name, "labels": {ZONE: zone, HOST: name, ARCH: "amd64"}},
        "spec": spec,
        "status": {"capacity": room, "allocatable": room},
    }


def test_nodes_are_counted_by_the_first_rule_that_fails_and_the_nearest_is_named() -> None:
    nodes = [node("n1", "z-a", "4", taints=[GPU_TAINT]), node("n2", "z-a", "2"), node("n3", "z-b", "5")]
    found = story([pod(cpu="6")], "web", pool(limits={"nodes": "0"}), nodes=nodes)
    counted = found.verdict.nodes
    assert counted.reasons == (("not enough CPU", 2), ("taint dedicated=gpu:NoSchedule is not tolerated", 1))
    assert counted.nearest == "n3"
    assert [item.text for item in counted.misses] == ["1 CPU short (needs 6, 5 free)"]


def test_of_a_pod_that_has_a_place_its_node_and_what_else_there_was_is_shown() -> None:
    found = story([pod(cpu="3")], "web", pool("cheap"), pool("gpu", taints=[GPU_TAINT]))
    assert found.claim is not None
    assert found.claim.instance_type == "large"
    offers = {
        item.pool: item.offer.instance_type if item.offer else item.text for item in found.verdict.pools
    }
    assert offers == {"cheap": "large", "gpu": "taint dedicated=gpu:NoSchedule is not tolerated"}


def test_preferences_that_were_given_up_are_named() -> None:
    wish = {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z-x"]}]},
    }
    near = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "ghost"}}}
    together = {"weight": 5, "podAffinityTerm": near}
    wishes = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]},
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [together]},
    }
    found = story([pod(affinity=wishes)], "web")
    assert found.given_up == (
        "preferred pod affinity (app=ghost over zone)",
        "preferred node affinity (zone z-x)",
    )


@pytest.mark.parametrize(
    ("item", "value", "allowed"),
    [
        (Requirement.new("k", "In", ["a"]), "b", ["a", "b"]),
        (Requirement.new("k", "NotIn", ["a"]), "a", ["a", "z"]),
        (Requirement.new("k", "Gt", ["4"]), "2", ["2", "4", "9"]),
        (Requirement.new("k", "Lt", ["4"]), "8", ["8", "1"]),
        (Requirement.new("k", "Lt", ["4"]), "word", ["word", "1", "9"]),
    ],
)
def test_a_requirement_is_widened_by_one_value(item: Requirement, value: str, allowed: list[str]) -> None:
    wider = widened(item, value)
    assert all(wider.has(each) for each in allowed)
