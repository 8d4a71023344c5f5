"""Every way to an identity and to AWS that the guide names, tried against servers that answer as AWS does."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dovetail.cloud.aws.live import connect
from dovetail.cloud.aws.live.calls import Calls
from tests.conformance.aws_accounts import REGION, served

ROLE = "arn:aws:iam::123456789012:role/controller"
KEYS = {"AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "secret", "Expiration": "2099-01-01T00:00:00Z"}
FOREIGN = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "NO_PROXY",
    "no_proxy",
)
Answer = Callable[[str, str, dict[str, str], bytes], tuple[int, bytes]]  # method, path, headers, body


@pytest.fixture(autouse=True)
def no_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No identity of the machine's own."""
    for name in FOREIGN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """The URL of a server that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def _all(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, reply = answer(self.command, self.path, dict(self.headers.items()), body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_PUT = do_POST = _all  # noqa: N815 - the names that the server calls

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}"
        finally:
            found.shutdown()
            thread.join()


def who() -> str:
    """The ARN that AWS knows the caller by."""

    async def ask() -> str:
        async with connect({"AWS_REGION": REGION}) as aws:
            return (await aws.sts.get_caller_identity()).arn

    return asyncio.run(ask())


def test_web_identity_is_irsa(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c")
    with served() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
        monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "pod")
        assert who() == "arn:aws:sts::123456789012:assumed-role/controller/pod"


def test_an_assumed_role(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        f"[profile ops]\nrole_arn = {ROLE}\nrole_session_name = ops\nsource_profile = base\n"
        "[profile base]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = secret\n"
    )
    with served() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        monkeypatch.setenv("AWS_PROFILE", "ops")
        assert who() == "arn:aws:sts::123456789012:assumed-role/controller/ops"


def test_pod_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The agent of the node gives keys for the token that the pod has."""
    (tmp_path / "token").write_text("of-the-pod")
    seen = []

    def agent(method: str, path: str, headers: dict[str, str], _: bytes) -> tuple[int, bytes]:
        seen.append((method, path, headers.get("Authorization")))
        return 200, json.dumps({**KEYS, "Token": "session"}).encode()

    with served() as endpoint, server(agent) as place:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{place}/v1/credentials")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        assert who().startswith("arn:aws:")
    assert seen == [("GET", "/v1/credentials", "of-the-pod")]


def test_the_role_of_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    def metadata(method: str, path: str, headers: dict[str, str], _: bytes) -> tuple[int, bytes]:
        if method == "PUT":
            return 200, b"session"
        assert {key.lower(): value for key, value in headers.items()}["x-aws-ec2-metadata-token"] == "session"
        if path.endswith("/security-credentials/"):
            return 200, b"controller"
        return 200, json.dumps({"Code": "Success", **KEYS, "Token": "session"}).encode()

    with served() as endpoint, server(metadata) as place:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", place)
        assert who().startswith("arn:aws:")


def test_a_proxy_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = []

    def forward(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        passed.append(path)
        where = urlsplit(path)
        onwards = http.client.HTTPConnection(where.netloc)
        onwards.request(method, where.path, body, headers)
        answer = onwards.getresponse()
        return answer.status, answer.read()

    with served() as endpoint, server(forward) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("HTTP_PROXY", proxy)
        assert who().startswith("arn:aws:")
        assert passed == [f"{endpoint}/"]


@pytest.mark.parametrize(
    ("region", "fips", "endpoint"),
    [
        ("eu-central-1", "", "https://ec2.eu-central-1.amazonaws.com"),
        ("us-east-1", "true", "https://ec2-fips.us-east-1.amazonaws.com"),
        ("us-gov-west-1", "", "https://ec2.us-gov-west-1.amazonaws.com"),
        ("cn-northwest-1", "", "https://ec2.cn-northwest-1.amazonaws.com.cn"),
    ],
)
def test_where_the_region_answers(
    monkeypatch: pytest.MonkeyPatch, region: str, fips: str, endpoint: str
) -> None:
    asked = []

    async def call(self: Calls, service: str, *_: object, **__: object) -> dict[str, object]:
        client = await self._client(service, "")
        asked.append(client.meta.endpoint_url)
        return {"AvailabilityZones": []}

    async def main() -> None:
        async with connect({"AWS_REGION": region}) as aws:
            assert await aws.ec2.describe_availability_zones() == []

    if fips:
        monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", fips)
    monkeypatch.setattr(Calls, "call", call)
    asyncio.run(main())
    assert asked == [endpoint]
