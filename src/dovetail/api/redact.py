"""What of a cluster's objects may leave it: `redacted` takes out what no one else needs or may see.

Taken out of every object: environment variables, commands, probes, mounts, secrets and config maps as
volumes, pull secrets and service accounts, user data, managed fields, addresses, messages, and all
annotations but those that Dovetail reads. `Names` puts hashes in place of names, and keeps what belongs
together the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

_KEPT_ANNOTATIONS = re.compile(
    r"(karpenter\.sh|karpenter\.k8s\.aws|dovetail\.dev|compatibility\.karpenter\.sh)/"
    r"|controller\.kubernetes\.io/pod-deletion-cost$"
    r"|cluster-autoscaler\.kubernetes\.io/safe-to-evict$"
    r"|storageclass\.kubernetes\.io/is-default-class$"
    r"|eks\.amazonaws\.com/compute-type$"
    r"|kubernetes\.io/config\.mirror$"
)
# By name of the field, wherever it is.
_DROPPED = frozenset(
    {
        *(
            "args",
            "command",
            "env",
            "envFrom",
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ),
        *("volumeMounts", "volumeDevices", "securityContext", "workingDir", "terminationMessagePath"),
        *("terminationMessagePolicy", "imagePullPolicy", "imagePullSecrets", "serviceAccount", "hostAliases"),
        *("serviceAccountName", "dnsConfig", "subdomain", "managedFields", "userData", "addresses", "images"),
        *("podIP", "podIPs", "hostIP", "hostIPs", "podCIDR"),
        *("podCIDRs", "message", "selfLink", "ephemeralContainers", "ephemeralContainerStatuses"),
        *("bootID", "machineID", "systemUUID", "daemonEndpoints", "data", "stringData", "binaryData"),
    }
)
_STATUSES = ("containerStatuses", "initContainerStatuses")
_GRANTED = ("name", "resources", "allocatedResources")  # of them: what a container takes on its node
_SECRET_VOLUMES = frozenset({"secret", "configMap", "projected", "downwardAPI", "csi", "hostPath", "nfs"})


def redacted(document: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what must not leave the cluster; nothing of it is changed."""
    found = _without(document)
    assert isinstance(found, dict)
    return found


def _without(value: Any, within: str = "") -> Any:
    if isinstance(value, list):
        if within == "volumes":
            return [
                _without(one) for one in value if not (isinstance(one, dict) and _SECRET_VOLUMES & one.keys())
            ]
        return [_without(one, within if within in _STATUSES else "") for one in value]
    if not isinstance(value, dict):
        return value
    if within in _STATUSES:
        return {key: value[key] for key in _GRANTED if key in value}
    if within in ("labels", "matchLabels", "nodeSelector", "requests", "limits", "capacity", "allocatable"):
        return dict(value)  # keys are names there, not fields
    if within == "annotations":
        return {key: text for key, text in value.items() if _KEPT_ANNOTATIONS.match(key)}
    return {key: _without(one, key) for key, one in value.items() if key not in _DROPPED}


# Labels whose keys and values say nothing about who runs the cluster; the values of others are names.
_PUBLIC_KEYS = re.compile(
    r"(.*\.)?(kubernetes\.io|k8s\.io|k8s\.aws|karpenter\.sh|karpenter\.k8s\.aws|eks\.amazonaws\.com|dovetail\.dev"
    r"|amazonaws\.com|csi\.aws\.com|karpenter\.kwok\.sh)/"
)
_NAMED_VALUES = re.compile(
    r"kubernetes\.io/hostname$|karpenter\.sh/nodepool$|kubernetes\.io/metadata\.name$|app\.kubernetes\.io/"
    r"|.*/(ec2|kwok)nodeclass$|eks\.amazonaws\.com/nodegroup|statefulset\.kubernetes\.io/pod-name$"
    r"|batch\.kubernetes\.io/job-name$|helm\.sh/|karpenter\.k8s\.aws/instance-profile|topology\.k8s\.aws/network"
    r"|karpenter\.k8s\.aws/(capacity-reservation-id|placement-group)"
)
_AWS_ID = re.compile(r"(ami|subnet|sg|cr|pg|snap|vol|i)-(?=[0-9a-f]+$)")
# What every cluster has by the same name.
_PUBLIC_NAMES = frozenset(
    {
        *("", "default", "kube-system", "kube-public", "kube-node-lease", "system-cluster-critical"),
        *("system-node-critical", "kube-root-ca.crt"),
    }
)
_LABEL_MAPS = frozenset({"labels", "matchLabels", "nodeSelector", "selector"})
_NAME_FIELDS = frozenset(
    {
        *("name", "generateName", "namespace", "nodeName", "claimName", "volumeName", "storageClassName"),
        *("serviceName", "priorityClassName", "nominatedNodeName", "uid", "id", "nodeID", "image", "imageID"),
        *("instanceProfile", "role", "providerID", "volumeHandle", "ownerID", "clusterName", "hostname"),
        *("ownerId", "snapshotID", "kmsKeyID", "containerName"),
    }
)
# Names that are words of the API, by the field around them.
_WORDS = re.compile(
    r"resources|resource|metric|amiFamily|drivers|topologyKeys|conditions|provisioner|parameters"
)


