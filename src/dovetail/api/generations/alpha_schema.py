"""What v1alpha5 Provisioners and Machines and v1alpha1 AWSNodeTemplates may hold, as served up to 0.32."""

from __future__ import annotations

from dataclasses import replace

from dovetail.api.generations import beta_schema
from dovetail.api.karpenter.common_schema import ANY, BOOLEAN, INTEGER, QUANTITY, RESOURCES, STRING, STRINGS
from dovetail.api.karpenter.common_schema import document as _document
from dovetail.api.schema import Schema

PROVISIONER = ("karpenter.sh/v1alpha5", "Provisioner")
MACHINE = ("karpenter.sh/v1alpha5", "Machine")
NODE_TEMPLATE = ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate")

# The definitions had types and few bounds; the webhooks checked the rest.
_KUBELET = Schema(
    type="object",
    properties={
        **{
            key: child if key in ("maxPods", "podsPerCore") or "Percent" in key else replace(child, rules=())
            for key, child in beta_schema.KUBELET.properties.items()
        },
        "containerRuntime": STRING,
        "evictionHard": STRINGS,
        "evictionSoft": STRINGS,
    },
)
_TAINTS = Schema(
    type="array",
    items=Schema(
        type="object",
        required=("effect", "key"),
        properties={"effect": STRING, "key": STRING, "timeAdded": STRING, "value": STRING},
    ),
)
_REQUIREMENTS = Schema(
    type="array",
    items=Schema(
        type="object",
        required=("key", "operator"),
        properties={"key": STRING, "operator": STRING, "values": Schema(type="array", items=STRING)},
    ),
)
_REFERENCE = Schema(
    type="object", required=("name",), properties={"apiVersion": STRING, "kind": STRING, "name": STRING}
)

_PROVISIONER = Schema(
    type="object",
    properties={
        "annotations": STRINGS,
        "consolidation": Schema(type="object", properties={"enabled": BOOLEAN}),
        "kubeletConfiguration": _KUBELET,
        "labels": STRINGS,
        "limits": Schema(type="object", properties={"resources": RESOURCES}),
        "provider": ANY,
        "providerRef": _REFERENCE,
        "requirements": _REQUIREMENTS,
        "startupTaints": _TAINTS,
        "taints": _TAINTS,
        "ttlSecondsAfterEmpty": INTEGER,
        "ttlSecondsUntilExpired": INTEGER,
        "weight": Schema(type="integer", minimum=1, maximum=100),
    },
)

_MACHINE = Schema(
    type="object",
    properties={
        "kubelet": _KUBELET,
        "machineTemplateRef": _REFERENCE,
        "requirements": _REQUIREMENTS,
        "resources": Schema(type="object", properties={"requests": RESOURCES}),
        "startupTaints": _TAINTS,
        "taints": _TAINTS,
    },
)

# The fields that a Provisioner could also hold inline, as its `provider`.
INLINE = Schema(
    type="object",
    properties={
        "amiFamily": STRING,
        "apiVersion": STRING,
        "blockDeviceMappings": Schema(
            type="array",
            items=Schema(
                type="object",
                properties={
                    "deviceName": STRING,
                    "ebs": Schema(
                        type="object",
                        properties={
                            "deleteOnTermination": BOOLEAN,
                            "encrypted": BOOLEAN,
                            "iops": INTEGER,
                            "kmsKeyID": STRING,
                            "snapshotID": STRING,
                            "throughput": INTEGER,
                            "volumeSize": QUANTITY,
                            "volumeType": STRING,
                        },
                    ),
                },
            ),
        ),
        "context": STRING,
        "instanceProfile": STRING,
        "kind": STRING,
        "launchTemplate": STRING,
        "metadataOptions": Schema(
            type="object",
            properties={
                "httpEndpoint": STRING,
                "httpProtocolIPv6": STRING,
                "httpPutResponseHopLimit": INTEGER,
                "httpTokens": STRING,
            },
        ),
        "securityGroupSelector": STRINGS,
        "subnetSelector": STRINGS,
        "tags": STRINGS,
    },
)
_NODE_TEMPLATE = replace(
    INLINE,
    properties={
        **INLINE.properties,
        "amiSelector": STRINGS,
        "detailedMonitoring": BOOLEAN,
        "userData": STRING,
    },
)

SCHEMAS = {
    PROVISIONER: _document(_PROVISIONER, required=False),
    MACHINE: _document(_MACHINE, required=False),
    NODE_TEMPLATE: _document(_NODE_TEMPLATE, required=False),
}
