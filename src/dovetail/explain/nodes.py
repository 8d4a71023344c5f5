"""What existing nodes, and those that a plan buys, say to a pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dovetail.explain import words
from dovetail.explain.grouping import refused, refusing
from dovetail.explain.miss import Miss, NodesVerdict
from dovetail.explain.wanted import Wanted, alternatives
from dovetail.model.matching import ports_conflict
from dovetail.model.problem import ExistingNode
from dovetail.model.requirement import Requirements
from dovetail.model.taints import HARD_EFFECTS, taint_text, tolerates
from dovetail.solve.instance.instance import Instance
from dovetail.solve.instance.pod_classes import PodClass

_KINDS = {
    "taint": "a taint is not tolerated",
    "label": "labels do not suit",
    "volume": "its volume cannot be reached",
    "resource": "not enough room",
    "ports": "a host port is taken",
    "volume-limit": "too many volumes",
    "spread": "topology spread",
    "affinity": "pod affinity",
    "anti-affinity": "pod anti-affinity",
}


@dataclass(frozen=True, slots=True)
class _Found:
    """One node's misses, and how far it is from taking the pod."""

    node: str
    misses: tuple[Miss, ...]
    distance: float


def ask_nodes(instance: Instance, pod_class: PodClass, over: Callable[[], bool]) -> NodesVerdict:
    """Per reason how many nodes refuse, as the scheduler counts them, and the one that comes nearest.

    Of nodes that were not looked at before `over` nothing is said.
    """
    wanted = alternatives(pod_class.sample, instance.problem.volumes)
    if not wanted or not instance.problem.nodes:
        return NodesVerdict()
    found = [
        _node(instance, pod_class, wanted, row) for row in range(len(instance.problem.nodes)) if not over()
    ]
    refusing_ = [item for item in found if item.misses]
    counts = Counter(_reason(item.misses[0]) for item in refusing_)
    nearest = min(refusing_, key=lambda item: (item.distance, item.node), default=None)
    return NodesVerdict(
        total=len(found),
        reasons=tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))),
        open=tuple(item.node for item in found if not item.misses),
        nearest=nearest.node if nearest else "",
        misses=nearest.misses if nearest else (),
    )


def _reason(miss: Miss) -> str:
    """A miss without the node's own figures, so that equal ones can be counted."""
    if miss.rule == "resource":
        return f"not enough {words.resource(miss.name)}"
    if miss.rule == "taint":
        return miss.text
    about = f" ({words.label(miss.name)})" if miss.name and miss.rule != "ports" else ""
    return f"{_KINDS[miss.rule]}{about}"


def _node(instance: Instance, pod_class: PodClass, wanted: tuple[Wanted, ...], row: int) -> _Found:
    node = instance.problem.nodes[row]
    common = [*_taints(node, pod_class)]
    choices = [_labels(instance, row, item) for item in wanted]
    common += sorted(choices, key=len)[0]
    short = _resources(instance, pod_class, row)
    rest = [
        *_ports(instance, pod_class, row),
        *_volumes(instance, pod_class, row),
        *_topology(instance, pod_class, row),
    ]
    misses = (*common, *(miss for miss, _ in short), *rest)
    return _Found(node.name, misses, len(misses) + sum(share for _, share in short))


def _taints(node: ExistingNode, pod_class: PodClass) -> list[Miss]:
    return [
        Miss("taint", taint.key, f"taint {taint_text(taint)} is not tolerated")
        for taint in node.taints
        if taint.effect in HARD_EFFECTS
        and not any(tolerates(item, taint) for item in pod_class.sample.spec.tolerations)
    ]


def _labels(instance: Instance, row: int, wanted: Wanted) -> list[Miss]:
    here = instance.nodes.labels[row]
    found = []
    for rule, demands in (("label", wanted.labels), ("volume", wanted.volumes)):
        for item in demands:
            missing = item.key not in here.by_key and wanted.needs(item)
            if missing or not here.suits(Requirements.of((item,))):
                value = here.get(item.key).any_value() if item.key in here.by_key else "none"
                who = "its volume" if rule == "volume" else "the pod"
                text = f"{who} needs {words.demand(item)}, the node has {value}"
                found.append(Miss(rule, item.key, text))
    return found


def _resources(instance: Instance, pod_class: PodClass, row: int) -> list[tuple[Miss, float]]:
    found = []
    for index, name in enumerate(instance.axis.names):
        need, have = int(pod_class.vector[index]), max(0, int(instance.nodes.capacity[row, index]))
        if need > have:
            text = (
                f"{words.amount(name, need - have, up=True)} short "
                f"(needs {words.bare(name, need)}, {words.bare(name, have)} free)"
            )
            found.append((Miss("resource", name, text), (need - have) / need))
    return found


def _ports(instance: Instance, pod_class: PodClass, row: int) -> list[Miss]:
    taken = instance.nodes.ports[row]
    clash = [str(port.port) for port in pod_class.ports if ports_conflict((port,), taken)]
    return [Miss("ports", clash[0], f"host port {words.listed(clash)} is taken")] if clash else []


def _volumes(instance: Instance, pod_class: PodClass, row: int) -> list[Miss]:
    fault = instance.nodes.attach_error(row, pod_class)
    if not fault:
        return []
    limits = instance.nodes.nodes[row].volume_limits
    driver = next(name for name in sorted(pod_class.volumes) if f"provisioner={name}," in fault)
    text = f"it cannot attach more volumes of {driver} (limit {limits[driver]})"
    return [Miss("volume-limit", driver, text)]


def _topology(instance: Instance, pod_class: PodClass, row: int) -> list[Miss]:
    owned = pod_class.levels[-1].owned if pod_class.levels else ()
    found = []
    for index in dict.fromkeys((*owned, *pod_class.matching)):
        group = instance.topology.groups[index]
        roles = (index in owned, index in pod_class.matching)
        domain = instance.nodes.domain(row, group.id.key)
        if refused(group, domain, roles):
            found.append(refusing(group, domain, roles))
    return found
