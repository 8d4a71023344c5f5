"""How a call reaches AWS, and what its failure becomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own root of what never reached AWS
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

from dovetail.base.metrics import Metrics
from dovetail.cloud.aws.errors import UNREACHABLE, UNREADABLE, AwsError
from dovetail.cloud.aws.live.told import Told

# Long polling takes 20 s; anything that takes longer than this has failed.
_PATIENCE = 30
_ATTEMPTS = 3
_CONNECTIONS = 50
Answer = dict[str, Any]
# Returns while changes are allowed; until then it waits.
Gate = Callable[[], Awaitable[None]]
# How the methods begin that change nothing; receiving a message only hides it for a while.
_READING = ("describe_", "get_", "list_", "receive_")
_FAILURES = (BotoCoreError, ClientError, ResponseParserError)


class Calls:
    """Clients of one session, each made when it is first asked for."""

    def __init__(
        self,
        session: AioSession,
        region: str,
        endpoint: str,
        stack: AsyncExitStack,
        metrics: Metrics | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.region = region
        self._told = Told(metrics) if metrics is not None else None
        self._session = session
        self._endpoint = endpoint or None
        self._gate = gate
        self._stack = stack
        self._clients: dict[tuple[str, str], Any] = {}

    async def call(self, service: str, method: str, *, region: str = "", **parameters: Any) -> Answer:
        """One call; `method` such as "create_fleet". Raises AwsError."""
        client = await self._client(service, region)
        if self._gate is not None and not method.startswith(_READING):
            await self._gate()
        try:
            answer: Answer = await getattr(client, method)(**parameters)
        except _FAILURES as error:
            raise _translated(method, error) from error
        return answer

    async def pages(
        self, service: str, method: str, key: str, size: int, *, region: str = "", **parameters: Any
    ) -> AsyncIterator[Any]:
        """Everything under `key` of all pages of `size`. Raises AwsError."""
        client = await self._client(service, region)
        config = {"PageSize": size} if size else {}
        try:
            pages = client.get_paginator(method).paginate(PaginationConfig=config, **parameters)
            async for page in pages:
                for item in page.get(key, ()):
                    yield item
        except _FAILURES as error:
            raise _translated(method, error) from error

    async def _client(self, service: str, region: str) -> Any:
        key = service, region or self.region
        if key not in self._clients:
            config = AioConfig(
                retries={"mode": "standard", "max_attempts": _ATTEMPTS},
                read_timeout=_PATIENCE,
                max_pool_connections=_CONNECTIONS,
                user_agent_extra="dovetail",
            )
            made = self._session.create_client(
                service, region_name=key[1], endpoint_url=self._endpoint, config=config
            )
            client = await self._stack.enter_async_context(made)
            if self._told is not None:
                self._told.listen(client)
            self._clients[key] = client
        return self._clients[key]


def _translated(method: str, error: Exception) -> AwsError:
    action = "".join(word.capitalize() for word in method.split("_"))
    if isinstance(error, ClientError):
        told = error.response.get("Error", {})
        return AwsError(action, str(told.get("Code", "Unknown")), str(told.get("Message", error)))
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return AwsError(action, "NoCredentials", str(error))
    if isinstance(error, (HTTPClientError, ConnectionError)):
        return AwsError(action, UNREACHABLE, str(error))
    if isinstance(error, ResponseParserError):
        # Something in between answered, such as a proxy with a page of its own.
        return AwsError(action, UNREADABLE, str(error).splitlines()[0])
    return AwsError(action, type(error).__name__, str(error))
