"""Whole sets of objects of any generation -> v1, with what only a set shows.

The kubelet's settings move from pools into classes, which pools share; references and workloads name what
other objects have become. Nothing is guessed: what has no counterpart is left as it is and reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dovetail.api.admission import SCHEMAS
from dovetail.api.generations import (
    alpha_schema,
    alpha_to_beta,
    beta_schema,
    beta_to_v1,
    v1_to_beta,
    workloads,
)
from dovetail.api.generations.admission import broken_rules, old_schema
from dovetail.api.generations.alpha_webhook import STABLE_LABELS
from dovetail.api.generations.editing import Change, Document, Editor, Path, copied, without_nulls
from dovetail.api.schema import unknown_fields, validate, with_defaults

_CLASS = ("karpenter.k8s.aws/v1", "EC2NodeClass")
_POOL = ("karpenter.sh/v1", "NodePool")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_TEMPLATE: Path = ("spec", "template", "spec")
_ALPHA_ORDER: tuple[tuple[Path, tuple[str, ...]], ...] = (
    ((), ("apiVersion", "kind", "metadata", "spec")),
    (("spec",), ("template", "limits", "disruption", "weight")),
    (("spec", "template"), ("metadata", "spec")),
    (_TEMPLATE, ("requirements", "taints", "startupTaints", "nodeClassRef", "expireAfter")),
    (("spec", "disruption"), ("consolidationPolicy", "consolidateAfter", "budgets")),
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What cannot be converted as it stands, and what to do; `path` is of the document as it was written."""

    path: Path
    text: str
    remedy: str
    whole: bool = False  # the object is left as it is, because of this


@dataclass(slots=True)
class Upgraded:
    """One object of the answer. `index` is the place of the input that it was made of."""

    index: int
    editor: Editor
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what changes without any field changing
    old: bool = False  # of an older generation, as it was written
    made: str = ""  # why the object is new, where it is
    inside: Path = ()  # where in the input the spec of a new object was

    @property
    def document(self) -> Document:
        """The object as it is now."""
        return self.editor.document

    def changes(self) -> tuple[Change, ...]:
        """What changed, with the paths of the input; a new object's are those of what it was made of."""
        changes = self.editor.changes()
        if not self.made:
            return changes
        return tuple(
            replace(change, old=self._inside(change.old))
            for change in changes
            if change.new is None or self.inside
        )

    def origin(self, path: Path) -> Path | None:
        """Where the value at a path is in the input; None if it is new."""
        found = self.editor.origin(path)
        return self._inside(found) if self.made else found

    def _inside(self, path: Path | None) -> Path | None:
        if path is None or len(path) < 2 or path[0] != "spec" or not self.inside:
            return None
        return (*self.inside, *path[1:])


def upgrade(documents: Sequence[Document], *, role: str = "") -> tuple[Upgraded, ...]:
    """The objects in v1, in order; new ones follow the one that they were made of.

    Each is taken as admitted by its own generation. `role` is the node role for classes that named none.
    The inputs are left as they are. Kinds that have one generation only have an empty list of changes.
    """
    found = [result for index, document in enumerate(documents) for result in _one(index, document, role)]
    placed = _place_kubelets(found)
    for result in placed:
        if is_old(documents[result.index]) and not is_old(result.document):
            result.troubles.extend(_refused_today(result))
    return tuple(placed)


def _refused_today(result: Upgraded) -> Iterator[Trouble]:
    """What today's definition says against an object that its own generation admitted."""
    schema = SCHEMAS[_key(result.document)]
    for field_ in unknown_fields(schema, result.document):
        yield Trouble(("spec",), f"{field_} is not a field of v1", "today's API server refuses that: mend it")
    for cause in validate(schema, with_defaults(schema, result.document)):
        if cause.field != "<nil>":
            yield Trouble(
                ("spec",), f"{cause.field}: {cause.message}", "today's API server refuses that: mend it"
            )


def _key(document: Document) -> tuple[str, str]:
    return str(document.get("apiVersion")), str(document.get("kind"))


def is_old(document: Document) -> bool:
    """True iff the object is of an older generation of Karpenter's kinds."""
    return _key(document) in _OLD


_ALPHA = frozenset({alpha_schema.PROVISIONER, alpha_schema.MACHINE, alpha_schema.NODE_TEMPLATE})
_OLD = _ALPHA | {beta_schema.NODE_POOL, beta_schema.NODE_CLAIM, beta_schema.EC2_NODE_CLASS}


