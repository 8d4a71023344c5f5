"""What questions about the same types share of a pool's table, and what each has for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.cloud import catalog
from dovetail.model.arrays import Axis
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.instance import pool_table
from dovetail.solve.instance.pool_table import PoolTable

TYPES = tuple(
    kind for kind in catalog.instance_types("us-east-1") if kind.name in ("m5.large", "c5.large", "c6g.large")
)
AMD64 = Requirements.of([Requirement.new("kubernetes.io/arch", "In", ("amd64",))])
AXIS = Axis({"cpu", "memory", "pods"})


def pool(**changes: Any) -> Pool:
    return replace(Pool("general", NodeClassRef(group="g", kind="k", name="n"), AMD64, {}, TYPES), **changes)


def test_questions_about_the_same_types_share_their_arrays() -> None:
    one, two = PoolTable(pool(), 0, AXIS, 5), PoolTable(pool(weight=7), 3, AXIS, 9)
    assert sorted(kind.name for kind in one.types) == ["c5.large", "m5.large"]
    assert one.column_type is two.column_type and one.offerings is two.offerings
    assert (one.index, two.index, two.pool.weight) == (0, 3, 7)
    assert np.array_equal(two.price - one.price, np.full(len(one.offerings), 4))  # surcharges are its own
    with pytest.raises(ValueError, match="read-only"):
        one.capacity[0, 0] = 1


def test_types_that_were_replaced_are_not_kept_for_the_next_question() -> None:
    one = PoolTable(pool(), 0, AXIS, 0)
    new = (*TYPES,)
    other = PoolTable(pool(instance_types=new), 0, AXIS, 0)
    assert other.offerings is not one.offerings
    assert PoolTable(pool(instance_types=new), 0, AXIS, 0).offerings is other.offerings


def test_what_daemons_take_is_taken_from_one_table_alone() -> None:
    one, two = PoolTable(pool(), 0, AXIS, 0), PoolTable(pool(), 0, AXIS, 0)
    before = two.capacity.copy()
    one.reserve(np.full_like(before, 3))
    assert np.array_equal(one.capacity, before - 3) and np.array_equal(two.capacity, before)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"requirements": Requirements()}, {"cpu", "memory", "pods"}),
        ({"instance_types": TYPES[:1]}, {"cpu", "memory", "pods"}),
        ({}, {"cpu", "memory", "pods", "nvidia.com/gpu"}),
    ],
)
def test_another_question_is_answered_anew(changes: dict[str, Any], names: set[str]) -> None:
    known, other = PoolTable(pool(), 0, AXIS, 0), PoolTable(pool(**changes), 0, Axis(names), 0)
    assert (len(other.types), other.capacity.shape[1]) != (len(known.types), known.capacity.shape[1])


def test_offerings_that_draw_more_than_is_left_are_not_available_in_that_question_alone() -> None:
    drawing = tuple(
        replace(kind, offerings=tuple(replace(item, draws=(("vCPUs", 2),)) for item in kind.offerings))
        for kind in TYPES
    )
    given = pool(instance_types=drawing)
    plenty, short, later = (PoolTable(given, 0, AXIS, 0, {"vCPUs": left}) for left in (2, 1, 2))
    assert plenty.draws and len(plenty.offerings) == len(later.offerings) > 0
    assert short.offerings == []
    assert not PoolTable(pool(), 0, AXIS, 0, {"vCPUs": 1}).draws


def arch(number: int) -> Requirements:
    return Requirements.of([Requirement.new("kubernetes.io/arch", "In", ("amd64", f"other-{number}"))])


def test_what_follows_from_labels_is_worked_out_once_for_all_questions_about_the_same_types() -> None:
    one, two = PoolTable(pool(), 0, AXIS, 5), PoolTable(pool(), 0, AXIS, 9)
    zone = ("topology.kubernetes.io/zone",)
    assert one.usable(arch(1)) is two.usable(arch(1))
    assert one.domains(zone[0]) is two.domains(zone[0])
    fits, share = np.ones(len(one.types), np.bool_), np.ones(len(one.types))
    cheapest = [table.least(arch(1), zone, fits, share) for table in (one, two)]
    assert np.array_equal(
        cheapest[1] - cheapest[0], np.full(len(cheapest[0]), 4.0)
    )  # each with its own surcharge


def test_no_more_is_remembered_for_later_questions_than_a_table_may_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(PoolTable(pool(), 0, AXIS, 0).offerings)
    monkeypatch.setattr(pool_table, "TABLE", 40 * size)
    types = (*TYPES,)  # nothing is known of these yet
    one = PoolTable(pool(instance_types=types), 0, AXIS, 0)
    shared = one.known
    masks = [one.usable(arch(number)) for number in range(60)]
    assert len(shared) == 40 < len(one.known)
    assert all(one.usable(arch(number)) is mask for number, mask in enumerate(masks))
    later = PoolTable(pool(instance_types=types), 0, AXIS, 0)
    assert later.offerings is one.offerings and len(later.known) < 40
    assert np.array_equal(later.usable(arch(50)), masks[50])
