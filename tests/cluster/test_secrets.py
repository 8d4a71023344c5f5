"""Credentials are in no line: tokens, keys, what plugins print, also at debug and when refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.processes import write
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually, said

PLANTED = "planted-5ecret"
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}


def _plugin(status: object) -> dict[str, object]:
    printed = json.dumps({**EXEC, "status": status})
    return {"exec": {"apiVersion": EXEC["apiVersion"], "command": "echo", "args": [printed]}}


def _pem(kind: str) -> str:
    text = base64.b64encode(PLANTED.encode()).decode()
    return base64.b64encode(f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n".encode()).decode()


@pytest.mark.parametrize(
    "user",
    [
        {"token": PLANTED},
        {"username": "somebody", "password": PLANTED},
        _plugin({"token": PLANTED}),
        _plugin({"token": ["not a text", PLANTED]}),
        _plugin({"clientCertificateData": PLANTED, "clientKeyData": PLANTED}),
        {"client-certificate-data": _pem("CERTIFICATE"), "client-key-data": _pem("PRIVATE KEY")},
    ],
    ids=["token", "password", "plugin", "wrong plugin", "plugin's certificate", "certificate"],
)
def test_refused_credentials_are_not_shown(
    api_server: ControlPlane, tmp_path: Path, user: dict[str, object]
) -> None:
    config = json.loads(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = user
    path = write(tmp_path / "config", config)
    code, complaint = said(api_server, "--kubeconfig", str(path), "--log-level", "debug")
    assert code == 2
    assert PLANTED not in complaint
    assert base64.b64encode(PLANTED.encode()).decode() not in complaint
    assert "Traceback" not in complaint


def test_a_token_that_is_good_is_in_no_line(api_server: ControlPlane, tmp_path: Path) -> None:
    define(api_server)
    flags = ("--log-level", "debug", "--leader-election-name", "secrets")
    with Controller(api_server, tmp_path, *flags) as controller:
        eventually(lambda: controller.lines("leading"), bool)
        eventually(lambda: controller.asked("/readyz"), lambda found: found == (200, "ok"))
        metrics = controller.asked("/metrics")[1]
        assert controller.stop() == 0
    text = controller.log.read_text() + metrics
    assert not [user for user, token in api_server.tokens.items() if token in text]


def test_a_name_that_no_lease_may_have_is_refused(api_server: ControlPlane, tmp_path: Path) -> None:
    with Controller(api_server, tmp_path, "--leader-election-name", "No_Name") as controller:
        (line,) = eventually(lambda: controller.lines("cannot take the lease"), bool)
        assert "No_Name" in line["error"]
        status, missing = eventually(lambda: controller.asked("/readyz"), lambda found: found[0] == 503)
        assert (status, "cannot be taken" in missing) == (503, True)
        assert controller.stop() == 0