def _one(index: int, document: Document, role: str) -> list[Upgraded]:
    if not is_old(document):
        result = Upgraded(index, Editor(document))
        workloads.modernise(result.editor)
        for path in workloads.forgotten(document):
            remedy = "ask for karpenter.k8s.aws/instance-cpu or instance-memory instead"
            result.troubles.append(
                Trouble(path, f"no node has the label {workloads.PODS_LABEL} any more", remedy)
            )
        return [result]
    document = without_nulls(document)
    try:
        editors = alpha_to_beta.editors(document) if _key(document) in _ALPHA else (Editor(document),)
    except alpha_to_beta.NotConvertible as error:
        return [_left(index, document, ("spec",), str(error), _REMEDIES["launchTemplate"])]
    found = []
    for editor in editors:
        result = Upgraded(index, editor, old=True)
        if editor is not editors[0]:
            result.made = f"the inline provider of {document['kind']} {document['metadata'].get('name', '')}"
            result.inside = ("spec", "provider")
        fatal = _to_v1(result, document, role)
        if fatal is not None:
            return [_left(index, document, fatal.path, fatal.text, fatal.remedy)]
        last = ("metadata", "annotations", _LAST_APPLIED)
        editor.drop(last, "kubectl would compare with an object of another generation")
        editor.tidy("metadata", "annotations")
        if result.made:
            for index_, trouble in enumerate(result.troubles):
                result.troubles[index_] = replace(trouble, path=result._inside(trouble.path) or result.inside)
        found.append(result)
    return found


def _left(index: int, document: Document, path: Path, text: str, remedy: str) -> Upgraded:
    return Upgraded(index, Editor(document), [Trouble(path, text, remedy, whole=True)])


_REMEDIES = {
    "launchTemplate": "write what the launch template says into the class: amiFamily, amiSelectorTerms, "
    "userData, blockDeviceMappings, securityGroupSelectorTerms and a role or an instanceProfile",
    "ubuntu": "name your image in amiSelectorTerms, such as [{name: 'ubuntu-eks/k8s_1.31/images/*', owner: "
    "'099720109477'}]",
    "ids": "split it by hand: terms of ids alone, and terms of tags alone",
    "role": "write the name of the nodes' IAM role, or an instanceProfile; `--role` does it for all",
    "podsPerCore": "set maxPods, or let the images' own rule hold",
}


def _to_v1(result: Upgraded, document: Document, role: str) -> Trouble | None:
    """Change what `alpha_to_beta` made, or a v1beta1 object; answers why that is not possible."""
    edit, alpha = result.editor, _key(document) in _ALPHA
    if _key(edit.document) == beta_schema.NODE_POOL:
        _pool(result, alpha)
    elif _key(edit.document) == beta_schema.NODE_CLAIM:
        edit.set(("apiVersion",), _POOL[0], "no longer served")
        beta_to_v1.reference_fields(edit, ("spec",))
        edit.set(("spec", "expireAfter"), "Never", "v1beta1 kept it in the NodePool only")
    else:
        return _class(result, alpha, role)
    return None


def _pool(result: Upgraded, alpha: bool) -> None:
    edit = result.editor
    edit.set(("apiVersion",), _POOL[0], "no longer served")
    policy: Path = ("spec", "disruption", "consolidationPolicy")
    if edit.get(*policy) == "WhenUnderutilized":
        why = "WhenUnderutilized always removed empty nodes too, and is called so in v1"
        edit.set(policy, "WhenEmptyOrUnderutilized", why)
    if edit.has("spec", "disruption") and edit.get(*policy) != "WhenEmpty":
        why = "v1 wants it said up to Karpenter 1.14; WhenUnderutilized did not wait for pods to settle"
        edit.set(("spec", "disruption", "consolidateAfter"), "0s", why)
    if edit.has("spec", "disruption", "expireAfter"):
        why = "it belongs to the node now: forceful, and part of drift"
        edit.move(("spec", "disruption", "expireAfter"), (*_TEMPLATE, "expireAfter"), why)
    edit.drop((*_TEMPLATE, "resources"), "v1 has no such field, and nothing ever read it in a pool")
    if alpha:
        for name in ("taints", "startupTaints"):
            for index, taint in enumerate(edit.get(*_TEMPLATE, name) or ()):
                if taint.get("value") == "":
                    edit.drop(
                        (*_TEMPLATE, name, index, "value"), "no value means the same, and v1 wants none"
                    )
    beta_to_v1.reference_fields(edit, _TEMPLATE)
    asked = edit.get(*_TEMPLATE, "requirements")
    for index, item in enumerate(asked if isinstance(asked, list) else ()):
        if isinstance(item, dict) and (now := STABLE_LABELS.get(str(item.get("key")))):
            where: Path = (*_TEMPLATE, "requirements", index, "key")
            edit.set(where, now, "it was read so already, and nodes carry the new one")
    if alpha:
        for path, order in _ALPHA_ORDER:
            edit.arrange(path, order)
    if edit.get(*_TEMPLATE, "expireAfter", default="720h") != "Never":
        result.notes.append("expiry is forceful in v1: a node's drain starts at once, without a replacement")


