"""The requests of the API server, on documents. `client()` gives the typed port.

Names and uids are drawn so that one object's never depend on another's. A new pod gets its priority from its
class, and what its devices, its RuntimeClass and its namespace add to it, as the admission plugins have it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from dovetail.api.admission import admit
from dovetail.api.apiextensions import CustomResourceDefinition, definition_name
from dovetail.api.codec import decode, encode
from dovetail.api.core import Event, Namespace, Pod
from dovetail.api.meta import Object
from dovetail.api.namespaces import LimitRange, ResourceQuota
from dovetail.api.pod_resources import extended
from dovetail.api.scheme import KINDS
from dovetail.api.workloads import BUILT_IN_PRIORITIES, PriorityClass, RuntimeClass
from dovetail.base.clock import HOUR, Clock
from dovetail.base.errors import ApiError, Forbidden, NotFound
from dovetail.base.mergepatch import clone, merge
from dovetail.base.streams import stream
from dovetail.kube.memory import rules, texts
from dovetail.kube.memory.client import MemoryClient
from dovetail.kube.memory.disruption import DisruptionController, check_eviction, evicted
from dovetail.kube.memory.garbage import FINALIZERS, Collector
from dovetail.kube.memory.patching import apply_json
from dovetail.kube.memory.selectors import selection
from dovetail.kube.memory.store import Change, Key, Record, Store
from dovetail.kube.memory.watch import Watch, parse_version
from dovetail.model.allowances import Quotas
from dovetail.model.pod_admission import PodAdmission
from dovetail.units.timestamp import to_rfc3339

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    """One for each custom kind that the scheme knows; of what they say, only that they are there."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._kinds = {definition_name(kind): kind for kind in KINDS if texts.group(kind) in rules.CUSTOM}
        self._names = {kind: name for name, kind in self._kinds.items()}
        self._ending: set[type[Object]] = set()

    def add_all(self) -> None:
        """Define every custom kind, before all objects: some are older than what is played."""
        for kind in self._names:
            self.add(kind, created=0)

    def add(self, kind: type[Object], *, created: int | None = None) -> None:
        """Define a custom kind (again). Raises AlreadyExists."""
        made, name = CustomResourceDefinition, self._names[kind]
        document: dict[str, Any] = {"apiVersion": made.API_VERSION, "kind": made.KIND}
        document["metadata"] = {"name": name, "finalizers": [_CLEANUP]}
        self._server.store_new(made, document, ("", name), created)

    def check(self, kind: type[Object]) -> None:
        """Raises NotFound or ApiError where no object of the kind may be created now."""
        name = self._names.get(kind)
        if name is None:
            return
        record = self._server.store.table(CustomResourceDefinition).records.get(("", name))
        if record is None:
            raise NotFound("the server could not find the requested resource")
        if "deletionTimestamp" in record.document["metadata"]:
            raise ApiError("create not allowed while custom resource definition is terminating")

    def notice(self, change: Change[Any]) -> None:
        """A deleted definition deletes all objects of its kind, and goes with the last of them."""
        kind = change.after.kind
        if kind is CustomResourceDefinition and change.type == "MODIFIED":
            self._end(self._kinds[change.after.document["metadata"]["name"]])
        elif kind in self._names and change.type == "DELETED":
            self._end(kind)

    def _end(self, kind: type[Object]) -> None:
        """Go on with the end of a definition, if it is deleted; what is deleted here is noticed as well."""
        server, name = self._server, self._names[kind]
        record = server.store.table(CustomResourceDefinition).records.get(("", name))
        if record is None or "deletionTimestamp" not in record.document["metadata"] or kind in self._ending:
            return
        self._ending.add(kind)
        for (namespace, key), item in list(server.store.table(kind).records.items()):
            if "deletionTimestamp" not in item.document["metadata"]:
                server.delete(kind, key, namespace)
        self._ending.discard(kind)
        if not server.store.table(kind).records and record.document["metadata"].get("finalizers"):
            server.patch(CustomResourceDefinition, name, merge_patch={"metadata": {"finalizers": None}})


_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 58  # of a generated name: 63 less the five characters


