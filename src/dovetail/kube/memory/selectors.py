"""Label and field selectors, over documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from dovetail.api.meta import Object
from dovetail.base.errors import BadRequest

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_NAME = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<bare>{_NAME})"
    rf"|(?P<key>{_NAME})(?:\s*(?P<equal>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|\s*(?P<order>[<>])\s*(?P<number>-?\d+))?)\s*(?:,|$)"
)


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> Test:
    """The test that `app=web,tier!=db,env in (a,b),!old` stands for; raises BadRequest."""
    tests: list[Test] = []
    place = 0
    while place < len(text):
        match = _TERM.match(text, place)
        if match is None or (match.end() == len(text) and text[match.end() - 1] == ","):
            raise BadRequest(
                f"unable to parse label selector {text!r} at {text[place:]!r};"
                " valid are terms such as app=web, tier!=db, env in (a,b), key, !key"
            )
        tests.append(_term(match))
        place = match.end()
    return lambda labels: all(test(labels) for test in tests)


def _term(match: re.Match[str]) -> Test:
    if match["absent"]:
        bare = match["bare"]
        return lambda labels: bare not in labels
    key = match["key"]
    if match["order"]:
        return _ordered(key, match["order"], int(match["number"]))
    if match["equal"] is None and match["set"] is None:
        return lambda labels: key in labels
    if match["set"]:
        values = frozenset(part.strip() for part in match["values"].split(","))
    else:
        values = frozenset({match["value"]})
    if match["equal"] == "!=" or match["set"] == "notin":
        return lambda labels: labels.get(key) not in values
    return lambda labels: labels.get(key) in values


def _ordered(key: str, order: str, bound: int) -> Test:
    def test(labels: Labels) -> bool:
        value = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", value):
            return False
        return int(value) > bound if order == ">" else int(value) < bound

    return test


def matches_selector(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a metav1.LabelSelector document selects the labels: absent selects none, empty all."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(item, labels) for item in selector.get("matchExpressions") or ())


def _expression(item: Mapping[str, Any], labels: Labels) -> bool:
    key, operator, values = item["key"], item["operator"], item.get("values") or ()
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return bool((key in labels) == (operator == "Exists"))


_COMMON = frozenset({"metadata.name", "metadata.namespace"})
_BY_KIND: dict[str, frozenset[str]] = {
    "Pod": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.nominatedNodeName",
        }
    ),
    "Node": frozenset({"spec.unschedulable"}),
    "Namespace": frozenset({"status.phase"}),
    "Job": frozenset({"status.successful"}),
    "ReplicaSet": frozenset({"status.replicas"}),
    "Event": frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        }
    ),
    "NodeClaim": frozenset({"spec.nodeClassRef.group", "spec.nodeClassRef.kind", "spec.nodeClassRef.name"}),
}
# What a field means where the document does not hold it.
_ABSENT = {
    "spec.schedulerName": "default-scheduler",
    "spec.restartPolicy": "Always",
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
}
_FIELD = re.compile(r"\s*([A-Za-z0-9_.\[\]-]+)\s*(==|=|!=)\s*(.*?)\s*")


@lru_cache(maxsize=1024)
def parse_fields(kind: type[Object], text: str) -> Callable[[Mapping[str, Any]], bool]:
    """The test that `spec.nodeName=n1,status.phase!=Failed` stands for; raises BadRequest."""
    terms: list[tuple[tuple[str, ...], str, str, bool]] = []
    allowed = _COMMON | _BY_KIND.get(kind.KIND, frozenset())
    for part in filter(None, text.split(",")):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise BadRequest(f"invalid selector: {text!r}; can't understand {part!r}")
        field, operator, value = match.groups()
        if field not in allowed:
            raise BadRequest(f"field label not supported: {field}")
        terms.append((tuple(field.split(".")), _ABSENT.get(field, ""), value, operator != "!="))
    return lambda document: all(
        (_field(document, path, absent) == value) == wanted for path, absent, value, wanted in terms
    )


def _field(document: Any, path: tuple[str, ...], absent: str) -> str:
    place = document
    for part in path:
        place = place.get(part) if isinstance(place, dict) else None
    if place is None:
        return absent
    if isinstance(place, bool):
        return "true" if place else "false"
    return str(place)


def selection(kind: type[Object], labels: str, fields: str) -> Callable[[Mapping[str, Any]], bool]:
    """The test that both selectors stand for together; raises BadRequest."""
    by_label, by_field = parse_labels(labels), parse_fields(kind, fields)
    if not labels:
        return by_field
    return lambda document: by_field(document) and by_label(document["metadata"].get("labels") or {})
