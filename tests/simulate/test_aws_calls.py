"""How few calls to AWS a launched node and an idle hour take, with all controllers."""

from __future__ import annotations

from benchmarks.aws_calls import burst, idle


def test_a_burst_of_nodes_takes_few_calls_besides_one_tagging_each() -> None:
    found = burst(50)
    assert found.calls["ec2:CreateFleet"] <= 2
    assert found.calls["ec2:CreateTags"] == 50
    assert found.total - found.calls["ec2:CreateTags"] <= 40


def test_an_idle_hour_takes_as_many_calls_with_many_nodes_as_with_few() -> None:
    few, many = idle(5), idle(100)
    assert few.total <= many.total <= few.total + 15
    # Long polls of the queue, and a look every minute at instances, their status and free addresses.
    assert many.calls["sqs:ReceiveMessage"] <= 180
    assert many.total - many.calls["sqs:ReceiveMessage"] <= 300