def _class(result: Upgraded, alpha: bool, role: str) -> Trouble | None:
    edit = result.editor
    trouble = _unclear_class(edit)
    if trouble is not None:
        return trouble
    beta_to_v1.class_fields(edit)
    edit.drop(("metadata", "annotations", beta_to_v1.UBUNTU), "")
    edit.tidy("metadata", "annotations")
    default_tokens = not edit.has("spec", "metadataOptions") or edit.has(
        "spec", "metadataOptions", "httpTokens"
    )
    hop: Path = ("spec", "metadataOptions", "httpPutResponseHopLimit")
    if not edit.has(*hop):
        limit = beta_schema.WRITTEN_FOR.hop_limit
        edit.set(hop, limit, "the old default; v1's is 1, which pods behind a bridge do not reach through")
    if edit.get("spec", "amiSelectorTerms") == [{"alias": "al2@latest"}]:
        result.notes.append(
            "there is no AL2 from Kubernetes 1.33 on: al2023@latest is next, with user data of its own"
        )
    if alpha and not default_tokens:
        result.notes.append("httpTokens was optional where v1alpha1 did not say it, and is required now")
    if edit.get("spec", "role") == alpha_to_beta.ROLE_PLACEHOLDER:
        if role:
            edit.set(("spec", "role"), role, "named with --role")
        else:
            text = "nothing says which IAM role the nodes have: it was in the old default instance profile"
            result.troubles.append(Trouble(("spec",), text, _REMEDIES["role"]))
    return None


def _unclear_class(edit: Editor) -> Trouble | None:
    if edit.get("spec", "amiFamily") == "Ubuntu" and not edit.get("spec", "amiSelectorTerms"):
        text = "v1 finds no Ubuntu images by itself"
        return Trouble(("spec", "amiFamily"), text, _REMEDIES["ubuntu"])
    for name in ("amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"):
        for term in edit.get("spec", name) or ():
            if "id" in term and len(term) > 1:
                text = f"a term of {name} holds an id and something else, which v1 does not admit"
                return Trouble(("spec", name), text, _REMEDIES["ids"])
    return None


def _place_kubelets(found: list[Upgraded]) -> list[Upgraded]:
    """The kubelet's settings of pools go into their classes; pools that differ get classes of their own."""
    classes = {
        str(result.document["metadata"].get("name", "")): result
        for result in found
        if _key(result.document) == _CLASS and isinstance(result.document.get("metadata"), dict)
    }
    users: dict[str, list[Upgraded]] = {}
    for result in found:
        reference = result.editor.get(*_TEMPLATE, "nodeClassRef")
        if _key(result.document) == _POOL and _to_ec2(reference):
            users.setdefault(str(reference.get("name")), []).append(result)
        else:
            _keep_in_annotation(result, "")
    new: dict[int, list[Upgraded]] = {}
    for name, pools in users.items():
        if not any(_kubelet(pool) is not None for pool in pools):
            continue
        if name not in classes:
            for pool in pools:
                _keep_in_annotation(pool, name)
            continue
        new.setdefault(id(classes[name]), []).extend(_share(name, classes[name], pools))
    return [item for result in found for item in (result, *new.get(id(result), ()))]


def _to_ec2(reference: Any) -> bool:
    if not isinstance(reference, dict):
        return False
    return (reference.get("group"), reference.get("kind")) == (_CLASS[0].partition("/")[0], _CLASS[1])


def _keep_in_annotation(result: Upgraded, class_name: str) -> None:
    """Settings without a class to go to: 1.0 reads them there, and no file needs a change."""
    spec: Path = _TEMPLATE if _key(result.document) == _POOL else ("spec",)
    kubelet = result.editor.get(*spec, "kubelet")
    if kubelet is None or not result.old or _key(result.document) == _CLASS:
        return
    origin = result.editor.origin((*spec, "kubelet")) or spec
    if kubelet:
        where = f"EC2NodeClass {class_name}" if class_name else "the class"
        text = f"the kubelet's settings belong to {where}, which is not among the files"
        remedy = f"write them there as spec.kubelet: {json.dumps(kubelet)}"
        result.troubles.append(Trouble(origin, text, remedy))
    beta_to_v1.keep_kubelet(result.editor, spec)


def _kubelet(pool: Upgraded) -> Any:
    """The settings in the template of a pool that was v1beta1 or older; v1 has no such field."""
    return pool.editor.get(*_TEMPLATE, "kubelet") if pool.old else None


