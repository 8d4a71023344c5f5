"""User data that calls a script of the image with flags: bootstrap.sh of AL2, Start-EKSBootstrap.ps1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.api.core import Taint
from dovetail.cloud.aws.amifamily.userdata import mime
from dovetail.cloud.aws.amifamily.userdata.bootstrap import Bootstrap

# Settings of the kubelet that have a flag, in the order of the flags; the others cannot be passed on.
_MAPS = (
    ("systemReserved", "--system-reserved", "="),
    ("kubeReserved", "--kube-reserved", "="),
    ("evictionHard", "--eviction-hard", "<"),
    ("evictionSoft", "--eviction-soft", "<"),
)
_NUMBERS = (
    ("evictionMaxPodGracePeriod", "--eviction-max-pod-grace-period"),
    ("imageGCHighThresholdPercent", "--image-gc-high-threshold"),
    ("imageGCLowThresholdPercent", "--image-gc-low-threshold"),
)


def al2(node: Bootstrap) -> str:
    """A MIME archive: the class's own parts, then the script. Raises InputError for a broken archive."""
    ours = mime.Part.shell("\n".join(_bootstrap_script(node)))
    return mime.write((*own_parts(node.custom), ours))


def own_parts(custom: str) -> list[mime.Part]:
    """What AL2 makes of the user's own text. Raises InputError for a broken archive."""
    if mime.is_archive(custom):
        return mime.read(custom, "parsing custom user data input", _AL2_FAULTS)
    return [mime.Part.shell(custom)] if custom else []


def windows(node: Bootstrap) -> str:
    """A PowerShell block: the class's own lines, then the script."""
    cluster = node.cluster
    call = (
        f"& $EKSBootstrapScriptFile -EKSClusterName '{cluster.name}' -APIServerEndpoint '{cluster.endpoint}'"
    )
    if cluster.ca_bundle is not None:
        call += f" -Base64ClusterCA '{cluster.ca_bundle}'"
    call += f" -KubeletExtraArgs '{kubelet_flags(node)}'"
    if node.dns_ips:
        call += f" -DNSClusterIP '{node.dns_ips[0]}'"
    script = r'[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"'
    own = [node.custom] if node.custom else []
    return "\n".join(["<powershell>", *own, script, call, "</powershell>"])


def kubelet_flags(node: Bootstrap) -> str:
    """All that the kubelet is started with beyond what the script knows by itself."""
    return " ".join(_flags(node))


def node_labels(labels: Mapping[str, str]) -> str:
    return '--node-labels="' + ",".join(f"{key}={value}" for key, value in labels.items()) + '"'


def _flags(node: Bootstrap) -> Iterator[str]:
    kubelet = node.kubelet
    if node.labels:
        yield node_labels(node.labels)
    if node.taints:
        yield '--register-with-taints="' + ",".join(map(_taint, node.taints)) + '"'
    yield f"--max-pods={kubelet['maxPods']}"
    if "podsPerCore" in kubelet:
        yield f"--pods-per-core={kubelet['podsPerCore']}"
    for name, flag, sign in _MAPS:
        yield from _joined(flag, kubelet.get(name) or {}, sign)
    yield from _joined("--eviction-soft-grace-period", node.grace_periods, "=")
    for name, flag in _NUMBERS:
        if name in kubelet:
            yield f"{flag}={kubelet[name]}"
    if "cpuCFSQuota" in kubelet:
        yield f"--cpu-cfs-quota={'true' if kubelet['cpuCFSQuota'] else 'false'}"


def _joined(flag: str, values: Mapping[str, object], sign: str) -> Iterator[str]:
    if values:
        yield f'{flag}="' + ",".join(f"{key}{sign}{values[key]}" for key in sorted(values)) + '"'


def _taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _bootstrap_script(node: Bootstrap) -> Iterator[str]:
    cluster = node.cluster
    yield "#!/bin/bash -xe"
    yield "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"
    # The space before an authority is there without one too.
    call = f"/etc/eks/bootstrap.sh '{cluster.name}' --apiserver-endpoint '{cluster.endpoint}' "
    if cluster.ca_bundle is not None:
        call += f"--b64-cluster-ca '{cluster.ca_bundle}'"
    flags = ["--ip-family ipv6"] if node.ipv6 else []
    flags += [f"--dns-cluster-ip '{node.dns_ips[0]}'"] if node.dns_ips else []
    flags += ["--use-max-pods false", f"--kubelet-extra-args '{kubelet_flags(node)}'"]
    flags += ["--local-disks raid0"] if node.raid0 else []
    yield " \\\n".join([call, *flags])


_AL2_FAULTS = mime.Faults(
    no_type="user data does not define a content-type header",
    not_multipart="user data is not in multipart MIME format",
    header="unreadable user data ",
)
