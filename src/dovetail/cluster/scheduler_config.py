"""The cluster's scheduler configuration, as far as plans depend on it: the value of --scheduler-config."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.api.codec import decode
from dovetail.api.core import TopologySpreadConstraint
from dovetail.api.core_schema import core_schema
from dovetail.api.meta import Part
from dovetail.api.names import label_key_faults
from dovetail.api.rules import Rule, rule
from dovetail.api.schema import Schema
from dovetail.base.errors import InputError
from dovetail.reading import Located
from dovetail.reading.settings import read_setting

Value = dict[str, Any]

_EXAMPLE = (
    "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, "
    "whenUnsatisfiable: ScheduleAnyway}]}"
)


class _PodTopologySpread(Part, frozen=True, kw_only=True):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()


class _SchedulerConfig(Part, frozen=True, kw_only=True):
    pod_topology_spread: _PodTopologySpread = _PodTopologySpread()


def read_default_constraints(text: str, source: str) -> tuple[TopologySpreadConstraint, ...]:
    """The constraints that pods without any get from the scheduler, none for an empty text.

    Raises InputError with line, field and remedy, named after `source`.
    """
    found = read_setting(
        text, source, _schema(), holds="podTopologySpread", example=_EXAMPLE, check=_not_the_whole
    )
    return decode(found[0], _SchedulerConfig).pod_topology_spread.default_constraints if found else ()


def _not_the_whole(located: Located) -> None:
    if located.value.get("kind") == "KubeSchedulerConfiguration":
        raise InputError(
            "this is the scheduler's whole configuration, of which only podTopologySpread is taken",
            source=located.source,
            line=located.line_of("kind"),
            remedy=f"copy defaultConstraints of the plugin PodTopologySpread, as {_EXAMPLE}",
        )


def _schema() -> Schema:
    pod = core_schema("v1", "Pod")
    constraints = pod and pod.properties["spec"].properties["topologySpreadConstraints"]
    assert constraints and constraints.items, "pods have spread constraints"
    constraint = replace(constraints.items, rules=(*constraints.items.rules, *_OF_DEFAULTS))
    listed = replace(constraints, items=constraint, rules=(_given_once,))
    section = Schema(type="object", properties={"defaultConstraints": listed})
    return Schema(type="object", properties={"podTopologySpread": section})


def _key_fault(constraint: Value) -> str:
    key = constraint["topologyKey"]
    faults = label_key_faults(key)
    return f"{key!r} is no label: {'; '.join(faults)}" if faults else ""


def _repeated(constraints: list[Value]) -> str:
    seen: dict[tuple[str, str], int] = {}
    for number, item in enumerate(constraints):
        pair = item["topologyKey"], item["whenUnsatisfiable"]
        if pair in seen:
            first = seen[pair]
            return f"[{first}] and [{number}] have the same topologyKey and whenUnsatisfiable; keep one"
        seen[pair] = number
    return ""


@rule("the scheduler deduces for each pod which pods count; leave it out", at="labelSelector")
def _no_selector(constraint: Value) -> bool:
    return "labelSelector" not in constraint


@rule("the scheduler deduces for each pod which pods count; leave it out", at="matchLabelKeys")
def _no_label_keys(constraint: Value) -> bool:
    return not constraint.get("matchLabelKeys")


_OF_DEFAULTS = (Rule("key", explain=_key_fault, at="topologyKey"), _no_selector, _no_label_keys)
_given_once = Rule("given_once", explain=_repeated)
