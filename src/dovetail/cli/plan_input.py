"""From manifests to what the solver is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from dovetail.api.admission import NAMESPACE_NAME
from dovetail.api.codec import decode
from dovetail.api.core import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    ResourceList,
)
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.karpenter.runtime import validate_node_pool
from dovetail.api.keda import ScaledObject
from dovetail.api.meta import Meta, Object
from dovetail.api.namespaces import LimitRange, ResourceQuota
from dovetail.api.services import ReplicationController
from dovetail.api.workloads import (
    BUILT_IN_PRIORITIES,
    CronJob,
    CSINode,
    DaemonSet,
    Deployment,
    HorizontalPodAutoscaler,
    Job,
    Overhead,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    RuntimeClass,
    StatefulSet,
    StorageClass,
)
from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.base.words import number_of
from dovetail.cli.messages import note
from dovetail.cli.plan_admission import sidecars_of
from dovetail.cli.plan_classes import closed_pools, on_its_images
from dovetail.cli.plan_copies import Copied, split, template_of, tied
from dovetail.cli.plan_devices import with_devices
from dovetail.cli.plan_overlays import overlaid
from dovetail.cli.region import refuse_unknown_region
from dovetail.cloud import catalog
from dovetail.cloud.aws.nodeclass.validation import faults
from dovetail.cloud.catalog.file import read_instance_types
from dovetail.cluster.daemons import DaemonPods
from dovetail.cluster.problem import ClusterObjects, Fault, build, well_known_keys
from dovetail.model import labels
from dovetail.model.allowances import Quotas
from dovetail.model.devices import claims_devices
from dovetail.model.gangs import Groups
from dovetail.model.offering import InstanceType
from dovetail.model.on_demand import gated, told_together
from dovetail.model.pod_admission import PodAdmission
from dovetail.model.podtemplate import Workload, pods_of, volume_claims_of
from dovetail.model.problem import Options, Problem
from dovetail.model.volumes import DEFAULT_CLASS, binds, completed
from dovetail.reading import Manifest, Reading
from dovetail.reading.replicas import refuse_too_many, replicas
from dovetail.reading.workloads import as_workloads

_HOOK = "helm.sh/hook"
_NOT_INSTALLED = frozenset(
    ("test", "test-success", "test-failure", "pre-delete", "post-delete", "pre-rollback", "post-rollback")
)
_MOST_PODS = 1_000_000  # of workloads, in one plan
_EBS = "ebs.csi.aws.com"
_MOST_NOTES = 5  # of reasons for which pods are left out

Kind = TypeVar("Kind", bound=Object)


@dataclass(frozen=True, slots=True)
class Source:
    """Where instance types come from: a region of the catalogue or a user's file; one of them is set."""

    region: str = ""
    file: Path | None = None


def read_problem(
    reading: Reading, given: str, source: Source, options: Options, *, copying: bool
) -> tuple[Problem, tuple[Copied, ...]]:
    """The problem of manifests, `given` as that; raises InputError with file, line, path and remedy.

    With `copying`, most pods of workloads of very many are not in it but counted beside it.
    """
    manifests = reading.manifests
    refuse_twins(manifests)
    pools = [item for item in manifests if isinstance(item.object, NodePool)]
    if not pools:
        raise InputError(
            "the manifests hold no NodePool, so nothing can be bought",
            source=given,
            remedy="add a manifest of kind NodePool (karpenter.sh/v1) that names an EC2NodeClass",
        )
    _refuse_broken_pools(pools)
    types, volume_price, well_known = _types(source, manifests, pools)
    types = overlaid(
        types,
        (item.object for item in manifests if isinstance(item.object, NodeOverlay)),
        (item.object for item in pools if isinstance(item.object, NodePool)),
    )
    objects, copied = _read_cluster(reading, copying=copying)
    if any(map(claims_devices, objects.pods)):  # each copy has claims of its own
        objects, copied = _read_cluster(reading, copying=False)
    if not objects.pods and not objects.nodes:
        _refuse_what_is_elsewhere(reading)
    closed = closed_pools(manifests)
    objects = replace(
        objects, pools=tuple(pool for pool in objects.pools if pool.metadata.name not in closed)
    )
    pending = tuple(pod for pod in objects.pods if not pod.spec.node_name)
    settings = replace(options, well_known=well_known)
    built = build(
        objects,
        pending,
        types,
        settings,
        require_ready=False,
        volume_price=volume_price,
        on_fault=_note_left_out,
    )
    return with_devices(built, manifests), copied


