"""WL: pods, what they ask for, where they may go, and what protects them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dovetail.api.core import Node, Pod, PodAffinityTerm, PodSpec, Taint
from dovetail.api.karpenter.capacitybuffer import CapacityBuffer
from dovetail.api.keda import ScaledObject
from dovetail.api.meta import LabelSelector, Meta, Object
from dovetail.api.workloads import (
    BUILT_IN_PRIORITIES,
    DaemonSet,
    Deployment,
    Job,
    PodDisruptionBudget,
    PodTemplate,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
)
from dovetail.base.guess import nearest
from dovetail.disrupt.pods import do_not_disrupt_error, never_allows
from dovetail.disrupt.surge import Case, obstacle, opted_in
from dovetail.lint import shelf
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, PoolView, Template
from dovetail.lint.rules.nodepool import near_label
from dovetail.model import labels
from dovetail.model.buffers import replicas, resolve
from dovetail.model.on_demand import gated, share_of
from dovetail.model.pod_admission import tolerating
from dovetail.model.requirement import Requirement, Requirements, pod_requirements
from dovetail.model.resources import pod_requests
from dovetail.model.selector import Selector
from dovetail.model.taints import taint_text, untolerated

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_PAUSE = re.compile(r"(?:^|/)pause(?:[:@-]|$)")
_PLACEHOLDER = re.compile(
    r"over[-_]?provision|placeholder|headroom|balloon|spare|buffer|reserv|standby|warm[-_]?pool", re.I
)


def _own(inventory: Inventory) -> Iterator[Template]:
    """Pods of users; what a cluster brings is not theirs to mend."""
    return (template for template in inventory.templates if not template.system)


def _verb(template: Template, plural: str) -> str:
    singular = {"do": "does"}.get(plural, f"{plural}s")
    return singular if template.alone else plural


@rule("WL001", "no-requests", _WARNING, "Pods that ask for nothing")
def no_requests(inventory: Inventory) -> Iterator[Remark]:
    for template in _own(inventory):
        wanted = pod_requests(_pod(template))
        if inventory.filled_in.get(template.namespace, frozenset()) & {"cpu", "memory"}:
            continue
        if template.spec.containers and not wanted.get("cpu") and not wanted.get("memory"):
            yield Remark(
                template.manifest.located,
                f"{template.path}.containers[0]",
                f"{template.pods} {_verb(template, 'ask')} for no cpu and no memory",
                "they count as nothing, so any number of them goes onto one node, and no node is bought "
                "for them",
                "write resources.requests with cpu and memory",
            )


@rule("WL002", "no-memory-request", _WARNING, "Containers that ask for cpu and not for memory")
def no_memory_request(inventory: Inventory) -> Iterator[Remark]:
    for template in _own(inventory):
        if template.spec.resources is not None and template.spec.resources.requests.get("memory"):
            continue  # for all of its containers
        if "memory" in inventory.filled_in.get(template.namespace, frozenset()):
            continue
        none = not pod_requests(_pod(template)).get("memory")
        for index, container in enumerate(template.spec.containers):
            asked = container.resources.requests
            # What only pauses does nothing, and needs next to none.
            if "cpu" not in asked or "memory" in asked or _PAUSE.search(container.image):
                continue
            what = (
                f"{template.pods} {_verb(template, 'ask')}"
                if none
                else f"container {container.name} of {template.name} asks"
            )
            yield Remark(
                template.manifest.located,
                f"{template.path}.containers[{index}].resources",
                f"{what} for cpu and for no memory",
                "nodes are packed by cpu alone, and what runs out of memory is killed"
                if none
                else "nodes are packed as if it needed none, and what runs out of memory is killed",
                "write resources.requests.memory",
            )
            if none:
                break


@rule("WL003", "placeholder-priority", _WARNING, "Placeholders that real pods cannot push aside")
def placeholder_priority(inventory: Inventory) -> Iterator[Remark]:
    classes = {item.metadata.name: item.value for _, item in inventory.of(PriorityClass)}
    scaled = {
        (item.metadata.namespace, item.spec.scale_target_ref.name): item.metadata.name
        for _, item in inventory.of(ScaledObject)
    }
    for template in _own(inventory):
        if not template.spec.containers or not all(
            _PAUSE.search(container.image) for container in template.spec.containers
        ):
            continue
        name = template.manifest.object.metadata.name
        by = scaled.get((template.namespace, name), "")
        if not (_PLACEHOLDER.search(name) or by or _PLACEHOLDER.search(template.spec.priority_class_name)):
            continue
        given = template.spec.priority_class_name
        if given and given not in classes:
            continue  # a class of the cluster's, of which nothing is known here
        priority = classes.get(given, template.spec.priority)
        if priority >= 0:
            yield Remark(
                template.manifest.located,
                f"{template.path}.priorityClassName" if given else template.path,
                f"{template.name} holds room with priority {priority}"
                + (f" (ScaledObject {by} scales it)" if by else ""),
                "real pods have no higher one, so they cannot take the room: nodes are paid for and "
                "stay as good as full",
                "give it a PriorityClass with a value below 0",
            )


@rule("WL004", "do-not-disrupt-value", _ERROR, "do-not-disrupt with a value that is not honoured")
def do_not_disrupt_value(inventory: Inventory) -> Iterator[Remark]:
    for template in inventory.templates:
        value = template.annotations.get(labels.DO_NOT_DISRUPT, "")
        pod = Pod(metadata=Meta(annotations=dict(template.annotations)))
        if value and do_not_disrupt_error(pod):
            now = "true" if value.lower() in ("true", "yes", "1", "on") else ""
            path = f"{template.meta}.annotations.{labels.DO_NOT_DISRUPT}"
            yield Remark(
                template.manifest.located,
                path,
                f"{labels.DO_NOT_DISRUPT}: {value!r} is not honoured",
                'only "true" and durations such as 30m are; the pods move like any others',
                f'write "{now or "true"}"',
            )


@rule("WL005", "do-not-disrupt-for-ever", _WARNING, "Pods without an end that keep their nodes for ever")
def do_not_disrupt_for_ever(inventory: Inventory) -> Iterator[Remark]:
    graceful = [
        view for view in inventory.pools if view.pool.spec.template.spec.termination_grace_period is not None
    ]
    for template in _own(inventory):
        if template.annotations.get(labels.DO_NOT_DISRUPT) != "true" or not template.endless:
            continue
        if isinstance(template.manifest.object, Pod | Job) or template.replicas is None:
            continue
        if inventory.pools and len(graceful) == len(inventory.pools):
            continue
        yield Remark(
            template.manifest.located,
            f"{template.meta}.annotations.{labels.DO_NOT_DISRUPT}",
            f"{template.pods} never {'lets its node' if template.alone else 'let their nodes'} go",
            "they do not end, so their nodes are not consolidated or renewed after drift; expiry and "
            "deletion begin "
            "a drain that waits for ever where the pool has no terminationGracePeriod",
            "give a duration such as 4h, use a PodDisruptionBudget, or set terminationGracePeriod on "
            "the pool",
        )


@rule(
    "WL006",
    "anti-affinity-forbids-consolidation",
    _INFO,
    "Pods of which each needs a node of its own",
    default=False,
)
def anti_affinity_forbids_consolidation(inventory: Inventory) -> Iterator[Remark]:
    for template in _own(inventory):
        affinity = template.spec.affinity
        rules = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
        for index, term in enumerate(rules):
            if term.topology_key == labels.HOSTNAME and Selector.read(term.label_selector).matches(
                template.labels
            ):
                yield Remark(
                    template.manifest.located,
                    f"{template.path}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[{index}]",
                    f"each pod of {template.name} needs a node of its own",
                    "as many nodes as pods: they can be swapped for cheaper ones, and never be merged",
                    "prefer it instead, or spread over hostname with a maxSkew",
                )


@rule("WL007", "budget-never-allows", _WARNING, "A PodDisruptionBudget that never lets a pod go")
def budget_never_allows(inventory: Inventory) -> Iterator[Remark]:
    first: dict[tuple[str, int], str] = {}
    for manifest, item in inventory.of(PodDisruptionBudget):
        selector = Selector.read(item.spec.selector)
        chosen = [
            template
            for template in inventory.templates_by_namespace.get(item.metadata.namespace, ())
            if selector.matches(template.labels)
        ]
        for template in chosen:
            where = template.manifest.located
            other = first.setdefault((where.source, where.line), item.metadata.name)
            if other != item.metadata.name and inventory.one_cluster(template.manifest, manifest):
                yield Remark(
                    manifest.located,
                    "spec.selector",
                    f"PodDisruptionBudgets {other} and {item.metadata.name} both select {template.pods}",
                    "the API server evicts no pod that has more than one budget, whatever they allow",
                    "keep one of them",
                )
        field = "maxUnavailable" if item.spec.max_unavailable is not None else "minAvailable"
        wanted = item.spec.max_unavailable if field == "maxUnavailable" else item.spec.min_available
        most = [_most(inventory, template) for template in chosen]
        replicas = sum(count or 0 for count in most)
        short = (
            field == "minAvailable"
            and None not in most
            and wanted is not None
            and 0 < replicas <= _count(wanted, replicas)
        )
        if (never_allows(item) or short) and not (chosen and all(map(_surges, chosen))):
            name = f"PodDisruptionBudget {item.metadata.name}"
            of = f" of the {replicas} pods it selects" if short else ""
            yield Remark(
                manifest.located,
                f"spec.{field}",
                f"{name} never allows an eviction: {field} {wanted}{of}",
                "nodes with its pods are not consolidated, and a drain waits for ever",
                _allowing(chosen),
            )


def _surges(template: Template) -> bool:
    """True iff it asks that another pod comes before one has to go, and its strategy lets that be."""
    found = template.manifest.object
    if not isinstance(found, Deployment) or not opted_in(found, None):
        return False
    return not obstacle(Case(_pod(template), found))


def _allowing(chosen: Sequence[Template]) -> str:
    text = "allow one at a time with maxUnavailable: 1, and run two replicas or more"
    owners = [template.manifest.object for template in chosen]
    if owners and all(isinstance(one, Deployment) and not obstacle(Case(Pod(), one)) for one in owners):
        text += f', or have Dovetail bring up another pod first: {labels.SURGE}: "true" on the Deployment'
    return text


def _most(inventory: Inventory, template: Template) -> int | None:
    """How many of its pods there are at most, what scales it counted in; None where that is not known."""
    if template.replicas is None:
        return None
    key = (template.namespace, template.manifest.object.KIND, template.manifest.object.metadata.name)
    return max(template.replicas, inventory.scaled.get(key, 0))


def _count(wanted: int | str, replicas: int) -> int:
    """How many pods that is, a share of them rounded up, as the API server does."""
    text = str(wanted)
    if not text.removesuffix("%").isdecimal():
        return 0
    return -(-int(text[:-1]) * replicas // 100) if text.endswith("%") else int(text)


@rule("WL008", "spread-over-region", _WARNING, "A spread over regions")
def spread_over_region(inventory: Inventory) -> Iterator[Remark]:
    for template in _own(inventory):
        for index, item in enumerate(template.spec.topology_spread_constraints):
            path = f"{template.path}.topologySpreadConstraints[{index}].topologyKey"
            if labels.ALIASES.get(item.topology_key, item.topology_key) == labels.REGION:
                yield Remark(
                    template.manifest.located,
                    path,
                    f"{template.name} is spread over {item.topology_key}",
                    "a cluster's nodes are in one region, so it spreads nothing, and Karpenter does not "
                    "support the key",
                    f"write {labels.ZONE}",
                )
            elif near := near_label(item.topology_key):
                yield _no_such_topology(template, path, item.topology_key, near)
        for path, term, apart in _affinity_terms(template):
            if labels.ALIASES.get(term.topology_key, term.topology_key) == labels.REGION and apart:
                yield Remark(
                    template.manifest.located,
                    f"{path}.topologyKey",
                    f"{template.name} is kept apart by {term.topology_key}",
                    "a cluster's nodes are in one region, so one pod runs and the others stay pending",
                    f"write {labels.ZONE} or {labels.HOSTNAME}",
                )
            if near := near_label(term.topology_key):
                yield _no_such_topology(template, f"{path}.topologyKey", term.topology_key, near)


def _no_such_topology(template: Template, path: str, key: str, near: str) -> Remark:
    return Remark(
        template.manifest.located,
        path,
        f"{template.name} is spread over {key}",
        "no node has that label, so no pod is ever placed by it",
        f"did you mean {near}?",
    )


def _affinity_terms(template: Template) -> Iterator[tuple[str, PodAffinityTerm, bool]]:
    """(path, term, whether it keeps pods apart) of all terms about pods, required and preferred."""
    affinity = template.spec.affinity
    if affinity is None:
        return
    for field, part in (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    ):
        if part is None:
            continue
        below, apart = f"{template.path}.affinity.{field}", field == "podAntiAffinity"
        for index, term in enumerate(part.required):
            yield f"{below}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", term, apart
        for index, weighted in enumerate(part.preferred):
            path = f"{below}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm"
            yield path, weighted.pod_affinity_term, apart


@rule("WL009", "selects-others", _WARNING, "A spread or anti-affinity that does not select its own pods")
def selects_others(inventory: Inventory) -> Iterator[Remark]:
    for template in _own(inventory):
        for index, item in enumerate(template.spec.topology_spread_constraints):
            if item.label_selector is None or not Selector.read(item.label_selector).matches(template.labels):
                yield Remark(
                    template.manifest.located,
                    f"{template.path}.topologySpreadConstraints[{index}].labelSelector",
                    f"the spread of {template.name} does not select its own pods",
                    "the pods that are placed are not counted, so all of them may go to one place",
                    "write labels of the pod template into it",
                )
        for path, term, apart in _affinity_terms(template):
            wanted = term.label_selector
            if (
                apart
                and wanted is not None
                and not Selector.read(wanted).matches(template.labels)
                and _nearly_selects(wanted, template)
            ):
                yield Remark(
                    template.manifest.located,
                    f"{path}.labelSelector",
                    f"the anti-affinity of {template.name} nearly selects its own pods",
                    "labels match by their letters, so it keeps nothing apart",
                    "write labels of the pod template into it",
                )


@rule("WL010", "no-pool-fits", _ERROR, "Pods that no pool and no node can take")
def no_pool_fits(inventory: Inventory) -> Iterator[Remark]:
    views = inventory.pools
    if not views:
        return
    nodes = [node.metadata.labels for _, node in inventory.of(Node)]
    for template in _own(inventory):
        if template.replicas is None and template.endless:
            continue  # daemons go to nodes that are there for others
        wanted = _wanted(template)
        if not _selects(template.spec) or template.spec.node_name:
            continue
        if wanted is None or any(_elsewhere(item) for item in wanted):
            continue
        if any(_can_buy(view, item) for view in views for item in wanted):
            continue
        if any(_on(item, node) for item in wanted for node in nodes):
            continue
        reasons = [f"{view.name}: {_why_not(view, wanted[0])}" for view in views[:2] if wanted]
        selector = bool(template.spec.node_selector)
        others = bool(wanted) and all(_of_others(item, views) for item in wanted)
        yield Remark(
            template.manifest.located,
            f"{template.path}.{'nodeSelector' if selector else 'affinity.nodeAffinity'}",
            f"no pool here can have a node for {template.pods}",
            "; ".join(reasons) or "its rules contradict each other",
            "label a pool's template so, or ask for what a pool has; check with the pools' files too",
            severity=Severity.WARNING if others and not inventory.snapshot else None,
        )


def _can_buy(view: PoolView, wanted: Requirements) -> bool:
    """True iff the labels of a pool suit, and some type that it may buy has those that are asked for."""
    if not view.requirements.suits(wanted, labels.AWS_WELL_KNOWN):
        return False
    if not view.types:
        return True  # of another provider, or it buys nothing, which is reported there
    both = Requirements.of((*view.requirements, *_of_types(wanted)))
    return bool(shelf.left(both, view.region)) or _names_unlisted(wanted)


def _of_types(wanted: Requirements) -> list[Requirement]:
    return [item for item in wanted if item.key in shelf.KEYS and not item.allows_absence()]


def _names_unlisted(wanted: Requirements) -> bool:
    """True iff pods ask for a real type that the packaged list lacks."""
    named = wanted.get(labels.INSTANCE_TYPE).values | wanted.get(f"{labels.AWS}instance-family").values
    return any(name.partition(".")[0] in shelf.UNLISTED_FAMILIES for name in named)


def _why_not(view: PoolView, wanted: Requirements) -> str:
    text = view.requirements.compatible(wanted, labels.AWS_WELL_KNOWN)
    if text:
        return str(text)
    asked = ", ".join(str(item) for item in _of_types(wanted))
    return f"none of its types has {asked}"


# Labels that nodes of other makers have: managed node groups, Fargate, eksctl, kops and kubeadm.
_OF_EVERY_POOL = (labels.NODEPOOL, labels.CAPACITY_TYPE, labels.REGISTERED, labels.INITIALIZED)
_KARPENTERS = ("karpenter.sh/", labels.AWS)
_A_SLIP = 0.8  # how much alike two labels are of which one is the other misspelt
_OF_OTHERS = ("eks.amazonaws.com/", "alpha.eksctl.io/", "kops.k8s.io/", "node-role.kubernetes.io/")


def _elsewhere(wanted: Requirements) -> bool:
    """True iff pods say themselves that they belong on nodes that no pool makes."""
    return any(
        (item.key in _OF_EVERY_POOL and item.operator() == "DoesNotExist")
        or (item.key.startswith(_OF_OTHERS) and not item.allows_absence())
        for item in wanted
    )


def _of_others(wanted: Requirements, views: Iterable[PoolView]) -> bool:
    """True iff a label is asked for that no pool knows: a node group that is not here may have it."""
    own = {item.key for view in views for item in view.requirements}
    return any(
        not item.allows_absence()
        and item.key not in own | labels.AWS_WELL_KNOWN
        and not item.key.startswith(_KARPENTERS)
        and not near_label(item.key)
        and not nearest(item.key, own, alike=_A_SLIP)
        for item in wanted
    )


def _selects(spec: PodSpec) -> bool:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return bool(spec.node_selector) or bool(affinity and affinity.required)


def _on(wanted: object, node: dict[str, str]) -> bool:
    found = type(wanted).from_labels(node)  # type: ignore[attr-defined]
    return bool(found.suits(wanted, frozenset()))


@rule("WL011", "taint-not-tolerated", _ERROR, "Pods that tolerate none of the pools that suit them")
def taint_not_tolerated(inventory: Inventory) -> Iterator[Remark]:
    for template in _own(inventory):
        if template.replicas is None and template.endless:
            continue
        wanted = _wanted(template)
        if wanted is None:
            continue
        asked = frozenset(shelf.DEVICES) & pod_requests(_pod(template)).keys()
        # Only pods that say which nodes they need: others may well go to nodes that are not here.
        if not asked and not _selects(template.spec):
            continue
        # Whether it suits takes longest to say, so pools that refuse nothing are asked first: one is enough.
        judged = [(view, _refusing(view, template)) for view in inventory.pools]
        if any(not taints and _suits(view, wanted, asked) for view, taints in judged):
            continue
        refused = [(view, taints) for view, taints in judged if taints and _suits(view, wanted, asked)]
        if refused:
            view, taints = refused[0]
            devices = f" ask for {', '.join(sorted(asked))} and" if asked else ""
            yield Remark(
                template.manifest.located,
                f"{template.path}.tolerations" if template.spec.tolerations else template.path,
                f"{template.pods}{devices} {_verb(template, 'do')} not tolerate {taint_text(taints[0])}",
                f"NodePool {view.name} has that taint"
                + (", and so has every other that suits" if len(refused) > 1 else "")
                + ": the pods stay pending",
                f"add the toleration {{key: {taints[0].key}, operator: Exists}}",
            )


def _suits(view: PoolView, wanted: Sequence[Requirements], asked: frozenset[str]) -> bool:
    return any(view.requirements.suits(item, labels.AWS_WELL_KNOWN) for item in wanted) and (
        not asked or any(asked <= found for found in view.devices)
    )


def _refusing(view: PoolView, template: Template) -> tuple[Taint, ...]:
    if not view.hard_taints:
        return ()
    # Each node of a DaemonSet's is chosen before its pod is made.
    spec = template.spec if template.manifest.document["kind"] == "DaemonSet" else tolerating(template.spec)
    return untolerated(view.hard_taints, spec.tolerations)


@rule(
    "WL013", "annotation-misspelt", _WARNING, "An annotation that nothing looks at, by its name or its place"
)
def annotation_misspelt(inventory: Inventory) -> Iterator[Remark]:
    given = [(item.manifest, item.meta, item.annotations) for item in inventory.templates]
    given += [
        (view.manifest, "spec.template.metadata", view.pool.spec.template.metadata.annotations)
        for view in inventory.pools
    ]
    for manifest, meta, names in given:
        for key in names:
            near = nearest(key, _ANNOTATIONS, alike=0.92)
            if near and key not in _ANNOTATIONS:
                yield Remark(
                    manifest.located,
                    f"{meta}.annotations.{key}",
                    f"{key} is no annotation that is looked at",
                    "annotations of other names are kept and mean nothing",
                    f"did you mean {near[0]}?",
                )
    for template in _own(inventory):
        own = template.manifest.object.metadata.annotations
        if (
            template.meta != "metadata"
            and labels.DO_NOT_DISRUPT in own
            and labels.DO_NOT_DISRUPT not in template.annotations
        ):
            yield Remark(
                template.manifest.located,
                f"metadata.annotations.{labels.DO_NOT_DISRUPT}",
                f"{labels.DO_NOT_DISRUPT} is on {template.name}, and not on its pods",
                "only what pods carry themselves is looked at, so they move like any others",
                f"write it into {template.meta}.annotations",
            )


_ANNOTATIONS = (labels.DO_NOT_DISRUPT, "karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate")


@rule("WL018", "share-without-effect", _ERROR, "A share of on-demand pods that does not hold")
def share_without_effect(inventory: Inventory) -> Iterator[Remark]:
    name = labels.ON_DEMAND_SHARE
    for template in _own(inventory):
        pod, path = _pod(template), f"{template.meta}.annotations.{name}"
        if name in template.annotations:
            try:
                share_of(pod)
            except ValueError as error:
                what, _, valid = str(error).partition(": ")
                why = "its pods wait at their scheduling gate until they are replaced"
                yield Remark(template.manifest.located, path, what, why, valid)
                continue
        if (name in template.annotations) == gated(pod):
            continue
        if gated(pod):
            yield Remark(
                template.manifest.located,
                f"{template.path}.schedulingGates",
                f"{template.pods} {_verb(template, 'wait')} at the gate {name} without a share",
                "nothing says which of them stay off spot, so that none passes",
                f'write {template.meta}.annotations with {name}: "2 + 30%", or take the gate away',
            )
        else:
            yield Remark(
                template.manifest.located,
                path,
                f"{name} without the scheduling gate of that name",
                "pods are told at the gate whether they stay off spot; without it the scheduler is faster",
                f"write {template.path}.schedulingGates with - name: {name}",
            )


@rule("WL012", "budget-selects-nothing", _WARNING, "A PodDisruptionBudget that selects no pod")
def budget_selects_nothing(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(PodDisruptionBudget):
        near = inventory.templates_by_namespace.get(item.metadata.namespace)
        selector = Selector.read(item.spec.selector)
        if not near or any(selector.matches(template.labels) for template in near):
            continue
        pods = (pod for _, pod in inventory.of(Pod) if pod.metadata.namespace == item.metadata.namespace)
        if any(selector.matches(pod.metadata.labels) for pod in pods):
            continue
        # An operator's pods, or those of files that are not here, may have labels that nothing tells here.
        if not any(_was_meant(item, template) for template in near):
            continue
        names = ", ".join(template.name for template in near[:3])
        yield Remark(
            manifest.located,
            "spec.selector",
            f"PodDisruptionBudget {item.metadata.name} selects none of the pods here",
            f"it protects nothing; in its namespace are {names}",
            "write labels of the pod template into it",
        )


@rule("WL015", "daemons-give-way", _WARNING, "A DaemonSet whose pods give way to the workloads beside them")
def daemons_give_way(inventory: Inventory) -> Iterator[Remark]:
    classes = {item.metadata.name: item for _, item in inventory.of(PriorityClass)}
    values = {**BUILT_IN_PRIORITIES, **{name: item.value for name, item in classes.items()}}
    usual = max((item.value for item in classes.values() if item.global_default), default=0)
    above = sorted(
        (
            (classes[template.spec.priority_class_name].value, template)
            for template in inventory.templates
            if template.spec.priority_class_name in classes
            and classes[template.spec.priority_class_name].preemption_policy != "Never"
            and template.replicas != 0
            and not isinstance(template.manifest.object, DaemonSet)
        ),
        key=lambda pair: -pair[0],
    )
    for template in inventory.templates:
        given = template.spec.priority_class_name
        own = values.get(given) if given else template.spec.priority or usual
        if not isinstance(template.manifest.object, DaemonSet) or own is None:
            continue  # a class that is not here is the cluster's
        wanted = pod_requests(_pod(template))
        if not wanted.get("cpu") and not wanted.get("memory"):
            continue  # to remove it makes no room
        higher = (pair for pair in above if pair[0] > own)
        found = next(((value, one) for value, one in higher if _meet(inventory, template, one)), None)
        if found is not None:
            yield Remark(
                template.manifest.located,
                f"{template.path}.priorityClassName" if given else template.path,
                f"the pods of {template.name} have priority {own}, those of {found[1].name} have {found[0]}",
                "where a node is full, kube-scheduler removes daemon pods to make room for others, and the "
                "new ones wait until there is some again",
                "write priorityClassName: system-node-critical, or a class that is as high",
            )


@rule("WL016", "buffer-keeps-nothing", _WARNING, "A CapacityBuffer that keeps no room")
def buffer_keeps_nothing(inventory: Inventory) -> Iterator[Remark]:
    kinds: tuple[type[Object], ...] = (PodTemplate, Deployment, StatefulSet, ReplicaSet)
    there = {(kind, item.key): item for kind in kinds for _, item in inventory.of(kind)}
    for manifest, buffer in inventory.of(CapacityBuffer):
        found = resolve(buffer, lambda kind, key: there.get((kind, key)))
        if found.template is None:
            near = [item.metadata.name for item in there.values() if _beside(buffer, item)]
            if found.reason != "ResolutionFailed" and not near:
                continue  # what it refers to may well be in files that are not here
            named = f"; in its namespace are {', '.join(near[:3])}" if near else ""
            field = "podTemplateRef" if buffer.spec.pod_template_ref else "scalableRef"
            yield Remark(
                manifest.located,
                "spec" if found.message.startswith("Neither") else f"spec.{field}",
                f"CapacityBuffer {buffer.metadata.name} keeps nothing: {found.message}",
                f"no node is bought for it, and its condition ReadyForProvisioning stays False{named}",
                "refer to a PodTemplate, Deployment, StatefulSet or ReplicaSet of its namespace",
            )
        elif not replicas(buffer, found) and buffer.spec.replicas != 0 and buffer.spec.percentage != 0:
            yield Remark(
                manifest.located,
                "spec.limits" if buffer.spec.limits else "spec",
                f"CapacityBuffer {buffer.metadata.name} keeps no room for a single pod",
                "its limits are below what one pod asks for, or about nothing that it asks for"
                if buffer.spec.limits
                else "it has no replicas, or a percentage of a workload without any",
                "write replicas, or limits that one pod goes into",
            )


def _beside(buffer: CapacityBuffer, item: Object) -> bool:
    """True iff the buffer may have meant it."""
    wanted = PodTemplate if buffer.spec.pod_template_ref else (Deployment, StatefulSet, ReplicaSet)
    return isinstance(item, wanted) and item.metadata.namespace == buffer.metadata.namespace


def _meet(inventory: Inventory, one: Template, other: Template) -> bool:
    """True iff pods of a DaemonSet may be beside others: of one pool, or without any, on every node."""
    if not inventory.pools:
        return not _selects(one.spec)
    wanted = [_wanted(template) or () for template in (one, other)]
    return any(
        all(
            not untolerated(view.hard_taints, template.spec.tolerations)
            and any(view.requirements.suits(item, labels.AWS_WELL_KNOWN) for item in asked)
            for template, asked in zip((one, other), wanted, strict=True)
        )
        for view in inventory.pools
    )


def _was_meant(budget: PodDisruptionBudget, template: Template) -> bool:
    """True iff a budget is for a template by its name, or all its labels are nearly the template's."""
    if budget.metadata.name == template.manifest.object.metadata.name:
        return True
    return _nearly_selects(budget.spec.selector or LabelSelector(), template)


