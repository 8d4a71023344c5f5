"""Objects as kubectl takes them: typed, admitted, with the place that they came from."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api.admission import admit, fits, schema_of
from dovetail.api.codec import decode, pared
from dovetail.api.core import Node, Pod
from dovetail.api.core_schema import default_pod_spec, pod_specs
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.api.meta import Object
from dovetail.api.schema import Schema, is_echo, unknown_fields, with_defaults, without_unknown
from dovetail.api.scheme import BY_GVK
from dovetail.base.errors import Cause, InputError, InputErrors, Invalid
from dovetail.base.words import number_of
from dovetail.reading.documents import documents
from dovetail.reading.elsewhere import Elsewhere, elsewhere, of_node_groups, stands_for_others
from dovetail.reading.generations import today
from dovetail.reading.kinds import DEFAULT_NAMESPACE, group_of, is_from_server, unknown_kind
from dovetail.reading.located import Located
from dovetail.reading.nodegroups import NodeGroup, node_groups
from dovetail.reading.operators import tells_more
from dovetail.reading.parts import Part, wholes
from dovetail.reading.paths import at, steps
from dovetail.reading.refusals import broken, refusal, subject, unknown_field
from dovetail.reading.served import ServedPod
from dovetail.reading.verticalpodautoscaler import (
    VerticalPodAutoscaler,
    is_vertical,
    vertical_autoscalers,
)
from dovetail.reading.workloads import Made, as_workloads

_SCENARIOS = "simulation.dovetail.dev/"
_LARGE: dict[str, type[Object]] = {"Pod": Pod, "Node": Node}  # of which a cluster has thousands
_INDEX = re.compile(r"\[\d+\]")
_WORDS = {"object": "map", "array": "list", "str": "text", "int": "whole number", "float": "number"}


@dataclass(frozen=True)
class Manifest:
    """One object. `document` has the server's defaults; `located` is what was written, and where.

    An object of another group that makes pods is here as a workload of Kubernetes that makes the same ones;
    `located` then is the object itself.
    """

    object: Object
    located: Located
    admitted: dict[str, Any] | None = None  # None: the document is what its server has
    part: str = "spec"  # of an object of another group: the path of what says which pods it makes

    @cached_property
    def document(self) -> dict[str, Any]:
        return _served(self.located.value) if self.admitted is None else self.admitted

    @property
    def given(self) -> dict[str, Any]:
        """The fields that it gives an object of its kind and name: all, unless it is a part of one."""
        return self.located.given if isinstance(self.located, Part) and not self.foreign else self.document

    @property
    def source(self) -> str:
        return self.located.source

    @property
    def line(self) -> int:
        """Counts from 1."""
        return self.located.line

    @property
    def foreign(self) -> bool:
        """True iff it stands for an object of another group."""
        made = self.admitted
        return made is not None and bool(self.located.value.get("apiVersion") != made["apiVersion"])

    @property
    def written(self) -> tuple[str, str]:
        """(kind, namespace/name) as they are written, of another group's object too."""
        if not self.foreign:
            return self.object.KIND, self.object.key
        name = self.located.value["metadata"].get("name", "")
        return str(self.located.value["kind"]), f"{self.object.metadata.namespace}/{name}"