def asks_for_nodes(reading: Reading) -> bool:
    """True iff there are pods, what makes some, or nodes."""
    return any(isinstance(item.object, Pod | Workload | Node) for item in reading.manifests)


def _refuse_what_is_elsewhere(reading: Reading) -> None:
    """Raises InputError where all that may ask for pods stands for what is not here: nothing is known."""
    if not reading.elsewhere or asks_for_nodes(reading):
        return
    first, *others = reading.elsewhere
    more = f", as of {number_of(len(others), 'more object')}," if others else ""
    raise InputError(
        f"there is nothing to plan for: of {first.written}{more} {first.what} is not among the manifests",
        source=first.located.source,
        line=first.located.line,
        remedy=f"{first.filled()} | dovetail plan -f -",
    )


def _note_left_out(fault: Fault) -> None:
    """An API server took it; what it means is not known here."""
    note(f"{fault.about.KIND} {fault.about.key} is left out: {fault.cause}")


def refuse_twins(manifests: tuple[Manifest, ...]) -> None:
    """Raises InputError for an object that is given twice."""
    seen: dict[tuple[str, str], Manifest] = {}
    for manifest in manifests:
        name = (manifest.written[0], manifest.object.key)
        if name in seen and manifest.object.metadata.name:
            first = seen[name]
            raise InputError(
                f"{name[0]} {name[1]} is given twice, first at {first.source}:{first.line}",
                source=manifest.source,
                line=manifest.line,
                remedy="keep one of them",
            )
        seen[name] = manifest


def _refuse_broken_pools(pools: list[Manifest]) -> None:
    """A pool that breaks a runtime rule would never become ready, and silently buy nothing."""
    for manifest in pools:
        assert isinstance(manifest.object, NodePool)
        messages = validate_node_pool(manifest.object)
        if messages:
            raise InputError(
                f"NodePool {manifest.object.metadata.name} is not valid: {'; '.join(messages)}",
                source=manifest.source,
                line=manifest.line,
            )


def _types(
    source: Source, manifests: tuple[Manifest, ...], pools: list[Manifest]
) -> tuple[Callable[[NodePool], tuple[InstanceType, ...]], Callable[[NodePool], int], frozenset[str]]:
    """What each pool may buy, what a node's volumes cost, and the label keys that need no definition.

    What volumes cost with a user's own types is unknown: nothing, then.
    """
    if source.file is not None:
        given = read_instance_types(source.file)
        return lambda _: given, lambda _: 0, well_known_keys(given)
    classes = {item.object.metadata.name: item for item in manifests if isinstance(item.object, EC2NodeClass)}
    refuse_unknown_region(source.region)
    for manifest in pools:
        _refuse_missing_class(manifest, classes)
    by_class = {name: _sold(source.region, item) for name, item in sorted(classes.items())}
    volumes = {name: _volume_price(source.region, item) for name, item in sorted(classes.items())}
    return (
        lambda pool: by_class[pool.spec.template.spec.node_class_ref.name],
        lambda pool: volumes[pool.spec.template.spec.node_class_ref.name],
        labels.AWS_WELL_KNOWN,
    )


def _volume_price(region: str, manifest: Manifest) -> int:
    assert isinstance(manifest.object, EC2NodeClass)
    with _blaming(manifest):
        return catalog.volume_price(region, manifest.object)


def _sold(region: str, manifest: Manifest) -> tuple[InstanceType, ...]:
    """The types of a region for one class, in the zones of its subnets where they are known."""
    assert isinstance(manifest.object, EC2NodeClass)
    zones = {
        subnet["zone"]: subnet.get("zoneID", "")
        for subnet in manifest.object.status.subnets
        if "zone" in subnet
    }
    with _blaming(manifest):
        for fault in faults(manifest.object):
            raise InputError(fault.message)
        return on_its_images(catalog.instance_types(region, manifest.object, zones=zones or None), manifest)


