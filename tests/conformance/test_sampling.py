"""The simulated scheduler looks at the nodes of a large cluster that the real one looks at."""

from __future__ import annotations

from dovetail.api.codec import decode
from dovetail.api.core import Node, Pod
from dovetail.model.scores import total_scores
from dovetail.simulate.scheduler.cluster import Cluster
from dovetail.simulate.scheduler.feasible import Feasibility, Nominations
from tests.conformance import sampling_cases as cases


def test_pods_get_the_node_that_they_prefer_where_the_real_one_gives_it_to_them() -> None:
    cluster = Cluster()
    for number in range(cases.NODES):
        cluster.set_node(decode(cases.node(number), Node))
    feasibility = Feasibility(cluster, Nominations(cluster.view))
    places = {}
    for number in range(cases.PODS):
        pod = decode(cases.pod(number), Pod)
        nodes = feasibility.judge(pod).nodes
        scores = total_scores(pod, nodes, cluster.occupancy)
        places[pod.metadata.name] = best = nodes[scores.index(max(scores))].name
        cluster.bind(pod, best)
    assert cases.got(places) == cases.GOT
    assert 0.6 < cases.GOT.count("1") / cases.PODS < 0.8  # 144 of the 200 that may take them
