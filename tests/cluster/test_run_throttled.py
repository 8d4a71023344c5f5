"""A controller that AWS answers no call of when it starts: it says so, and asks again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.cluster.controlplane.definitions import define
from tests.cluster.controlplane.start import ControlPlane
from tests.cluster.running import Controller, eventually, said

_ERROR = "<ErrorResponse><Error><Code>{}</Code><Message>{}</Message></Error></ErrorResponse>"
_RETRIED = "AWS answers no call at the moment, asking again"
# More than the client asks by itself before it gives a call up.
_MANY = 5


@contextmanager
def throttling(calls: int) -> Iterator[dict[str, str]]:
    """The environment of a process whose first calls are throttled; later ones are refused."""
    left = iter(range(calls))

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            code, text = (403, _ERROR.format("InvalidClientTokenId", "who is that?"))
            if next(left, None) is not None:
                code, text = (400, _ERROR.format("Throttling", "Rate exceeded"))
            self.send_response(code)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """No output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_calls_that_are_throttled_are_made_again(api_server: ControlPlane) -> None:
    define(api_server)
    with throttling(_MANY) as account:
        flags = ("--provider", "aws", "--cluster-name", "demo", "--disable-leader-election=true")
        code, complaint = said(api_server, *flags, **account)
    first, *_, last = complaint.splitlines()
    assert _RETRIED in first
    assert "GetCallerIdentity: Throttling: Rate exceeded" in first
    assert code == 2
    assert "AWS does not know who we are: who is that?" in complaint
    assert "give the controller's service account a role" in last


def test_one_that_waits_can_be_stopped(api_server: ControlPlane, tmp_path: Path) -> None:
    define(api_server)
    flags = ("--provider", "aws", "--cluster-name", "demo", "--leader-election-name", "throttled")
    with (
        throttling(10_000) as account,
        Controller(api_server, tmp_path, *flags, **account) as controller,
    ):
        eventually(lambda: controller.lines(_RETRIED), bool)
        assert controller.stop() == 0
        assert controller.lines()[-1]["message"] == "stopping"
