"""`dovetail plan`: what would be bought for these manifests."""

from __future__ import annotations

from dovetail.cli import plan_output
from dovetail.cli.question import Output, Question, answered, explaining, show
from dovetail.cli.run_environment import Bool
from dovetail.explain.pod import nearest_misses
from dovetail.explain.spot_diversity import diversity_cost
from dovetail.simulate.scheduler.forecast import forecast


def plan(*, question: Question, nominate_pods: Bool = "true", output: Output = "table") -> None:
    """Show which nodes would be bought for these manifests, with the solver that the controller uses.

    The manifests hold at least one NodePool and, with --region, the EC2NodeClass that it names. Every pod
    without a node is pending. Deployments, StatefulSets, ReplicaSets and Jobs count with all the pods that
    they ask for and that are not among the manifests, CronJobs with one run, DaemonSets as overhead of every
    node. Nodes and NodeClaims are filled first. Nothing is changed anywhere.

    Examples: `dovetail plan -f manifests/ --region ap-northeast-2`,
    `dovetail plan -f pool.yaml app.yaml --instance-types types.json -o json`,
    `kubectl get nodes,pods,daemonsets,nodeclaims,nodepools,ec2nodeclasses -A -o json > cluster.json` and then
    `dovetail plan -f cluster.json more.yaml --region us-east-1`.

    It tells as well what the plan comes to once kube-scheduler has placed the pods, which it does one by one,
    while the nodes come up: the scheduler's filters, scores and nominations are played up to five times.

    Parameters
    ----------
    nominate_pods
        Whether the controller nominates pods to their nodes, which makes plans come true (its flag of that
        name).
    output
        table for people; json or yaml with every detail for programs.
    """
    problem = question.problem()
    answer, elapsed = answered(problem, question.longest())
    nearest = nearest_misses(problem, answer, explaining(question.longest()))
    diversity = diversity_cost(problem, answer)
    placed = forecast(problem, answer, nominate=nominate_pods == "true", over=explaining(question.longest()))
    show(
        plan_output.tables(answer, nearest, diversity, placed),
        plan_output.document(answer, elapsed, nearest, diversity, placed),
        output,
    )
