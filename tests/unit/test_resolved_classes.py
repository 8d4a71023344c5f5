"""What classes stood for a moment ago: for that class, and for a moment."""

from __future__ import annotations

from dovetail.api.codec import decode
from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.cloud.aws.nodeclass.resolver import RECENT, Resolved
from dovetail.cloud.provider import NodeClassResolution
from dovetail.simulate.time.clock import VirtualClock, run_virtual


def _class() -> EC2NodeClass:
    return decode({"metadata": {"name": "default"}}, EC2NodeClass)


def test_an_answer_is_shared_for_a_moment_by_who_asks_for_that_very_class() -> None:
    async def script(clock: VirtualClock) -> None:
        known, one, changed = Resolved(clock), _class(), _class()
        assert (known.last("default"), known.node_class("default"), known.recent(one)) == (None, None, None)
        found = NodeClassResolution()
        known.note(one, found)
        assert known.recent(one) is found
        assert known.recent(changed) is None
        await clock.sleep(RECENT - 1)
        assert known.recent(one) is found
        await clock.sleep(1)
        assert known.recent(one) is None
        assert (known.last("default"), known.node_class("default")) == (found, one)

    run_virtual(script)
