"""What the author of a NodePool can write, and of what else belongs to the whole cluster."""

from __future__ import annotations

from dataclasses import replace

from dovetail.model import labels
from dovetail.testing.hostile.amounts import FOREIGN, owner_reference
from dovetail.testing.hostile.attack import (
    AMOUNTS,
    DELETED,
    LARGEST,
    LONG,
    MARK,
    NEVER,
    TAINT,
    WORDS,
    ZONE,
    Attack,
    Document,
    Part,
    Place,
    object_attack,
    pod_document,
    resolved,
    short,
)
from dovetail.testing.hostile.rules import selector_terms
from dovetail.testing.problems import both


def _pool(
    name: str,
    why: str,
    *,
    meta: Part | None = None,
    spec: Part | None = None,
    template: Part | None = None,
    requirements: Part | None = None,
    refused: str = "",
) -> Attack:
    """A pool that no ordinary pod tolerates."""

    def body(place: Place) -> Document:
        inner = {
            "nodeClassRef": place.reference(),
            "requirements": [],
            "taints": [TAINT],
            **resolved(template or {}, place),
        }
        if requirements is not None:
            inner["requirements"] = resolved(requirements, place)["requirements"]
        made = both({"spec": {"template": {"spec": inner}}}, {"spec": resolved(spec or {}, place)})
        return both(made, {"metadata": resolved(meta or {}, place)}) if meta else made

    return object_attack(
        "pool", name, why, "karpenter.sh/v1", "NodePool", body, namespaced=False, refused=refused
    )


def _needs(*requirements: Document) -> Document:
    return {"requirements": list(requirements)}


def _claim(
    name: str,
    why: str,
    *,
    meta: Part | None = None,
    spec: Part | None = None,
    status: Document | None = None,
    refused: str = "",
    twin: str = "",
) -> Attack:
    def body(place: Place) -> Document:
        inner = {
            "nodeClassRef": place.reference(),
            "requirements": [],
            "taints": [TAINT],
            **resolved(spec or {}, place),
        }
        made: Document = both({"spec": inner}, {"metadata": resolved(meta or {}, place)})
        return {**made, "status": status} if status is not None else made

    return object_attack(
        "pool", name, why, "karpenter.sh/v1", "NodeClaim", body, namespaced=False, refused=refused, twin=twin
    )


_TYPES = {"key": labels.INSTANCE_TYPE, "operator": "NotIn", "values": []}
_LONG_TIMES = ("99999999h", "9" * 400 + "h", LONG + "h", "0s")

