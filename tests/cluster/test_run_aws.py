"""The controller with the AWS provider: on a real control plane, and on moto in the place of AWS.

moto starts no machines, so nodes never join; what is bought, tagged and ended is there to be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.aws import on_moto, pool
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.processes import StartError
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually
from tests.conformance.aws_accounts import CLUSTER, moto_table

POD = """
apiVersion: v1
kind: Pod
metadata: {name: wants-a-node}
spec:
  nodeSelector: {karpenter.sh/nodepool: aws}
  containers: [{name: main, image: pause, resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture
def account(api_server: ControlPlane) -> Iterator[dict[str, str]]:
    """The environment of a process that talks to the account."""
    with on_moto(api_server) as environment:
        yield environment


def get(plane: ControlPlane, *what: str) -> Any:
    return json.loads(plane.run("kubectl", "get", *what, "-o", "json"))


def conditions(item: Any) -> dict[str, str]:
    return {one["type"]: one["status"] for one in item.get("status", {}).get("conditions", ())}


def running() -> list[Any]:
    found = [one for item in moto_table("ec2").all_reservations() for one in item.instances]
    return [item for item in found if item.state == "running"]


def test_a_pod_gets_an_instance_and_its_end_is_the_instances(
    api_server: ControlPlane, account: dict[str, str], tmp_path: Path
) -> None:
    define(api_server)
    api_server.run("kubectl", "apply", "-f", "-", stdin=f"{pool('aws')}---{POD}")
    unschedulable = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    patch = json.dumps({"status": {"conditions": unschedulable}})
    api_server.run("kubectl", "patch", "pod/wants-a-node", "--subresource=status", "-p", patch)
    flags = ("--provider", "aws", "--cluster-name", CLUSTER, "--interruption-queue", CLUSTER)
    with Controller(api_server, tmp_path, *flags, **account) as controller:
        claims = eventually(
            lambda: [
                item
                for item in get(api_server, "nodeclaims")["items"]
                if "providerID" in item.get("status", {})
            ],
            lambda found: len(found) == 1,
        )
        made = get(api_server, "ec2nodeclass", "aws")
        assert conditions(made)["Ready"] == "True", made["status"]
        (instance,) = running()
        assert claims[0]["status"]["providerID"].endswith(f"/{instance.id}")
        assert conditions(claims[0])["Launched"] == "True"
        tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
        assert tags["eks:eks-cluster-name"] == CLUSTER and tags["karpenter.sh/nodepool"] == "aws"
        api_server.run("kubectl", "delete", "pod/wants-a-node", "--now")
        api_server.run("kubectl", "delete", "nodepool", "aws")
        eventually(running, lambda found: found == [])
        api_server.run("kubectl", "delete", "ec2nodeclass", "aws")
        assert not moto_table("iam").get_instance_profiles()
        assert controller.stop() == 0
        assert "Traceback" not in controller.log.read_text()


def test_a_mistyped_tag_stands_in_the_condition_and_mending_it_helps(
    api_server: ControlPlane, account: dict[str, str], tmp_path: Path
) -> None:
    """Role and profile together are refused, the misspelled key is named, the status has what is selected."""
    define(api_server)
    written, _ = pool("mistyped").split("---")
    both = written.replace("  role:", "  instanceProfile: mine\n  role:")
    with pytest.raises(StartError, match=r"must specify exactly one of \['role', 'instanceProfile'\]"):
        api_server.run("kubectl", "apply", "-f", "-", stdin=both)
    typo = written.replace("discovery", "discovert")
    api_server.run("kubectl", "apply", "-f", "-", stdin=typo)

    def status_of(kind: str) -> dict[str, str]:
        found = get(api_server, "ec2nodeclass", "mistyped").get("status", {}).get("conditions", ())
        return next((item for item in found if item["type"] == kind), {"status": ""})

    lease = ("--disable-leader-election", "true")
    flags = ("--provider", "aws", "--cluster-name", CLUSTER, *lease)
    with Controller(api_server, tmp_path, *flags, **account) as controller:
        subnets = eventually(lambda: status_of("SubnetsReady"), lambda found: found["status"] == "False")
        assert subnets["reason"] == "SubnetsNotFound"
        assert "found key 'karpenter.sh/discovery'" in subnets["message"]
        assert status_of("SecurityGroupsReady")["reason"] == "SecurityGroupsNotFound"
        assert status_of("Ready")["status"] == "False"
        api_server.run("kubectl", "apply", "-f", "-", stdin=written)
        eventually(lambda: status_of("Ready"), lambda found: found["status"] == "True")
        status = get(api_server, "ec2nodeclass", "mistyped")["status"]
        assert status["subnets"] and status["securityGroups"] and status["amis"]
        assert status["instanceProfile"].startswith(f"{CLUSTER}_")
        api_server.run("kubectl", "delete", "ec2nodeclass", "mistyped", "--timeout=60s")
        assert not moto_table("iam").get_instance_profiles()
        assert controller.stop() == 0
        assert "Traceback" not in controller.log.read_text()


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ((), {}, "missing field, cluster-name"),
        (("--cluster-name", "nobody"), {}, "No cluster found for name: nobody"),
        (("--cluster-name", CLUSTER), {"AWS_REGION": ""}, "no AWS region is named"),
        (("--cluster-name", CLUSTER, "--cluster-endpoint", "here"), {}, "cluster endpoint URL is not valid"),
    ],
)
def test_what_keeps_it_from_starting(
    api_server: ControlPlane,
    account: dict[str, str],
    tmp_path: Path,
    flags: tuple[str, ...],
    environment: dict[str, str],
    message: str,
) -> None:
    whole = {**account, **environment, "AWS_CONFIG_FILE": str(tmp_path / "none")}
    lease = ("--disable-leader-election", "true")
    with Controller(api_server, tmp_path, "--provider", "aws", *lease, *flags, **whole) as controller:
        eventually(controller.log.read_text, lambda text: message in text)
        assert "Traceback" not in controller.log.read_text()
