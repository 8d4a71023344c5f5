"""How a call reaches AWS, what its failure becomes, and what is measured of it.

The metrics have the names of the library that Karpenter is made with.
"""

from __future__ import annotations

import asyncio
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

from dovetail.base.metrics import Metric, Metrics
from dovetail.cloud.aws.errors import UNREACHABLE, UNREADABLE, AwsError

_BY = ("service", "action", "code")
_SECONDS = tuple(round(0.01 * 1.5**power, 6) for power in range(20))
REQUESTS = Metric("aws_sdk_go_request_total", "counter", "Calls of AWS.", _BY)
DURATION = Metric(
    "aws_sdk_go_request_duration_seconds", "histogram", "How long calls of AWS took.", _BY, _SECONDS
)
RETRIES = Metric(
    "aws_sdk_go_request_retry_count",
    "histogram",
    "How often a call of AWS was repeated.",
    ("service", "action"),
    (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0),
)
ATTEMPTS = Metric(
    "aws_sdk_go_request_attempt_total", "counter", "Requests of calls of AWS, repeated ones too.", _BY
)
ATTEMPT = Metric(
    "aws_sdk_go_request_attempt_duration_seconds",
    "histogram",
    "How long requests of calls of AWS took.",
    _BY,
    _SECONDS,
)
_CALL, _TRY, _TRIED = "dovetail call", "dovetail try", "dovetail tried"
NO_ANSWER = "0"


class CallMetrics:
    """Listens to a botocore client. What it needs to remember of a call is in the call's own context."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._now = asyncio.get_running_loop().time  # seconds

    def listen(self, client: Any) -> None:
        """From now on."""
        events = client.meta.events
        events.register("before-call", self._begin)
        events.register("request-created", self._begin_try)
        events.register("response-received", self._end_try)
        service = str(client.meta.service_model.service_id)
        events.register("after-call", lambda **given: self._end(service, given))
        events.register("after-call-error", lambda **given: self._end(service, given))

    def _begin(self, context: dict[str, Any], **_: Any) -> None:
        context[_CALL], context[_TRIED] = self._now(), []

    def _begin_try(self, request: Any, **_: Any) -> None:
        request.context[_TRY] = self._now()

    def _end_try(self, context: dict[str, Any], response_dict: Any, **_: Any) -> None:
        code = str(response_dict["status_code"]) if response_dict else NO_ANSWER
        context[_TRIED].append((code, self._now() - context[_TRY]))

    def _end(self, service: str, given: dict[str, Any]) -> None:
        context, answer = given["context"], given.get("http_response")
        code = str(answer.status_code) if answer is not None else NO_ANSWER
        action = str(given["event_name"]).rpartition(".")[2]
        for tried, took in context[_TRIED]:
            self._metrics.add(ATTEMPTS, service=service, action=action, code=tried)
            self._metrics.observe(ATTEMPT, took, service=service, action=action, code=tried)
        took = self._now() - context[_CALL]
        self._metrics.add(REQUESTS, service=service, action=action, code=code)
        self._metrics.observe(DURATION, took, service=service, action=action, code=code)
        repeated = max(0, len(context[_TRIED]) - 1)
        self._metrics.observe(RETRIES, repeated, service=service, action=action)


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
        self._call_metrics = CallMetrics(metrics) if metrics is not None else None
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
            if self._call_metrics is not None:
                self._call_metrics.listen(client)
            self._clients[key] = client
        return self._clients[key]


def _translated(method: str, error: Exception) -> AwsError:
    action = "".join(word.capitalize() for word in method.split("_"))
    if isinstance(error, ClientError):
        body = error.response.get("Error", {})
        return AwsError(action, str(body.get("Code", "Unknown")), str(body.get("Message", error)))
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return AwsError(action, "NoCredentials", str(error))
    if isinstance(error, (HTTPClientError, ConnectionError)):
        return AwsError(action, UNREACHABLE, str(error))
    if isinstance(error, ResponseParserError):
        # Something in between answered, such as a proxy with a page of its own.
        return AwsError(action, UNREADABLE, str(error).splitlines()[0])
    return AwsError(action, type(error).__name__, str(error))
