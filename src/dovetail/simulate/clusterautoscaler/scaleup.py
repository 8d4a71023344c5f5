"""Scale-up as Cluster Autoscaler decides it: how many nodes of a group pods need, and which group is taken.

Its estimator is first fit decreasing on copies of a group's template node, with the scheduler's filters; its
expanders compare what the groups' estimates waste, hold or cost in nodes.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from dovetail.api.core import Node, Pod
from dovetail.model.cluster_view import ClusterView, NodeView, PodFacts
from dovetail.model.filters import Placement
from dovetail.model.labels import HOSTNAME
from dovetail.model.resources import CPU, MEMORY, amounts, pod_requests
from dovetail.simulate.clusterautoscaler.rotation import Rotation
from dovetail.units.money import NANO_DOLLARS


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods that are alike: of one controller, with equal labels and specs."""

    pods: tuple[Pod, ...]

    @property
    def sample(self) -> Pod:
        return self.pods[0]


@dataclass(frozen=True, slots=True)
class Template:
    """What a new node of a group looks like, and the pods (daemons, mirrors) that come with it."""

    node: Node
    pods: tuple[Pod, ...] = ()


def add_copy(view: ClusterView, template: Template, name: str) -> None:
    """Put a node like the template into the view, with its pods, under a name of its own."""
    node = NodeView.of(template.node)
    node.name, node.labels = name, {**node.labels, HOSTNAME: name}
    view.set_node(node)
    for pod in template.pods:
        meta = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}-{name}")
        view.add_pod(msgspec.structs.replace(pod, metadata=meta), name)


@dataclass(frozen=True, slots=True)
class Estimate:
    """`nodes` that got a pod; the pods that found a place, in the order in which they did."""

    nodes: int
    pods: tuple[Pod, ...]


