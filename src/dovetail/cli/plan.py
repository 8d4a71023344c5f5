"""`dovetail plan`: what would be bought for these manifests."""

from __future__ import annotations

from dovetail.cli import plan_output
from dovetail.cli.question import Output, Question, answered, explaining, show
from dovetail.solve.diversity import diversity_cost
from dovetail.solve.explain.pod import nearest_misses


def plan(*, question: Question, output: Output = "table") -> None:
    """Show which nodes would be bought for these manifests, with the solver that the controller uses.

    The manifests hold at least one NodePool and, with --region, the EC2NodeClass that it names. Every pod
    without a node is pending. Deployments, StatefulSets, ReplicaSets and Jobs count with all the pods that
    they ask for and that are not among the manifests, CronJobs with one run, DaemonSets as overhead of every
    node. Nodes and NodeClaims are filled first. Nothing is changed anywhere.

    Examples: `dovetail plan -f manifests/ --region ap-northeast-2`,
    `dovetail plan -f pool.yaml app.yaml --instance-types types.json -o json`,
    `kubectl get nodes,pods,daemonsets,nodeclaims,nodepools,ec2nodeclasses -A -o json > cluster.json` and then
    `dovetail plan -f cluster.json more.yaml --region us-east-1`.

    Parameters
    ----------
    output
        table for people; json or yaml with every detail for programs.
    """
    problem = question.problem()
    answer, elapsed = answered(problem, question.longest())
    nearest = nearest_misses(problem, answer, explaining(question.longest()))
    diversity = diversity_cost(problem, answer)
    show(
        plan_output.tables(answer, nearest, diversity),
        plan_output.document(answer, elapsed, nearest, diversity),
        output,
    )
