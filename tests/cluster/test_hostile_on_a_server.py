"""Hostile objects on a real API server: what it admits, and a controller that lives with all of it."""

from __future__ import annotations

from dovetail.testing.hostile import AUTHORS, Attack, attacks
from tests.cluster.hostile import refused, sweep
from tests.cluster.running import Controller, eventually
from tests.cluster.world import World, deployment, node_pool

ORDINARY = 20
# For each plan: beside all of the grammar one takes about as long as production gives it, and a machine that
# runs tests is busy with a control plane and more.
DEADLINE = {"SOLVE_DEADLINE": "10s"}
# What the log says of hostile objects above the level of information, and nothing besides.
EXPECTED = {
    "could not schedule pod",
    "object that cannot be read: it is left alone, all else goes on",
    "Reconciler error",
}


def served(world: World, app: str) -> None:
    """Bring ordinary pods, and see all of them run."""
    world.apply(deployment(world, app, ORDINARY))
    eventually(lambda: len(world.running(app)), lambda count: count == ORDINARY, seconds=120)


def ended_well(controller: Controller) -> None:
    """It is up and ready, and ends when asked to; its log has nothing that was not expected."""
    assert controller.asked("/healthz")[0] == 200
    status, text = controller.asked("/readyz")
    assert status == 200 and text.startswith("ok; ") and " cannot be read, such as " in text
    assert controller.stop() == 0
    said = {line["message"] for line in controller.lines() if line["level"] not in ("DEBUG", "INFO")}
    assert said <= EXPECTED


def test_admitted_as_the_grammar_says(world: World) -> None:
    """What the API server refuses is no attack."""
    found = attacks()
    try:
        assert refused(world, found) == {}
    finally:
        sweep(world, found)


def test_ordinary_pods_are_served_beside_all_of_it(world: World) -> None:
    """The controller meets them as they come, and once more as a new process that lists all of them."""
    found: tuple[Attack, ...] = tuple(one for author in AUTHORS for one in attacks(author) if one.admitted)
    world.apply(node_pool(world))
    try:
        with world.controller(**DEADLINE) as controller:
            refused(world, found)
            served(world, "beside")
            ended_well(controller)
        with world.controller(**DEADLINE) as controller:
            served(world, "after")
            ended_well(controller)
    finally:
        sweep(world, found)
