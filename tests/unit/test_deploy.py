"""deploy/: the Terraform module is well formed, its policies allow what is called and no more."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml

from dovetail.cloud import eventbridge
from dovetail.cloud.aws.permissions import FREE, PERMISSIONS

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "deploy" / "terraform"
EXAMPLE = MODULE / "examples" / "seoul"
CHARTS = ROOT / "charts"
FILES = sorted(MODULE.rglob("*.tf"))
POLICIES = sorted((MODULE / "policies").glob("*.json.tftpl"))
MOST_OF_A_POLICY = 6_144  # characters that IAM takes in a managed policy, white space not counted
PLACES = {
    "partition": "aws",
    "region": "ap-northeast-2",
    "account": "123456789012",
    "cluster": "demo",
    "queue_arn": "arn:aws:sqs:ap-northeast-2:123456789012:dovetail-demo",
    "node_role_arn": "arn:aws:iam::123456789012:role/dovetail-nodes-demo",
}
# Actions that a policy may leave open to every resource, since AWS knows no narrower one.
UNSCOPED = re.compile(r"ec2:Describe\w+|pricing:GetProducts|servicequotas:ListServiceQuotas")


def filled(path: Path, places: dict[str, str]) -> str:
    """A template with its variables put in; a variable that is not given is a mistake."""
    return re.sub(r"\$\{(\w+)\}", lambda match: places[match[1]], path.read_text())


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in POLICIES:
        document = json.loads(filled(path, PLACES))
        assert document["Version"] == "2012-10-17"
        for statement in document["Statement"]:
            yield path.name, statement


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """What the parser read, without its marks and quotes."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items() if key != "__is_block__"}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.strip('"') if isinstance(value, str) else value


def parsed(folder: Path) -> dict[str, list[Any]]:
    """All blocks of a folder, by kind."""
    found: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("*.tf")):
        with path.open() as file:
            for kind, blocks in plain(hcl2.load(file)).items():
                found.setdefault(kind, []).extend(blocks)
    return found


def resources(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (kind, name): body
        for block in parsed(folder).get("resource", [])
        for kind, named in block.items()
        for name, body in named.items()
    }


def named(blocks: list[Any]) -> dict[str, Any]:
    return {name: body for block in blocks for name, body in block.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(MODULE)))
def test_every_file_can_be_read(path: Path) -> None:
    with path.open() as file:
        assert hcl2.load(file)


