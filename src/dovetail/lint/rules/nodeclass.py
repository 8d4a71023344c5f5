"""NC: node classes: nodes' identity, what they boot, what their selectors find, what their volumes cost."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import SequenceMatcher
from statistics import median_low
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, SelectorTerm
from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.api.meta import condition
from dovetail.base.errors import InputError
from dovetail.base.guess import meant, nearest
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily.userdata.check import remarks
from dovetail.cloud.aws.nodeclass.validation import faults
from dovetail.cloud.catalog.settings import ami_family
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, PoolView, nested
from dovetail.model import labels
from dovetail.reading import Located, Manifest
from dovetail.reading.paths import at
from dovetail.reading.terraform import is_expression
from dovetail.units.money import NANO_DOLLARS

_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
_TERMS = ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
_TAGS = ("karpenter.sh/discovery", "alpha.eksctl.io/cluster-name", "kubernetes.io/role/internal-elb")
_OF_A_CLUSTER = "kubernetes.io/cluster"  # with the cluster's name after it
# Words of tag keys that are written wrong by a letter.
_WORDS = ("karpenter", "kubernetes", "discovery", "provisioner", "nodepool", "environment", "cluster")
CONTROLLERS_ROLE = re.compile(r"irsa|(?:^|[-_./])controller|karpenter[-_]?controller|pod[-_]?identity", re.I)
_FAMILIES = {"al2023": "AL2023", "bottlerocket": "Bottlerocket", "windows": "Windows"}
_MOST_COMPARED = 50
_MOST_NAMED = 5  # of many classes
_A_SHARE = 4  # a volume that costs a quarter of its instance is worth a word
_LEAST_CORES, _LEAST_MEMORY = 2_000, 3 << 30  # of a node that is bought for more than a daemon
_ASK_FOR_IOPS, _TAKE_NO_IOPS = ("io1", "io2"), ("gp2", "st1", "sc1", "standard")
_WORTH_TELLING = NANO_DOLLARS // 100  # nano-dollars an hour
_READY = (
    ("SubnetsReady", "subnetSelectorTerms", "subnet"),
    ("SecurityGroupsReady", "securityGroupSelectorTerms", "security group"),
    ("AMIsReady", "amiSelectorTerms", "image"),
)


@rule("NC001", "controller-role-as-node-role", _ERROR, "The controller's role as the role of nodes")
def controller_role(inventory: Inventory) -> Iterator[Remark]:
    annotated = {
        str(role).rpartition("/")[2]
        for values in inventory.values
        for role in _role_annotations(nested(values.value))
    }
    for manifest, item in inventory.of(EC2NodeClass):
        role = item.spec.role
        same = bool(role) and role.rpartition("/")[2] in annotated
        if same or looks_like_the_controllers(role):
            yield Remark(
                manifest.located,
                "spec.role",
                f"role {role} {'is' if same else 'looks like'} the role of the controller",
                "only the controller's service account may take it on, so nodes cannot join: a claim is "
                "launched, "
                "never registered and deleted after 15 minutes",
                "name the nodes' role, the one with AmazonEKSWorkerNodePolicy (KarpenterNodeRole-…)",
                severity=_ERROR if same else _WARNING,
            )


def looks_like_the_controllers(role: str) -> bool:
    """True iff a role is called as the controller's usually is, and does not say that it is for nodes."""
    return bool(CONTROLLERS_ROLE.search(role)) and "node" not in role.lower()


def _role_annotations(values: Any) -> Iterator[Any]:
    account = values.get("serviceAccount") if isinstance(values, dict) else None
    given = account.get("annotations") if isinstance(account, dict) else None
    if isinstance(given, dict) and given.get("eks.amazonaws.com/role-arn"):
        yield given["eks.amazonaws.com/role-arn"]