POOLS = (
    *(
        _pool(
            f"{field_name} of {short(text)}",
            "a length of time beyond all reason",
            template={field_name: text},
        )
        for field_name in ("terminationGracePeriod", "expireAfter")
        for text in _LONG_TIMES
    ),
    *(
        _pool(
            f"consolidateAfter of {short(text)}",
            "a length of time beyond all reason",
            spec={"disruption": {"consolidateAfter": text}},
        )
        for text in _LONG_TIMES
    ),
    *(
        _pool(
            f"a limit of {short(amount)}",
            why,
            spec={"limits": {"cpu": amount, "memory": amount, "nodes": amount}},
        )
        for amount, why in {
            **AMOUNTS,
            "-1": "less than nothing",
            "1e-1000": "an exponent the other way",
        }.items()
    ),
    _pool(
        "a limit that only looks like a quantity",
        "admitted by a pattern, refused by a parser",
        spec={"limits": {"cpu": "1e.5"}},
    ),
    _pool(
        "10000 limits",
        "each is subtracted",
        spec=lambda _: {"limits": {f"example.com/r{number}": "1" for number in range(10_000)}},
    ),
    _pool(
        "a schedule that is none",
        "five words, as the pattern wants",
        spec={
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "0", "schedule": "a b c d e", "duration": "1h"}],
            }
        },
    ),
    _pool(
        "a schedule that never comes",
        "30 February",
        spec={
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "0", "schedule": "0 0 30 2 *", "duration": "1h"}],
            }
        },
    ),
    _pool(
        "a budget of 99999999h",
        "from the beginning of time",
        spec={
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [
                    {"nodes": "0", "schedule": "@hourly", "duration": "99999999h"},
                    {"nodes": "0", "schedule": "* * * * *", "duration": LONG + "h"},
                ],
            }
        },
    ),
    _pool(
        "a budget of 5000 digits",
        "more nodes than there are",
        spec={
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [{"nodes": LONG}, {"nodes": "100%"}, *[{"nodes": "0%"}] * 48],
            }
        },
    ),
    _pool(
        "requirements at their most",
        "a hundred keys",
        requirements=lambda _: _needs(
            *(
                {
                    "key": f"{'p' * 63}.example.com/k{number}",
                    "operator": "In",
                    "values": ["v" * 63],
                    "minValues": 1,
                }
                for number in range(100)
            )
        ),
    ),
    _pool(
        "10000 values",
        "sets that are intersected",
        requirements=lambda _: _needs(
            {
                **_TYPES,
                "operator": "In",
                "values": [f"t{number}" for number in range(10_000)],
                "minValues": 50,
            }
        ),
    ),
    _pool(
        "50 values at least, of one",
        "more than there can be",
        requirements=_needs({"key": ZONE, "operator": "Exists", "minValues": 50}),
    ),
    _pool(
        "requirements that contradict",
        "nothing is left",
        requirements=_needs(
            {"key": ZONE, "operator": "In", "values": ["here"]},
            {"key": ZONE, "operator": "NotIn", "values": ["here"]},
        ),
    ),
    _pool(
        "bounds at 2^63-1",
        "the largest number",
        requirements=_needs(
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": [str(LARGEST)]},
            {"key": "karpenter.k8s.aws/instance-memory", "operator": "Lt", "values": ["0"]},
        ),
    ),
    _pool(
        "a bound of 2^63",
        "one more than a number may be",
        requirements=_needs(
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": [str(2**63)]}
        ),
        refused="must have a single positive integer value",
    ),
    _pool(
        "a class that is not there",
        "it never becomes ready",
        template={"nodeClassRef": {"group": "nothing.example.com", "kind": "Nothing", "name": "none"}},
    ),
    _pool(
        "2000 startup taints",
        "nothing takes them away",
        template=lambda _: {
            "startupTaints": [
                {"key": f"example.com/s{number}", "value": "v", "effect": "NoExecute"}
                for number in range(2_000)
            ]
        },
    ),
    _pool(
        "a template of a hundred labels, and annotations",
        "copied to each node",
        spec=lambda _: {
            "template": {
                "metadata": {
                    "labels": {f"example.com/l{number}": "v" * 63 for number in range(100)},
                    "annotations": {
                        "example.com/a": "x" * 200_000,
                        labels.TERMINATION_TIMESTAMP: "0001-01-01T00:00:00Z",
                        labels.DO_NOT_DISRUPT: LONG,
                    },
                }
            }
        },
    ),
    _pool(
        "annotations of ours that say nothing",
        "read on each look at the pool",
        meta={
            "annotations": {
                labels.PAUSE: WORDS,
                labels.EXPIRATION: LONG,
                labels.MINIMUM_NODES: "9" * 100_000,
                labels.TIME_ZONE: "../../etc/passwd",
                labels.CONFIRM_TERMINATION: "perhaps",
                labels.NODEPOOL_HASH: "",
                labels.NODEPOOL_HASH_VERSION: WORDS,
            }
        },
    ),
    _pool(
        "a static pool of 2^31-1 nodes",
        "a number that is never bought",
        spec={"replicas": 2**31 - 1, "limits": {"nodes": "0"}},
    ),
    _pool(
        "a pool that is deleted and never goes",
        "a finalizer of others",
        meta={"finalizers": [NEVER], **DELETED},
    ),
    _pool(
        "a pool with owners in a cycle",
        "it owns itself, by name",
        meta=lambda place: {
            "ownerReferences": [owner_reference(FOREIGN, "NodePool", place.name, blockOwnerDeletion=True)]
        },
    ),
    _claim(
        "a claim by hand, of no pool",
        "nothing that is asked of it can be had",
        spec={"requirements": [{**_TYPES, "operator": "In", "values": ["no-such-type"]}]},
    ),
    _claim(
        "a claim of a pool that is not there",
        "a label of ours",
        meta={"labels": {labels.NODEPOOL: "no-such-pool"}},
        spec=_needs({"key": ZONE, "operator": "In", "values": ["no-such-zone"]}),
    ),
    *(
        _claim(
            f"a claim for {short(amount)}",
            AMOUNTS[amount],
            spec={"resources": {"requests": {"cpu": amount, "memory": amount, "example.com/r": amount}}},
        )
        for amount in ("1e18", str(LARGEST), "1e1000", LONG)
    ),
    *(
        _claim(
            f"a claim for less than nothing, that lives {short(text)}",
            "lengths of time, on a claim",
            spec={
                "resources": {"requests": {"cpu": "-1"}},
                "terminationGracePeriod": text,
                "expireAfter": text,
            },
        )
        for text in _LONG_TIMES[:3]
    ),
    _claim(
        "a claim's deadline that is no time",
        "an annotation that is parsed",
        meta={"annotations": {labels.TERMINATION_TIMESTAMP: WORDS, labels.DO_NOT_DISRUPT: "99999999h"}},
    ),
    _claim(
        "a claim's deadline in the year 1",
        "an annotation that is parsed",
        meta={"annotations": {labels.TERMINATION_TIMESTAMP: "0001-01-01T00:00:00Z"}},
    ),
    _claim(
        "a claim with the instance of another",
        "two claims of one instance",
        status={"providerID": "made-up:///another", "nodeName": "another"},
    ),
    _claim(
        "a claim whose status is nonsense",
        "amounts and instants of a status",
        status={
            "providerID": "\U0001f4a3",
            "nodeName": "no-such-node",
            "capacity": {"cpu": "1e1000", "memory": LONG},
            "allocatable": {"cpu": "-1"},
            "lastPodEventTime": "9999-12-31T23:59:59Z",
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "reason": "Nonsense",
                    "message": WORDS,
                    "lastTransitionTime": "0001-01-01T00:00:00Z",
                }
                for kind in ("Launched", "Registered", "Initialized", "Drifted", "Consolidatable")
            ],
        },
    ),
    _claim(
        "a claim that is deleted and never goes",
        "a finalizer of others",
        meta={"finalizers": [NEVER], **DELETED},
    ),
    _claim(
        "a claim of 100 keys",
        "as many requirements",
        spec=lambda _: _needs(
            *(
                {
                    "key": f"example.com/k{number}",
                    "operator": "In",
                    "values": [f"v{item}" for item in range(100)],
                    "minValues": 50,
                }
                for number in range(100)
            )
        ),
    ),
    object_attack(
        "pool",
        "a priority class at its lowest",
        "priorities that are compared",
        "scheduling.k8s.io/v1",
        "PriorityClass",
        {"value": -(2**31)},
        namespaced=False,
    ),
    Attack(
        "pods of the highest and the lowest priority",
        "pool",
        "priorities that are compared",
        lambda place: tuple(
            one
            for number, value in enumerate((10**9, -(2**31)))
            for one in (
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": f"{place.name}-{number}", "labels": {MARK: "class"}},
                    "value": value,
                    "preemptionPolicy": "Never",
                },
                pod_document(
                    replace(place, name=f"{place.name}-{number}"),
                    {"priorityClassName": f"{place.name}-{number}"},
                    {},
                    None,
                ),
            )
        ),
    ),
    Attack(
        "overhead of a runtime class",
        "pool",
        "amounts beside the containers'",
        lambda place: (
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": place.name, "labels": {MARK: "class"}},
                "handler": "none",
                "overhead": {"podFixed": {"cpu": "1e18", "memory": str(LARGEST)}},
            },
            pod_document(place, {"runtimeClassName": place.name}, {}, None),
        ),
    ),
    object_attack(
        "pool",
        "a volume for 2000 places",
        "terms that are held against each node",
        "v1",
        "PersistentVolume",
        lambda _: {
            "spec": {
                "capacity": {"storage": "1e18"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "no-such-class",
                "csi": {"driver": "d.example.com", "volumeHandle": "h" * 1_000},
                "nodeAffinity": {"required": {"nodeSelectorTerms": selector_terms(2_000)}},
            }
        },
        namespaced=False,
    ),
    object_attack(
        "pool",
        "a storage class of topologies that are not there",
        "terms of a class",
        "storage.k8s.io/v1",
        "StorageClass",
        {
            "provisioner": "no.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [
                {
                    "matchLabelExpressions": [
                        {"key": f"example.com/k{number}", "values": [f"v{item}" for item in range(100)]}
                    ]
                }
                for number in range(100)
            ],
        },
        namespaced=False,
    ),
)