@pytest.mark.skipif(shutil.which("terraform") is None, reason="no terraform here")
def test_files_are_formatted_as_terraform_does() -> None:
    done = subprocess.run(
        ["terraform", "fmt", "-check", "-diff", "-recursive"],
        cwd=MODULE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_policies_allow_the_calls_that_are_made_and_no_others() -> None:
    allowed = {action for _, one in statements() for action in listed(one["Action"])}
    called = {action for one in PERMISSIONS for action in one.actions} - FREE
    assert allowed == called


def test_policies_fit_into_iam() -> None:
    for path in POLICIES:
        assert len(re.sub(r"\s", "", filled(path, PLACES | {"cluster": "c" * 100}))) <= MOST_OF_A_POLICY, path


def test_statements_are_named_once() -> None:
    names = [one["Sid"] for _, one in statements()]
    assert len(names) == len(set(names))


def test_nothing_is_allowed_on_everything_that_could_be_narrower() -> None:
    for name, one in statements():
        assert one["Effect"] == "Allow" and "NotAction" not in one and "NotResource" not in one
        for action in listed(one["Action"]):
            assert "*" not in action, name
            if "*" in listed(one["Resource"]):
                assert UNSCOPED.fullmatch(action), (name, action)


def test_what_changes_machines_is_bound_to_the_clusters_tag() -> None:
    """Whatever is made carries the cluster's tag, and only what carries it is changed or ended."""
    tag = f"kubernetes.io/cluster/{PLACES['cluster']}"
    for name, one in statements():
        conditions = one.get("Condition", {}).get("StringEquals", {})
        bound = {f"aws:RequestTag/{tag}", f"aws:ResourceTag/{tag}"} & set(conditions)
        changing = [
            action
            for action in listed(one["Action"])
            if not re.match(r"\w+(-\w+)*:(Describe|Get|List|Receive|DeleteMessage|PassRole)", action)
        ]
        # Images, subnets and groups that exist already carry no tag of the cluster.
        if changing and one["Sid"] != "LaunchFromWhatIsThere":
            assert bound, (name, one["Sid"])


def test_every_policy_is_attached() -> None:
    text = (MODULE / "controller.tf").read_text()
    names = re.search(r"for name in \[([^\]]*)\]", text)
    assert names is not None
    always = set(re.findall(r'"(\w+)"', names[1]))
    asked = set(re.findall(r"policies/(\w+)\.json", text))
    assert always | asked == {path.name.partition(".")[0] for path in POLICIES}


def test_planning_needs_no_definitions() -> None:
    """Kinds of the API server may be asked for only by Helm, which does so when it applies."""
    for folder in (MODULE, EXAMPLE):
        kinds = {kind for kind, _ in resources(folder)} | {
            kind for block in parsed(folder).get("data", []) for kind in block
        }
        assert {kind.partition("_")[0] for kind in kinds} <= {"aws", "helm"}
        providers = named(parsed(folder)["terraform"])["required_providers"][0]
        assert set(providers) == {"aws", "helm"}


def test_releases_come_in_order() -> None:
    found = resources(MODULE)
    after = {
        name: " ".join(map(str, body.get("depends_on", [])))
        for (kind, name), body in found.items()
        if kind == "helm_release"
    }
    assert set(after) == {"crds", "controller", "node_pools"}
    assert "helm_release.crds" in after["controller"]
    assert "aws_eks_pod_identity_association.controller" in after["controller"]
    assert "helm_release.controller" in after["node_pools"]


def test_charts_know_the_values_that_the_module_sets() -> None:
    text = (MODULE / "releases.tf").read_text()
    settings = re.search(r"settings = \{(.*?)\n      \}", text, re.DOTALL)
    assert settings is not None
    schema = json.loads((CHARTS / "dovetail" / "values.schema.json").read_text())
    given = re.findall(r"^\s*(\w+)\s*=", settings[1], re.MULTILINE)
    assert {"clusterName", "interruptionQueue"} <= set(given)
    assert set(given) <= {
        name for name, body in schema["properties"]["settings"]["properties"].items() if "const" not in body
    }


def test_rules_announce_what_is_understood() -> None:
    rules = re.findall(r'source = "([\w.]+)", kinds = \["([^"]+)"\]', (MODULE / "queue.tf").read_text())
    assert sorted(rules) == sorted(eventbridge.ANNOUNCED)


def test_the_example_gives_the_module_what_it_asks_for() -> None:
    variables = named(parsed(MODULE)["variable"])
    given = set(named(parsed(EXAMPLE)["module"])["dovetail"]) - {"source", "depends_on"}
    assert given <= set(variables)
    assert {name for name, body in variables.items() if "default" not in body} <= given


def example_pools() -> dict[str, Any]:
    text = filled(EXAMPLE / "pools.yaml.tftpl", {"cluster": "demo", "node_role": "demo-nodes"})
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_the_example_is_the_story_set_right() -> None:
    values = example_pools()
    pool = values["nodePool"]["karpenter-node-pool"]
    node_class = values["ec2NodeClass"][pool["nodeClassRef"]]
    assert pool["requirements"]["topology.kubernetes.io/zone"] == ["ap-northeast-2a", "ap-northeast-2c"]
    assert len(pool["requirements"]["node.kubernetes.io/instance-type"]) == 6
    assert pool["expireAfter"] == "720h"
    assert pool["limits"] == {"cpu": 1000, "memory": "1000Gi"}
    assert node_class["role"] == "demo-nodes" and "instanceProfile" not in node_class
    discovery = {"karpenter.sh/discovery": "demo"}
    assert node_class["subnetSelectorTermsTags"] == node_class["securityGroupSelectorTermsTags"] == discovery
    assert node_class["tags"] == discovery
    # The tag that the example puts on subnets and groups is the one that its class selects.
    assert 'key         = "karpenter.sh/discovery"' in (EXAMPLE / "main.tf").read_text()
