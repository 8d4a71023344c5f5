"""Node classes of a real account, rewritten for the simulated one.

Selectors of subnets, security groups and images find nothing there. What a class lets its NodePools buy is
kept: the zones of its subnets and the architectures of its images become requirements of the NodePools.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec

from dovetail.api.karpenter.ec2nodeclass import ALIAS_FAMILIES, EC2NodeClass
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily import images
from dovetail.cloud.catalog.settings import ami_family
from dovetail.cloud.simulated.account import DISCOVERY
from dovetail.model import labels

Document = dict[str, Any]
_ALIASES = {family: alias for alias, family in ALIAS_FAMILIES.items()}
# Where the cluster's version of Kubernetes has no images of the family any more, or not yet.
_SUCCESSORS = {"AL2": "AL2023", "Windows2025": "Windows2022"}
_GROUP = EC2NodeClass.API_VERSION.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The simulated cluster that classes are rewritten for. `version` is Kubernetes', such as "1.33"."""

    cluster: str
    version: str
    region: str


@dataclass(slots=True)
class Rewritten:
    """What became of which objects. The same change of several classes is noted once."""

    _names: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # (subject, text) -> objects

    def note(self, kind: str, name: str, subject: str, text: str) -> None:
        """`subject` is a field, or what the text is about."""
        self._names.setdefault((f"{kind} {{}}: {subject}", text), []).append(name)

    def assumed(self) -> dict[str, str]:
        """Subject -> old and new."""
        return {subject.format(", ".join(names)): text for (subject, text), names in self._names.items()}


def rewrite(
    objects: list[Document],
    written: Iterable[Mapping[str, Any]],
    around: Surroundings,
    given: Collection[str] = (),
) -> dict[str, str]:
    """Rewrite the EC2NodeClasses and the NodePools among the objects in place; answers what was assumed.

    `written` are the classes with their status, as the cluster has them; `given` names classes that are there
    beside the objects. A NodePool whose class is of another provider, or is not there, gets a class to stand
    in for it, which is added to the objects.
    """
    rewritten = Rewritten()
    _stand_ins(objects, around, rewritten, given)
    known = {each["metadata"]["name"]: each for each in written if each["kind"] == EC2NodeClass.KIND}
    for document in _of_kind(objects, EC2NodeClass.KIND):
        _class(document, around, rewritten)
        name = document["metadata"]["name"]
        mine = document["spec"].pop("userData", None)
        if mine or known.get(name, {}).get("spec", {}).get("userData"):
            rewritten.note(
                EC2NodeClass.KIND, name, "userData", "left out, and what it sets of the kubelet with it"
            )
    for pool in _of_kind(objects, "NodePool"):
        _pool(
            pool, known.get(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"], {}), around, rewritten
        )
    return rewritten.assumed()


def rewrite_new(
    objects: list[Document],
    before: Sequence[Mapping[str, Any]],
    around: Surroundings,
    given: Collection[str],
) -> dict[str, str]:
    """Rewrite objects that come later as those of `before` were, which are as the account has them.

    Classes that select other images than before get another one in the simulated account too, so that nodes
    drift as they would. `given` names the classes that the scenario has.
    """
    terms = {
        each["metadata"]["name"]: copy.deepcopy(each["spec"].get("amiSelectorTerms"))
        for each in _of_kind(objects, EC2NodeClass.KIND)
    }
    old = {each["metadata"]["name"]: each["spec"] for each in before if each["kind"] == EC2NodeClass.KIND}
    assumed = rewrite(objects, before, around, given)
    for document in _of_kind(objects, EC2NodeClass.KIND):
        spec, name = document["spec"], document["metadata"]["name"]
        wanted = terms.get(name)
        if name in old and spec["amiSelectorTerms"] != wanted != old[name].get("amiSelectorTerms"):
            spec["amiFamily"] = ami_family(msgspec.convert(document, EC2NodeClass))
            spec["amiSelectorTerms"] = [{"id": f"ami-{sha256(repr(wanted).encode()).hexdigest()[:17]}"}]
            shown = f"{_terms(wanted or ())} -> an image that no node has yet"
            assumed[f"{EC2NodeClass.KIND} {name}: amiSelectorTerms"] = shown
    return assumed


def _stand_ins(
    objects: list[Document], around: Surroundings, rewritten: Rewritten, given: Collection[str]
) -> None:
    names = {each["metadata"]["name"] for each in _of_kind(objects, EC2NodeClass.KIND)} | set(given)
    for pool in _of_kind(objects, "NodePool"):
        reference = pool["spec"]["template"]["spec"]["nodeClassRef"]
        kind, name = reference.get("kind", EC2NodeClass.KIND), reference["name"]
        if kind == EC2NodeClass.KIND and name in names:
            continue
        old = f"{kind} {name}"
        if kind != EC2NodeClass.KIND:
            name = f"{kind.lower()}-{name}"
            reference |= {"group": _GROUP, "kind": EC2NodeClass.KIND, "name": name}
        why = "is not in the snapshot" if kind == EC2NodeClass.KIND else "is another provider's"
        rewritten.note("NodePool", pool["metadata"]["name"], "class", f"{old} {why} -> a class of AL2023")
        if name not in names:
            names.add(name)
            objects.append(_usual(name, around))


def _usual(name: str, around: Surroundings) -> Document:
    return {
        "apiVersion": EC2NodeClass.API_VERSION,
        "kind": EC2NodeClass.KIND,
        "metadata": {"name": name},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": f"{_ALIASES['AL2023']}@{images.LATEST}"}],
            "subnetSelectorTerms": _discovered(around),
            "securityGroupSelectorTerms": _discovered(around),
        },
    }


