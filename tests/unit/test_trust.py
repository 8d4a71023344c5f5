"""Which server is believed: real TLS on loopback, with authorities of machine and cluster, renewed ones."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dovetail.base.errors import InputError, Unauthorized, Unavailable
from dovetail.kube.http.access import Access, Proof
from dovetail.kube.http.credentials import Fixed, TokenFile
from dovetail.kube.http.kubeconfig import Kubeconfig, in_cluster
from dovetail.kube.http.rate import RateLimit
from dovetail.kube.http.transport import Transport, check

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """One that signs, with its certificate as PEM."""

    key: ec.EllipticCurvePrivateKey
    name: x509.Name
    pem: bytes

    @classmethod
    def new(cls, name: str) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = _certificate(subject, subject, key).add_extension(x509.BasicConstraints(True, None), True)
        pem = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return cls(key, subject, pem)

    def server(self, folder: Path, *names: str) -> ssl.SSLContext:
        """The context of a server that this one vouches for, under 127.0.0.1 or names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        known: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        known = known or [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        built = _certificate(subject, self.name, key).add_extension(x509.SubjectAlternativeName(known), False)
        path = folder / "server.pem"
        plain = serialization.NoEncryption()
        form = serialization.PrivateFormat.PKCS8
        path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, form, plain)
            + built.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY
    )


