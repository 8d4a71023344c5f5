"""What karpenter.kwok.sh/v1alpha1 KWOKNodeClass documents may hold."""

from __future__ import annotations

from dovetail.api.karpenter.common_schema import ANY, DURATION, STRING
from dovetail.api.schema import Schema

SCHEMA = Schema(
    type="object",
    properties={
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": ANY,
        "spec": Schema(type="object", properties={"nodeRegistrationDelay": DURATION}),
        "status": ANY,
    },
)
