"""Views of changed objects take over what the change left alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dovetail.api.codec import decode, decode_next
from dovetail.api.core import Node, Pod

POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "default", "labels": {"app": "a"}, "resourceVersion": "1"},
    "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1500m"}}}]},
    "status": {"phase": "Pending"},
}


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {**POD["metadata"], "resourceVersion": "2"}},
        {"metadata": {"name": "a", "namespace": "default", "resourceVersion": "2"}},
        {"status": {"phase": "Running", "startTime": "2026-03-02T21:00:00Z"}},
        {"spec": {**POD["spec"], "nodeName": "n1", "containers": [{"name": "b"}]}},
        {"spec": {"nodeName": "n1"}},
        {"kept": "for others"},
    ],
)
def test_the_view_of_a_change_is_the_one_that_a_whole_reading_gives(change: dict[str, Any]) -> None:
    view, document = decode(POD, Pod), {**POD, **change}
    found = decode_next(document, POD, view)
    assert found == decode(document, Pod)
    assert (found.spec is view.spec) == ("spec" not in change)


def test_a_part_that_is_gone_has_its_default_again() -> None:
    bare = {key: value for key, value in POD.items() if key != "status"}
    assert decode_next(bare, POD, decode(POD, Pod)) == decode(bare, Pod)


def test_capacity_is_not_read_again_for_a_heartbeat() -> None:
    status: dict[str, Any] = {"capacity": {"cpu": "4"}, "conditions": []}
    old = {"metadata": {"name": "n1"}, "status": status}
    beat = {**old, "status": {**status, "conditions": [{"type": "Ready", "status": "True"}]}}
    view = decode(old, Node)
    found = decode_next(beat, old, view)
    assert found == decode(beat, Node)
    assert found.status.capacity is view.status.capacity


def test_a_change_that_cannot_be_read_is_refused_with_its_path() -> None:
    broken = {**POD, "spec": {**POD["spec"], "nodeName": 5}}
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.nodeName"):
        decode_next(broken, POD, decode(POD, Pod))
