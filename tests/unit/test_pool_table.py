"""What questions about the same types share of a pool's table, and what each has for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dovetail.api.karpenter.nodepool import NodeClassRef
from dovetail.cloud import catalog
from dovetail.model.problem import Pool
from dovetail.model.requirement import Requirement, Requirements
from dovetail.solve.instance.arrays import Axis
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
