"""From AMI selector terms to what is asked of SSM and EC2, and from the answers to the images of a class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dovetail.api.karpenter.ec2nodeclass import SelectorTerm
from dovetail.model import labels
from dovetail.model.requirement import Requirement, Requirements

LATEST = "latest"
MOST_RESULTS = 1000  # per page of DescribeImages
_GPUS = labels.AWS + "instance-gpu-count"
_ACCELERATORS = labels.AWS + "instance-accelerator-count"
_AL2_ENDS = (1, 33)  # the first version of EKS without AL2 images
_WINDOWS_2025_BEGINS = (1, 35)
_WINDOWS = {
    "windows2019": ("2019", "10.0.17763"),
    "windows2022": ("2022", "10.0.20348"),
    "windows2025": ("2025", "10.0.26100"),
}
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


def _requirements(*pairs: tuple[str, str]) -> Requirements:
    return Requirements.of(Requirement.new(key, operator) for key, operator in pairs)


_PLAIN = _requirements((_GPUS, "DoesNotExist"), (_ACCELERATORS, "DoesNotExist"))
_NVIDIA = _requirements((_GPUS, "Exists"))
_NEURON = _requirements((_ACCELERATORS, "Exists"))


@dataclass(frozen=True, slots=True)
class Parameter:
    """An SSM parameter that holds an image's id. The image boots on types that meet any of `variants`."""

    name: str
    arch: str  # amd64 or arm64
    variants: tuple[Requirements, ...]
    mutable: bool  # True iff the parameter moves on to newer images


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a Describe call: any of the values matches."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """One DescribeImages call, deprecated images included. No owners means any."""

    filters: tuple[Filter, ...]  # by name
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundImage:
    """An image as EC2 describes it; `arch` is kubernetes.io/arch, "" when it is unknown."""

    id: str
    name: str
    arch: str
    created: str  # RFC 3339, which sorts as text
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class ChosenImage:
    """An image that a class launches from, on the types that meet `requirements`."""

    image: FoundImage
    requirements: Requirements


def parameters(alias: str, kubernetes: str) -> tuple[Parameter, ...]:
    """The parameters behind an alias such as "al2023@latest", by name; `kubernetes` is such as "1.33".

    An alias of an unknown family has none; admission lets no such alias in.
    """
    family, _, version = alias.partition("@")
    makers = {"al2": _al2, "al2023": _al2023, "bottlerocket": _bottlerocket}
    if family in _WINDOWS:
        found = _windows(family, kubernetes)
    elif family in makers:
        found = makers[family](version, kubernetes)
    else:
        return ()
    return tuple(sorted(found, key=lambda item: item.name))


def unsupported(alias: str, kubernetes: str) -> str:
    """Why an alias has no images for this version of Kubernetes; "" where it has."""
    family = alias.partition("@")[0]
    minor = tuple(int(part) for part in kubernetes.split(".")[:2])
    if family == "al2" and minor >= _AL2_ENDS:
        return (
            "AL2 aliases are no longer supported on EKS 1.33+ (see https://docs.aws.amazon.com/eks/latest/"
            "userguide/kubernetes-versions-standard.html#kubernetes-1-33)"
        )
    if family == "windows2025" and minor < _WINDOWS_2025_BEGINS:
        return f"Windows Server 2025 requires EKS version 1.35 or higher, current version: {kubernetes}"
    return ""


def nothing_behind(alias: str) -> str:
    """What to say when none of an alias's parameters has an answer."""
    return f"failed to discover any AMIs for alias (alias={alias})"


def queries(terms: Iterable[SelectorTerm], named: Iterable[str]) -> tuple[ImageQuery, ...]:
    """The DescribeImages calls for the terms.

    `named` are the values of the SSM parameters that the terms name or whose alias they are. Images that are
    known by id are asked for together, last; every other term has a query of its own. A parameter may hold
    anything: what is no image id is left out.
    """
    terms = tuple(terms)
    ids = {term.id for term in terms if term.id}
    ids |= {value for value in named if value.startswith("ami-")}
    found = [_query(term) for term in terms if not (term.id or term.alias or term.ssm_parameter)]
    if ids:
        found.append(_described([Filter("image-id", tuple(sorted(ids)))]))
    return tuple(found)


