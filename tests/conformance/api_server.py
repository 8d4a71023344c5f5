"""What every twin of the API server must do, through the Client port alone.

A module of tests gives the suite a control plane with a fixture `run`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from dovetail.api.core import (
    Affinity,
    Container,
    Namespace,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    Pod,
    PodSpec,
    SchedulingGate,
    SelectorRequirement,
    Taint,
)
from dovetail.api.meta import Condition, LabelSelector, Meta, Object, OwnerReference
from dovetail.api.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from dovetail.base.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
)
from dovetail.kube.client import Client, WatchEvent
from dovetail.model.on_demand import Siblings, held, patch, tell_one

CHANGED = "the object has been modified; please apply your changes to the latest version and try again"


class Plane(Protocol):
    """A control plane under test."""

    client: Client

    async def eventually(self, check: Callable[[], Awaitable[None]]) -> None:
        """Return once `check` passes: what its own controllers do takes them a while."""

    async def too_old(self) -> str:
        """A version from before what is kept of the history."""


Check = Callable[[Plane], Awaitable[None]]
Run = Callable[[Check], None]


def pod(name: str = "web", **meta: Any) -> Pod:
    spec = PodSpec(containers=(Container(name="app", image="app:1"),))
    return Pod(metadata=Meta(name=name, namespace="default", **meta), spec=spec)


def owned(name: str, owner: Object, *, blocks: bool = True) -> Pod:
    reference = OwnerReference(
        api_version=owner.API_VERSION,
        kind=owner.KIND,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        block_owner_deletion=blocks,
    )
    return pod(name, owner_references=(reference,))


async def caught_up(plane: Plane) -> None:
    """Return once the garbage collector knows the pods that are there: it learns of them in their order."""
    owner = await plane.client.create(Node(metadata=Meta(name="former-owner")))
    await plane.client.create(owned("last-child", owner))
    await plane.client.delete(Node, "former-owner", propagation="Background")

    async def collected() -> None:
        with pytest.raises(NotFound):
            await plane.client.get(Pod, "last-child", "default")

    await plane.eventually(collected)


async def next_events(watch: Any, count: int) -> list[WatchEvent[Any]]:
    found: list[WatchEvent[Any]] = []
    while len(found) < count:
        event = await asyncio.wait_for(anext(watch), 5)
        if event.type != "BOOKMARK":
            found.append(event)
    return found


async def until_deleted(watch: Any) -> list[WatchEvent[Any]]:
    found = await next_events(watch, 1)
    while found[-1].type != "DELETED":
        found += await next_events(watch, 1)
    return found


async def running(plane: Plane, name: str, *, ready: bool = True, **meta: Any) -> Pod:
    """A pod that runs on node n1."""
    await plane.client.create(pod(name, **meta))
    await plane.client.bind(name, "default", "n1")
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    merge = {"status": {"phase": "Running", "conditions": conditions}}
    return await plane.client.patch(Pod, name, "default", merge=merge, status=True)


def budget(name: str, **spec: Any) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels={"app": "web"})
    return PodDisruptionBudget(
        metadata=Meta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=selector, **spec),
    )


async def counted(plane: Plane, *, pods: int, healthy: int) -> None:
    """Return once the status of every budget knows of so many pods."""

    async def known() -> None:
        for item in (await plane.client.list(PodDisruptionBudget)).items:
            assert item.status.observed_generation == item.metadata.generation
            assert (item.status.expected_pods, item.status.current_healthy) == (pods, healthy)

    await plane.eventually(known)


class ApiServerSuite:
    """Every twin passes all of it."""

    def test_creation_fills_in_what_is_the_servers(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            made = await plane.client.create(pod())
            meta = made.metadata
            assert (meta.generation, len(meta.uid), meta.creation_timestamp[-1]) == (1, 36, "Z")
            assert int(meta.resource_version) > 0 and made.status.phase == "Pending"
            assert await plane.client.get(Pod, "web", "default") == made

        run(check)

    def test_generated_names_are_the_prefix_and_five_characters(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            spec = pod().spec
            names = []
            for _ in range(20):
                made = await plane.client.create(Pod(metadata=Meta(generate_name="web-"), spec=spec))
                names.append(made.metadata.name)
            assert len(set(names)) == 20
            assert all(
                len(name) == 9 and set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789") for name in names
            )

        run(check)

    @pytest.mark.parametrize(
        ("obj", "error", "text"),
        [
            (pod("taken"), AlreadyExists, 'pods "taken" already exists'),
            (
                pod(resource_version="1"),
                ApiError,
                "resourceVersion should not be set on objects to be created",
            ),
            (Pod(metadata=Meta(name="a", namespace="nowhere")), ApiError, "nowhere"),
            (
                Pod(metadata=Meta(namespace="default"), spec=pod().spec),
                Invalid,
                "name or generateName is required",
            ),
            (
                Pod(
                    metadata=Meta(name="p"),
                    spec=PodSpec(priority_class_name="x", containers=pod().spec.containers),
                ),
                Forbidden,
                'pods "p" is forbidden: no PriorityClass with name x was found',
            ),
        ],
    )
    def test_refused_creations(self, run: Run, obj: Object, error: type[ApiError], text: str) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(pod("taken"))
            with pytest.raises(error, match=re.escape(text)):
                await plane.client.create(obj)

        run(check)

    def test_an_object_of_the_cluster_has_no_namespace(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            made = await plane.client.create(Node(metadata=Meta(name="n", namespace="default")))
            assert made.metadata.namespace == ""

        run(check)

    def test_what_is_missing(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            for request in (
                client.get(Pod, "x", "default"),
                client.patch(Pod, "x", "default", merge={}),
                client.delete(Pod, "x", "default"),
                client.evict("x", "default"),
                client.bind("x", "default", "n1"),
            ):
                with pytest.raises(NotFound, match='pods "x" not found'):
                    await request
            with pytest.raises(NotFound, match=r'poddisruptionbudgets\.policy "x" not found'):
                await client.get(PodDisruptionBudget, "x", "default")

        run(check)

    def test_a_stale_version_is_a_conflict(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            node = await plane.client.create(Node(metadata=Meta(name="x")))
            stale = {"resourceVersion": node.metadata.resource_version, "labels": {"a": "1"}}
            await plane.client.patch(Node, "x", merge={"metadata": stale})
            with pytest.raises(Conflict) as caught:
                await plane.client.patch(Node, "x", merge={"metadata": {**stale, "labels": {"a": "2"}}})
            assert str(caught.value) == f'Operation cannot be fulfilled on nodes "x": {CHANGED}'
            assert (await plane.client.get(Node, "x")).metadata.labels == {"a": "1"}

        run(check)

    def test_a_patch_that_changes_nothing_stores_nothing(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            made = await plane.client.create(Node(metadata=Meta(name="x", labels={"a": "1"})))
            same = await plane.client.patch(Node, "x", merge={"metadata": {"labels": {"a": "1", "b": None}}})
            assert same.metadata.resource_version == made.metadata.resource_version

        run(check)

    def test_generation_counts_changes_of_the_spec_alone(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(budget("b", min_available=1))
            steps: list[tuple[dict[str, Any], bool, int]] = [
                ({"metadata": {"labels": {"a": "1"}}}, False, 1),
                ({"spec": {"minAvailable": 2}}, False, 2),
                ({"status": {"currentHealthy": 7}}, True, 2),
            ]
            for merge, status, generation in steps:
                patched = await plane.client.patch(
                    PodDisruptionBudget, "b", "default", merge=merge, status=status
                )
                assert patched.metadata.generation == generation

        run(check)

    def test_status_and_spec_are_written_apart(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            merge = {"metadata": {"labels": {"a": "1"}}, "spec": {"unschedulable": True}, "status": {}}
            capacity = {"status": {"capacity": {"cpu": "4"}}}
            await plane.client.create(Node(metadata=Meta(name="x")))
            node = await plane.client.patch(Node, "x", merge=merge | capacity, status=True)
            assert (node.metadata.labels, node.spec.unschedulable, len(node.status.capacity)) == (
                {"a": "1"},  # of Kubernetes' own kinds labels go along with the status
                False,
                1,
            )
            node = await plane.client.patch(Node, "x", merge=merge | {"status": {"capacity": None}})
            assert (node.metadata.labels, node.spec.unschedulable, len(node.status.capacity)) == (
                {"a": "1"},
                True,
                1,
            )

        run(check)

    @pytest.mark.parametrize(
        ("operations", "labels"),
        [
            ([{"op": "add", "path": "/metadata/labels/c", "value": "3"}], {"a": "1", "b/x": "2", "c": "3"}),
            ([{"op": "remove", "path": "/metadata/labels/b~1x"}], {"a": "1"}),
            ([{"op": "replace", "path": "/metadata/labels/a", "value": "9"}], {"a": "9", "b/x": "2"}),
            (
                [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/d"}],
                {"b/x": "2", "d": "1"},
            ),
            (
                [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/d"}],
                {"a": "1", "b/x": "2", "d": "1"},
            ),
            ([{"op": "test", "path": "/metadata/labels/a", "value": "1"}], {"a": "1", "b/x": "2"}),
        ],
    )
    def test_json_patch(self, run: Run, operations: list[dict[str, Any]], labels: dict[str, str]) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(Node(metadata=Meta(name="x", labels={"a": "1", "b/x": "2"})))
            patched = await plane.client.patch(Node, "x", json=operations)
            assert patched.metadata.labels == labels

        run(check)

    def test_a_json_patch_may_test_that_a_field_is_not_there(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(Node(metadata=Meta(name="x", labels={"a": "1"})))
            missing = {"op": "test", "path": "/metadata/labels/b", "value": None}
            added = {"op": "add", "path": "/metadata/labels/b", "value": "2"}
            patched = await plane.client.patch(Node, "x", json=[missing, added])
            assert patched.metadata.labels == {"a": "1", "b": "2"}
            with pytest.raises(Invalid):
                await plane.client.patch(Node, "x", json=[missing, added])

        run(check)

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "test", "path": "/metadata/labels/a", "value": "2"},
            {"op": "test", "path": "/metadata/labels/zz", "value": ""},
            {"op": "test", "path": "/metadata/nothing/zz", "value": None},
            {"op": "remove", "path": "/metadata/labels/zz"},
            {"op": "replace", "path": "/spec/taints/3", "value": {}},
            {"op": "add", "path": "/spec/taints/9", "value": {}},
        ],
    )
    def test_json_patch_is_all_or_nothing(self, run: Run, operation: dict[str, Any]) -> None:
        async def check(plane: Plane) -> None:
            taints = (Taint(key="t", effect="NoSchedule"),)
            await plane.client.create(
                Node(metadata=Meta(name="x", labels={"a": "1"}), spec=NodeSpec(taints=taints))
            )
            first = {"op": "add", "path": "/metadata/labels/new", "value": "1"}
            with pytest.raises(
                Invalid, match="the server rejected our request due to an error in our request"
            ):
                await plane.client.patch(Node, "x", json=[first, operation])
            assert (await plane.client.get(Node, "x")).metadata.labels == {"a": "1"}

        run(check)

    def test_lists_are_ordered_and_selected(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(Namespace(metadata=Meta(name="a-team")))
            for namespace, name, labels in (
                ("default", "b", {"app": "web"}),
                ("default", "a", {"app": "db", "tier": "1"}),
                ("a-team", "z", {"app": "web", "tier": "2"}),
            ):
                meta = Meta(name=name, namespace=namespace, labels=labels)
                await plane.client.create(Pod(metadata=meta, spec=pod().spec))
            await plane.client.bind("a", "default", "n1")
            for selector, expected in (
                ({}, ["a-team/z", "default/a", "default/b"]),
                ({"namespace": "default"}, ["default/a", "default/b"]),
                ({"labels": "app=web"}, ["a-team/z", "default/b"]),
                ({"labels": "app in (db, x),tier"}, ["default/a"]),
                ({"labels": "!tier"}, ["default/b"]),
                ({"labels": "app!=web"}, ["default/a"]),
                ({"labels": "tier notin (1)"}, ["a-team/z", "default/b"]),
                ({"fields": "spec.nodeName=n1"}, ["default/a"]),
                ({"fields": "spec.nodeName!=n1,metadata.namespace=default"}, ["default/b"]),
                ({"fields": "spec.schedulerName=default-scheduler,metadata.name=z"}, ["a-team/z"]),
                ({"fields": "status.phase=Running"}, []),
            ):
                listing = await plane.client.list(Pod, **selector)
                assert [item.key for item in listing.items] == expected, selector
            with pytest.raises(BadRequest, match=r"field label not supported: spec\.color"):
                await plane.client.list(Pod, fields="spec.color=red")
            with pytest.raises(BadRequest):
                await plane.client.list(Pod, labels="app=web,=")

        run(check)

    def test_finalizers_hold_a_deleted_object(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            await client.create(Node(metadata=Meta(name="x", finalizers=("example.com/a", "example.com/b"))))
            await client.delete(Node, "x")
            first = await client.get(Node, "x")
            assert first.deleting
            await client.delete(Node, "x")
            assert await client.get(Node, "x") == first
            with pytest.raises(
                Invalid, match="no new finalizers can be added if the object is being deleted"
            ):
                finalizers = ["example.com/a", "example.com/c"]
                await client.patch(Node, "x", merge={"metadata": {"finalizers": finalizers}})
            await client.patch(Node, "x", merge={"metadata": {"finalizers": ["example.com/b"]}})
            await client.patch(Node, "x", merge={"metadata": {"finalizers": None}})
            with pytest.raises(NotFound):
                await client.get(Node, "x")

        run(check)

    def test_deletion_binds_to_a_uid(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            made = await plane.client.create(pod())
            for request in (
                plane.client.delete(Pod, "web", "default", uid="other"),
                plane.client.evict("web", "default", uid="other"),
            ):
                with pytest.raises(Conflict) as caught:
                    await request
                assert str(caught.value) == (
                    'Operation cannot be fulfilled on Pod "web": the UID in the precondition (other) does not'
                    f" match the UID in record ({made.metadata.uid})."
                    " The object might have been deleted and then recreated"
                )
            with pytest.raises(Invalid, match=r'metadata.uid: Invalid value: "other": field is immutable'):
                await plane.client.patch(Pod, "web", "default", merge={"metadata": {"uid": "other"}})
            await plane.client.delete(Pod, "web", "default", uid=made.metadata.uid)

        run(check)

    def test_an_eviction_binds_to_a_version(self, run: Run) -> None:
        """Of a pod that waits, too, for which no budget is asked."""

        async def check(plane: Plane) -> None:
            made = await plane.client.create(pod())
            known = made.metadata.resource_version
            seen = await plane.client.patch(Pod, "web", "default", merge={"metadata": {"labels": {"a": "b"}}})
            version = seen.metadata.resource_version
            with pytest.raises(Conflict) as caught:
                await plane.client.evict("web", "default", resource_version=known)
            assert str(caught.value) == (
                'Operation cannot be fulfilled on Pod "web": the ResourceVersion in the precondition'
                f" ({known}) does not match the ResourceVersion in record ({version})."
                " The object might have been modified"
            )
            assert not (await plane.client.get(Pod, "web", "default")).deleting
            await plane.client.evict("web", "default", resource_version=version)

        run(check)

    def test_pods_stop_gracefully(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            await running(plane, "web")
            await client.delete(Pod, "web", "default")
            stopping = await client.get(Pod, "web", "default")
            assert (stopping.deleting, stopping.metadata.deletion_grace_period_seconds) == (True, 30)
            await client.delete(Pod, "web", "default", grace_period_seconds=60)
            assert await client.get(Pod, "web", "default") == stopping
            await client.delete(Pod, "web", "default", grace_period_seconds=5)
            hurried = await client.get(Pod, "web", "default")
            assert hurried.metadata.deletion_grace_period_seconds == 5
            assert hurried.metadata.deletion_timestamp < stopping.metadata.deletion_timestamp
            await client.delete(Pod, "web", "default", grace_period_seconds=0)
            assert (await client.list(Pod)).items == ()

        run(check)

    @pytest.mark.parametrize("state", ["pending", "done"])
    def test_pods_without_running_containers_go_at_once(self, run: Run, state: str) -> None:
        async def check(plane: Plane) -> None:
            if state == "pending":
                await plane.client.create(pod())
            else:
                await running(plane, "web")
                merge = {"status": {"phase": "Succeeded"}}
                await plane.client.patch(Pod, "web", "default", merge=merge, status=True)
            await plane.client.delete(Pod, "web", "default")
            assert (await plane.client.list(Pod)).items == ()

        run(check)

    def test_a_pod_is_bound_once(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(pod())
            await plane.client.bind("web", "default", "n1")
            bound = await plane.client.get(Pod, "web", "default")
            assert bound.spec.node_name == "n1"
            assert [(item.type, item.status) for item in bound.status.conditions] == [
                ("PodScheduled", "True")
            ]
            with pytest.raises(Conflict, match='pod web is already assigned to node "n1"'):
                await plane.client.bind("web", "default", "n2")

        run(check)

    def test_a_pods_spec_is_fixed(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(pod())
            with pytest.raises(Invalid, match="pod updates may not change fields other than"):
                await plane.client.patch(Pod, "web", "default", merge={"spec": {"nodeName": "n2"}})

        run(check)

    def test_rules_on_nodes_are_narrowed_in_the_write_that_takes_the_last_gate(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            zone = SelectorRequirement(key="zone", operator="In", values=("a",))
            terms = (NodeSelectorTerm(match_expressions=(zone,)),)
            required = NodeAffinity(required=NodeSelector(node_selector_terms=terms))
            bare, gates = pod(), (SchedulingGate(name="dovetail.dev/on-demand"),)
            spec = replace(bare.spec, scheduling_gates=gates, affinity=Affinity(node_affinity=required))
            meta = replace(bare.metadata, annotations={"dovetail.dev/on-demand": "1"})
            made = await plane.client.create(replace(bare, metadata=meta, spec=spec))
            after = tell_one(made, Siblings())
            told = await plane.client.patch(Pod, "web", "default", merge=patch(made, after))
            assert (told.spec.scheduling_gates, told.spec.affinity) == ((), after.spec.affinity)
            assert held(told)
            with pytest.raises(Invalid, match="pod updates may not change fields other than"):
                wide = {"spec": {"affinity": {"nodeAffinity": None}}}
                await plane.client.patch(Pod, "web", "default", merge=wide)

        run(check)

    def test_watch_reports_every_change_in_order(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            start = (await client.list(Pod)).resource_version
            early = client.watch(Pod, resource_version=start)
            waiting = asyncio.ensure_future(until_deleted(early))
            await asyncio.sleep(0)
            await running(plane, "web")
            await client.delete(Pod, "web", "default", grace_period_seconds=0)
            late = client.watch(Pod, resource_version=start)
            seen = await waiting
            # A server may report that the pod is about to go before it reports that it went.
            types = [event.type for event in seen if event.type != "MODIFIED" or not event.object.deleting]
            assert types == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
            assert [event.object for event in await until_deleted(late)] == [event.object for event in seen]
            versions = [int(event.resource_version) for event in seen]
            assert versions == sorted(versions)

        run(check)

    def test_a_watch_with_a_selector_sees_objects_come_and_go(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            start = (await client.list(Node)).resource_version
            watch = client.watch(Node, resource_version=start, labels="pool=a")
            await client.create(Node(metadata=Meta(name="x", labels={"pool": "b"})))
            for pool in ("a", "a", "b"):
                labels = {"pool": pool, "step": str(pool)}
                await client.patch(Node, "x", merge={"metadata": {"labels": labels}})
                await client.patch(Node, "x", merge={"metadata": {"annotations": {"a": pool}}})
            assert [event.type for event in await next_events(watch, 3)] == ["ADDED", "MODIFIED", "DELETED"]

        run(check)

    def test_a_watch_from_forgotten_history_expires(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(budget("b"))
            version = await plane.too_old()
            with pytest.raises(Expired):
                await anext(plane.client.watch(PodDisruptionBudget, resource_version=version))

        run(check)

    @pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
    def test_dependants_follow_their_owner(self, run: Run, propagation: Any) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            owner = await client.create(Node(metadata=Meta(name="owner")))
            await client.create(owned("child", owner))
            await caught_up(plane)
            await client.delete(Node, "owner", propagation=propagation)

            async def collected() -> None:
                with pytest.raises(NotFound):
                    await client.get(Node, "owner")
                left = [item.metadata.owner_references for item in (await client.list(Pod)).items]
                assert left == ([()] if propagation == "Orphan" else [])

            await plane.eventually(collected)

        run(check)

    def test_foreground_deletion_waits_for_blocking_dependants(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            owner = await client.create(Node(metadata=Meta(name="owner")))
            await client.create(owned("child", owner))
            await client.bind("child", "default", "n1")
            await client.delete(Node, "owner", propagation="Foreground")

            async def waiting() -> None:
                assert (await client.get(Pod, "child", "default")).deleting
                held = await client.get(Node, "owner")
                assert held.deleting and held.metadata.finalizers == ("foregroundDeletion",)

            async def over() -> None:
                with pytest.raises(NotFound):
                    await client.get(Node, "owner")

            await plane.eventually(waiting)
            await client.delete(Pod, "child", "default", grace_period_seconds=0)
            await plane.eventually(over)

        run(check)

    def test_a_dependant_with_another_owner_stays(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            client = plane.client
            one = await client.create(Node(metadata=Meta(name="one")))
            two = await client.create(Node(metadata=Meta(name="two")))
            references = (owned("c", owner).metadata.owner_references[0] for owner in (one, two))
            await client.create(pod("child", owner_references=tuple(references)))
            await client.delete(Node, "one")

            async def released() -> None:
                child = await client.get(Pod, "child", "default")
                assert [item.name for item in child.metadata.owner_references] == ["two"]

            await plane.eventually(released)

        run(check)

    def test_an_object_of_an_absent_owner_goes(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            ghost = Node(metadata=Meta(name="ghost", uid="0b0e0c5e-0000-4000-8000-000000000000"))
            await plane.client.create(owned("child", ghost))

            async def gone() -> None:
                assert (await plane.client.list(Pod)).items == ()

            await plane.eventually(gone)

        run(check)

    @pytest.mark.parametrize(
        ("spec", "ready", "allowed"),
        [
            ({"min_available": 1}, (True, True), True),
            ({"min_available": 2}, (True, True), False),
            ({"min_available": 1}, (True, False), False),
            ({"min_available": 0}, (True, True), True),
        ],
    )
    def test_evictions_keep_to_the_budget(
        self, run: Run, spec: dict[str, Any], ready: tuple[bool, ...], allowed: bool
    ) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(budget("b", **spec))
            for index, state in enumerate(ready):
                await running(plane, f"web-{index}", ready=state, labels={"app": "web"})
            await counted(plane, pods=len(ready), healthy=sum(ready))
            if allowed:
                await plane.client.evict("web-0", "default")
                assert (await plane.client.get(Pod, "web-0", "default")).deleting
            else:
                with pytest.raises(TooManyRequests) as caught:
                    await plane.client.evict("web-0", "default")
                text = "Cannot evict pod as it would violate the pod's disruption budget."
                assert str(caught.value) == text

        run(check)

    def test_one_eviction_uses_up_the_budget(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(budget("b", min_available=1))
            for index in range(2):
                await running(plane, f"web-{index}", labels={"app": "web"})
            await counted(plane, pods=2, healthy=2)
            await plane.client.evict("web-0", "default")
            with pytest.raises(TooManyRequests):
                await plane.client.evict("web-1", "default")

        run(check)

    @pytest.mark.parametrize("policy", ["IfHealthyBudget", "AlwaysAllow"])
    def test_unhealthy_pods(self, run: Run, policy: str) -> None:
        async def check(plane: Plane) -> None:
            await plane.client.create(budget("b", min_available=1, unhealthy_pod_eviction_policy=policy))
            await running(plane, "web", ready=False, labels={"app": "web"})
            await counted(plane, pods=1, healthy=0)
            if policy == "AlwaysAllow":
                await plane.client.evict("web", "default")
            else:
                with pytest.raises(TooManyRequests):
                    await plane.client.evict("web", "default")

        run(check)

    def test_two_budgets_are_too_many(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            for name in ("a", "b"):
                await plane.client.create(budget(name, min_available=0))
            await running(plane, "web", labels={"app": "web"})
            with pytest.raises(ApiError) as caught:
                await plane.client.evict("web", "default")
            assert caught.value.status == 500
            assert str(caught.value) == (
                "This pod has more than one PodDisruptionBudget,"
                " which the eviction subresource does not support."
            )

        run(check)

    def test_status_conditions_survive_the_round_trip(self, run: Run) -> None:
        async def check(plane: Plane) -> None:
            made = await running(plane, "web")
            ready = Condition(type="Ready", status="True")
            assert made.status.conditions == (ready,)

        run(check)
