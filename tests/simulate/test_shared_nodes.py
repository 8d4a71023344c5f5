"""What follows from a node is worked out once: questions share the nodes that stayed as they were."""

from __future__ import annotations

from operated import Operated, play, pod, pool

from dovetail.base.clock import MINUTE
from dovetail.model.plan import Plan
from dovetail.model.problem import Problem
from dovetail.testing.guests import node_class


def test_a_node_that_stayed_as_it_was_is_the_same_value_in_the_next_question() -> None:
    asked: list[Problem] = []

    def note(problem: Problem, _: Plan) -> None:
        asked.append(problem)

    async def script(world: Operated) -> None:
        world.create(node_class(), pool(disruption={"consolidateAfter": "Never"}))
        for name in ("first", "second", "third", "fourth"):
            world.create(pod(name, "3"))  # fills a node
            await world.clock.sleep(3 * MINUTE)

    play(script, on_plan=note)
    third, fourth = ({node.pods[0].metadata.name: node for node in problem.nodes} for problem in asked[-2:])
    assert sorted(fourth) == ["first", "second", "third"]
    assert sorted(third) == ["first", "second"]
    assert all(fourth[name] is node for name, node in third.items())
