"""Large random problems: as many pods and distinct shapes as asked for, under all kinds of rules."""

from __future__ import annotations

import random
from typing import Any

from dovetail.model import labels
from dovetail.model.problem import Problem
from dovetail.testing.problems import ZONES, Document, node, pod, pool, rules, scenario
from dovetail.testing.scenarios import to_problem

_FAMILIES = {"c": (2, 0.0425), "m": (4, 0.048), "r": (8, 0.063)}  # GiB and $/h per CPU
_CPUS = (2, 4, 8, 16, 32, 48, 64, 96)
_GENERATIONS = 8


def crowd(seed: int, pods: int, shapes: int) -> Problem:
    """`pods` pods of `shapes` apps, each with a size and a rule of its own; the rest is drawn as well."""
    draw = random.Random(seed)
    documents = crowd_of_pods(draw, pods, shapes)
    apps = _apps(shapes)
    nodes, bound = _existing(
        draw, draw.choice((0, 0, 3, 30, 300)) if pods > 50 else draw.choice((0, 2)), apps
    )
    question = scenario(documents, _pools(draw, pods), _types(draw), nodes=nodes, bound=bound)
    if draw.random() < 0.3:
        question["daemonSets"] = [_agent()]
    return to_problem(question)


def crowd_of_pods(draw: random.Random, pods: int, shapes: int) -> list[Document]:
    """The pods of a crowd alone."""
    apps = _apps(shapes)
    plain = draw.choice((0.0, 0.3, 0.6, 0.9, 1.0))
    documents: list[Document] = []
    for index, app in enumerate(apps):
        rule: Document = {}
        if draw.random() >= plain:
            rule = draw.choice(list(rules(app, draw.choice(apps)).values()))
        size = (draw.randint(50, 8_000), draw.randint(64, 32_000))
        port = 8080 if draw.random() < 0.02 else 0
        count = pods // shapes + (index < pods % shapes)
        documents += [pod(f"{app}-{number}", app, size, rule, port=port) for number in range(count)]
    return documents


def _apps(shapes: int) -> list[str]:
    return [f"app-{number:04}" for number in range(shapes)]


def _pools(draw: random.Random, pods: int) -> list[Document]:
    found = [pool("general", limits=draw.choice((None, None, {"cpu": str(pods)}, {"nodes": "50"})))]
    if draw.random() < 0.5:
        found.append(pool("team", team=True, weight=draw.choice((0, 10))))
    if draw.random() < 0.3:
        found.append(pool("better", weight=20, limits={"cpu": str(max(8, pods // 4))}))
    if draw.random() < 0.2:
        least = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 3}
        found[0]["spec"]["template"]["spec"]["requirements"] = [least]
    return found


def _existing(draw: random.Random, count: int, apps: list[str]) -> tuple[list[Document], list[Document]]:
    nodes, bound = [], []
    for number in range(count):
        name = f"node-{number:03}"
        nodes.append(node(name, draw.choice(ZONES), draw.choice((2, 4, 8))))
        for index in range(draw.choice((0, 1, 3))):
            app = draw.choice(apps)
            rule = draw.choice(({}, {}, rules(app, apps[0])["one per host"]))
            there = pod(f"old-{number:03}-{index}", app, (250, 512), rule)
            there["spec"]["nodeName"] = name
            bound.append(there)
    return nodes, bound


def _types(draw: random.Random) -> list[Document]:
    """Three families in up to eight generations; some offerings are not available."""
    found = []
    scarce = draw.choice((0.0, 0.0, 0.2))
    for generation in range(draw.randint(1, _GENERATIONS)):
        for family, (memory, rate) in _FAMILIES.items():
            for cpus in _CPUS:
                price = cpus * rate * (1 + 0.05 * generation)
                found.append(
                    _type(draw, f"{family}{generation}.{cpus}", (cpus, memory * cpus), price, scarce)
                )
    return found


def _type(
    draw: random.Random, name: str, room: tuple[int, int], price: float, scarce: float
) -> dict[str, Any]:
    marks = {labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}
    return {
        "name": name,
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in marks.items()],
        "offerings": [
            {
                "price": round(price * (0.4 * draw.uniform(0.8, 1.2) if kind == "spot" else 1), 5),
                "available": draw.random() >= scarce,
                "requirements": {labels.ZONE: zone, labels.CAPACITY_TYPE: kind},
            }
            for zone in ZONES
            for kind in ("spot", "on-demand")
        ],
        "capacity": {"cpu": str(room[0]), "memory": f"{room[1]}Gi", "pods": str(min(110, 29 * room[0]))},
        "overhead": {"cpu": "80m", "memory": "300Mi"},
    }


def _agent() -> Document:
    container = {"name": "agent", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
    return {"metadata": {"name": "agent", "namespace": "kube-system"}, "spec": {"template": template}}
