"""What `dovetail crds` prints, on a real API server: accepted, and every recorded object is judged alike."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dovetail.api.karpenter.definitions import DEFINITIONS
from tests.cluster.controlplane.definitions import wait_until_served
from tests.cluster.controlplane.start import ControlPlane
from tests.conformance.admission_cases import Case, places, read_cases, rule_texts, with_wait

CASES = [pytest.param(case, id=f"{number}-{case['name'][:80]}") for number, case in enumerate(read_cases())]
_PLURALS = {(kind.api_version, kind.kind): kind for kind in DEFINITIONS}


class Server:
    """Requests over one connection."""

    def __init__(self, plane: ControlPlane) -> None:
        trust = ssl.create_default_context(cafile=str(plane.ca))
        self._connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=trust, timeout=30)
        self._token = plane.tokens["admin"]

    def ask(
        self, method: str, path: str, document: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        body = None if document is None else json.dumps(document)
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def plane(api_server: ControlPlane) -> ControlPlane:
    """The server, with our definitions as a user puts them there."""
    printed = subprocess.run(
        [sys.executable, "-m", "dovetail", "crds"], capture_output=True, text=True, check=True
    )
    said = api_server.run("kubectl", "apply", "--server-side", "-f", "-", stdin=printed.stdout)
    assert len(said.splitlines()) == len(DEFINITIONS)
    wait_until_served(api_server)
    return api_server


@pytest.fixture(scope="module")
def server(plane: ControlPlane) -> Iterator[Server]:
    server = Server(plane)
    yield server
    server.close()


def _path(document: dict[str, Any], name: str = "") -> str:
    kind = _PLURALS[document["apiVersion"], document["kind"]]
    space = "namespaces/default/" if kind.namespaced else ""
    return f"/apis/{kind.api_version}/{space}{kind.plural}{name and '/' + name}"


def test_the_definitions_break_no_rule_of_the_server(plane: ControlPlane) -> None:
    for kind in DEFINITIONS:
        document = json.loads(plane.run("kubectl", "get", "crd", kind.name, "-o", "json"))
        found = {item["type"]: item["status"] for item in document["status"]["conditions"]}
        assert (found["Established"], found["NamesAccepted"]) == ("True", "True")
        assert found.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize("case", CASES)
def test_same_answer_as_recorded(case: Case, server: Server) -> None:
    document, expected = case["object"], case["expected"]
    strict = "?dryRun=All&fieldValidation=Strict"
    written = with_wait(case)
    if written is not None:
        answers = [server.ask("POST", _path(item) + strict, item)[1] for item in (document, written)]
        said = [item.get("spec") or rule_texts(item["details"]["causes"]) for item in answers]
        assert said[0] == said[1]
        return
    if case["operation"] == "create":
        code, answer = server.ask("POST", _path(document) + strict, document)
    else:
        name = case["old"]["metadata"]["name"]
        code, stored = server.ask("POST", _path(document), case["old"])
        assert code == 201, stored
        newer = {
            **document,
            "metadata": {**document["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]},
        }
        code, answer = server.ask("PUT", _path(document, name) + strict, newer)
        server.ask("DELETE", _path(document, name))
    if expected["accepted"]:
        assert code in (200, 201), answer["message"]
        assert answer.get("spec") == expected["spec"]
        return
    assert code == expected["code"], answer
    causes = answer.get("details", {}).get("causes", [])
    assert places(causes) == places(expected["causes"])
    assert rule_texts(causes) == rule_texts(expected["causes"])
    if code == 400:
        assert answer["message"] == expected["message"]


NARROW = ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]

_CLAIM: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {
        "name": "default-x7k2p",
        "labels": {
            "node.kubernetes.io/instance-type": "m7i.large",
            "karpenter.sh/capacity-type": "spot",
            "topology.kubernetes.io/zone": "us-east-1a",
            "karpenter.sh/nodepool": "default",
        },
    },
    "spec": {
        "requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "general"},
    },
}
_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2024-05-01T10:00:00Z",
}


def test_kubectl_shows_the_columns_of_a_node_claim(plane: ControlPlane, server: Server) -> None:
    code, claim = server.ask("POST", _path(_CLAIM), _CLAIM)
    assert code == 201, claim
    status = {
        "nodeName": "ip-10-0-0-1",
        "providerID": "aws:///us-east-1a/i-0abc",
        "imageID": "ami-0abc",
        "conditions": [_READY],
    }
    code, claim = server.ask("PUT", _path(_CLAIM, "default-x7k2p/status"), {**claim, "status": status})
    assert code == 200, claim
    shown = plane.run("kubectl", "get", "nodeclaim", "-o", "wide").splitlines()
    assert shown[0].split() == [*NARROW, "IMAGEID", "ID", "NODEPOOL", "NODECLASS", "DRIFTED"]
    row = shown[1].split()
    assert row[:6] == ["default-x7k2p", "m7i.large", "spot", "us-east-1a", "ip-10-0-0-1", "True"]
    assert row[7:] == ["ami-0abc", "aws:///us-east-1a/i-0abc", "default", "general"]
    assert plane.run("kubectl", "get", "nodeclaims").splitlines()[0].split() == NARROW
    plane.run("kubectl", "delete", "nodeclaim", "default-x7k2p")


def test_short_names_categories_and_words(plane: ControlPlane) -> None:
    for name in ("overlays", "ec2nc", "ec2ncs", "cb", "kwoknc", "karpenter", "autoscaling"):
        plane.run("kubectl", "get", name)
    words = plane.run("kubectl", "explain", "nodepool.spec.disruption.consolidateAfter")
    assert "consolidation" in words


def test_a_status_that_lacks_a_reason_is_refused(server: Server) -> None:
    code, claim = server.ask("POST", _path(_CLAIM), _CLAIM)
    assert code == 201, claim
    less = {key: value for key, value in _READY.items() if key != "reason"}
    code, answer = server.ask(
        "PUT", _path(_CLAIM, "default-x7k2p/status"), {**claim, "status": {"conditions": [less]}}
    )
    server.ask("DELETE", _path(_CLAIM, "default-x7k2p"))
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "status.conditions[0].reason")


def test_a_pool_can_be_scaled(plane: ControlPlane, server: Server) -> None:
    base = next(case["object"] for case in read_cases() if case["name"] == "NodePool: base")
    pool = {
        **base,
        "metadata": {"name": "static"},
        "spec": {"template": base["spec"]["template"], "replicas": 1},
    }
    code, answer = server.ask("POST", _path(pool), pool)
    assert code == 201, answer
    plane.run("kubectl", "scale", "nodepool", "static", "--replicas=3")
    assert plane.run("kubectl", "get", "nodepool", "static", "-o", "jsonpath={.spec.replicas}") == "3"
    plane.run("kubectl", "delete", "nodepool", "static")