@rule("NC003", "selector-tag-off", _WARNING, "A tag in a selector that is like the usual one, and is another")
def selector_tag_off(inventory: Inventory) -> Iterator[Remark]:
    clusters = _cluster_names(inventory)
    for manifest, item in inventory.of(EC2NodeClass):
        used = {key for name in _TERMS for term in _terms(item, name) for key in term.tags}
        for name in _TERMS:
            for index, term in enumerate(_terms(item, name)):
                for key in term.tags:
                    # Terraform that works out the name of the cluster for the key tags by the same words.
                    named = key == f"{_TAGS[0]}/{term.tags[key]}" and is_expression(key)
                    meant = "" if named else _near_tag(key, used)
                    if meant:
                        yield Remark(
                            manifest.located,
                            f"spec.{name}[{index}].tags.{key}",
                            f"tag {key} in {name}",
                            f"tags match by their letters, and {meant} is what is usual; with nothing "
                            "found the "
                            "class never becomes ready and its pools buy nothing",
                            f"did you mean {meant}? dovetail check aws shows what is tagged",
                        )
                    elif of := _other_value(item, key, term.tags[key], clusters):
                        yield Remark(
                            manifest.located,
                            f"spec.{name}[{index}].tags.{key}",
                            f"tag {key} is {term.tags[key]} in {name}, and {of[0]} in {of[1]}",
                            "tags match by their letters, so one of the two finds nothing",
                            f"did you mean {of[0]}?",
                        )


def _terms(item: EC2NodeClass, name: str) -> tuple[SelectorTerm, ...]:
    return {
        "subnetSelectorTerms": item.spec.subnet_selector_terms,
        "securityGroupSelectorTerms": item.spec.security_group_selector_terms,
        "amiSelectorTerms": item.spec.ami_selector_terms,
    }[name]


def _cluster_names(inventory: Inventory) -> dict[str, str]:
    """What values call the cluster, and where they say it."""
    found = {}
    for values in inventory.values:
        settings = nested(values.value).get("settings")
        name = settings.get("clusterName") if isinstance(settings, dict) else None
        if isinstance(name, str) and name:
            found[name] = "settings.clusterName"
    return found


def _other_value(
    item: EC2NodeClass, key: str, value: str, clusters: dict[str, str]
) -> tuple[str, str] | None:
    """(value, where it is) of the cluster's name, or of the same tag in other terms, that differs by a slip.

    Of two values of a class, the one that the fewer terms have is the slip, and the first one of a draw.
    """
    if key != _TAGS[0] or value in clusters:
        return None
    for name, where in clusters.items():
        if _slip(value, name):
            return name, where
    held = [(term.tags[key], name) for name in _TERMS[:2] for term in _terms(item, name) if key in term.tags]
    values = [each for each, _ in held]
    for other, where in held:
        first = values.index(value) < values.index(other)
        seldom = (values.count(value), not first) < (values.count(other), first)
        if _slip(value, other) and seldom:
            return other, where
    return None


def _near_tag(key: str, used: set[str]) -> str:
    """The usual tag that a key was meant to be: by a letter, or by what was added to it."""
    for known in _TAGS:
        if key == known:
            return ""
        if _one_off(key, known) or (key.startswith(f"{known}/") and (known in used or known == _TAGS[0])):
            return known
    # The usual name in another domain of Karpenter's, or a cluster's own tag.
    if re.fullmatch(r"karpenter[\w.]*/discovery", key):
        return _TAGS[0]
    beginning, _, cluster = key.rpartition("/")
    if cluster and beginning != _OF_A_CLUSTER and _one_off(beginning, _OF_A_CLUSTER):
        return f"{_OF_A_CLUSTER}/{cluster}"
    return ""


def _one_off(word: str, known: str) -> bool:
    """True iff a word differs from another by a slip: one or two letters of a long word."""
    if word == known or abs(len(word) - len(known)) > 2:
        return False
    return SequenceMatcher(None, word, known, autojunk=False).ratio() >= 1 - 2 / max(len(word), len(known))


