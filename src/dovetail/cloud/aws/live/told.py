"""What calls of AWS are told of as: by the names of the library that Karpenter is made with."""

from __future__ import annotations

import asyncio
from typing import Any

from dovetail.base.metrics import Metric, Metrics

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


class Told:
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
