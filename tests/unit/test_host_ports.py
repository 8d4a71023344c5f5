"""Host ports: which pods cannot share a node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.matching import port_clashes, ports_conflict
from dovetail.model.ports import HostPort

PORTS = st.builds(
    HostPort,
    st.sampled_from([80, 81, 443]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from(["", "10.0.0.1", "10.0.0.2"]),
)
MANY = st.lists(st.frozensets(PORTS, max_size=4).map(lambda some: tuple(sorted(some))), max_size=6)


@given(MANY)
def test_all_pairs_at_once_are_the_pairs_one_by_one(many: list[tuple[HostPort, ...]]) -> None:
    found = port_clashes(many)
    assert found.tolist() == [
        [any(a.conflicts(b) for a in one for b in other) for other in many] for one in many
    ]
    assert found.tolist() == [[ports_conflict(one, other) for other in many] for one in many]


def test_pods_with_thousands_of_ports_of_their_own_do_not_clash() -> None:
    many = [tuple(HostPort(1 + pod * 1000 + port) for port in range(1000)) for pod in range(60)]
    assert port_clashes(many).nonzero()[0].tolist() == list(range(60))  # each with its like alone