class Names:
    """Counts what was given, per kind and name."""

    def __init__(self, store: Store, seed: int) -> None:
        self._store = store
        self._seed = seed
        self._generated: dict[str, int] = {}  # names drawn so far, per kind, namespace and prefix
        self._births: dict[tuple[str, Key], int] = {}  # objects that had that name so far

    def generate(self, kind: type[Object], namespace: str, prefix: str) -> str:
        """The prefix and five characters; never a name that is taken."""
        entity = f"{kind.PLURAL}/{namespace}/{prefix}"
        while True:
            count = self._generated.get(entity, 0)
            self._generated[entity] = count + 1
            random = stream(self._seed, f"{entity}/{count}", "name")
            name = prefix[:_LONGEST_PREFIX] + "".join(random.choice(_ALPHABET) for _ in range(5))
            if (namespace, name) not in self._store.table(kind).records:
                return name

    def uid(self, kind: type[Object], key: Key) -> str:
        """A version 4 UUID for the n-th object of that name."""
        count = self._births.get((kind.PLURAL, key), 0)
        self._births[kind.PLURAL, key] = count + 1
        text = f"{self._seed}\0{kind.PLURAL}/{key[0]}/{key[1]}/{count}"
        digits = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        variant = "89ab"[int(digits[16], 16) % 4]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


_PREEMPTS = "PreemptLowerPriority"  # what a class says of preemption unless it says otherwise
Observer = Callable[[Change[Any]], object]


class Journal:
    """Observers learn of every change in order, even of those that one of them makes meanwhile."""

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self._pending: deque[Change[Any]] = deque()
        self._publishing = False

    def publish(self, change: Change[Any]) -> None:
        """Call every observer; a change made meanwhile comes after the present one."""
        self._pending.append(change)
        if self._publishing:
            return
        self._publishing = True
        try:
            while self._pending:
                present = self._pending.popleft()
                for observer in self.observers:
                    observer(present)
        finally:
            self._publishing = False

    def check(self) -> None:
        """Assert that no observer missed anything."""
        assert self._publishing or not self._pending


def resolve_priority(store: Store, pod: dict[str, Any]) -> None:
    """Fill in `spec.priority`, and the default class where none is named; changes the document.

    Raises Forbidden for a class that does not exist, and for a priority or a policy that is not the class's.
    """
    spec = pod.setdefault("spec", {})
    given, policy = spec.pop("priority", None), spec.pop("preemptionPolicy", None)
    _resolve(store, pod, spec)
    if given is not None and given != spec["priority"]:
        raise _forbidden(
            pod,
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission"
            f" controller computed {spec['priority']} from the given PriorityClass name",
        )
    computed = spec.get("preemptionPolicy", _PREEMPTS)
    if policy is not None and policy != computed:
        raise _forbidden(
            pod,
            f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority "
            f"admission controller computed {computed} from the given PriorityClass name",
        )


