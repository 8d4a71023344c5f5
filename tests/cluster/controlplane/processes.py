"""Processes that end with the one that started them, and waiting until one answers."""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

_STOP_SECONDS = 15
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_LIBC = ctypes.CDLL(None)


class StartError(Exception):
    """A program did not come up; holds the end of its log."""


def free_ports(count: int) -> list[int]:
    """Distinct free ports of the loopback interface: all are held before any is let go."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _die_with_parent() -> None:
    # Not SIGTERM: an API server whose etcd went first would wait for it for ever.
    _LIBC.prctl(_DEATH_SIGNAL, signal.SIGKILL)


class Processes:
    """Programs by name, each with a log in `folder`."""

    def __init__(self, folder: Path, *, ready_seconds: int) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._ready_seconds = ready_seconds

    def start(self, name: str, program: Path, *arguments: str) -> None:
        """Start a program; whoever was started under that name before must have ended."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [program, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop everything in order
                preexec_fn=_die_with_parent,
                cwd=self.folder,
            )

    def wait(self, name: str, url: str, *, token: str = "", ca: Path | None = None) -> None:
        """Return once `url` answers 200. Raises StartError when it does not in time, or any program ends."""
        last: OSError | None = None
        deadline = time.monotonic() + self._ready_seconds
        while time.monotonic() < deadline:
            self._check_alive()
            try:
                request = urllib.request.Request(url)
                if token:
                    request.add_header("Authorization", f"Bearer {token}")
                with urllib.request.urlopen(request, timeout=5, context=_trust(url, ca)):
                    return
            except urllib.error.HTTPError as error:  # an answer that is not 200
                error.close()
                last = error
            except OSError as error:  # refused, or no certificate yet
                last = error
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
            time.sleep(0.05)
        raise StartError(f"{name} is not ready at {url}: {last}\n{self.tail(name)}")

    def stop(self, name: str) -> None:
        """End one program, by force if it does not want to."""
        process = self.running.pop(name)
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self) -> None:
        """End all, the last one started first."""
        for name in reversed(list(self.running)):
            self.stop(name)

    def tail(self, name: str, lines: int = 15) -> str:
        """The end of a program's log."""
        path = self.folder / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def _check_alive(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                raise StartError(f"{name} ended with {process.returncode}:\n{self.tail(name)}")


def _trust(url: str, ca: Path | None) -> ssl.SSLContext | None:
    """Who may answer: the server whose certificate that is; without one, any server on this port."""
    if not url.startswith("https"):
        return None
    context = ssl.create_default_context(cafile=str(ca) if ca is not None and ca.exists() else None)
    if ca is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def write(path: Path, content: object) -> Path:
    """A file that only its owner reads; what is no text is written as JSON."""
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    path.chmod(0o600)
    return path


def openssl(folder: Path, *arguments: str, stdin: Sequence[str] = ()) -> None:
    """Run openssl(1) in a folder. Raises StartError with what it said."""
    try:
        done = subprocess.run(
            ["openssl", *arguments], cwd=folder, input="\n".join(stdin), capture_output=True, text=True
        )
    except FileNotFoundError:
        raise StartError("the control plane needs openssl(1) for its keys: apt-get install openssl") from None
    if done.returncode:
        raise StartError(f"openssl {arguments[0]} failed: {done.stderr.strip()[-500:]}")
