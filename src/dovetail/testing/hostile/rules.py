"""Pods of a tenant: rules of where they may be."""

from __future__ import annotations

from typing import Any

from dovetail.model import labels
from dovetail.testing.hostile.attack import (
    HOST,
    LARGEST,
    MARK,
    ZONE,
    Attack,
    Document,
    pod_attack,
    pods_attack,
    short,
)


def selector_terms(count: int, key: str = "example.com/k") -> list[Document]:
    """Node selector terms, no two alike, of which no node matches any."""
    return [
        {"matchExpressions": [{"key": f"{key}{number}", "operator": "In", "values": [f"v{number}"]}]}
        for number in range(count)
    ]


def _required(*terms: Document) -> Document:
    needed = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}}}


def _expressions(*expressions: Document) -> Document:
    return _required({"matchExpressions": list(expressions)})


def preferred_terms(count: int) -> Document:
    terms = [
        {"weight": 1 + number % 100, "preference": term} for number, term in enumerate(selector_terms(count))
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def _near(field_name: str, terms: list[Document], *, weight: int = 0) -> Document:
    if weight:
        preferred = [{"weight": weight, "podAffinityTerm": term} for term in terms]
        return {"affinity": {field_name: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    return {"affinity": {field_name: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _others(count: int, key: str = HOST) -> list[Document]:
    """Terms about pods that are not there."""
    return [
        {"topologyKey": key, "labelSelector": {"matchLabels": {MARK: f"nothing-{number}"}}}
        for number in range(count)
    ]


def _spread(key: str, **more: Any) -> Document:
    selects = {"labelSelector": {"matchLabels": {MARK: "pod"}}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selects, **more}


def _spreads(*constraints: Document) -> Document:
    return {"topologySpreadConstraints": list(constraints)}


def _number(operator: str, value: str, refused: str = "") -> Attack:
    key = "karpenter.k8s.aws/instance-cpu"
    rule = {"key": key, "operator": operator, "values": [value]}
    return pod_attack(
        f"{operator} {short(value)!r}",
        "a bound that is no number of ours",
        spec=_expressions(rule),
        refused=refused,
    )


RULES = (
    *(
        pod_attack(
            f"{count} preferred terms",
            "a ladder of preferences, rung by rung",
            spec=lambda _, n=count: preferred_terms(n),
        )
        for count in (1_000, 2_000, 5_000)
    ),
    pod_attack(
        "5000 required terms", "alternatives, one by one", spec=lambda _: _required(*selector_terms(5_000))
    ),
    pod_attack(
        "5000 terms that a node matches",
        "as many alternatives that are all the same",
        spec=lambda _: _required(*[{"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}] * 5_000),
    ),
    pod_attack(
        "3000 expressions in one term",
        "as many keys in one set of requirements",
        spec=lambda _: _expressions(*(item["matchExpressions"][0] for item in selector_terms(3_000))),
    ),
    pod_attack(
        "20000 values",
        "sets that are intersected again and again",
        spec=lambda _: _expressions(
            {
                "key": labels.INSTANCE_TYPE,
                "operator": "NotIn",
                "values": [f"v{number}" for number in range(20_000)],
            }
        ),
    ),
    *(
        _number(operator, value)
        for operator in ("Gt", "Lt")
        for value in (str(LARGEST), str(2**63), "9" * 63)
    ),
    _number("Gt", str(-(2**63)), "a valid label"),
    _number("Lt", "9" * 400, "must be no more than 63"),
    _number("Gt", "abc"),
    _number("Lt", "1.5"),
    _number("Gt", ""),
    pod_attack(
        "a term without expressions",
        "it matches nothing, though it looks like everything",
        spec=_required({}),
    ),
    pod_attack("no terms", "nothing to choose from", spec=_required(), refused="nodeSelectorTerms"),
    pod_attack(
        "a field that names a node",
        "matchFields, which few have",
        spec=_required(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["no-such-node"]}]}
        ),
    ),
    pod_attack(
        "two zones at once",
        "a contradiction between selector and affinity",
        spec={
            "nodeSelector": {ZONE: "here"},
            **_expressions({"key": ZONE, "operator": "In", "values": ["there"]}),
        },
    ),
    pod_attack(
        "in and not in",
        "a contradiction within one term",
        spec=_expressions(
            {"key": ZONE, "operator": "In", "values": ["here"]},
            {"key": ZONE, "operator": "NotIn", "values": ["here"]},
            {"key": ZONE, "operator": "DoesNotExist"},
        ),
    ),
    pod_attack("no hostname", "all nodes have", spec=_expressions({"key": HOST, "operator": "DoesNotExist"})),
    pod_attack(
        "a hostname that is not there", "a label of one node", spec={"nodeSelector": {HOST: "no-such-host"}}
    ),
    pod_attack(
        "labels of ours that are wanted",
        "labels that come later, or never",
        spec={"nodeSelector": {labels.INITIALIZED: "false", labels.NODEPOOL: ""}},
    ),
    pod_attack(
        "a node selector of 2000 labels",
        "as many keys that no pool has",
        spec=lambda _: {"nodeSelector": {f"example.com/s{number}": "v" * 63 for number in range(2_000)}},
    ),
    pod_attack(
        "1000 anti-affinities",
        "as many rules, about pods that are not there",
        spec=lambda _: _near("podAntiAffinity", _others(1_000)),
    ),
    pod_attack(
        "1000 anti-affinities, each of a domain of its own",
        "topology keys that no node has",
        spec=lambda _: _near(
            "podAntiAffinity", [_others(1, f"example.com/t{number}")[0] for number in range(1_000)]
        ),
    ),
    pod_attack(
        "2000 preferred affinities",
        "a ladder of preferences about pods",
        spec=lambda _: _near("podAffinity", _others(2_000, ZONE), weight=100),
    ),
    pod_attack("near pods that are not there", "it waits", spec=_near("podAffinity", _others(1, ZONE))),
    pod_attack(
        "near and far from the same",
        "a contradiction about other pods",
        spec={
            "affinity": {
                kind: {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {MARK: "pod"}}}
                    ]
                }
                for kind in ("podAffinity", "podAntiAffinity")
            }
        },
    ),
    pod_attack(
        "alone on its node, whatever comes",
        "an anti-affinity to every pod of every namespace",
        spec=_near("podAntiAffinity", [{"topologyKey": HOST, "labelSelector": {}, "namespaceSelector": {}}]),
    ),
    pod_attack(
        "near everything, in 3000 namespaces",
        "as many namespaces that are not there",
        spec=lambda _: _near(
            "podAffinity",
            [
                {
                    "topologyKey": ZONE,
                    "labelSelector": {},
                    "namespaces": [f"n{number}" for number in range(3_000)],
                }
            ],
        ),
    ),
    pod_attack(
        "a selector of 3000 values",
        "as many labels of other pods",
        spec=lambda _: _near(
            "podAntiAffinity",
            [
                {
                    "topologyKey": HOST,
                    "labelSelector": {
                        "matchExpressions": [
                            {
                                "key": MARK,
                                "operator": "In",
                                "values": [f"v{number}" for number in range(3_000)],
                            }
                        ]
                    },
                }
            ],
        ),
    ),
    pod_attack(
        "a selector that contradicts itself",
        "it selects nothing",
        spec=_near(
            "podAffinity",
            [
                {
                    "topologyKey": HOST,
                    "labelSelector": {
                        "matchLabels": {MARK: "pod"},
                        "matchExpressions": [{"key": MARK, "operator": "DoesNotExist"}],
                    },
                }
            ],
        ),
    ),
    pod_attack(
        "a term without a selector",
        "null selects nothing",
        spec=_near("podAffinity", [{"topologyKey": HOST}]),
    ),
    pod_attack(
        "label keys that the pod has not",
        "matchLabelKeys that match nothing",
        spec=_spreads(_spread(ZONE, matchLabelKeys=["example.com/missing"])),
    ),
    pod_attack(
        "spread over what is not there",
        "a topology key that no node has",
        spec=_spreads(_spread("example.com/rack")),
    ),
    pod_attack(
        "the largest skew", "2^31-1 pods more than elsewhere", spec=_spreads(_spread(ZONE, maxSkew=2**31 - 1))
    ),
    pod_attack(
        "2^31-1 domains at least",
        "more than there can be",
        spec=_spreads(_spread(ZONE, minDomains=2**31 - 1)),
    ),
    pod_attack(
        "500 spreads",
        "each over labels that no node has",
        spec=lambda _: _spreads(
            *(_spread(f"example.com/d{number}", whenUnsatisfiable="ScheduleAnyway") for number in range(500))
        ),
    ),
    pod_attack(
        "5000 tolerations",
        "each is held against each taint",
        spec=lambda _: {
            "tolerations": [
                {
                    "key": f"example.com/t{number}",
                    "operator": "Equal",
                    "value": "v",
                    "effect": "NoExecute",
                    "tolerationSeconds": (-1) ** number * LARGEST,
                }
                for number in range(5_000)
            ]
        },
    ),
    pod_attack("tolerates everything", "ours too", spec={"tolerations": [{"operator": "Exists"}]}),
    pods_attack(
        "anti-affinities, each to all others",
        "as many nodes as pods",
        lambda number: {
            **_near(
                "podAntiAffinity", [{"topologyKey": HOST, "labelSelector": {"matchLabels": {MARK: "pod"}}}]
            ),
            "terminationGracePeriodSeconds": number,
        },
    ),
)
