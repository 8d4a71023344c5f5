"""What rules look at: everything that was read, put together the way rules ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any, TypeVar

from dovetail.api.admission import schema_of
from dovetail.api.core import Node, Pod, PodSpec, Taint
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.keda import ScaledJob, ScaledObject, ScaledObjectSpec
from dovetail.api.meta import Object
from dovetail.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    HorizontalPodAutoscaler,
    Job,
    ReplicaSet,
    StatefulSet,
)
from dovetail.base.errors import InputError
from dovetail.cluster.problem import pool_requirements
from dovetail.lint import shelf
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirements
from dovetail.model.taints import HARD_EFFECTS
from dovetail.reading import Located, Manifest
from dovetail.reading.kinds import group_of, is_from_server
from dovetail.reading.paths import at

# Kinds of other groups whose pods run until they are stopped; those of the rest may be work that ends.
_ENDLESS = frozenset({"Rollout", "CloneSet", "StatefulSet", "DaemonSet", "Service", "Configuration"})

_MOST_NAMED = 3  # kinds

Kind = TypeVar("Kind", bound=Object)


@dataclass(frozen=True, slots=True)
class Fault:
    """What an API server would refuse, and the document that it is about; None for what is no document."""

    error: InputError
    located: Located | None

    @property
    def value(self) -> Any:
        """What is written at the error's path; None where nothing is."""
        if self.located is None or not self.error.path:
            return None
        return at(self.located.value, self.error.path)


@dataclass(frozen=True, slots=True)
class Template:
    """The pods that an object makes. `path` leads to their spec, `meta` to their metadata."""

    manifest: Manifest
    path: str
    meta: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: PodSpec
    replicas: int | None  # None for one on each node, or as many as there is work
    endless: bool  # they run until they are stopped

    @property
    def namespace(self) -> str:
        return self.manifest.object.metadata.namespace

    @property
    def name(self) -> str:
        kind, _ = self.manifest.written
        return f"{kind} {self.manifest.object.metadata.name}"

    @property
    def pods(self) -> str:
        """They, as a sentence takes them: of a Pod that stands by itself there is one."""
        return self.name if self.alone else f"the pods of {self.name}"

    @property
    def alone(self) -> bool:
        """True iff it is a Pod that nothing makes."""
        return isinstance(self.manifest.object, Pod)

    @property
    def system(self) -> bool:
        """Such as what a cluster brings: its owner is another one."""
        return self.namespace in ("kube-system", "kube-node-lease", "kube-public")


@dataclass(frozen=True)
class PoolView:
    """A pool with what it may buy. `types` are those of `region`, which nothing named if not `known`."""

    manifest: Manifest
    pool: NodePool
    node_class: EC2NodeClass | None
    requirements: Requirements
    region: str
    known: bool
    types: tuple[InstanceType, ...]

    @property
    def name(self) -> str:
        return self.pool.metadata.name

    @property
    def capacity_types(self) -> frozenset[str]:
        """Those that it may buy, of spot and on-demand."""
        wanted = self.requirements.get(labels.CAPACITY_TYPE)
        return frozenset(kind for kind in (labels.SPOT, labels.ON_DEMAND) if wanted.has(kind))

    @cached_property
    def devices(self) -> frozenset[frozenset[str]]:
        """What its types have of what pods ask for by name, each combination once."""
        by_type = shelf.devices(self.region)
        return frozenset(by_type[kind.name] for kind in self.types)

    @cached_property
    def hard_taints(self) -> tuple[Taint, ...]:
        """Those that keep pods off, rather than only preferring it."""
        return tuple(taint for taint in self.pool.spec.template.spec.taints if taint.effect in HARD_EFFECTS)

    def path_of(self, key: str) -> str:
        """The path of the requirement on a label, or of its list."""
        for index, item in enumerate(self.pool.spec.template.spec.requirements):
            if labels.ALIASES.get(item.key, item.key) == key:
                return f"spec.template.spec.requirements[{index}]"
        return "spec.template.spec.requirements"


