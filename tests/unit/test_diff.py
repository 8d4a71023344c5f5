"""What a change of NodePools and node classes would do, told from the objects of a cluster."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest import CaptureFixture

from benchmarks.clusters import POOLS, cluster, pool, write
from dovetail.cli.main import run
from dovetail.cli.savings_plan import Commitment
from dovetail.cloud import catalog
from dovetail.simulate.questions.change import field_changes

Document = dict[str, Any]
QUICK = ("--work", "20000")


def asked(capsys: CaptureFixture[str], *words: str | Path) -> Any:
    assert run([*map(str, words), "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("dump") / "small", 0.01)


def applied(tmp_path: Path, *objects: Document) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump_all(json.loads(json.dumps(objects))))
    return path


def general(change: Callable[[Document], object]) -> Document:
    new = copy.deepcopy(pool(POOLS[0]))
    new["metadata"] = {"name": "general"}
    change(new["spec"])
    return new


def the_class(change: Callable[[Document], object]) -> Document:
    (made,) = (one for one in cluster(0.01) if one["kind"] == "EC2NodeClass")
    new = {**made, "metadata": {"name": "default"}}
    del new["status"]
    change(new["spec"])
    return new


def test_a_change_is_told_from_a_dump(dump: Path, tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    back = tmp_path / "back.yaml"
    more = ("--quota", "400", "--savings-plan", "2", "--undo", back, *QUICK)
    found = asked(capsys, "diff", dump, "-f", dump.parent / "new", *more)
    (changed,) = found["changed"]
    assert [one["path"] for one in changed["fields"]] == [
        "spec.template.metadata.labels.tier",
        "spec.template.spec.requirements[kubernetes.io/arch].values",
        "spec.template.spec.requirements[karpenter.k8s.aws/instance-family].values",
    ]
    nodes = found["nodes"]
    assert {one["drifts"] for one in nodes if one["pool"] == "general"} == {"NodePoolDrifted"}
    assert {one["drifts"] or one["mayDrift"] for one in nodes if one["pool"] != "general"} == {None}
    assert found["atOnce"] == {"general": 1}
    # An image whose pods do not ask for an architecture, and that runs on none but the old one.
    images = {one["image"]: one for one in found["images"]}
    assert {one["arch"] for one in images.values()} == {"arm64"}
    assert images["registry.example/api:7"]["seen"].keys() == {"amd64"}
    assert "registry.example/kafka:7" not in images
    sizes = {one.name: one for one in catalog.instance_types("us-east-1")}
    vcpus = sum(sizes[one["instanceType"]].capacity["cpu"] // 1000 for one in nodes)
    assert found["vcpus"]["before"] == vcpus
    hourly = found["hourly"]
    assert hourly["lowerBound"] <= hourly["after"] <= hourly["replacedWithoutTheChange"] < hourly["before"]
    assert found["savingsPlan"]["usedBefore"] == 2
    # The way back, applied to what the change left, restores the very fields.
    (old,) = yaml.safe_load_all(back.read_text())
    assert old == {**pool(POOLS[0]), "metadata": {"name": "general"}}
    (new,) = yaml.safe_load_all((dump.parent / "new" / "pool.yaml").read_text())
    returned = {one.path: (one.old, one.new) for one in field_changes(new, old)}
    assert returned == {one["path"]: (one["new"], one["old"]) for one in changed["fields"]}


def requirement(key: str, *values: str) -> Callable[[Document], object]:
    wanted = {"key": key, "operator": "In", "values": list(values)}
    return lambda spec: spec["template"]["spec"]["requirements"].append(wanted)


@pytest.mark.parametrize(
    ("new", "reasons"),
    [
        (general(lambda spec: spec["disruption"].update(consolidateAfter="9m")), {None}),
        (general(requirement("topology.kubernetes.io/zone", "us-east-1a")), {None, "RequirementsDrifted"}),
        (general(lambda spec: spec["template"]["spec"].update(expireAfter="24h")), {"NodePoolDrifted"}),
        (the_class(lambda spec: spec.update(tags={"cost": "a"})), {"NodeClassDrift"}),
        (the_class(lambda spec: spec.update(amiSelectorTerms=[{"alias": "al2023@v20250505"}])), {"AMIDrift"}),
        (
            the_class(lambda spec: spec.update(amiFamily="AL2023", amiSelectorTerms=[{"id": "ami-0amd64"}])),
            {None},
        ),
        (
            the_class(
                lambda spec: spec.update(subnetSelectorTerms=[{"id": "subnet-0a"}, {"id": "subnet-0b"}])
            ),
            {None, "SubnetDrift"},
        ),
        (
            the_class(lambda spec: spec.update(securityGroupSelectorTerms=[{"id": "sg-02"}])),
            {"SecurityGroupDrift"},
        ),
        (the_class(lambda spec: spec.update(securityGroupSelectorTerms=[{"name": "nodes"}])), {None}),
    ],
)
def test_nodes_drift_by_the_rules_of_the_controllers(
    new: Document, reasons: set[str | None], dump: Path, tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    found = asked(capsys, "diff", dump, "-f", applied(tmp_path, new), *QUICK)
    concerned = [one for one in found["nodes"] if new["kind"] != "NodePool" or one["pool"] == "general"]
    assert {one["drifts"] for one in concerned} == reasons
    assert not any(one["mayDrift"] for one in found["nodes"])
    for one in concerned:  # those of one zone alone
        if len(reasons) == 2:
            stays = {"us-east-1a"} if new["kind"] == "NodePool" else {"us-east-1a", "us-east-1b"}
            assert (one["drifts"] is None) == (one["zone"] in stays)


def test_the_fields_that_change_are_enough(dump: Path, tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    whole = general(lambda spec: spec["template"]["spec"].update(expireAfter="24h"))
    part: Document = {key: whole[key] for key in ("apiVersion", "kind", "metadata")}
    part["spec"] = {"template": {"spec": {"expireAfter": "24h"}}}
    answers = []
    for index, new in enumerate((whole, part)):
        back = tmp_path / f"back-{index}.yaml"
        found = asked(capsys, "diff", dump, "-f", applied(tmp_path, new), "--undo", back, *QUICK)
        answers.append((found["changed"], found["nodes"], back.read_text()))
    assert answers[0] == answers[1]


def test_what_only_the_account_knows_is_left_open(
    dump: Path, tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    tagged = [{"tags": {"kind": "nodes"}}]
    new = the_class(lambda spec: spec.update(securityGroupSelectorTerms=tagged, userData="#!/bin/sh"))
    found = asked(capsys, "diff", dump, "-f", applied(tmp_path, new), *QUICK)
    assert {one["mayDrift"] for one in found["nodes"]} == {"SecurityGroupDrift"}
    assert {one["drifts"] for one in found["nodes"]} == {None}
    # A snapshot leaves user data out, so it is not taken for a change.
    assert found["notCompared"] == ["EC2NodeClass default: spec.userData"]


def test_what_holds_pods_and_what_has_no_place_is_named(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    objects = cluster(0.01)
    pods = [one for one in objects if one["kind"] == "Pod" and one["metadata"]["labels"]["app"] == "api"]
    pods[0]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    for one in objects:
        if one["kind"] == "PodDisruptionBudget" and one["metadata"]["name"] == "cart":
            one["status"]["disruptionsAllowed"] = 0
    path = tmp_path / "cluster.json.gz"
    path.write_bytes(
        gzip.compress(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}).encode())
    )
    smaller = general(requirement("karpenter.k8s.aws/instance-cpu", "2"))
    found = asked(capsys, "diff", path, "-f", applied(tmp_path, smaller), *QUICK)
    assert {one["drifts"] for one in found["nodes"] if one["pool"] == "general"} == {"RequirementsDrifted"}
    name = pods[0]["metadata"]["name"]
    assert f'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=shop/{name})' in found["heldBy"]
    assert "Pdb prevents pod evictions (PodDisruptionBudget=[shop/cart])" in found["heldBy"]
    # No machine of two vCPUs holds a pod that asks for two.
    assert f"shop/{name}" in found["homelessPods"]


def test_new_objects_are_named_and_deleted_to_go_back(
    dump: Path, tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    new = general(dict)
    new["metadata"]["name"] = "another"
    path = applied(tmp_path, new)
    assert run(["diff", str(dump), "-f", str(path), *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "NodePool another is new" in shown
    assert "kubectl delete NodePool another" in shown
    assert max(map(len, shown.splitlines())) < 200


def test_a_savings_plan_is_used_by_machines_on_demand_at_its_own_prices() -> None:
    plan = Commitment(18_000_000_000, 0.28)
    assert plan.used(20_000_000_000) == 14_400_000_000
    assert plan.saved(20_000_000_000) == 2_000_000_000  # 20 less 18
    assert plan.used(40_000_000_000) == 18_000_000_000
    assert plan.saved(40_000_000_000) == 7_000_000_000
    assert plan.saved(0) == -18_000_000_000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "which cluster?"),
        (["nowhere.json"], "nowhere.json"),
        (["DUMP", "--savings-plan", "much"], "--savings-plan"),
        (["DUMP", "--savings-plan-discount", "100%"], "--savings-plan-discount"),
        (["DUMP", "--after", "soon"], "--after"),
        (["DUMP", "--after", "5m"], "--after: means nothing for a cluster that is not played"),
        (["DUMP", "--quota", "0"], "--quota: 0 is not at least 1"),
        (["DUMP", "--quota=-4000"], "--quota: -4000 is not at least 1"),
        (["DUMP", "--quota", "4,000"], "'4,000' is not a whole number"),
        (["DUMP", "--savings-plan", "18%"], "is not an amount of dollars"),
        (["DUMP", "--undo", "NEW"], "it is there already"),
        (["examples/burst", "DUMP"], "a scenario is a cluster by itself"),
        (["examples/burst", "--region", "us-east-1"], "a scenario has a region of its own"),
    ],
)
def test_bad_questions_are_refused(
    words: list[str], complaint: str, dump: Path, tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    new = applied(tmp_path, general(dict))
    given = [{"DUMP": str(dump), "NEW": str(new)}.get(word, word) for word in words]
    assert run(["diff", *given, "-f", str(new)]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert "Traceback" not in error


def test_manifests_beside_themselves_do_not_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They say more than a snapshot does: arguments, probes, annotations of sidecars."""
    file = tmp_path / "app.yaml"
    file.write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"
        "  selector: {matchLabels: {app: web}}\n  template:\n"
        "    metadata: {labels: {app: web}, annotations: {sidecar.istio.io/proxyCPU: 100m}}\n"
        "    spec: {containers: [{name: c, image: i, args: [a], resources: {requests: {cpu: 1}}}]}\n"
    )
    assert run(["diff", str(file), "-f", str(file), "--region", "us-east-1"]) == 0
    first = capsys.readouterr().out
    assert "->" not in first and "Not compared" not in first
    other = tmp_path / "other.yaml"
    other.write_text(file.read_text().replace("args: [a]", "args: [b]"))
    assert run(["diff", str(file), "-f", str(other), "--region", "us-east-1"]) == 0
    assert "spec.template.spec.containers[c].args: [a] -> [b]" in capsys.readouterr().out
