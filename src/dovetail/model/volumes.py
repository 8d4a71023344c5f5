"""What pods' volumes demand of a node: zones, and a place in its CSI drivers' limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import msgspec

from dovetail.api.core import PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, Volume
from dovetail.api.workloads import StorageClass
from dovetail.model import labels
from dovetail.model.requirement import Requirement, Requirements

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
ONE_POD = "ReadWriteOncePod"  # an access mode
UNSUPPORTED_PROVISIONERS = frozenset({"ebs.csi.eks.amazonaws.com"})
# Volume plugins of old that a CSI driver has taken over; limits count under the driver's name.
_EBS = "ebs.csi.aws.com"
_MIGRATED = {"kubernetes.io/aws-ebs": _EBS}


@dataclass(frozen=True, slots=True)
class VolumeIndex:
    """The volume objects of a cluster by key: claims by `namespace/name`, the rest by name."""

    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)

    @staticmethod
    def of(
        claims: Iterable[PersistentVolumeClaim],
        volumes: Iterable[PersistentVolume],
        classes: Iterable[StorageClass],
    ) -> VolumeIndex:
        """These objects, by key."""
        return VolumeIndex(
            {item.key: item for item in claims},
            {item.key: item for item in volumes},
            {item.key: item for item in classes},
        )


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """One volume of a pod that goes through a claim, as far as the objects are there."""

    key: str  # of the claim, "namespace/name"
    ephemeral: bool  # the claim is made for the pod and may not exist yet
    class_name: str
    claim: PersistentVolumeClaim | None = None
    volume: PersistentVolume | None = None
    storage_class: StorageClass | None = None

    @property
    def bound(self) -> bool:
        return self.claim is not None and bool(self.claim.spec.volume_name)

    @property
    def complete(self) -> bool:
        """False for a claim that names a volume which is not bound to it yet, or never will be."""
        return self.claim is not None and self.bound and BIND_COMPLETED in self.claim.metadata.annotations

    @property
    def driver(self) -> str:
        """The CSI driver that attaches the volume; '' if there is none."""
        if self.volume is not None:
            spec = self.volume.spec
            return spec.csi.driver if spec.csi else _EBS if spec.aws_elastic_block_store else ""
        provisioner = self.storage_class.provisioner if self.storage_class else ""
        return _MIGRATED.get(provisioner, provisioner)

    @property
    def identity(self) -> str:
        """Equal for two pods that share one attachment."""
        return self.claim.spec.volume_name if self.claim is not None and self.bound else self.key


def binds(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> bool:
    """Whether the volume controller has yet to complete the binding of a claim that names this volume."""
    if volume is None or claim.deleting or not claim.spec.volume_name:
        return False
    if BIND_COMPLETED in claim.metadata.annotations or volume.metadata.name != claim.spec.volume_name:
        return False
    kept = volume.spec.claim_ref
    return kept is None or (kept.namespace, kept.name) == (claim.metadata.namespace, claim.metadata.name)


def completed(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim once the volume controller has bound it to the volume that it names."""
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    return msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations)
    )


def claims_alone(spec: PodSpec) -> PodSpec:
    """The spec without volumes that are no claims, which no rule is about.

    The API server gives every pod a volume with its credentials, under a name that no other pod's has.
    """
    claims = tuple([item for item in spec.volumes if item.persistent_volume_claim or item.ephemeral])
    return spec if len(claims) == len(spec.volumes) else msgspec.structs.replace(spec, volumes=claims)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Of claims that name none, not even "": the newest of those that are said to be the default."""
    defaults = [
        one for one in classes if any(one.metadata.annotations.get(key) == "true" for key in DEFAULT_CLASS)
    ]
    defaults.sort(key=lambda one: one.metadata.name)
    return max(defaults, key=lambda one: one.metadata.creation_timestamp, default=None)


def claim_uses(pod: Pod, index: VolumeIndex) -> Iterator[ClaimUse]:
    """The pod's volumes that go through claims, in their order."""
    for volume in pod.spec.volumes:
        name, class_name = _claim_of(pod, volume)
        if not name:
            continue
        key = f"{pod.metadata.namespace}/{name}"
        claim = index.claims.get(key)
        if claim is not None:
            class_name = claim.spec.storage_class_name
        if class_name is None:
            default = default_class(index.classes.values())
            class_name = default.metadata.name if default is not None else ""
        yield ClaimUse(
            key,
            volume.ephemeral is not None,
            class_name,
            claim,
            index.volumes.get(claim.spec.volume_name) if claim else None,
            index.classes.get(class_name),
        )


