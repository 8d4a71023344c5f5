"""A cluster on its way from v1beta1 to v1: what is stored changes, no node goes. On its own control plane."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.base.clock import DAY, SECOND
from dovetail.runtime.process.certificates import RENEWED, VALID, issue
from tests.cluster.audit import account_of, denied
from tests.cluster.controlplane.build import build
from tests.cluster.controlplane.definitions import define, wait_until_served
from tests.cluster.controlplane.processes import free_ports, write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.helm import CHARTS
from tests.cluster.running import Controller, eventually
from tests.cluster.world import CLAIMS, CLASS, World, apart, deployment, node_class

Document = dict[str, Any]
COUNT = 2
SPACE = "account"  # that of the webhook's Service
SERVICE_PORT = 8443  # the chart's
KEPT = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
NOTHING_KEPT = {"metadata": {"annotations": None}}
# What `dovetail check cluster` finds, with the step that takes it away.
STORED, SERVED = (5, "v1beta1 is a stored version"), (6, "v1beta1 is served")
KEEPING = (5, "objects that keep v1beta1 in annotations (compatibility.karpenter.sh)")
TWO_VERSIONS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")


class Way:
    """A world whose definitions ask a webhook, behind the chart's Service, which leads to this machine."""

    def __init__(self, world: World) -> None:
        self.world = world
        command = (sys.executable, "-m", "dovetail", "crds", "-o", "json")
        printed = subprocess.run(
            (*command, "--webhook-service", f"{SPACE}/karpenter:{SERVICE_PORT}"),
            check=True,
            capture_output=True,
            text=True,
        )
        self._printed = json.loads(printed.stdout)
        self.run("kubectl", "create", "namespace", world.name)

    def run(self, *command: str, stdin: str = "") -> str:
        return self.world.plane.run(*command, stdin=stdin)

    def define(self, storage: str) -> None:
        """As `dovetail crds` prints them, but stored in that version."""
        for item in self._printed["items"]:
            if item["metadata"]["name"] in TWO_VERSIONS:
                for version in item["spec"]["versions"]:
                    version["storage"] = version["name"] == storage
        apply = ("kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-")
        self.run(*apply, stdin=json.dumps(self._printed))
        wait_until_served(self.world.plane)

    @contextlib.contextmanager
    def controller(self, **variables: str) -> Iterator[Controller]:
        """A replica, an endpoint of the Service from when it serves until the test is done with it."""
        (port,) = free_ports(1)
        given = {"DISABLE_WEBHOOK": "false", "WEBHOOK_PORT": str(port), **variables}
        with self.world.controller("--provider", "kwok", **given) as controller:
            eventually(lambda: controller.lines("serving conversions"), bool)
            self.run("kubectl", "apply", "-f", "-", stdin=json.dumps(_endpoint(port)))
            try:
                yield controller
            finally:
                self.run("kubectl", "-n", SPACE, "delete", "endpointslice", f"replica-{port}")

    def pool(self, version: str) -> Document:
        return self.world.read(f"/apis/karpenter.sh/{version}/nodepools/{self.world.name}")

    def change(self, merge: Document) -> None:
        """The pool, as v1."""
        self.world.send("PATCH", f"/apis/karpenter.sh/v1/nodepools/{self.world.name}", merge)

    def refused(self) -> str:
        """What is said of the pool as v1beta1 where it cannot be had."""
        with pytest.raises(urllib.error.HTTPError) as refusal:
            self.pool("v1beta1")
        with refusal.value as answer:
            return str(json.load(answer)["message"])

    def left(self) -> set[tuple[int, str]]:
        """What `dovetail check cluster` finds of v1beta1: the step that takes it away, and what it is."""
        command = (sys.executable, "-m", "dovetail", "check", "cluster", "-o", "json")
        done = subprocess.run(
            (*command, "--kubeconfig", str(self.world.plane.kubeconfig)),
            capture_output=True,
            text=True,
            check=False,
        )
        found = json.loads(done.stdout)["leftovers"]
        assert done.returncode == bool(found)
        return {(item["step"], item["what"]) for item in found}

    def stored(self) -> list[list[str]]:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
        return [self.world.read(path + name)["status"]["storedVersions"] for name in TWO_VERSIONS]


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with ControlPlane(build(), routing=True) as plane:
        folder: Path = tmp_path_factory.mktemp("way")
        yield Way(World(plane, _account(plane, folder), folder, "fleet"))
        assert denied(plane, account_of(SPACE, "karpenter")) == []