CLASSES = (
    object_attack(
        "pool",
        "a class whose nodes come after 99999999h",
        "a length of time beyond all reason",
        "karpenter.kwok.sh/v1alpha1",
        "KWOKNodeClass",
        {"spec": {"nodeRegistrationDelay": "99999999h"}},
        namespaced=False,
    ),
    object_attack(
        "pool",
        "a class whose nodes come after 5000 digits of hours",
        "a length of time beyond all reason",
        "karpenter.kwok.sh/v1alpha1",
        "KWOKNodeClass",
        {"spec": {"nodeRegistrationDelay": LONG + "h"}},
        namespaced=False,
    ),
    object_attack(
        "pool",
        "a class of everything at its extreme",
        "what becomes a launch template",
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        lambda _: {
            "spec": {
                "role": "\U0001f4a3" * 100,
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {f"k{item}": "*" for item in range(20)}} for _ in range(30)],
                "securityGroupSelectorTerms": [{"name": "x" * 10_000}],
                "userData": WORDS * 1_000,
                "tags": {f"t{item}": "v" * 1_000 for item in range(200)},
                "blockDeviceMappings": [
                    {
                        "deviceName": "/dev/" + "x" * 1_000,
                        "ebs": {"volumeSize": "64T", "iops": LARGEST, "throughput": -1, "volumeType": "gp3"},
                    }
                ]
                * 50,
                "ipPrefixCount": 2**31 - 1,
            }
        },
        namespaced=False,
    ),
    object_attack(
        "pool",
        "a class whose kubelet is nonsense",
        "settings that only a node would refuse",
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        lambda _: {
            "spec": {
                "role": "nodes",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "*"}}],
                "kubelet": {
                    "maxPods": LARGEST,
                    "podsPerCore": 2**31,
                    "systemReserved": {"cpu": "1e1000", "memory": LONG},
                    "kubeReserved": {"cpu": "8Ei"},
                    "evictionHard": {"memory.available": "1000%"},
                    "evictionSoft": {"nodefs.available": "-1"},
                    "evictionSoftGracePeriod": {"nodefs.available": "99999999h"},
                    "clusterDNS": ["\U0001f4a3"],
                    "imageGCHighThresholdPercent": -1,
                    "cpuCFSQuota": True,
                },
            }
        },
        namespaced=False,
    ),
)
