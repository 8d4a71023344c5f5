"""What is kept of objects that are gone: of pools, of questions that were never answered."""

from __future__ import annotations

import asyncio

import pytest

from dovetail.api.karpenter.nodepool import (
    ClaimTemplateSpec,
    NodeClaimTemplate,
    NodeClassRef,
    NodePool,
    NodePoolSpec,
)
from dovetail.api.meta import Meta
from dovetail.base.clock import HOUR
from dovetail.cloud.aws.nodeclass.memo import Memo
from dovetail.controllers.disruption.metrics import ALLOWED, CONSUMING, DisruptionMetrics
from dovetail.runtime.metrics.prometheus import PrometheusMetrics
from dovetail.simulate.clock import VirtualClock, run_virtual
from dovetail.testing.census import leftovers
from dovetail.testing.life import Quiet


def test_a_pool_that_is_gone_has_no_gauges() -> None:
    metrics = PrometheusMetrics()
    told = DisruptionMetrics(metrics, Quiet())
    template = NodeClaimTemplate(
        spec=ClaimTemplateSpec(node_class_ref=NodeClassRef(group="g", kind="k", name="default"))
    )
    made = NodePoolSpec(template=template)
    pools = [NodePool(metadata=Meta(name=name), spec=made) for name in ("stays", "goes")]
    told.budgets(pools, (), 0)
    assert metrics.exposition().decode().count('nodepool="goes"') == 6
    told.budgets(pools[:1], (), 0)
    text = metrics.exposition().decode()
    assert ALLOWED.name in text and CONSUMING.name in text and "goes" not in text
    assert leftovers({"told": [told], "metrics": [metrics]}, frozenset({"goes"})) == []


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
        assert leftovers({"memo": [memo]}, frozenset({"never-answered"})) == []
        assert await asked == "answer"  # its lock was in use, and stayed

    run_virtual(script)
