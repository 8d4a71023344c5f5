"""The chart's rights on AWS against what the API server was asked: nothing is denied, no right is unused."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.audit import OF_GANGS, account_of, asked, denied
from tests.cluster.aws import joining, on_moto, pool
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS
from tests.cluster.rights import SPACE, as_the_charts_account, granted, leave, live_through_everything
from tests.cluster.running import Controller
from tests.conformance.aws_accounts import CLUSTER

NAME = "rights-aws"


def test_the_charts_rights_on_aws_are_enough_and_none_is_too_many(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    define(cluster)
    where = ("--namespace", SPACE, "--create-namespace")
    queue = ("--set", f"settings.interruptionQueue={CLUSTER},settings.onDemandShares=true")
    settings = ("--set", f"settings.clusterName={CLUSTER}", *queue, "--set", "replicas=0", "--skip-crds")
    names = ("--set", f"fullnameOverride={NAME}", "--set", f"serviceAccount.name={NAME}")
    cluster.run("helm", "install", NAME, str(CHARTS / "dovetail"), *where, *settings, *names)
    cluster.run("kubectl", "apply", "-f", "-", stdin=pool("rights"))
    config = as_the_charts_account(cluster, tmp_path, NAME)
    flags = ("--provider", "aws", "--cluster-name", CLUSTER, "--interruption-queue", CLUSTER)
    flags = (*flags, "--on-demand-shares", "true")
    with on_moto(cluster) as environment, joining(cluster, "rights"):
        variables = {**environment, "SYSTEM_NAMESPACE": SPACE}
        with Controller(cluster, tmp_path, *flags, "--kubeconfig", str(config), **variables) as controller:
            live_through_everything(cluster)
            cluster.run("kubectl", "delete", "ec2nodeclass", "rights", "--timeout=60s")
            assert controller.stop() == 0
    account = account_of(SPACE, NAME)
    assert denied(cluster, account) == []
    used = {(one.verb, one.resource) for one in asked(cluster, account)}
    dns = ("role", f"{NAME}-dns", "--namespace", "kube-system")
    assert sorted(granted(cluster, NAME, dns) - used - OF_GANGS) == []
    leave(cluster, NAME)
