"""kubeconfig files: several merge into one, the first that says something about a name wins.

Which API server is meant without a word: the flag's, KUBECONFIG's, the pod's own, that of ~/.kube/config.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dovetail.base.errors import InputError
from dovetail.kube.http.access import Access, Certificate, Credentials, Proof, certificates
from dovetail.kube.http.credentials import EXEC_VERSIONS, Exec, Fixed, Plugin, TokenFile

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
Entry = dict[str, Any]


class Kubeconfig:
    """What some files say together. Raises InputError for what cannot be read or is not there."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._source = ", ".join(str(path) for path in paths)
        self._current = ""
        self._entries: dict[str, dict[str, Entry]] = {section: {} for section in _SECTIONS}
        for path in paths:
            self._take(path)

    def access(self, context: str = "") -> Access:
        """The server and the user of a context, by default the current one."""
        name = context or self._current
        if not name:
            raise self._fault("names no current context", self._remedy("contexts", "--context"))
        chosen = self._find("contexts", name)
        cluster_name = str(chosen.get("cluster", ""))
        cluster = self._find("clusters", cluster_name)
        user = self._find("users", str(chosen["user"])) if chosen.get("user") else {}
        server = str(cluster.get("server", "")).rstrip("/")
        if not server.startswith(("https://", "http://")):
            raise self._fault(
                f"cluster {cluster_name!r} has no server", "give its address: https://host:port"
            )
        return Access(
            server=server,
            credentials=self._credentials(user, cluster),
            authority=self._authority(cluster),
            authority_file=_file(cluster, "certificate-authority"),
            insecure=bool(cluster.get("insecure-skip-tls-verify", False)),
            server_name=str(cluster.get("tls-server-name", "")),
            proxy=str(cluster.get("proxy-url", "")),
            namespace=str(chosen.get("namespace") or "default"),
            source=self._source,
        )

    def _authority(self, cluster: Entry) -> bytes:
        found = _pem(cluster, "certificate-authority", self._source)
        return b"" if found is None else certificates(found, self._source)

    def _take(self, path: Path) -> None:
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(f"is not YAML: {error}".splitlines()[0], source=str(path)) from None
        if not isinstance(document, dict):
            raise InputError("is no kubeconfig: it must be a mapping", source=str(path))
        self._current = self._current or str(document.get("current-context") or "")
        for section, inner in _SECTIONS.items():
            for item in document.get(section) or ():
                if not isinstance(item, dict) or not isinstance(item.get(inner), dict):
                    raise InputError(f"must have a name and a {inner}", source=str(path), path=section)
                # Paths in a file are relative to the file.
                entry = {**item[inner], "": path.resolve().parent}
                self._entries[section].setdefault(str(item.get("name", "")), entry)

    def _find(self, section: str, name: str) -> Entry:
        found = self._entries[section].get(name)
        if found is None:
            raise self._fault(f"has no {_SECTIONS[section]} {name!r}", self._remedy(section, "the name"))
        return found

    def _remedy(self, section: str, what: str) -> str:
        names = ", ".join(sorted(self._entries[section])) or "none"
        return f"set {what} to one of these {section}: {names}"

    def _credentials(self, user: Entry, cluster: Entry) -> Credentials:
        certificate = _pem(user, "client-certificate", self._source)
        pair = None
        if certificate is not None:
            pair = Certificate(certificate, _pem(user, "client-key", self._source) or b"")
        if user.get("token"):
            return Fixed(Proof(str(user["token"]), pair))
        if user.get("tokenFile"):
            return TokenFile(user[""] / str(user["tokenFile"]), pair)
        if user.get("exec"):
            return Exec(self._plugin(user["exec"], user, cluster))
        for old in ("auth-provider", "username"):
            if old in user:
                raise self._fault(
                    f"asks for {old!r}, which API servers no longer take",
                    "use a token, a client certificate or an exec plugin",
                )
        return Fixed(Proof("", pair))

    def _plugin(self, wanted: Mapping[str, Any], user: Entry, cluster: Entry) -> Plugin:
        version = str(wanted.get("apiVersion", ""))
        if version not in EXEC_VERSIONS:
            raise self._fault(
                f"asks for a credential plugin of {version or 'no apiVersion'!r}",
                f"valid are {' and '.join(EXEC_VERSIONS)}",
            )
        command = str(wanted.get("command", ""))
        if os.sep in command:  # what has no slash is looked for on the PATH
            command = str(user[""] / command)
        exec_cluster = None
        if wanted.get("provideClusterInfo"):
            authority = self._authority(cluster)
            exec_cluster = {
                "server": cluster.get("server", ""),
                "certificate-authority-data": base64.b64encode(authority).decode(),
            }
        return Plugin(
            command=command,
            arguments=tuple(str(item) for item in wanted.get("args") or ()),
            environment=tuple((str(item["name"]), str(item["value"])) for item in wanted.get("env") or ()),
            api_version=version,
            hint=str(wanted.get("installHint") or "").strip(),
            cluster=exec_cluster,
            source=self._source,
        )

    def _fault(self, message: str, remedy: str) -> InputError:
        return InputError(message, source=self._source, remedy=remedy)


def _pem(entry: Entry, field: str, source: str) -> bytes | None:
    """A certificate or key: written out under `<field>-data`, or in the file that `<field>` names."""
    written = entry.get(f"{field}-data")
    if written:
        try:
            return base64.b64decode(str(written), validate=False)
        except (binascii.Error, ValueError):
            raise InputError(f"{field}-data is not base64", source=source) from None
    path = _file(entry, field)
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{field} {path} cannot be read: {error.strerror}", source=source) from None


def _file(entry: Entry, field: str) -> Path | None:
    """The file that `field` names, unless what it would hold is written out."""
    if entry.get(f"{field}-data") or not entry.get(field):
        return None
    path: Path = entry[""] / str(entry[field])
    return path


ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def locate(
    environment: Mapping[str, str],
    *,
    kubeconfig: Path | None = None,
    context: str = "",
    account: Path = ACCOUNT,
) -> Access:
    """In the order of the first line. Raises InputError when there is none of them."""
    if kubeconfig is not None:
        return Kubeconfig([kubeconfig]).access(context)
    if environment.get("KUBECONFIG"):
        named = [Path(item) for item in environment["KUBECONFIG"].split(":") if item]
        # As kubectl does it, a file in the list that does not exist is passed over.
        found = [path for path in named if path.exists()]
        if not found:
            raise InputError(f"there is no file {named[0]}", source="KUBECONFIG")
        return Kubeconfig(found).access(context)
    if environment.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return in_cluster(environment, account)
    usual = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if usual.exists():
        return Kubeconfig([usual]).access(context)
    raise InputError(
        "there is no API server to talk to",
        source="--kubeconfig",
        remedy="give --kubeconfig FILE, set KUBECONFIG, or run in a pod with a service account",
    )


def in_cluster(environment: Mapping[str, str], account: Path = ACCOUNT) -> Access:
    """The API server of the cluster that this process runs in, as the pod's service account."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = account / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile(account / "token"),
        authority_file=account / "ca.crt",
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
        in_cluster=True,
        source=str(account),
    )