CLUSTER, MACHINE, OTHER = (Authority.new(name) for name in ("cluster", "machine", "other"))


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine trusts one authority, as it does those of the web."""
    path = tmp_path / "machine.pem"
    path.write_bytes(MACHINE.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))


@asynccontextmanager
async def served(context: ssl.SSLContext, *, port: int = 0, token: str = "") -> AsyncIterator[int]:
    """An API server that knows its version, at a port; with a token, only for that one."""

    async def version(request: web.Request) -> web.Response:
        if token and request.headers.get("Authorization") != f"Bearer {token}":
            return web.json_response({}, status=401)
        return web.json_response({"gitVersion": "v1.34.0"})

    app = web.Application()
    app.router.add_get("/version", version)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def proxied(connects: list[str]) -> AsyncIterator[int]:
    """A proxy that connects its clients to where they want, and notes where that is."""

    async def copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
        finally:
            target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split()[1]
        connects.append(head.split()[0] + " " + target)
        host, _, port = target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(copied(reader, back), copied(there, writer), return_exceptions=True)

    begun: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(
        lambda *pair: begun.append(asyncio.get_running_loop().create_task(serve(*pair))), "127.0.0.1"
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*begun)


def access(port: int = 0, **more: Any) -> Access:
    return Access(f"https://127.0.0.1:{port}", Fixed(Proof()), source="kubeconfig", **more)


async def asked(wanted: Access) -> str:
    async with Transport(wanted, RateLimit()) as transport:
        return await check(transport)


REFUSED = "does not answer: .*certificate verify failed"


@pytest.mark.parametrize(
    ("signer", "trusts", "error"),
    [
        (CLUSTER, {"authority": CLUSTER.pem}, None),
        (MACHINE, {}, None),
        (OTHER, {"authority": b"# two\n\xe9" + CLUSTER.pem + OTHER.pem}, None),
        (OTHER, {"insecure": True}, None),
        # An authority takes the place of the machine's: what the web trusts is no API server of ours.
        (MACHINE, {"authority": CLUSTER.pem}, REFUSED),
        (CLUSTER, {}, REFUSED),
        (OTHER, {"authority": CLUSTER.pem}, REFUSED),
    ],
)
def test_which_authority_is_believed(
    tmp_path: Path, signer: Authority, trusts: dict[str, Any], error: str | None
) -> None:
    async def main() -> None:
        async with served(signer.server(tmp_path)) as port:
            if error is None:
                assert await asked(access(port, **trusts)) == "v1.34.0"
            else:
                with pytest.raises(Unavailable, match=error):
                    await asked(access(port, **trusts))

    asyncio.run(main())


@pytest.mark.parametrize("through_proxy", [False, True])
def test_the_name_that_the_certificate_must_have(tmp_path: Path, through_proxy: bool) -> None:
    async def main() -> None:
        connects: list[str] = []
        async with served(CLUSTER.server(tmp_path, "kubernetes")) as port, proxied(connects) as proxy:
            plain = access(port, authority=CLUSTER.pem, proxy=f"http://127.0.0.1:{proxy}")
            plain = plain if through_proxy else replace(plain, proxy="")
            assert await asked(replace(plain, server_name="kubernetes")) == "v1.34.0"
            for wrong in ("", "elsewhere"):
                with pytest.raises(Unavailable, match=REFUSED):
                    await asked(replace(plain, server_name=wrong))
            with pytest.raises(Unavailable, match=REFUSED):
                await asked(replace(plain, server_name="kubernetes", authority=OTHER.pem))
            assert set(connects) == ({f"CONNECT 127.0.0.1:{port}"} if through_proxy else set())

    asyncio.run(main())


def kubeconfig(folder: Path, cluster: dict[str, Any]) -> Callable[[], Access]:
    document = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return lambda: Kubeconfig([path]).access()


def test_insecure_together_with_an_authority_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(CLUSTER.pem)
    both = {"insecure-skip-tls-verify": True, "certificate-authority": "ca.pem"}
    with pytest.raises(InputError, match="exclude each other") as caught:
        kubeconfig(tmp_path, both)()
    assert str(tmp_path / "config") in str(caught.value)
    assert "remove insecure-skip-tls-verify" in str(caught.value)
    assert kubeconfig(tmp_path, {"insecure-skip-tls-verify": True})().insecure


@pytest.mark.parametrize("content", ["", "# later\n", "-----BEGIN PRIVATE KEY-----\n"])
def test_an_authority_without_a_certificate_is_no_reason_to_believe_any_server(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(InputError, match="holds no certificate"):
        kubeconfig(tmp_path, {"certificate-authority": "ca.pem"})()
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    (account / "ca.crt").write_text(content)
    pod = in_cluster({"KUBERNETES_SERVICE_HOST": "127.0.0.1"}, account)
    with pytest.raises(Unauthorized, match="holds no certificate"):
        asyncio.run(asked(pod))
    (account / "ca.crt").unlink()
    with pytest.raises(Unauthorized, match="No such file"):
        asyncio.run(asked(pod))


def test_a_pods_authority_and_token_are_renewed_under_it(tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()

    def renew(authority: bytes, token: str) -> None:
        (account / "ca.crt").write_bytes(authority)
        (account / "token").write_text(token)

    async def main() -> None:
        renew(CLUSTER.pem, "first")
        async with served(CLUSTER.server(tmp_path), token="first") as port:
            environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
            transport = await Transport(in_cluster(environment, account), RateLimit()).__aenter__()
            assert await check(transport) == "v1.34.0"
            (account / "ca.crt").write_bytes(b"")  # as a reader sees a file that is being written
            assert await check(transport) == "v1.34.0"
        async with served(OTHER.server(tmp_path), port=port, token="second"):
            with pytest.raises(Unavailable, match=REFUSED):
                await check(transport)
            renew(OTHER.pem, "second")
            assert await check(transport) == "v1.34.0"
        await transport.__aexit__()

    asyncio.run(main())


def test_an_authority_is_read_again_only_when_its_file_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[Path](), Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path)
        return read(path)

    def mounted(name: str, content: bytes) -> None:
        """As a kubelet renews what it mounts: a link that leads to another folder from one moment on."""
        folder = tmp_path / name
        folder.mkdir()
        (folder / "ca.crt").write_bytes(content)
        (tmp_path / "next").symlink_to(folder)
        (tmp_path / "next").replace(tmp_path / "data")

    async def main() -> None:
        mounted("first", CLUSTER.pem)
        path = tmp_path / "ca.crt"
        path.symlink_to(Path("data") / "ca.crt")
        async with served(CLUSTER.server(tmp_path)) as port:
            transport = await Transport(access(port, authority_file=path), RateLimit()).__aenter__()
            for _ in range(3):
                assert await check(transport) == "v1.34.0"
            assert len(reads) == 1
            path.rename(tmp_path / "aside")
            assert await check(transport) == "v1.34.0", "gone for a moment"
            (tmp_path / "aside").rename(path)
            assert await check(transport) == "v1.34.0"
            assert len(reads) == 3
        async with served(OTHER.server(tmp_path), port=port):
            with pytest.raises(Unavailable, match=REFUSED):
                await check(transport)
            mounted("broken", b"-----BEGIN CERTIFICATE-----\n")
            for _ in range(2):
                with pytest.raises(Unauthorized, match="must be PEM"):
                    await check(transport)
            mounted("second", OTHER.pem)
            for _ in range(3):
                assert await check(transport) == "v1.34.0"
            assert len(reads) == 6
        await transport.__aexit__()

    monkeypatch.setattr(Path, "read_bytes", counted)
    asyncio.run(main())


def test_a_token_file_that_is_gone_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.write_text("known\n")
    monkeypatch.setattr("dovetail.kube.http.credentials.RELOAD", 0)

    async def main() -> None:
        file = TokenFile(path)
        assert await file.proof() == Proof("known")
        for content in (b"", b"\xff\xfe"):
            path.write_bytes(content)
            assert await file.proof() == Proof("known"), "the server says if it takes it no more"
            with pytest.raises(InputError, match="the token"):
                await file.proof(renew=True)
        path.unlink()
        assert await file.proof() == Proof("known")

    asyncio.run(main())


def test_a_token_of_two_lines_is_refused_and_not_shown() -> None:
    async def main() -> None:
        wanted = replace(access(1), credentials=Fixed(Proof("s3cret\r\nHost: b")))
        with pytest.raises(Unauthorized, match="the token cannot be sent") as caught:
            await asked(wanted)
        assert "s3cret" not in str(caught.value)

    asyncio.run(main())
