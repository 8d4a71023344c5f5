"""`dovetail run --observe` beside a controller that acts: it reports, and writes nothing at all."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.audit import OF_GANGS, asked
from tests.cluster.controlplane.processes import write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS, render
from tests.cluster.running import Controller, eventually, free_ports

SPACE = "observing"
ACCOUNT = f"system:serviceaccount:{SPACE}:dovetail"
POOLS = """
nodePool:
  observed:
    nodeClassRef: observed
    requirements: {karpenter.sh/capacity-type: [on-demand]}
    disruption: {consolidateAfter: 1s, budgets: [{nodes: "100%"}]}
kwokNodeClass: {observed: {}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: observed}
spec:
  replicas: 2
  selector: {matchLabels: {app: observed}}
  template:
    metadata: {labels: {app: observed}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: observed}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: observed}}}
      containers: [{name: main, image: pause, resources: {requests: {cpu: "1"}}}]
"""
LEFT = ("kubectl", "get", "nodes,nodeclaims", "-l", "karpenter.sh/nodepool=observed", "-o", "name")


@pytest.fixture
def prepared(cluster: ControlPlane) -> Iterator[ControlPlane]:
    where = ("--namespace", SPACE, "--create-namespace")
    settings = ("--set", "settings.provider=kwok", "--set", "settings.observe=true", "--set", "replicas=0")
    cluster.run("helm", "install", "dovetail", str(CHARTS / "dovetail"), *where, *settings)
    pools = str(CHARTS / "dovetail-nodepools")
    cluster.run("helm", "install", "pools", pools, *where, "--values", "-", stdin=POOLS)
    yield cluster
    for release in ("pools", "dovetail"):
        cluster.run("helm", "uninstall", release, "--namespace", SPACE)


def _observer(plane: ControlPlane, folder: Path) -> Controller:
    """With the chart's rights for an observer."""
    token = plane.run("kubectl", "--namespace", SPACE, "create", "token", "dovetail").strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = write(folder / "observer.kubeconfig", config)
    (port,) = free_ports(1)
    # The chart gives the right to ask a metrics server together with the record; here it is not wanted.
    page = ("--cost-store", str(folder / "cost.db"), "--cost-api-port", str(port), "--cost-usage", "none")
    observer = Controller(plane, folder, "--observe", "--kubeconfig", str(path), *page)
    observer.page = f"http://127.0.0.1:{port}"
    return observer


def _page(observer: Controller) -> Any:
    """What its page shows."""
    with urllib.request.urlopen(f"{observer.page}/data.json") as answer:
        return json.load(answer)


def _decided(observer: Controller) -> set[str]:
    return {row["what"] for row in _page(observer)["present"]["decisions"]}


def _figures(observer: Controller) -> Any:
    """As of the last report, which comes at its end at the latest."""
    return observer.lines("observed so far")[-1]


def test_an_observer_reports_and_writes_nothing(prepared: ControlPlane, tmp_path: Path) -> None:
    acting = Controller(prepared, tmp_path, "--leader-election-name", "observed")
    with _observer(prepared, tmp_path) as observer:
        eventually(lambda: observer.asked("/readyz"), lambda found: found == (200, "ok"))
        with acting:
            prepared.run("kubectl", "apply", "-f", "-", stdin=DEPLOYMENT)
            ready = ("wait", "deployment/observed", "--for=condition=Available", "--timeout=90s")
            prepared.run("kubectl", *ready)
            eventually(lambda: observer.lines("would have launched nodeclaim(s)"), bool)
            launched = "the acting controller launched a nodeclaim"
            eventually(lambda: observer.lines(launched), lambda found: len(found) == 2)
            # That a node is ripe for consolidation is for the acting controller to say.
            ripe = ("--for=condition=Consolidatable", "-l", "karpenter.sh/nodepool=observed")
            prepared.run("kubectl", "wait", "nodeclaims", *ripe, "--timeout=60s")
            assert acting.stop() == 0
        # No controller acts now: what could be saved is reported, and stays.
        prepared.run("kubectl", "scale", "deployment/observed", "--replicas=0")
        (reported,) = eventually(lambda: observer.lines("would have disrupted node(s)"), bool, seconds=180)
        assert reported["hourly-saving"] > 0
        eventually(lambda: _decided(observer), lambda found: {"would launch", "would disrupt"} <= found)
        # The record, which is a file of its own, has what the acting controller bought.
        eventually(lambda: len(_page(observer)["nodes"]), lambda found: found >= 2)
        status, table = observer.asked("/observed")
        assert status == 200
        assert "Nothing was written to the cluster." in table
        assert observer.asked("/metrics")[1].count('dovetail_observed_launches_total{by="') == 2
        assert observer.stop() == 0
    with Controller(prepared, tmp_path, "--leader-election-name", "observed") as last:
        prepared.run("kubectl", "delete", "deployment", "observed")
        prepared.run("kubectl", "delete", "nodepool", "observed")
        eventually(lambda: prepared.run(*LEFT), lambda found: found == "")
        assert last.stop() == 0
    figures = _figures(observer)
    assert figures["acting"]["launched"] == figures["dovetail"]["launched"] == 2
    assert figures["dovetail"]["removed"] >= 1
    assert not [line for line in observer.lines() if line["level"] == "ERROR"]
    check_requests(prepared)


def check_requests(plane: ControlPlane) -> None:
    """The server says so: nothing but reads, none of them denied, and no right that is not used."""
    every = asked(plane, ACCOUNT)
    requests = {one for one in every if (one.verb, one.resource) not in OF_GANGS}
    assert {one.code for one in every - requests} == {404}
    assert {one.verb for one in requests} == {"list", "watch"}
    assert {one.code for one in requests} == {200}
    role = render("dovetail", "settings: {provider: kwok, observe: true}")["ClusterRole", "dovetail"]
    allowed = {
        (verb, "/".join(part for part in (group, resource) if part))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {(one.verb, one.resource) for one in requests} == allowed - OF_GANGS
