"""When nodes are past help, as the user has it: the value of --repair-policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.meta import Part
from dovetail.api.schema import Schema
from dovetail.base.errors import InputErrors
from dovetail.model.repair import REBOOT, REPLACE, STATUSES, RepairPolicy, faults
from dovetail.reading import Located
from dovetail.reading.refusals import refusal
from dovetail.reading.settings import read_setting
from dovetail.units.duration import format_duration, parse_duration

_EXAMPLE = (
    "policies: [{conditionType: Ready, conditionStatus: Unknown, tolerationDuration: 15m, "
    "terminationGracePeriod: 5m}]"
)
# Field of RepairPolicy -> as it is written.
_WRITTEN = {
    "condition": "conditionType",
    "status": "conditionStatus",
    "reason": "reasonRegex",
    "toleration": "tolerationDuration",
    "grace": "terminationGracePeriod",
    "priority": "priority",
    "action": "action",
}
_REMEDIES = {
    "condition": "name a condition of nodes, such as Ready",
    "status": f"choose one of {', '.join(STATUSES)}",
    "reason": "give an expression of RE2, such as XID(48|63)",
    "toleration": "give 0s or more",
    "grace": "give 0s or more; leave it out for the claim's own",
    "priority": "give 0 to 100, the highest in front",
    "action": f"choose {REPLACE} or {REBOOT}",
}


class _Policy(Part, frozen=True, kw_only=True):
    condition_type: str
    condition_status: str
    toleration_duration: str
    reason_regex: str = ""
    termination_grace_period: str | None = None
    priority: int = 0
    action: str = REPLACE


class _Policies(Part, frozen=True, kw_only=True):
    policies: tuple[_Policy, ...] = ()


_TEXT = Schema(type="string")
_ONE = Schema(
    type="object",
    properties={
        "conditionType": _TEXT,
        "conditionStatus": _TEXT,
        "reasonRegex": _TEXT,
        "tolerationDuration": _TEXT,
        "terminationGracePeriod": _TEXT,
        "priority": Schema(type="integer"),
        "action": _TEXT,
    },
    required=("conditionType", "conditionStatus", "tolerationDuration"),
)
_SCHEMA = Schema(
    type="object", properties={"policies": Schema(type="array", items=_ONE)}, required=("policies",)
)


def read_repair_policies(text: str, source: str) -> tuple[RepairPolicy, ...]:
    """The policies, none for an empty text: then the cloud's own hold.

    Raises InputError with line, field and remedy, named after `source`.
    """
    found = read_setting(text, source, _SCHEMA, holds="policies", example=_EXAMPLE, mend=_with_statuses)
    if found is None:
        return ()
    document, located = found
    policies = _policies(document, located)
    if not policies:
        message = "repair policies are given, but none is defined"
        raise refusal(located, "policies", message, "leave it out for the provider's own policies")
    _check(policies, located)
    return policies


def written(policy: RepairPolicy) -> dict[str, str | int]:
    """The policy as it is given, for the log."""
    found: dict[str, str | int] = {}
    for name, field in _WRITTEN.items():
        value = getattr(policy, name)
        if value is not None and value != "":
            found[field] = format_duration(value) if name in ("toleration", "grace") else value
    return found


def _with_statuses(document: Any) -> Any:
    """YAML takes True and False for something else, where they are without quotes."""
    for one in document["policies"] if isinstance(document.get("policies"), list) else ():
        if isinstance(one, dict) and isinstance(one.get("conditionStatus"), bool):
            one["conditionStatus"] = str(one["conditionStatus"])
    return document


def _policies(document: Mapping[str, Any], located: Located) -> tuple[RepairPolicy, ...]:
    found, wrong = [], []
    for index, one in enumerate(decode(document, _Policies).policies):
        durations: dict[str, int | None] = {"toleration": None, "grace": None}
        for name, text in zip(
            durations, (one.toleration_duration, one.termination_grace_period), strict=True
        ):
            try:
                durations[name] = None if text is None else parse_duration(text)
            except ValueError as error:
                wrong.append(refusal(located, f"policies[{index}].{_WRITTEN[name]}", str(error)))
        found.append(
            RepairPolicy(
                one.condition_type,
                one.condition_status,
                durations["toleration"] or 0,
                one.reason_regex,
                durations["grace"],
                one.priority,
                one.action,
            )
        )
    if wrong:
        raise InputErrors.of(tuple(wrong))
    return tuple(found)


def _check(policies: Sequence[RepairPolicy], located: Located) -> None:
    """Raises InputError for what is no set of policies."""
    wrong = []
    for fault in faults(policies):
        path, remedy = (
            "policies",
            "leave reasonRegex out of one policy: it is for reasons that no other names",
        )
        if fault.index is not None:
            path = f"policies[{fault.index}].{_WRITTEN[fault.field]}"
            remedy = _REMEDIES[fault.field]
            if fault.field == "reason" and not policies[fault.index].reason:
                path, remedy = f"policies[{fault.index}]", "give all but one a reasonRegex, such as .*"
            elif fault.field == "action" and policies[fault.index].action == REBOOT:
                remedy = (
                    f"leave action out, or write {REPLACE}: what no policy names may need more than a reboot"
                )
        wrong.append(refusal(located, path, fault.message, remedy))
    if wrong:
        raise InputErrors.of(tuple(wrong))
