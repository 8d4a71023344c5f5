"""A question of disruption that raises costs its own nodes only: the others are disrupted all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operated import START, Operated, pool, replicas

from dovetail.api.core import Node
from dovetail.api.karpenter.nodepool import NodePool
from dovetail.base.clock import HOUR, MINUTE
from dovetail.base.errors import PlannerFailed
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.runtime.operator import Ports
from dovetail.runtime.planning.inline import InlinePlanner
from dovetail.simulate.time.clock import VirtualClock, run_virtual
from dovetail.testing.guests import node_class


class Poisoned(InlinePlanner):
    """Fails where pods named bad are to move, from when it is switched on."""

    error: Exception | None = None

    async def plan(self, problem: Problem, deadline: int) -> Plan:
        if self.error is not None and any("/bad" in item.key for item in problem.pods):
            raise self.error
        return await super().plan(problem, deadline)


class World(Operated):
    def ports(self) -> Ports:
        self.planner = Poisoned(self.clock)
        return replace(super().ports(), planner=self.planner, forgiving=True)


@pytest.mark.parametrize(
    "error", [PlannerFailed("the solver died"), ValueError("a bug")], ids=["failed", "bug"]
)
def test_nodes_are_replaced_beside_one_that_no_question_can_be_asked_about(error: Exception) -> None:
    async def main(clock: VirtualClock) -> World:
        world = World(clock)
        world.start()
        quiet = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
        # 3 vCPU each: a node of 4 vCPU has room for one.
        world.create(node_class(), pool(disruption=quiet), replicas("bad", 1, cpu="3"))
        await clock.sleep(5 * MINUTE)
        world.create(replicas("web", 2, cpu="3"))
        await clock.sleep(5 * MINUTE)
        world.planner.error = error
        merge = {"spec": {"template": {"metadata": {"labels": {"generation": "new"}}}}}
        await world.client.patch(NodePool, "general", merge=merge)
        await clock.sleep(2 * HOUR)
        return world

    world = run_virtual(main, start=START)
    old = [node for node in world.state.all(Node) if "generation" not in node.metadata.labels]
    assert len(old) == 1
    assert any(
        pod.metadata.name.startswith("bad") for node in old for pod in world.state.pods_on(node.metadata.name)
    )
    (about,) = {node.metadata.name for node in old}
    failures = [
        record for record in world.records("plan.failed") if f"about {about}:" in str(record["message"])
    ]
    assert len(failures) == 1  # once, however often it is asked
    assert str(error) in str(failures[0]["message"])
    assert any(str(error) in text for text in world.messages("DisruptionBlocked"))