@contextmanager
def _blaming(manifest: Manifest) -> Iterator[None]:
    """Errors point at the manifest."""
    try:
        yield
    except InputError as error:
        raise InputError(
            error.message, source=manifest.source, line=manifest.line, path=error.path, remedy=error.remedy
        ) from None


def _refuse_missing_class(manifest: Manifest, classes: Mapping[str, Manifest]) -> None:
    assert isinstance(manifest.object, NodePool)
    reference = manifest.object.spec.template.spec.node_class_ref
    if reference.kind == EC2NodeClass.KIND and reference.name in classes:
        return
    pool = f"NodePool {manifest.object.metadata.name}"
    if reference.kind != EC2NodeClass.KIND:
        message = f"{pool} is of the {reference.kind} {reference.name}, whose types are not known here"
        remedy = "the types of a region are for EC2NodeClasses; give others with --instance-types FILE"
    else:
        add = f"add the {reference.kind} {reference.name} to the manifests, or use --instance-types FILE"
        message = f"{pool} names the {reference.kind} {reference.name}, which is not among the manifests"
        remedy = meant(reference.name, classes, add)
    raise InputError(
        message,
        source=manifest.source,
        line=manifest.line,
        path="spec.template.spec.nodeClassRef.name",
        remedy=remedy,
    )


def not_installed(reading: Reading) -> tuple[Manifest, ...]:
    """Pods and Jobs of a chart that installing it does not run: its tests, and those of its removal.

    What a server has does run.
    """
    return tuple(
        item
        for item in reading.manifests
        if isinstance(item.object, Pod | Job)
        and (hook := item.object.metadata.annotations.get(_HOOK, ""))
        and {one.strip() for one in hook.split(",")} <= _NOT_INSTALLED
        and not item.object.metadata.uid
    )


def read_cluster(reading: Reading) -> ClusterObjects:
    """The objects of manifests, pods that workloads still lack included."""
    return _read_cluster(reading, copying=False)[0]


def _read_cluster(reading: Reading, *, copying: bool) -> tuple[ClusterObjects, tuple[Copied, ...]]:
    left_out = set(map(id, not_installed(reading)))
    counted = tuple(item for item in _counted(reading) if id(item) not in left_out)
    given = tuple(item.object for item in counted)
    pods = tuple(pod for pod in _of(given, Pod) if not pod.terminal and not pod.deleting)
    rules = _Rules(given, pods)
    if sidecars := sidecars_of(given):
        note(sidecars)
    missing, copied = _missing_pods(counted, pods, rules, copying=copying and not rules.one_by_one)
    pods, missing = rules.allowed(rules.filled(pods), missing)
    volumes = {volume.metadata.name: volume for volume in _of(given, PersistentVolume)}
    claims = tuple(
        completed(claim) if binds(claim, volumes.get(claim.spec.volume_name)) else claim
        for claim in _of(given, PersistentVolumeClaim)
    )
    have = {claim.key for claim in claims}
    wanted = [claim for item in _of(given, StatefulSet) for claim in volume_claims_of(item)]
    objects = ClusterObjects(
        pools=_of(given, NodePool),
        claims=_of(given, NodeClaim),
        nodes=_of(given, Node),
        pods=(*pods, *missing),
        daemonsets=DaemonPods(pods).as_they_run(map(rules.of_daemons, _of(given, DaemonSet))),
        namespaces=_namespaces(_of(given, Namespace), (*pods, *missing)),
        pdbs=_of(given, PodDisruptionBudget),
        volume_claims=(*claims, *(claim for claim in wanted if claim.key not in have)),
        volumes=tuple(volumes.values()),
        storage_classes=_of(given, StorageClass) or _stand_ins(given, (*claims, *wanted), (*pods, *missing)),
        csi_nodes=_of(given, CSINode),
        groups=Groups(given),
    )
    return objects, copied


def _of(given: tuple[Object, ...], kind: type[Kind]) -> tuple[Kind, ...]:
    return tuple(item for item in given if isinstance(item, kind))


