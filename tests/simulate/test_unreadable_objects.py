"""Objects that cannot be read cost themselves: ordinary pods get nodes, and nothing is terminated."""

from __future__ import annotations

import asyncio
from typing import Any

from operated import START, Operated, pod, pool

from dovetail.api.core import Node, Pod
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.meta import Object
from dovetail.base.clock import MINUTE, SECOND
from dovetail.kube.informer import Informer
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class


def poison(world: Operated, kind: type[Object], name: str, namespace: str = "", **spec: Any) -> None:
    """Let an object be as its kind refuses it, past all admission."""
    document = world.server.record(kind, name, namespace).document
    bad = {**document, "spec": {**document["spec"], **spec}}
    world.server._commit(kind, (namespace, name), bad)


def test_unreadable_objects_cost_themselves() -> None:
    async def main(clock: VirtualClock) -> None:
        world = Operated(clock)
        world.start()
        world.create(node_class(), pool(), pod("first"), pod("second"))
        await clock.sleep(3 * MINUTE)
        bound = world.server.record(Pod, "first", "default").view
        claim = world.server.list(NodeClaim)[0].view
        world.create(pod("waiting", nodeSelector={"kubernetes.io/arch": "arm64"}))
        poison(world, NodeClaim, claim.metadata.name, requirements=3)
        poison(world, Pod, "first", "default", tolerations="all")
        poison(world, Pod, "waiting", "default", tolerations="all")
        instances = {item.provider_id for item in await world.cloud.list()}
        # Begun anew, it has never seen the last readable versions.
        await world.restart()
        world.create(*(pod(f"late-{number}") for number in range(4)))
        await clock.sleep(10 * MINUTE)
        late = {record["pod"] for record in world.records("pod.bound") if "late" in str(record["pod"])}
        assert len(late) == 4
        assert instances <= {item.provider_id for item in await world.cloud.list() if not item.terminating}
        shown = world.state.get(Pod, "default/first")
        assert shown is not None and shown.spec.node_name == bound.spec.node_name
        assert world.state.get(Pod, "default/waiting") is None
        named = {record["object"] for record in world.records("object.unreadable")}
        assert named == {f"NodeClaim {claim.metadata.name}", "Pod default/first", "Pod default/waiting"}
        assert len(world.messages("Unreadable")) >= 3
        assert world.operator.watches.left_alone() == (
            f"nodeclaims: 1 cannot be read, such as {claim.metadata.name}; "
            "pods: 2 cannot be read, such as default/first"
        )
        poison(world, Node, bound.spec.node_name, taints="all")
        poison(world, Pod, "waiting", "default", tolerations=[])
        await clock.sleep(MINUTE)
        node = world.state.get(Node, bound.spec.node_name)
        assert node is not None and node.spec.unschedulable
        assert world.state.get(Pod, "default/waiting") is not None
        assert instances <= {item.provider_id for item in await world.cloud.list() if not item.terminating}
        await world.stop()

    run_virtual(main, start=START)


def test_an_informer_knows_what_it_cannot_read_until_it_is_mended_or_gone() -> None:
    async def main(clock: VirtualClock) -> None:
        world = Operated(clock)
        changes: list[tuple[str, str]] = []
        counts: list[int] = []
        informer: Informer[Pod] = Informer(
            world.client,
            Pod,
            lambda kind, item: changes.append((kind, item.key)),
            on_unreadable=lambda _, __: counts.append(len(informer.unreadable)),
        )
        names = ("listed", "mended", "gone")
        world.create(*(pod(name) for name in names))
        poison(world, Pod, "listed", "default", tolerations="all")
        listing = await world.client.list(Pod)
        assert [item.metadata.name for item in listing.items] == ["gone", "mended"]
        assert [item.key for item in listing.unreadable] == ["default/listed"]
        watching = asyncio.create_task(informer.run())
        await clock.sleep(SECOND)
        for name in ("mended", "gone"):
            poison(world, Pod, name, "default", tolerations="all")
        await clock.sleep(SECOND)
        assert sorted(informer.unreadable) == ["default/gone", "default/listed", "default/mended"]
        assert not informer.objects
        poison(world, Pod, "mended", "default", tolerations=[])
        world.server.delete(Pod, "gone", "default", grace_period_seconds=0)
        world.server.compact()
        await clock.sleep(MINUTE)
        assert sorted(informer.unreadable) == ["default/listed"]
        assert sorted(informer.objects) == ["default/mended"]
        assert changes == [
            ("ADDED", "default/gone"),
            ("ADDED", "default/mended"),
            ("DELETED", "default/mended"),
            ("DELETED", "default/gone"),
            ("ADDED", "default/mended"),
        ]
        assert counts[-1] == 1
        watching.cancel()

    run_virtual(main, start=START)