def _endpoint(port: int) -> Document:
    """A replica as its pod's address would be; loopback is none that an endpoint may have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it asks which address of this machine is used
        address = probe.getsockname()[0]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"replica-{port}",
            "namespace": SPACE,
            "labels": {"kubernetes.io/service-name": "karpenter"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https-webhook", "port": port, "protocol": "TCP"}],
    }


def _account(plane: ControlPlane, folder: Path) -> Path:
    """The kubeconfig of the account that the chart makes for a controller with the webhook."""
    settings = ("fullnameOverride=karpenter", "settings.provider=kwok", "replicas=0", "webhook.enabled=true")
    where = ("--namespace", SPACE, "--create-namespace", "--skip-crds")
    chosen = [part for one in settings for part in ("--set", one)]
    plane.run("helm", "install", "karpenter", str(CHARTS / "dovetail"), *where, *chosen)
    token = plane.run("kubectl", "-n", SPACE, "create", "token", "karpenter", "--duration=2h").strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return write(folder / "kubeconfig", config)


def beta_pool(world: World) -> Document:
    requirements = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
    reference = {
        "apiVersion": f"{CLASS['group']}/v1alpha1",
        "kind": CLASS["kind"],
        "name": world.name,
    }
    spec = {"nodeClassRef": reference, "requirements": requirements, "kubelet": {"maxPods": 17}}
    mark = {"world": world.name}
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": world.name, "labels": mark},
        "spec": {
            "template": {"metadata": {"labels": mark}, "spec": spec},
            "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "700h"},
        },
    }


def test_stored_versions_change_and_no_node_goes(way: Way) -> None:
    world = way.world
    way.define("v1beta1")
    world.apply(node_class(world.name))
    with way.controller() as controller:
        eventually(lambda: controller.asked("/readyz")[0], lambda code: code == 200)
        eventually(lambda: controller.lines("starting"), bool)
        world.apply(beta_pool(world))
        spec = way.pool("v1")["spec"]
        assert spec["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
        assert spec["template"]["spec"]["expireAfter"] == "700h"
        assert json.loads(way.pool("v1")["metadata"]["annotations"][KEPT]) == {"maxPods": 17}

        assert way.left() == {STORED, SERVED, KEEPING}
        way.change({"spec": {"weight": 7}})
        older = way.pool("v1beta1")["spec"]
        assert (older["weight"], older["template"]["spec"]["kubelet"]) == (7, {"maxPods": 17})
        assert older["disruption"]["consolidationPolicy"] == "WhenUnderutilized"

        way.define("v1")
        world.apply(deployment(world, "web", COUNT, affinity=apart("web")))
        nodes = {node["metadata"]["name"] for node in world.settled(pods=COUNT, nodes=COUNT)}
        way.define("v1beta1")
        _write_claims_as_v1beta1(way)
        assert controller.stop() == 0

    # The next release stores v1. The certificate is at its end, and of an authority that no one trusts.
    way.define("v1")
    _replace_secret(way, issue(_names(), time.time_ns() - 50 * DAY).data())
    with way.controller() as controller:
        eventually(way.stored, lambda found: found == [["v1"]] * 3)
        assert controller.lines("issued a certificate")[0]["because"] == "its time is near"
        assert way.left() == {SERVED, KEEPING}
        assert {node["metadata"]["name"] for node in world.settled(pods=COUNT, nodes=COUNT)} == nodes
        assert all("deletionTimestamp" not in claim["metadata"] for claim in world.claims())
        assert way.pool("v1beta1")["spec"]["weight"] == 7
        assert controller.stop() == 0
    # v1 is what is stored: it takes no webhook to read it.
    assert way.pool("v1")["spec"]["weight"] == 7
    assert "conversion webhook for karpenter.sh/v1, Kind=NodePool failed" in way.refused()


def test_a_certificate_that_is_lost_is_replaced_while_requests_come(way: Way) -> None:
    with way.controller() as controller:
        eventually(lambda: controller.lines("starting"), bool)
        before, first = way.pool("v1beta1")["spec"], _end_of_certificate(controller)
        _replace_secret(way, {})
        eventually(lambda: controller.lines("issued a certificate"), lambda found: len(found) == 1)
        for _ in range(20):  # whichever of the two is served and whatever the server has received yet
            assert way.pool("v1beta1")["spec"] == before
        eventually(lambda: _end_of_certificate(controller), lambda end: end > first)
        assert way.pool("v1beta1")["spec"] == before

        way.change({"metadata": {"annotations": {KEPT: "{"}}})
        assert "unmarshaling kubelet config annotation, unexpected end of JSON input" in way.refused()
        assert controller.lines("could not convert")
        way.change({"metadata": {"annotations": {KEPT: '{"maxPods":17}'}}})
        assert controller.stop() == 0


class Load(threading.Thread):
    """Reads and writes the pool as v1beta1, which is stored as v1, without a pause; keeps what fails."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self.asked, self.failed = 0, list[str]()
        self._way, self._ended = way, threading.Event()

    def run(self) -> None:
        path = f"/apis/karpenter.sh/v1beta1/nodepools/{self._way.world.name}"
        while not self._ended.is_set():
            merge = {"metadata": {"annotations": {"turn": str(self.asked)}}}
            method, body = ("PATCH", merge) if self.asked % 5 == 0 else ("GET", None)
            try:
                found = self._way.world.send(method, path, body)
            except urllib.error.HTTPError as error:
                with error:
                    self.failed.append(error.read().decode())
            else:
                if found["spec"]["template"]["spec"]["kubelet"] != {"maxPods": 17}:
                    self.failed.append(json.dumps(found))
            self.asked += 1

    def __enter__(self) -> Load:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def test_two_replicas_renew_their_certificate_and_no_conversion_fails(way: Way) -> None:
    # Its time comes while both serve with it, and they renew it at once.
    soon = time.time_ns() - (VALID - RENEWED) + 30 * SECOND
    _replace_secret(way, issue(_names(), soon).data())
    electing = {"DISABLE_LEADER_ELECTION": "false"}
    with way.controller(**electing) as first, way.controller(**electing) as second:
        both = (first, second)
        eventually(lambda: [one.asked("/readyz")[0] for one in both], lambda found: 200 in found)
        before = _end_of_certificate(first)
        assert before == _end_of_certificate(second)
        with Load(way) as load:
            _both_serve_another(both, before)
            between = _end_of_certificate(first)
            _replace_secret(way, {})  # and once more, as if it had been deleted
            _both_serve_another(both, between)
            settled = load.asked + 50
            eventually(lambda: load.asked, lambda asked: asked >= settled)
        assert load.failed == []
        assert load.asked > 200
        assert len(first.lines("issued a certificate") + second.lines("issued a certificate")) == 2
        # To which of them the API server goes is its own draw, made anew with each authority that it trusts.
        assert _converted(first) + _converted(second) > load.asked
        assert [one.stop() for one in both] == [0, 0]


