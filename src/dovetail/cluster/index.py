"""Indexes that are kept by the event: objects by key, pods by node, machines by provider ID."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object

T = TypeVar("T", bound=Object)


class Store(Generic[T]):
    """The objects of one kind by key. `items` is in order of key."""

    def __init__(self) -> None:
        self.by_key: dict[str, T] = {}
        self._keys: list[str] = []  # Invariant: the keys of `by_key`, sorted.
        self._items: tuple[T, ...] | None = ()

    def put(self, obj: T) -> T | None:
        """Keep the object; answers the one it replaces."""
        key = obj.key
        old = self.by_key.get(key)
        if old is None:
            insort(self._keys, key)
        self.by_key[key] = obj
        self._items = None
        return old

    def drop(self, key: str) -> T | None:
        """Forget the object; answers it."""
        old = self.by_key.pop(key, None)
        if old is not None:
            del self._keys[bisect_left(self._keys, key)]
            self._items = None
        return old

    def items(self) -> tuple[T, ...]:
        """All of them, in order of key."""
        if self._items is None:
            self._items = tuple(map(self.by_key.__getitem__, self._keys))
        return self._items


class PodIndex:
    """Pods by the node they are bound to; "" holds those without a node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._keys: dict[str, list[str]] = {}  # Invariant: those of each node, sorted.
        # What `on` and `standing` answer, until something changes there.
        self._sorted: dict[str, tuple[Pod, ...]] = {}
        self._standing: dict[str, tuple[Pod, ...]] = {}

    def move(self, old: Pod | None, new: Pod | None) -> None:
        """Take in one change of a pod."""
        for pod in (old, new):
            if pod is not None:
                self._sorted.pop(pod.spec.node_name, None)
                self._standing.pop(pod.spec.node_name, None)
        if old is not None and (new is None or new.spec.node_name != old.spec.node_name):
            self._leave(old.spec.node_name, old.key)
        if new is not None:
            group = self._by_node.setdefault(new.spec.node_name, {})
            if new.key not in group:
                insort(self._keys.setdefault(new.spec.node_name, []), new.key)
            group[new.key] = new

    def _leave(self, node: str, key: str) -> None:
        group, keys = self._by_node.get(node, {}), self._keys.get(node, [])
        if group.pop(key, None) is not None:
            del keys[bisect_left(keys, key)]
        if not group:
            self._by_node.pop(node, None)
            self._keys.pop(node, None)

    def on(self, node: str) -> tuple[Pod, ...]:
        """The pods of a node in order of key, ended ones included."""
        sorted_pods = self._sorted.get(node)
        if sorted_pods is None:
            group = self._by_node.get(node, {})
            sorted_pods = tuple(map(group.__getitem__, self._keys.get(node, ())))
            if group:
                self._sorted[node] = sorted_pods
        return sorted_pods

    def standing(self, node: str) -> tuple[Pod, ...]:
        """The pods of a node that have not ended, in order of key."""
        found = self._standing.get(node)
        if found is None:
            found = tuple(pod for pod in self.on(node) if not pod.terminal)
            if found:
                self._standing[node] = found
        return found

    def arrived(self, node: str) -> tuple[str, ...]:
        """Keys of the pods of a node in the order in which they came there."""
        return tuple(self._by_node.get(node, ()))

    def check(self, pods: Mapping[str, Pod]) -> None:
        """Every pod is under its node, once, in its newest form."""
        indexed = {key: (node, pod) for node, group in self._by_node.items() for key, pod in group.items()}
        assert sum(len(group) for group in self._by_node.values()) == len(pods), "a pod is indexed twice"
        assert self._keys == {node: sorted(group) for node, group in self._by_node.items()}, "keys are stale"
        for node, sorted_pods in self._sorted.items():
            assert sorted_pods == tuple(pod for _, pod in sorted(self._by_node[node].items())), (
                f"{node} is stale"
            )
        for node, standing in self._standing.items():
            assert standing == tuple(pod for pod in self.on(node) if not pod.terminal), f"{node} is stale"
        for key, pod in pods.items():
            assert indexed[key] == (pod.spec.node_name, pod), f"pod {key} is indexed wrongly"


class ProviderIndex:
    """Names of nodes and claims by provider ID: how the two find each other."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, None]] = {}
        self._claims: dict[str, dict[str, None]] = {}

    def move_node(self, old: Node | None, new: Node | None) -> None:
        _move(self._nodes, _entry(old, old.spec.provider_id if old else ""), "drop")
        _move(self._nodes, _entry(new, new.spec.provider_id if new else ""), "put")

    def move_claim(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        _move(self._claims, _entry(old, old.status.provider_id if old else ""), "drop")
        _move(self._claims, _entry(new, new.status.provider_id if new else ""), "put")

    def node(self, provider_id: str) -> str:
        """Name of the node with that provider ID, or ""."""
        return _first(self._nodes.get(provider_id)) if provider_id else ""

    def nodes(self, provider_id: str) -> tuple[str, ...]:
        """Names of the nodes with that provider ID; more than one is an error of whoever made them."""
        return tuple(sorted(self._nodes.get(provider_id, ()))) if provider_id else ()

    def claim(self, provider_id: str) -> str:
        """Name of the claim with that provider ID, or ""."""
        return _first(self._claims.get(provider_id)) if provider_id else ""

    def claims(self, provider_id: str) -> tuple[str, ...]:
        """Names of all claims with that provider ID; more than one is an error likewise."""
        return tuple(sorted(self._claims.get(provider_id, ()))) if provider_id else ()

    def check(self, nodes: Mapping[str, Node], claims: Mapping[str, NodeClaim]) -> None:
        """The index is what a scan of all objects would give."""
        assert sorted(_pairs(self._nodes)) == sorted(
            (node.spec.provider_id, name) for name, node in nodes.items() if node.spec.provider_id
        ), "nodes are indexed wrongly"
        assert sorted(_pairs(self._claims)) == sorted(
            (claim.status.provider_id, name) for name, claim in claims.items() if claim.status.provider_id
        ), "claims are indexed wrongly"


def _first(names: dict[str, None] | None) -> str:
    """The first of the names, "" for none. One, nearly always: `min` takes four times as long for that."""
    if not names:
        return ""
    return min(names) if len(names) > 1 else next(iter(names))


def _entry(obj: Object | None, provider_id: str) -> tuple[str, str]:
    return (provider_id, obj.metadata.name) if obj is not None else ("", "")


def _move(index: dict[str, dict[str, None]], entry: tuple[str, str], action: str) -> None:
    provider_id, name = entry
    if not provider_id:
        return
    if action == "put":
        index.setdefault(provider_id, {})[name] = None
        return
    names = index.get(provider_id, {})
    names.pop(name, None)
    if not names:
        index.pop(provider_id, None)


def _pairs(index: dict[str, dict[str, None]]) -> Iterator[tuple[str, str]]:
    return ((provider_id, name) for provider_id, names in index.items() for name in names)