def _share(name: str, node_class: Upgraded, pools: list[Upgraded]) -> Iterable[Upgraded]:
    """Give each of the different settings a class; the class itself keeps those of most need for it."""
    groups: dict[str, list[Upgraded]] = {}
    for pool in pools:
        kubelet = _kubelet(pool) or {}
        groups.setdefault(json.dumps(kubelet, sort_keys=True, default=str), []).append(pool)
    own = json.dumps(node_class.editor.get("spec", "kubelet") or {}, sort_keys=True, default=str)
    # Pools without settings keep the class as it is; else the first pool's settings go into it.
    keeps = own if own in groups else next(iter(groups)) if own == "{}" else ""
    plain = copied(node_class.document)
    for text, members in groups.items():
        kubelet = copied(_kubelet(members[0]) or {})
        target = node_class
        if text != keeps:
            target = _copy_of(name, plain, node_class, members)
            yield target
        elif kubelet and text != own:
            why = "v1 has the kubelet's settings in the class, not in the pool"
            target.editor.set(("spec", "kubelet"), kubelet, why)
        if text != keeps and kubelet:
            target.editor.own()["spec"]["kubelet"] = kubelet
        new_name = target.document["metadata"]["name"]
        for pool in members:
            _note_bottlerocket(pool, target.document)
            why = f"v1 has it in EC2NodeClass {new_name}" if kubelet else "it says nothing"
            if pool.old:
                pool.editor.drop((*_TEMPLATE, "kubelet"), why)
            if new_name != name:
                why = f"a class of its own, because pools of {name} had different kubelet settings"
                pool.editor.set((*_TEMPLATE, "nodeClassRef", "name"), new_name, why)
                pool.notes.append(f"its nodes drift once, because it refers to EC2NodeClass {new_name} now")


def _copy_of(name: str, plain: Document, node_class: Upgraded, members: list[Upgraded]) -> Upgraded:
    pool = members[0].document["metadata"].get("name", "")
    made = Editor(plain)
    made.own()["metadata"]["name"] = f"{name}-{pool}"
    return Upgraded(
        node_class.index, made, made=f"EC2NodeClass {name} with the kubelet settings of NodePool {pool}"
    )


def _note_bottlerocket(pool: Upgraded, node_class: Document) -> None:
    spec: dict[str, Any] = node_class.get("spec") or {}
    aliases = [str(term.get("alias", "")) for term in spec.get("amiSelectorTerms") or ()]
    bottlerocket = spec.get("amiFamily") == "Bottlerocket" or any(
        alias.startswith("bottlerocket@") for alias in aliases
    )
    where: Path = (*_TEMPLATE, "kubelet", "podsPerCore")
    if bottlerocket and pool.editor.has(*where):
        text = "Bottlerocket has no podsPerCore"
        pool.troubles.append(Trouble(pool.editor.origin(where) or where, text, _REMEDIES["podsPerCore"]))


def downgrade(documents: Sequence[Document]) -> tuple[Upgraded, ...]:
    """The objects in v1beta1, as far as that has fields for them; v1alpha5 goes up to it.

    What is lost is reported as a trouble. Raises nothing: what cannot be read is left as it is.
    """
    return tuple(result for index, document in enumerate(documents) for result in _one_down(index, document))


def _one_down(index: int, document: Document) -> list[Upgraded]:
    if _key(document) in _ALPHA | v1_to_beta.KINDS:
        document = without_nulls(document)
    if _key(document) in _ALPHA:
        try:
            editors = alpha_to_beta.editors(document)
        except alpha_to_beta.NotConvertible as error:
            return [_left(index, document, ("spec",), str(error), _REMEDIES["launchTemplate"])]
        return [Upgraded(index, editor) for editor in editors]
    result = Upgraded(index, Editor(document))
    if _key(document) not in v1_to_beta.KINDS:
        return [result]
    try:
        v1_to_beta.step(result.editor)
    except v1_to_beta.NotConvertible as error:
        remedy = "take the annotation away, or mend it"
        return [_left(index, document, ("metadata", "annotations"), str(error), remedy)]
    for change in result.changes():
        if change.why == v1_to_beta.LOST and change.old is not None:
            text = "v1beta1 has no field for it: it is lost"
            result.troubles.append(Trouble(change.old, text, "keep the v1 object, or do without"))
    schema = old_schema(result.document)
    for cause in broken_rules(schema, result.document) if schema is not None else ():
        path = v1_to_beta.path_of(cause.field)
        text = f"v1beta1 refuses what becomes of it: {cause.message}"
        where = result.editor.origin(path) or path
        result.troubles.append(Trouble(where, text, "write what v1beta1 takes, or keep the v1 object"))
    return [result]