def test_at_the_end_of_the_way_there_is_v1_alone(way: Way) -> None:
    # No webhook either.
    nothing = json.dumps({"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    way.run("kubectl", "patch", "crd", *TWO_VERSIONS, "--type=merge", "-p", nothing)
    define(way.world.plane)
    assert way.left() == {KEEPING}
    way.change(NOTHING_KEPT)
    for claim in way.world.claims():
        way.world.send("PATCH", f"{CLAIMS}/{claim['metadata']['name']}", NOTHING_KEPT)
    assert way.left() == set()
    assert way.pool("v1")["spec"]["weight"] == 7
    assert "v1beta1" not in way.run("kubectl", "get", "crd", "nodepools.karpenter.sh", "-o", "json")


def _write_claims_as_v1beta1(way: Way) -> None:
    """As the controller of that release had made them: v1beta1 refers to classes by kind and version."""
    claims = json.loads(way.run("kubectl", "get", "nodeclaims.v1beta1.karpenter.sh", "-o", "json"))
    for claim in claims["items"]:
        claim["spec"]["nodeClassRef"]["apiVersion"] = f"{CLASS['group']}/v1alpha1"
    way.run("kubectl", "replace", "-f", "-", stdin=json.dumps(claims))


def _both_serve_another(both: tuple[Controller, Controller], end: float) -> None:
    eventually(
        lambda: {_end_of_certificate(one) for one in both},
        lambda found: len(found) == 1 and end not in found,
    )


def _end_of_certificate(controller: Controller) -> float:
    """When that which is served ends, in seconds."""
    lines = controller.asked("/metrics")[1].splitlines()
    name = "dovetail_webhook_certificate_end_timestamp_seconds "
    return float(next(line.removeprefix(name) for line in lines if line.startswith(name)))


def _converted(controller: Controller) -> float:
    """How many objects a replica was asked to convert, and did."""
    lines = controller.asked("/metrics")[1].splitlines()
    name = "dovetail_conversion_webhook_objects_total{"
    found = [line for line in lines if line.startswith(name) and 'result="success"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def _names() -> list[str]:
    return [
        f"karpenter.{SPACE}.svc",
        f"karpenter.{SPACE}.svc.cluster.local",
        f"karpenter.{SPACE}",
        "karpenter",
    ]


def _replace_secret(way: Way, data: dict[str, bytes]) -> None:
    encoded = {key: b64encode(value).decode() for key, value in data.items()}
    patch = json.dumps([{"op": "replace", "path": "/data", "value": encoded}])
    way.run("kubectl", "-n", SPACE, "patch", "secret", "karpenter-cert", "--type=json", "-p", patch)
