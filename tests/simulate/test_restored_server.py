"""An API server that was restored from a backup: its versions go back, its objects are those of old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from operated import START, Operated, pod, pool, replicas

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Meta, Object
from dovetail.base.clock import MINUTE, SECOND
from dovetail.base.errors import ApiError, Conflict, Expired, TimedOut
from dovetail.kube.client import Listing, WatchEvent
from dovetail.kube.informer import Informer
from dovetail.kube.memory import MemoryServer
from dovetail.kube.memory.store import Key, Record
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class

Documents = dict[type[Object], dict[Key, dict[str, Any]]]


def backup(server: MemoryServer) -> tuple[int, Documents]:
    """All objects and the version, as a snapshot of etcd has them."""
    tables = server.store.tables.items()
    kept = {kind: {key: one.document for key, one in table.records.items()} for kind, table in tables}
    return server.store.version, kept


def restore(server: MemoryServer, kept: tuple[int, Documents]) -> None:
    """Go back to the backup: same versions, same UIDs, no history; open watches end."""
    store = server.store
    store.version, documents = kept
    store.places.clear()
    store.dependants.clear()
    for kind, table in store.tables.items():
        table.records.clear()
        table.keys.clear()
        # As if all history were forgotten: whoever watches learns that by an error.
        table.forgotten += len(table.history) + 1
        table.history.clear()
        table.compacted, table.bookmark = store.version, 0
        for key, document in documents[kind].items():
            record: Record[Any] = Record(kind, document, int(document["metadata"]["resourceVersion"]))
            table.records[key] = record
            table.keys.append(key)
            store._index((kind, key), None, record)
        table.keys.sort()
        table.wake()
    store.check()


def node(name: str, version: int, uid: str = "", **label: str) -> Node:
    meta = Meta(name=name, uid=uid or name, resource_version=str(version), labels=label)
    return Node(metadata=meta)


class Scripted:
    """Lists by a script, whose last entry stays; its watches show nothing, or refuse at once."""

    def __init__(self, *lists: tuple[int, tuple[Node, ...]], refuses: ApiError | None = None) -> None:
        self._lists = list(lists)
        self._refuses = refuses
        self.listed = 0
        self.end = asyncio.Event()  # of the watch that is open

    async def list(self, *_: object, **__: object) -> Listing[Node]:
        self.listed += 1
        version, items = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        return Listing(items, str(version))

    async def watch(self, *_: object, **__: object) -> AsyncIterator[WatchEvent[Node]]:
        if self._refuses is not None:
            raise self._refuses
        await self.end.wait()
        self.end.clear()
        raise Expired("too old")
        yield


def follow(script: Callable[[Scripted, VirtualClock, list[str], list[str]], Any], client: Scripted) -> None:
    async def main(clock: VirtualClock) -> None:
        seen: list[str] = []
        restores: list[str] = []
        informer = Informer(
            client,  # type: ignore[arg-type]  # only what an informer asks for
            Node,
            lambda kind, one: seen.append(f"{kind} {one.key} {one.metadata.resource_version}"),
            on_restored=lambda before, now: restores.append(f"{before} -> {now}"),
        )
        running = asyncio.ensure_future(informer.run())
        await clock.sleep(SECOND)
        await script(client, clock, seen, restores)
        running.cancel()

    run_virtual(main)


OLD = (node("a", 3), node("gone-later", 4), node("same", 5))
NEW = (node("a", 8, x="1"), node("b", 9), node("same", 5))


def test_lists_that_stay_older_replace_the_whole_copy() -> None:
    async def script(client: Scripted, clock: VirtualClock, seen: list[str], restores: list[str]) -> None:
        assert sorted(seen) == ["ADDED a 8", "ADDED b 9", "ADDED same 5"]
        seen.clear()
        client.end.set()
        await clock.sleep(20 * SECOND)
        assert (seen, restores) == (["ADDED gone-later 4"], [])  # what is new can be taken in at once
        await clock.sleep(15 * SECOND)
        assert seen[1:] == ["DELETED b 9", "MODIFIED a 3"]
        assert restores == ["10 -> 5"]
        listed = client.listed
        await clock.sleep(10 * MINUTE)
        assert (client.listed, restores) == (listed, ["10 -> 5"])  # and all is well again

    follow(script, Scripted((10, NEW), (5, OLD)))


def test_what_was_deleted_after_the_backup_comes_back() -> None:
    async def script(client: Scripted, clock: VirtualClock, seen: list[str], restores: list[str]) -> None:
        client.end.set()
        await clock.sleep(SECOND)
        assert seen == ["ADDED a 3", "DELETED a 3"]
        client.end.set()
        await clock.sleep(MINUTE)
        assert seen[2:] == ["ADDED a 3"] and restores == ["10 -> 5"]

    follow(script, Scripted((5, (node("a", 3),)), (10, ()), (5, (node("a", 3),))))


def test_two_older_lists_come_from_a_server_that_lags() -> None:
    async def script(client: Scripted, clock: VirtualClock, seen: list[str], restores: list[str]) -> None:
        client.end.set()
        await clock.sleep(5 * MINUTE)
        assert not restores and "DELETED b 9" not in seen
        assert client.listed == 4

    follow(script, Scripted((10, NEW), (5, OLD[:1]), (6, OLD[:1]), (10, NEW)))


def test_a_server_that_has_come_past_its_old_self_is_found_out_by_one_object() -> None:
    async def script(client: Scripted, clock: VirtualClock, seen: list[str], restores: list[str]) -> None:
        seen.clear()
        client.end.set()
        await clock.sleep(SECOND)
        assert seen == ["DELETED b 9", "MODIFIED a 3", "ADDED c 40"]
        assert restores == ["10 -> 40"]

    follow(script, Scripted((10, NEW), (40, (node("a", 3), node("c", 40), node("same", 5)))))


def test_a_version_that_the_server_has_yet_to_reach_is_listed_anew() -> None:
    async def script(_: Scripted, clock: VirtualClock, seen: list[str], restores: list[str]) -> None:
        await clock.sleep(5 * MINUTE)
        assert restores == ["10 -> 5"] and "MODIFIED a 3" in seen

    follow(script, Scripted((10, NEW), (5, OLD), refuses=TimedOut("Too large resource version: 10")))


def test_a_copy_of_the_memory_server_goes_back_with_it() -> None:
    async def main(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        informer = Informer(server.client(), Node, lambda *_: None)
        running = asyncio.ensure_future(informer.run())
        for name in "abc":
            server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        kept = backup(server)
        server.delete(Node, "a")
        server.patch(Node, "b", merge_patch={"metadata": {"labels": {"x": "1"}}})
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "d"}})
        await clock.sleep(SECOND)
        assert sorted(informer.objects) == ["b", "c", "d"]
        restore(server, kept)
        await clock.sleep(MINUTE)
        assert informer.objects == {one.view.key: one.view for one in server.list(Node)}
        assert sorted(informer.objects) == ["a", "b", "c"] and not informer.objects["b"].metadata.labels
        running.cancel()

    run_virtual(main)


@pytest.mark.parametrize("away", [2 * MINUTE, 20 * MINUTE])
def test_controllers_go_on_after_a_restore(away: int) -> None:
    """Work goes on between backup and restore: a pool grows, so that some claims are unknown afterwards."""

    async def main(clock: VirtualClock) -> Operated:
        world = Operated(clock)
        world.start()
        world.create(node_class(), pool(), replicas("web", 4))
        await clock.sleep(5 * MINUTE)
        kept, before = backup(world.server), {one.view.key for one in world.server.list(NodeClaim)}
        world.create(replicas("more", 8))
        await clock.sleep(away)
        later = {one.view.key for one in world.server.list(NodeClaim)} - before
        assert before and later
        unknown = {world.server.record(NodeClaim, name).view.status.provider_id for name in later}
        restore(world.server, kept)
        restored = clock.now()
        with pytest.raises(Conflict, match="but was seen"):
            await world.operator._context.read(NodeClaim, min(later))
        await clock.sleep(2 * MINUTE)
        for kind in (Node, NodeClaim, Pod):
            assert list(world.state.all(kind)) == [one.view for one in world.server.list(kind)]
        world.create(*(pod(f"late-{number}", "1") for number in range(3)))
        await clock.sleep(5 * MINUTE)
        late = [world.server.record(Pod, f"late-{number}", "default").view for number in range(3)]
        assert all(one.spec.node_name for one in late)
        assert {one.view.key for one in world.server.list(NodeClaim)} >= before
        ended = {str(one["instance"]) for one in world.records("instance.terminated") if one["t"] > restored}
        assert ended <= unknown
        restores = {record["what"] for record in world.records("watch.restored")}
        assert {"nodes", "nodeclaims", "pods"} <= restores
        world.state.check()
        return world

    run_virtual(main, start=START)
