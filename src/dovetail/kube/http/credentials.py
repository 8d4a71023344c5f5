"""Kinds of credentials. Tokens and keys never reach a log: messages name where they come from alone."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import InputError
from dovetail.kube.http.access import Certificate, Proof
from dovetail.units.timestamp import parse_rfc3339

RELOAD = MINUTE  # how long a token from a file is taken for current; kubelets renew them well before they end
_EXEC_SECONDS = 60  # how long a plugin may take
_EARLY = 10 * SECOND  # before its end a token is renewed
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class Fixed:
    """One proof for ever."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof

    async def proof(self, *, renew: bool = False) -> Proof:  # noqa: ARG002 - there is nothing to renew
        """See Credentials."""
        return self._proof


class TokenFile:
    """A token in a file that another process keeps current, such as that of a pod's service account."""

    def __init__(self, path: Path, certificate: Certificate | None = None) -> None:
        self._path = path
        self._certificate = certificate
        self._token = ""
        self._read_at = 0

    async def proof(self, *, renew: bool = False) -> Proof:
        """See Credentials."""
        now = time.monotonic_ns()
        if renew or not self._token or now - self._read_at > RELOAD:
            try:
                self._token = self._read()
            except InputError:
                if renew or not self._token:
                    raise
                # Its file is being replaced. The server says when it does not take the old one any more.
            self._read_at = now
        return Proof(self._token, self._certificate)

    def _read(self) -> str:
        try:
            found = self._path.read_text(encoding="ascii").strip()
        except OSError as error:
            why = f"the token cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            why = "the token cannot be read: it is not ASCII"
        else:
            if found:
                return found
            why = "the token is empty"
        raise InputError(why, source=str(self._path))


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program that prints credentials, as a kubeconfig names it."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    api_version: str = EXEC_VERSIONS[0]
    hint: str = ""  # how to install it
    cluster: Mapping[str, Any] | None = None  # what the plugin gets of the cluster, if it asks
    source: str = ""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    status: _Status
    api_version: str = ""


class Exec:
    """Credentials that a plugin prints; asked again once they end, or the server refuses them."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin
        self._proof: Proof | None = None
        self._ends = 0  # nanoseconds since the epoch; 0: never
        self._turn = asyncio.Lock()

    async def proof(self, *, renew: bool = False) -> Proof:
        """See Credentials."""
        async with self._turn:
            ended = self._ends and time.time_ns() > self._ends - _EARLY
            if self._proof is None or renew or ended:
                self._proof = await self._ask()
            return self._proof

    async def _ask(self) -> Proof:
        plugin = self._plugin
        code, printed, complaint = await self._run((plugin.command, *plugin.arguments))
        if code:
            raise self._fault(f"ended with exit code {code}: {complaint.strip()[-300:]}")
        try:
            found = msgspec.json.decode(printed, type=_Credential).status
            self._ends = parse_rfc3339(found.expiration_timestamp) if found.expiration_timestamp else 0
        except (msgspec.MsgspecError, ValueError) as error:
            raise self._fault(f"printed no ExecCredential: {error}") from None
        certificate = None
        if found.client_certificate_data:
            pair = found.client_certificate_data.encode(), found.client_key_data.encode()
            certificate = Certificate(*pair)
        if not found.token and certificate is None:
            raise self._fault("gave neither a token nor a certificate")
        return Proof(found.token, certificate)

    async def _run(self, command: Sequence[str]) -> tuple[int, bytes, str]:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=self._environment()
            )
        except OSError as error:
            raise self._fault(f"cannot be run: {error.strerror}") from None
        try:
            async with asyncio.timeout(_EXEC_SECONDS):
                printed, complaint = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise self._fault(f"did not answer within {_EXEC_SECONDS} s") from None
        return process.returncode or 0, printed, complaint.decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = dict(plugin.cluster)
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        document = msgspec.json.encode(info).decode()
        return {**os.environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": document}

    def _fault(self, what: str) -> InputError:
        return InputError(
            f"the credential plugin {self._plugin.command} {what}",
            source=self._plugin.source,
            remedy=self._plugin.hint or "run it by hand to see what it lacks",
        )