@dataclass(frozen=True)
class Inventory:
    """`written` holds every document as it stands in its file, `manifests` what they are today.

    `values` are values of the chart, `terraform` documents by the type of their resource. `region` is what
    a flag, nodes or the environment say; "" where nothing does.
    """

    manifests: tuple[Manifest, ...] = ()
    written: tuple[Located, ...] = ()
    faults: tuple[Fault, ...] = ()
    values: tuple[Located, ...] = ()
    terraform: tuple[tuple[str, Located], ...] = ()
    region: str = ""
    notes: tuple[str, ...] = field(default=(), compare=False)
    filled: frozenset[str] = frozenset()

    @property
    def unseen(self) -> str:
        """Why no rule can find anything: nothing was read, or nothing that a rule looks at; else ""."""
        if self.manifests or self.faults or self.values:
            return ""
        if not self.written:
            return "no object is in what was given"
        if any(schema_of(item.value) is not None for item in self.written):
            return ""  # read, as far as it goes without what Terraform works out
        kinds = {f"{item.value.get('kind')} of {group_of(item.value['apiVersion'])}" for item in self.written}
        named = ", ".join(sorted(kinds)[:_MOST_NAMED])
        return f"no rule looks at {named}{' and others' if len(kinds) > _MOST_NAMED else ''}"

    def of(self, kind: type[Kind]) -> Iterator[tuple[Manifest, Kind]]:
        """All objects of a kind, with their manifests."""
        for item in self._by_kind.get(kind, ()):
            assert isinstance(item.object, kind)
            yield item, item.object

    @cached_property
    def _by_kind(self) -> dict[type[Object], list[Manifest]]:
        found: dict[type[Object], list[Manifest]] = {}
        for item in self.manifests:
            found.setdefault(type(item.object), []).append(item)
        return found

    @cached_property
    def snapshot(self) -> bool:
        """True iff what a cluster runs is among the objects."""
        return any(True for _ in self.of(Node)) or any(
            is_from_server(item.located.value) for item in self.manifests
        )

    @cached_property
    def classes(self) -> dict[str, tuple[Manifest, EC2NodeClass]]:
        """By name."""
        return {item.metadata.name: (manifest, item) for manifest, item in self.of(EC2NodeClass)}

    @cached_property
    def pools(self) -> tuple[PoolView, ...]:
        return tuple(view for manifest, pool in self.of(NodePool) if (view := self._view(manifest, pool)))

    def _view(self, manifest: Manifest, pool: NodePool) -> PoolView | None:
        try:
            wanted = pool_requirements(pool)
        except ValueError:  # an operator that does not exist, which is reported where it is refused
            return None
        reference = pool.spec.template.spec.node_class_ref
        found = self.classes.get(reference.name) if reference.kind == EC2NodeClass.KIND else None
        region = self._region(wanted)
        known = region in shelf.known_regions()
        of_aws = reference.kind == EC2NodeClass.KIND
        place = region if known else shelf.FALLBACK
        local = any(shelf.is_local_zone(zone) for zone in _values(wanted, labels.ZONE))
        kinds = shelf.left(_anywhere(wanted) if local or not known else wanted, place) if of_aws else ()
        return PoolView(manifest, pool, found[1] if found else None, wanted, place, known, kinds)

    def _region(self, wanted: Requirements) -> str:
        """What the pool itself says, or else what is said of all."""
        named = wanted.get(labels.REGION)
        if not named.complement and len(named.values) == 1:
            return next(iter(named.values))
        of_zones = {shelf.region_of_zone(zone) for zone in _values(wanted, labels.ZONE)} - {""}
        return of_zones.pop() if len(of_zones) == 1 else self.region

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """What makes pods; not what is made by something that is here too."""
        # Parts of one object that are made of the same fields have the same faults: the jobs of a JobSet.
        parts = {(id(item.located), item.part): item for item in reversed(self.manifests)}
        return tuple(
            found
            for item in self.manifests
            if not item.foreign or parts[id(item.located), item.part] is item
            for found in _templates(item)
        )

    @cached_property
    def templates_by_namespace(self) -> dict[str, list[Template]]:
        found: dict[str, list[Template]] = {}
        for template in self.templates:
            found.setdefault(template.namespace, []).append(template)
        return found

    def scalers(self) -> Iterator[tuple[Manifest, ScaledObject | HorizontalPodAutoscaler]]:
        """What decides about replicas."""
        yield from self.of(ScaledObject)
        yield from self.of(HorizontalPodAutoscaler)

    @cached_property
    def scaled(self) -> dict[tuple[str, str, str], int]:
        """(namespace, kind, name) of what they decide about -> how many replicas they make at most."""
        found: dict[tuple[str, str, str], int] = {}
        for _, item in self.scalers():
            target, spec = item.spec.scale_target_ref, item.spec
            most = spec.max_replica_count if isinstance(spec, ScaledObjectSpec) else spec.max_replicas
            key = (item.metadata.namespace, target.kind, target.name)
            found[key] = max(most, found.get(key, 0))
        return found

    def one_cluster(self, one: Manifest, other: Manifest) -> bool:
        """False iff two objects are in folders of different clusters: some pool or class is in both."""
        folders = (PurePath(one.source).parent, PurePath(other.source).parent)
        held = [self._of_folders.get(folder, set()) for folder in folders]
        return folders[0] == folders[1] or held[0].isdisjoint(held[1])

    @cached_property
    def _of_folders(self) -> dict[PurePath, set[tuple[str, str]]]:
        """What pools and classes each folder holds."""
        found: dict[PurePath, set[tuple[str, str]]] = {}
        for manifest, item in (*self.of(NodePool), *self.of(EC2NodeClass)):
            found.setdefault(PurePath(manifest.source).parent, set()).add((item.KIND, item.metadata.name))
        return found

    @cached_property
    def filled_in(self) -> dict[str, frozenset[str]]:
        """Namespace -> resources that a LimitRange there gives to containers that ask for none."""
        found: dict[str, frozenset[str]] = {}
        for located in self.written:
            value = located.value
            if not isinstance(value, dict) or value.get("kind") != "LimitRange":
                continue
            limits, place = at(value, "spec.limits"), at(value, "metadata.namespace")
            given = [
                at(item, field)
                for item in (limits if isinstance(limits, list) else ())
                for field in ("defaultRequest", "default")
            ]
            names = frozenset(str(name) for item in given if isinstance(item, dict) for name in item)
            namespace = str(place or "default")
            found[namespace] = found.get(namespace, frozenset()) | names
        return found

    @cached_property
    def nodes_by_pool(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for _, node in self.of(Node):
            pool = node.metadata.labels.get(labels.NODEPOOL, "")
            if pool:
                found.setdefault(pool, []).append(node)
        return found

    @cached_property
    def claims_by_pool(self) -> dict[str, list[NodeClaim]]:
        found: dict[str, list[NodeClaim]] = {}
        for _, claim in self.of(NodeClaim):
            found.setdefault(claim.metadata.labels.get(labels.NODEPOOL, ""), []).append(claim)
        return found


def nested(value: dict[str, Any]) -> dict[str, Any]:
    """Values as a map of maps; what Helm sets by `--set a.b=c` has dots in its keys."""
    result: dict[str, Any] = {}
    for key, item in value.items():
        inner = result
        *above, last = [step.replace("\\.", ".") for step in re.split(r"(?<!\\)\.", key)]
        for step in above:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                break
        else:
            inner[last] = item
    return result


def _values(wanted: Requirements, key: str) -> frozenset[str]:
    item = wanted.get(key)
    return frozenset() if item.complement else item.values


def _anywhere(wanted: Requirements) -> Requirements:
    """Without zones, which belong to a region that is not known, or are none of the catalogue's."""
    return Requirements.of(item for item in wanted if item.key not in (labels.ZONE, labels.ZONE_ID))


def _templates(item: Manifest) -> Iterator[Template]:
    thing = item.object
    owner = thing.metadata.controller()
    if owner is not None and isinstance(thing, Pod | ReplicaSet | Job):
        return
    if isinstance(thing, Pod):
        meta = thing.metadata
        yield Template(
            item,
            "spec",
            "metadata",
            meta.labels,
            meta.annotations,
            thing.spec,
            1,
            thing.spec.restart_policy == "Always",
        )
        return
    at_path, template, replicas = item.part, None, None
    endless = not item.foreign or item.written[0] in _ENDLESS
    if isinstance(thing, Deployment | ReplicaSet | StatefulSet):
        template, replicas = thing.spec.template, thing.spec.replicas
    elif isinstance(thing, DaemonSet):
        template = thing.spec.template
    elif isinstance(thing, Job):
        template, endless = thing.spec.template, False
    elif isinstance(thing, CronJob):
        template, endless, at_path = thing.spec.job_template.spec.template, False, "spec.jobTemplate.spec"
    elif isinstance(thing, ScaledJob):
        template, endless, at_path = thing.spec.job_target_ref.template, False, "spec.jobTargetRef"
    if template is not None:
        yield Template(
            item,
            f"{at_path}.template.spec",
            f"{at_path}.template.metadata",
            template.metadata.labels,
            template.metadata.annotations,
            template.spec,
            replicas,
            endless,
        )
