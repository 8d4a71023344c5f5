"""What AWS says no with: one error type, its code, and which of a few classes the code belongs to."""

from __future__ import annotations

from enum import StrEnum

from dovetail.base.errors import CloudError


class Refusal(StrEnum):
    """What a code means for the caller."""

    UNAUTHORIZED = "unauthorized"  # no right to do that, or credentials that AWS does not take
    THROTTLED = "throttled"  # too many calls: later
    NOT_FOUND = "not-found"
    EXISTS = "exists"
    UNREACHABLE = "unreachable"  # nothing answered; what was asked for may have been done all the same
    SERVER = "server"  # AWS's own fault: retry
    REQUEST = "request"  # anything else is wrong with what was asked


# Codes of credentials that AWS does not take at all: there is no identity that could lack a permission.
UNIDENTIFIED = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "NoCredentials",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_UNAUTHORIZED = UNIDENTIFIED | {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_THROTTLED = frozenset(
    {
        "EC2ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_NOT_FOUND = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchEntity",
        "ParameterNotFound",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
    }
)
_EXISTS = frozenset(
    {"EntityAlreadyExists", "InvalidLaunchTemplateName.AlreadyExistsException", "ResourceInUseException"}
)
UNREADABLE = "UnreadableAnswer"
_SERVER = frozenset(
    {
        UNREADABLE,
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "ServiceFailure",
        "ServiceUnavailable",
        "Unavailable",
    }
)
UNREACHABLE = "RequestTimeout"
_UNREACHABLE = frozenset({UNREACHABLE, "EndpointConnectionError"})


class AwsError(CloudError):
    """A call that AWS refused, such as AwsError("CreateFleet", "RequestLimitExceeded", "...")."""

    def __init__(self, action: str, code: str, message: str) -> None:
        super().__init__(f"{action}: {code}: {message}")
        self.action = action
        self.code = code
        self.message = message

    @property
    def refusal(self) -> Refusal:
        """Which class the code belongs to."""
        return refusal(self.code)


def refusal(code: str) -> Refusal:
    """The class of a code that AWS gave."""
    for known, found in (
        (_UNAUTHORIZED, Refusal.UNAUTHORIZED),
        (_THROTTLED, Refusal.THROTTLED),
        (_NOT_FOUND, Refusal.NOT_FOUND),
        (_EXISTS, Refusal.EXISTS),
        (_UNREACHABLE, Refusal.UNREACHABLE),
        (_SERVER, Refusal.SERVER),
    ):
        if code in known:
            return found
    if code.isdigit() and int(code) >= 500:
        # No code at all but the status: something in between answered.
        return Refusal.SERVER
    # EC2 spells it per kind of resource, such as InvalidInstanceID.NotFound.
    if code.endswith((".NotFound", ".NotFoundException")):
        return Refusal.NOT_FOUND
    return Refusal.REQUEST