def with_additions(store: Store, namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with what LimitRanges, devices and its RuntimeClass add to it.

    Raises Forbidden for what they or ResourceQuotas do not allow. Time: O(pods) where there are quotas.
    """
    ranges = [one.view for (of, _), one in store.table(LimitRange).records.items() if of == namespace]
    quotas = [one.view for (of, _), one in store.table(ResourceQuota).records.items() if of == namespace]
    if not ranges and not quotas and _plain(pod["spec"]):
        return pod
    there = (one.view for (of, _), one in store.table(Pod).records.items() if of == namespace)
    admission = PodAdmission(
        {namespace: sorted(ranges, key=lambda one: one.key)},
        {name: one.view for (_, name), one in store.table(RuntimeClass).records.items()},
        Quotas(quotas, there if quotas else ()),
    )
    made, why = admission.admitted(decode(pod, Pod))
    if why:
        raise _forbidden(pod, why)
    given, spec = dict(pod["spec"]), made.spec
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        if containers:
            given[name] = [
                {**document, "resources": {**document.get("resources", {}), **encode(container.resources)}}
                for document, container in zip(given[name], containers, strict=True)
            ]
    added = {"overhead": spec.overhead, "nodeSelector": spec.node_selector, "tolerations": spec.tolerations}
    given |= {name: encode(value) for name, value in added.items() if value}
    return {**pod, "spec": given}


def _plain(spec: dict[str, Any]) -> bool:
    """True iff nothing is added to the pod where there are no rules of a namespace."""
    if spec.get("runtimeClassName") or spec.get("overhead"):
        return False
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    return not any(
        extended(name) for one in containers for name in one.get("resources", {}).get("requests", ())
    )


def _resolve(store: Store, pod: dict[str, Any], spec: dict[str, Any]) -> None:
    classes = store.table(PriorityClass).records
    name = spec.get("priorityClassName", "")
    if not name:
        defaults = [
            record.document for record in classes.values() if record.document.get("globalDefault") is True
        ]
        if not defaults:
            spec["priority"] = 0
            return
        # With several defaults the lowest value counts.
        lowest = min(defaults, key=lambda item: (item.get("value", 0), item["metadata"]["name"]))
        name = spec["priorityClassName"] = lowest["metadata"]["name"]
    found = classes.get(("", name))
    if found is not None:
        spec["priority"] = found.document.get("value", 0)
        spec["preemptionPolicy"] = found.document.get("preemptionPolicy", _PREEMPTS)
    elif name in BUILT_IN_PRIORITIES:
        spec["priority"] = BUILT_IN_PRIORITIES[name]
        spec["preemptionPolicy"] = _PREEMPTS
    else:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")


def _forbidden(pod: dict[str, Any], why: str) -> Forbidden:
    return Forbidden(f'pods "{pod["metadata"].get("name", "")}" is forbidden: {why}')


T = TypeVar("T", bound=Object)
Document = dict[str, Any]
Admit = Callable[[Document, Document | None], Document]
Propagation = Literal["Background", "Foreground", "Orphan"]

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_EVENT_LIFE = HOUR


class MemoryServer:
    """Every request is atomic and answers at once; nothing here waits, except the background tasks.

    `admit` defaults or refuses a document, and leaves its input as it is. `history` is how many changes of
    each kind are kept for watches, `bookmark_every` after how many versions watches get a bookmark.
    A status given at creation is dropped, as a real server does (nodes excepted).
    """

    def __init__(
        self,
        clock: Clock,
        *,
        admit: Admit = admit,
        seed: int = 0,
        history: int = 10_000,
        bookmark_every: int = 1_000,
    ) -> None:
        self.clock = clock
        self.store = Store(history)
        self._admit = admit
        self._names = Names(self.store, seed)
        self._bookmark_every = bookmark_every
        self._journal = Journal()
        self._events: deque[tuple[int, Key, int]] = deque()  # (instant, key, version) of each Event written
        self.collector = Collector(self)
        self.disruption = DisruptionController(self)
        self.definitions = Definitions(self)
        self.definitions.add_all()
        for name in _NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def client(self, user: str = "") -> MemoryClient:
        """The typed port; `user` says who asks."""
        return MemoryClient(self, user)

    def observe(self, callback: Observer) -> None:
        """Call `callback(change)` after every change from now on, in order.

        Its records are the stored ones, with their documents and views: read them, never change them.
        """
        self._journal.observers.append(callback)

    async def run_gc(self) -> None:
        """Collect what lost its owners, for ever."""
        await self.collector.run()

    async def run_disruption(self) -> None:
        """Keep the status of every PodDisruptionBudget, for ever; evictions update it by themselves."""
        await self.disruption.run()

    def check(self) -> None:
        """Assert every invariant; for tests."""
        self.store.check()
        self._journal.check()
        self.disruption.check()

    def compact(self) -> None:
        """Forget all history: watches from before now get Expired."""
        for table in self.store.tables.values():
            table.forget(len(table.history))
            table.compacted = self.store.version

    # Requests that read

    def get(self, kind: type[Object], name: str, namespace: str = "") -> Document:
        """A copy of the document. Raises NotFound."""
        copy: Document = clone(self.record(kind, name, namespace).document)
        return copy

    def record(self, kind: type[T], name: str, namespace: str = "") -> Record[T]:
        """The stored version. Raises NotFound."""
        found = self.store.table(kind).records.get((namespace, name))
        if found is None:
            raise texts.not_found(kind, name)
        return found

    def list(
        self, kind: type[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Record[T]]:
        """The stored versions that match, in order of namespace and name."""
        records = self.store.table(kind).select(namespace)
        if not labels and not fields:
            return [*records]
        selects = selection(kind, labels, fields)
        return [record for record in records if selects(record.document)]

    def watch(
        self, kind: type[T], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> Watch[T]:
        """Changes after that version. Raises Expired when they are no longer kept."""
        selects = selection(kind, labels, fields) if labels or fields else None
        return Watch(self.store.table(kind), parse_version(resource_version), namespace, selects)

    # Requests that write

    def create(self, document: Mapping[str, Any], *, created: int | None = None) -> Record[Any]:
        """Raises BadRequest, Invalid, AlreadyExists, and NotFound for a missing namespace.

        `created` (ns since the epoch) is when an object was made that is older than what is played.
        """
        return self.create_own(clone(document), created)

    def create_own(self, new: Document, created: int | None = None) -> Record[Any]:
        """The same with a document that is the server's from now on, and need not be copied."""
        kind = rules.kind_of(new)
        meta: Document = new.setdefault("metadata", {})
        if meta.get("resourceVersion"):
            raise ApiError("resourceVersion should not be set on objects to be created")
        namespace = self._creation_namespace(kind, meta)
        rules.prepare_creation(kind, new)
        if not meta.get("name"):
            if not meta.get("generateName"):
                raise rules.name_required(kind)
            meta["name"] = self._names.generate(kind, namespace, meta["generateName"])
        key = (namespace, meta["name"])
        self.definitions.check(kind)
        if kind is Pod:
            resolve_priority(self.store, new)
        admitted = self._admit(new, None)
        if kind is Pod:
            admitted = with_additions(self.store, namespace, admitted)
        return self.store_new(kind, admitted, key, created)

    def store_new(self, kind: type[T], new: Document, key: Key, created: int | None = None) -> Record[T]:
        """Store an admitted document as a new object; the document is the server's from now on."""
        if key in self.store.table(kind).records:
            raise texts.already_exists(kind, key[1])
        new["metadata"]["uid"] = self._names.uid(kind, key)
        new["metadata"]["creationTimestamp"] = to_rfc3339(self.clock.now() if created is None else created)
        return self._commit(kind, key, new)

    def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str = "",
        *,
        merge_patch: Mapping[str, Any] | None = None,
        json_patch: Sequence[Mapping[str, Any]] | None = None,
        status: bool = False,
    ) -> Record[T]:
        """Apply one patch, or both in this order. Raises NotFound, Conflict, Invalid, BadRequest."""
        record = self.record(kind, name, namespace)
        if status and not rules.has_status(kind):
            raise NotFound("the server could not find the requested resource")
        new: Document = record.document
        if merge_patch is not None:
            new = merge(new, merge_patch)
        if json_patch is not None:
            new = apply_json(new, json_patch)
        return self._update(record, (namespace, name), new, status=status)

    def replace(self, document: Mapping[str, Any], *, status: bool = False) -> Record[Any]:
        """Store a whole document; one without a resourceVersion is stored whatever the present one is."""
        kind = rules.kind_of(document)
        meta = document.get("metadata") or {}
        key = (meta.get("namespace", ""), meta.get("name", ""))
        return self._update(self.record(kind, key[1], key[0]), key, clone(document), status=status)

    def delete(
        self,
        kind: type[Object],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Mark for deletion, or remove at once what nothing holds. Raises NotFound, Conflict (uid)."""
        record = self.record(kind, name, namespace)
        if uid and uid != record.uid:
            raise texts.wrong_uid(kind, name, uid, record.uid)
        old = record.document
        meta = dict(old["metadata"])
        if propagation in FINALIZERS or "deletionTimestamp" not in meta:
            rules.set_propagation(meta, FINALIZERS.get(propagation, ""))
        grace = rules.pod_grace(old, grace_period_seconds) if kind is Pod else 0
        self._mark(meta, grace, grace_period_seconds)
        self._store_or_remove(record, (namespace, name), {**old, "metadata": meta})

    def evict(self, name: str, namespace: str, *, uid: str = "", resource_version: str = "") -> None:
        """Raises TooManyRequests when a budget forbids it now, ApiError (500) when several budgets match."""
        record = self.record(Pod, name, namespace)
        if uid and uid != record.uid:
            raise texts.wrong_uid(Pod, name, uid, record.uid)
        known = record.document["metadata"]["resourceVersion"]
        if resource_version and resource_version != known:
            raise texts.wrong_version(Pod, name, resource_version, known)
        self.disruption.sync()
        check_eviction(self.store, record.document)
        if "deletionTimestamp" not in record.document["metadata"]:
            marked = evicted(record.document, to_rfc3339(self.clock.now()))
            self._commit(Pod, (namespace, name), marked)
        self.delete(Pod, name, namespace)

    def bind(self, name: str, namespace: str, node: str) -> None:
        """Give a pending pod its node, once. Raises NotFound, Conflict."""
        record = self.record(Pod, name, namespace)
        old = record.document
        rules.check_binding(Pod, old, node)
        now = to_rfc3339(self.clock.now())
        bound = rules.with_condition(
            old, {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
        )
        # A nomination has done its work.
        status = {key: value for key, value in bound["status"].items() if key != "nominatedNodeName"}
        new = {**bound, "spec": {**old.get("spec", {}), "nodeName": node}, "status": status}
        self._commit(Pod, (namespace, name), new)

    # What the requests have in common

    def _update(self, record: Record[T], key: Key, asked: Document, *, status: bool) -> Record[T]:
        kind, old = record.kind, record.document
        new = rules.prepare_update(kind, old, asked, status=status)
        if not status:
            if kind is Pod:
                rules.check_pod_update(kind, old, new)
            new = self._admit(new, old)
        new = rules.share(old, new)
        if not status and kind.KIND in rules.GENERATIONAL and rules.wanted_changed(old, new):
            generation = new["metadata"].get("generation", 1) + 1
            new["metadata"] = {**new["metadata"], "generation": generation}
        return self._store_or_remove(record, key, new)

    def _store_or_remove(self, record: Record[T], key: Key, new: Document) -> Record[T]:
        """Store the document, unless nothing changed or nothing holds it any more."""
        meta = new["metadata"]
        held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in meta and not held:
            return self._commit(record.kind, key, new, gone=True)
        return record if new == record.document else self._commit(record.kind, key, new)

    def _mark(self, meta: Document, grace: int, asked: int | None) -> None:
        """Stamp the deletion; one under way may only be hurried."""
        now = self.clock.now()
        if "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = to_rfc3339(rules.deletion_instant(now, grace))
            meta["deletionGracePeriodSeconds"] = grace
            if "generation" in meta:
                meta["generation"] += 1
        elif asked is not None and grace < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionTimestamp"] = to_rfc3339(rules.deletion_instant(now, grace))
            meta["deletionGracePeriodSeconds"] = grace

    def _commit(self, kind: type[T], key: Key, document: Document, *, gone: bool = False) -> Record[T]:
        change = self.store.commit(kind, key, document, gone=gone)
        self.collector.notice(change)
        self.disruption.notice(change)
        self.store.table(kind).wake()
        if change.version % self._bookmark_every == 0:
            for table in self.store.tables.values():
                table.bookmark = change.version
                table.wake()
        self._journal.publish(change)
        if kind is Event and not gone:
            self._expire_events(key, change.version)
        self.definitions.notice(change)
        return change.after

    def _expire_events(self, key: Key, version: int) -> None:
        """Events live for an hour after they were last written."""
        now = self.clock.now()
        self._events.append((now, key, version))
        while self._events[0][0] <= now - _EVENT_LIFE:
            _, old, written = self._events.popleft()
            record = self.store.table(Event).records.get(old)
            if record is not None and record.version == written:
                self._commit(Event, old, record.document, gone=True)

    def _creation_namespace(self, kind: type[Object], meta: Document) -> str:
        if not kind.NAMESPACED:
            meta.pop("namespace", None)  # as a real server does, without a word
            return ""
        namespace: str = meta.setdefault("namespace", "default") or "default"
        meta["namespace"] = namespace
        if ("", namespace) not in self.store.table(Namespace).records:
            raise texts.not_found(Namespace, namespace)
        return namespace
