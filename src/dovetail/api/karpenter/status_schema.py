"""What the status of Karpenter's kinds holds: controllers write it, so only the API server checks it."""

from __future__ import annotations

from dovetail.api.karpenter.common_schema import BOOLEAN, INTEGER, RESOURCES, STRING
from dovetail.api.schema import Schema

TIME = Schema(type="string", format="date-time")
_NATURAL = Schema(type="integer", minimum=0)

CONDITIONS = Schema(
    type="array",
    items=Schema(
        type="object",
        required=("lastTransitionTime", "message", "reason", "status", "type"),
        properties={
            "lastTransitionTime": TIME,
            "message": Schema(type="string", max_length=32_768),
            "observedGeneration": _NATURAL,
            "reason": Schema(
                type="string",
                min_length=1,
                max_length=1024,
                pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            ),
            "status": Schema(type="string", enum=("True", "False", "Unknown")),
            "type": Schema(type="string", max_length=316),
        },
    ),
)


def _status(**properties: Schema) -> Schema:
    return Schema(type="object", properties={**properties, "conditions": CONDITIONS})


def _list(*, required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return Schema(type="array", items=Schema(type="object", required=required, properties=properties))


NODE_POOL = _status(
    nodeClassObservedGeneration=INTEGER, nodes=Schema(type="integer", default=0), resources=RESOURCES
)
NODE_CLAIM = _status(
    allocatable=RESOURCES,
    capacity=RESOURCES,
    imageID=STRING,
    lastPodEventTime=TIME,
    nodeName=STRING,
    providerID=STRING,
)
CONDITIONS_ONLY = _status()
EC2_NODE_CLASS = _status(
    amis=_list(
        required=("id", "requirements"),
        deprecated=BOOLEAN,
        id=STRING,
        name=STRING,
        requirements=_list(
            required=("key", "operator"),
            key=STRING,
            operator=STRING,
            values=Schema(type="array", items=STRING),
        ),
    ),
    capacityReservations=_list(
        required=("availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"),
        availabilityZone=STRING,
        endTime=TIME,
        id=STRING,
        instanceMatchCriteria=Schema(type="string", enum=("open", "targeted")),
        instanceType=STRING,
        interruptible=BOOLEAN,
        ownerID=STRING,
        reservationType=Schema(type="string", default="default", enum=("default", "capacity-block")),
        state=Schema(type="string", default="active", enum=("active", "expiring")),
    ),
    instanceProfile=STRING,
    securityGroups=_list(required=("id",), id=STRING, name=STRING),
    subnets=_list(required=("id", "zone"), id=STRING, zone=STRING, zoneID=STRING),
)
CAPACITY_BUFFER = _status(
    podTemplateGeneration=INTEGER,
    podTemplateRef=Schema(type="object", required=("name",), properties={"name": STRING}),
    provisioningStrategy=STRING,
    replicas=INTEGER,
)