class _Rules:
    """What classes, LimitRanges and ResourceQuotas make of pods, as a server would have it."""

    def __init__(self, given: tuple[Object, ...], pods: tuple[Pod, ...]) -> None:
        ranges: dict[str, list[LimitRange]] = {}
        for one in sorted(_of(given, LimitRange), key=lambda one: one.key):
            ranges.setdefault(one.metadata.namespace, []).append(one)
        quotas = _of(given, ResourceQuota)
        self._priorities = {name: PriorityClass(value=value) for name, value in BUILT_IN_PRIORITIES.items()}
        self._priorities |= {one.metadata.name: one for one in _of(given, PriorityClass)}
        runtimes = {one.metadata.name: one for one in _of(given, RuntimeClass)}
        runtimes |= _runtime_stand_ins(given, runtimes)
        self._admission = PodAdmission(ranges, runtimes, Quotas(quotas, filter(_stored, pods)))
        # Pods are refused one by one, so that none of them may only be counted.
        self.one_by_one = bool(ranges or quotas) or any(
            self._against_class(template_of(one).spec) for one in given if isinstance(one, Workload)
        )

    def filled(self, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """With what their classes and LimitRanges add, of those that no server has."""
        pods = _of_class(pods, self._priorities)
        return tuple(pod if _stored(pod) else self._admission.filled(pod)[0] for pod in pods)

    def allowed(self, *given: tuple[Pod, ...]) -> Iterator[tuple[Pod, ...]]:
        """After `filled`, without those that would be refused, of which notes tell."""
        refused = Counter[tuple[str, str]]()
        for pods in given:
            found = []
            for pod in pods:
                why = ""
                if not _stored(pod):
                    why = self._against_class(pod.spec) or self._admission.admitted(pod)[1]
                if why:
                    refused[pod.metadata.namespace, why] += 1
                else:
                    found.append(pod)
            yield tuple(found)
        for (namespace, why), count in refused.most_common(_MOST_NOTES):
            those = f"{number_of(count, 'pod')} of the namespace {namespace}"
            note(f"{those} would be refused by the API server: {why}")

    def _against_class(self, spec: PodSpec) -> str:
        """Why the policy of preemption is not that of its class; "" where it is, or no class is known."""
        known = self._priorities.get(spec.priority_class_name)
        if known is None or spec.preemption_policy in ("", known.preemption_policy):
            return ""
        return (
            f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be provided in pod "
            f"spec; priority admission controller computed {known.preemption_policy} from the given "
            "PriorityClass name"
        )

    def of_daemons(self, daemonset: DaemonSet) -> DaemonSet:
        """With a template as pods of it would be, as long as none shows what they are.

        Taints are held against what it tolerates itself: no pod is made for a node that it does not tolerate.
        """
        spec = daemonset.spec
        pod = Pod(metadata=Meta(namespace=daemonset.metadata.namespace), spec=spec.template.spec)
        made = self._admission.filled(pod)[0].spec
        if made is pod.spec:
            return daemonset
        made = msgspec.structs.replace(made, tolerations=pod.spec.tolerations)
        template = msgspec.structs.replace(spec.template, spec=made)
        return msgspec.structs.replace(daemonset, spec=msgspec.structs.replace(spec, template=template))


def _runtime_stand_ins(given: tuple[Object, ...], known: Collection[str]) -> dict[str, RuntimeClass]:
    """Classes that pods name and that are not given: with the overhead that one of their pods has, if any."""
    specs = [pod.spec for pod in _of(given, Pod)]
    specs += [
        one.spec.template.spec
        for one in given
        if isinstance(one, Deployment | ReplicaSet | StatefulSet | DaemonSet | Job)
    ]
    specs += [one.spec.job_template.spec.template.spec for one in _of(given, CronJob)]
    found: dict[str, ResourceList] = {}
    for spec in specs:
        name = spec.runtime_class_name
        if name and name not in known:
            found[name] = found.get(name) or spec.overhead
    if found and not any(one.metadata.uid for one in given):
        note(
            f"no RuntimeClass {', '.join(sorted(found))} is among the manifests: what it adds to pods, "
            "overhead and where they may run, is not counted"
        )
    return {
        name: RuntimeClass(metadata=Meta(name=name), overhead=Overhead(pod_fixed=fixed) if fixed else None)
        for name, fixed in found.items()
    }


def _stored(pod: Pod) -> bool:
    """True iff a server has the pod."""
    return bool(pod.metadata.uid or pod.spec.node_name)


def _stand_ins(
    given: tuple[Object, ...], claims: Iterable[PersistentVolumeClaim], pods: Iterable[Pod]
) -> tuple[StorageClass, ...]:
    """Classes for the volumes, where the manifests are not all that a cluster has, and none is among them."""
    if any(one.metadata.uid for one in given):
        return ()
    specs = [claim.spec for claim in claims if not claim.spec.volume_name]
    templates = (one.ephemeral for pod in pods for one in pod.spec.volumes if one.ephemeral is not None)
    specs += [one.volume_claim_template.spec for one in templates]
    names = {spec.storage_class_name for spec in specs} - {""}
    if not names:
        return ()
    named = ", ".join(sorted(name for name in names if name)) or "the default one"
    note(
        f"no StorageClass is among the manifests: {named} is taken to be of {_EBS}, with volumes in the zone "
        "that their pods go to"
    )
    return tuple(
        StorageClass(
            metadata=Meta(name=name or "default", annotations={} if name else {DEFAULT_CLASS[0]: "true"}),
            provisioner=_EBS,
            volume_binding_mode="WaitForFirstConsumer",
        )
        for name in sorted(names, key=lambda name: name or "")
    )


def _of_class(pods: tuple[Pod, ...], known: Mapping[str, PriorityClass]) -> tuple[Pod, ...]:
    """With what a server would give them of their class, 0 where the class is not among the manifests."""
    default = min(
        (one for one in known.values() if one.global_default),
        key=lambda one: one.value,
        default=PriorityClass(),
    )
    if not default.metadata.name and not any(pod.spec.priority_class_name for pod in pods):
        return pods
    made: dict[int, PodSpec] = {}  # by the identity of a spec, which its pods share
    found = []
    for pod in pods:
        name = pod.spec.priority_class_name
        if pod.metadata.uid:  # a server has said it
            found.append(pod)
            continue
        spec = made.get(id(pod.spec))
        if spec is None:
            one = known.get(name, PriorityClass()) if name else default
            policy = pod.spec.preemption_policy or one.preemption_policy
            spec = made[id(pod.spec)] = msgspec.structs.replace(
                pod.spec,
                priority_class_name=name or default.metadata.name,
                priority=one.value,
                preemption_policy=policy,
            )
        found.append(msgspec.structs.replace(pod, spec=spec))
    return tuple(found)


def _counted(reading: Reading) -> tuple[Manifest, ...]:
    """Without the workloads of other groups whose own pods or workloads are among the manifests as well.

    In a dump, what a Rollout makes is there beside it, and says what is wanted now.
    """
    if not any(item.foreign for item in reading.manifests):
        return reading.manifests
    owners = {item.key: item.owner for item in reading.left_out}
    owners |= {_key(item.object.KIND, item.object): _owner(item.object) for item in _own(reading.manifests)}
    owning: set[tuple[str, str]] = set()
    for item in reading.manifests:
        if item.foreign and not replicas(item):
            continue
        owner = owners.get(item.written) if item.foreign else _owner(item.object)
        while owner is not None and owner not in owning:
            owning.add(owner)
            owner = owners.get(owner)
    return tuple(item for item in reading.manifests if not item.foreign or item.written not in owning)


def _own(manifests: tuple[Manifest, ...]) -> Iterator[Manifest]:
    return (item for item in manifests if not item.foreign)


def _missing_pods(
    given: tuple[Manifest, ...], pods: tuple[Pod, ...], rules: _Rules, *, copying: bool
) -> tuple[tuple[Pod, ...], tuple[Copied, ...]]:
    """What the workloads still ask for beside the pods that are given, and what is only counted."""
    owned: dict[tuple[str, str], list[Pod]] = {}
    own = tuple(item.object for item in _own(given))
    parents = {_key(item.KIND, item): _parent(item) for item in own if isinstance(item, ReplicaSet | Job)}
    for pod in pods:
        owner = _parent(pod)
        while owner is not None:
            owned.setdefault(owner, []).append(pod)
            owner = parents.get(owner)
    known = {_key(item.KIND, item) for item in own}
    least = _least_replicas(own)
    asking = []
    for item in given:
        if isinstance(item.object, Pod):
            continue
        workload = _scaled(_replicated(item), least.get(item.written, 0))
        if isinstance(workload, Workload) and (item.foreign or _parent(workload) not in known):
            there = () if item.foreign else owned.get(item.written, ())
            # A share of all is none of one copy.
            copies = copying and not _at_the_gate(workload)
            made, times = split(workload, len(there)) if copies else (workload, 0)
            asking.append((replace(item, object=made), made, there, times))
    refuse_too_many((item for item, *_ in asking), _MOST_PODS, "a plan")
    held = [
        " ".join(item.written) for item, made, *_ in asking if isinstance(made, Job) and made.spec.suspend
    ]
    if held:
        more = f" and {len(held) - _MOST_NOTES} more" if len(held) > _MOST_NOTES else ""
        note(
            f"suspended, so that no pod is asked for: {', '.join(held[:_MOST_NOTES])}{more}; "
            "with suspend: false it is planned for"
        )
    names = Counter(workload.key for _, workload, *_ in asking)
    missing: list[Pod] = []
    copied: list[Copied] = []
    for item, workload, there, times in asking:
        lacking = told_together(rules.filled(pods_of(workload, there)), there)
        if names[workload.key] > 1 and not isinstance(workload, StatefulSet):
            # A Rollout and a Deployment may have one name, their pods may not.
            prefix = item.written[0].lower()
            lacking = tuple(_renamed(pod, f"{prefix}-{pod.metadata.name}") for pod in lacking)
        missing.extend(lacking)
        if times:
            copied.append(Copied.of(" ".join(item.written), lacking, times))
    for one in copied:
        if tied(missing, one) or tied(pods, one):
            return _missing_pods(given, pods, rules, copying=False)
    return tuple(missing), tuple(copied)


def _at_the_gate(workload: Workload) -> bool:
    template = workload.spec.job_template.spec if isinstance(workload, CronJob) else workload.spec
    return gated(Pod(spec=template.template.spec))


def _least_replicas(own: tuple[Object, ...]) -> dict[tuple[str, str], int]:
    """What autoscalers keep at least of each workload, by (kind, namespace/name)."""
    found: dict[tuple[str, str], int] = {}
    for one in _of(own, HorizontalPodAutoscaler):
        target = one.spec.scale_target_ref
        found[target.kind, f"{one.metadata.namespace}/{target.name}"] = one.spec.min_replicas
    for scaled in _of(own, ScaledObject):
        of_keda = scaled.spec.scale_target_ref
        name = of_keda.kind or Deployment.KIND, f"{scaled.metadata.namespace}/{of_keda.name}"
        found[name] = scaled.spec.min_replica_count
    return found


def _replicated(item: Manifest) -> Object:
    """A ReplicationController makes the pods of a ReplicaSet."""
    if not isinstance(item.object, ReplicationController):
        return item.object
    found = as_workloads(item.document, templates_only=True)
    return decode(found[0].document, ReplicaSet) if found else item.object


def _scaled(workload: Object, least: int) -> Object:
    """An autoscaler lets no workload be smaller than its minimum, but one that is switched off by 0."""
    if not isinstance(workload, Deployment | ReplicaSet | StatefulSet):
        return workload
    if not 0 < workload.spec.replicas < least:
        return workload
    return msgspec.structs.replace(
        workload,
        spec=msgspec.structs.replace(workload.spec, replicas=least),
    )


def _renamed(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))


def _key(kind: str, item: Object) -> tuple[str, str]:
    return kind, item.key


def _parent(item: Object) -> tuple[str, str] | None:
    owner = item.metadata.controller()
    return None if owner is None else (owner.kind, f"{item.metadata.namespace}/{owner.name}")


def _owner(item: Object) -> tuple[str, str] | None:
    """What manages it, or else owns it: not every operator says that it manages its pods."""
    owners = item.metadata.owner_references
    owner = item.metadata.controller() or (owners[0] if owners else None)
    return None if owner is None else (owner.kind, f"{item.metadata.namespace}/{owner.name}")


def _namespaces(given: tuple[Namespace, ...], pods: tuple[Pod, ...]) -> tuple[Namespace, ...]:
    """Every namespace in use, those that are not given with the label that the server would add."""
    found = {item.metadata.name: item for item in given}
    for name in sorted({pod.metadata.namespace for pod in pods} - found.keys()):
        found[name] = Namespace(metadata=Meta(name=name, labels={NAMESPACE_NAME: name}))
    return tuple(found.values())
