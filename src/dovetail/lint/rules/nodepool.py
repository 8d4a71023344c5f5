"""NP: what pools ask for, how long their nodes live, and when they may be disrupted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dovetail.api.generations.upgrade import is_old
from dovetail.api.karpenter import wellknown
from dovetail.base.clock import DAY, HOUR
from dovetail.base.guess import nearest
from dovetail.lint import shelf
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, PoolView
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.requirement import Requirements
from dovetail.model.resources import amounts, total
from dovetail.model.taints import HARD_EFFECTS
from dovetail.units.duration import parse_duration
from dovetail.units.quantity import parse_quantity

_LONGEST_LABEL = 63
_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_DEFAULT_LIFE = 720 * HOUR  # of nodes whose pool says nothing
_CPU_LABEL = "karpenter.k8s.aws/instance-cpu"
_CATEGORY = "karpenter.k8s.aws/instance-category"
_FAMILY = "karpenter.k8s.aws/instance-family"
_MEMORY_LABEL = "karpenter.k8s.aws/instance-memory"
_TEMPLATE = "spec.template.spec"
_GPU = "karpenter.k8s.aws/instance-gpu-manufacturer"


@rule("NP001", "no-type-fits", _ERROR, "Requirements that no instance type meets")
def no_type_fits(inventory: Inventory) -> Iterator[Remark]:
    for view in _aws(inventory):
        letters = [
            (index, item.operator, found)
            for index, item in enumerate(view.pool.spec.template.spec.requirements)
            if item.key == _CPU_LABEL and (found := [word for word in item.values if not word.isdigit()])
        ]
        for index, operator, found in letters:
            yield _letters_for_cores(view, index, operator, found)
        if not view.types and not letters:
            yield _none_left(view)


def _letters_for_cores(view: PoolView, index: int, operator: str, letters: list[str]) -> Remark:
    """Of categories, families or other words where a number of cores is wanted."""
    words, many = ", ".join(letters), len(letters) > 1
    if all(re.fullmatch("[a-z]+", word, re.I) for word in letters):
        kind, meant = "are categories" if many else "is a category", _CATEGORY
    else:
        kind, meant = "are no numbers" if many else "is no number", _FAMILY
    effect = f"{'they change' if many else 'it changes'} nothing" if view.types else "the pool buys nothing"
    return Remark(
        view.manifest.located,
        f"{_TEMPLATE}.requirements[{index}].key",
        f"{_CPU_LABEL} {operator} [{words}] is met by "
        f"{'every' if operator == 'NotIn' else 'no'} instance type",
        f"the label is a number of cores, and {words} {kind}; {effect}",
        f"did you mean {meant}?",
        severity=None if not view.types else _WARNING,
    )


def _none_left(view: PoolView) -> Remark:
    """The requirement without which there would be types, if there is one."""
    alone = [
        item
        for item in view.requirements
        if item.key in shelf.KEYS | {labels.ZONE, labels.CAPACITY_TYPE}
        and shelf.left(
            Requirements.of(other for other in view.requirements if other.key != item.key),
            view.region,
        )
    ]
    blamed = alone[0] if alone else None
    where = f" in {view.region}" if view.known else ""
    return Remark(
        view.manifest.located,
        view.path_of(blamed.key) if blamed else f"{_TEMPLATE}.requirements",
        f"no instance type{where} meets the requirements of NodePool {view.name}",
        f"none is left by {blamed}" if blamed else "no single one of them alone leaves none",
        "dovetail catalog shows the types with their labels",
    )


@rule("NP003", "unknown-type", _ERROR, "An instance type, a zone or another value that does not exist")
def unknown_type(inventory: Inventory) -> Iterator[Remark]:
    for view in _aws(inventory):
        for index, item in enumerate(view.pool.spec.template.spec.requirements):
            key = labels.ALIASES.get(item.key, item.key)
            if item.operator not in ("In", "NotIn"):
                continue
            for place, value in enumerate(item.values):
                judged = item.operator == "In" or _is_slip(key, value)
                found = _unknown_value(view, key, value) if judged else None
                if found:
                    what, why, fix = found
                    yield Remark(
                        view.manifest.located,
                        f"{_TEMPLATE}.requirements[{index}].values[{place}]",
                        what,
                        why,
                        fix,
                        severity=_ERROR if len(item.values) == 1 and item.operator == "In" else _WARNING,
                    )


# How types, families and sizes of EC2 are spelt, those of other regions and past ones too.
_SPELT = {
    labels.INSTANCE_TYPE: r"[a-z]+\d*[a-z]*(-\w+)?\.(nano|micro|small|medium|large|\d*xlarge|metal(-\d+xl)?)",
    f"{labels.AWS}instance-size": r"nano|micro|small|medium|large|\d*xlarge|metal(-\d+xl)?",
    f"{labels.AWS}instance-family": r"[a-z]+\d+[a-z]*(-\w+)?",
    f"{labels.AWS}instance-category": r"[a-z]{1,4}",
}


_FEW_VALUES = {
    labels.CAPACITY_TYPE: (labels.SPOT, labels.ON_DEMAND, labels.RESERVED),
    labels.OS: ("linux", "windows"),
    labels.ARCH: ("amd64", "arm64"),
}
# What other tools call them.
_OTHER_NAMES = {"x86_64": "amd64", "x86-64": "amd64", "x86": "amd64", "aarch64": "arm64", "arm": "arm64"}


def _meant_region(zone: str) -> str:
    """The region of a zone that names none, but nearly does; "" for zones of other kinds."""
    region = zone.rstrip("abcdefgh")
    if region in shelf.known_regions() or region == zone:
        return ""
    near = nearest(region, sorted(shelf.known_regions()), alike=0.9)
    return near[0] if near else ""


def _is_slip(key: str, value: str) -> bool:
    """True iff what is to be kept out is no name at all: one that is not sold here may well stand there."""
    return key in _SPELT and not re.fullmatch(_SPELT[key], value)


def _is_unlisted(key: str, value: str) -> bool:
    """True iff it is a real type or family that the packaged list lacks: no slip, and nothing to guess."""
    family = value.partition(".")[0] if key == labels.INSTANCE_TYPE else value
    return key in (labels.INSTANCE_TYPE, f"{labels.AWS}instance-family") and family in shelf.UNLISTED_FAMILIES


def _unknown_value(view: PoolView, key: str, value: str) -> tuple[str, str, str] | None:
    if "<" in value or "$" in value:
        return None
    if _is_unlisted(key, value):
        why = "EC2 has had it, and it may be gone: no plan here buys it"
        return (
            f"{value} is not in the packaged list of types",
            why,
            "leave it out, unless your region sells it",
        )
    if key == labels.INSTANCE_TYPE:
        if value not in shelf.every_name():
            lower = value.lower()
            near = [lower] if lower in shelf.every_name() else nearest(lower, shelf.every_name())
            why = "EC2 sells no type of that name"
            return f"there is no instance type {value}", why, f"did you mean {near[0]}?" if near else ""
        if view.known and value not in shelf.types(view.region):
            return f"{value} is not sold in {view.region}", "nodes of that type never come", "leave it out"
    elif key in _FEW_VALUES:
        if value not in _FEW_VALUES[key]:
            near = [_OTHER_NAMES.get(value, "")] if value in _OTHER_NAMES else []
            near = near or nearest(value.lower(), _FEW_VALUES[key])
            return (
                f"{key} is never {value}",
                f"it is {', '.join(_FEW_VALUES[key])}",
                f"did you mean {near[0]}?" if near else "",
            )
    elif key == labels.ZONE and value in shelf.known_regions():
        zones = ", ".join(sorted(shelf.zones(value)))
        return f"there is no zone {value}", "it is the name of a region", f"its zones are {zones}"
    elif key == labels.ZONE and (region := _meant_region(value)):
        return f"there is no zone {value}", "no region is called so", f"did you mean {region}{value[-1]}?"
    elif (
        key == labels.ZONE
        and view.known
        and value not in shelf.zones(view.region)
        and not shelf.is_local_zone(value)
    ):
        known = sorted(shelf.zones(view.region))
        return (
            f"{view.region} has no zone {value}",
            "no node comes there",
            f"its zones are {', '.join(known)}",
        )
    elif key in shelf.KEYS and key.startswith(labels.AWS) and key not in wellknown.AWS_PLACEMENT:
        known_values = shelf.known_values(view.region, key)
        if known_values and len(known_values) < 200 and value not in known_values and not value.isdigit():
            if key == _CPU_LABEL:
                return None  # reported as what it was meant to be
            near = [word for word in known_values if word == value.lower()] or nearest(value, known_values)
            why = f"no type{f' in {view.region}' if view.known else ''} has it"
            if key == _MEMORY_LABEL:
                return f"{key} is never {value}", "it is a number of MiB", _in_mebibytes(value)
            return f"{key} is never {value}", why, f"did you mean {near[0]}?" if near else ""
    return None


def _in_mebibytes(text: str) -> str:
    try:
        return f"write {parse_quantity(text).value() >> 20}"
    except ValueError:
        return "8192 is 8 GiB"


@rule("NP004", "label-one-letter-off", _WARNING, "A label that is like a well-known one, and is none")
def label_one_letter_off(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        for index, item in enumerate(view.pool.spec.template.spec.requirements):
            path = f"{_TEMPLATE}.requirements[{index}].key"
            if item.key in labels.ALIASES:
                now = labels.ALIASES[item.key]
                if item.key.startswith(("beta.", "failure-domain.beta.")):
                    yield Remark(
                        view.manifest.located,
                        path,
                        f"{item.key} is an old name",
                        f"it is read as {now}; nodes carry the new one",
                        f"write {now}",
                        lambda edit, index=index, now=now: edit.set(  # type: ignore[misc]
                            ("spec", "template", "spec", "requirements", index, "key"), now, ""
                        ),
                    )
            elif _as_auto_mode_says(view, item.key):
                continue  # NP024 says what it is
            elif (now := near_label(item.key)) and item.key not in view.pool.spec.template.metadata.labels:
                yield Remark(
                    view.manifest.located,
                    path,
                    f"{item.key} is no label that nodes have by themselves",
                    "it is taken for a label of your own, which the pool then lets pods choose",
                    f"did you mean {now}?",
                )


# Domains that Kubernetes, its providers and Karpenter name labels by, which are taken for one another.
_DOMAINS = frozenset(
    {
        "",
        "eks.amazonaws.com",  # what EKS Auto Mode calls its own
        "karpenter.k8s.aws",
        "karpenter.sh",
        "kubernetes.io",
        "node.kubernetes.io",
        "topology.k8s.aws",
        "topology.kubernetes.io",
    }
)
_SAID_OTHERWISE = {"architecture": "arch", "az": "zone", "availability-zone": "zone"}


def near_label(key: str) -> str:
    """The well-known label that a key of another name was meant to be; "" for one that is far from all."""
    known = labels.AWS_WELL_KNOWN | {labels.HOSTNAME}
    if key in known or key in labels.ALIASES:
        return ""
    domain, _, name = key.rpartition("/")
    if domain in _DOMAINS and (domain or name.startswith(("instance-", "capacity-type"))):
        name = _SAID_OTHERWISE.get(name, name)
        same = [one for one in sorted(known) if one.rpartition("/")[2] == name]
        if same:
            return same[0]
    near = nearest(key, sorted(known), alike=0.93)
    return near[0] if near else ""


@rule("NP005", "pools-overlap", _WARNING, "Pools that suit the same pods, with the same weight")
def pools_overlap(inventory: Inventory) -> Iterator[Remark]:
    views = [view for view in _aws(inventory) if view.pool.spec.replicas is None and view.types]
    names = {id(view): frozenset(kind.name for kind in view.types) for view in views}
    taints = {
        id(view): frozenset(
            (taint.key, taint.value, taint.effect)
            for taint in view.pool.spec.template.spec.taints
            if taint.effect in HARD_EFFECTS
        )
        for view in views
    }
    groups: dict[tuple[object, ...], list[PoolView]] = {}
    for view in views:
        own = frozenset(view.pool.spec.template.metadata.labels.items())
        groups.setdefault((view.pool.spec.weight, taints[id(view)], own), []).append(view)
    for members in groups.values():
        for place, view in enumerate(members):
            other = next(
                (
                    one
                    for one in members[:place]
                    if one.name != view.name
                    and inventory.one_cluster(one.manifest, view.manifest)
                    and one.requirements.overlaps(_without_pool(view))
                    and names[id(one)] & names[id(view)]
                    and one.capacity_types & view.capacity_types
                    and _own_keys(one) == _own_keys(view)
                ),
                None,
            )
            if other is not None:
                first = max(view.name, other.name)
                yield Remark(
                    view.manifest.located,
                    "metadata.name",
                    f"NodePools {other.name} and {view.name} suit the same pods at the same weight "
                    f"({view.pool.spec.weight})",
                    f"they differ in neither labels, taints nor types, so the name decides: {first} is "
                    "asked first",
                    "give one a weight, or a taint or label that pods ask for",
                )


def _without_pool(view: PoolView) -> Requirements:
    kept = (
        item
        for item in view.requirements
        if item.key not in (labels.NODEPOOL,) and not item.key.endswith("/ec2nodeclass")
    )
    return Requirements.of(kept)


def _own_keys(view: PoolView) -> frozenset[str]:
    """Labels of its own that pods may choose it by."""
    return frozenset(
        item.key
        for item in view.requirements
        if item.key not in labels.AWS_WELL_KNOWN and not item.key.endswith("/ec2nodeclass")
    )


@rule("NP007", "expires-too-soon", _WARNING, "Nodes that are replaced all the time, or at once")
def expires_too_soon(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        life = _duration(view.pool.spec.template.spec.expire_after)
        if life is None or life >= DAY:
            continue
        path = f"{_TEMPLATE}.expireAfter"
        if life <= 0:
            yield Remark(
                view.manifest.located,
                path,
                "expireAfter is 0s",
                "every node is past its time when it comes, and is drained at once",
                "write Never for nodes that do not expire, or 720h",
                severity=_ERROR,
            )
            continue
        nodes = len(inventory.nodes_by_pool.get(view.name, ())) or view.pool.status.nodes
        counted = f"the {nodes} nodes that run" if nodes else ""
        if not nodes:
            nodes = _most_nodes(view)
            counted = f"the {nodes} nodes that its limits allow" if nodes else ""
        a_day = DAY / life
        launches = (
            f"{a_day * nodes:,.0f} launches a day for {counted}"
            if nodes
            else f"{a_day:.0f} launches a day for each node"
        )
        yield Remark(
            view.manifest.located,
            path,
            f"nodes expire after {view.pool.spec.template.spec.expire_after}",
            f"{launches}; expiry drains a node at once, outside of budgets and before another one is there",
            "720h is the default; write Never if only drift shall renew nodes",
        )


def _most_nodes(view: PoolView) -> int:
    """How many nodes of the cheapest suitable size the limits allow; 0 without limits."""
    limits = amounts(view.pool.spec.limits)
    if "nodes" in limits:
        return limits["nodes"]
    sizes = sorted(view.types, key=lambda kind: kind.capacity.get("cpu", 0))
    if not sizes or not limits:
        return 0
    middle = sizes[len(sizes) // 2].capacity
    fits = [limits[name] // middle[name] for name in limits if middle.get(name)]
    return min(fits, default=0)


@rule("NP008", "expiry-with-pinned-image", _INFO, "Nodes that are renewed with the same image")
def expiry_with_pinned_image(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        written = view.manifest.located.value
        spec = (
            (((written.get("spec") or {}).get("template") or {}).get("spec") or {})
            if isinstance(written, dict)
            else {}
        )
        if not isinstance(spec, dict) or "expireAfter" not in spec or view.node_class is None:
            continue
        life = _duration(view.pool.spec.template.spec.expire_after)
        if life is None or life >= _DEFAULT_LIFE:
            continue
        terms = view.node_class.spec.ami_selector_terms
        pinned = [term for term in terms if term.id or (term.alias and not term.alias.endswith("@latest"))]
        if terms and len(pinned) == len(terms):
            yield Remark(
                view.manifest.located,
                f"{_TEMPLATE}.expireAfter",
                f"nodes expire, and {pinned[0].alias or pinned[0].id} is what they come back with",
                "a pinned image has no newer patches, however often nodes are renewed",
                "let drift renew nodes when the pin moves, or leave expireAfter to its default",
            )


@rule("NP013", "consolidation-contradicts", _WARNING, "Consolidation that is asked for and can never come")
def consolidation_contradicts(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        disruption = view.pool.spec.disruption
        after = _duration(disruption.consolidate_after)
        life = _duration(view.pool.spec.template.spec.expire_after)
        if disruption.consolidate_after == "Never" and disruption.consolidation_policy != "WhenEmpty":
            yield Remark(
                view.manifest.located,
                "spec.disruption.consolidateAfter",
                f"{disruption.consolidation_policy} with consolidateAfter: Never",
                "the policy asks for consolidation, and Never forbids all of it, empty nodes too",
                "write how long pods must have been still, such as 5m, or the policy WhenEmpty",
            )
        elif after is not None and life is not None and after >= life > 0:
            yield Remark(
                view.manifest.located,
                "spec.disruption.consolidateAfter",
                f"nodes expire after {view.pool.spec.template.spec.expire_after}, before "
                "consolidateAfter is over",
                "no node lives long enough to be consolidated",
                "make it shorter than expireAfter",
            )


@rule("NP014", "spot-with-one-type", _WARNING, "Spot nodes of one instance type only")
def spot_with_one_type(inventory: Inventory) -> Iterator[Remark]:
    for view in _aws(inventory):
        if labels.SPOT in view.capacity_types and len(view.types) == 1:
            only = labels.ON_DEMAND not in view.capacity_types
            yield Remark(
                view.manifest.located,
                view.path_of(labels.INSTANCE_TYPE),
                f"spot with one instance type, {view.types[0].name}",
                "when its pool is taken back, all nodes go at once"
                + (", and no other type can follow" if only else ""),
                "name at least five types of like size, or a range of generations and sizes",
            )


@rule("NP015", "limits-below-use", _WARNING, "Limits below what runs, or below one node")
def limits_below_use(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        limits = amounts(view.pool.spec.limits)
        count, used = used_by(inventory, view)
        for name, limit in sorted(limits.items()):
            path = f"spec.limits.{name}"
            written = view.pool.spec.limits[name]
            if used.get(name, 0) > max(0, limit):
                yield Remark(
                    view.manifest.located,
                    path,
                    f"the {f'{count} ' if count else ''}nodes of NodePool {view.name} have more {name} "
                    f"than its limit of {written}",
                    "nothing more is bought, and what goes is not replaced",
                    "raise the limit, or let nodes go first",
                )
            elif view.types and name in ("cpu", "memory"):
                least = min(kind.capacity.get(name, 0) for kind in view.types)
                if limit < least:
                    yield Remark(
                        view.manifest.located,
                        path,
                        f"a limit of {written} {name} is less than the smallest node has",
                        "the pool can never buy one",
                        "raise the limit, or allow smaller types",
                        severity=_ERROR,
                    )


def used_by(inventory: Inventory, view: PoolView) -> tuple[int, dict[str, int]]:
    """How many nodes a pool has and what they have: by its nodes, else its claims, else its own status."""
    running = [node.status.capacity for node in inventory.nodes_by_pool.get(view.name, ())]
    running = running or [claim.status.capacity for claim in inventory.claims_by_pool.get(view.name, ())]
    if running:
        return len(running), {**total(amounts(each) for each in running), "nodes": len(running)}
    found = amounts(view.pool.status.resources)
    return view.pool.status.nodes or found.get("nodes", 0), found


@rule("NP016", "min-values-cannot-hold", _ERROR, "minValues that more values are asked for than there are")
def min_values_cannot_hold(inventory: Inventory) -> Iterator[Remark]:
    for view in _aws(inventory):
        for index, item in enumerate(view.pool.spec.template.spec.requirements):
            if not item.min_values or not view.types:
                continue
            key = labels.ALIASES.get(item.key, item.key)
            found = shelf.values(view.types, key)
            if key in labels.AWS_WELL_KNOWN and len(found) < item.min_values:
                where = f" in {view.region}" if view.known else ""
                yield Remark(
                    view.manifest.located,
                    f"{_TEMPLATE}.requirements[{index}].minValues",
                    f"minValues {item.min_values} of {item.key} cannot hold",
                    f"the types that meet all requirements{where} have {len(found)} "
                    f"({', '.join(sorted(found)[:5])}{', …' if len(found) > 5 else ''})",
                    "lower it, or loosen the requirements",
                )


@rule("NP017", "gpu-pool-without-taint", _WARNING, "A pool of GPU nodes that any pod may fill")
def gpu_pool_without_taint(inventory: Inventory) -> Iterator[Remark]:
    for view in _aws(inventory):
        if not view.types or not all(_device(kind, view) for kind in view.types):
            continue
        if not any(taint.effect in HARD_EFFECTS for taint in view.pool.spec.template.spec.taints):
            name = _device(view.types[-1], view)
            yield Remark(
                view.manifest.located,
                f"{_TEMPLATE}.requirements",
                f"every node of NodePool {view.name} has {name}, and none has a taint",
                "pods that need no such device fill nodes that cost the most",
                f"add a taint, such as {name}:NoSchedule, which the device's pods tolerate",
            )


def _device(kind: InstanceType, view: PoolView) -> str:
    """The device that nodes of a type are bought for; "" for an ordinary one. A part of a GPU is one too."""
    found = shelf.devices(view.region).get(kind.name)
    if found:
        return min(found)
    return "nvidia.com/gpu" if kind.requirements.get(_GPU).values else ""


@rule("NP018", "pool-never-disrupted", _WARNING, "A pool all of whose nodes say do-not-disrupt")
def pool_never_disrupted(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        if view.pool.spec.template.metadata.annotations.get(labels.DO_NOT_DISRUPT) == "true":
            yield Remark(
                view.manifest.located,
                f"spec.template.metadata.annotations.{labels.DO_NOT_DISRUPT}",
                f"every node of NodePool {view.name} gets {labels.DO_NOT_DISRUPT}",
                "none is consolidated or replaced after drift; expiry, spot and deletion take them all "
                "the same",
                "annotate the pods that must not move, with a duration where they end",
            )


@rule(
    "NP019",
    "architecture-left-open",
    _INFO,
    "A pool that may buy arm64 nodes for pods whose images are not known to run there",
    default=False,
)
def architecture_left_open(inventory: Inventory) -> Iterator[Remark]:
    for view in _aws(inventory):
        found = shelf.values(view.types, labels.ARCH)
        if {"amd64", "arm64"} <= found:
            named = view.requirements.has(labels.ARCH)
            yield Remark(
                view.manifest.located,
                view.path_of(labels.ARCH),
                f"NodePool {view.name} may buy arm64 nodes",
                "the cheapest node decides, and an image without arm64 fails there with exec format error"
                + ("" if named else "; v1 has no default of amd64, v1alpha5 had"),
                "ask for kubernetes.io/arch amd64 until all images are known to have both",
            )


@rule("NP020", "no-limits", _INFO, "A pool that may buy without end", default=False)
def no_limits(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        if not view.pool.spec.limits:
            yield Remark(
                view.manifest.located,
                "spec",
                f"NodePool {view.name} has no limits",
                "a workload that scales without end buys without end",
                "write spec.limits.cpu and memory",
            )


@rule("NP022", "limit-of-nothing", _WARNING, "A limit on a resource that no node has")
def limit_of_nothing(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        for name in view.pool.spec.limits:
            if near := shelf.meant_resource(name, (*shelf.RESOURCES, "nodes")):
                yield Remark(
                    view.manifest.located,
                    f"spec.limits.{name}",
                    f"NodePool {view.name} limits {name}, which no node has",
                    "nothing is ever counted against it, so the pool buys without that limit",
                    f"did you mean {near}?",
                )


@rule("NP023", "pool-name-too-long", _ERROR, "A NodePool whose name is too long for a label")
def pool_name_too_long(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        if len(view.name) > _LONGEST_LABEL:
            yield Remark(
                view.manifest.located,
                "metadata.name",
                f"NodePool {view.name} has a name of {len(view.name)} characters",
                "claims and nodes carry it as the label karpenter.sh/nodepool, which takes "
                f"{_LONGEST_LABEL}: the pool is not valid and buys nothing",
                "give a shorter name",
            )


@rule("NP024", "auto-mode-pool", _WARNING, "A NodePool of EKS Auto Mode")
def auto_mode_pool(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        reference = view.pool.spec.template.spec.node_class_ref
        if reference.of_auto_mode:
            yield Remark(
                view.manifest.located,
                f"{_TEMPLATE}.nodeClassRef.group",
                f"NodePool {view.name} is of EKS Auto Mode, by its {reference.kind} {reference.name}",
                "Auto Mode runs it; Karpenter and Dovetail leave it alone",
                "where that is meant, all is well; otherwise name an EC2NodeClass of karpenter.k8s.aws, and "
                "write labels with karpenter.k8s.aws/ in place of eks.amazonaws.com/",
            )


def _as_auto_mode_says(view: PoolView, key: str) -> bool:
    return key.startswith("eks.amazonaws.com/") and view.pool.spec.template.spec.node_class_ref.of_auto_mode


@rule("NP021", "nodes-never-removed", _WARNING, "A Provisioner that never takes a node away")
def nodes_never_removed(inventory: Inventory) -> Iterator[Remark]:
    for located in inventory.written:
        spec = located.value.get("spec")
        if (
            located.value.get("kind") != "Provisioner"
            or not is_old(located.value)
            or not isinstance(spec, dict)
        ):
            continue
        consolidation = spec.get("consolidation")
        on = isinstance(consolidation, dict) and consolidation.get("enabled")
        if "ttlSecondsAfterEmpty" not in spec and not on:
            yield Remark(
                located,
                "spec",
                "neither ttlSecondsAfterEmpty nor consolidation.enabled is set",
                "nodes stay when they are empty, for ever; v1's default is to consolidate",
                "set consolidation.enabled, or in v1 leave disruption to its default",
            )


def _duration(text: str) -> int | None:
    """Nanoseconds; None for Never and for what cannot be read, which is reported elsewhere."""
    try:
        return None if text == "Never" else parse_duration(text)
    except ValueError:
        return None


def _aws(inventory: Inventory) -> Iterator[PoolView]:
    """Pools of EC2, of whose types the catalogue knows."""
    return (
        view for view in inventory.pools if view.pool.spec.template.spec.node_class_ref.kind == "EC2NodeClass"
    )


RULES = (
    no_type_fits,
    unknown_type,
    label_one_letter_off,
    pools_overlap,
    expires_too_soon,
    expiry_with_pinned_image,
    consolidation_contradicts,
    spot_with_one_type,
    limits_below_use,
    min_values_cannot_hold,
    gpu_pool_without_taint,
    pool_never_disrupted,
    architecture_left_open,
    no_limits,
    nodes_never_removed,
    limit_of_nothing,
    pool_name_too_long,
    auto_mode_pool,
)
