"""The chart's rights against what the API server was asked: nothing is denied, and no right is unused."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.audit import OF_GANGS, account_of, asked, denied
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS
from tests.cluster.rights import SPACE, as_the_charts_account, granted, leave, live_through_everything
from tests.cluster.running import Controller

POOLS = """
nodePool:
  rights:
    nodeClassRef: rights
    terminationGracePeriod: 20s
    disruption: {consolidateAfter: 1s, budgets: [{nodes: "0"}]}
kwokNodeClass: {rights: {}}
"""
OVERLAY = """
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: rights}
spec:
  requirements: [{key: karpenter.sh/nodepool, operator: In, values: [rights]}]
  priceAdjustment: "+10%"
"""
# With it more is watched; on AWS there is none, and nothing more may be read.
SPREADS = json.dumps(
    {
        "podTopologySpread": {
            "defaultConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                }
            ]
        }
    }
)


def test_the_charts_rights_are_enough_and_none_is_too_many(cluster: ControlPlane, tmp_path: Path) -> None:
    where = ("--namespace", SPACE, "--create-namespace")
    spreads = ("--set-json", f"settings.schedulerConfig={SPREADS}")
    gates = ("--set", "settings.featureGates.nodeOverlay=true,settings.onDemandShares=true")
    settings = ("--set", "settings.provider=kwok", *spreads, *gates, "--set", "replicas=0")
    cluster.run("helm", "install", "dovetail", str(CHARTS / "dovetail"), *where, *settings)
    cluster.run(
        "helm", "install", "pools", str(CHARTS / "dovetail-nodepools"), *where, "--values", "-", stdin=POOLS
    )
    cluster.run("kubectl", "apply", "-f", "-", stdin=OVERLAY)
    config = as_the_charts_account(cluster, tmp_path, "dovetail")
    flags = ("--provider", "kwok", "--kubeconfig", str(config), "--scheduler-config", SPREADS)
    flags = (*flags, "--feature-gates", "NodeOverlay=true", "--on-demand-shares", "true")
    with Controller(cluster, tmp_path, *flags, SYSTEM_NAMESPACE=SPACE) as controller:
        live_through_everything(cluster)
        assert controller.stop() == 0
    account = account_of(SPACE, "dovetail")
    assert denied(cluster, account) == []
    used = {(one.verb, one.resource) for one in asked(cluster, account)}
    assert sorted(granted(cluster, "dovetail") - used - OF_GANGS) == []
    cluster.run("kubectl", "delete", "nodeoverlay", "rights")
    leave(cluster, "pools", "dovetail")
