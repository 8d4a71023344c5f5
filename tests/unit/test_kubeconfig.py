"""Where the API server is and who asks: kubeconfig files, a pod's own file system, plugins."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.base.errors import InputError
from dovetail.kube.http.access import Access, Proof
from dovetail.kube.http.kubeconfig import Kubeconfig, locate


def written(
    path: Path, *, user: dict[str, Any], cluster: dict[str, Any] | None = None, name: str = "a"
) -> Path:
    document = {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443/", **(cluster or {})}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "team"}}],
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def proof(access: Access, *, renew: bool = False) -> Proof:
    return asyncio.run(access.credentials.proof(renew=renew))


def test_a_context_says_where_and_who(tmp_path: Path) -> None:
    authority = b"-----BEGIN CERTIFICATE-----"
    (tmp_path / "ca.pem").write_bytes(authority)
    cluster = {"certificate-authority": "ca.pem", "tls-server-name": "kube", "proxy-url": "http://p:1"}
    access = Kubeconfig([written(tmp_path / "config", user={"token": "t0"}, cluster=cluster)]).access()
    assert (access.server, access.authority, access.namespace) == ("https://a:6443", authority, "team")
    assert (access.server_name, access.proxy, access.insecure) == ("kube", "http://p:1", False)
    assert proof(access) == Proof("t0")


def test_data_in_the_file_wins_over_files(tmp_path: Path) -> None:
    data = {
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-certificate": "missing.pem",
        "client-key-data": base64.b64encode(b"KEY").decode(),
    }
    access = Kubeconfig([written(tmp_path / "config", user=data)]).access()
    pair = proof(access).certificate
    assert pair is not None
    assert (pair.certificate, pair.key) == (b"CERT", b"KEY")


def test_the_first_file_that_names_something_wins(tmp_path: Path) -> None:
    first = written(tmp_path / "1", user={"token": "one"}, name="a")
    second = written(tmp_path / "2", user={"token": "two"}, name="b")
    both = Kubeconfig([first, second])
    assert both.access().server == "https://a:6443"
    assert proof(both.access("b")) == Proof("two")


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    access = Kubeconfig([written(tmp_path / "config", user={"tokenFile": "token"})]).access()

    async def check() -> None:
        assert await access.credentials.proof() == Proof("old")
        (tmp_path / "token").write_text("new\n")
        assert await access.credentials.proof() == Proof("old"), "it is current for a minute"
        assert await access.credentials.proof(renew=True) == Proof("new")

    asyncio.run(check())


PLUGIN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = len(open("calls").readlines()) if os.path.exists("calls") else 0
open("calls", "a").write("x\\n")
token = " ".join((os.environ["FLAVOUR"], *sys.argv[1:], info["spec"]["cluster"]["server"], str(count)))
status = {"token": token, "expirationTimestamp": sys.argv[2]}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def plugin(arguments: list[str], **more: Any) -> dict[str, Any]:
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": arguments, **more}}


@pytest.mark.parametrize(("ends", "calls"), [("2999-01-01T00:00:00Z", "0"), ("2001-01-01T00:00:00Z", "1")])
def test_a_plugin_is_asked_until_its_token_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, calls: str
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = [{"name": "FLAVOUR", "value": "sweet"}]
    user = plugin(["-c", PLUGIN, "get", ends], env=environment, provideClusterInfo=True)
    access = Kubeconfig([written(tmp_path / "config", user=user)]).access()

    async def check() -> None:
        await access.credentials.proof()
        found = (await access.credentials.proof()).token
        assert found == f"sweet get {ends} https://a:6443/ {calls}"

    asyncio.run(check())


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (plugin(["-c", "import sys; sys.exit('no session; log in first')"]), "no session; log in first"),
        (plugin(["-c", "print('hello')"]), "printed no ExecCredential"),
        (plugin(["-c", "print('{\"status\": {}}')"]), "gave neither a token nor a certificate"),
        (plugin([], command="no-such-plugin", installHint="get it at the shop"), "get it at the shop"),
    ],
)
def test_plugins_that_fail(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    access = Kubeconfig([written(tmp_path / "config", user=user)]).access()
    with pytest.raises(InputError) as caught:
        proof(access)
    assert message in str(caught.value)
    assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        ("a: [", "", "is not YAML"),
        ("- 1", "", "must be a mapping"),
        ("{}", "", "names no current context"),
        ("{clusters: [{name: a}]}", "", "must have a name and a cluster"),
        ("{current-context: a}", "", "has no context 'a'"),
        ("{contexts: [{name: b, context: {cluster: c}}]}", "b", "has no cluster 'c'"),
        ("{contexts: [{name: b, context: {cluster: c}}]}", "a", "set --context to one of these contexts: b"),
    ],
)
def test_broken_files(tmp_path: Path, content: str, context: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Kubeconfig([path]).access(context or "")
    if message.startswith("set --context"):
        assert "has no context 'a'" in str(caught.value)
    else:
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"username": "u", "password": "p"}, "asks for 'username'"),
        ({"auth-provider": {"name": "gcp"}}, "asks for 'auth-provider'"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}}, "v1alpha1"),
        ({"client-certificate": "gone.pem"}, "cannot be read"),
    ],
)
def test_users_that_cannot_be_used(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Kubeconfig([written(tmp_path / "config", user=user)]).access()
    assert message in str(caught.value)


def test_secrets_are_in_no_text(tmp_path: Path) -> None:
    user = {"token": "s3cret", "client-key-data": "S0VZ", "client-certificate-data": "Q0VSVA=="}
    access = Kubeconfig([written(tmp_path / "config", user=user)]).access()
    shown = repr(access) + repr(proof(access))
    assert "s3cret" not in shown
    assert "KEY" not in shown


def test_garbage_for_certificates(tmp_path: Path) -> None:
    user = {"token": "t"}
    garbage = b"-----BEGIN CERTIFICATE-----\ngarbage"
    cluster = {"certificate-authority-data": base64.b64encode(garbage).decode()}
    access = Kubeconfig([written(tmp_path / "config", user=user, cluster=cluster)]).access()
    with pytest.raises(InputError, match="must be PEM"):
        access.tls(None, access.trusted())


def test_which_user_is_meant_by_default(tmp_path: Path) -> None:
    named = written(tmp_path / "named", user={"token": "t"}, name="named")
    usual = tmp_path / ".kube" / "config"
    usual.parent.mkdir()
    written(usual, user={"token": "t"}, name="usual")
    account = tmp_path / "account"
    account.mkdir()
    for name, content in (("token", "t"), ("ca.crt", "CA"), ("namespace", "kube-system")):
        (account / name).write_text(content)
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    home = {"HOME": str(tmp_path)}
    for environment, flag, server in (
        ({**home, **pod, "KUBECONFIG": f"{tmp_path / 'gone'}:{named}"}, None, "https://named:6443"),
        ({**home, **pod, "KUBECONFIG": "elsewhere"}, named, "https://named:6443"),
        ({**home, **pod}, None, "https://[fd00::1]:443"),
        (home, None, "https://usual:6443"),
    ):
        assert locate(environment, kubeconfig=flag, account=account).server == server
    assert locate(pod, account=account).namespace == "kube-system"
    with pytest.raises(InputError, match="there is no API server to talk to"):
        locate({"HOME": str(tmp_path / "nobody")}, account=account)
    with pytest.raises(InputError, match="there is no file"):
        locate({"KUBECONFIG": "gone"}, account=account)


def test_the_plugin_prints_json(tmp_path: Path) -> None:
    status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
    printed = json.dumps({"status": status})
    user = plugin(["-c", f"print({printed!r})"])
    access = Kubeconfig([written(tmp_path / "config", user=user)]).access()
    pair = proof(access).certificate
    assert pair is not None
    assert (pair.certificate, pair.key) == (b"CERT", b"KEY")
