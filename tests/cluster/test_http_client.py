"""The HTTP client beyond the suite of all twins: pages, restarts, lost history, credentials."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.core import Namespace
from dovetail.api.meta import LabelSelector, Meta
from dovetail.api.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from dovetail.base.errors import Forbidden
from dovetail.kube.http.client import HttpClient, connect
from dovetail.kube.http.kubeconfig import Kubeconfig
from dovetail.kube.http.rate import RateLimit
from dovetail.kube.http.transport import Transport
from dovetail.kube.informer import Informer
from tests.cluster.controlplane.processes import openssl, write
from tests.cluster.controlplane.start import ControlPlane


def budget(name: str) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": name}), min_available=0)
    return PodDisruptionBudget(metadata=Meta(name=name, namespace="kube-public"), spec=spec)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)


def test_a_list_comes_in_pages(api_server: ControlPlane) -> None:
    async def main() -> None:
        access = Kubeconfig([api_server.kubeconfig]).access()
        async with Transport(access, RateLimit()) as transport:
            paged, whole = HttpClient(transport, page=2), HttpClient(transport)
            wanted = await whole.list(Namespace)
            assert len(wanted.items) > 3
            assert (await paged.list(Namespace)).items == wanted.items

    asyncio.run(main())


def etcd(plane: ControlPlane, path: str, **body: Any) -> dict[str, Any]:
    request = json.dumps(body).encode()
    with urllib.request.urlopen(f"{plane.etcd_url}/v3/kv/{path}", request, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_no_deletion_is_missed_while_the_server_and_its_history_are_away(api_server: ControlPlane) -> None:
    async def main() -> None:
        changes: list[tuple[str, str]] = []
        async with connect(Kubeconfig([api_server.kubeconfig]).access()) as client:
            for name in ("goes", "stays"):
                await client.create(budget(name))
            informer = Informer(
                client,
                PodDisruptionBudget,
                lambda kind, item: changes.append((kind, item.metadata.name)),
                namespace="kube-public",
            )
            running = asyncio.ensure_future(informer.run())
            await until(lambda: len(informer.objects) == 2)
            api_server.processes.stop("apiserver")
            key = base64.b64encode(b"/registry/poddisruptionbudgets/kube-public/goes").decode()
            gone = etcd(api_server, "deleterange", key=key)
            revision = int(gone["header"]["revision"])
            etcd(api_server, "put", key=base64.b64encode(b"later").decode(), value="")
            etcd(api_server, "compaction", revision=revision + 1, physical=True)
            api_server.start_api_server()
            await until(lambda: ("DELETED", "goes") in changes)
            assert list(informer.objects) == ["kube-public/stays"]
            await client.create(budget("comes"))
            await until(lambda: ("ADDED", "comes") in changes)
            running.cancel()
            for name in ("stays", "comes"):
                await client.delete(PodDisruptionBudget, name, "kube-public")

    asyncio.run(main())


def test_a_client_certificate_says_who_asks(api_server: ControlPlane, tmp_path: Path) -> None:
    key, request, signed = (str(tmp_path / name) for name in ("key.pem", "request.pem", "signed.pem"))
    subject = ("-subj", "/CN=somebody/O=nobodies")
    openssl(tmp_path, "req", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", key, "-out", request)
    authority = (str(api_server.folder / "clients.crt"), str(api_server.folder / "clients.key"))
    openssl(
        tmp_path,
        "x509",
        "-req",
        "-in",
        request,
        "-CA",
        authority[0],
        "-CAkey",
        authority[1],
        "-CAcreateserial",
        "-CAserial",
        str(tmp_path / "serial"),
        "-out",
        signed,
    )
    config = json.loads(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"client-certificate": "signed.pem", "client-key": "key.pem"}
    access = Kubeconfig([write(tmp_path / "config", config)]).access()

    async def main() -> None:
        async with connect(access) as client:
            with pytest.raises(Forbidden, match='User "somebody" cannot list resource "namespaces"'):
                await client.list(Namespace)

    asyncio.run(main())
