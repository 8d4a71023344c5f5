"""Rounds that would only repeat the one before: the same question, to which nothing was bought.

Pods that nothing can be bought for trigger a round every 10 s, and so does every node that drains, whose pods
may long have a place elsewhere. A plan is a function of its Problem, so as long as the Problem stays the same
there is no point in solving it again. Problems are compared by value:
whatever the solver could read is compared, and no code has to remember to say that it changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from msgspec import structs

from dovetail.api.core import Pod
from dovetail.api.meta import Meta
from dovetail.api.workloads import DaemonSet
from dovetail.model.plan import Plan
from dovetail.model.problem import ExistingNode, Problem

_Templated = TypeVar("_Templated", Pod, DaemonSet)


class Leftover:
    """The last plan, kept only if it bought nothing, with the Problem it answers."""

    def __init__(self) -> None:
        self._last: tuple[Problem, Plan] | None = None

    def recall(self, problem: Problem) -> Plan | None:
        """The answer to the same question, if it was the last one and nothing had to be bought."""
        if self._last is not None and same_question(self._last[0], problem):
            return self._last[1]
        return None

    def keep(self, problem: Problem, plan: Plan) -> None:
        """Remember a plan that was made; one that buys changes the cluster and is forgotten.

        So is one that there was no time for: the next may have a place for pods that were not looked at.
        """
        self._last = None if plan.claims or plan.untried else (problem, plan)


def same_question(one: Problem, other: Problem) -> bool:
    """True iff both Problems have the same plan: all is equal but what only says how pods are doing.

    Costs a walk over nodes and pods; objects that are the very same are not looked into.
    """
    return (
        _alike(one.pods, other.pods)
        and one.pools == other.pools
        and len(one.nodes) == len(other.nodes)
        and all(_alike_nodes(*pair) for pair in zip(one.nodes, other.nodes, strict=True))
        and _alike(one.daemonsets, other.daemonsets)
        and replace(one, pods=(), pools=(), nodes=(), daemonsets=())
        == replace(other, pods=(), pools=(), nodes=(), daemonsets=())
    )


def _alike_nodes(one: ExistingNode, other: ExistingNode) -> bool:
    return _alike(one.pods, other.pods) and replace(one, pods=()) == replace(other, pods=())


def _alike(some: tuple[_Templated, ...], others: tuple[_Templated, ...]) -> bool:
    return len(some) == len(others) and all(
        one is other or (one.spec == other.spec and _same_meta(one.metadata, other.metadata))
        for one, other in zip(some, others, strict=True)
    )


def _same_meta(one: Meta, other: Meta) -> bool:
    """Every write changes the version, also one of the status, which no plan depends on."""
    return structs.replace(one, resource_version=other.resource_version) == other
