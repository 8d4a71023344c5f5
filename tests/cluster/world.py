"""A corner of the whole cluster for one test, and controllers that have the chart's rights."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually

Document = dict[str, Any]

ACCOUNT_SPACE = "account"  # where the chart is installed whose account the controllers use
POOLS = "/apis/karpenter.sh/v1/nodepools"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODES = "/api/v1/nodes"
CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass"}


class World:
    """Everything in it bears `name`; `account` is the kubeconfig of the chart's account."""

    def __init__(self, plane: ControlPlane, account: Path, folder: Path, name: str) -> None:
        self.plane = plane
        self.account = account
        self.name = name
        self._folder = folder
        self._trust = ssl.create_default_context(cafile=str(plane.ca))

    def controller(self, *flags: str, **environment: str) -> Controller:
        """One that plans soon and waits for no lease. It has the chart's rights and nothing more."""
        data = {
            "KUBECONFIG": str(self.account),
            "SYSTEM_NAMESPACE": ACCOUNT_SPACE,
            "BATCH_IDLE_DURATION": "200ms",
            "DISABLE_LEADER_ELECTION": "true",
            **environment,
        }
        return Controller(self.plane, self._folder, *flags, **data)

    def read(self, path: str, selector: str = "") -> Document:
        """What the API server answers: for looking often, which is dear with kubectl."""
        return self.send("GET", f"{path}?labelSelector={selector}" if selector else path)

    def claims(self) -> list[Document]:
        """The NodeClaims of the world's pools, by name."""
        return self._listed(CLAIMS)

    def nodes(self) -> list[Document]:
        """The Nodes of the world's pools, by name."""
        return self._listed(NODES)

    def pods(self, app: str = "") -> list[Document]:
        """The pods of the namespace that are not deleted yet, or those of one application."""
        path = f"/api/v1/namespaces/{self.name}/pods"
        found = self.read(path, f"app={app}" if app else "")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def running(self, app: str = "") -> list[Document]:
        """Those that run."""
        return [pod for pod in self.pods(app) if pod["status"].get("phase") == "Running"]

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """In the world's namespace."""
        return self.plane.run("kubectl", "--namespace", self.name, *arguments, stdin=stdin)

    def apply(self, *documents: Document) -> None:
        """Create or change objects."""
        self.kubectl(
            "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        )

    def settled(self, *, pods: int, nodes: int | None = None, seconds: float = 180) -> list[Document]:
        """The nodes (`nodes` of them if given), once `pods` pods run on them and each has a Ready claim."""

        def look() -> tuple[int, ...]:
            claims = self.claims()
            ready = [claim for claim in claims if status(claim, "Ready") == "True"]
            return len(claims), len(ready), len(self.nodes()), len(self.running()), len(self.pods())

        def wanted(found: tuple[int, ...]) -> bool:
            claims, ready, there, running, all_pods = found
            right = nodes in (None, claims) and claims == ready == there
            return right and running == all_pods == pods

        try:
            eventually(look, wanted, seconds=seconds)
        except AssertionError as error:
            error.add_note(json.dumps(self._unready(), indent=1))
            raise
        found = self.nodes()
        owners = {node["metadata"]["ownerReferences"][0]["uid"] for node in found}
        assert owners == {claim["metadata"]["uid"] for claim in self.claims()}
        return found

    def _unready(self) -> list[Document]:
        """Claims that are not Ready, their nodes, and pods that do not run: for the log of a failure."""
        claims = [claim for claim in self.claims() if status(claim, "Ready") != "True"]
        names = {claim.get("status", {}).get("nodeName") for claim in claims}
        pods = [pod for pod in self.pods() if pod["status"].get("phase") != "Running"]
        found = [*claims, *(node for node in self.nodes() if node["metadata"]["name"] in names), *pods]
        for one in found:
            one["metadata"].pop("managedFields", None)
        return found

    def described(self, kind: str, name: str) -> list[list[str]]:
        """The events that `kubectl describe` shows: type, reason, from, message."""
        data = self.kubectl("describe", kind, name)
        rows = data[data.rindex("\nEvents:") :].splitlines()[4:]
        return [[part.strip() for part in re.split(r"\s{2,}", row.strip(), maxsplit=4)] for row in rows]

    def events(self, name: str) -> list[str]:
        """The messages of all events of an object outside namespaces, even one that is gone."""
        chosen = ("--namespace", "default", f"--field-selector=involvedObject.name={name}")
        found = json.loads(self.plane.run("kubectl", "get", "events", *chosen, "-o", "json"))
        return [one["message"] for one in found["items"]]

    def clear(self) -> None:
        """Leave nothing behind, whether a controller is there to help or not."""
        self.plane.run("kubectl", "delete", "namespace", self.name, "--ignore-not-found", "--wait=false")
        for path in (POOLS, CLAIMS, NODES):
            for one in self._listed(path):
                self._remove(f"{path}/{one['metadata']['name']}")
        for one in self.read(CLASSES, "")["items"]:
            if one["metadata"]["name"].startswith(self.name):
                self._remove(f"{CLASSES}/{one['metadata']['name']}")

    def _remove(self, path: str) -> None:
        try:
            self.send("DELETE", path)
            self.send("PATCH", path, {"metadata": {"finalizers": None}})
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 404:
                    raise

    def send(self, method: str, path: str, body: Document | None = None) -> Document:
        """What it answers; a PATCH is a merge."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.plane.url}{path}", data, method=method)
        request.add_header("Authorization", f"Bearer {self.plane.tokens['admin']}")
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request.add_header("Content-Type", kind)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30, context=self._trust) as answer:
                    found: Document = json.load(answer)
                    return found
            except urllib.error.HTTPError as error:
                if error.code != 429:  # it is about to serve a definition that has just come
                    raise
                error.close()
                time.sleep(1)

    def _listed(self, path: str) -> list[Document]:
        found: list[Document] = self.read(path, f"world={self.name}")["items"]
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))


def status(found: Document, kind: str) -> str:
    """The status of a condition, "" where there is none."""
    conditions: Sequence[Document] = found.get("status", {}).get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")


def tainted(node: Document, key: str = "karpenter.sh/disrupted") -> bool:
    """True iff the node has a taint with that key."""
    return key in [taint["key"] for taint in node["spec"].get("taints", ())]


def node_class(name: str, **spec: str) -> Document:
    """A KWOKNodeClass."""
    kind, version = CLASS["kind"], f"{CLASS['group']}/v1alpha1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def node_pool(world: World, name: str = "", *, disruption: Document | None = None, **spec: Any) -> Document:
    """A NodePool of small nodes on demand; `spec` goes into its template's."""
    requirements = [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    template = {"nodeClassRef": {**CLASS, "name": world.name}, "requirements": requirements, **spec}
    quiet = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name or world.name, "labels": {"world": world.name}},
        "spec": {
            "template": {"metadata": {"labels": {"world": world.name}}, "spec": template},
            "disruption": {**quiet, **(disruption or {})},
        },
    }


def deployment(world: World, name: str, replicas: int, *, cpu: str = "1", **pod: Any) -> Document:
    """Pods for the world's pools; `pod` goes into their spec, or into their metadata as `annotations`."""
    chosen = {"app": name}
    meta = {"labels": chosen, "annotations": pod.pop("annotations", {})}
    main = {"name": "main", "image": "registry.k8s.io/pause:3.7", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"world": world.name},
        "containers": [main],
        **pod,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": meta, "spec": spec},
        },
    }


def apart(name: str) -> Document:
    """The affinity of pods of which every node takes one."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def budget(name: str, **limits: Any) -> Document:
    """A PodDisruptionBudget of one application."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **limits},
    }
