"""What the API server does not check of an EC2NodeClass: kubelet settings, user data, tags and volumes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from dovetail.base.errors import InputError
from dovetail.base.guess import meant
from dovetail.cloud import catalog
from dovetail.cloud.aws.amifamily.kubelet import FIELDS, NESTED, PASSED_ON, RESERVABLE, SIGNALS, misfit
from dovetail.cloud.aws.amifamily.userdata import MOST_BYTES, Cluster, Machine, bootstrap, render
from dovetail.cloud.aws.amifamily.userdata.check import remarks
from dovetail.cloud.catalog import cel, store
from dovetail.cloud.catalog import kubelet_expressions as expressions
from dovetail.cloud.catalog.capacity import pods
from dovetail.cloud.catalog.devices import SHARING, read_sharing
from dovetail.cloud.catalog.settings import GIB, NodeSettings, ami_family, parse_size
from dovetail.units.duration import parse_duration
from dovetail.units.quantity import parse_quantity

_PATH = "spec.kubelet"
_MOST = (1 << 31) - 1  # of what the kubelet reads in 32 bits
_EVICTIONS = ("evictionHard", "evictionSoft")
_ALL_FIELDS = ("AL2023", "Custom")  # families that pass every setting on
# Text of the longest names, for the size of user data before a cluster and a machine are known.
_CLUSTER = Cluster("c" * 100, f"https://{'e' * 80}", "", "10.100.0.0/16", "10.100.0.10")


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason for ValidationSucceeded=False; the message begins with the path of the field."""

    reason: str
    message: str


class Validator:
    """Remembers what was found, per class: the question comes every minute, and classes hardly change.

    `with_expressions` and `gpu_sharing` False are for a controller whose feature gates for them are shut.
    """

    def __init__(self, *, with_expressions: bool = True, gpu_sharing: bool = True) -> None:
        self._with_expressions = with_expressions
        self._gpu_sharing = gpu_sharing
        self._known: dict[str, tuple[EC2NodeClassSpec, str, tuple[Fault, ...]]] = {}

    def forget(self, name: str) -> None:
        """The class is gone."""
        self._known.pop(name, None)

    def faults(self, node_class: EC2NodeClass) -> tuple[Fault, ...]:
        """See `faults`."""
        name = node_class.metadata.name
        known = self._known.get(name)
        sharing = node_class.metadata.annotations.get(SHARING, "")
        if known is None or known[:2] != (node_class.spec, sharing):
            found = faults(node_class, with_expressions=self._with_expressions, gpu_sharing=self._gpu_sharing)
            known = self._known[name] = (node_class.spec, sharing, found)
        return known[2]


def faults(
    node_class: EC2NodeClass, *, with_expressions: bool = True, gpu_sharing: bool = True
) -> tuple[Fault, ...]:
    """What makes the class unusable, all of the first kind that there is; empty for a class that is well."""
    kubelet, sharing = node_class.spec.kubelet, node_class.metadata.annotations.get(SHARING, "")
    for reason, found in (
        ("InvalidKubeletConfiguration", _configuration(kubelet)),
        ("KubeletExpressionsDisabled", () if with_expressions else _disabled(kubelet)),
        ("KubeletExpressionInvalid", _expressions(kubelet)),
        ("InvalidKubeletConfiguration", _values(node_class)),
        ("UnsupportedKubeletConfiguration", _unsupported(ami_family(node_class), kubelet)),
        ("KubeletExpressionEvaluationFailed", _evaluated(node_class)),
        ("NVIDIAConsumableCapacityInvalid", _sharing(sharing)),
        ("DRADisabled", () if gpu_sharing else _shared(sharing)),
    ):
        messages = tuple(Fault(reason, message) for message in found)
        if messages:
            return messages
    return _user_data(node_class)


def _configuration(kubelet: Mapping[str, Any]) -> Iterator[str]:
    """Fields and their types."""
    for name, value in kubelet.items():
        if name not in FIELDS:
            yield _unknown(name, FIELDS)
        elif name == "registerWithTaints":
            yield f"{_PATH}.{name} can't be set: taints are those of the NodePool"
        elif (wanted := misfit(FIELDS[name], value)) and not _depends(name, value):
            yield f"{_PATH}.{name} must be {wanted}, not {value!r}"
        elif known := NESTED.get(name):
            for item in value if isinstance(value, list) else [value]:
                yield from (_unknown(inner, known, f"{name}.") for inner in item if inner not in known)


def _unknown(name: str, known: Collection[str], of: str = "") -> str:
    guess = meant(name, known)
    return f'{_PATH}: unknown field "{of}{name}"' + (f", {guess}" if guess else "")


def _depends(name: str, value: object) -> bool:
    """True iff maxPods is an expression; reservations are text either way."""
    return name == "maxPods" and isinstance(value, str)