def exclusive_claims(pod: Pod, index: VolumeIndex) -> frozenset[str]:
    """Keys of its claims that one pod at a time may use."""
    if not pod.spec.volumes:
        return frozenset()
    uses = (use for use in claim_uses(pod, index) if use.claim is not None)
    return frozenset(use.key for use in uses if use.claim and ONE_POD in use.claim.spec.access_modes)


def volume_alternatives(pod: Pod, index: VolumeIndex) -> tuple[Requirements, ...]:
    """What the volumes demand of a node's labels: alternatives, of which one must hold.

    Each volume offers its own alternatives (the terms of the volume's node affinity, or of the storage
    class's allowed topologies while unbound); the answer is every combination.
    """
    choices = [terms for use in claim_uses(pod, index) if (terms := _topology(use))]
    return tuple(
        Requirements.of(item for part in combined for item in part) for combined in product(*choices)
    )


def csi_volumes(pod: Pod, index: VolumeIndex) -> dict[str, frozenset[str]]:
    """CSI driver -> the attachments that the pod needs of it."""
    found: dict[str, set[str]] = {}
    for use in claim_uses(pod, index):
        if use.driver:
            found.setdefault(use.driver, set()).add(use.identity)
    return {driver: frozenset(items) for driver, items in sorted(found.items())}


def volume_limit_error(
    wanted: Mapping[str, frozenset[str]], used: Mapping[str, frozenset[str]], limits: Mapping[str, int]
) -> str:
    """'' iff every driver can attach what is there and what is wanted, else the first that cannot."""
    for driver, items in sorted(wanted.items()):
        limit, count = limits.get(driver), len(items | used.get(driver, frozenset()))
        if limit is not None and count > limit:
            return (
                "checking volume usage, would exceed volume limit "
                f"(provisioner={driver}, volume-count={count}, volume-limit={limit})"
            )
    return ""


def ignored_reason(pod: Pod, index: VolumeIndex) -> str:
    """Why no node can help this pod as its claims are now; '' when nothing stands against it."""
    if not pod.spec.volumes:
        return ""
    return next((reason for use in claim_uses(pod, index) if (reason := _broken(use))), "")


def _claim_of(pod: Pod, volume: Volume) -> tuple[str, str | None]:
    """Name of the claim behind a volume ('' if none) and the class that its template names, None if none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name, ""
    if volume.ephemeral is not None:
        template = volume.ephemeral.volume_claim_template.spec
        return f"{pod.metadata.name}-{volume.name}", template.storage_class_name
    return "", ""


def _topology(use: ClaimUse) -> tuple[Requirements, ...]:
    if use.volume is not None:
        affinity = use.volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return ()
        terms = Requirements.from_node_selector_terms(affinity.required.node_selector_terms)
        if use.volume.spec.local is None and use.volume.spec.host_path is None:
            return terms
        # The node of a local volume may be gone for good: a pod that waits for it wants any new node.
        return tuple(_without(term, labels.HOSTNAME) for term in terms)
    if use.storage_class is None or use.bound:
        return ()
    return Requirements.from_node_selector_terms(
        topology.as_node_selector_term() for topology in use.storage_class.allowed_topologies
    )


def _without(requirements: Requirements, key: str) -> Requirements:
    return Requirements.of(item for item in requirements if item.key != key)


def _broken(use: ClaimUse) -> str:
    if use.claim is None and not use.ephemeral:
        return f'persistentvolumeclaim "{use.key.partition("/")[2]}" not found'
    if use.claim is not None:
        if use.claim.deleting:
            return "persistentvolumeclaim is being deleted"
        if use.claim.status.phase == "Lost":
            return "persistentvolumeclaim bound to non-existent persistentvolume"
        if use.bound:
            if not use.complete:
                return f"pvc is considered unbound because it does not contain annotation {BIND_COMPLETED}"
            return ""
    if not use.class_name:
        return "unbound pvc must define a storage class"
    if use.storage_class is None:
        return f'storageclass.storage.k8s.io "{use.class_name}" not found'
    return _unusable(use.storage_class)


def _unusable(storage_class: StorageClass) -> str:
    if storage_class.volume_binding_mode == "Immediate":
        return "failed to validate pvc, pvc with immediate volume binding mode must be bound"
    keys = (
        Requirement.new(item.key, "Exists").key
        for topology in storage_class.allowed_topologies
        for item in topology.match_label_expressions
    )
    if any(key not in labels.AWS_WELL_KNOWN for key in keys):
        return "failed to validate pvc, storage class uses unsupported topology key"
    if storage_class.provisioner in UNSUPPORTED_PROVISIONERS:
        return "failed to validate pvc, provisioner is not supported"
    return ""
