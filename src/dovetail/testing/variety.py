"""What clusters have besides: more documents in random scenarios, for all that rules may be about."""

from __future__ import annotations

import random

from dovetail.model import labels
from dovetail.testing.problems import APPS, ZONES, Document, both

TIER = "example.com/tier"
STARTUP = {"key": "example.com/starting", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
OFFICE = {"key": "example.com/office", "value": "blue", "effect": "NoSchedule"}
DRIVER = "ebs.csi.aws.com"


def varied(document: Document, seed: int) -> Document:
    """A random scenario with some of: more ways to spread and select, taints, volumes, ports, options."""
    draw = random.Random(f"varied {seed}")
    for change, share in (
        (_spread_policies, 0.3),
        (_label_keys, 0.25),
        (_namespaces, 0.25),
        (_node_taints, 0.25),
        (_starting, 0.25),
        (_tiers, 0.3),
        (_volumes, 0.3),
        (_ports, 0.2),
        (_leaving, 0.2),
        (_options, 0.2),
        (_minimums, 0.15),
        (_overhead, 0.15),
    ):
        if draw.random() < share:
            change(document, draw)
    return document


def _by_app(document: Document, draw: random.Random) -> list[Document]:
    """The pending pods of one app."""
    app = draw.choice(sorted({item["metadata"]["labels"]["app"] for item in document["pods"]}))
    return [item for item in document["pods"] if item["metadata"]["labels"]["app"] == app]


def _spread_policies(document: Document, draw: random.Random) -> None:
    policies = {
        "nodeTaintsPolicy": draw.choice(("Honor", "Ignore")),
        "nodeAffinityPolicy": draw.choice(("Honor", "Ignore")),
    }
    for item in document["pods"]:
        rules = item["spec"].get("topologySpreadConstraints")
        if rules:
            item["spec"]["topologySpreadConstraints"] = [{**rule, **policies} for rule in rules]


def _label_keys(document: Document, draw: random.Random) -> None:
    """Two revisions of each app, distinguished by rules that name the label."""
    for item in (*document["pods"], *document["boundPods"]):
        item["metadata"]["labels"]["rev"] = draw.choice("12")
        rules = item["spec"].get("topologySpreadConstraints")
        if rules:
            item["spec"]["topologySpreadConstraints"] = [
                {**rule, "matchLabelKeys": ["rev"]} for rule in rules
            ]


def _namespaces(document: Document, draw: random.Random) -> None:
    """Pods in two namespaces, and rules that look into one, both, or all."""
    names = ("default", "other")
    document["namespaces"] = [{"metadata": {"name": name, "labels": {"kind": name}}} for name in names]
    app = draw.choice(APPS)
    for item in (*document["pods"], *document["boundPods"]):
        if item["metadata"]["labels"]["app"] == app:
            item["metadata"]["namespace"] = "other"
    some = {"matchLabels": {"kind": "other"}}
    ways: tuple[Document, ...] = (
        {"namespaceSelector": {}},
        {"namespaceSelector": some},
        {"namespaces": list(names)},
    )
    chosen = draw.choice(ways)
    for item in document["pods"]:
        for field in ("podAffinity", "podAntiAffinity"):
            terms = item["spec"].get("affinity", {}).get(field, {})
            required = terms.get("requiredDuringSchedulingIgnoredDuringExecution")
            if required:
                found = [{**term, **chosen} for term in required]
                rule = {**terms, "requiredDuringSchedulingIgnoredDuringExecution": found}
                item["spec"]["affinity"] = {**item["spec"]["affinity"], field: rule}


def _node_taints(document: Document, draw: random.Random) -> None:
    for node in document["nodes"]:
        if draw.random() < 0.5:
            effect = draw.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
            node["spec"]["taints"] = [*node["spec"]["taints"], {**OFFICE, "effect": effect}]
    tolerant = {"tolerations": [{"key": OFFICE["key"], "operator": "Exists"}]}
    for item in _by_app(document, draw) if draw.random() < 0.5 else ():
        item["spec"] = both(item["spec"], tolerant)


def _starting(document: Document, draw: random.Random) -> None:
    """Nodes of the pool that have not come up, with taints that go by themselves."""
    template = document["nodePools"][0]["spec"]["template"]["spec"]
    template["startupTaints"] = [STARTUP]
    for node in document["nodes"]:
        if draw.random() < 0.6:
            node["metadata"]["labels"].pop(labels.INITIALIZED, None)
            node["spec"]["taints"] = [*node["spec"]["taints"], STARTUP, NOT_READY]


def _tiers(document: Document, draw: random.Random) -> None:
    """A label of the pool's making with a choice of values, and pods that ask for some of them."""
    template = document["nodePools"][0]["spec"]["template"]["spec"]
    tier: Document = {"key": TIER, "operator": draw.choice(("In", "In", "Exists"))}
    if tier["operator"] == "In":
        tier["values"] = ["gold", "iron"]
    template["requirements"] = [*template["requirements"], tier]
    for item in _by_app(document, draw):
        operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        asked: Document = {"key": TIER, "operator": operator}
        if operator in ("In", "NotIn"):
            asked["values"] = [draw.choice(("gold", "iron"))]
        required = {"nodeSelectorTerms": [{"matchExpressions": [asked]}]}
        if "nodeAffinity" not in item["spec"].get("affinity", {}):
            node = {
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
            }
            item["spec"] = both(item["spec"], node)


def _volumes(document: Document, draw: random.Random) -> None:
    """Claims that are bound in a zone or may be anywhere that their class allows, and limits on nodes."""
    zones = sorted(draw.sample(ZONES, 2))
    allowed = [{"matchLabelExpressions": [{"key": labels.ZONE, "values": zones}]}]
    document["storageClasses"] = [
        {
            "metadata": {"name": "waiting"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": allowed if draw.random() < 0.5 else [],
        }
    ]
    claims, volumes = [], []
    for item in _by_app(document, draw):
        name, namespace = f"data-{item['metadata']['name']}", item["metadata"]["namespace"]
        spec = {"storageClassName": "waiting", "accessModes": ["ReadWriteOnce"]}
        meta: Document = {"name": name, "namespace": namespace}
        if draw.random() < 0.5:
            meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            spec["volumeName"] = f"pv-{name}"
            place = [{"key": labels.ZONE, "operator": "In", "values": [draw.choice(ZONES)]}]
            affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": place}]}}
            source = {"driver": DRIVER, "volumeHandle": name}
            made = {"csi": source, "nodeAffinity": affinity, "storageClassName": "waiting"}
            volumes.append({"metadata": {"name": f"pv-{name}"}, "spec": made})
        claims.append({"metadata": meta, "spec": spec})
        item["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    document["volumeClaims"], document["volumes"] = claims, volumes
    document["csiNodes"] = [
        {
            "metadata": {"name": node["metadata"]["name"]},
            "spec": {
                "drivers": [{"name": DRIVER, "nodeID": "i", "allocatable": {"count": draw.choice((1, 2))}}]
            },
        }
        for node in document["nodes"]
    ]


def _ports(document: Document, draw: random.Random) -> None:
    for item in document["pods"]:
        if draw.random() < 0.4:
            port: Document = {"containerPort": 80, "hostPort": draw.choice((80, 81))}
            port.update(draw.choice(({}, {"protocol": "UDP"}, {"hostIP": "10.0.0.1"})))
            item["spec"]["containers"][0]["ports"] = [port]


def _leaving(document: Document, draw: random.Random) -> None:
    """Pods that run but are being deleted, or are over."""
    for item in document["boundPods"]:
        if draw.random() < 0.5:
            item["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
        elif draw.random() < 0.3:
            item["status"] = {"phase": "Succeeded"}


def _options(document: Document, draw: random.Random) -> None:
    document["options"] = {
        "preferencePolicy": draw.choice(("Ignore", "Respect")),
        "minValuesPolicy": draw.choice(("BestEffort", "Strict")),
    }


def _minimums(document: Document, draw: random.Random) -> None:
    """A pool that wants more types than some pods leave it."""
    pool = document["nodePools"][-1]["spec"]
    if "limits" not in pool:
        least = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": draw.choice((2, 4))}
        template = pool["template"]["spec"]
        template["requirements"] = [*template["requirements"], least]


def _overhead(document: Document, draw: random.Random) -> None:
    for item in _by_app(document, draw):
        item["spec"]["overhead"] = {"cpu": "100m", "memory": "128Mi"}
