"""What CapacityBuffers keep room for, and where: shared by provisioning, which places it, and disruption."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from dovetail.api.core import Pod
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.model.buffers import Resolution, Standing, bounded, provisioning, virtual_pods


@dataclass(frozen=True, slots=True)
class Kept:
    """A buffer as it was resolved last, and how many units it wants."""

    buffer: CapacityBuffer
    found: Resolution
    wanted: int

    def same(self, other: Kept | None) -> bool:
        """True iff the same pods stand for both."""
        return (
            other is not None
            and self.buffer.metadata.uid == other.buffer.metadata.uid
            and self.found.template == other.found.template
            and self.wanted == other.wanted
        )


class Buffers:
    """Nothing while the gate is shut. Virtual pods are the very same until their buffer changes.

    `settled`: where room is kept is known; until the first pass no node may be taken for empty.
    """

    def __init__(self, *, enabled: bool = False) -> None:
        self.enabled = enabled
        self.settled = not enabled
        self._kept: dict[str, Kept] = {}  # by the buffer's key
        self._pods: dict[str, tuple[Pod, ...]] = {}
        self._counted = True  # False: some of them are to be made anew
        self._standing: dict[str, Standing] = {}  # as of the last pass that looked at the buffer as it is
        self._placed: dict[str, tuple[Pod, ...]] = {}  # by name of a node, or of a claim without one
        self._callbacks: list[Callable[[], None]] = []
        # By name: a node's pods, the virtual ones, and both. Callers cache by identity.
        self._with: dict[str, tuple[tuple[Pod, ...], tuple[Pod, ...], tuple[Pod, ...]]] = {}

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Called after each pass that changed something."""
        self._callbacks.append(callback)

    def keep(self, kept: Kept) -> bool:
        """From now on the buffer keeps that; False iff its pods are as they were."""
        key = kept.buffer.key
        same = kept.same(self._kept.get(key))
        self._kept[key] = kept
        if not same:
            self._drop(key)
        return not same

    def forget(self, key: str) -> bool:
        """The buffer is gone; False iff it was not known."""
        known = self._kept.pop(key, None) is not None
        if known:
            self._drop(key)
        return known

    def _drop(self, key: str) -> None:
        self._pods.pop(key, None)
        self._standing.pop(key, None)
        self._counted = False

    def __bool__(self) -> bool:
        """True iff there is any buffer."""
        return bool(self._kept)

    def known(self) -> frozenset[str]:
        """Keys of all buffers."""
        return frozenset(self._kept)

    def pods(self) -> dict[str, tuple[Pod, ...]]:
        """By key of a buffer that wants any, its virtual pods, in order of key.

        All are counted only where one changed since: whoever may create buffers may change them all the time.
        """
        if not self._counted:
            wanted = {key: kept.wanted for key, kept in self._kept.items() if kept.found.template is not None}
            for key, number in bounded(wanted).items():
                kept = self._kept[key]
                if kept.found.template is not None and len(self._pods.get(key, ())) != number:
                    self._pods[key] = virtual_pods(kept.buffer, kept.found.template, number)
            self._counted = True
        return {key: pods for key, pods in sorted(self._pods.items()) if pods}

    def standing(self, key: str) -> Standing | None:
        """The condition Provisioning that the buffer is to have; None while no pass has looked at it."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.found.template is None or not kept.wanted:
            return provisioning(kept.found, kept.wanted, (), (), ())
        return self._standing.get(key)

    @property
    def short(self) -> bool:
        """True iff a buffer had no place for some of its pods in the last pass."""
        return any(standing.status == "False" for standing in self._standing.values())

    def place(
        self,
        asked: Mapping[str, tuple[Pod, ...]],
        where: Mapping[str, tuple[Pod, ...]],
        bought: Iterable[str],
        left: Iterable[str],
    ) -> bool:
        """A pass is over: the pods of each machine, those on new ones among them, and those without a place.

        `asked` is what it was about: buffers that changed meanwhile are told nothing. True iff there is news.
        """
        new, failed = frozenset(bought), frozenset(left)
        standing = {
            key: provisioning(self._kept[key].found, self._kept[key].wanted, pods, new, failed)
            for key, pods in asked.items()
            if self._pods.get(key) is pods
        }
        before = self._placed
        placed = {  # the very same as long as they stay
            name: before[name] if before.get(name) == pods else pods for name, pods in where.items() if pods
        }
        news = placed != self._placed or standing != self._standing
        self.settled = True
        self._placed, self._standing = placed, standing
        self._with = {name: known for name, known in self._with.items() if name in placed}
        for callback in self._callbacks if news else ():
            callback()
        return news

    def machines(self) -> Collection[str]:
        """Names of machines with virtual pods: of the node, or of a claim without one."""
        return self._placed.keys()

    def uids(self) -> frozenset[str]:
        """Of all virtual pods that have a place."""
        return frozenset(pod.metadata.uid for pods in self._placed.values() for pod in pods)

    def on(self, *names: str) -> tuple[Pod, ...]:
        """The virtual pods on the machine with any of these names, its node's or its claim's."""
        return next((self._placed[name] for name in names if name in self._placed), ())

    def beside(self, name: str, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """The pods of a node with the virtual ones that have their place there, in order of key."""
        virtual = self._placed.get(name)
        if virtual is None:
            return pods
        known = self._with.get(name)
        if known is None or known[0] is not pods or known[1] is not virtual:
            settled = (replace(pod, spec=replace(pod.spec, node_name=name)) for pod in virtual)
            both = tuple(sorted((*pods, *settled), key=lambda pod: pod.key))
            known = self._with[name] = pods, virtual, both
        return known[2]
