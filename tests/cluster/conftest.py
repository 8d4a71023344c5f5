"""A real control plane, started once for all tests that ask for one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.audit import account_of, denied
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.processes import write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS
from tests.cluster.running import eventually
from tests.cluster.world import ACCOUNT_SPACE, World, node_class


@pytest.fixture(scope="session")
def api_server() -> Iterator[ControlPlane]:
    """An API server and the controllers that its own promises need; no kubelet touches nodes or pods."""
    needed = "garbagecollector,disruption,namespace,serviceaccount"
    with ControlPlane(build(), nodes=False, controllers=needed) as plane:
        yield plane


@pytest.fixture(scope="session")
def whole() -> Iterator[ControlPlane]:
    with ControlPlane(build()) as plane:
        yield plane


@pytest.fixture(scope="module")
def cluster(whole: ControlPlane) -> Iterator[ControlPlane]:
    """A whole cluster: controllers, scheduler, and kwok for its nodes. A module leaves it as it found it."""
    yield whole
    left = ("kubectl", "get", "nodepools,nodeclaims,nodes,kwoknodeclasses,ec2nodeclasses", "-o", "name")
    eventually(lambda: whole.run(*left), lambda found: found == "", seconds=30)


@pytest.fixture
def prepared(cluster: ControlPlane) -> ControlPlane:
    """With the definitions of NodePools and all else."""
    define(cluster)
    return cluster


@pytest.fixture(scope="session")
def account(whole: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig of the account that the chart makes for the controller."""
    name = ("--set", "fullnameOverride=e2e", "--set", "serviceAccount.name=e2e")
    opened = "settings.featureGates.nodeOverlay=true,settings.featureGates.nodeRepair=true"
    gates = ("--set", opened)
    settings = ("--set", "settings.provider=kwok", "--set", "replicas=0", "--skip-crds", *gates)
    where = ("--namespace", ACCOUNT_SPACE, "--create-namespace")
    whole.run("helm", "install", "e2e", str(CHARTS / "dovetail"), *where, *name, *settings)
    token = whole.run("kubectl", "-n", ACCOUNT_SPACE, "create", "token", "e2e", "--duration=2h").strip()
    config = json.loads(whole.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return write(tmp_path_factory.mktemp("account") / "kubeconfig", config)


@pytest.fixture
def world(
    prepared: ControlPlane, account: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[World]:
    """A corner of the cluster that is this test's own."""
    test = request.node.name.removeprefix("test_")  # with its parameter in brackets, if it has one
    name = re.sub("[^a-z0-9]+", "-", test.lower())[:40].strip("-")
    corner = World(prepared, account, tmp_path, name)
    prepared.run("kubectl", "create", "namespace", name)
    try:
        corner.apply(node_class(name))
        yield corner
        assert denied(prepared, account_of(ACCOUNT_SPACE, "e2e")) == []
    finally:
        corner.clear()
