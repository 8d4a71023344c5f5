"""Names of resources and the sentences that a real API server answers with."""

from __future__ import annotations

from dovetail.api.meta import Object
from dovetail.base.errors import AlreadyExists, Cause, Conflict, Invalid, NotFound

CHANGED = "the object has been modified; please apply your changes to the latest version and try again"
REJECTED = "the server rejected our request due to an error in our request"


def group(kind: type[Object]) -> str:
    """The API group; empty for core kinds."""
    return kind.API_VERSION.rpartition("/")[0]


def resource(kind: type[Object]) -> str:
    """`pods`, `deployments.apps`, `nodepools.karpenter.sh`."""
    return f"{kind.PLURAL}.{group(kind)}" if group(kind) else kind.PLURAL


def not_found(kind: type[Object], name: str) -> NotFound:
    return NotFound(f'{resource(kind)} "{name}" not found')


def already_exists(kind: type[Object], name: str) -> AlreadyExists:
    return AlreadyExists(f'{resource(kind)} "{name}" already exists')


def conflict(kind: type[Object], name: str, why: str = CHANGED, *, subresource: str = "") -> Conflict:
    what = f"{resource(kind)}/{subresource}" if subresource else resource(kind)
    return Conflict(f'Operation cannot be fulfilled on {what} "{name}": {why}')


def wrong_uid(kind: type[Object], name: str, asked: str, actual: str) -> Conflict:
    what = f"{kind.KIND}.{group(kind)}" if group(kind) else kind.KIND
    return Conflict(
        f'Operation cannot be fulfilled on {what} "{name}": the UID in the precondition ({asked})'
        f" does not match the UID in record ({actual}). The object might have been deleted and then recreated"
    )


def wrong_version(kind: type[Object], name: str, asked: str, actual: str) -> Conflict:
    what = f"{kind.KIND}.{group(kind)}" if group(kind) else kind.KIND
    return Conflict(
        f'Operation cannot be fulfilled on {what} "{name}": the ResourceVersion in the precondition ({asked})'
        f" does not match the ResourceVersion in record ({actual}). The object might have been modified"
    )


def invalid(kind: type[Object], name: str, *causes: Cause) -> Invalid:
    lines = [f"{cause.field}: {cause.message}" for cause in causes]
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    what = f"{kind.KIND}.{group(kind)}" if group(kind) else kind.KIND
    return Invalid(f'{what} "{name}" is invalid: {text}', causes)


def forbidden_cause(field: str, why: str) -> Cause:
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")
