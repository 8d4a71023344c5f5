"""Which pods of a large cluster get the node that they prefer: those whose search comes past it.

`tests/cluster/test_sampling_on_a_server.py` plays this on the real scheduler, one node at a time and in the
order of its list, `test_sampling.py` here on the simulated one. Each pod prefers one node to all others, so
that whether it gets it says whether it looked there. Pods may go to two of three nodes.
"""

from __future__ import annotations

from random import Random
from typing import Any

Document = dict[str, Any]

NODES, PODS = 300, 120
_PLACE, _FIT = "tests/place", "tests/fit"
_PREFERRED = tuple(Random(7).choices([number for number in range(NODES) if number % 3], k=PODS))
# Of each pod, in order: 1 if it got the node that it prefers. Recorded from kube-scheduler 1.36.3.
GOT = (
    "101110001101111101101110111101011110111100111001110111110100"
    "110010110001111101001110011101111011111111011111000110111101"
)


def node(number: int) -> Document:
    """First those of zone c come, then twice as many of zone a, then three times as many of zone b."""
    zone = "caabbb"[number * 6 // NODES]
    room = {"cpu": "64", "memory": "256Gi", "pods": "200"}
    tags = {_PLACE: str(number), "topology.kubernetes.io/zone": zone}
    if number % 3:
        tags[_FIT] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number:03}", "labels": tags},
        "status": {"capacity": room, "allocatable": room},
    }


def pod(number: int) -> Document:
    """It minds no taint, as the machines of the nodes never report."""
    place = {"key": _PLACE, "operator": "In", "values": [str(_PREFERRED[number])]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [place]}}]
    requests = {"cpu": "10m", "memory": "10Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number:03}", "uid": f"p{number}"},
        "spec": {
            "containers": [
                {"name": "main", "image": "registry.k8s.io/pause:3.7", "resources": {"requests": requests}}
            ],
            "nodeSelector": {_FIT: "true"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        },
    }


def got(places: dict[str, str]) -> str:
    """Of the node of each pod, as GOT says it."""
    wanted = ((f"p{number:03}", f"n{place:03}") for number, place in enumerate(_PREFERRED))
    return "".join(str(int(places[name] == place)) for name, place in wanted)
