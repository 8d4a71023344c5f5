"""A history of a real cluster, held against the promises by the watchdog that simulations have.

    python -m dovetail.simulate.live.judge HISTORY   judges a file again; exit code 1 if a promise was broken

The cluster is one whose machines are Node objects (kwok's provider). Four promises cannot be judged there by
outside: that a claim never has two instances (a claim and its node have one name, which the API server gives
once), that a node's finalizer stays until its instance is gone (it is the instance), that each plan keeps the
rules when it is made (what comes of it is judged where pods are bound), and that no deletion by force would
have hit a successor of the same name (the audit log does not hold the uid that was asked for).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.api.codec import decode
from dovetail.api.core import Event, Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.api.scheme import BY_GVK
from dovetail.base.clock import SECOND
from dovetail.cloud.kwok import machine
from dovetail.cloud.provider import Instance
from dovetail.kube.recorder import COMPONENT
from dovetail.model.resources import pod_requests
from dovetail.simulate.live.history import Broken, Deletion, Entry, Quiet, Stored, in_order, read
from dovetail.simulate.violations import Violation, Watchdog
from dovetail.simulate.violations.mirror import Change

_LOOK = 5 * SECOND  # between two looks at which instances there are
# How long what a simulation gives 6 to 20 minutes may take where nodes come in seconds.
PATIENCE = 90 * SECOND
_COUNTABLE = 2**63 - 1  # the scheduler adds up in 64 bits, whatever the amounts are
_NOT_JUDGED_HERE = (Node, "abandoned instance")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a run; `checks` counts how often a rule was held against something."""

    violations: tuple[Violation, ...]
    checks: int


def judge(entries: Iterable[Entry]) -> Verdict:
    """Every promise that can be judged from outside, against the whole history."""
    found = in_order(entries)
    quiet = [one.at for one in found if isinstance(one, Quiet)]
    judgement = _Judgement(max(quiet, default=0))
    violations = list(judgement.over(found))
    return Verdict(tuple(dict.fromkeys(violations)), judgement.watchdog.checks)


class _Judgement:
    """Reads one history from its beginning to its end."""

    def __init__(self, quiet_from: int) -> None:
        self.now = 0
        self.watchdog = Watchdog(
            lambda: self.now,
            pairing=PATIENCE,
            waiting=PATIENCE,
            patience=PATIENCE,
            quiet_from=quiet_from,
        )
        self._objects: dict[tuple[type[Object], str], Object] = {}
        self._instances: dict[str, Instance] = {}  # by the node's name
        self._deletions: dict[str, list[int]] = {}  # pod -> when its deletion was asked for
        self._looked = 0
        self._full: set[str] = set()  # nodes with a pod of more than the scheduler can count

    def over(self, entries: Sequence[Entry]) -> Iterator[Violation]:
        for entry in entries:
            if isinstance(entry, Deletion):
                self._deletions.setdefault(entry.pod, []).append(entry.at)
        ends = sorted(entry.until for entry in entries if isinstance(entry, Quiet))
        for entry in entries:
            while ends and ends[0] < entry.at:
                self.now = max(self.now, ends.pop(0))
                yield from self._ended()
            self.now = max(self.now, entry.at)
            if isinstance(entry, Broken):
                yield Violation(entry.rule, entry.subject, entry.message)
            elif isinstance(entry, Stored):
                yield from self._stored(entry)
        self.now = max(self.now, *ends, 0)
        yield from self._ended()

    def _ended(self) -> Iterator[Violation]:
        known = len(self.watchdog.found)
        yield from self.watchdog.finish()[known:]

    def _stored(self, entry: Stored) -> Iterator[Violation]:
        kind = BY_GVK[entry.document["apiVersion"], entry.document["kind"]]
        given: Object = decode(entry.document, kind)
        old = self._objects.get((kind, given.key))
        new = None if entry.change == "DELETED" else given
        if new is None:
            self._objects.pop((kind, given.key), None)
        else:
            self._objects[kind, given.key] = new
        if isinstance(given, Event):
            if new is not None:
                self._apply(given)
            return
        change = Change(self.now, new, old if old is not None or new is not None else given)
        if isinstance(given, Pod):
            yield from self._asked(change)
        if isinstance(old, NodeClaim):
            self._never_there(old)
        for broken in self.watchdog.see(change):
            if (kind, broken.rule) != _NOT_JUDGED_HERE and not self._uncounted(given, broken):
                yield broken
        if isinstance(given, Node):
            self._machine(given, gone=new is None)
        if self.now - self._looked >= _LOOK:
            self._looked = self.now
            yield from self.watchdog.instances(list(self._instances.values()))

    def _uncounted(self, given: Object, broken: Violation) -> bool:
        """True iff the real scheduler let it happen because amounts wrapped around in its 64 bits."""
        if not isinstance(given, Pod) or not given.spec.node_name:
            return False
        if max(pod_requests(given).values(), default=0) > _COUNTABLE:
            self._full.add(given.spec.node_name)
        return given.spec.node_name in self._full and broken.rule in ("overcommitted", "filter")

    def _apply(self, event: Event) -> None:
        """The controllers say of each pod that they plan for whether there is a place for it."""
        about = event.involved_object
        if event.source.component != COMPONENT or about.kind != Pod.KIND:
            return
        pod = f"{about.namespace}/{about.name}"
        if event.reason == "FailedScheduling":
            self.watchdog.planned((), (pod,))
        elif event.reason == "Nominated":
            self.watchdog.planned((pod,), ())

    def _asked(self, change: Change) -> Iterator[Violation]:
        """A pod's deletion is judged just before it takes effect: then the cluster is known exactly."""
        found = change.of(Pod)
        new, old = found if found is not None else (None, None)
        if old is None or old.deleting or (new is not None and not new.deleting):
            return
        asked = self._deletions.get(old.key, [])
        if asked and asked[0] <= self.now:
            asked.pop(0)
            yield from self.watchdog.pod_deletion(old.key)

    def _never_there(self, claim: NodeClaim) -> None:
        """A claim made by hand may name any instance: one that is not there counts as gone."""
        provider_id = claim.status.provider_id
        if provider_id and provider_id not in (one.provider_id for one in self._instances.values()):
            self.watchdog.ended(provider_id)

    def _machine(self, node: Node, *, gone: bool) -> None:
        found = machine.read(node)
        if gone:
            self._instances.pop(node.key, None)
            self.watchdog.ended(node.spec.provider_id)
        elif found is not None:
            self._instances[node.key] = found


def main(path: Path) -> int:
    """Report what was broken."""
    verdict = judge(read(path))
    for one in verdict.violations:
        print(f"{one.rule}: {one.subject} {one.message}")
    print(f"{verdict.checks} checks, {len(verdict.violations)} violations")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
