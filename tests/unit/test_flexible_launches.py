"""What a claim leaves the cloud to choose from: every type that holds its pods, its worst price, its limits.

And for spot: room for many types, and what that costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cli.main import run
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build, well_known_keys
from dovetail.explain.spot_diversity import diversity_cost
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan, PlannedClaim
from dovetail.model.problem import Budget, Options, Problem
from dovetail.solve.solver import solve
from dovetail.verify import verify

REFERENCE = {"group": "example.com", "kind": "NodeClass", "name": "default"}
GI = 1 << 30


def entry(name: str, cpu: str, memory: str, **prices: float) -> dict[str, Any]:
    """A type; prices by capacity type and zone, such as spot_a=0.1 or od_b=0.3."""
    kinds = {"spot": labels.SPOT, "od": labels.ON_DEMAND}
    offerings = []
    for key, price in prices.items():
        kind, zone = key.split("_")
        offerings.append(
            {"price": price, "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: kinds[kind]}}
        )
    return {
        "name": name,
        "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [name]}],
        "offerings": offerings,
        "capacity": {"cpu": cpu, "memory": memory, "pods": "50"},
    }


def pool(capacity_types: Iterable[str] = (), *, least: int = 0, **spec: Any) -> NodePool:
    """`least` is the pool's minValues of instance types."""
    wanted: list[dict[str, Any]] = []
    if capacity_types:
        wanted.append({"key": labels.CAPACITY_TYPE, "operator": "In", "values": list(capacity_types)})
    if least:
        wanted.append({"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": least})
    template = {"spec": {"nodeClassRef": REFERENCE, "requirements": wanted}}
    return decode({"metadata": {"name": "default"}, "spec": {"template": template, **spec}}, NodePool)


def pod(name: str, cpu: str, memory: str) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    return decode({"metadata": {"name": name, "namespace": "d"}, "spec": {"containers": containers}}, Pod)


def problem(entries: list[dict[str, Any]], pods: Iterable[Pod], buys: NodePool, **options: Any) -> Problem:
    types = parse_instance_types(entries)
    return build(
        ClusterObjects(pools=(buys,)),
        tuple(pods),
        lambda _: types,
        Options(well_known=well_known_keys(types), **options),
        require_ready=False,
    )


def solved(question: Problem) -> Plan:
    plan = solve(question, Budget(100_000))
    assert not verify(question, plan)
    return plan


def offered(question: Problem, claim: PlannedClaim) -> Iterator[tuple[InstanceType, int]]:
    """(type, price) of all that the cloud may launch for the claim, found without the solver's help."""
    for kind in question.pools[0].instance_types:
        if claim.requirements.get(labels.INSTANCE_TYPE).has(kind.name):
            for offering in kind.offerings:
                if not claim.requirements.intersects(offering.requirements):
                    yield kind, offering.price


SIZES = st.sampled_from([(2, 4), (2, 8), (4, 8), (4, 16), (8, 16), (8, 32), (16, 32)])


@dataclass(frozen=True)
class Draft:
    """What a problem is made of, few enough words that a failing one can be read."""

    types: tuple[tuple[int, int, tuple[tuple[str, float], ...]], ...]  # (CPUs, Gi, prices)
    pods: tuple[tuple[int, int], ...]  # (tenths of a CPU, Gi)
    limits: tuple[tuple[str, str], ...]
    capacity_types: tuple[str, ...]
    least: int
    strict: bool

    def problem(self) -> Problem:
        entries = [
            entry(f"t{index}", str(cpu), f"{memory}Gi", **dict(prices))
            for index, (cpu, memory, prices) in enumerate(self.types)
        ]
        pods = [
            pod(f"p{number}", f"{tenths * 100}m", f"{memory}Gi")
            for number, (tenths, memory) in enumerate(self.pods)
        ]
        spec: dict[str, Any] = {"limits": dict(self.limits)} if self.limits else {}
        buys = pool(self.capacity_types, least=self.least, **spec)
        return problem(entries, pods, buys, strict_min_values=self.strict)


@st.composite
def types(draw: st.DrawFn) -> tuple[int, int, tuple[tuple[str, float], ...]]:
    cpu, memory = draw(SIZES)
    full = cpu * 0.04 + memory * 0.005 + draw(st.integers(0, 40)) / 1000
    prices = {"od_a": full, "od_b": full * 1.1, "spot_a": full * 0.4, "spot_b": full * 0.5}
    chosen = draw(st.sets(st.sampled_from(sorted(prices)), min_size=1))
    return cpu, memory, tuple((key, prices[key]) for key in sorted(chosen))


