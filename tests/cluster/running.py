"""The controller as a process of its own, beside a control plane."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster.controlplane.processes import free_ports
from tests.cluster.controlplane.start import ControlPlane

T = TypeVar("T")


def eventually(look: Callable[[], T], wanted: Callable[[T], bool], *, seconds: float = 90) -> T:
    """What `look` answers once it is as wanted; fails with the last answer when it is not in time."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if wanted(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(0.25)


class Controller:
    """A context manager: `dovetail run` with flags, its output kept in a file."""

    def __init__(self, plane: ControlPlane, folder: Path, *flags: str, **environment: str) -> None:
        self.page = ""  # its address, where one is asked for
        self.metrics_port, self.probe_port = free_ports(2)
        ports = ("--metrics-port", str(self.metrics_port), "--health-probe-port", str(self.probe_port))
        self.command = (sys.executable, "-m", "dovetail", "run", *ports, *flags)
        self.log = folder / f"controller-{self.metrics_port}.log"
        self._environment = {**plane.environment(), **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Controller:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command, env=self._environment, stdout=log, stderr=subprocess.STDOUT
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """The exit code of a process that has ended by itself."""
        assert self._process is not None
        return self._process.poll()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send the signal; the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(30)

    def lines(self, message: str = "") -> list[dict[str, Any]]:
        """The log, or its lines with that message."""
        assert self._process is not None
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in found if message in ("", line["message"])]

    def asked(self, path: str) -> tuple[int, str]:
        """Status and body of an endpoint; 0 while nothing listens."""
        port = self.metrics_port if path in ("/metrics", "/observed") else self.probe_port
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""


def said(plane: ControlPlane, *flags: str, **environment: str) -> tuple[int, str]:
    """Exit code and complaint of a controller that does not even start."""
    done = subprocess.run(
        (sys.executable, "-m", "dovetail", "run", "--metrics-port", "0", "--health-probe-port", "0", *flags),
        env={**plane.environment(), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr
