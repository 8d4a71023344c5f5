"""Pods of a server, thousands of them in a dump: the spec that replicas share is read once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict, replace

from dovetail.api.admission import fits
from dovetail.api.codec import decode, pared, written
from dovetail.api.core import Pod, PodSpec, PodStatus, Volume
from dovetail.api.core_schema import default_pod_spec, object_meta
from dovetail.api.generations.upgrade import upgrade
from dovetail.api.meta import Meta, OwnerReference
from dovetail.api.shape import Shape
from dovetail.reading.kinds import DEFAULT_NAMESPACE, forget_managers
from dovetail.reading.located import Located

_OLD_NAMES = b"karpenter"  # is in those of all generations
# What differs between replicas: the name of the volume with their credentials, and their node.
_CREDENTIALS = b'"kube-api-access-'
_NAMED_VOLUME = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')
_NODE = b'"nodeName":'
_NAMED_NODE = re.compile(rb'"nodeName":\s*"([a-z0-9.-]+)"')
_ANY = "*dovetail*"  # stands for both: no name of Kubernetes is such
_VOLUME = f'"{_ANY}"'.encode()
_UNREAD = Volume(name=_ANY)


_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", gc=False):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class _Metadata(msgspec.Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """All that metadata may hold, so that one look does for finding it sound and for reading it."""

    name: str = ""
    generate_name: str = ""
    namespace: str | msgspec.UnsetType = msgspec.UNSET
    uid: str = ""
    resource_version: str = ""
    generation: _Int64 = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: _Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[_Owner, ...] = ()
    managed_fields: msgspec.Raw = msgspec.Raw(b"[]")  # nothing reads them
    self_link: str = ""


_METADATA = msgspec.json.Decoder(_Metadata)


class PodText(msgspec.Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """A pod with its parts still as text; an object of another kind may look like one."""

    metadata: msgspec.Raw
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw(b"{}")
    api_version: str = ""
    kind: str = ""


_TEXT = msgspec.json.Decoder(PodText)


class ServedPod(Located):
    """A pod as its server has it, typed. Its value and place are made of the text when they are asked for."""

    pod: Pod
    _place: Callable[[], tuple[int, int]]
    _inherited: Mapping[str, str]  # what it does not say itself

    def __init__(
        self,
        pod: Pod,
        source: str,
        place: Callable[[], tuple[int, int]],
        text: Callable[[], str],
        inherited: Mapping[str, str],
    ) -> None:
        super().__init__(None, source, text=text)
        for name in ("value", "line", "column"):
            del self.__dict__[name]
        self.__dict__.update(pod=pod, _place=place, _inherited=inherited)

    @cached_property
    def line(self) -> int:
        return self._place()[0]

    @cached_property
    def column(self) -> int:
        return self._place()[1]

    @cached_property
    def value(self) -> Any:
        """What was written, without who wrote which field."""
        found = msgspec.json.decode(self.text())
        for key, value in self._inherited.items():
            found.setdefault(key, value)
        forget_managers(found)
        return found


class ServedPods:
    """Reads pods of a server. Most of a pod's text is its spec, which it shares with other replicas."""

    def __init__(self) -> None:
        self._specs: dict[bytes, PodSpec | None] = {}  # None: it takes a closer look
        # By the identity of labels, which are kept: the last pod that has them is likely to be a replica, and
        # to compare two specs takes a tenth of the time for looking one up.
        self._last: dict[int, tuple[bytes, PodSpec | None]] = {}
        self._statuses: dict[bytes, PodStatus] = {}  # many that wait have waited since the same second
        self._labels: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._owners: dict[tuple[_Owner, ...], tuple[OwnerReference, ...]] = {}
        self._meta = Shape(object_meta())

    def read(self, text: msgspec.Raw, inherited: Mapping[str, str]) -> Pod | None:
        """The pod that the closer look would make of a text; None where only that can tell: see `of`."""
        try:
            return self.of(_TEXT.decode(text), inherited)
        except (msgspec.MsgspecError, RecursionError):
            return None

    def of(self, parts: PodText, inherited: Mapping[str, str]) -> Pod | None:
        """The pod that the closer look would make of these parts; None where only that can tell.

        That is so where there is anything to say of it, and of pods that no server has had. The volume with
        the credentials of a pod has a name of no meaning, here the same in all.
        """
        kind = parts.api_version or inherited.get("apiVersion"), parts.kind or inherited.get("kind")
        if kind != (Pod.API_VERSION, Pod.KIND):
            return None
        try:
            metadata = self._metadata(bytes(parts.metadata))
            if metadata is None:
                return None
            status = self._status(bytes(parts.status))
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return None
        if not (metadata.uid or metadata.resource_version) or not (metadata.name or metadata.generate_name):
            return None
        spec = self._spec(bytes(parts.spec), metadata.labels)
        return None if spec is None else Pod(metadata=metadata, spec=spec, status=status)

    def _metadata(self, text: bytes) -> Meta | None:
        """None where it takes a closer look. Labels that are equal are the same."""
        if _OLD_NAMES in text:
            return None
        try:
            found = _METADATA.decode(text)
        except msgspec.ValidationError:  # with a null, it may be
            document = msgspec.json.decode(text)
            if not self._meta.fits(document):
                return None
            made = decode(document, Meta)
            labels = self._labels.setdefault(tuple(made.labels.items()), made.labels)
            namespace = made.namespace if "namespace" in document else DEFAULT_NAMESPACE
            return replace(made, labels=labels, namespace=namespace)
        owners = self._owners.get(found.owner_references)
        if owners is None:
            owners = tuple([OwnerReference(**asdict(one)) for one in found.owner_references])
            self._owners[found.owner_references] = owners
        return Meta(
            name=found.name,
            generate_name=found.generate_name,
            namespace=DEFAULT_NAMESPACE if found.namespace is msgspec.UNSET else found.namespace,
            uid=found.uid,
            resource_version=found.resource_version,
            generation=found.generation,
            creation_timestamp=found.creation_timestamp,
            deletion_timestamp=found.deletion_timestamp,
            deletion_grace_period_seconds=found.deletion_grace_period_seconds,
            labels=self._labels.setdefault(tuple(found.labels.items()), found.labels),
            annotations=found.annotations,
            finalizers=found.finalizers,
            owner_references=owners,
        )

    def _status(self, text: bytes) -> PodStatus:
        if text not in self._statuses:
            self._statuses[text] = decode(msgspec.json.decode(text), PodStatus)
        return self._statuses[text]

    def _spec(self, text: bytes, labels: dict[str, str]) -> PodSpec | None:
        at = text.find(_CREDENTIALS)
        found = _NAMED_VOLUME.match(text, at) if at >= 0 else None
        if found:
            text = text.replace(found[0], _VOLUME)
        last = self._last.get(id(labels))
        if last is not None and last[0] == text:
            return last[1]
        at = text.find(_NODE)
        placed = _NAMED_NODE.match(text, at) if at >= 0 else None
        whole = text
        if placed:
            text = b"".join((text[: placed.start(1)], _ANY.encode(), text[placed.end(1) :]))
        if text not in self._specs:
            self._specs[text] = _read(text, placed=placed is not None)
        spec = self._specs[text]
        if placed and spec is not None:
            return replace(spec, node_name=placed[1].decode())
        self._last[id(labels)] = whole, spec
        return spec


def _read(text: bytes, *, placed: bool) -> PodSpec | None:
    """The spec of all pods with this text; None for one of which there is anything to say."""
    try:
        document = {
            "apiVersion": Pod.API_VERSION,
            "kind": Pod.KIND,
            "metadata": {"name": _ANY},
            "spec": msgspec.json.decode(text),
        }
        if not document["spec"] or not fits(document):
            return None
        if _OLD_NAMES in text and upgrade([document])[0].document is not document:
            return None
        made = pared(document, Pod)
        default_pod_spec(made["spec"])
        spec = decode(made["spec"], PodSpec)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    # What was put for a name is nowhere else, such as in a selector, and names no volume that is looked at.
    others = replace(spec, volumes=tuple(one for one in spec.volumes if one != _UNREAD), node_name="")
    return None if (spec.node_name == _ANY) != placed or _ANY.encode() in written(others) else spec