class _Estimation:
    """One estimate in the making, on a view of the cluster of its own."""

    def __init__(self, template: Template, view: ClusterView, most: int) -> None:
        self._template = template
        self._view = view
        self._rotation = Rotation(view)
        self._left = most  # nodes that may still be added
        self.added: dict[str, int] = {}  # in order, with the number of pods each got
        self.scheduled: list[Pod] = []

    @property
    def last(self) -> str:
        return next(reversed(self.added), "")

    def fill(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """Put pods on the nodes added so far, in rotation, until one fits on none; the rest."""
        for index, pod in enumerate(pods):
            name = self._rotation.place(pod, self.added.__contains__)
            if name is None:
                return pods[index:]
            self._note(pod, name)
        return ()

    def extend(self, pods: Sequence[Pod]) -> None:
        """Put pods on the last node added, else on a new one, until the group cannot be helped."""
        for pod in pods:
            if not (self._on_last(pod) or self._on_new(pod)):
                return

    def extend_fast(self, pods: Sequence[Pod]) -> None:
        """Fill one new node and take as many more as the rest needs by division."""
        if not pods or not self._on_new(pods[0]):
            return
        count = 1
        while count < len(pods) and self._on(pods[count], self.last):
            count += 1
        rest = pods[count:]
        while rest and self._add_node():
            for pod in rest[:count]:
                self._note(pod, self.last)
            rest = rest[count:]

    def _on_last(self, pod: Pod) -> bool:
        if not self.added:
            return False
        if self._on(pod, self.last):
            return True
        if not self._spreads_over_hosts(pod):
            return False
        last = self.last
        name = self._rotation.place(pod, lambda name: name != last)
        if name is None:
            return False
        self._note(pod, name)
        return True

    def _on_new(self, pod: Pod) -> bool:
        """False when no node may be added, another would be no better, or it takes no such pod."""
        if self.added and not self.added[self.last]:
            return False
        return self._add_node() and self._on(pod, self.last)

    def _on(self, pod: Pod, name: str) -> bool:
        if Placement(pod, self._view).examine(self._view.nodes[name]):
            return False
        self._view.add_pod(pod, name)
        self._note(pod, name)
        return True

    def _spreads_over_hosts(self, pod: Pod) -> bool:
        """True iff a spread over host names is what keeps the pod off the last node."""
        placement = Placement(pod, self._view)
        node = self._view.nodes[self.last]
        by_host = any(rule.key == HOSTNAME for rule in placement.facts.spread)
        return by_host and not placement.alone(node) and bool(placement.together(node))

    def _note(self, pod: Pod, name: str) -> None:
        if name in self.added:
            self.added[name] += 1
        self.scheduled.append(pod)

    def _add_node(self) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        name = f"{self._template.node.metadata.name}-{len(self.added)}"
        add_copy(self._view, self._template, name)
        self.added[name] = 0
        return True


_UNLIMITED = 2**31


def estimate(
    template: Template, groups: Sequence[PodGroup], view: ClusterView, *, most: int = 0, fast: bool = False
) -> Estimate:
    """How many nodes of the template the pods need. `most` nodes are added: 0 is no limit, less is none.

    `view` is used up: it has the new nodes and pods in it afterwards. O(pods x nodes added) filters, with
    `fast` (the flag fastpath-binpacking-enabled) O(nodes) for the largest group that it is right for.
    """
    under_way = _Estimation(template, view, most or _UNLIMITED)
    ordered = sorted(groups, key=lambda group: -_score(group.sample, template.node))
    fastest = _for_fast_path(ordered, view) if fast else None
    for group in ordered:
        if group is not fastest:
            under_way.extend(under_way.fill(group.pods))
    if fastest is not None:
        under_way.extend_fast(under_way.fill(fastest.pods))
    return Estimate(sum(1 for count in under_way.added.values() if count), tuple(under_way.scheduled))


def _score(pod: Pod, node: Node) -> float:
    """How much of a node one pod takes, cpu and memory added up."""
    requests, allocatable = pod_requests(pod), amounts(node.status.allocatable)
    shares = (requests.get(name, 0) / allocatable[name] for name in (CPU, MEMORY) if allocatable.get(name))
    return sum(shares)


def _for_fast_path(groups: Iterable[PodGroup], view: ClusterView) -> PodGroup | None:
    """The largest group without spreads and without anti-affinity over more than hosts."""
    simple = [group for group in groups if _is_simple(view.facts(group.sample))]
    return max(simple, key=lambda group: len(group.pods), default=None)


def _is_simple(facts: PodFacts) -> bool:
    return not facts.spread and all(rule.key == HOSTNAME for rule in facts.affinity.anti_affinity)


@dataclass(frozen=True, slots=True)
class Option:
    """A group that could be grown by `nodes`, which would help these pods.

    `price` is that of one node, nano-dollars an hour; `unfitness` how far it is from what suits the cluster.
    """

    group: str
    template: Node | None
    nodes: int
    pods: tuple[Pod, ...]
    price: int = 0
    unfitness: float = 1.0


Expander = Callable[[Sequence[Option]], list[Option]]


def least_waste(options: Sequence[Option]) -> list[Option]:
    """Those whose nodes would have the smallest share of cpu and of memory left over, both added up."""
    return _smallest([option for option in options if option.template is not None], _waste)


def most_pods(options: Sequence[Option]) -> list[Option]:
    """Those that help most pods; ones that help none never."""
    return _smallest([option for option in options if option.pods], lambda option: -len(option.pods))


def least_nodes(options: Sequence[Option]) -> list[Option]:
    """Those that take fewest nodes, but any."""
    return _smallest([option for option in options if option.nodes > 0], lambda option: option.nodes)


# What the original's proposal takes for a pod on a machine that is made for it: dollars an hour.
CORE_PRICE, GIB_PRICE, GPU_PRICE = 0.033174, 0.004446, 0.7
# A pod of half a core and 500 MiB, added to both sides: prices of small pods differ less by it.
_STABILISER = 0.5 * CORE_PRICE + 500 / 1024 * GIB_PRICE
_GPU_UNFITNESS = 1000.0  # nodes with GPUs are for pods that can run nowhere else
_SUPPRESSED = 15.0  # nodes at once for which three quarters of the unfitness no longer count
# The most nodes of a cluster for which a machine of so many cores is preferred.
_PREFERRED = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
_PREFERRED_BEYOND = 32


def unfitness(template: Node, nodes: int) -> float:
    """How many times larger or smaller a node is than what suits a cluster of so many nodes, by its cores."""
    capacity = amounts(template.status.capacity)
    if any(_is_gpu(name) for name, amount in capacity.items() if amount):
        return _GPU_UNFITNESS
    preferred = next((cores for most, cores in _PREFERRED if nodes <= most), _PREFERRED_BEYOND) * 1000
    cores = capacity.get(CPU, 0)
    return max(preferred / cores, cores / preferred) if cores else math.inf


def by_price(options: Sequence[Option]) -> list[Option]:
    """Those that pay least for what their pods would cost on machines made for them, and suit the cluster."""
    return _smallest([option for option in options if option.template and option.price], _price_score)


def _price_score(option: Option) -> float:
    paid = option.price / NANO_DOLLARS * option.nodes
    worth = sum(_pod_price(pod) for pod in option.pods)
    return suppressed(option.unfitness, option.nodes) * (paid + _STABILISER) / (worth + _STABILISER)


def suppressed(unfitness: float, nodes: int) -> float:
    """Of so many nodes at once: what suits the pods of many nodes is right whatever suits the cluster."""
    if unfitness == _GPU_UNFITNESS:
        return unfitness
    return (unfitness - 1) * (1 - math.tanh((nodes - 1) / _SUPPRESSED)) + 1


def _pod_price(pod: Pod) -> float:
    requests = pod_requests(pod)
    gpus = sum(amount for name, amount in requests.items() if _is_gpu(name))
    cores, gibs = requests.get(CPU, 0) / 1000, requests.get(MEMORY, 0) / 2**30
    return cores * CORE_PRICE + gibs * GIB_PRICE + gpus * GPU_PRICE


def _is_gpu(resource: str) -> bool:
    return resource.endswith("/gpu")


@dataclass(frozen=True, slots=True)
class ByPriority:
    """The groups that match a pattern of the highest priority; all when none matches."""

    patterns: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def __call__(self, options: Sequence[Option]) -> list[Option]:
        for priority in sorted(self.patterns, reverse=True):
            found = [
                option
                for option in options
                if any(re.search(pattern, option.group) for pattern in self.patterns[priority])
            ]
            if found:
                return found
        return list(options)


EXPANDERS: Mapping[str, Expander] = {
    "random": list,
    "least-waste": least_waste,
    "most-pods": most_pods,
    "least-nodes": least_nodes,
    "price": by_price,
}


def parse_totals(text: str) -> tuple[int, int]:
    """The least and the most of `MIN:MAX`. Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
    if match is None or int(match[1]) > int(match[2]):
        raise ValueError(f"{text!r} is not MIN:MAX, such as 0:320")
    return int(match[1]), int(match[2])


def choose(options: Sequence[Option], chain: Iterable[Expander], draws: random.Random) -> Option | None:
    """The option that a chain of expanders leaves; among several any one."""
    left = list(options)
    for expander in chain:
        if len(left) > 1:
            left = expander(left)
    return draws.choice(left) if left else None


def _smallest(options: Sequence[Option], measure: Callable[[Option], float]) -> list[Option]:
    measured = [(measure(option), option) for option in options]
    least = min((value for value, _ in measured), default=0.0)
    return [option for value, option in measured if value == least]


def _waste(option: Option) -> float:
    assert option.template is not None
    capacity = amounts(option.template.status.capacity)
    wanted = [pod_requests(pod) for pod in option.pods]
    waste = 0.0
    for name in (CPU, MEMORY):
        whole = capacity.get(name, 0) * option.nodes
        used = sum(requests.get(name, 0) for requests in wanted)
        if not whole:
            return float("-inf")  # as its division by zero makes of it: such an option wins
        waste += (whole - used) / whole
    return waste
