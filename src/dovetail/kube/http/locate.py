"""Which API server is meant when nobody says more: the flag, KUBECONFIG, the pod's own, ~/.kube/config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dovetail.base.errors import InputError
from dovetail.kube.http.access import Access
from dovetail.kube.http.credentials import TokenFile
from dovetail.kube.http.kubeconfig import Kubeconfig

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
