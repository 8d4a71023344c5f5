"""What a simulation needs of a cloud besides what its controllers see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dovetail.api.karpenter.nodeclaim import NodeClaim
from dovetail.cloud.interruption import InterruptionKind, InterruptionQueue
from dovetail.cloud.provider import Instance, Provider

Part = tuple[str, Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Connection:
    """What one process of the controllers has of a cloud. `start` comes first, `run` goes on beside it."""

    provider: Provider
    queue: InterruptionQueue
    start: Callable[[], Awaitable[None]]
    run: Callable[[], Coroutine[Any, Any, None]]


class Cloud(Protocol):
    """Machines that come and go. `provider` is all that the controllers see of it."""

    @property
    def provider(self) -> Provider: ...

    @property
    def queue(self) -> InterruptionQueue: ...

    def on_asked(self, callback: Callable[[str, Sequence[Instance]], object], /) -> None:
        """Called when a launch is asked for, with the claim's name and the instances that run for it, as far
        as whoever asks can know that.
        """

    def on_started(self, callback: Callable[[Instance, NodeClaim], None], /) -> None:
        """Called once an instance came into being for a claim."""

    def on_terminated(self, callback: Callable[[Instance], None], /) -> None:
        """Called once such an instance is gone."""

    def on_rebooted(self, callback: Callable[[str], None], /) -> None:
        """Called with the provider id of an instance that reboots."""

    async def start(self) -> None:
        """Before anything else happens."""

    def parts(self) -> Iterable[Part]:
        """What happens in the cloud."""

    def upkeep(self) -> Iterable[Part]:
        """What has to run beside whoever uses `provider`."""

    async def list(self) -> Sequence[Instance]:
        """What there really is, in order of launch."""

    async def delete(self, provider_id: str, /) -> None:
        """The instance begins to end, without any notice."""

    def interrupt(self, provider_id: str, kind: InterruptionKind, /) -> None:
        """Something happens to the instance: a message comes through the queue, and then what it says."""

    def impair(self, provider_id: str, category: str, /) -> None:
        """From now on a status check of the instance fails, or an event is announced for it."""