@rule("NC004", "selector-finds-nothing", _ERROR, "Selectors that matched nothing in the cluster's own words")
def selector_finds_nothing(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        for kind, field, what in _READY:
            found = condition(item.status.conditions, kind)
            if found is not None and found.status == "False":
                yield Remark(
                    manifest.located,
                    f"spec.{field}",
                    f"EC2NodeClass {item.metadata.name} finds no {what}",
                    f"the cluster says {found.reason}{': ' + found.message if found.message else ''}; "
                    "its pools buy nothing",
                    f"mend {field}, or tag what it shall find",
                )


@rule("NC005", "tag-misspelt", _WARNING, "A word in a tag's key that lacks a letter")
def tag_misspelt(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        for key in item.spec.tags:
            if usual := next((known for known in _TAGS if _one_off(key, known)), ""):
                yield Remark(
                    manifest.located,
                    f"spec.tags.{key}",
                    f"tag {key} is not {usual}",
                    "instances get it as it is, and whatever looks for the right one finds none",
                    f"did you mean {usual}?",
                )
                continue
            for word in re.findall(r"[A-Z]?[a-z]{5,}", key):
                near = next((known for known in _WORDS if _slip(word.lower(), known)), "")
                if near:
                    yield Remark(
                        manifest.located,
                        f"spec.tags.{key}",
                        f"tag {key}: {word} is not {near}",
                        "instances get it as it is, and whatever looks for the right one finds none",
                        "did you mean "
                        f"{key.replace(word, near.capitalize() if word[0].isupper() else near)}?",
                    )


def _slip(word: str, known: str) -> bool:
    """One letter left out, doubled or exchanged."""
    if word == known or word == f"{known}s" or f"{word}s" == known or abs(len(word) - len(known)) > 1:
        return False
    same = sum(
        block.size for block in SequenceMatcher(None, word, known, autojunk=False).get_matching_blocks()
    )
    return same >= max(len(word), len(known)) - 1


@rule("NC006", "class-invalid", _ERROR, "Settings that the AMI family cannot take")
def class_invalid(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        try:
            found = faults(item)
        except InputError as error:
            yield Remark(
                manifest.located,
                error.path or "spec",
                error.message,
                "the class never becomes ready",
                error.remedy,
            )
            continue
        for fault in found:
            path, _, message = fault.message.partition(":")
            named = re.match(r"spec\.[\w.\[\]]+", fault.message)
            at = named[0].rstrip(".") if named else "spec"
            if fault.reason == "UnsupportedKubeletConfiguration" and "would be" in fault.message:
                names = fault.message.rpartition(": ")[2].split(", ")
                for name in names:
                    yield Remark(
                        manifest.located,
                        f"spec.kubelet.{name}",
                        f"{name} on {ami_family(item)}",
                        "the family has no such setting; the class gets ValidationSucceeded=False "
                        f"({fault.reason})",
                        "set maxPods instead" if name == "podsPerCore" else "leave it out, or take AL2023",
                    )
                continue
            yield Remark(
                manifest.located,
                at,
                (message if path == at and message else fault.message).strip(),
                f"the class gets ValidationSucceeded=False ({fault.reason}), and its pools buy nothing",
                "",
            )


# In a line that is no remark.
_BOOTSTRAP = re.compile(r"^[ \t]*(?!#)\S?.*?(/etc/eks/bootstrap\.sh)", re.M)
# Folders of AL2023's kubelet that are none: the one that is read is config.json.d.
_WRONG_FOLDER = re.compile(r"/etc/kubernetes/kubelet/(?!config\.json\.d/)conf[\w.-]*\.d/")


@rule("NC007", "user-data", _WARNING, "User data of another AMI family, or without effect")
def user_data(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        text, family = item.spec.user_data, ami_family(item)
        if not text:
            continue
        if family == "AL2023" and (match := _BOOTSTRAP.search(text)):
            yield Remark(
                manifest.located,
                "spec.userData",
                "user data calls /etc/eks/bootstrap.sh on AL2023",
                "AL2023 has nodeadm instead of that script, so the line fails and nothing of it holds",
                "write a NodeConfig (apiVersion: node.eks.aws/v1alpha1); dovetail check userdata reads it",
                severity=_ERROR,
                place=_line(manifest, text.count("\n", 0, match.start(1))),
            )
            continue
        if family == "AL2023" and (match := _WRONG_FOLDER.search(text)):
            yield Remark(
                manifest.located,
                "spec.userData",
                f"user data names {match[0]}, which the kubelet does not read",
                "a file in a folder that nothing looks at has no effect",
                "write to /etc/kubernetes/kubelet/config.json.d/, or set it in a NodeConfig",
                place=_line(manifest, text.count("\n", 0, match.start())),
            )
        for remark in remarks(text, family):
            if not remark.fatal:
                yield Remark(
                    manifest.located,
                    "spec.userData",
                    f"user data: {remark.message}",
                    f"as {family} reads it",
                    remark.remedy,
                    place=_line(manifest, (remark.line or 1) - 1),
                )


def _line(manifest: Manifest, below: int) -> tuple[int, int]:
    """Line and column of a line of the user data, which is a block below its key."""
    line, column = manifest.located.place_of("spec.userData")
    return (line + 1 + below, column + 2) if line else (line, column)


@rule("NC008", "dear-volume", _WARNING, "Volumes that cost as much as a good part of the instance")
def dear_volume(inventory: Inventory) -> Iterator[Remark]:
    for name, (manifest, item) in inventory.classes.items():
        if not any(mapping.ebs for mapping in item.spec.block_device_mappings):
            continue
        users = [view for view in inventory.pools if view.node_class is item and view.types]
        for view in users:
            texts = _volume(view, item)
            if texts:
                yield Remark(manifest.located, "spec.blockDeviceMappings", *texts(name))
                break


def _volume(view: PoolView, item: EC2NodeClass) -> Any:
    try:
        volumes = catalog.volume_price(view.region, item)
    except InputError:
        return None
    prices = sorted(
        offering.price
        for kind in view.types
        for offering in kind.offerings[:1]
        if offering.price and offering.capacity_type == labels.ON_DEMAND
    ) or sorted(
        offering.price
        for kind in view.types
        for offering in kind.offerings
        if offering.price and offering.capacity_type == labels.ON_DEMAND
    )
    if not prices or volumes < _WORTH_TELLING:
        return None
    # A pool of many sizes buys small nodes as well, for which a volume of the middle's size is dear.
    useful = sorted(
        offering.price
        for kind in view.types
        if kind.capacity.get("cpu", 0) >= _LEAST_CORES and kind.capacity.get("memory", 0) >= _LEAST_MEMORY
        for offering in kind.offerings[:1]
        if offering.price and offering.capacity_type == labels.ON_DEMAND
    )
    of_the_middle = volumes * _A_SHARE >= median_low(prices)
    if not of_the_middle and not (useful and volumes >= useful[0]):
        return None
    price = median_low(prices) if of_the_middle else useful[0]
    instance = "an instance" if of_the_middle else "the cheapest instance"
    share = 100 * volumes / price
    where = view.region if view.known else f"{view.region}, where no region is known"

    def texts(name: str) -> tuple[str, str, str]:
        return (
            f"the volumes of EC2NodeClass {name} cost ${volumes / NANO_DOLLARS:.3f} an hour and node",
            f"that is {share:.0f} % of what {instance} of NodePool {view.name} costs on demand "
            f"(${price / NANO_DOLLARS:.3f} in {where})",
            "make them as large as pods need; larger ones come with new nodes",
        )

    return texts


@rule("NC009", "image-of-another-family", _ERROR, "Images by a name of another family than amiFamily")
def image_of_another_family(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        family = item.spec.ami_family
        if family in ("", "Custom"):
            continue
        for index, term in enumerate(item.spec.ami_selector_terms):
            of = _family_of(term.name)
            if of and of != (family.rstrip("0123456789") if of == "Windows" else family):
                yield Remark(
                    manifest.located,
                    f"spec.amiSelectorTerms[{index}].name",
                    f"images {term.name} are {of}'s, and amiFamily is {family}",
                    f"the machine gets what {family} understands, so it does not join",
                    f"write an alias instead of both, such as {family.lower()}@latest",
                )


def _family_of(name: str) -> str:
    lower = name.lower()
    found = next((family for word, family in _FAMILIES.items() if word in lower), "")
    return found or ("AL2" if re.match(r"amazon-eks-(gpu-|arm64-)?node-(?!al2023)", lower) else "")


@rule("NC010", "image-lacks-architecture", _WARNING, "arm64 in a pool whose images are x86-64's only")
def image_lacks_architecture(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        item = view.node_class
        if item is None or not view.requirements.has(labels.ARCH):
            continue
        names = [term.name for term in item.spec.ami_selector_terms]
        if not names or not all(names):
            continue
        wanted = view.requirements.get(labels.ARCH)
        for arch, words in (("arm64", ("arm64", "aarch64")), ("amd64", ("x86_64", "amd64"))):
            other = ("x86_64", "amd64") if arch == "arm64" else ("arm64", "aarch64")
            if wanted.has(arch) and all(any(word in name for word in other) for name in names):
                yield Remark(
                    view.manifest.located,
                    view.path_of(labels.ARCH),
                    f"NodePool {view.name} allows {arch}, and EC2NodeClass {item.metadata.name} has no "
                    "image for it",
                    f"types of {arch} are left out, whatever they would save",
                    f"add a term for images of {arch} ({' or '.join(words)} in their name), or leave "
                    f"{arch} out",
                )


@rule("NC011", "class-unused", _WARNING, "A class that no pool names")
def class_unused(inventory: Inventory) -> Iterator[Remark]:
    named = {view.pool.spec.template.spec.node_class_ref.name for view in inventory.pools}
    if not named:
        return
    for name, (manifest, item) in inventory.classes.items():
        if name and name not in named and not item.deleting:
            yield Remark(
                manifest.located,
                "metadata.name",
                f"no pool names EC2NodeClass {name}",
                f"its tags, images and selectors reach no node: here {_some(named, 'named')}",
                f"name it in nodeClassRef.name of the pool it is for{_pool_of(inventory, name)}",
            )


def _meant(name: str, known: Collection[str]) -> str:
    """Which of the classes it is; of very many that would take long to say."""
    otherwise = "name one of them, or check the file with the class too"
    return meant(name, known, otherwise) if len(known) <= _MOST_COMPARED else otherwise


def _some(names: Collection[str], what: str = "") -> str:
    """Some of many names, as a sentence's end."""
    shown = sorted(names)[:_MOST_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    verb = "is" if len(names) == 1 else "are"
    return f"{verb} {what + ' ' if what else ''}{', '.join(shown)}{more}"


def _pool_of(inventory: Inventory, name: str) -> str:
    return f", such as NodePool {name}" if any(view.name == name for view in inventory.pools) else ""


@rule("NC012", "class-missing", _WARNING, "A pool whose class is not there")
def class_missing(inventory: Inventory) -> Iterator[Remark]:
    for view in inventory.pools:
        if slip := _misnamed(view.pool.spec.template.spec.node_class_ref):
            field, given, meant = slip
            yield Remark(
                view.manifest.located,
                f"spec.template.spec.nodeClassRef.{field}",
                f"NodePool {view.name} names a class of {field} {given}, which there is not",
                "without its class the pool is never ready",
                f"did you mean {meant}?",
                severity=_ERROR,
            )
    if not inventory.classes:
        return
    for view in inventory.pools:
        reference = view.pool.spec.template.spec.node_class_ref
        if reference.kind == EC2NodeClass.KIND and view.node_class is None and "<" not in reference.name:
            path = "spec.template.spec.nodeClassRef.name"
            yield Remark(
                view.manifest.located,
                path,
                f"NodePool {view.name} names EC2NodeClass {reference.name}, which is not here",
                f"here {_some(inventory.classes)}; without its class the pool is never ready",
                _meant(reference.name, inventory.classes),
                severity=_ERROR if inventory.snapshot else None,
            )


# What classes are called here; those of other providers have names of their own.
_CLASSES = {"EC2NodeClass": "karpenter.k8s.aws", "KWOKNodeClass": "karpenter.kwok.sh"}


def _misnamed(reference: NodeClassRef) -> tuple[str, str, str] | None:
    """(field, what it holds, what was meant) of a reference that nearly names a kind, or not its group."""
    kind, group = reference.kind, reference.group
    if kind in _CLASSES:
        return ("group", group, _CLASSES[kind]) if group != _CLASSES[kind] else None
    near = nearest(kind, list(_CLASSES), alike=0.85)
    return ("kind", kind, near[0]) if near and group == _CLASSES[near[0]] else None


@rule("NC013", "latest-image", _INFO, "Images that change by themselves", default=False)
def latest_image(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        for index, term in enumerate(item.spec.ami_selector_terms):
            if term.alias.endswith("@latest"):
                yield Remark(
                    manifest.located,
                    f"spec.amiSelectorTerms[{index}].alias",
                    f"images follow {term.alias}",
                    "a new image drifts every node, within budgets, without a trial before",
                    "pin a version that was tried, such as al2023@v20250403, and move it on purpose",
                )


@rule("NC014", "al2-ends", _INFO, "Amazon Linux 2, which is no longer supported", default=False)
def al2_ends(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        if ami_family(item) == "AL2":
            yield Remark(
                manifest.located,
                "spec.amiFamily" if item.spec.ami_family else "spec.amiSelectorTerms",
                f"EC2NodeClass {item.metadata.name} boots Amazon Linux 2",
                "its support ended on 2025-06-30, and there is no image for Kubernetes 1.33 and later",
                "take al2023@latest; user data is written otherwise there (a NodeConfig)",
            )


@rule("NC015", "pods-per-core-ignored", _WARNING, "podsPerCore on Bottlerocket")
def pods_per_core_ignored(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        if ami_family(item) == "Bottlerocket" and "podsPerCore" in item.spec.kubelet:
            located, path = _kubelet(inventory, manifest, item)
            yield Remark(
                located,
                f"{path}.podsPerCore",
                f"EC2NodeClass {item.metadata.name} sets podsPerCore on Bottlerocket",
                "Bottlerocket has no such setting, so nodes take as many pods as their interfaces allow",
                "set maxPods, or take AL2023",
            )


@rule("NC016", "volume-iops", _ERROR, "IOPS that the type of a volume lacks or does not take")
def volume_iops(inventory: Inventory) -> Iterator[Remark]:
    for manifest, item in inventory.of(EC2NodeClass):
        for index, mapping in enumerate(item.spec.block_device_mappings):
            kind = mapping.ebs.volume_type if mapping.ebs is not None else ""
            given = mapping.ebs.iops if mapping.ebs is not None else None
            if (kind in _ASK_FOR_IOPS) is (given is None) and kind in (*_ASK_FOR_IOPS, *_TAKE_NO_IOPS):
                yield Remark(
                    manifest.located,
                    f"spec.blockDeviceMappings[{index}].ebs.{'volumeType' if given is None else 'iops'}",
                    f"EC2NodeClass {item.metadata.name} has a volume of type {kind} with"
                    f"{'out' if given is None else ''} iops",
                    "EC2 refuses to launch an instance with it, so no claim of this class becomes a node",
                    "give iops, such as 3000, or take gp3"
                    if given is None
                    else "leave iops out, or take gp3",
                )


def _kubelet(inventory: Inventory, manifest: Manifest, item: EC2NodeClass) -> tuple[Located, str]:
    """Where the kubelet's settings of a class are written: older generations have them in the pool."""
    if manifest.located.place_of("spec.kubelet") != manifest.located.place_of("spec"):
        return manifest.located, "spec.kubelet"
    starts = {
        (view.manifest.source, view.manifest.located.line)
        for view in inventory.pools
        if view.node_class is item
    }
    for written in inventory.written:
        if (written.source, written.line) in starts:
            for path in ("spec.template.spec.kubelet", "spec.kubeletConfiguration"):
                if at(written.value, f"{path}.podsPerCore") is not None:
                    return written, path
    return manifest.located, "spec.kubelet"


RULES = (
    pods_per_core_ignored,
    volume_iops,
    controller_role,
    selector_tag_off,
    selector_finds_nothing,
    tag_misspelt,
    class_invalid,
    user_data,
    dear_volume,
    image_of_another_family,
    image_lacks_architecture,
    class_unused,
    class_missing,
    latest_image,
    al2_ends,
)
