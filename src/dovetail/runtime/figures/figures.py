"""All gauges about the cluster in one text, made a little at a time so that nothing else has to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dovetail.base.clock import SECOND
from dovetail.controllers.context import Context
from dovetail.runtime.figures.conditions import ConditionFigures
from dovetail.runtime.figures.nodes import NodeFigures
from dovetail.runtime.figures.pods import PodFigures
from dovetail.runtime.figures.pools import OfferFigures, PoolFigures
from dovetail.runtime.figures.scheduling import QueueFigures, SchedulingFigures

FRESH = 5 * SECOND
_AT_ONCE = 50  # pieces of text between two chances for others


class ClusterFigures:
    """What was made within the last five seconds is given again. `pods_and_nodes` False leaves those out."""

    def __init__(self, context: Context, *, pods_and_nodes: bool = True) -> None:
        self._clock = context.clock
        self._panics = context.panics
        self._parts: list[Callable[[], Iterator[str]]] = [
            PoolFigures(context).text,
            OfferFigures(context).text,
            QueueFigures(context).text,
            SchedulingFigures(context).text,
        ]
        if pods_and_nodes:
            self._parts += [
                ConditionFigures(context).text,
                NodeFigures(context).text,
                PodFigures(context).text,
            ]
        self._made: int | None = None
        self._text: Sequence[bytes] = ()

    async def text(self) -> Sequence[bytes]:
        """In Prometheus' text format: the parts in their order."""
        now = self._clock.now()
        if self._made is not None and now - self._made < FRESH:
            return self._text
        self._made = now
        pieces: list[bytes] = []
        some: list[str] = []
        for part in self._parts:
            with self._panics.alone("metrics", part.__qualname__):  # the others are written all the same
                for piece in part():
                    some.append(piece)
                    if len(some) >= _AT_ONCE:
                        pieces.append("".join(some).encode())
                        some.clear()
                        await self._clock.sleep(0)
        self._text = (*pieces, "".join(some).encode())
        return self._text