class Names:
    """Hashes in place of names: the same name gives the same hash, which only who has the `salt` can make.

    Pods of StatefulSets and their claims keep their numbers, keys of labels that Kubernetes or its providers
    define stay as they are, and so do zones, types, sizes and times.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._known: dict[str, str] = {}

    def hashed(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The object with hashes in place of its names; nothing of it is changed."""
        found = self._value(document, "", "")
        assert isinstance(found, dict)
        return found

    def name(self, name: str) -> str:
        """One name. A part in front of a last number is hashed alone, as those of StatefulSets are made."""
        if name in _PUBLIC_NAMES or name.startswith("system:"):
            return name
        match = re.fullmatch(r"(.+)-(\d{1,6})", name)
        return f"{self._hash(match[1])}-{match[2]}" if match else self._hash(name)

    def _hash(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            digest = hashlib.blake2b(text.encode(), key=self._salt, digest_size=6).hexdigest()
            known = self._known[text] = f"n{digest}"
        return known

    def _value(self, value: Any, within: str, above: str) -> Any:
        if isinstance(value, list):
            return [self._value(one, within, above) for one in value]
        if not isinstance(value, dict):
            return value
        if within in _LABEL_MAPS and all(isinstance(one, str) for one in value.values()):
            return {self._key(key): self._label(key, one) for key, one in value.items()}
        if within == "tags":
            return {self.name(key): self.name(one) for key, one in value.items() if isinstance(one, str)}
        if "key" in value and isinstance(value["key"], str):
            value = self._expression(value)
        return {key: self._field(key, one, within) for key, one in value.items()}

    def _expression(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A requirement, a taint or a toleration."""
        key = str(value["key"])
        changed = {**value, "key": self._key(key) if key else key}
        if isinstance(value.get("value"), str) and value["value"]:
            changed["value"] = self._label(key, value["value"])
        if isinstance(value.get("values"), list):
            changed["values"] = [self._label(key, str(one)) for one in value["values"]]
        return changed

    def _field(self, key: str, value: Any, within: str) -> Any:
        if key == "topologyKey" and isinstance(value, str):
            return self._key(value)
        if key == "matchLabelKeys" and isinstance(value, list):
            return [self._key(str(one)) for one in value]
        if isinstance(value, str) and key in _NAME_FIELDS and not _WORDS.fullmatch(within):
            return self._named(key, value)
        return self._value(value, key, within)

    def _named(self, key: str, value: str) -> str:
        if key == "generateName":
            return f"{self.name(value.removesuffix('-'))}-" if value else value
        if key == "providerID":
            # What it is, and the zone, stay: aws:///eu-west-1a/i-0123.
            head, slash, last = value.rpartition("/")
            return f"{head}{slash}i-{self.name(last)[1:]}" if value else value
        prefix = _AWS_ID.match(value)
        if prefix:  # admission wants an id of its kind
            return f"{prefix[0]}{self._hash(value)[1:]}"
        return self.name(value)

    def _key(self, key: str) -> str:
        if _PUBLIC_KEYS.match(key) or key.partition("/")[0] in ("node.kubernetes.io", "kubernetes.io"):
            return key
        return self._hash(key)

    def _label(self, key: str, value: str) -> str:
        public = _PUBLIC_KEYS.match(key) and not _NAMED_VALUES.match(key)
        return value if public or not value or value in ("true", "false") else self.name(value)


def hashing(salt: bytes | None) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """What a snapshot does to every object: take out, and with a salt hash."""
    if salt is None:
        return redacted
    names = Names(salt)
    return lambda document: names.hashed(redacted(document))
