"""Whatever a manifest holds, its reader ends in words that name a place, never in a traceback."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.base.errors import InputError
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.reading import read

EXAMPLE = Path(__file__).parents[2] / "examples" / "plan"
DOCUMENTS = [
    document
    for file in sorted(EXAMPLE.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text("utf-8"))
] + [
    {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "x"},
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
                }
            ],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "x"},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
]

TYPE = {
    "name": "large",
    "requirements": [],
    "offerings": [
        {
            "price": 0.1,
            "requirements": {
                "topology.kubernetes.io/zone": "zone-a",
                "karpenter.sh/capacity-type": "on-demand",
            },
        }
    ],
    "capacity": {"cpu": "4", "memory": "16Gi", "pods": "50"},
}

numbers = st.integers(-3, 10**12) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8)
values = st.recursive(
    scalars | st.sampled_from(["100m", "Never", "5m", "@daily", "In", "", "spot", "2", "a/b/c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a document."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A valid document in which one to three places hold something else."""
    document = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(document)))
        if not path:
            continue
        parent = document
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = draw(values)
    return document


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged(), st.booleans())
def test_damaged_documents(tmp_path: Path, document: Any, as_json: bool) -> None:
    file = tmp_path / ("a.json" if as_json else "a.yaml")
    # YAML's safe form holds everything that JSON does, and JSON is made from it for dumps.
    file.write_text(
        json.dumps(document, indent=1) if as_json else yaml.safe_dump(document, allow_unicode=True), "utf-8"
    )
    try:
        read([file])
    except InputError as error:
        assert error.message
        assert error.line is not None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.lists(st.sampled_from("{}[]:-#&*!|>'\"%@`,? \n\ta1")).map("".join), st.booleans())
def test_any_text(tmp_path: Path, text: str, as_json: bool) -> None:
    file = tmp_path / ("a.json" if as_json else "a.yaml")
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read([file])
    except InputError as error:
        assert error.message


# What is too large, too deep, too long, or of another type than it looks.
hostile = st.sampled_from(
    [
        *(10**18, -(10**18), 10**30, 1e300, "1e30", "-1", "1000000000", "9" * 500, "1" + "0" * 30),
        *(
            {1: "web"},
            {True: None},
            {1: {2: {3: 4}}},
            [[[[[[]]]]]],
            "\x1b[2J",
            "a" * 70_000,
            "\u202e",
            "\ud7ff",
        ),
        *(float("1e-300"), "0x10", "0b1", "1_000", "1:30", "2001-01-01", "*", "&a", "<<", "{{ .Values.a }}"),
    ]
)


@st.composite
def attacked(draw: st.DrawFn) -> list[Any]:
    """Manifests that can be planned, one place of which holds something hostile."""
    documents = copy.deepcopy(DOCUMENTS)
    document = draw(st.sampled_from(documents))
    *above, last = draw(st.sampled_from([path for path in places(document) if path]))
    for key in above:
        document = document[key]
    document[last] = draw(hostile)
    return documents


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attacked())
def test_hostile_values_are_planned_or_refused(tmp_path: Path, documents: list[Any]) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.dump_all(documents, Dumper=yaml.CSafeDumper), "utf-8")
    types = tmp_path / "types.json"
    types.write_text(json.dumps([TYPE]))
    assert run(["plan", "-f", str(file), "--instance-types", str(types), "--work", "200"]) in (OK, BAD_INPUT)
