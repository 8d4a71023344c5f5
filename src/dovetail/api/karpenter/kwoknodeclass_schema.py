"""What karpenter.kwok.sh/v1alpha1 KWOKNodeClass documents may hold."""

from __future__ import annotations

from dovetail.api.karpenter.common_schema import DURATION, document
from dovetail.api.schema import Schema

SCHEMA = document(
    Schema(type="object", properties={"nodeRegistrationDelay": DURATION}),
    required=False,
)