def _nearly_selects(selector: LabelSelector, template: Template) -> bool:
    wanted = selector.match_labels
    return bool(wanted) and all(
        value in template.labels.values() or _nearly(value, template.labels.get(key, ""))
        for key, value in wanted.items()
    )


def _nearly(word: str, known: str) -> bool:
    return sorted(word) == sorted(known) or bool(nearest(word, [known], alike=_A_SLIP))


def _wanted(template: Template) -> Sequence[Requirements] | None:
    """What its pods ask of nodes; None for what cannot be read, which is reported where it is refused."""
    try:
        return pod_requirements(_pod(template))
    except ValueError:
        return None


def _pod(template: Template) -> Pod:
    return Pod(
        metadata=Meta(labels=dict(template.labels), annotations=dict(template.annotations)),
        spec=template.spec,
    )


RULES = (
    no_requests,
    no_memory_request,
    placeholder_priority,
    do_not_disrupt_value,
    do_not_disrupt_for_ever,
    anti_affinity_forbids_consolidation,
    budget_never_allows,
    spread_over_region,
    selects_others,
    no_pool_fits,
    taint_not_tolerated,
    budget_selects_nothing,
    annotation_misspelt,
    daemons_give_way,
    buffer_keeps_nothing,
    share_without_effect,
)