def newest(
    found: Iterable[FoundImage], variants: Mapping[str, tuple[Requirements, ...]]
) -> tuple[ChosenImage, ...]:
    """Per set of requirements the best image, best first: in use before deprecated, then newest, then name.

    `variants` holds, by image id, what is known of an image from its alias; other images boot on every type
    of their architecture. Images of an unknown architecture boot on none.
    """
    ranked = sorted(found, key=lambda image: image.name)
    ranked.sort(key=lambda image: image.created, reverse=True)
    ranked.sort(key=lambda image: image.deprecated)
    best: dict[Requirements, FoundImage] = {}
    for image in ranked:
        if not image.arch:
            continue
        arch = Requirement.new(labels.ARCH, "In", (image.arch,))
        for variant in variants.get(image.id) or (Requirements(),):
            best.setdefault(variant.add(arch), image)
    return tuple(ChosenImage(image, requirements) for requirements, image in best.items())


def _al2(version: str, kubernetes: str) -> Iterator[Parameter]:
    kinds = (("", "amd64", (_PLAIN,)), ("-arm64", "arm64", (_PLAIN,)), ("-gpu", "amd64", (_NEURON, _NVIDIA)))
    for suffix, arch, variants in kinds:
        image = "recommended" if version == LATEST else f"amazon-eks{suffix}-node-{kubernetes}-{version}"
        name = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2{suffix}/{image}/image_id"
        yield Parameter(name, arch, variants, version == LATEST)


def _al2023(version: str, kubernetes: str) -> Iterator[Parameter]:
    for theirs, arch in _ARCHITECTURES.items():
        for kind, variant in (("standard", _PLAIN), ("nvidia", _NVIDIA), ("neuron", _NEURON)):
            if kind == "neuron" and arch == "arm64":
                continue  # there is no such machine
            image = (
                "recommended"
                if version == LATEST
                else f"amazon-eks-node-al2023-{theirs}-{kind}-{kubernetes}-{version}"
            )
            place = f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{theirs}/{kind}"
            yield Parameter(f"{place}/{image}/image_id", arch, (variant,), version == LATEST)


def _bottlerocket(version: str, kubernetes: str) -> Iterator[Parameter]:
    for theirs, arch in _ARCHITECTURES.items():
        plain = (_PLAIN, _NEURON) if arch == "amd64" else (_PLAIN,)
        for suffix, variants in (("", plain), ("-nvidia", (_NVIDIA,))):
            place = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{theirs}"
            yield Parameter(f"{place}/{version.lstrip('v')}/image_id", arch, variants, version == LATEST)


def _windows(family: str, kubernetes: str) -> Iterator[Parameter]:
    year, build = _WINDOWS[family]
    runs = Requirements.of(
        (
            Requirement.new(labels.OS, "In", ("windows",)),
            Requirement.new(labels.WINDOWS_BUILD, "In", (build,)),
        )
    )
    image = f"Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}"
    yield Parameter(f"/aws/service/ami-windows-latest/{image}/image_id", "amd64", (runs,), True)


def _query(term: SelectorTerm) -> ImageQuery:
    filters = [
        Filter("tag-key", (key,)) if value == "*" else Filter(f"tag:{key}", (value,))
        for key, value in term.tags.items()
    ]
    if term.name:
        filters.append(Filter("name", (term.name,)))
    # A name alone could be any account's, even that of an image made to be taken for another.
    trusted = ("self", "amazon") if term.name else ()
    return _described(filters, (term.owner,) if term.owner else trusted)


def _described(filters: list[Filter], owners: tuple[str, ...] = ()) -> ImageQuery:
    every = [*filters, Filter("state", ("available",))]
    return ImageQuery(tuple(sorted(every, key=lambda item: item.name)), owners)