def _disabled(kubelet: Mapping[str, Any]) -> Iterator[str]:
    """Nodes would get the family's defaults instead, and have other room than they are planned with."""
    for path, text in expressions.expressions(kubelet):
        plain = "whole number" if path.endswith("maxPods") else "quantity"
        told = f"{_PATH} contains a CEL expression, but the NodeClassCEL feature gate is disabled"
        yield f"{told}: {path} is {text!r}, not a {plain}"


def _evaluated(node_class: EC2NodeClass) -> Iterator[str]:
    """The first type for which an expression has no value that fits."""
    settings = NodeSettings.of(node_class)
    for record in store.load().types if settings.expressions else ():
        if catalog.runs(record, settings):
            try:
                settings.on(record, partial(pods, record))
            except InputError as error:
                yield f"{error} (for {record.name})"
                return


def _expressions(kubelet: Mapping[str, Any]) -> Iterator[str]:
    known = expressions.VARIABLES
    for path, text in expressions.expressions(kubelet):
        plain = "whole number" if path.endswith("maxPods") else "quantity"
        try:
            unknown = [name for name in cel.read(text).names if name not in known]
        except cel.ExpressionError as error:
            yield f"{path}: {text!r} is not a {plain}, nor an expression: {error}"
            continue
        if unknown:
            yield (
                f"{path}: {text!r} is not a {plain}, nor an expression: "
                f"there is no variable {', '.join(unknown)}; there are {', '.join(known)}"
            )


def _values(node_class: EC2NodeClass) -> Iterator[str]:
    kubelet = node_class.spec.kubelet
    for name in expressions.RESERVATIONS:
        yield from _names(name, kubelet.get(name, {}), RESERVABLE)
        yield from _negative(name, kubelet.get(name, {}))
    for name in (*_EVICTIONS, "evictionSoftGracePeriod"):
        yield from _names(name, kubelet.get(name, {}), SIGNALS)
    for name in _EVICTIONS:
        yield from _thresholds(name, kubelet.get(name, {}))
    soft, grace = kubelet.get("evictionSoft", {}), kubelet.get("evictionSoftGracePeriod", {})
    for signal in sorted(soft.keys() ^ grace.keys()):
        name = "evictionSoftGracePeriod" if signal in soft else "evictionSoft"
        yield f"{_PATH}.{name} lacks {signal}: soft thresholds and grace periods come in pairs"
    for signal, text in grace.items():
        try:
            if parse_duration(text) < 0:
                yield f"{_PATH}.evictionSoftGracePeriod.{signal} must not be negative, but is {text!r}"
        except ValueError as error:
            yield f"{_PATH}.evictionSoftGracePeriod.{signal}: {error}"
    for name in ("maxPods", "podsPerCore", "evictionMaxPodGracePeriod"):
        amount = kubelet.get(name)
        if isinstance(amount, int) and not 0 <= amount <= _MOST:
            yield f"{_PATH}.{name} must be from 0 to {_MOST}, not {amount}"
    yield from _image_collection(kubelet)
    try:
        NodeSettings.of(node_class)
    except InputError as error:
        yield str(error)


def _names(name: str, given: Mapping[str, str], known: tuple[str, ...]) -> Iterator[str]:
    for key in given:
        if key not in known:
            yield f"{_PATH}.{name}: {key!r} is not one of {', '.join(known)}"


def _negative(name: str, given: Mapping[str, str]) -> Iterator[str]:
    """Amounts below zero; what is no quantity is an expression."""
    for key, text in given.items():
        with suppress(ValueError):
            if parse_quantity(text).nanos < 0:
                yield f"{_PATH}.{name}.{key} must not be negative, but is {text!r}"


def _thresholds(name: str, given: Mapping[str, str]) -> Iterator[str]:
    for signal, text in given.items():
        complaint = (
            f"{_PATH}.{name}.{signal}: {text!r} is neither a quantity nor a percentage from 0% to 100%"
        )
        try:
            if not text.endswith("%"):
                if parse_quantity(text).nanos < 0:
                    yield complaint
            elif not 0 <= float(text[:-1]) <= 100:
                yield complaint
        except ValueError:
            yield complaint


def _image_collection(kubelet: Mapping[str, Any]) -> Iterator[str]:
    names = ("imageGCLowThresholdPercent", "imageGCHighThresholdPercent")
    low, high = (kubelet.get(name) for name in names)
    for name, value in zip(names, (low, high), strict=True):
        if value is not None and not 0 <= value <= 100:
            yield f"{_PATH}.{name} must be from 0 to 100, not {value}"
    if low is not None and high is not None and low >= high:
        yield f"{_PATH}.{names[1]} must be above {names[0]}, but {high} is not above {low}"


