"""A node's price is its instance's, its volumes' and the surcharge: optimised, bounded and shown as a sum."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.api.codec import decode
from dovetail.api.core import Pod
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.cli.main import run
from dovetail.cloud.catalog.file import parse_instance_types
from dovetail.cluster.problem import ClusterObjects, build, well_known_keys
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.plan import Plan
from dovetail.model.problem import Options, Problem
from dovetail.solve.solver import solve
from dovetail.units.money import NANO_DOLLARS
from dovetail.verify import verify

EXAMPLE = Path(__file__).parents[2] / "examples" / "plan"
CENT = NANO_DOLLARS // 100


def types(**prices: float) -> tuple[InstanceType, ...]:
    """Types named for their CPUs, such as c4=0.2."""
    return parse_instance_types(
        [
            {
                "name": name,
                "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": [name]}],
                "offerings": [
                    {"price": price, "requirements": {labels.ZONE: "a", labels.CAPACITY_TYPE: "on-demand"}}
                ],
                "capacity": {"cpu": name[1:], "memory": "64Gi", "pods": "50"},
            }
            for name, price in prices.items()
        ]
    )


def pool(name: str) -> NodePool:
    reference = {"group": "example.com", "kind": "NodeClass", "name": name}
    return decode(
        {"metadata": {"name": name}, "spec": {"template": {"spec": {"nodeClassRef": reference}}}}, NodePool
    )


def pod(name: str) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    return decode(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": containers}}, Pod
    )


def problem(
    pods: int, sold: tuple[InstanceType, ...], volumes: dict[str, int], surcharge: int = 0
) -> Problem:
    return build(
        ClusterObjects(pools=tuple(pool(name) for name in volumes)),
        tuple(pod(f"p{index}") for index in range(pods)),
        lambda _: sold,
        Options(well_known=well_known_keys(sold), node_surcharge=surcharge),
        require_ready=False,
        volume_price=lambda item: volumes[item.metadata.name],
    )


def solved(question: Problem) -> Plan:
    plan = solve(question)
    assert not verify(question, plan)
    assert plan.cost.lower_bound <= plan.cost.hourly == sum(claim.price for claim in plan.claims)
    return plan


@pytest.mark.parametrize(
    ("volumes", "surcharge", "bought"),
    [
        (0, 0, ["c2"] * 4),  # four small nodes for 0.40, one large for 0.50
        (2 * CENT, 0, ["c2"] * 4),  # 0.48 against 0.52
        (4 * CENT, 0, ["c8"]),  # 0.56 against 0.54
        (0, 4 * CENT, ["c8"]),
        (2 * CENT, 2 * CENT, ["c8"]),
    ],
)
def test_what_every_node_costs_decides_how_many_are_bought(
    volumes: int, surcharge: int, bought: list[str]
) -> None:
    plan = solved(problem(8, types(c2=0.10, c8=0.50), {"default": volumes}, surcharge))
    assert [claim.instance_type for claim in plan.claims] == bought
    for claim in plan.claims:
        assert (claim.volumes, claim.surcharge) == (volumes, surcharge)
        assert claim.instance_price == (50 if claim.instance_type == "c8" else 10) * CENT
    assert plan.cost.gap < 0.01


def test_the_pool_with_the_cheaper_volumes_is_bought_from() -> None:
    plan = solved(problem(4, types(c4=0.2), {"large-disks": 5 * CENT, "small-disks": CENT}))
    assert [claim.pool for claim in plan.claims] == ["small-disks"]


@pytest.mark.parametrize("pods", [4, 7, 8, 16, 23])
def test_at_equal_cost_fewer_nodes_win(pods: int) -> None:
    plan = solved(problem(pods, types(c1=0.1, c2=0.2, c4=0.4, c8=0.8), {"default": 0}))
    assert plan.cost.hourly == pods * 10 * CENT
    assert len(plan.claims) == pods // 8 + sum(int(bit) for bit in f"{pods % 8:b}")


def test_the_checker_adds_up_for_itself() -> None:
    question = problem(2, types(c2=0.1), {"default": CENT}, 2 * CENT)
    plan = solved(question)
    (claim,) = plan.claims
    for wrong in (
        replace(claim, volumes=0),
        replace(claim, surcharge=0),
        replace(claim, price=claim.instance_price),
    ):
        cost = replace(plan.cost, hourly=wrong.price, lower_bound=0)
        found = verify(question, replace(plan, claims=(wrong,), cost=cost))
        assert {item.rule for item in found} == {"price"}


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["plan", *arguments, "-o", "json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_terabyte_on_every_node_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Story 132: the disk is about a third of the instance."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    for path in EXAMPLE.glob("*.yaml"):
        documents = list(yaml.safe_load_all(path.read_text()))
        for document in documents:
            if document["kind"] == "EC2NodeClass":
                disk = {"volumeSize": "1000Gi", "volumeType": "gp3"}
                document["spec"]["blockDeviceMappings"] = [{"deviceName": "/dev/xvda", "ebs": disk}]
        (folder / path.name).write_text(yaml.safe_dump_all(documents))
    arguments = ("-f", str(folder), "--region", "ap-northeast-2", "--deadline", "1s")
    found = as_json(capsys, *arguments)
    for claim in found["nodeClaims"]:
        assert claim["volumes"] == pytest.approx(0.12493, abs=1e-5)
        assert claim["price"] == pytest.approx(claim["instancePrice"] + claim["volumes"])
    cost = found["cost"]
    assert cost["volumes"] == pytest.approx(0.12493 * len(found["nodeClaims"]), abs=1e-3)
    assert cost["hourly"] == pytest.approx(cost["instance"] + cost["volumes"] + cost["surcharge"])
    assert len(found["nodeClaims"]) < len(as_json(capsys, "-f", str(EXAMPLE), *arguments[2:])["nodeClaims"])
    assert run(["plan", *arguments]) == 0
    assert f"volumes ${cost['volumes']:.4f}" in " ".join(capsys.readouterr().out.split())


def test_the_surcharge_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("-f", str(EXAMPLE), "--region", "ap-northeast-2", "--deadline", "1s")
    found = as_json(capsys, *arguments, "--node-surcharge", "0.25")
    assert found["cost"]["surcharge"] == pytest.approx(0.25 * len(found["nodeClaims"]))
    assert {claim["surcharge"] for claim in found["nodeClaims"]} == {0.25}
    assert run(["plan", *arguments, "--node-surcharge", "-1"]) == 2
    assert "--node-surcharge: '-1' is below zero" in capsys.readouterr().err