def _discovered(around: Surroundings) -> list[Document]:
    return [{"tags": {DISCOVERY: around.cluster}}]


def _class(document: Document, around: Surroundings, rewritten: Rewritten) -> None:
    spec, name = document["spec"], document["metadata"]["name"]

    def note(subject: str, old: object, new: str) -> None:
        rewritten.note(EC2NodeClass.KIND, name, subject, f"{old} -> {new}")

    for key in ("subnetSelectorTerms", "securityGroupSelectorTerms"):
        if spec.get(key) != _discovered(around):
            note(key, _terms(spec.get(key, ())), _terms(_discovered(around)))
            spec[key] = _discovered(around)
    for key in ("capacityReservationSelectorTerms", "placementGroupSelector"):
        old = spec.pop(key, None)
        if old:
            note(key, _terms(old if isinstance(old, list) else [old]), "none")
    _images(document, around, note)


def _images(document: Document, around: Surroundings, note: Callable[[str, object, str], None]) -> None:
    """Aliases of published images, and images named outright, are kept; tags and names find nothing."""
    spec = document["spec"]
    terms: Sequence[Document] = spec.get("amiSelectorTerms", ())
    aliases = [term["alias"] for term in terms if term.get("alias")]
    if aliases and not any(images.unsupported(alias, around.version) for alias in aliases):
        return
    # Any image named outright exists in a simulated account. What older anonymised snapshots have is no id.
    named = [term for term in terms if term.get("ssmParameter") or term.get("id", "").startswith("ami-")]
    if named:
        if len(named) < len(terms):
            note("amiSelectorTerms", _terms(terms), _terms(named))
            spec["amiSelectorTerms"] = named
        return
    family = ami_family(msgspec.convert(document, EC2NodeClass))
    alias = _alias(family, around.version)
    note("amiSelectorTerms", _terms(terms), alias)
    spec["amiSelectorTerms"] = [{"alias": alias}]
    given = spec.get("amiFamily")
    if given not in (None, "Custom", ALIAS_FAMILIES[alias.partition("@")[0]]):
        note("amiFamily", given, ALIAS_FAMILIES[alias.partition("@")[0]])
        del spec["amiFamily"]


def _alias(family: str, version: str) -> str:
    """The newest images of the family, or of the one that a cluster of the version would have instead."""
    alias = f"{_ALIASES.get(family, _ALIASES['AL2023'])}@{images.LATEST}"
    if images.unsupported(alias, version):
        return f"{_ALIASES[_SUCCESSORS[family]]}@{images.LATEST}"
    return alias


def _terms(terms: Iterable[Mapping[str, Any]]) -> str:
    """Selector terms in one line: what is in one term is meant together."""
    return " or ".join(" and ".join(_fields(term)) for term in terms) or "none"


def _fields(term: Mapping[str, Any]) -> Iterator[str]:
    for key, value in term.items():
        if isinstance(value, Mapping):
            yield from (f"{name}={text}" for name, text in value.items())
        else:
            yield f"{key} {value}"


def _pool(pool: Document, known: Mapping[str, Any], around: Surroundings, rewritten: Rewritten) -> None:
    name, spec = pool["metadata"]["name"], pool["spec"]["template"]["spec"]
    wanted: list[Document] = spec.setdefault("requirements", [])
    status = known.get("status", {})
    zones = {item["zone"] for item in status.get("subnets", ()) if item.get("zone")}
    there = zones & set(catalog.zones(around.region))
    if there and _narrowed(wanted, labels.ZONE, there):
        rewritten.note("NodePool", name, "zones", f"{', '.join(sorted(there))}, where its class has subnets")
    if zones - there:
        lost = ", ".join(sorted(zones - there))
        rewritten.note("NodePool", name, "zones without instance types", f"{lost} are left out")
    arches = _arches(status)
    if arches and _narrowed(wanted, labels.ARCH, arches):
        shown = ", ".join(sorted(arches))
        rewritten.note("NodePool", name, "architectures", f"{shown}, of which its class has images")
    for each in wanted:
        if each["key"] == labels.CAPACITY_TYPE and each.get("values") == [labels.RESERVED]:
            each["values"] = [labels.ON_DEMAND]
            rewritten.note("NodePool", name, labels.CAPACITY_TYPE, f"{labels.RESERVED} -> {labels.ON_DEMAND}")


def _narrowed(wanted: list[Document], key: str, values: set[str]) -> bool:
    """Add what the class allows; False where the pool keeps to it already."""
    asked = [each for each in wanted if each["key"] == key and each["operator"] == "In"]
    if any(set(each["values"]) <= values for each in asked):
        return False
    wanted.append({"key": key, "operator": "In", "values": sorted(values)})
    return True


def _arches(status: Mapping[str, Any]) -> set[str]:
    """Those of the images that the class found; none where the status says nothing of them."""
    return {
        value
        for image in status.get("amis", ())
        for each in image.get("requirements", ())
        if each.get("key") == labels.ARCH
        for value in each.get("values", ())
    }


def _of_kind(documents: Iterable[Document], kind: str) -> list[Document]:
    return [document for document in documents if document["kind"] == kind]