def _unsupported(family: str, kubelet: Mapping[str, Any]) -> Iterator[str]:
    if family in _ALL_FIELDS:
        return
    dropped = sorted(set(kubelet) - PASSED_ON)
    if dropped:
        told = f"fields not applied by the {family} AMI family that would be silently dropped"
        yield f"{_PATH} has {told}: {', '.join(dropped)}"
    if len(kubelet.get("clusterDNS", ())) > 1:
        yield f"{_PATH}.clusterDNS: {family} takes one address"


def _sharing(value: str) -> Iterator[str]:
    try:
        read_sharing(value)
    except ValueError as error:
        yield f"annotation {SHARING}: {error}"


def _shared(value: str) -> Iterator[str]:
    if read_sharing(value).shareable:
        yield f"annotation {SHARING} enables GPU sharing, but the DRANVIDIAGPU feature gate is disabled"


def user_data_bytes(node_class: EC2NodeClass) -> int:
    """About how much a machine of the class gets in all. Raises InputError for what cannot be read."""
    machine = Machine(store.load().types[0], "on-demand")
    return len(render(bootstrap(node_class, machine, _CLUSTER)).encode())


def too_large(size: int) -> str:
    """What to say of user data of so many bytes; "" for what EC2 takes."""
    return f"with what Dovetail adds {size} bytes, and EC2 takes {MOST_BYTES}" if size > MOST_BYTES else ""


def _user_data(node_class: EC2NodeClass) -> tuple[Fault, ...]:
    """What is wrong with the class's user data, such as its size with all that a machine gets besides."""
    try:
        size = user_data_bytes(node_class)
    except InputError as error:
        return (Fault("InvalidUserData", f"{error.path}: {error.message}"),)
    found = remarks(node_class.spec.user_data, ami_family(node_class))
    fatal = next((item for item in found if item.fatal), None)
    if fatal is not None:
        return (Fault("InvalidUserData", f"spec.userData: {fatal}"),)
    if message := too_large(size):
        return (Fault("UserDataSizeLimitExceeded", f"spec.userData: {message}"),)
    return ()


TAGS = "TagValidationFailed"
VOLUMES = "BlockDeviceMappingInvalid"
# Tags by which the controller knows its own: users may not set them.
_RESTRICTED = re.compile(
    r"eks:eks-cluster-name|kubernetes\.io/cluster.*|karpenter\.sh/node(pool|claim)|karpenter\.k8s\.aws/ec2nodeclass"
)
_MOST_TAGS = 50  # of an EC2 resource
_OWN_TAGS = 6  # what every instance gets besides: four at launch, Name and karpenter.sh/nodeclaim later


def resolved_faults(
    node_class: EC2NodeClass, volumes: Mapping[str, Mapping[str, int]], *, cidr: str | None
) -> Iterator[Fault]:
    """`volumes` are the least GiB that each device of each image needs, `cidr` is that of services."""
    if ami_family(node_class) == "AL2023" and not cidr:
        # nodeadm takes no NodeConfig without it.
        message = (
            "Failed to detect the cluster CIDR: eks:DescribeCluster reports it, and only of clusters of EKS"
        )
        yield Fault("ClusterCIDRResolutionFailed", message)
    yield from _tags(node_class.spec.tags)
    yield from _volumes(node_class, volumes)


def _tags(tags: Mapping[str, str]) -> Iterator[Fault]:
    for key, value in tags.items():
        path = f"spec.tags[{key!r}]"
        if _RESTRICTED.fullmatch(key):
            yield Fault(TAGS, f"{path}: this tag is restricted, the controller sets it itself")
        elif key.lower().startswith("aws:"):
            yield Fault(TAGS, f"{path}: tags that begin with aws: are reserved by AWS")
        elif len(key) > 128 or len(value) > 256:
            yield Fault(TAGS, f"{path}: a key has at most 128 characters, a value at most 256")
    if len(tags) > _MOST_TAGS - _OWN_TAGS:
        yield Fault(TAGS, f"spec.tags: {len(tags)} tags, of {_MOST_TAGS} the controller needs {_OWN_TAGS}")


def _volumes(node_class: EC2NodeClass, volumes: Mapping[str, Mapping[str, int]]) -> Iterator[Fault]:
    """Sizes below that of the image's own snapshot, which EC2 refuses at each launch."""
    for index, mapping in enumerate(node_class.spec.block_device_mappings):
        if mapping.ebs is None or mapping.ebs.volume_size is None:
            continue
        path = f"spec.blockDeviceMappings[{index}].ebs.volumeSize"
        size = -(-parse_size(mapping.ebs.volume_size, path) // GIB)
        for image, devices in volumes.items():
            least = devices.get(mapping.device_name, 0)
            if size < least:
                yield Fault(
                    VOLUMES, f"{path}: {size} GiB, but {mapping.device_name} of image {image} needs {least}"
                )