@dataclass(frozen=True, slots=True)
class Owned:
    """An object that was not taken in, and what owns it, each as (kind, namespace/name)."""

    key: tuple[str, str]
    owner: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read. `notes` are lines for a user: what was left out, and what was taken for what."""

    manifests: tuple[Manifest, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[Owned, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    node_groups: tuple[NodeGroup, ...] = ()
    vertical_autoscalers: tuple[VerticalPodAutoscaler, ...] = ()


def read(
    paths: Sequence[Path | str],
    *,
    recursive: bool = False,
    strict: bool = False,
    onto: Iterable[Manifest] = (),
) -> Reading:
    """All objects of files, folders and standard input ("-"), in order.

    Kinds of Kubernetes that Dovetail does not read, such as Secret, are checked for typos and left out;
    kinds of other groups are counted, or taken for workloads where they carry a pod template. In objects that
    come from a server, what Dovetail does not know is noted, in others it is an error. With `strict` all of
    that is an error. A manifest that is no whole object changes the one of its kind and name in `onto`.
    Raises InputErrors with everything that is wrong, each with file, line, path and remedy.
    """
    reader = _Reader(strict=strict)
    known = {item.written: item.located for item in onto}
    found: Iterable[Located] = documents(paths, recursive=recursive, note=reader.note, fault=reader.fault)
    if known:
        found = wholes(found, known, reader.fault)
    reader.take_all(today(found, note=reader.note, fault=reader.fault))
    return reader.reading()


def read_objects(objects: Iterable[Located], *, strict: bool = False) -> Reading:
    """A reading of objects that came otherwise, such as from an API server."""
    reader = _Reader(strict=strict)
    reader.take_all(today(objects, note=reader.note, fault=reader.fault))
    return reader.reading()


def read_leniently(
    objects: Iterable[Located], *, note: Callable[[str], None], fault: Callable[[InputError], None]
) -> Reading:
    """All that can be made of objects, whatever an API server thinks of them: what it would refuse goes to
    `fault`, and the object is read all the same as far as its types allow.
    """
    reader = _Lenient(strict=False, report=fault)
    reader.take_all(today(objects, note=note, fault=fault))
    return reader.reading()


def without_auto_mode(reading: Reading) -> Reading:
    """Without the NodePools and NodeClaims that EKS Auto Mode runs; a note says how many there were."""
    theirs = [item for item in reading.manifests if _of_auto_mode(item.object)]
    if not theirs:
        return reading
    gone = set(map(id, theirs))
    counts = sorted(Counter(item.object.KIND for item in theirs).items())
    notes = (f"{n} {kind} of EKS Auto Mode ignored: it runs what names a NodeClass" for kind, n in counts)
    kept = tuple(item for item in reading.manifests if id(item) not in gone)
    return replace(reading, manifests=kept, notes=(*reading.notes, *notes))


def _of_auto_mode(found: Object) -> bool:
    match found:
        case NodePool():
            return found.spec.template.spec.node_class_ref.of_auto_mode
        case NodeClaim():
            return found.spec.node_class_ref.of_auto_mode
        case _:
            return False


@dataclass(slots=True)
class _Remark:
    """One remark about many objects: how many, and the first."""

    first: Located
    path: str
    count: int = 0


@dataclass(slots=True)
class _Workloads:
    objects: int = 0
    pods: int = 0
    per_node: int = 0
    made_up: bool = False
    none: str = "replicas: 0"
    more: Elsewhere | None = None  # what the first of them asks for besides


@dataclass
class _Reader:
    """Takes documents one by one, and gathers what is wrong with them."""

    strict: bool
    manifests: list[Manifest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[InputError] = field(default_factory=list)
    ignored: Counter[tuple[str, str]] = field(default_factory=Counter)
    foreign: dict[tuple[str, str], _Workloads] = field(default_factory=dict)
    remarks: dict[tuple[str, str], _Remark] = field(default_factory=dict)
    left_out: list[Owned] = field(default_factory=list)
    elsewhere: dict[tuple[str, str], list[Elsewhere]] = field(default_factory=dict)
    node_groups: dict[str, list[NodeGroup]] = field(default_factory=dict)  # by what tells of them
    vertical: list[Located] = field(default_factory=list)
    beside: list[dict[str, Any]] = field(default_factory=list)  # what may say more of other groups' objects

    def note(self, text: str) -> None:
        self.notes.append(text)

    def fault(self, error: InputError) -> None:
        self.faults.append(error)

    def refuse(self, error: InputError) -> None:
        """What an API server would not take."""
        raise error

    def mended(
        self,
        document: dict[str, Any],
        causes: Sequence[Cause],  # noqa: ARG002 - the lenient reader looks at them
    ) -> dict[str, Any]:
        """What is read instead of a document that its server took, or that was reported."""
        return document

    def reading(self) -> Reading:
        if self.faults:
            raise InputErrors.of(tuple(self.faults))
        return Reading(
            tuple(self.manifests),
            (*self.notes, *self._lines()),
            tuple(self.left_out),
            tuple(one for found in self.elsewhere.values() for one in found),
            tuple(one for found in self.node_groups.values() for one in found),
            tuple(vertical_autoscalers(self.vertical)),
        )

    def take_all(self, found: Iterable[Located]) -> None:
        objects = list(found)
        self.beside = [
            one.value for one in objects if not isinstance(one, ServedPod) and tells_more(one.value)
        ]
        for located in objects:
            self.take(located)

    def take(self, located: Located) -> None:
        try:
            self._take(located)
        except InputError as error:
            self.fault(error)
        except RecursionError:
            self.fault(refusal(located, "", "nested too deeply"))

    def _take(self, located: Located) -> None:
        if isinstance(located, ServedPod) and not self.strict:
            self.manifests.append(Manifest(located.pod, located))
            return
        document = located.value
        if str(document.get("apiVersion", "")).startswith(_SCENARIOS):
            return  # a scenario lies beside its cluster's manifests; it is no object of a cluster
        try:
            schema = schema_of(document)
        except TypeError:
            schema = None
        if schema is None:
            self._take_foreign(located)
            return
        from_server = is_from_server(document) and not self.strict
        unknown = [] if fits(document) else list(unknown_fields(schema, document))
        if unknown and not from_server:
            self.refuse(InputErrors.of(tuple(unknown_field(schema, path, located) for path in unknown)))
        for path in unknown:
            self._remark(located, path, f"unknown field {_INDEX.sub('[]', path)} left out")
        known = without_unknown(schema, document) if unknown else document
        if from_server and not unknown and document["kind"] in _LARGE:
            try:
                served = _served(document)
            except (AttributeError, TypeError):
                pass  # a part has another type than its kind says: a closer look tells which
            else:
                self._take_in(located, served)
                return
        self._admit(located, schema, known, from_server=from_server)

    def _admit(self, located: Located, schema: Schema, known: dict[str, Any], *, from_server: bool) -> None:
        try:
            document = _with_namespace(admit(known))
        except Invalid as invalid:
            if not from_server:
                self.refuse(broken(invalid.causes, located))
            # The server took it, whatever Dovetail thinks of it.
            for cause in invalid.causes if from_server else ():
                if not is_echo(cause):
                    self._remark(located, cause.field, f"{_INDEX.sub('[]', cause.field)}: {cause.message}")
            known = self.mended(known, invalid.causes)
            document = _with_namespace(with_defaults(schema, known))
        self._take_in(located, document)

    def _take_in(self, located: Located, document: dict[str, Any]) -> None:
        """An object that was admitted."""
        kind = BY_GVK.get((document["apiVersion"], document["kind"]))
        if kind is None:
            self._leave_out(located)
            return
        meta = document.get("metadata") or {}
        if not meta.get("name") and not meta.get("generateName"):
            raise refusal(located, "metadata.name", "a name is required")
        if kind is Pod and not document.get("spec"):
            raise refusal(located, "spec", "a pod needs a spec with at least one container")
        self.manifests.append(Manifest(_decoded(document, kind, located), located, document))

    def _take_foreign(self, located: Located) -> None:
        """An object whose kind is not known: a mistake, a workload of another group, or of no concern."""
        what, groups = node_groups(located.value)
        if groups:
            self.node_groups.setdefault(what, []).extend(groups)
            self.elsewhere.setdefault(("", what), []).append(of_node_groups(located, what))
            return
        mistake = unknown_kind(located)
        if mistake is not None:
            raise mistake
        document = located.value
        group, kind = group_of(document["apiVersion"]), document["kind"]
        self._leave_out(located)
        if is_vertical(document):
            self.vertical.append(located)
            return
        if self.strict:
            remedy = "leave it out, or leave --strict out"
            raise refusal(located, "kind", f"Dovetail does not know {kind} of {group}", remedy)
        found = as_workloads(document, self.beside, templates_only=stands_for_others(group, kind))
        more = elsewhere(located, group, kind, [one.path for one in found])
        if more is not None:
            self.elsewhere.setdefault((group, kind), []).append(more)
        if not found:
            self.ignored[group, kind] += 1
            return
        counted = self.foreign.setdefault((group, kind), _Workloads())
        counted.more = counted.more or more
        counted.objects += 1
        for one in found:
            self.manifests.append(_stand_in(located, one))
            counted.made_up |= one.made_up
            counted.none = one.none or counted.none
            if one.document["kind"] == "DaemonSet":
                counted.per_node += 1
            else:
                counted.pods += one.document["spec"]["replicas"]

    def _leave_out(self, located: Located) -> None:
        document = located.value
        meta = document.get("metadata")
        if not isinstance(meta, dict):
            return
        space = meta.get("namespace") or DEFAULT_NAMESPACE
        owners = meta.get("ownerReferences")
        named = [item for item in (owners if isinstance(owners, list) else ()) if isinstance(item, dict)]
        # Not every operator says that it manages what it owns.
        first = next((item for item in named if item.get("controller")), named[0] if named else None)
        owner = (str(first.get("kind")), f"{space}/{first.get('name')}") if first else None
        self.left_out.append(Owned((str(document.get("kind")), f"{space}/{meta.get('name')}"), owner))

    def _remark(self, located: Located, path: str, text: str) -> None:
        kind = str(located.value.get("kind"))
        remark = self.remarks.setdefault((kind, text), _Remark(located, path))
        remark.count += 1

    def _lines(self) -> Iterator[str]:
        """One line per kind, or per remark and kind."""
        for (group, kind), counted in sorted(self.foreign.items()):
            parts = [number_of(counted.pods, "pod")] if counted.pods else []
            parts += ["a pod per node"] if counted.per_node else []
            what = " and ".join(parts) or f"no pods ({counted.none})"
            if counted.made_up and parts:
                what += ", by the requests in it; what its operator adds is not known"
            if counted.more is not None:
                what += f"; {counted.more.not_here}"
            yield f"{counted.objects} {kind} of {group} counted as workload: {what}"
        for what, groups in sorted(self.node_groups.items()):
            names = len({one.name for one in groups})
            yield (
                f"{number_of(names, 'node group')} of {what}: where no NodePool is given, those "
                "that are assumed buy what their nodes are like"
            )
        for (group, kind), count in sorted(self.ignored.items()):
            more = next((one for one in self.elsewhere.get((group, kind), ()) if not one.counted), None)
            why = f": {more.not_here}" if more else ""
            yield f"{count} {kind} of {group} ignored{why}"
        for (kind, text), remark in self.remarks.items():
            line = remark.first.line_of(remark.path)
            place = f"{remark.first.source}:{line}" if line else remark.first.source
            name = subject(remark.first.value)["name"]
            others = f" and {remark.count - 1} more" if remark.count > 1 else ""
            yield f"{place}: {kind} {name}{others}: {text}"


@dataclass
class _Lenient(_Reader):
    """Reports what is wrong, and goes on."""

    report: Callable[[InputError], None] = lambda _: None
    refused: bool = False  # of the document at hand, something was reported

    def take(self, located: Located) -> None:
        self.refused = False
        try:
            super().take(located)
        except (AttributeError, KeyError, TypeError, ValueError):
            # A part has a type that nothing can be made of; mostly that was reported where the part is.
            if not self.refused:
                self.report(refusal(located, "", "a part of the object has another type than its kind says"))

    def refuse(self, error: InputError) -> None:
        self.refused = True
        self.report(error)

    def mended(self, document: dict[str, Any], causes: Sequence[Cause]) -> dict[str, Any]:
        """Numbers and truth values where text is wanted are what they would be in quotes."""
        made: dict[str, Any] = document
        for cause in causes:
            value, path = at(document, cause.field), steps(document, cause.field)
            if "must be of type string" in cause.message and isinstance(value, int | float) and path:
                made = copy.deepcopy(document) if made is document else made
                inner: Any = made
                for step in path[:-1]:
                    inner = inner[step]
                inner[path[-1]] = str(value).lower() if isinstance(value, bool) else str(value)
        return made

    def fault(self, error: InputError) -> None:
        # What has the wrong type cannot be made an object of, which was reported where the type was.
        if not self.refused:
            self.report(error)


def _stand_in(located: Located, one: Made) -> Manifest:
    """The workload that stands for an object of another group, whose faults are reported of the object."""
    made = one.document
    kind = BY_GVK[made["apiVersion"], made["kind"]]
    schema = schema_of(made)
    assert schema is not None
    # Templates of other groups may hold more than Kubernetes' own.
    try:
        document = _with_namespace(admit(without_unknown(schema, made)))
    except Invalid as invalid:
        causes = tuple(
            Cause(_moved(cause.field, one.path), cause.message, cause.reason) for cause in invalid.causes
        )
        raise broken(causes, located) from None
    return Manifest(_decoded(document, kind, located), located, document, one.path)


def _moved(field: str, path: str) -> str:
    """A field of the stand-in, as it is called in the object."""
    return f"{path}{field.removeprefix('spec')}" if field.startswith("spec") else field


def _decoded(document: dict[str, Any], kind: type[Object], located: Located) -> Object:
    try:
        return decode(document, kind)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        text, _, path = str(error).partition(" - at `$.")
        for word, plain in _WORDS.items():
            text = text.replace(f"`{word}`", plain)
        raise refusal(located, path.rstrip("`"), text[:1].lower() + text[1:]) from None


def _served(document: dict[str, Any]) -> dict[str, Any]:
    """What is read of an object that its server admitted with all defaults, and that fits its kind.

    Half of the time for a dump was to find that nothing is wrong in parts that nothing reads.
    """
    made = _with_namespace(pared(document, _LARGE[document["kind"]]))
    for spec in pod_specs(made):
        default_pod_spec(spec)
    return made


def _with_namespace(document: dict[str, Any]) -> dict[str, Any]:
    kind = BY_GVK.get((document["apiVersion"], document["kind"]))
    if kind is not None and kind.NAMESPACED:
        document.setdefault("metadata", {}).setdefault("namespace", DEFAULT_NAMESPACE)
    return document
