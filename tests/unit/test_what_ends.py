"""What is kept of objects that are gone: of those that went while something was done about them, too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from dovetail.api.codec import decode
from dovetail.api.core import Namespace, Node, Pod
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.api.karpenter.nodepool import (
    ClaimTemplateSpec,
    NodeClaimTemplate,
    NodeClassRef,
    NodePool,
    NodePoolSpec,
)
from dovetail.api.meta import Meta
from dovetail.base.clock import HOUR, SECOND
from dovetail.base.errors import Unavailable
from dovetail.base.metrics import Metric, Metrics
from dovetail.cloud.aws.cache import Memo
from dovetail.cloud.aws.nodeclass.validation import Validator
from dovetail.cloud.aws.subnet import SubnetBook
from dovetail.cloud.provider import ResolvedSubnet
from dovetail.cluster.state import NOMINATION_WINDOW, State
from dovetail.controllers.brakes.brakes import BrakeOptions, Brakes
from dovetail.controllers.brakes.guard import TerminationGuard
from dovetail.controllers.context import Context
from dovetail.controllers.disruption.metrics import ALLOWED, CONSUMING, DisruptionMetrics
from dovetail.controllers.disruption.podevents import PodEvents
from dovetail.controllers.nodeclaim.tag import NodeClaimTagging
from dovetail.controllers.panics import Panics
from dovetail.controllers.prices import Prices
from dovetail.controllers.provisioning.provision import Offers
from dovetail.controllers.provisioning.realised import Realised
from dovetail.disrupt.confirmation import token
from dovetail.kube.informer import Informer
from dovetail.kube.memory import MemoryServer
from dovetail.kube.recorder import Recorder
from dovetail.model.plan import PlannedClaim
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirements
from dovetail.runtime.metrics.memory import MemoryMetrics
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.census import leftovers
from dovetail.testing.guests import node_class
from dovetail.testing.life import Quiet

CLAIM = decode(
    {
        "metadata": {"name": "claim", "uid": "uid-of-claim", "resourceVersion": "1"},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {
            "providerID": "aws:///a/i-1",
            "nodeName": "node",
            "conditions": [{"type": "Registered", "status": "True"}],
        },
    },
    NodeClaim,
)
NODE = decode({"metadata": {"name": "node"}, "spec": {"providerID": "aws:///a/i-1"}}, Node)


def tools(clock: VirtualClock, **ports: Any) -> Context:
    """What a controller works with; a client and a provider that do what a test wants."""
    log, metrics = Quiet(), MemoryMetrics()
    client = MemoryServer(clock).client()
    state = State(client, clock)
    recorder = Recorder(client, clock)
    return Context(
        ports.get("client", client),
        ports.get("provider"),  # type: ignore[arg-type]  # not asked, or what the test needs of it
        clock,
        log,
        state,
        recorder,
        metrics,
        Brakes(BrakeOptions(), clock, state),
        Panics(log, metrics, recorder, strict=True),
    )


def kept(*roots: object, name: str = "claim") -> list[str]:
    gone = {name: "", "uid-of-claim": ""}
    return [item.place for item in leftovers({"here": roots}, gone)]


def test_a_nomination_of_what_is_gone_already_ends() -> None:
    async def script(clock: VirtualClock) -> None:
        state = tools(clock).state
        state.nominate("gone")
        state.nominate("stays")
        await clock.sleep(NOMINATION_WINDOW - SECOND)
        state.nominate("stays")
        await clock.sleep(SECOND)
        state.nominate("another")
        assert kept(state, name="gone") == []
        assert kept(state, name="stays") and kept(state, name="another")

    run_virtual(script)


def test_a_claim_that_goes_while_its_instance_is_marked_is_not_noted() -> None:
    async def script(clock: VirtualClock) -> None:
        async def mark(claim: NodeClaim, _: str) -> Mapping[str, str]:
            if claim.metadata.name == "claim":
                context.state.apply("DELETED", claim)
            return {}

        context = tools(clock, provider=SimpleNamespace(machines=SimpleNamespace(mark=mark)))
        tagging = NodeClaimTagging(context)
        context.state.apply("ADDED", CLAIM)
        await tagging.reconcile("claim")
        assert kept(tagging._marked) == []

    run_virtual(script)


def test_a_pod_event_that_could_not_be_written_goes_with_its_claim() -> None:
    async def script(clock: VirtualClock) -> None:
        async def patch(*_: object, **__: object) -> None:
            raise Unavailable("later")

        context = tools(clock, client=SimpleNamespace(patch=patch))
        events = PodEvents(context)
        task = asyncio.create_task(events.queue.run())
        for item in (CLAIM, NODE):
            context.state.apply("ADDED", item)
        pod = decode({"metadata": {"name": "pod"}, "spec": {"nodeName": "node"}}, Pod)
        context.state.apply("ADDED", pod)
        await clock.sleep(SECOND)
        assert kept(events._latest) and kept(events.queue)
        context.state.apply("DELETED", CLAIM)
        assert kept(events._latest, events.queue._due, events.queue._failures) == []
        task.cancel()

    run_virtual(script)


def test_instances_whose_end_was_confirmed_are_forgotten_once_they_are_gone() -> None:
    async def script(clock: VirtualClock) -> None:
        context = tools(clock)
        guard, found = TerminationGuard(context), [f"i-{number}" for number in range(20)]
        agreed = Brakes(BrakeOptions(confirmed=token(found)), clock, context.state)
        object.__setattr__(context, "brakes", agreed)
        assert await guard.kept(found, 20) == frozenset()
        assert await guard.kept(found[10:], 20) == frozenset()  # those that are left may go, too
        assert agreed.agreed == set(found[10:])
        assert await guard.kept([], 20) == frozenset()
        assert agreed.agreed == set()

    run_virtual(script)


def test_a_claim_that_went_while_others_were_bought_is_settled() -> None:
    async def script(clock: VirtualClock) -> None:
        realised = Realised(tools(clock))
        claim = PlannedClaim(
            *("general-0", "general", ("default/pod",), Requirements({}), ("m5.large",), {}),
            *("m5.large", "a", "spot", 1, 1),
        )
        realised.bought("plan", [("claim", claim)])
        assert kept(realised, name="claim") == kept(realised, name="pod") == []

    run_virtual(script)


def test_versions_of_deletions_end() -> None:
    async def script(clock: VirtualClock) -> None:
        server = MemoryServer(clock)
        changes: list[str] = []
        informer = Informer(
            server.client(), Namespace, lambda kind, item: changes.append(f"{kind} {item.key}")
        )
        task = asyncio.create_task(informer.run())
        for name in ("first", "second"):
            server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await clock.sleep(SECOND)
            server.delete(Namespace, name)
            await clock.sleep(SECOND)
            assert kept(informer._gone, name=name)
            await clock.sleep(HOUR)
        assert "DELETED first" in changes
        assert kept(informer._gone, name="first") == []
        task.cancel()

    run_virtual(script)


def test_prices_and_offers_of_a_pool_go_with_it() -> None:
    prices, offers = Prices(), Offers()
    reference = NodeClassRef(group="g", kind="k", name="default")
    pools = [Pool(name, reference, Requirements({}), {}, ()) for name in ("stays", "goes")]
    for pool in pools:
        prices.of(pool.name, pool.instance_types)
        offers.fault(pool, strict_min_values=False)
    prices.forget("goes")
    offers.keep_only(pools[:1])
    assert kept(prices, offers, name="goes") == []
    assert kept(prices, name="stays") and kept(offers, name="stays")


@pytest.mark.parametrize("metrics", [MemoryMetrics(), PrometheusMetrics()])
def test_all_series_of_a_pool_that_is_gone_end(metrics: MemoryMetrics | PrometheusMetrics) -> None:
    made = Metric("made_total", "counter", "Made.", ("zone", "nodepool"))
    took = Metric("took_seconds", "histogram", "Took.", ("nodepool",))
    other = Metric("other", "gauge", "Not about pools.", ("name",))
    port: Metrics = metrics
    for pool in ("stays", "goes"):
        port.add(made, nodepool=pool, zone="a")
        port.add(made, nodepool=pool, zone="b")
        port.observe(took, 1.0, nodepool=pool)
        port.set(other, 1, name=pool)
    port.forget("nodepool", "goes")
    found = leftovers({"metrics": [metrics]}, {"goes": ""})
    assert sum(item.count for item in found) == 1  # that of the other label
    port.add(made, nodepool="goes", zone="a")  # a new one of that name begins anew
    if isinstance(metrics, MemoryMetrics):
        assert metrics.value(made, nodepool="goes", zone="a") == 1
        assert metrics.value(made, nodepool="stays", zone="b") == 1


def test_subnets_that_no_class_has_any_more_are_forgotten() -> None:
    class Ec2:
        async def describe_subnets(self, _: object) -> list[Any]:
            return [
                SimpleNamespace(id="gone", free_addresses=10),
                SimpleNamespace(id="kept", free_addresses=10),
            ]

    async def script(clock: VirtualClock) -> None:
        book = SubnetBook(Ec2(), clock)  # type: ignore[arg-type]  # it is asked for subnets alone
        subnets = [ResolvedSubnet("gone", "a", "a1"), ResolvedSubnet("kept", "b", "b1")]
        promised = await book.choose(subnets, ("a", "b"), 3)
        book.full(("gone",))
        book.keep_only({"kept"})
        assert book.free("kept") == 10 and book.free("gone") is None
        book.settle(promised, 3, "", 1)
        book.keep_only({"kept"})
        assert kept(book, name="gone") == []

    run_virtual(script)


def test_what_was_found_of_a_class_goes_with_it() -> None:
    validator = Validator()
    document = node_class()
    for name in ("stays", "goes"):
        validator.faults(decode(document | {"metadata": {"name": name}}, EC2NodeClass))
    validator.forget("goes")
    assert kept(validator, name="goes") == [] and kept(validator, name="stays")

    async def script(clock: VirtualClock) -> None:
        memo = Memo(clock)

        async def answer() -> str:
            return "fine"

        for subject in ("goes", "stays"):
            await memo.get((subject, b"spec"), HOUR, answer)
        memo.forget_about("goes")
        assert kept(memo, name="goes") == [] and kept(memo, name="stays")

    run_virtual(script)


def test_a_pool_that_is_gone_has_no_gauges() -> None:
    metrics = PrometheusMetrics()
    figures = DisruptionMetrics(metrics, Quiet())
    template = NodeClaimTemplate(
        spec=ClaimTemplateSpec(node_class_ref=NodeClassRef(group="g", kind="k", name="default"))
    )
    made = NodePoolSpec(template=template)
    pools = [NodePool(metadata=Meta(name=name), spec=made) for name in ("stays", "goes")]
    figures.budgets(pools, (), 0)
    assert metrics.exposition().decode().count('nodepool="goes"') == 8
    figures.budgets(pools[:1], (), 0)
    text = metrics.exposition().decode()
    assert ALLOWED.name in text and CONSUMING.name in text and "goes" not in text
    assert leftovers({"figures": [figures], "metrics": [metrics]}, {"goes": "NodePool"}) == []


def test_questions_without_an_answer_are_swept_too() -> None:
    async def script(clock: VirtualClock) -> None:
        memo = Memo(clock)

        async def fails() -> str:
            raise ValueError("no answer")

        async def answers() -> str:
            await asyncio.sleep(1)
            return "answer"

        with pytest.raises(ValueError, match="no answer"):
            await memo.get("never-answered", HOUR, fails)
        asked = asyncio.create_task(memo.get("under-way", HOUR, answers))
        await asyncio.sleep(0)
        memo.sweep(HOUR)
        assert leftovers({"memo": [memo]}, {"never-answered": ""}) == []
        assert await asked == "answer"  # its lock was in use, and stayed

    run_virtual(script)
