"""Persistent volumes in the record of costs: what each costs while it is there, and which pods mount it.

Volumes of EBS have a price: of their type, size, IOPS and throughput, in the region of their zone. What
another driver made is recorded with its size and costs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.api.core import PersistentVolume, Pod
from dovetail.api.karpenter.ec2nodeclass import ElasticBlockStore
from dovetail.api.workloads import StorageClass
from dovetail.cloud.catalog.volumes import block_store_price
from dovetail.cost.facts import VolumeRun
from dovetail.model import labels
from dovetail.model.volumes import VolumeIndex, claim_uses
from dovetail.units.timestamp import parse_rfc3339

EBS = "ebs.csi.aws.com"
_GIB = 1 << 30
Classes = Callable[[str], StorageClass | None]


class VolumeRecord:
    """`runs` are the volumes that have not ended, in the order in which they came, and those that did since
    the last `forget_ended`.
    """

    def __init__(self, storage_class: Classes, runs: list[VolumeRun], known_until: int) -> None:
        self.runs = runs
        self._storage_class = storage_class
        self._known_until = known_until
        self._open = {run.name: run for run in runs}
        self._there: set[str] = set()
        # By claim: mounts of a claim may be known before its volume is.
        self._mounts = {run.claim: run.mounts for run in runs if run.claim}

    def changed(self, volume: PersistentVolume, now: int) -> None:
        """It came, or something about it did."""
        name = volume.metadata.name
        self._there.add(name)
        run = self._open.get(name)
        if run is None:
            made = volume.metadata.creation_timestamp
            run = VolumeRun(name, min(parse_rfc3339(made), now) if made else now, 0, 0)
            self._open[name] = run
            self.runs.append(run)
        capacity = volume.spec.capacity.get("storage")
        if capacity is not None and not run.price:  # a price that changes would change what was paid before
            run.size = capacity.nanos // 10**9
            run.price = self._price(volume, run.size)
        claim = volume.spec.claim_ref
        if claim is not None and not run.claim:
            run.claim = f"{claim.namespace}/{claim.name}"
            run.mounts = self._mounts.setdefault(run.claim, run.mounts)

    def ended(self, name: str, now: int) -> None:
        """It was deleted."""
        run = self._open.pop(name, None)
        if run is not None:
            run.end = max(now, run.start)
            self._mounts.pop(run.claim, None)

    def mounted(self, pod: Pod, since: int) -> None:
        """The pod runs from then on."""
        for claim in _claims(pod):
            mounts = self._mounts.setdefault(claim, [])
            if not any(name == pod.key and until is None for name, _, until in mounts):
                mounts.append((pod.key, since, None))

    def unmounted(self, pod: Pod, now: int) -> None:
        """The pod has ended."""
        for claim in _claims(pod):
            mounts = self._mounts.get(claim, [])
            mounts[:] = [
                (name, since, max(now, since) if name == pod.key and until is None else until)
                for name, since, until in mounts
            ]

    def begin(self, running: set[str]) -> None:
        """All that is there is known: what was open and is not there ended while the process was away."""
        for run in list(self._open.values()):
            if run.name not in self._there:
                self.ended(run.name, self._known_until)
            run.mounts[:] = [
                (pod, since, max(since, self._known_until) if until is None and pod not in running else until)
                for pod, since, until in run.mounts
            ]

    def forget_ended(self, before: int) -> None:
        """Once they are written: volumes that have ended, and mounts that did before that instant."""
        self.runs[:] = [run for run in self.runs if run.end is None]
        for mounts in self._mounts.values():
            if mounts and any(until is not None and until < before for _, _, until in mounts):
                mounts[:] = [one for one in mounts if one[2] is None or one[2] >= before]

    def _price(self, volume: PersistentVolume, size: int) -> int:
        source = volume.spec.csi
        if source is None or source.driver != EBS:
            return 0
        kind = self._storage_class(volume.spec.storage_class_name)
        settings = {key.lower(): value for key, value in kind.parameters.items()} if kind is not None else {}
        store = ElasticBlockStore(
            volume_type=settings.get("type", "gp3"),
            iops=_number(settings.get("iops", "")),
            throughput=_number(settings.get("throughput", "")),
        )
        return block_store_price(_zone(volume)[:-1], store, -(-size // _GIB))


def _claims(pod: Pod) -> list[str]:
    """Those that it mounts, namespace/name."""
    return [use.key for use in claim_uses(pod, VolumeIndex())]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _zone(volume: PersistentVolume) -> str:
    """Where it is, "" where nothing says so."""
    reach = volume.spec.node_affinity
    terms = reach.required.node_selector_terms if reach is not None and reach.required is not None else ()
    for term in terms:
        for one in term.match_expressions:
            if one.key in (labels.ZONE, "topology.ebs.csi.aws.com/zone") and one.values:
                return one.values[0]
    return ""
