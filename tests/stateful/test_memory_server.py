"""Random requests on the embedded server and on a plain dict, compared after every step."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dovetail.api.core import Node, Pod
from dovetail.base.errors import AlreadyExists, ApiError, Expired, NotFound
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.watch import Watch

NAMES = st.sampled_from(["a", "b", "c", "d"])
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]))
FINALIZERS = st.sampled_from([[], ["example.com/f"]])


class StoppedClock:
    def now(self) -> int:
        return 1_772_485_200_000_000_000

    def monotonic(self) -> int:
        return 0

    async def sleep(self, nanoseconds: int) -> None:
        await asyncio.sleep(nanoseconds / 1e9)


@dataclass
class Plain:
    """What the model knows of one node."""

    uid: str
    labels: dict[str, str]
    finalizers: list[str]
    owner: str = ""  # uid of the owner
    deleting: bool = False
    children: list[str] = field(default_factory=list)


class ServerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = MemoryServer(StoppedClock(), history=8, bookmark_every=5)
        self.model: dict[str, Plain] = {}
        self.version = self.server.store.version
        self.watch: Watch[Node] = self._new_watch()
        self.copy: dict[str, str] = {}  # name -> version, as the watch reports it

    def _new_watch(self) -> Watch[Node]:
        return self.server.watch(Node, resource_version=str(self.server.store.version))

    @rule(name=NAMES, labels=LABELS, finalizers=FINALIZERS, owner=NAMES)
    def create(self, name: str, labels: dict[str, str], finalizers: list[str], owner: str) -> None:
        meta: dict[str, Any] = {"name": name, "labels": labels, "finalizers": finalizers}
        parent = self.model.get(owner)
        if parent is not None and owner != name:
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": owner, "uid": parent.uid}]
        try:
            made = self.server.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})
        except AlreadyExists:
            assert name in self.model
            return
        assert name not in self.model
        owner_uid = parent.uid if parent is not None and owner != name else ""
        self.model[name] = Plain(made.uid, labels, finalizers, owner_uid)

    @rule(name=NAMES, labels=LABELS)
    def label(self, name: str, labels: dict[str, str]) -> None:
        try:
            self.server.patch(Node, name, merge_patch={"metadata": {"labels": labels}})
        except NotFound:
            assert name not in self.model
            return
        self.model[name].labels = {**self.model[name].labels, **labels}

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        try:
            self.server.patch(Node, name, merge_patch={"metadata": {"finalizers": None}})
        except NotFound:
            assert name not in self.model
            return
        self.model[name].finalizers = []
        if self.model[name].deleting:
            del self.model[name]

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        try:
            self.server.delete(Node, name)
        except NotFound:
            assert name not in self.model
            return
        self._delete_plain(name)

    def _delete_plain(self, name: str) -> None:
        if self.model[name].finalizers:
            self.model[name].deleting = True
        else:
            del self.model[name]

    @rule()
    def collect(self) -> None:
        self.server.collector.collect()
        while True:
            living = {item.uid for item in self.model.values()}
            orphans = [
                name
                for name, item in self.model.items()
                if item.owner and item.owner not in living and not item.deleting
            ]
            if not orphans:
                return
            for name in orphans:
                self._delete_plain(name)

    @rule(name=NAMES, stale=st.integers(0, 3))
    @precondition(lambda self: self.model)
    def conflict(self, name: str, stale: int) -> None:
        record = self.server.store.table(Node).records.get(("", name))
        if record is None:
            return
        meta = {"resourceVersion": str(record.version - stale), "labels": {"z": "1"}}
        try:
            self.server.patch(Node, name, merge_patch={"metadata": meta})
        except ApiError as error:
            assert error.status == 409 and stale
            return
        assert not stale
        self.model[name].labels = {**self.model[name].labels, "z": "1"}

    @rule()
    def read_watch(self) -> None:
        try:
            while (found := self.watch.read()) is not None:
                kind, change = found
                if isinstance(change, int):
                    continue
                name = change.after.document["metadata"]["name"]
                assert (kind == "ADDED") == (name not in self.copy)
                if kind == "DELETED":
                    del self.copy[name]
                else:
                    self.copy[name] = str(change.version)
        except Expired:
            self.copy = self._versions()
            self.watch = self._new_watch()
        assert self.copy == self._versions()

    @rule()
    def compact(self) -> None:
        self.server.compact()

    def _versions(self) -> dict[str, str]:
        return {record.document["metadata"]["name"]: str(record.version) for record in self.server.list(Node)}

    @invariant()
    def same_as_plain(self) -> None:
        self.server.check()
        assert self.server.store.version >= self.version
        self.version = self.server.store.version
        found = {record.view.metadata.name: record.view for record in self.server.list(Node)}
        assert list(found) == sorted(self.model)
        for name, item in self.model.items():
            meta = found[name].metadata
            assert (meta.uid, meta.labels, list(meta.finalizers)) == (item.uid, item.labels, item.finalizers)
            assert found[name].deleting == item.deleting


ServerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestServer = ServerMachine.TestCase


def test_same_seed_same_names_and_uids() -> None:
    """Names and uids of one object do not depend on what else is created."""
    container = {"name": "app", "image": "app"}
    wanted = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "web-"},
        "spec": {"containers": [container]},
    }
    seen = []
    for others in (0, 3):
        server = MemoryServer(StoppedClock(), seed=7)
        for index in range(others):
            server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{index}"}})
        made = server.create(wanted)
        assert made.kind is Pod
        seen.append((made.view.metadata.name, made.uid))
    assert seen[0] == seen[1]
