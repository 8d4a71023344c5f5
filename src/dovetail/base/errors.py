"""Every error that Dovetail raises on purpose, in one tree.

DovetailError
├── InputError                 what a user gave is wrong: exit code 2, never a traceback
│   └── InputErrors            several things at once, each an InputError of its own
├── ApiError                   the API server said no; `status` is the HTTP code
│   ├── NotFound 404
│   ├── AlreadyExists 409
│   ├── Conflict 409           resourceVersion or UID precondition failed: read again, decide again
│   ├── Expired 410            a watch fell too far behind: list again
│   ├── Invalid 422            carries the causes, one per field
│   ├── BadRequest 400
│   ├── Unauthorized 401       the server does not know who asks, or no longer
│   ├── Forbidden 403          no right to do that, or admission found something missing
│   ├── TooManyRequests 429    too much to do, or an eviction would violate a PodDisruptionBudget: later
│   ├── Unavailable 503        no server answers now, or a watch was cut off: retry
│   └── TimedOut 504           no answer in time: it may have been done all the same
├── PlannerFailed              no plan could be made, such as when the solver's process died: ask again
└── CloudError                 the provider said no
    ├── InsufficientCapacity   no offering left: delete the claim, plan again
    ├── NodeClassNotReady      delete the claim, plan again
    ├── InstanceNotFound       the instance is gone: nothing left to do
    ├── CreateFailed           launch failed for another reason: retry with back-off
    └── RebootRefused          asking again is of no use: replace the node instead
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from dovetail.base.words import number_of


class DovetailError(Exception):
    """Root of the tree."""


class Place(TypedDict):
    """Where something is wrong, of which object, and what to do: see InputError."""

    source: str
    line: int | None
    column: int | None
    kind: str
    name: str
    path: str
    remedy: str


class InputError(DovetailError):
    """Something a user gave is wrong.

    `message` says what is wrong and what would be valid; `source` is the file or flag, `line` and `column`
    count from 1, `kind` and `name` are those of the object, `path` is a field path such as
    `spec.template.spec.requirements[0].operator`, `remedy` says what to do.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str = "",
        line: int | None = None,
        column: int | None = None,
        kind: str = "",
        name: str = "",
        path: str = "",
        remedy: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.source = source
        self.line = line
        self.column = column
        self.kind = kind
        self.name = name
        self.path = path
        self.remedy = remedy

    @property
    def place(self) -> Place:
        """All but the message, by the names of the constructor."""
        return {
            "source": self.source,
            "line": self.line,
            "column": self.column,
            "kind": self.kind,
            "name": self.name,
            "path": self.path,
            "remedy": self.remedy,
        }

    @property
    def faults(self) -> tuple[InputError, ...]:
        """Everything that is wrong, one by one."""
        return (self,)

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        subject = f"{self.kind} {self.name}".strip()
        head = ": ".join(part for part in (place, subject, self.path, self.message) if part)
        return f"{head}\n  {self.remedy}" if self.remedy else head


class InputErrors(InputError):
    """Several things a user gave are wrong; it reads as the first of them does."""

    MOST_SHOWN = 50

    def __init__(self, faults: tuple[InputError, ...]) -> None:
        first = faults[0]
        super().__init__(first.message, **first.place)
        self._faults = faults

    def __reduce__(self) -> tuple[type[InputErrors], tuple[tuple[InputError, ...]]]:
        return InputErrors, (self._faults,)  # between processes: its arguments are not those of an exception

    @staticmethod
    def of(faults: tuple[InputError, ...]) -> InputError:
        """One error for one or more of them."""
        flat = tuple(single for fault in faults for single in fault.faults)
        return flat[0] if len(flat) == 1 else InputErrors(flat)

    @property
    def faults(self) -> tuple[InputError, ...]:
        return self._faults

    def __str__(self) -> str:
        shown = [str(fault) for fault in self._faults[: self.MOST_SHOWN]]
        more = len(self._faults) - len(shown)
        if more:
            shown.append(f"and {number_of(more, 'more error')}")
        return "\n".join(shown)


@dataclass(frozen=True, slots=True)
class Cause:
    """One broken rule: `field` is a path (`<nil>` for the whole object), `reason` as in metav1.CauseType."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class ApiError(DovetailError):
    """The API server refused a request."""

    status = 500
    reason = "InternalError"


class NotFound(ApiError):
    """No such object."""

    status = 404
    reason = "NotFound"


class AlreadyExists(ApiError):
    """The name is taken."""

    status = 409
    reason = "AlreadyExists"


class Conflict(ApiError):
    """The object changed since it was read."""

    status = 409
    reason = "Conflict"


class Expired(ApiError):
    """The resourceVersion is older than the history that is kept."""

    status = 410
    reason = "Expired"


class BadRequest(ApiError):
    """The request cannot be understood, such as a document with unknown fields."""

    status = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    """The server does not take the credentials, or takes them no longer."""

    status = 401
    reason = "Unauthorized"


class Forbidden(ApiError):
    """Who asks has no right to do that, or admission does not let the request through."""

    status = 403
    reason = "Forbidden"


class Invalid(ApiError):
    """Admission found broken rules."""

    status = 422
    reason = "Invalid"

    def __init__(self, message: str, causes: tuple[Cause, ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


class TooManyRequests(ApiError):
    """The server has too much to do, or the eviction would violate a PodDisruptionBudget.

    `retry_after` is how long the server wants to be left alone, in nanoseconds; 0 when it does not say.
    """

    status = 429
    reason = "TooManyRequests"

    def __init__(self, message: str, *, retry_after: int = 0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(ApiError):
    """Nothing answers, or the connection was cut off."""

    status = 503
    reason = "ServiceUnavailable"


class TimedOut(ApiError):
    """No answer in time; what was asked for may have been done all the same."""

    status = 504
    reason = "Timeout"


class PlannerFailed(DovetailError):
    """The solver gave no answer; the next question starts afresh.

    `stack` is where an exception of the solver came from: lines of code, none of the problem's data.
    """

    def __init__(self, message: str, stack: str = "") -> None:
        super().__init__(message)
        self.stack = stack


class CloudError(DovetailError):
    """The provider refused a request."""


class InsufficientCapacity(CloudError):
    """None of the offerings asked for has capacity."""


class NodeClassNotReady(CloudError):
    """The node class of the claim is not ready to launch."""


class InstanceNotFound(CloudError):
    """The instance does not exist (any more)."""


class RebootRefused(CloudError):
    """The cloud does not reboot the instance, and will not if it is asked again."""


class CreateFailed(CloudError):
    """The launch failed; `reason` becomes the reason of the claim's Launched condition."""

    def __init__(self, message: str, reason: str = "LaunchFailed") -> None:
        super().__init__(message)
        self.reason = reason


_MOST = 300  # characters of an exception's words: it may quote what a user wrote


def in_one_line(error: BaseException) -> str:
    """An exception's kind and words, for a line of the log or an event."""
    text = " ".join(str(error).split())
    described = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return described if len(described) <= _MOST else f"{described[:_MOST]}..."