def some(items: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[Any]:
    """One to `most` of them, as a tuple."""
    return st.lists(items, min_size=1, max_size=most).map(tuple)


LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(2, 40).map(str),
        "memory": st.integers(4, 120).map(lambda amount: f"{amount}Gi"),
        "nodes": st.integers(1, 6).map(str),
    },
)
DRAFTS = st.builds(
    Draft,
    types=some(types(), 8),
    pods=some(st.tuples(st.integers(1, 30), st.integers(1, 12)), 12),
    limits=LIMITS.map(lambda limits: tuple(limits.items())),
    capacity_types=st.sampled_from([(), (labels.SPOT,), (labels.SPOT, labels.ON_DEMAND)]),
    least=st.integers(0, 3),
    strict=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(DRAFTS)
def test_limits_hold_whatever_is_launched_and_the_worst_is_the_dearest(draft: Draft) -> None:
    question = draft.problem()
    plan = solved(question)
    limits = question.pools[0].limits
    largest: dict[str, int] = {"nodes": len(plan.claims)}
    for claim in plan.claims:
        choices = list(offered(question, claim))
        assert {kind.name for kind, _ in choices} == set(claim.instance_types)
        assert claim.price == min(price for _, price in choices)
        assert claim.worst == max(price for _, price in choices)
        capacity_types = claim.requirements.get(labels.CAPACITY_TYPE)
        assert not capacity_types.complement
        for name in ("cpu", "memory"):
            largest[name] = largest.get(name, 0) + max(kind.capacity[name] for kind, _ in choices)
    for name, limit in (limits or {}).items():
        assert largest.get(name, 0) <= limit
    assert sum(claim.worst for claim in plan.claims) >= plan.cost.hourly


def like(count: int, **last: float) -> list[dict[str, Any]]:
    """Types of 4 CPUs whose memory shrinks from 16 Gi by 1 % each, at about one price."""
    found = [
        entry(f"t{index:02}", "4", f"{16384 - 164 * index}Mi", spot_a=0.1 + index / 1000, od_a=0.3)
        for index in range(count)
    ]
    return [*found, *(entry(name, "4", "16Gi", spot_a=price) for name, price in last.items())]


def kept_within(claim: PlannedClaim, question: Problem, percent: int) -> int:
    """How many types of the claim are sold as spot for at most so much more than its price."""
    ceiling = claim.price * (100 + percent) // 100
    cheap = {
        kind.name
        for kind, price in offered(question, claim)
        if price <= ceiling and any(one.capacity_type == labels.SPOT for one in kind.offerings)
    }
    return len(cheap)


@pytest.mark.parametrize("limits", [{}, {"cpu": "1000", "memory": "4000Gi"}])
@pytest.mark.parametrize("kinds", [(labels.SPOT,), (labels.SPOT, labels.ON_DEMAND)])
@pytest.mark.parametrize(
    ("types", "wanted", "kept"),
    [
        (20, 15, 15),  # 15 of 20 are kept, so 14 % of the memory is left to them
        (20, 5, 5),
        (9, 15, 9),  # where there are fewer, they count
        (20, 1, 1),
    ],
)
def test_a_spot_node_keeps_many_types(
    limits: dict[str, str], kinds: tuple[str, ...], types: int, wanted: int, kept: int
) -> None:
    small = [pod(f"p{number:03}", "50m", "160Mi") for number in range(400)]
    buys = pool(kinds, **({"limits": limits} if limits else {}))
    question = problem(like(types), small, buys, spot_diversity=wanted, spot_tolerance=20)
    plan = solved(question)
    assert not plan.unschedulable
    for claim in plan.claims:
        # 49 of these pods are all that a node takes: the largest types are not needed for it.
        assert kept_within(claim, question, 20) >= kept


def test_room_for_many_types_costs_something_and_says_so() -> None:
    pods = [pod(f"p{number:03}", "100m", "1Gi") for number in range(160)]
    every = problem(like(20), pods, pool((labels.SPOT,)))
    one = problem(like(20), pods, pool((labels.SPOT,)), spot_diversity=1)
    many, few = solved(every), solved(one)
    assert all(kept_within(claim, every, 20) >= 10 for claim in many.claims)
    assert few.cost.hourly < many.cost.hourly <= few.cost.hourly * 1.2  # twelve nodes instead of ten
    assert diversity_cost(one, few) == 0 < diversity_cost(every, many)
    # The bound is that of plans without the rule: it holds for both.
    assert few.cost.lower_bound <= few.cost.hourly
    assert many.cost.lower_bound <= few.cost.hourly


def test_a_pod_that_fills_a_node_alone_is_still_placed() -> None:
    question = problem(like(20), [pod("big", "4", "16Gi")], pool((labels.SPOT,)))
    plan = solved(question)
    assert [claim.instance_types for claim in plan.claims] == [("t00",)]
    assert diversity_cost(question, plan) == 0


def test_types_beyond_the_tolerance_do_not_take_room() -> None:
    pods = [pod(f"p{number}", "1", "4Gi") for number in range(8)]
    dear = [
        entry("cheap", "4", "16Gi", spot_a=0.1),
        *(entry(f"dear{n}", "4", "15Gi", spot_a=0.13) for n in range(20)),
    ]
    plan = solved(problem(dear, pods, pool((labels.SPOT,))))
    assert len(plan.claims) == 2
    loose = solved(problem(dear, pods, pool((labels.SPOT,)), spot_tolerance=30))
    assert len(loose.claims) == 3  # three pods of 4 Gi on 15 Gi


def test_on_demand_nodes_are_filled_whole() -> None:
    pods = [pod(f"p{number}", "1", "4Gi") for number in range(8)]
    question = problem(like(20), pods, pool((labels.ON_DEMAND,)))
    assert len(solved(question).claims) == 2


def test_the_command_shows_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "types.json").write_text(json.dumps(like(20)))
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(
        """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: example.com, kind: Class, name: any}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 160
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        resources: {requests: {cpu: 100m, memory: 1Gi}}
"""
    )
    arguments = ["plan", "-f", str(manifests), "--instance-types", str(tmp_path / "types.json")]
    assert run([*arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    cost, claims = found["cost"], found["nodeClaims"]
    assert cost["expected"] == cost["hourly"] == pytest.approx(sum(claim["price"] for claim in claims))
    assert cost["worst"] == pytest.approx(sum(claim["worstPrice"] for claim in claims))
    assert cost["worst"] == pytest.approx(0.3 * len(claims))  # on demand
    assert cost["likely"] == pytest.approx(sum(claim["likelyPrice"] for claim in claims))
    assert (
        0.88 * cost["hourly"] < cost["likely"] < cost["worst"]
    )  # the cheapest of the deeper half, as it moves
    assert cost["likely"] != cost["hourly"]
    assert 0 < cost["diversity"] < cost["hourly"]
    assert run(arguments) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"likely ${cost['likely']:.4f}/h, at worst ${cost['worst']:.4f}/h in all" in shown
    assert f"Keeping many types for spot costs about ${cost['diversity']:.4f}/h of it" in shown
    assert run([*arguments, "--spot-diversity", "1"]) == 0
    assert "Keeping many types" not in capsys.readouterr().out
    for flag, value in (("--spot-diversity", "0"), ("--spot-tolerance", "-1")):
        assert run([*arguments, flag, value]) == 2
        assert flag in capsys.readouterr().err


def test_at_worst_counts_what_a_launch_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 70 types and a bare-metal one that would do, a launch names the 60 cheapest."""
    at = {"topology.kubernetes.io/zone": "zone-a", "karpenter.sh/capacity-type": "on-demand"}
    kinds = []
    for number in range(71):
        name = f"t{number}.large" if number else "t0.metal"
        names = {
            **at,
            "node.kubernetes.io/instance-type": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
        }
        kinds.append(
            {
                "name": name,
                "requirements": [
                    {"key": key, "operator": "In", "values": [one]} for key, one in names.items()
                ],
                "offerings": [{"price": 0.2 + number / 1000, "available": True, "requirements": at}],
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "50"},
                "overhead": {},
            }
        )
    types, manifests = tmp_path / "types.json", tmp_path / "pod.yaml"
    types.write_text(json.dumps(kinds))
    manifests.write_text(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec:\n  template:\n"
        "    spec:\n      requirements: []\n"
        "      nodeClassRef: {group: example.com, kind: Class, name: any}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}\n"
    )
    assert run(["plan", "-f", str(manifests), "--instance-types", str(types), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["nodeClaims"][0]["instanceTypes"]) == 71
    assert found["cost"]["worst"] == pytest.approx(0.26)  # t60.large
    assert found["cost"]["likely"] == pytest.approx(0.201)  # t1.large: no launch of it takes the metal one


def test_a_plan_counts_what_spot_launches_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fifty types, of which the dearest costs six times as much as the cheapest."""
    kinds = [entry(f"t{index:02}", "4", "16Gi", spot_a=0.05 + index / 200) for index in range(50)]
    (tmp_path / "types.json").write_text(json.dumps(kinds))
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: default}\nspec:\n  template:\n"
        "    spec:\n      requirements: []\n"
        "      nodeClassRef: {group: example.com, kind: Class, name: any}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}\n"
    )
    arguments = ["plan", "-f", str(manifests), "--instance-types", str(tmp_path / "types.json")]
    costs = {}
    for count in (1, 15, 60):
        assert run([*arguments, "-o", "json", "--spot-launch-types", str(count)]) == 0
        found = json.loads(capsys.readouterr().out)
        costs[count] = found["cost"]["likely"]
        assert found["cost"]["hourly"] == pytest.approx(0.05)
        assert found["cost"]["worst"] == pytest.approx(0.295)  # what a launch comes to if all else refuses
        assert len(found["nodeClaims"][0]["instanceTypes"]) == 50  # what is named is up to the launch
        assert found["realised"]["expected"] == pytest.approx(found["cost"]["likely"])
    assert costs[1] < costs[15] < costs[60]
    assert run(arguments) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Expected to be realised at ${costs[15]:.4f}/h" in shown
    more = costs[15] / 0.05 - 1
    assert f"(+{more:.1%}, +{more:.1%} of it for deeper spot pools than the cheapest, in " in shown
