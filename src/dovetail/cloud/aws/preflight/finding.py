"""What was found out about one thing that the controller needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dovetail.cloud.aws.errors import UNIDENTIFIED, AwsError, Refusal


class Verdict(StrEnum):
    """From best to worst: only the last two keep a controller from working."""

    FINE = "ok"
    UNTRIED = "not tried"
    UNSURE = "unsure"
    MISSING = "missing"
    UNREACHABLE = "unreachable"


FAILED = (Verdict.MISSING, Verdict.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is an IAM action or what is looked for; `remedy` says what to do about a bad verdict."""

    area: str  # identity, permission, endpoint, cluster, queue, prices, tags, class
    subject: str
    verdict: Verdict
    detail: str = ""
    remedy: str = ""


def failed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that keep a controller from working."""
    return tuple(item for item in findings if item.verdict in FAILED)


NO_IDENTITY = (
    "in a pod: associate a role with the service account (EKS Pod Identity), or annotate it with "
    "eks.amazonaws.com/role-arn (IRSA); elsewhere: AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY"
)


def unidentified(error: AwsError) -> bool:
    """True iff the call had no credentials, or none that AWS takes."""
    return error.code in UNIDENTIFIED


def of_error(action: str, purpose: str, error: AwsError) -> Finding:
    """What a refused call says about the right to make it."""
    match error.refusal:
        case Refusal.NOT_FOUND | Refusal.EXISTS:
            # Without the right to ask there is no answer about what there is.
            return Finding("permission", action, Verdict.FINE, purpose)
        case Refusal.UNAUTHORIZED:
            remedy = f"allow {action} to the controller's role; deploy/terraform/policies has the statements"
            return Finding("permission", action, Verdict.MISSING, f"{purpose}: {error.message}", remedy)
        case Refusal.UNREACHABLE:
            service = action.partition(":")[0]
            remedy = (
                f"a route to {service}: NAT, a proxy (HTTPS_PROXY), or a VPC endpoint with private DNS; "
                "AWS_USE_FIPS_ENDPOINT and AWS_ENDPOINT_URL choose another"
            )
            return Finding("endpoint", action, Verdict.UNREACHABLE, error.message, remedy)
        case _:
            detail = f"{error.code}: {error.message}"
            return Finding("permission", action, Verdict.UNSURE, detail, "try again in a while")
